#include "task/execute.h"

#include <algorithm>
#include <chrono>
#include <numeric>

#include "task/output_collector.h"
#include "task/resources.h"
#include "task/run_intent.h"
#include "task/sort_setup.h"
#include "util/status.h"
#include "util/units.h"
#include "util/uuid.h"

namespace thalweg {
namespace {

int64_t TotalRows(const std::vector<UnitDescriptor>& units) {
  return std::accumulate(units.begin(), units.end(), int64_t{0},
                         [](int64_t sum, const auto& unit) { return sum + unit.rows; });
}

bool RowsAreExact(const std::vector<UnitDescriptor>& units) {
  return std::all_of(units.begin(), units.end(), [](const auto& unit) { return unit.rows_exact; });
}

/// The envelopes of one selection; `first_task` is the running number of its first.
arrow::Result<std::vector<TaskEnvelope>> PrepareSelection(Table& table, const ClusteringSpec& spec,
                                                          std::vector<UnitDescriptor> sources,
                                                          int slices, int first_task,
                                                          const PrepareOptions& prepare,
                                                          const ExecuteOptions& options) {
  MemoryAccount memory(MemoryBudget(options));
  ARROW_ASSIGN_OR_RAISE(auto rows,
                        table.Scan(sources, table.snapshot_id(), ReadOptionsFor(options, &memory)));
  ARROW_ASSIGN_OR_RAISE(auto key_columns, KeyColumns(*rows->schema(), spec));
  ARROW_ASSIGN_OR_RAISE(auto fitted, FitKeys(*rows, key_columns, spec.curve, spec.bits_per_dim,
                                             spec.algorithm, SortOptions(options, spec, &memory)));
  const int64_t live_rows = TotalRows(sources);
  if (fitted.rows > live_rows || (fitted.rows < live_rows && RowsAreExact(sources))) {
    return Invalid(
        "{}: the table's metadata counts {} live rows in the selected units, reading finds {}",
        table.name(), FormatCount(live_rows), FormatCount(fitted.rows));
  }
  ARROW_ASSIGN_OR_RAISE(auto schema, table.schema());
  TaskEnvelope task;
  task.table = table.name();
  task.snapshot_id = table.snapshot_id();
  task.spec = spec;
  task.run_id = prepare.run_id;
  task.selection_id = NewUuid();
  ARROW_ASSIGN_OR_RAISE(task.fitted, SerializeFitted(fitted));
  task.fitted_hash = FittedHash(task.fitted);
  task.schema_id = SchemaId(*schema);
  task.sources = std::move(sources);
  task.selection_rows = fitted.rows;
  task.target_file_bytes = prepare.target_file_bytes;
  int64_t bytes = 0;
  for (const auto& unit : task.sources) bytes += unit.bytes;
  task.target_file_rows =
      FileRows(fitted.rows, bytes, prepare.target_file_rows, prepare.target_file_bytes);
  task.target_row_group_bytes = prepare.target_row_group_bytes;

  const std::vector<Key128> borders = SliceBorders(fitted, slices);
  task.slices = static_cast<int>(borders.size()) + 1;
  std::vector<TaskEnvelope> tasks;
  for (int slice = 0; slice < task.slices; ++slice) {
    task.task = first_task + slice;
    task.slice = slice;
    task.key_begin = slice == 0 ? 0 : borders[slice - 1];
    task.key_end = slice + 1 == task.slices ? std::nullopt : std::optional(borders[slice]);
    tasks.push_back(task);
  }
  return tasks;
}

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
  std::vector<TaskEnvelope> tasks;
  for (const Selection& selection : plan.selections) {
    std::vector<std::string> ids;
    ids.reserve(selection.units.size());
    for (const int unit : selection.units) ids.push_back(layout.units[unit].id);
    ARROW_ASSIGN_OR_RAISE(auto sources, table.Describe(ids));
    ARROW_ASSIGN_OR_RAISE(
        auto more, PrepareSelection(table, spec, std::move(sources), std::max(1, selection.tasks),
                                    static_cast<int>(tasks.size()), prepare, options));
    for (auto& task : more) task.planned = RecordOf(plan);
    std::move(more.begin(), more.end(), std::back_inserter(tasks));
  }
  return tasks;
}

arrow::Result<ResultEnvelope> ExecuteTask(Table& table, const TaskEnvelope& task,
                                          const ExecuteOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  if (task.fitted.empty()) {
    return Invalid("task {}: its key model is missing (expected in {})", task.task,
                   task.fitted_file.empty() ? "the envelope" : task.fitted_file);
  }
  ARROW_ASSIGN_OR_RAISE(auto fitted, DeserializeFitted(task.fitted));
  ARROW_ASSIGN_OR_RAISE(auto schema, table.schema());
  if (SchemaId(*schema) != task.schema_id) {
    return Conflict("{}: its schema has changed since the plan: plan again", table.name());
  }
  MemoryAccount memory(MemoryBudget(options));
  ARROW_ASSIGN_OR_RAISE(
      auto rows, table.Scan(task.sources, task.snapshot_id, ReadOptionsFor(options, &memory)));
  ARROW_ASSIGN_OR_RAISE(auto key_columns, KeyColumns(*rows->schema(), task.spec));
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
            *rows, key_columns, fitted,
            [&](const FilePlacement& placement) { return collector.NewFile(placement); }, sort));
    result.spilled_bytes = sorted.spilled_bytes;
    ARROW_ASSIGN_OR_RAISE(result.outputs,
                          collector.Outputs(task.slices == 1 ? task.selection_rows : -1));
    return options.stop.Poll();
  };
  if (auto status = finish(); !status.ok()) {
    collector.DiscardAll();
    return status;
  }
  result.rows = collector.input_rows();
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
                                                   double orphan_age_seconds) {
  ARROW_RETURN_NOT_OK(table.CheckWritable());
  ARROW_ASSIGN_OR_RAISE(auto intent, RunIntent::Begin(table, task.run_id, orphan_age_seconds));
  ARROW_ASSIGN_OR_RAISE(auto result, ExecuteTask(table, task, options));
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

}  // namespace thalweg
