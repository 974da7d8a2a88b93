#pragma once

#include <arrow/result.h>

#include <string>
#include <vector>

#include "layout/planner.h"
#include "task/execute.h"

namespace thalweg {

struct OptimizeOptions {
  PlanOptions plan;
  ExecuteOptions execute;
  std::string run_id;              ///< "": a new UUID
  int64_t target_file_bytes = -1;  ///< -1: the table's
  int64_t target_file_rows = -1;   ///< -1: the table's
  bool update_indexes = true;      ///< false: units that indexes cover differently are sorted apart
  double orphan_age_seconds = 86400;
  int max_replans = 10;  ///< conflicts that plan again before giving up (kConflict)
  /// Wait before the first new plan; doubled for each further one (up to 64 times), give or take a
  /// random half.
  double backoff_seconds = 0.1;
};

/// What a plan is made with: a command's own options before the table's before the defaults.
struct PlanInputs {
  OutputSizes sizes;
  PlanOptions options;
};
/// `target_file_bytes` and `target_file_rows`: -1 for the table's.
arrow::Result<PlanInputs> ResolvePlanInputs(const Table& table, const PlanOptions& options,
                                            int64_t target_file_bytes, int64_t target_file_rows);

struct OptimizeReport {
  std::string outcome;             ///< "committed", "nothing-to-do", "already-committed"
  std::string reason;              ///< with nothing-to-do
  std::string policy = "size";     ///< that the plan was made by
  std::string unit_name = "file";  ///< Layout::unit_name
  std::vector<std::string> notes;
  std::string run_id, snapshot_before, snapshot_after;
  int64_t rows = 0, source_units = 0, source_bytes = 0, output_units = 0, output_bytes = 0,
          spill_bytes = 0, peak_memory_bytes = 0;
  double depth_before = -1, depth_after = -1;  ///< measured, mean over the keys; -1: not known
  double predicted_depth = -1;
  int replans = 0;
  double seconds = 0;
};

/// The main job: plan, fit, execute, verify, commit; plans again on conflicts; reclaims what dead
/// runs left; leaves nothing behind on failure or interruption (kUnknown excepted).
///
/// Idempotent by run id: one that the table's history holds gives "already-committed". When nothing
/// is to be done no file, intent or snapshot is written. When a commit of several selections meets
/// a conflict, those that it did not hit are committed alone, and the others planned anew, under a
/// run id of their own (the report's is the first).
arrow::Result<OptimizeReport> Optimize(Table& table, const OptimizeOptions& options);

/// Commits results of tasks that were executed elsewhere. Trusts nothing (design section 7):
/// refuses a foreign tag, an unknown version, empty tasks or results, missing or doubled slices,
/// descriptors that differ from the snapshot, mixed snapshots or spec versions, one source unit in
/// two selections, missing or truncated output files, any difference in rows or digest per
/// selection. With --verify full the outputs are read back whole. Sources that changed since the
/// plan are a conflict (kConflict); the files of refused results stay until the intents of their
/// processes are older than the orphan age. Results that were sorted from pieces need the `scans`
/// that made these: of each source unit one, and together the rows and the digest of the results.
arrow::Result<OptimizeReport> CommitResults(Table& table,
                                            const std::vector<ResultEnvelope>& results,
                                            const ExecuteOptions& options,
                                            const std::vector<ScanReport>& scans = {});

}  // namespace thalweg
