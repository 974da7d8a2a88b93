#pragma once

#include <arrow/result.h>

#include <memory>
#include <string>
#include <vector>

#include "table/table.h"

namespace thalweg {

/// The intent of a run: "thalweg-run-<tag>-<attempt>.json" in the table's own place, written before
/// the first file, renewed every minute by a thread of its own, removed at the end (design section
/// 7, "Leftovers of the dead"). Holds host, boot id, pid, process start time, run id. Several
/// processes that execute tasks of one run have one each.
class RunIntent {
 public:
  static arrow::Result<std::unique_ptr<RunIntent>> Begin(const Table& table,
                                                         const std::string& run_id,
                                                         double orphan_age_seconds);
  virtual ~RunIntent() = default;  ///< removes the intent unless Keep() or Abandon() was called
  /// An error when the last renewal is older than half of the orphan age: such a run must not
  /// commit.
  virtual arrow::Status StillFresh() const = 0;
  /// Leaves the intent where it is, no longer bound to this process: the run's files are kept until
  /// the intent has not been renewed for the orphan age. For an unknown outcome (nothing may be
  /// reclaimed before somebody knows), and for files that another process will commit.
  virtual void Keep() = 0;
  /// Leaves the intent as it is: some of this process's files could not be deleted, a later clean
  /// shall find them.
  virtual void Abandon() = 0;
};

/// Removes the intents that Keep() left for a run, once it is committed.
void ReleaseKeptIntents(const Table& table, const std::string& run_id);
/// The same for a run that is given up. `files_remain`: files of its that no snapshot names; an
/// intent stays then, so that they are found.
void ReleaseGivenUp(const Table& table, const std::string& run_id, bool files_remain);

struct CleanReport {
  struct Run {
    std::string run_id;
    /// "alive", "kept: …", "unknown owner: not renewed for …", "committed: nothing to reclaim",
    /// "dead: reclaimed", and with dry_run "dead: would be reclaimed".
    std::string state;
    int64_t files = 0, bytes = 0;  ///< deleted, or that would be
  };
  std::vector<Run> runs;
  int64_t files_deleted = 0, bytes_deleted = 0;
};
/// Reclaims what provably dead runs left: process gone on this host (same boot, pid gone or
/// restarted), or not renewed for the orphan age; not in the history; and no snapshot of any ref
/// names the file in freshly loaded metadata. Of a run that is in the history only files that no
/// snapshot names go (attempts that were discarded). `except_run`: a run that is never touched.
arrow::Result<CleanReport> CleanDeadRuns(const Table& table, double orphan_age_seconds,
                                         bool dry_run, const std::string& except_run = "");

}  // namespace thalweg
