#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "iceberg/schema.h"
#include "util/json.h"

namespace thalweg::iceberg {

struct Snapshot {
  int64_t snapshot_id = 0;
  std::optional<int64_t> parent_snapshot_id;
  int64_t sequence_number = 0;
  int64_t timestamp_ms = 0;
  std::string manifest_list;
  std::map<std::string, std::string> summary;  // with "operation"
  std::optional<int32_t> schema_id;
  std::optional<int64_t> first_row_id = {};  ///< v3: the first row id that its manifests assign
  std::optional<int64_t> added_rows = {};    ///< v3: how many row ids they take
  std::string key_id = {};                   ///< v3: of an encrypted manifest list; read only
  /// summary["operation"], "" when absent.
  std::string operation() const;
};

struct StatisticsFile {
  int64_t snapshot_id = 0;
  std::string statistics_path;
  int64_t file_size_in_bytes = 0;
  int64_t file_footer_size_in_bytes = 0;
  Json blob_metadata = Json::array();
};

struct PartitionSpec {
  int32_t spec_id = 0;
  Json fields = Json::array();
  /// No fields, or only fields with the "void" transform.
  bool unpartitioned() const;
};

/// Table metadata (format version 2): the JSON document is the truth, so that keys which we do not
/// know are written back verbatim; the accessors are views of it. A value type.
class TableMetadata {
 public:
  /// From the text of a metadata file (already decompressed); `location` names it in errors. Format
  /// versions 1 to 4 parse, as far as the accessors below need; what may be written is decided
  /// elsewhere (support.h).
  static arrow::Result<TableMetadata> Parse(std::string_view text, const std::string& location);
  /// The same from the parsed document.
  static arrow::Result<TableMetadata> FromJson(Json json, const std::string& location);
  /// A new, empty table of format version 2 or 3.
  static arrow::Result<TableMetadata> Create(const Schema& schema, const std::string& location,
                                             const std::map<std::string, std::string>& properties,
                                             int format_version = 2);

  const Json& json() const { return json_; }
  std::string ToText() const;  ///< what goes into the metadata file

  int format_version() const;
  std::string table_uuid() const;
  std::string location() const;
  int64_t last_sequence_number() const;
  int64_t last_updated_ms() const;
  /// v3: the next row id that a snapshot may assign; 0 below.
  int64_t next_row_id() const;
  arrow::Result<Schema> CurrentSchema() const;
  arrow::Result<Schema> SchemaById(int32_t schema_id) const;
  /// All schemas, oldest first.
  arrow::Result<std::vector<Schema>> Schemas() const;
  /// The current schema's JSON, verbatim.
  std::string CurrentSchemaText() const;
  int32_t current_schema_id() const;
  int32_t default_spec_id() const;
  arrow::Result<std::vector<PartitionSpec>> PartitionSpecs() const;
  std::map<std::string, std::string> properties() const;
  std::string property(const std::string& key, const std::string& fallback) const;
  arrow::Result<int64_t> IntProperty(const std::string& key, int64_t fallback) const;
  arrow::Result<bool> BoolProperty(const std::string& key, bool fallback) const;

  /// The snapshot of the main branch (current-snapshot-id; absent, null or -1: none).
  std::optional<int64_t> current_snapshot_id() const;
  arrow::Result<std::vector<Snapshot>> Snapshots() const;
  arrow::Result<std::optional<Snapshot>> FindSnapshot(int64_t snapshot_id) const;
  /// Heads of all refs (branches and tags).
  arrow::Result<std::map<std::string, int64_t>> Refs() const;
  arrow::Result<std::vector<StatisticsFile>> Statistics() const;

  // Changes. Each updates last-updated-ms (never backwards).
  void SetProperties(const std::map<std::string, std::string>& properties);
  void RemoveProperties(const std::vector<std::string>& keys);
  /// Adds the snapshot, makes it main's head, appends to snapshot-log, sets last-sequence-number
  /// and (v3) next-row-id.
  void AddSnapshot(const Snapshot& snapshot);
  /// Replaces the statistics entry of its snapshot.
  void SetStatistics(const StatisticsFile& statistics);
  /// Appends the previous metadata file to metadata-log, bounded by
  /// write.metadata.previous-versions-max; the entries that fell off are returned (for
  /// write.metadata.delete-after-commit.enabled).
  std::vector<std::string> AppendMetadataLog(const std::string& previous_location,
                                             int64_t timestamp_ms);

 private:
  Json json_;
};

}  // namespace thalweg::iceberg
