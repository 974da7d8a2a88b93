#include "iceberg/support.h"

#include <set>
#include <string_view>
#include <unordered_set>

#include "iceberg/commit_retry.h"
#include "iceberg/delete_index.h"
#include "iceberg/manifest_builder.h"
#include "iceberg/name_mapping.h"
#include "iceberg/parquet_writer.h"
#include "iceberg/row_lineage.h"
#include "util/status.h"

namespace thalweg::iceberg {
namespace {

/// What this version would write in the clear, or cannot read.
arrow::Status CheckNotEncrypted(const TableMetadata& metadata, const SnapshotFiles& files) {
  constexpr char kKeyProperty[] = "encryption.key-id";
  if (!metadata.property(kKeyProperty, "").empty()) {
    return Invalid(
        "the table is encrypted (table property {}); encrypted tables are not supported by this "
        "version of Thalweg",
        kKeyProperty);
  }
  for (const auto* list : {&files.data_files, &files.delete_files}) {
    for (const auto& live : *list) {
      if (live.file.key_metadata.value_or("").empty()) continue;
      return Invalid(
          "{} is encrypted (its manifest entry has key metadata); encrypted files are not "
          "supported by this version of Thalweg",
          live.file.file_path);
    }
  }
  return arrow::Status::OK();
}

/// Files are told apart by their paths: removing one of two entries of a file would leave its rows.
arrow::Status CheckListedOnce(const SnapshotFiles& files) {
  std::unordered_set<std::string_view> paths;
  paths.reserve(files.data_files.size());
  for (const auto& live : files.data_files) {
    if (paths.insert(live.file.file_path).second) continue;
    return Invalid(
        "data file {} is in the table twice, so that readers see its rows twice; remove it with "
        "the engine that added it, and add it once",
        live.file.file_path);
  }
  return arrow::Status::OK();
}

}  // namespace

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
  ARROW_RETURN_NOT_OK(CheckNotEncrypted(metadata, files));
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
    if (!live || unpartitioned.contains(manifest.partition_spec_id)) continue;
    if (manifest.content != 0) {
      return Invalid(
          "live delete files belong to the old partition spec {}; compact them away first, also "
          "where they apply to nothing any more (manifest {})",
          manifest.partition_spec_id, manifest.manifest_path);
    }
    return Invalid(
        "live files belong to the old partition spec {}; rewrite them without partitions first "
        "(manifest {})",
        manifest.partition_spec_id, manifest.manifest_path);
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
  return CheckListedOnce(files);
}

arrow::Status CheckProperties(const TableMetadata& metadata) {
  const auto properties = metadata.properties();
  ARROW_ASSIGN_OR_RAISE(const Schema schema, metadata.CurrentSchema());
  ARROW_RETURN_NOT_OK(ParquetWriteOptions::FromProperties(properties, schema).status());
  ARROW_RETURN_NOT_OK(NameMapping::FromProperties(properties).status());
  ARROW_RETURN_NOT_OK(metadata.BoolProperty("write.object-storage.enabled", false).status());
  ARROW_RETURN_NOT_OK(AvroCodecProperty(metadata).status());
  ARROW_RETURN_NOT_OK(ManifestMerging::FromProperties(metadata).status());
  ARROW_RETURN_NOT_OK(Backoff::ForCommits(metadata).status());
  return Backoff::ForStatusChecks(metadata).status();
}

}  // namespace thalweg::iceberg
