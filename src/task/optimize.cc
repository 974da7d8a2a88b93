#include "task/optimize.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <set>
#include <string_view>
#include <thread>

#include "layout/depth.h"
#include "task/commit_run.h"
#include "task/resources.h"
#include "task/run_intent.h"
#include "task/selection_check.h"
#include "task/sort_setup.h"
#include "util/crash_point.h"
#include "util/status.h"
#include "util/units.h"
#include "util/uuid.h"

namespace thalweg {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void AddOnce(const std::string& note, std::vector<std::string>* notes) {
  if (std::find(notes->begin(), notes->end(), note) == notes->end()) notes->push_back(note);
}

/// The commit is valid whatever becomes of this.
void RefreshStatisticsOf(Table& table, const ClusteringSpec& spec, OptimizeReport* report) {
  const auto refreshed = table.RefreshStatistics(spec);
  if (refreshed.ok()) {
    for (const auto& note : *refreshed) AddOnce(note, &report->notes);
    return;
  }
  report->notes.push_back(fmt::format(
      "the statistics of the clustering columns could not be refreshed, the next run tries again: "
      "{}",
      refreshed.status().message()));
}

/// Whether an append that was clustered has no usable statistics.
bool AnyClusteredUntold(const Layout& layout) {
  std::set<std::string_view> appends;
  for (const RunRecord& run : layout.runs) {
    if (!IsRewrite(run)) appends.insert(run.run_id);
  }
  auto untold = [](const UnitColumn& column) { return !column.usable; };
  return std::any_of(layout.units.begin(), layout.units.end(), [&](const Unit& unit) {
    return unit.stamp && appends.contains(unit.stamp->run_id) &&
           std::any_of(unit.columns.begin(), unit.columns.end(), untold);
  });
}

/// Refuses, before anything is done for it, a commit that takes more memory than there is.
arrow::Status CheckCommitMemory(const Table& table, int64_t rows, const ExecuteOptions& options) {
  const int64_t per_row = table.commit_bytes_per_row();
  const int64_t budget = MemoryBudget(options);
  if (per_row == 0 || rows <= budget / per_row) return arrow::Status::OK();
  return Invalid(
      "{}: moving {} rows takes {} for the addresses that its indexes follow, the memory budget is "
      "{}: raise --memory, or sort fewer rows at once with --max-source-rows {}",
      table.name(), FormatCount(rows), FormatBytes(rows * per_row), FormatBytes(budget),
      budget / per_row);
}

/// One command: holds what an attempt made until it is committed or deleted.
class Optimizer {
 public:
  Optimizer(Table& table, const OptimizeOptions& options) : table_(table), options_(options) {}

  arrow::Result<OptimizeReport> Run() {
    const auto start = Clock::now();
    ARROW_RETURN_NOT_OK(table_.CheckWritable());
    run_id_ = report_.run_id = options_.run_id.empty() ? NewUuid() : options_.run_id;
    report_.snapshot_before = report_.snapshot_after = table_.snapshot_id();
    ARROW_ASSIGN_OR_RAISE(bool done, AlreadyCommitted(table_, run_id_, &report_));
    if (!done) {
      ReclaimBefore(table_, run_id_, options_.orphan_age_seconds, &report_.notes);
      while (!done) {
        auto attempt = PlanAndCommit();
        if (attempt.ok()) {
          done = *attempt;
          continue;
        }
        ARROW_RETURN_NOT_OK(AfterFailure(attempt.status()));
      }
      RefreshStatisticsOf(table_, spec_, &report_);
      if (report_.outcome == "nothing-to-do") report_.snapshot_after = table_.snapshot_id();
      if (report_.outcome != "nothing-to-do") report_.depth_after = MeasureDepth(table_, spec_);
    }
    intent_.reset();
    report_.peak_memory_bytes = std::max(report_.peak_memory_bytes, PeakMemory());
    report_.seconds = SecondsSince(start);
    return report_;
  }

