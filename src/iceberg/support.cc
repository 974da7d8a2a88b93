#include "iceberg/support.h"

#include <set>

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
  if (!files.delete_files.empty()) {
    return Invalid(
        "{} live delete file(s), for instance {}: tables with row-level deletes are not supported "
        "by this version of "
        "Thalweg; compact them first",
        files.delete_files.size(), files.delete_files.front().file.file_path);
  }
  for (const auto& live : files.data_files) {
    std::string format = live.file.file_format;
    for (char& c : format) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    if (format != "PARQUET") {
      return Invalid(
          "data file {} is {}; only Parquet data files are supported by this version of Thalweg",
          live.file.file_path, live.file.file_format);
    }
  }
  return arrow::Status::OK();
}

}  // namespace thalweg::iceberg
