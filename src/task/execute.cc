#include "task/execute.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>

#include "table/run_tag.h"
#include "task/output_collector.h"
#include "task/resources.h"
#include "task/run_intent.h"
#include "task/shuffle.h"
#include "task/sort_setup.h"
#include "util/status.h"
#include "util/units.h"
#include "util/uuid.h"

namespace thalweg {
namespace {

/// Counts the rows that a source gives.
class CountedRows : public RowSource {
 public:
  explicit CountedRows(std::unique_ptr<RowSource> rows) : rows_(std::move(rows)) {}
  int64_t given() const { return given_; }
  const std::shared_ptr<arrow::Schema>& schema() const override { return rows_->schema(); }
  int num_parts() const override { return rows_->num_parts(); }
  int64_t num_rows() const override { return rows_->num_rows(); }
  int64_t encoded_bytes() const override { return rows_->encoded_bytes(); }
  bool rereadable() const override { return rows_->rereadable(); }
  std::string part_name(int part) const override { return rows_->part_name(part); }
  arrow::Result<std::unique_ptr<RowStream>> OpenPart(int part,
                                                     const std::vector<int>& columns) override {
    ARROW_ASSIGN_OR_RAISE(auto stream, rows_->OpenPart(part, columns));
    return std::make_unique<Stream>(std::move(stream), &given_);
  }

 private:
  class Stream : public RowStream {
   public:
    Stream(std::unique_ptr<RowStream> rows, std::atomic<int64_t>* given)
        : rows_(std::move(rows)), given_(given) {}
    arrow::Result<std::optional<RowBatch>> Next() override {
      ARROW_ASSIGN_OR_RAISE(auto batch, rows_->Next());
      if (batch) *given_ += batch->batch->num_rows();
      return batch;
    }