 private:
  /// Plans at the newest snapshot and carries the plan out. True: nothing remains to be done.
  arrow::Result<bool> PlanAndCommit() {
    ARROW_RETURN_NOT_OK(options_.execute.stop.Poll());
    std::vector<std::string> notes;
    ARROW_ASSIGN_OR_RAISE(spec_, UsableDeclaration(table_, &notes));
    ARROW_ASSIGN_OR_RAISE(auto layout, table_.DescribeLayout(spec_.columns));
    if (options_.plan.policy.value_or(spec_.policy) == Policy::kOverlap && !refreshed_ &&
        AnyClusteredUntold(layout)) {
      // Where they lie decides what they are sorted with.
      refreshed_ = true;
      RefreshStatisticsOf(table_, spec_, &report_);
      return false;  // the table is another version
    }
    ARROW_ASSIGN_OR_RAISE(const auto inputs,
                          ResolvePlanInputs(table_, options_.plan, options_.target_file_bytes,
                                            options_.target_file_rows));
    PrepareOptions prepare;
    prepare.run_id = run_id_;
    prepare.target_file_bytes = inputs.sizes.target_file_bytes;
    prepare.target_file_rows = inputs.sizes.target_file_rows;
    prepare.target_row_group_bytes = inputs.sizes.target_row_group_bytes;
    ARROW_ASSIGN_OR_RAISE(auto plan, MakePlan(layout, spec_, inputs.options));
    report_.policy = ToString(inputs.options.policy.value_or(spec_.policy));
    report_.unit_name = layout.unit_name;
    notes.insert(notes.end(), plan.notes.begin(), plan.notes.end());
    if (report_.policy == ToString(Policy::kSize)) {
      ARROW_ASSIGN_OR_RAISE(const auto hint, OverlapHint(layout, spec_, inputs.options, plan));
      if (!hint.empty()) notes.push_back(hint);
    }
    notes.insert(notes.end(), layout.notes.begin(), layout.notes.end());
    for (const auto& note : notes) AddOnce(note, &report_.notes);
    if (report_.depth_before < 0) report_.depth_before = plan.depth_before;
    if (plan.selections.empty()) {
      if (report_.outcome == "committed")
        return true;  // the hit selections need no rewrite any more
      report_.outcome = "nothing-to-do";
      report_.reason = plan.reason;
      report_.depth_after = plan.depth_before;
      report_.snapshot_after = table_.snapshot_id();
      return true;
    }
    if (options_.update_indexes) {
      ARROW_ASSIGN_OR_RAISE(const auto unified, table_.UnifyIndexes(SelectedUnits(layout, plan),
                                                                    /*dry_run=*/false));
      if (!unified.note.empty()) report_.notes.push_back(unified.note);
      if (unified.committed) return false;  // the plan was made for the version before
    }
    ARROW_RETURN_NOT_OK(CheckCommitMemory(table_, plan.rows, options_.execute));
    planned_ = RecordOf(plan);
    report_.predicted_depth = plan.depth_after;
    if (!intent_) {
      ARROW_ASSIGN_OR_RAISE(intent_,
                            RunIntent::Begin(table_, run_id_, options_.orphan_age_seconds));
    }
    ARROW_ASSIGN_OR_RAISE(auto tasks,
                          PrepareTasks(table_, spec_, layout, plan, prepare, options_.execute));
    for (const auto& task : tasks) {
      ARROW_ASSIGN_OR_RAISE(auto result, ExecuteTask(table_, task, options_.execute));
      results_.push_back(std::move(result));
    }
    CrashPoint("after-data-files");
    return Commit();
  }

