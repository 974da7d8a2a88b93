#pragma once

#include <arrow/result.h>
#include <arrow/util/cancel.h>

#include <functional>
#include <string>
#include <vector>

#include "layout/planner.h"
#include "task/envelope.h"

namespace thalweg {

enum class Verify { kCounts, kDigest, kFull };
arrow::Result<Verify> ParseVerify(std::string_view text);

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
  int threads = 0;           ///< 0: as many as the process may use
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
arrow::Result<std::vector<TaskEnvelope>> PrepareTasks(Table& table, const ClusteringSpec& spec, const Layout& layout,
                                                      const Plan& plan, const PrepareOptions& prepare,
                                                      const ExecuteOptions& options);

/// Reads, sorts, writes and verifies one task. On failure every file that it wrote is deleted.
arrow::Result<ResultEnvelope> ExecuteTask(Table& table, const TaskEnvelope& task, const ExecuteOptions& options);

/// Deletes the outputs of results that will not be committed.
void DiscardOutputs(Table& table, const std::vector<ResultEnvelope>& results);

}  // namespace thalweg
