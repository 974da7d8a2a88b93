#include "task/write.h"

#include <chrono>
#include <numeric>

#include "task/commit_run.h"
#include "task/output_collector.h"
#include "task/resources.h"
#include "task/run_intent.h"
#include "task/sort_setup.h"
#include "util/crash_point.h"
#include "util/status.h"
#include "util/uuid.h"

namespace thalweg {
namespace {

constexpr int64_t kWriteRows =
    16384;  // handed to a file writer at once: bounds how far a file misses its target

/// One output file after the other, each ended when it has reached its target.
class InOrderWriter {
 public:
  InOrderWriter(OutputCollector* collector, const OutputSizes& sizes)
      : collector_(collector), sizes_(sizes) {}
  ~InOrderWriter() {
    if (file_) (void)file_->Discard();
  }

  arrow::Status Write(const arrow::RecordBatch& batch) {
    for (int64_t row = 0; row < batch.num_rows();) {
      if (!file_) {
        ARROW_ASSIGN_OR_RAISE(file_, collector_->NewFile({0, files_++}));
        group_begin_ = 0;
        file_rows_ = 0;
      }
      int64_t rows = std::min(kWriteRows, batch.num_rows() - row);
      if (sizes_.target_file_rows > 0) rows = std::min(rows, sizes_.target_file_rows - file_rows_);
      const auto slice = batch.Slice(row, rows);
      ARROW_RETURN_NOT_OK(collector_->ObserveInput(*slice));
      ARROW_RETURN_NOT_OK(file_->Write(*slice));
      row += rows;
      file_rows_ += rows;
      const int64_t bytes = file_->bytes_estimate();
      if (bytes >= sizes_.target_file_bytes || file_rows_ == sizes_.target_file_rows) {
        ARROW_RETURN_NOT_OK(Finish());
      } else if (bytes - group_begin_ >= sizes_.target_row_group_bytes) {
        ARROW_RETURN_NOT_OK(file_->EndRowGroup());
        group_begin_ = bytes;
      }
    }
    return arrow::Status::OK();
  }

  arrow::Status Finish() {
    if (!file_) return arrow::Status::OK();
    ARROW_RETURN_NOT_OK(file_->Finish().status());
    file_.reset();
    return arrow::Status::OK();
  }

 private:
  OutputCollector* const collector_;
  const OutputSizes sizes_;
  std::unique_ptr<SortedFileWriter> file_;
  int files_ = 0;
  int64_t group_begin_ = 0;
  int64_t file_rows_ = 0;
};

class RowWriter {
 public:
  RowWriter(Table& table, const WriteOptions& options)
      : table_(table), options_(options), memory_(MemoryBudget(options.execute)) {}

  arrow::Result<OptimizeReport> Run(std::unique_ptr<RowSource> source) {
    const auto start = std::chrono::steady_clock::now();
    ARROW_RETURN_NOT_OK(table_.CheckWritable());
    report_.run_id = options_.run_id.empty() ? NewUuid() : options_.run_id;
    report_.snapshot_before = report_.snapshot_after = table_.snapshot_id();
    ARROW_ASSIGN_OR_RAISE(bool done, AlreadyCommitted(table_, report_.run_id, &report_));
    if (!done) {
      ReclaimBefore(table_, report_.run_id, options_.orphan_age_seconds, &report_.notes);
      if (auto status = WriteAndCommit(std::move(source)); !status.ok()) {
        return AfterFailure(status);
      }
      if (spec_ && report_.outcome == "committed") {
        report_.depth_after = MeasureDepth(table_, *spec_);
      }
    }
    intent_.reset();
    report_.peak_memory_bytes = PeakMemory();
    report_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return report_;
  }

 private:
  arrow::Status WriteAndCommit(std::unique_ptr<RowSource> source) {
    ARROW_ASSIGN_OR_RAISE(auto declaration, table_.declaration());
    if (!declaration.problem.empty()) {
      return Invalid("{}: {}", table_.name(), declaration.problem);
    }
    spec_ = declaration.spec;
    report_.notes.insert(report_.notes.end(), declaration.notes.begin(), declaration.notes.end());
    ARROW_ASSIGN_OR_RAISE(sizes_, table_.output_sizes());
    if (options_.target_file_bytes > 0) sizes_.target_file_bytes = options_.target_file_bytes;
    if (options_.target_file_rows > 0) sizes_.target_file_rows = options_.target_file_rows;
    sizes_.target_row_group_bytes = RowGroupBytes(sizes_.target_row_group_bytes, memory_);
    ARROW_ASSIGN_OR_RAISE(auto schema, table_.schema());
    ARROW_ASSIGN_OR_RAISE(const auto defaults, table_.WriteDefaults());
    std::vector<std::string> filled;
    for (const auto& field : schema->fields()) {
      const auto value = defaults.find(field->name());
      if (value == defaults.end() || source->schema()->GetFieldIndex(field->name()) >= 0) continue;
      filled.push_back(fmt::format("{} ({})", field->name(), value->second->ToString()));
    }
    ARROW_ASSIGN_OR_RAISE(source, CastRows(std::move(source), schema, defaults));
    if (!filled.empty()) {
      report_.notes.push_back(fmt::format(
          "columns that the input lacks have the table's defaults: {}", fmt::join(filled, ", ")));
    }
    report_.source_bytes = source->encoded_bytes();
    ARROW_ASSIGN_OR_RAISE(intent_,
                          RunIntent::Begin(table_, report_.run_id, options_.orphan_age_seconds));
    OutputContext context;
    context.run_id = report_.run_id;
    context.attempt_id = NewUuid();
    context.spec = spec_;
    context.memory = &memory_;
    collector_.emplace(table_, context, options_.execute.verify);

    WriteCommit commit;
    if (spec_ || options_.sort_once) {
      ARROW_RETURN_NOT_OK(
          WriteClustered(spec_ ? *spec_ : *options_.sort_once, std::move(source), &commit));
    } else {
      ARROW_RETURN_NOT_OK(WriteInOrder(*source, &commit));
    }
    report_.rows = commit.run.rows;
    report_.output_units = commit.run.output_units;
    report_.output_bytes = commit.run.output_bytes;
    if (commit.outputs.empty() && options_.mode == WriteMode::kAppend) {
      report_.outcome = "nothing-to-do";
      report_.reason = "the input has no rows";
      return arrow::Status::OK();
    }
    CrashPoint("after-data-files");
    return Commit(std::move(commit));
  }

