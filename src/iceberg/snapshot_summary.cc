#include "iceberg/snapshot_summary.h"

#include "iceberg/delete_index.h"
#include "util/version.h"

namespace thalweg::iceberg {
namespace {

constexpr char kEngineName[] = "thalweg";

/// Of a deletion vector only its own part of the Puffin file counts.
int64_t StoredBytes(const DataFile& file) {
  return file.content_size_in_bytes.value_or(file.file_size_in_bytes);
}

}  // namespace

bool IsDeletionVector(const DataFile& file) {
  return file.content == FileContent::kPositionDeletes && HasFormat(file, "PUFFIN");
}

ChangeCounts CountChange(const SnapshotChange& change, const SnapshotFiles& files,
                         const RemovedFiles& removed) {
  ChangeCounts counts;
  for (const auto& group : change.added) {
    for (const auto& added : group) {
      ++counts.added_files;
      counts.added_records += added.file.record_count;
      counts.added_bytes += added.file.file_size_in_bytes;
    }
  }
  for (size_t position : removed.data) {
    const DataFile& file = files.data_files[position].file;
    ++counts.removed_files;
    counts.removed_records += file.record_count;
    counts.removed_bytes += file.file_size_in_bytes;
  }
  for (size_t position : removed.deletes) {
    const DataFile& file = files.delete_files[position].file;
    ++counts.removed_delete_files;
    counts.removed_bytes += StoredBytes(file);
    if (file.content == FileContent::kEqualityDeletes) {
      ++counts.removed_equality_files;
      counts.removed_equalities += file.record_count;
    } else {
      ++(IsDeletionVector(file) ? counts.removed_vectors : counts.removed_position_files);
      counts.removed_positions += file.record_count;
    }
  }
  return counts;
}

std::map<std::string, std::string> SnapshotSummary(const SnapshotChange& change,
                                                   const SnapshotFiles& files,
                                                   const ChangeCounts& changed,
                                                   const ManifestCounts& manifests) {
  int64_t records = changed.added_records - changed.removed_records;
  int64_t bytes = changed.added_bytes - changed.removed_bytes;
  int64_t position_deletes = -changed.removed_positions;
  int64_t equality_deletes = -changed.removed_equalities;
  for (const auto& live : files.data_files) {
    records += live.file.record_count;
    bytes += live.file.file_size_in_bytes;
  }
  for (const auto& live : files.delete_files) {
    const bool position = live.file.content == FileContent::kPositionDeletes;
    (position ? position_deletes : equality_deletes) += live.file.record_count;
    bytes += StoredBytes(live.file);
  }

  auto summary = change.summary;
  auto set = [&](const char* key, int64_t value) { summary[key] = std::to_string(value); };
  auto set_positive = [&](const char* key, int64_t value) {
    if (value > 0) set(key, value);
  };
  summary["operation"] = change.operation;
  summary["engine-name"] = kEngineName;
  summary["engine-version"] = kVersion;
  set_positive("added-data-files", changed.added_files);
  set_positive("added-records", changed.added_records);
  set_positive("added-files-size", changed.added_bytes);
  set_positive("deleted-data-files", changed.removed_files);
  set_positive("deleted-records", changed.removed_records);
  set_positive("removed-files-size", changed.removed_bytes);
  set_positive("removed-delete-files", changed.removed_delete_files);
  set_positive("removed-dvs", changed.removed_vectors);
  set_positive("removed-position-delete-files", changed.removed_position_files);
  set_positive("removed-equality-delete-files", changed.removed_equality_files);
  set_positive("removed-position-deletes", changed.removed_positions);
  set_positive("removed-equality-deletes", changed.removed_equalities);
  // An unpartitioned table is one partition.
  set_positive("changed-partition-count", changed.added_files + changed.removed_files > 0 ? 1 : 0);
  set("total-data-files",
      static_cast<int64_t>(files.data_files.size()) + changed.added_files - changed.removed_files);
  set("total-delete-files",
      static_cast<int64_t>(files.delete_files.size()) - changed.removed_delete_files);
  set("total-records", records);
  set("total-files-size", bytes);
  set("total-position-deletes", position_deletes);
  set("total-equality-deletes", equality_deletes);
  set("manifests-created", manifests.created);
  set("manifests-kept", manifests.kept);
  set("manifests-replaced", manifests.replaced);
  set("entries-processed", manifests.entries_processed);
  return summary;
}

}  // namespace thalweg::iceberg