  /// Commits the results. False: some selections were hit by a conflict and must be planned anew,
  /// the others are committed.
  arrow::Result<bool> Commit() {
    ARROW_ASSIGN_OR_RAISE(auto selections, CheckResults(table_, results_, options_.execute.verify));
    auto committed = CommitSelections(table_, selections, planned_, *intent_, options_.execute);
    if (committed.ok()) {
      Committed(*committed, selections);
      return true;
    }
    if (KindOf(committed.status()) != FailureKind::kConflict) return committed.status();
    ARROW_RETURN_NOT_OK(table_.Refresh());
    std::vector<SelectionResults> survivors, hit;
    for (auto& selection : selections) {
      (SourcesUnchanged(table_, selection.task()) ? survivors : hit).push_back(selection);
    }
    // With no selection hit the conflict is about something else, which committing again would meet
    // again.
    if (survivors.empty() || hit.empty()) return committed.status();
    const auto why = committed.status();
    planned_.settled = false;
    committed = CommitSelections(table_, survivors, planned_, *intent_, options_.execute);
    ARROW_RETURN_NOT_OK(committed.status());
    if (committed->already_committed) {
      Committed(*committed, survivors);
      return true;
    }
    std::vector<ResultEnvelope> lost;
    for (const auto& selection : hit) {
      for (const auto* slice : selection.slices) lost.push_back(*slice);
    }
    Committed(*committed, survivors);
    if (!DiscardOutputs(table_, lost)) intent_->Abandon();
    // The history holds the run id now: what remains is a run of its own.
    intent_.reset();
    run_id_ = NewUuid();
    report_.notes.push_back(fmt::format("{} of {} selections were planned anew: {}", hit.size(),
                                        selections.size(), why.message()));
    ARROW_RETURN_NOT_OK(PlanAgain(why));
    return false;
  }

  /// Takes account of a commit; the outputs belong to the table from here on.
  void Committed(const CommitResult& commit, const std::vector<SelectionResults>& selections) {
    report_.snapshot_after = commit.snapshot_after;
    if (commit.already_committed) {
      // By another process with this run id, unless an attempt of our own had come through
      // unnoticed: only unreferenced files go.
      report_.outcome = "already-committed";
      report_.reason = fmt::format("run {} is in the history of the table already", run_id_);
      if (!DiscardOutputs(table_, results_)) intent_->Abandon();
    } else {
      report_.outcome = "committed";
      AddToReport(selections, &report_);
    }
    results_.clear();
  }

  /// OK: plan again. Otherwise the failure of the whole command, with nothing left behind but what
  /// an unknown outcome must leave.
  arrow::Status AfterFailure(const arrow::Status& status) {
    if (KindOf(status) == FailureKind::kUnknown) {
      if (intent_) intent_->Keep();
      results_.clear();
      return OutcomeUnknown(status, run_id_);
    }
    if (!DiscardOutputs(table_, results_) && intent_) intent_->Abandon();
    results_.clear();
    if (KindOf(status) != FailureKind::kConflict) return status;
    return PlanAgain(status);
  }

  /// Waits and goes to the newest snapshot; the conflict itself once there were too many.
  arrow::Status PlanAgain(const arrow::Status& conflict) {
    if (report_.replans >= options_.max_replans) {
      return Conflict("gave up after {} conflicts: {}", report_.replans + 1, conflict.message());
    }
    std::uniform_real_distribution<double> jitter(0.5, 1.5);
    const double wait =
        options_.backoff_seconds * (1 << std::min(report_.replans, 6)) * jitter(random_);
    ++report_.replans;
    const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                          std::chrono::duration<double>(wait));
    for (auto now = Clock::now(); now < until; now = Clock::now()) {
      ARROW_RETURN_NOT_OK(options_.execute.stop.Poll());
      std::this_thread::sleep_until(std::min(until, now + std::chrono::milliseconds(50)));
    }
    ARROW_RETURN_NOT_OK(table_.Refresh());
    // What came in between may have made the table one that cannot be rewritten.
    return table_.CheckWritable();
  }

  Table& table_;
  const OptimizeOptions& options_;
  std::string run_id_;  // of the attempt; the report's is the first
  OptimizeReport report_;
  bool refreshed_ = false;  // the statistics, before planning
  ClusteringSpec spec_;
  PlannedRun planned_;
  std::unique_ptr<RunIntent> intent_;
  std::vector<ResultEnvelope> results_;  // executed, neither committed nor deleted
  std::mt19937_64 random_{std::random_device{}()};
};

}  // namespace