  arrow::Status WriteClustered(const ClusteringSpec& spec, std::unique_ptr<RowSource> source,
                               WriteCommit* commit) {
    ClusterSortOptions sort = SortOptions(options_.execute, spec, &memory_);
    sort.target_file_bytes = sizes_.target_file_bytes;
    sort.target_file_rows = sizes_.target_file_rows;
    sort.hard_file_cap = sort.target_file_rows > 0;
    sort.target_row_group_bytes = sizes_.target_row_group_bytes;
    if (!source->rereadable()) {
      ARROW_ASSIGN_OR_RAISE(source, SpoolStream(std::move(source), sort));
    }
    ARROW_ASSIGN_OR_RAISE(auto key_columns, KeyColumns(*source->schema(), spec));
    ARROW_ASSIGN_OR_RAISE(auto fitted, FitKeys(*source, key_columns, spec.curve, spec.bits_per_dim,
                                               spec.algorithm, sort));
    sort.input_observer = [this](const arrow::RecordBatch& batch) {
      return collector_->ObserveInput(batch);
    };
    ARROW_ASSIGN_OR_RAISE(auto sorted, SortIntoFiles(
                                           *source, key_columns, fitted,
                                           [this](const FilePlacement& placement) {
                                             return collector_->NewFile(placement);
                                           },
                                           sort));
    report_.spill_bytes = sorted.spilled_bytes;
    ARROW_ASSIGN_OR_RAISE(commit->outputs, collector_->Outputs(fitted.rows));
    commit->run = RecordRun(report_.run_id, spec, fitted, commit->outputs);
    return arrow::Status::OK();
  }

  arrow::Status WriteInOrder(RowSource& source, WriteCommit* commit) {
    std::vector<int> columns(source.schema()->num_fields());
    std::iota(columns.begin(), columns.end(), 0);
    InOrderWriter writer(&*collector_, sizes_);
    for (int part = 0; part < source.num_parts(); ++part) {
      ARROW_ASSIGN_OR_RAISE(auto stream, source.OpenPart(part, columns));
      while (true) {
        ARROW_RETURN_NOT_OK(options_.execute.stop.Poll());
        ARROW_ASSIGN_OR_RAISE(auto next, stream->Next());
        if (!next) break;
        ARROW_RETURN_NOT_OK(writer.Write(*next->batch));
        if (options_.execute.progress) {
          options_.execute.progress({"write", collector_->input_rows(), source.num_rows()});
        }
      }
    }
    ARROW_RETURN_NOT_OK(writer.Finish());
    ARROW_ASSIGN_OR_RAISE(commit->outputs, collector_->Outputs(source.num_rows()));
    commit->run.run_id = report_.run_id;
    commit->run.rows = collector_->input_rows();
    commit->run.output_units = static_cast<int64_t>(commit->outputs.size());
    for (const auto& unit : commit->outputs) commit->run.output_bytes += unit.bytes;
    return arrow::Status::OK();
  }

  arrow::Status Commit(WriteCommit commit) {
    commit.run_id = report_.run_id;
    commit.mode = options_.mode;
    commit.base_snapshot = report_.snapshot_before;
    commit.spec = spec_;
    commit.run.source_bytes = std::max<int64_t>(0, report_.source_bytes);
    commit.summary["thalweg.verify"] = std::string(ToString(options_.execute.verify));
    ARROW_ASSIGN_OR_RAISE(auto committed, table_.CommitWrite(commit, [&]() -> arrow::Status {
      for (const auto& unit : commit.outputs) {
        ARROW_RETURN_NOT_OK(table_.CheckOutput(unit));
      }
      ARROW_RETURN_NOT_OK(intent_->StillFresh());
      return options_.execute.stop.Poll();
    }));
    report_.snapshot_after = committed.snapshot_after;
    report_.outcome = committed.already_committed ? "already-committed" : "committed";
    if (committed.already_committed) {
      report_.reason = fmt::format("run {} is in the history of the table already", report_.run_id);
      if (!DiscardUnits(table_, commit.outputs)) intent_->Abandon();
    }
    return arrow::Status::OK();
  }

  /// Nothing is left behind but what an unknown outcome must leave.
  arrow::Status AfterFailure(const arrow::Status& status) {
    if (KindOf(status) == FailureKind::kUnknown) {
      if (intent_) intent_->Keep();
      return OutcomeUnknown(status, report_.run_id);
    }
    if (collector_ && !DiscardUnits(table_, collector_->Finished())) intent_->Abandon();
    return status;
  }

  Table& table_;
  const WriteOptions& options_;
  MemoryAccount memory_;
  OptimizeReport report_;
  std::optional<ClusteringSpec> spec_;
  OutputSizes sizes_;
  std::unique_ptr<RunIntent> intent_;
  std::optional<OutputCollector> collector_;
};

}  // namespace

arrow::Result<OptimizeReport> WriteRows(Table& table, std::unique_ptr<RowSource> source,
                                        const WriteOptions& options) {
  return RowWriter(table, options).Run(std::move(source));
}

}  // namespace thalweg
