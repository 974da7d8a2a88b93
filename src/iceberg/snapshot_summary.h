#pragma once

#include <map>
#include <string>
#include <vector>

#include "iceberg/commit.h"

namespace thalweg::iceberg {

/// What a change removes from its parent.
struct RemovedFiles {
  std::vector<size_t> data;     ///< positions in SnapshotFiles::data_files
  std::vector<size_t> deletes;  ///< positions in SnapshotFiles::delete_files
};

/// Whether a delete file is a deletion vector: a blob of a Puffin file.
bool IsDeletionVector(const DataFile& file);

/// What a snapshot changes, counted.
struct ChangeCounts {
  int64_t added_files = 0;
  int64_t added_records = 0;
  int64_t added_bytes = 0;
  int64_t removed_files = 0;
  int64_t removed_records = 0;
  int64_t removed_bytes = 0;  ///< delete files included
  // Delete files.
  int64_t removed_delete_files = 0;
  int64_t removed_vectors = 0;  ///< deletion vectors
  int64_t removed_position_files = 0;
  int64_t removed_equality_files = 0;
  int64_t removed_positions = 0;  ///< in vectors and position delete files
  int64_t removed_equalities = 0;
};
ChangeCounts CountChange(const SnapshotChange& change, const SnapshotFiles& files,
                         const RemovedFiles& removed);

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