arrow::Result<PlanInputs> ResolvePlanInputs(const Table& table, const PlanOptions& options,
                                            int64_t target_file_bytes, int64_t target_file_rows) {
  PlanInputs inputs;
  ARROW_ASSIGN_OR_RAISE(inputs.sizes, table.output_sizes());
  if (target_file_bytes > 0) inputs.sizes.target_file_bytes = target_file_bytes;
  if (target_file_rows > 0) inputs.sizes.target_file_rows = target_file_rows;
  ARROW_ASSIGN_OR_RAISE(const Budgets budgets, table.budgets());
  inputs.options = options;
  inputs.options.budgets = options.budgets.Or(budgets);
  inputs.options.target_file_bytes = inputs.sizes.target_file_bytes;
  inputs.options.target_file_rows = inputs.sizes.target_file_rows;
  return inputs;
}

arrow::Result<OptimizeReport> Optimize(Table& table, const OptimizeOptions& options) {
  return Optimizer(table, options).Run();
}

arrow::Result<OptimizeReport> CommitResults(Table& table,
                                            const std::vector<ResultEnvelope>& results,
                                            const ExecuteOptions& options,
                                            const std::vector<ScanReport>& scans) {
  const auto start = Clock::now();
  if (results.empty()) return Invalid("no results to commit");
  ARROW_RETURN_NOT_OK(table.CheckWritable());
  const std::string& run_id = results.front().task.run_id;
  OptimizeReport report;
  report.run_id = run_id;
  report.snapshot_before = table.snapshot_id();
  ARROW_ASSIGN_OR_RAISE(bool done, AlreadyCommitted(table, run_id, &report));
  if (!done) {
    constexpr double kOrphanAge = 86400;
    // Before the files are looked at: from here on nobody takes them for a dead run's.
    ARROW_ASSIGN_OR_RAISE(auto intent, RunIntent::Begin(table, run_id, kOrphanAge));
    ARROW_ASSIGN_OR_RAISE(auto selections, CheckResults(table, results, options.verify));
    ARROW_RETURN_NOT_OK(CheckScans(selections, scans));
    ARROW_ASSIGN_OR_RAISE(auto spec, UsableDeclaration(table, &report.notes));
    if (spec != selections.front().task().spec) {
      return Conflict(
          "{}: its clustering is declared otherwise than when the tasks were planned: plan again",
          table.name());
    }
    ARROW_RETURN_NOT_OK(CheckCommitMemory(table, MergeRuns(selections).rows, options));
    ARROW_RETURN_NOT_OK(CheckOutputs(table, selections));
    if (options.verify == Verify::kFull) ARROW_RETURN_NOT_OK(ReadOutputsBack(table, selections));
    auto layout = table.DescribeLayout(spec.columns);
    if (layout.ok()) {
      report.depth_before = MeasureLayout(*layout).depth;
      report.unit_name = layout->unit_name;
    }
    PlannedRun planned = results.front().task.planned;
    planned.depth_before = report.depth_before;
    report.policy = ToString(planned.theta > 0 ? Policy::kOverlap : Policy::kSize);
    auto committed = CommitSelections(table, selections, planned, *intent, options);
    if (!committed.ok()) {
      if (KindOf(committed.status()) != FailureKind::kUnknown) return committed.status();
      intent->Keep();
      return OutcomeUnknown(committed.status(), run_id);
    }
    report.outcome = committed->already_committed ? "already-committed" : "committed";
    report.snapshot_after = committed->snapshot_after;
    if (!committed->already_committed) AddToReport(selections, &report);
    ReleaseKeptIntents(table, run_id);
    RefreshStatisticsOf(table, spec, &report);
    report.depth_after = MeasureDepth(table, spec);
  }
  report.peak_memory_bytes = std::max(report.peak_memory_bytes, PeakMemory());
  report.seconds = SecondsSince(start);
  return report;
}

}  // namespace thalweg
