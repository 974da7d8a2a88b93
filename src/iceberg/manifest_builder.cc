#include "iceberg/manifest_builder.h"

#include <algorithm>

#include "util/status.h"
#include "util/text.h"

namespace thalweg::iceberg {
namespace {

arrow::Result<PartitionSpec> UnpartitionedSpec(const TableMetadata& metadata, int32_t spec_id) {
  ARROW_ASSIGN_OR_RAISE(auto specs, metadata.PartitionSpecs());
  for (auto& spec : specs) {
    if (spec.spec_id != spec_id) continue;
    if (spec.unpartitioned()) return std::move(spec);
    return arrow::Status::NotImplemented("table at ", metadata.location(), ": partition spec ",
                                         spec_id,
                                         " partitions; only unpartitioned tables are written");
  }
  return Invalid("table at {}: there is no partition spec {}", metadata.location(), spec_id);
}

/// Consecutive sources whose manifests together stay below the target; one source alone is no
/// group.
std::vector<std::vector<size_t>> GroupsToMerge(const SnapshotFiles& files,
                                               const std::vector<size_t>& sources,
                                               int64_t target_bytes) {
  std::map<int32_t, std::vector<size_t>> by_spec;
  for (size_t i : sources) by_spec[files.manifests[i].partition_spec_id].push_back(i);
  std::vector<std::vector<size_t>> groups;
  for (const auto& [spec, members] : by_spec) {
    std::vector<size_t> group;
    int64_t bytes = 0;
    auto close = [&] {
      if (group.size() > 1) groups.push_back(std::move(group));
      group.clear();
      bytes = 0;
    };
    for (size_t i : members) {
      const int64_t length = files.manifests[i].manifest_length;
      if (bytes + length > target_bytes) close();
      group.push_back(i);
      bytes += length;
    }
    close();
  }
  return groups;
}

}  // namespace

arrow::Result<std::string> AvroCodecProperty(const TableMetadata& metadata) {
  const std::string codec = Lower(metadata.property("write.avro.compression-codec", "gzip"));
  if (codec == "gzip") return "deflate";
  if (codec == "zstd") return "zstandard";
  if (codec == "snappy") return "snappy";
  if (codec == "uncompressed") return "null";
  return Invalid(
      "table property write.avro.compression-codec: \"{}\" is none of gzip, zstd, snappy, "
      "uncompressed",
      codec);
}

arrow::Result<ManifestMerging> ManifestMerging::FromProperties(const TableMetadata& metadata) {
  ManifestMerging merging;
  ARROW_ASSIGN_OR_RAISE(merging.enabled,
                        metadata.BoolProperty("commit.manifest-merge.enabled", merging.enabled));
  ARROW_ASSIGN_OR_RAISE(
      merging.least_count,
      metadata.IntProperty("commit.manifest.min-count-to-merge", merging.least_count));
  ARROW_ASSIGN_OR_RAISE(
      merging.target_bytes,
      metadata.IntProperty("commit.manifest.target-size-bytes", merging.target_bytes));
  return merging;
}

arrow::Result<ManifestBuilder::Written> ManifestBuilder::Write(
    const TableMetadata& parent, const std::string& folder, int32_t spec_id, int32_t content,
    const std::vector<ManifestEntry>& entries) {
  ARROW_ASSIGN_OR_RAISE(const PartitionSpec spec, UnpartitionedSpec(parent, spec_id));
  ManifestWriteOptions options;
  options.header.schema_json = parent.CurrentSchemaText();
  options.header.schema_id = parent.current_schema_id();
  options.header.partition_spec_json = DumpJson(spec.fields);
  options.header.partition_spec_id = spec_id;
  options.header.format_version = parent.format_version();
  options.header.content.assign(content == 0 ? "data" : "deletes");
  ARROW_ASSIGN_OR_RAISE(options.codec, AvroCodecProperty(parent));
  ARROW_ASSIGN_OR_RAISE(const std::string bytes, WriteManifest(entries, options));

  Written written;
  written.schema_id = parent.current_schema_id();
  written.spec_id = spec_id;
  ManifestFile& manifest = written.manifest;
  manifest.manifest_path =
      JoinLocation(folder, fmt::format("{}-m{}.avro", commit_uuid_, written_.size()));
  manifest.manifest_length = static_cast<int64_t>(bytes.size());
  manifest.partition_spec_id = spec_id;
  manifest.content = content;
  manifest.added_snapshot_id = snapshot_id_;
  ManifestFile::PartitionSummary void_field;
  void_field.contains_null = true;
  void_field.contains_nan = false;
  manifest.partitions.emplace(spec.fields.size(), void_field);
  for (const auto& entry : entries) {
    const int64_t rows = entry.file.record_count;
    if (entry.status == EntryStatus::kDeleted) {
      ++manifest.deleted_files_count;
      manifest.deleted_rows_count += rows;
      continue;
    }
    const bool added = entry.status == EntryStatus::kAdded;
    ++(added ? manifest.added_files_count : manifest.existing_files_count);
    (added ? manifest.added_rows_count : manifest.existing_rows_count) += rows;
    if (entry.sequence_number) {
      written.least_explicit =
          std::min(written.least_explicit.value_or(INT64_MAX), *entry.sequence_number);
    } else {
      written.inherits = true;
    }
  }
  written_.push_back(manifest.manifest_path);
  ARROW_RETURN_NOT_OK(io_.WriteNew(manifest.manifest_path, bytes));
  return written;
}

ManifestFile ManifestBuilder::Stamp(const Written& written, int64_t sequence_number) {
  ManifestFile manifest = written.manifest;
  manifest.sequence_number = sequence_number;
  // Added files with an older sequence number of their own count too: else deletes that still apply
  // to them would seem too old for every live file, and be dropped.
  manifest.min_sequence_number =
      std::min(sequence_number, written.least_explicit.value_or(sequence_number));
  return manifest;
}

arrow::Status ManifestBuilder::AddNew(const TableMetadata& parent, const std::string& folder,
                                      int64_t sequence_number, Manifests* manifests) {
  const bool fits = std::all_of(added_.begin(), added_.end(), [&](const Written& written) {
    return written.schema_id == parent.current_schema_id() &&
           written.spec_id == parent.default_spec_id();
  });
  if (added_.empty() || !fits) {
    added_.clear();
    for (const auto& group : change_.added) {
      if (group.empty()) continue;
      std::vector<ManifestEntry> entries;
      entries.reserve(group.size());
      for (const auto& added : group) {
        entries.push_back({EntryStatus::kAdded, snapshot_id_, added.data_sequence_number,
                           std::nullopt, added.file});
      }
      ARROW_ASSIGN_OR_RAISE(auto written,
                            Write(parent, folder, parent.default_spec_id(), 0, entries));
      added_.push_back(std::move(written));
    }
  }
  for (const auto& written : added_) {
    manifests->list.push_back(Stamp(written, sequence_number));
    ++manifests->counts.created;
  }
  return arrow::Status::OK();
}

arrow::Result<ManifestFile> ManifestBuilder::Rewrite(
    const TableMetadata& parent, const std::string& folder, const SnapshotFiles& files,
    const std::vector<size_t>& sources, const std::vector<bool>& is_removed,
    int64_t sequence_number, ManifestCounts* counts) {
  const ManifestFile& first = files.manifests[sources[0]];
  const auto& live_files = first.content == 0 ? files.data_files : files.delete_files;
  std::string key;
  size_t size = 0;
  for (size_t i : sources) {
    // Another commit may give row ids to a manifest that had none.
    key += fmt::format("{}\n{}\n", files.manifests[i].manifest_path,
                       files.manifests[i].first_row_id.value_or(-1));
    size += files.ranges[i].end - files.ranges[i].begin;
  }
  if (first.content != 0) {  // which of them go may differ from attempt to attempt
    for (size_t i : sources) {
      for (size_t at = files.ranges[i].begin; at < files.ranges[i].end; ++at) {
        key += is_removed[at] ? '-' : '+';
      }
    }
  }
  auto found = rewritten_.find(key);
  if (found == rewritten_.end()) {
    std::vector<ManifestEntry> entries;
    entries.reserve(size);
    for (size_t i : sources) {
      for (size_t at = files.ranges[i].begin; at < files.ranges[i].end; ++at) {
        const LiveFile& live = live_files[at];
        const bool gone = is_removed[at];
        entries.push_back({gone ? EntryStatus::kDeleted : EntryStatus::kExisting,
                           gone ? snapshot_id_ : live.snapshot_id, live.sequence_number,
                           live.file_sequence_number, live.file});
      }
    }
    ARROW_ASSIGN_OR_RAISE(auto written,
                          Write(parent, folder, first.partition_spec_id, first.content, entries));
    found = rewritten_.emplace(std::move(key), std::move(written)).first;
  }
  ++counts->created;
  counts->replaced += static_cast<int64_t>(sources.size());
  counts->entries_processed += static_cast<int64_t>(size);
  return Stamp(found->second, sequence_number);
}

arrow::Status ManifestBuilder::AssignRowIds(Manifests* manifests) {
  for (ManifestFile& manifest : manifests->list) {
    if (manifest.content != 0 || manifest.first_row_id) continue;
    manifest.first_row_id = manifests->next_row_id;
    // Existing files that have ids of their own are counted too, as the reference implementation
    // does it: ids are skipped, never given twice.
    for (const int64_t rows : {manifest.added_rows_count, manifest.existing_rows_count}) {
      if (__builtin_add_overflow(manifests->next_row_id, rows, &manifests->next_row_id)) {
        return Invalid("{}: row ids overflow", manifest.manifest_path);
      }
    }
  }
  return arrow::Status::OK();
}

arrow::Result<ManifestBuilder::Manifests> ManifestBuilder::Build(const TableMetadata& parent,
                                                                 const std::string& folder,
                                                                 const SnapshotFiles& files,
                                                                 const RemovedFiles& removed,
                                                                 int64_t sequence_number) {
  Manifests manifests;
  ARROW_RETURN_NOT_OK(AddNew(parent, folder, sequence_number, &manifests));

  std::vector<bool> data_removed(files.data_files.size());
  for (size_t position : removed.data) data_removed[position] = true;
  std::vector<bool> deletes_removed(files.delete_files.size());
  for (size_t position : removed.deletes) deletes_removed[position] = true;
  auto is_removed = [&](size_t manifest) -> const std::vector<bool>& {
    return files.manifests[manifest].content == 0 ? data_removed : deletes_removed;
  };
  // What becomes of each manifest of the parent: a group of sources that is rewritten as one, named
  // by its first, or nothing.
  std::vector<std::vector<size_t>> rewrite(files.manifests.size());
  std::vector<bool> left(files.manifests.size());
  std::vector<size_t> hit[2], kept[2];  // those with removed files and those without, by content
  for (size_t i = 0; i < files.manifests.size(); ++i) {
    const auto range = files.ranges[i];
    // Without live files a manifest only tells what an earlier snapshot deleted.
    left[i] = range.begin == range.end;
    if (left[i]) continue;
    const auto begin = is_removed(i).begin();
    const bool any = std::find(begin + range.begin, begin + range.end, true) != begin + range.end;
    const int content = files.manifests[i].content == 0 ? 0 : 1;
    if (any) rewrite[i] = {i};
    (any ? hit : kept)[content].push_back(i);
  }

  ARROW_ASSIGN_OR_RAISE(const auto merging, ManifestMerging::FromProperties(parent));
  auto merge = [&](const std::vector<size_t>& sources) {
    auto groups = GroupsToMerge(files, sources, merging.target_bytes);
    for (auto& group : groups) {
      for (size_t i : group) left[i] = true;
      left[group[0]] = false;
      rewrite[group[0]] = std::move(group);
    }
  };
  for (const int content : {0, 1}) {
    if (!merging.enabled) break;
    const size_t count =
        (content == 0 ? added_.size() : 0) + hit[content].size() + kept[content].size();
    merge(hit[content]);
    if (static_cast<int64_t>(count) >= merging.least_count) merge(kept[content]);
  }

  for (size_t i = 0; i < files.manifests.size(); ++i) {
    if (left[i]) continue;
    if (rewrite[i].empty()) {
      manifests.list.push_back(files.manifests[i]);
      ++manifests.counts.kept;
      continue;
    }
    ARROW_ASSIGN_OR_RAISE(auto manifest, Rewrite(parent, folder, files, rewrite[i], is_removed(i),
                                                 sequence_number, &manifests.counts));
    manifests.list.push_back(std::move(manifest));
  }
  manifests.next_row_id = parent.next_row_id();
  if (parent.format_version() >= 3) ARROW_RETURN_NOT_OK(AssignRowIds(&manifests));
  return manifests;
}

}  // namespace thalweg::iceberg
