#include "task/commit_run.h"

#include "layout/depth.h"
#include "table/run_tag.h"
#include "task/resources.h"
#include "util/status.h"
#include "util/units.h"

namespace thalweg {

arrow::Result<CommitResult> CommitSelections(Table& table,
                                             const std::vector<SelectionResults>& selections,
                                             const PlannedRun& planned, const RunIntent& intent,
                                             const ExecuteOptions& options) {
  const TaskEnvelope& first = selections.front().task();
  RewriteCommit commit;
  commit.run_id = first.run_id;
  commit.base_snapshot = first.snapshot_id;
  commit.spec = first.spec;
  for (const auto& selection : selections) commit.selections.push_back(selection.Rewrite());
  commit.run = MergeRuns(selections);
  planned.AddTo(&commit.run);
  commit.summary["thalweg.verify"] = std::string(ToString(options.verify));
  if (options.progress) options.progress({"commit", 0, commit.run.rows});
  return table.CommitRewrite(commit, [&]() -> arrow::Status {
    ARROW_RETURN_NOT_OK(CheckOutputs(table, selections));
    ARROW_RETURN_NOT_OK(intent.StillFresh());
    return options.stop.Poll();
  });
}

void AddToReport(const std::vector<SelectionResults>& selections, OptimizeReport* report) {
  for (const auto& selection : selections) {
    report->source_units += static_cast<int64_t>(selection.task().sources.size());
    for (const auto& unit : selection.task().sources) report->source_bytes += unit.bytes;
    for (const auto* result : selection.slices) {
      report->rows += result->rows;
      report->spill_bytes += result->spilled_bytes;
      report->peak_memory_bytes = std::max(report->peak_memory_bytes, result->peak_memory_bytes);
      report->output_units += static_cast<int64_t>(result->outputs.size());
      for (const auto& unit : result->outputs) report->output_bytes += unit.bytes;
    }
  }
}

double MeasureDepth(Table& table, const ClusteringSpec& spec) {
  if (!table.Refresh().ok()) return -1;
  const auto layout = table.DescribeLayout(spec.columns);
  return layout.ok() ? MeasureLayout(*layout).depth : -1;
}

arrow::Result<ClusteringSpec> UsableDeclaration(const Table& table,
                                                std::vector<std::string>* notes) {
  ARROW_ASSIGN_OR_RAISE(auto declaration, table.declaration());
  if (!declaration.problem.empty()) return Invalid("{}: {}", table.name(), declaration.problem);
  if (!declaration.spec) {
    return Invalid("{}: no clustering is declared: declare it with `thalweg set {} --columns ...`",
                   table.name(), table.name());
  }
  notes->insert(notes->end(), declaration.notes.begin(), declaration.notes.end());
  return *declaration.spec;
}

arrow::Status OutcomeUnknown(const arrow::Status& status, const std::string& run_id) {
  return UnknownOutcome(
      "{}; whether run {} was committed is not known, and nothing was deleted: the same command "
      "with --run-id {} "
      "is safe and will tell",
      status.message(), run_id, run_id);
}

void ReclaimBefore(const Table& table, const std::string& run_id, double orphan_age_seconds,
                   std::vector<std::string>* notes) {
  const auto report = CleanDeadRuns(table, orphan_age_seconds, /*dry_run=*/false, run_id);
  if (!report.ok()) {
    notes->push_back("leftovers of dead runs could not be reclaimed: " + report.status().message());
  } else if (report->files_deleted > 0) {
    notes->push_back(fmt::format("reclaimed {} files ({}) that dead runs left",
                                 FormatCount(report->files_deleted),
                                 FormatBytes(report->bytes_deleted)));
  }
}

arrow::Result<bool> AlreadyCommitted(const Table& table, const std::string& run_id,
                                     OptimizeReport* report) {
  ARROW_RETURN_NOT_OK(CheckRunId(run_id));
  ARROW_ASSIGN_OR_RAISE(auto snapshot, table.FindRun(run_id));
  if (!snapshot) return false;
  report->outcome = "already-committed";
  report->reason = fmt::format("run {} is in the history of the table already", run_id);
  report->snapshot_after = *snapshot;
  return true;
}

}  // namespace thalweg