   private:
    const std::unique_ptr<RowStream> rows_;
    std::atomic<int64_t>* const given_;
  };
  const std::unique_ptr<RowSource> rows_;
  std::atomic<int64_t> given_{0};
};

}  // namespace

arrow::Result<Verify> ParseVerify(std::string_view text) {
  for (const Verify verify : {Verify::kCounts, Verify::kDigest, Verify::kFull}) {
    if (text == ToString(verify)) return verify;
  }
  return Usage("\"{}\" is no verification: use counts, digest or full", text);
}

std::string_view ToString(Verify verify) {
  switch (verify) {
    case Verify::kCounts:
      return "counts";
    case Verify::kDigest:
      return "digest";
    default:
      return "full";
  }
}

arrow::Result<std::vector<TaskEnvelope>> PrepareTasks(Table& table, const ClusteringSpec& spec,
                                                      const Layout& layout, const Plan& plan,
                                                      const PrepareOptions& prepare,
                                                      const ExecuteOptions& options) {
  ARROW_ASSIGN_OR_RAISE(auto selections, PrepareSelections(table, spec, layout, plan, prepare));
  std::vector<TaskEnvelope> tasks;
  for (size_t i = 0; i < selections.size(); ++i) {
    MemoryAccount memory(MemoryBudget(options));
    ARROW_ASSIGN_OR_RAISE(auto rows, table.Scan(selections[i].task.sources, table.snapshot_id(),
                                                ReadOptionsFor(options, &memory)));
    ARROW_ASSIGN_OR_RAISE(auto key_columns, KeyColumns(*rows->schema(), spec));
    ARROW_ASSIGN_OR_RAISE(auto fitted,
                          FitKeys(*rows, key_columns, spec.curve, spec.bits_per_dim, spec.algorithm,
                                  SortOptions(options, spec, &memory)));
    selections[i].task.task = static_cast<int>(tasks.size());
    ARROW_ASSIGN_OR_RAISE(auto selection, FitSelection(std::move(selections[i]), fitted,
                                                       std::max(1, plan.selections[i].tasks)));
    auto slices = selection.Tasks();
    std::move(slices.begin(), slices.end(), std::back_inserter(tasks));
  }
  return tasks;
}

arrow::Result<ResultEnvelope> ExecuteTask(Table& table, const TaskEnvelope& task,
                                          const ExecuteOptions& options,
                                          std::unique_ptr<RowSource> given) {
  const auto start = std::chrono::steady_clock::now();
  if (task.fitted.empty()) {
    return Invalid("task {}: its key model is missing (expected in {})", task.task,
                   task.fitted_file.empty() ? "the envelope" : task.fitted_file);
  }
  ARROW_ASSIGN_OR_RAISE(auto fitted, DeserializeFitted(task.fitted));
  ARROW_RETURN_NOT_OK(CheckSchema(table, task));
  MemoryAccount memory(MemoryBudget(options));
  const bool from_pieces = given != nullptr;
  std::unique_ptr<RowSource> source;
  if (from_pieces) {
    ARROW_ASSIGN_OR_RAISE(source, RowsOfPieces(table, task, std::move(given)));
  } else {
    ARROW_ASSIGN_OR_RAISE(
        source, table.Scan(task.sources, task.snapshot_id, ReadOptionsFor(options, &memory)));
  }
  CountedRows rows(std::move(source));
  ARROW_ASSIGN_OR_RAISE(auto key_columns, KeyColumns(*rows.schema(), task.spec));
  if (key_columns.size() != fitted.encoder.models().size()) {
    return Invalid("task {}: its key model has {} columns, its clustering {}", task.task,
                   fitted.encoder.models().size(), key_columns.size());
  }

  ResultEnvelope result;
  result.attempt_id = NewUuid();
  OutputContext context;
  context.run_id = task.run_id;
  context.task = task.task;
  context.attempt_id = result.attempt_id;
  context.spec = task.spec;
  context.memory = &memory;
  context.rewrite = true;
  OutputCollector collector(table, context, options.verify);

  ClusterSortOptions sort = SortOptions(options, task.spec, &memory);
  sort.target_file_bytes = task.target_file_bytes;
  sort.target_file_rows = task.target_file_rows;
  sort.hard_file_cap = task.target_file_rows > 0;
  sort.target_row_group_bytes = RowGroupBytes(task.target_row_group_bytes, memory);
  sort.key_begin = task.key_begin;
  sort.key_end = task.key_end;
  sort.input_observer = [&](const arrow::RecordBatch& batch) {
    return collector.ObserveInput(batch);
  };
  auto finish = [&]() -> arrow::Status {
    ARROW_ASSIGN_OR_RAISE(
        auto sorted,
        SortIntoFiles(
            rows, key_columns, fitted,
            [&](const FilePlacement& placement) { return collector.NewFile(placement); }, sort));
    result.spilled_bytes = sorted.spilled_bytes;
    if (from_pieces && collector.input_rows() != rows.given()) {
      return Invalid("task {}: {} of {} rows given are not of its slice", task.task,
                     FormatCount(rows.given() - collector.input_rows()), FormatCount(rows.given()));
    }
    ARROW_ASSIGN_OR_RAISE(result.outputs,
                          collector.Outputs(task.slices == 1 ? task.selection_rows : -1));
    return options.stop.Poll();
  };
  if (auto status = finish(); !status.ok()) {
    collector.DiscardAll();
    return status;
  }
  result.rows = collector.input_rows();
  result.from_pieces = from_pieces;
  result.input_digest = collector.InputDigest();
  result.output_digest = collector.OutputDigest();
  result.run = RecordRun(task.run_id, task.spec, fitted, result.outputs);
  result.task = task;
  result.task.fitted.clear();  // results travel without the model
  result.task.fitted_file.clear();
  result.peak_memory_bytes = PeakMemory();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

arrow::Result<ResultEnvelope> ExecuteTaskForCommit(Table& table, const TaskEnvelope& task,
                                                   const ExecuteOptions& options,
                                                   double orphan_age_seconds,
                                                   std::unique_ptr<RowSource> given) {
  ARROW_RETURN_NOT_OK(table.CheckWritable());
  ARROW_ASSIGN_OR_RAISE(auto intent, RunIntent::Begin(table, task.run_id, orphan_age_seconds));
  ARROW_ASSIGN_OR_RAISE(auto result, ExecuteTask(table, task, options, std::move(given)));
  intent->Keep();
  return result;
}

bool DiscardOutputs(Table& table, const std::vector<ResultEnvelope>& results) {
  std::vector<OutputUnit> units;
  for (const auto& result : results) {
    units.insert(units.end(), result.outputs.begin(), result.outputs.end());
  }
  return DiscardUnits(table, units);
}

bool DiscardUnits(const Table& table, const std::vector<OutputUnit>& units) {
  if (units.empty()) return true;
  const auto referenced = table.ReferencedFiles();
  if (!referenced.ok()) return false;
  bool all = true;
  for (const auto& unit : units) {
    if (!referenced->contains(unit.id)) all = table.DeleteFile(unit.id).ok() && all;
  }
  return all;
}

arrow::Result<DiscardReport> DiscardResults(Table& table,
                                            const std::vector<ResultEnvelope>& results) {
  ARROW_RETURN_NOT_OK(table.CheckWritable());
  std::map<std::string, std::vector<const ResultEnvelope*>> runs;
  for (const auto& result : results) {
    ARROW_RETURN_NOT_OK(CheckRunId(result.task.run_id));
    runs[result.task.run_id].push_back(&result);
  }
  ARROW_ASSIGN_OR_RAISE(const auto referenced, table.ReferencedFiles());
  DiscardReport report;
  for (const auto& [run_id, of_run] : runs) {
    // A result names its files itself: only names that carry the run are believed.
    ARROW_ASSIGN_OR_RAISE(const auto listed, table.FilesOfRun(table.TagOfRun(run_id)));
    std::map<std::string, int64_t> files;
    for (const auto& file : listed) {
      const bool intent =
          !RunTagOfRunFile(file.location.substr(file.location.rfind('/') + 1)).empty();
      if (!intent && !referenced.contains(file.location)) files.emplace(file.location, file.bytes);
    }
    for (const auto* result : of_run) {
      for (const auto& unit : result->outputs) {
        const auto found = files.find(unit.id);
        if (found == files.end()) {
          ++(referenced.contains(unit.id) ? report.committed : report.missing);
          continue;
        }
        ARROW_RETURN_NOT_OK(table.DeleteFile(unit.id));
        ++report.files;
        report.bytes += found->second;
        files.erase(found);
      }
    }
    ReleaseGivenUp(table, run_id, /*files_remain=*/!files.empty());
  }
  return report;
}

}  // namespace thalweg
