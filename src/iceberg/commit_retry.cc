#include "iceberg/commit_retry.h"

#include <algorithm>
#include <thread>

#include "iceberg/manifest.h"
#include "iceberg/metadata_file.h"
#include "util/uuid.h"

namespace thalweg::iceberg {
namespace {

/// Everything that snapshots, statistics entries and the manifest lists of refs and of one more
/// snapshot name.
arrow::Result<std::set<std::string>> NamedFiles(const FileIO& io, const TableMetadata& table,
                                                int64_t own_snapshot) {
  std::set<std::string> named;
  ARROW_ASSIGN_OR_RAISE(auto snapshots, table.Snapshots());
  for (const auto& snapshot : snapshots) named.insert(snapshot.manifest_list);
  ARROW_ASSIGN_OR_RAISE(auto statistics, table.Statistics());
  for (const auto& file : statistics) named.insert(file.statistics_path);
  ARROW_ASSIGN_OR_RAISE(auto refs, table.Refs());
  std::set<int64_t> ids{own_snapshot};
  for (const auto& [name, snapshot_id] : refs) ids.insert(snapshot_id);
  std::set<std::string> lists;
  for (const auto& snapshot : snapshots) {
    if (ids.contains(snapshot.snapshot_id)) lists.insert(snapshot.manifest_list);
  }
  for (const auto& list : lists) {
    ARROW_ASSIGN_OR_RAISE(const std::string bytes, io.ReadAll(list));
    ARROW_ASSIGN_OR_RAISE(auto manifests, ReadManifestList(bytes, list));
    for (auto& manifest : manifests) named.insert(std::move(manifest.manifest_path));
  }
  return named;
}

}  // namespace

Backoff::Backoff(int64_t retries, int64_t min_wait_ms, int64_t max_wait_ms, int64_t total_ms)
    : retries_(retries),
      wait_ms_(static_cast<double>(std::max<int64_t>(1, min_wait_ms))),
      max_wait_ms_(static_cast<double>(std::max<int64_t>(1, max_wait_ms))),
      deadline_(std::chrono::steady_clock::now() + std::chrono::milliseconds(total_ms)),
      random_(static_cast<uint32_t>(NewRandomId())) {}

arrow::Result<Backoff> Backoff::FromProperties(const TableMetadata& metadata,
                                               const std::string& prefix, int64_t retries,
                                               int64_t min_wait_ms) {
  ARROW_ASSIGN_OR_RAISE(retries, metadata.IntProperty(prefix + "num-retries", retries));
  ARROW_ASSIGN_OR_RAISE(min_wait_ms, metadata.IntProperty(prefix + "min-wait-ms", min_wait_ms));
  ARROW_ASSIGN_OR_RAISE(const int64_t max_wait_ms,
                        metadata.IntProperty(prefix + "max-wait-ms", 60000));
  constexpr int64_t kLongest = int64_t{1} << 40;  // ms; more would overflow the clock
  constexpr int64_t kHalfAnHour = 1800000;
  ARROW_ASSIGN_OR_RAISE(const int64_t total_ms,
                        metadata.IntProperty(prefix + "total-timeout-ms", kHalfAnHour));
  return Backoff(retries, std::min(min_wait_ms, kLongest), std::min(max_wait_ms, kLongest),
                 std::min(total_ms, kLongest));
}

arrow::Result<Backoff> Backoff::ForCommits(const TableMetadata& metadata) {
  return FromProperties(metadata, "commit.retry.", 4, 100);
}

arrow::Result<Backoff> Backoff::ForStatusChecks(const TableMetadata& metadata) {
  return FromProperties(metadata, "commit.status-check.", 3, 1000);
}

bool Backoff::Wait() {
  if (retries_-- <= 0) return false;
  // Between half and the whole: writers that lost the same race must not meet again.
  const double share = std::uniform_real_distribution<double>(0.5, 1.0)(random_);
  const auto wait = std::chrono::microseconds(static_cast<int64_t>(wait_ms_ * share * 1000));
  if (std::chrono::steady_clock::now() + wait > deadline_) return false;
  std::this_thread::sleep_for(wait);
  wait_ms_ = std::min(wait_ms_ * 2, max_wait_ms_);
  return true;
}

void DeleteUnnamed(const FileIO& io, const TableMetadata& table, int64_t own_snapshot,
                   const std::vector<std::string>& locations) {
  if (locations.empty()) return;
  auto named = NamedFiles(io, table, own_snapshot);
  if (!named.ok()) return;
  for (const auto& location : locations) {
    if (!named->contains(location)) DeleteQuietly(io, {location});
  }
}

}  // namespace thalweg::iceberg
