#include <atomic>
#include <iterator>
#include <mutex>
#include <thread>

#include "iceberg/commit.h"
#include "util/status.h"

namespace thalweg::iceberg {
namespace {

constexpr unsigned kReaders = 2;

struct Contents {
  std::vector<LiveFile> files;
  arrow::Status status;
};

/// A number that a null entry takes from its manifest: only files that it added have the
/// manifest's; in manifests of format version 1 everything is 0.
arrow::Result<int64_t> Inherited(const std::optional<int64_t>& own, const ManifestFile& manifest,
                                 EntryStatus status, const std::string& path) {
  if (own) return *own;
  if (status == EntryStatus::kAdded || manifest.sequence_number == 0) {
    return manifest.sequence_number;
  }
  return Invalid("{}: the entry of {} is marked as existing but has no sequence number",
                 manifest.manifest_path, path);
}

arrow::Status Encrypted(const std::string& location) {
  return arrow::Status::NotImplemented(
      location, " is encrypted; encrypted tables are not supported by this version of Thalweg");
}

arrow::Status ReadContents(const FileIO& io, ManifestFile* manifest, Contents* contents) {
  if (!manifest->key_metadata.value_or("").empty()) return Encrypted(manifest->manifest_path);
  ARROW_ASSIGN_OR_RAISE(const std::string bytes, io.ReadAll(manifest->manifest_path));
  ManifestFile counted;
  // Files without a row id of their own take theirs from the manifest's, one after the other; where
  // the manifest has none, no file of it has (the table was upgraded, and has not changed since).
  std::optional<int64_t> next_row_id = manifest->first_row_id;
  auto visit = [&](ManifestEntry&& entry) -> arrow::Status {
    const int64_t rows = entry.file.record_count;
    switch (entry.status) {
      case EntryStatus::kDeleted:
        ++counted.deleted_files_count;
        counted.deleted_rows_count += rows;
        return arrow::Status::OK();
      case EntryStatus::kAdded:
        ++counted.added_files_count;
        counted.added_rows_count += rows;
        break;
      case EntryStatus::kExisting:
        ++counted.existing_files_count;
        counted.existing_rows_count += rows;
        break;
    }
    if ((entry.file.content == FileContent::kData) != (manifest->content == 0)) {
      return Invalid("{}: {} is a {} file in a manifest of {} files", manifest->manifest_path,
                     entry.file.file_path, manifest->content == 0 ? "delete" : "data",
                     manifest->content == 0 ? "data" : "delete");
    }
    LiveFile& live = contents->files.emplace_back();
    live.snapshot_id = entry.snapshot_id.value_or(manifest->added_snapshot_id);
    ARROW_ASSIGN_OR_RAISE(live.sequence_number, Inherited(entry.sequence_number, *manifest,
                                                          entry.status, entry.file.file_path));
    ARROW_ASSIGN_OR_RAISE(
        live.file_sequence_number,
        Inherited(entry.file_sequence_number, *manifest, entry.status, entry.file.file_path));
    live.partition_spec_id = manifest->partition_spec_id;
    live.file = std::move(entry.file);
    if (!next_row_id) {
      live.file.first_row_id.reset();
    } else if (manifest->content == 0 && !live.file.first_row_id) {
      live.file.first_row_id = next_row_id;
      if (rows > INT64_MAX - *next_row_id) {
        return Invalid("{}: row ids overflow at {}", manifest->manifest_path, live.file.file_path);
      }
      *next_row_id += rows;
    }
    return arrow::Status::OK();
  };
  ARROW_RETURN_NOT_OK(ReadManifest(bytes, manifest->manifest_path, visit).status());
  // Lists of format version 1 may lack the counts, which newer lists must have.
  if (manifest->added_files_count == 0 && manifest->existing_files_count == 0 &&
      manifest->deleted_files_count == 0) {
    manifest->added_files_count = counted.added_files_count;
    manifest->existing_files_count = counted.existing_files_count;
    manifest->deleted_files_count = counted.deleted_files_count;
    manifest->added_rows_count = counted.added_rows_count;
    manifest->existing_rows_count = counted.existing_rows_count;
    manifest->deleted_rows_count = counted.deleted_rows_count;
  }
  // Row ids are given by these: too low a count would give some twice.
  manifest->added_rows_count = std::max(manifest->added_rows_count, counted.added_rows_count);
  manifest->existing_rows_count =
      std::max(manifest->existing_rows_count, counted.existing_rows_count);
  return arrow::Status::OK();
}

/// Reads every manifest; the first failure in list order is returned.
arrow::Status ReadAllContents(const FileIO& io, std::vector<ManifestFile>* manifests,
                              std::vector<Contents>* contents) {
  contents->resize(manifests->size());
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  auto work = [&] {
    for (size_t i = next++; i < manifests->size() && !failed; i = next++) {
      (*contents)[i].status = ReadContents(io, &(*manifests)[i], &(*contents)[i]);
      if (!(*contents)[i].status.ok()) failed = true;
    }
  };
  std::vector<std::thread> readers;
  for (unsigned i = 1; i < std::min<size_t>(kReaders, manifests->size()); ++i) {
    readers.emplace_back(work);
  }
  work();
  for (auto& reader : readers) reader.join();
  for (const auto& read : *contents) ARROW_RETURN_NOT_OK(read.status);
  return arrow::Status::OK();
}

}  // namespace

arrow::Result<SnapshotFiles> ReadSnapshotFiles(const FileIO& io, const TableMetadata& metadata,
                                               std::optional<int64_t> snapshot_id) {
  SnapshotFiles files;
  if (!snapshot_id) return files;
  ARROW_ASSIGN_OR_RAISE(auto snapshot, metadata.FindSnapshot(*snapshot_id));
  if (!snapshot) {
    return arrow::Status::KeyError("table at ", metadata.location(), " has no snapshot ",
                                   *snapshot_id);
  }
  if (snapshot->manifest_list.empty()) {
    return arrow::Status::NotImplemented("table at ", metadata.location(), ": snapshot ",
                                         *snapshot_id,
                                         " has no manifest list (an old form of format version 1)");
  }
  if (!snapshot->key_id.empty()) return Encrypted(snapshot->manifest_list);
  ARROW_ASSIGN_OR_RAISE(const std::string bytes, io.ReadAll(snapshot->manifest_list));
  ARROW_ASSIGN_OR_RAISE(files.manifests, ReadManifestList(bytes, snapshot->manifest_list));
  std::vector<Contents> contents;
  ARROW_RETURN_NOT_OK(ReadAllContents(io, &files.manifests, &contents));
  for (size_t i = 0; i < contents.size(); ++i) {
    auto& target = files.manifests[i].content == 0 ? files.data_files : files.delete_files;
    const size_t begin = target.size();
    target.insert(target.end(), std::make_move_iterator(contents[i].files.begin()),
                  std::make_move_iterator(contents[i].files.end()));
    files.ranges.push_back({begin, target.size()});
  }
  return files;
}

}  // namespace thalweg::iceberg
