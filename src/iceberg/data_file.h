#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace thalweg::iceberg {

enum class FileContent : int { kData = 0, kPositionDeletes = 1, kEqualityDeletes = 2 };
enum class EntryStatus : int { kExisting = 0, kAdded = 1, kDeleted = 2 };

/// data_file (r2) of a manifest entry; field numbers are the format's own (docs/format-notes.md).
/// Absent optionals stay absent.
struct DataFile {
  FileContent content = FileContent::kData;  // 134
  std::string file_path;                     // 100
  std::string file_format = "PARQUET";       // 101
  /// 102: the partition tuple's Avro bytes as read (empty record: no bytes). Only
  /// void/unpartitioned specs are written.
  std::string partition_avro;
  int64_t record_count = 0;                         // 103
  int64_t file_size_in_bytes = 0;                   // 104
  std::map<int32_t, int64_t> column_sizes;          // 108
  std::map<int32_t, int64_t> value_counts;          // 109
  std::map<int32_t, int64_t> null_value_counts;     // 110
  std::map<int32_t, int64_t> nan_value_counts;      // 137
  std::map<int32_t, std::string> lower_bounds;      // 125, single-value binary
  std::map<int32_t, std::string> upper_bounds;      // 128
  std::optional<std::string> key_metadata;          // 131
  std::vector<int64_t> split_offsets;               // 132
  std::vector<int32_t> equality_ids;                // 135
  std::optional<int32_t> sort_order_id;             // 140
  std::optional<int64_t> first_row_id;              // 142 (v3)
  std::optional<std::string> referenced_data_file;  // 143
  std::optional<int64_t> content_offset;            // 144 (v3)
  std::optional<int64_t> content_size_in_bytes;     // 145 (v3)

  bool operator==(const DataFile&) const = default;
};

struct ManifestEntry {
  EntryStatus status = EntryStatus::kAdded;  // 0
  std::optional<int64_t> snapshot_id;        // 1; null inherits the manifest's added_snapshot_id
  std::optional<int64_t>
      sequence_number;  // 3; null inherits the manifest's sequence number (ADDED only)
  std::optional<int64_t> file_sequence_number;  // 4
  DataFile file;                                // 2

  bool operator==(const ManifestEntry&) const = default;
};

/// An entry of a manifest list.
struct ManifestFile {
  std::string manifest_path;                 // 500
  int64_t manifest_length = 0;               // 501
  int32_t partition_spec_id = 0;             // 502
  int32_t content = 0;                       // 517: 0 data, 1 deletes
  int64_t sequence_number = 0;               // 515
  int64_t min_sequence_number = 0;           // 516
  int64_t added_snapshot_id = 0;             // 503
  int32_t added_files_count = 0;             // 504
  int32_t existing_files_count = 0;          // 505
  int32_t deleted_files_count = 0;           // 506
  int64_t added_rows_count = 0;              // 512
  int64_t existing_rows_count = 0;           // 513
  int64_t deleted_rows_count = 0;            // 514
  struct PartitionSummary {                  // 507
    bool contains_null = false;              // 509
    std::optional<bool> contains_nan;        // 518
    std::optional<std::string> lower_bound;  // 510
    std::optional<std::string> upper_bound;  // 511
    bool operator==(const PartitionSummary&) const = default;
  };
  std::optional<std::vector<PartitionSummary>> partitions;
  std::optional<std::string> key_metadata;  // 519
  std::optional<int64_t> first_row_id;      // 520 (v3)

  bool operator==(const ManifestFile&) const = default;
};

}  // namespace thalweg::iceberg
