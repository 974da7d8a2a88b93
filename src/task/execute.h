#pragma once

#include <arrow/result.h>
#include <arrow/util/cancel.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "layout/planner.h"
#include "task/envelope.h"

namespace thalweg {

/// How much a run checks of what it wrote (design section 7). Every level compares the rows of each
/// selection as the table's metadata, the reader, the writers and the written footers count them.
///  * kCounts: nothing more.
///  * kDigest: the row digest of the decoded input and that of what the file writers received; one
///  row group of each file is read back.
///  * kFull: the written files are read back whole.
enum class Verify { kCounts, kDigest, kFull };
/// "counts", "digest", "full"; anything else is a usage error.
arrow::Result<Verify> ParseVerify(std::string_view text);
std::string_view ToString(Verify verify);

/// Progress of a command, for a bar: what is being done, and how far it is (total -1: not known).
struct Progress {
  std::string stage;  ///< "fit", "scatter", "write", "verify", "commit"
  int64_t done = 0;
  int64_t total = -1;  ///< rows
};

struct ExecuteOptions {
  int64_t memory_bytes = 0;  ///< 0: a quarter of the machine's (or the cgroup's) memory
  std::string spill_dir;     ///< "": $TMPDIR or /tmp
  int64_t max_spill_bytes = -1;
  int threads = 0;  ///< 0: as many as the process may use
  Verify verify = Verify::kDigest;
  std::function<void(const Progress&)> progress;
  arrow::StopToken stop = arrow::StopToken::Unstoppable();
};

/// The selections of a plan as task envelopes: reads the key columns (fit) of each selection.
struct PrepareOptions {
  std::string run_id;
  int64_t target_file_bytes = 0;  ///< resolved: option before table property before default
  int64_t target_file_rows = -1;
  int64_t target_row_group_bytes = 0;
};
arrow::Result<std::vector<TaskEnvelope>> PrepareTasks(Table& table, const ClusteringSpec& spec,
                                                      const Layout& layout, const Plan& plan,
                                                      const PrepareOptions& prepare,
                                                      const ExecuteOptions& options);

/// Reads, sorts, writes and verifies one task. On failure every file that it wrote is deleted. The
/// caller holds the run's intent. `given`: the rows of its slice, read elsewhere (task/shuffle.h);
/// a row of another slice is an error.
arrow::Result<ResultEnvelope> ExecuteTask(Table& table, const TaskEnvelope& task,
                                          const ExecuteOptions& options,
                                          std::unique_ptr<RowSource> given = nullptr);

/// The same for a process that executes tasks for another one: under an intent of its own, which is
/// kept, so that the files wait for their commit for `orphan_age_seconds`.
arrow::Result<ResultEnvelope> ExecuteTaskForCommit(Table& table, const TaskEnvelope& task,
                                                   const ExecuteOptions& options,
                                                   double orphan_age_seconds,
                                                   std::unique_ptr<RowSource> given = nullptr);

/// Deletes the outputs of results that will not be committed, those that freshly loaded metadata
/// does not name. False: not all could be deleted (or the metadata could not be read, then none
/// was).
bool DiscardOutputs(Table& table, const std::vector<ResultEnvelope>& results);
bool DiscardUnits(const Table& table, const std::vector<OutputUnit>& units);

/// What DiscardResults did.
struct DiscardReport {
  int64_t files = 0, bytes = 0;  ///< deleted
  int64_t missing = 0;           ///< were gone already
  int64_t committed = 0;         ///< belong to a snapshot, and stay
};
/// Gives up results of tasks that were executed elsewhere and will not be committed: deletes their
/// files, and the intents that kept these, unless others of the run's files would be forgotten
/// then. Deletes nothing that any snapshot names, and nothing that is not named as a file of the
/// result's run.
arrow::Result<DiscardReport> DiscardResults(Table& table,
                                            const std::vector<ResultEnvelope>& results);

}  // namespace thalweg
