#pragma once

#include <arrow/result.h>

#include <chrono>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "iceberg/catalog.h"

namespace thalweg::iceberg {

/// Waits between attempts as a table's properties say: exponential, with jitter, bounded in number
/// and total time.
class Backoff {
 public:
  /// For commits that lost a race: commit.retry.num-retries, .min-wait-ms, .max-wait-ms,
  /// .total-timeout-ms.
  static arrow::Result<Backoff> ForCommits(const TableMetadata& metadata);
  /// For looking whether a commit of unknown outcome is there: commit.status-check.*.
  static arrow::Result<Backoff> ForStatusChecks(const TableMetadata& metadata);

  /// Waits for the next attempt; false when there is none left.
  bool Wait();

 private:
  Backoff(int64_t retries, int64_t min_wait_ms, int64_t max_wait_ms, int64_t total_ms);
  static arrow::Result<Backoff> FromProperties(const TableMetadata& metadata,
                                               const std::string& prefix, int64_t retries,
                                               int64_t min_wait_ms);

  int64_t retries_;
  double wait_ms_;
  double max_wait_ms_;
  std::chrono::steady_clock::time_point deadline_;
  std::minstd_rand random_;
};

/// Deletes those of the metadata files (manifests, manifest lists, statistics) that no snapshot of
/// the table and no manifest list of a ref or of `own_snapshot` names, as `table` stands. Deletes
/// nothing when that cannot be established. Failures to delete leave files behind.
void DeleteUnnamed(const FileIO& io, const TableMetadata& table, int64_t own_snapshot,
                   const std::vector<std::string>& locations);

}  // namespace thalweg::iceberg
