#include "iceberg/support.h"

#include <set>

#include "iceberg/delete_index.h"
#include "iceberg/row_lineage.h"
#include "util/status.h"

namespace thalweg::iceberg {

arrow::Status CheckSupported(const TableMetadata& metadata, const SnapshotFiles& files) {
  const int version = metadata.format_version();
  if (version == 1) {
    return Invalid(
        "format version 1 is not supported; upgrade the table to format-version 2 first");
  }
  if (version > 3) {
    return Invalid(
        "format version {} is not supported by this version of Thalweg; it reads and writes "
        "versions 2 and 3",
        version);
  }
  if (version >= 3) {
    ARROW_ASSIGN_OR_RAISE(const Schema schema, metadata.CurrentSchema());
    for (const auto& [name, id] :
         {std::pair(kRowIdName, kRowIdFieldId), std::pair(kLastUpdatedName, kLastUpdatedFieldId)}) {
      const Field* field = schema.FindTopLevel(name);
      if (field == nullptr || field->id == id) continue;
      return Invalid("column \"{}\" (field {}) has the name of a column of row lineage: rename it",
                     name, field->id);
    }
  }
  ARROW_ASSIGN_OR_RAISE(const auto specs, metadata.PartitionSpecs());
  std::set<int32_t> unpartitioned;
  for (const auto& spec : specs) {
    if (spec.unpartitioned()) unpartitioned.insert(spec.spec_id);
  }
  if (!unpartitioned.contains(metadata.default_spec_id())) {
    return Invalid(
        "the table is partitioned (default spec {}); liquid clustering replaces partitions: drop "
        "the partition fields "
        "first",
        metadata.default_spec_id());
  }
  for (const auto& manifest : files.manifests) {
    const bool live = manifest.added_files_count + manifest.existing_files_count > 0;
    if (live && !unpartitioned.contains(manifest.partition_spec_id)) {
      return Invalid(
          "live files belong to the old partition spec {}; rewrite them without partitions first "
          "(manifest {})",
          manifest.partition_spec_id, manifest.manifest_path);
    }
  }
  for (const auto& live : files.delete_files) {
    const bool vector = version >= 3 && HasFormat(live.file, "PUFFIN");
    if (!vector && !HasFormat(live.file, "PARQUET")) {
      return Invalid(
          "delete file {} is {}; only Parquet delete files and, in format version 3, deletion "
          "vectors are supported by this version of Thalweg",
          live.file.file_path, live.file.file_format);
    }
  }
  for (const auto& live : files.data_files) {
    if (!HasFormat(live.file, "PARQUET")) {
      return Invalid(
          "data file {} is {}; only Parquet data files are supported by this version of Thalweg",
          live.file.file_path, live.file.file_format);
    }
  }
  return arrow::Status::OK();
}

}  // namespace thalweg::iceberg
