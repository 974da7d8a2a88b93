#pragma once

#include <arrow/result.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "iceberg/data_file.h"
#include "iceberg/schema.h"

namespace thalweg::iceberg {

/// Header key-values of a manifest that its readers need.
struct ManifestHeader {
  std::string schema_json;           // "schema": the table schema, verbatim
  std::optional<int32_t> schema_id;  // "schema-id"
  std::string partition_spec_json;   // "partition-spec": the array of partition fields
  int32_t partition_spec_id = 0;     // "partition-spec-id"
  int32_t format_version = 1;        // "format-version"; absent: 1
  std::string content = "data";      // "content": "data" or "deletes"
};

/// Reads a manifest from the bytes of the Avro file, by field id, whatever the writer's field names
/// and order. `path` names it in errors. Entries come in file order; `visit` may stop early with an
/// error.
arrow::Result<ManifestHeader> ReadManifest(
    std::string_view bytes, const std::string& path,
    const std::function<arrow::Status(ManifestEntry&&)>& visit);

/// Writes a v2 manifest (an unpartitioned spec: an empty partition record) as Avro bytes with field
/// ids everywhere, the header keys of the specification, bare primitive type names.
struct ManifestWriteOptions {
  ManifestHeader header;
  std::string codec = "deflate";  // null, deflate, zstandard, snappy (write.avro.compression-codec)
};
arrow::Result<std::string> WriteManifest(const std::vector<ManifestEntry>& entries,
                                         const ManifestWriteOptions& options);

arrow::Result<std::vector<ManifestFile>> ReadManifestList(std::string_view bytes,
                                                          const std::string& path);
struct ManifestListHeader {
  int64_t snapshot_id = 0;
  std::optional<int64_t> parent_snapshot_id;
  int64_t sequence_number = 0;
  int32_t format_version = 2;
  std::optional<int64_t> first_row_id;  ///< of the snapshot; format version 3 only, required there
};
arrow::Result<std::string> WriteManifestList(const std::vector<ManifestFile>& manifests,
                                             const ManifestListHeader& header,
                                             const std::string& codec = "deflate");

}  // namespace thalweg::iceberg
