#pragma once

#include <map>
#include <string>
#include <vector>

#include "iceberg/commit.h"

namespace thalweg::iceberg {

/// What a snapshot changes, counted.
struct ChangeCounts {
  int64_t added_files = 0;
  int64_t added_records = 0;
  int64_t added_bytes = 0;
  int64_t removed_files = 0;
  int64_t removed_records = 0;
  int64_t removed_bytes = 0;
};
/// `removed`: positions in files.data_files.
ChangeCounts CountChange(const SnapshotChange& change, const SnapshotFiles& files,
                         const std::vector<size_t>& removed);

/// How the manifest list of a snapshot came about.
struct ManifestCounts {
  int64_t created = 0;
  int64_t kept = 0;
  int64_t replaced = 0;
  int64_t entries_processed = 0;  ///< entries of replaced manifests
};

/// The snapshot summary: the caller's keys, the operation, what was added and removed (where not
/// 0), and the totals afterwards, which are counted from the files themselves.
std::map<std::string, std::string> SnapshotSummary(const SnapshotChange& change,
                                                   const SnapshotFiles& files,
                                                   const ChangeCounts& changed,
                                                   const ManifestCounts& manifests);

}  // namespace thalweg::iceberg
