// Names of a table's files, run intents, and what the history still refers to.

#include <xxhash.h>

#include <algorithm>

#include "iceberg/iceberg_table_internal.h"
#include "iceberg/manifest.h"
#include "table/run_tag.h"
#include "util/status.h"

namespace thalweg::iceberg {
namespace {

constexpr std::string_view kDataFilePrefix = "thalweg-";

std::string_view FileName(std::string_view location) {
  return location.substr(location.rfind('/') + 1);
}

}  // namespace

std::string DataFolder(const TableMetadata& metadata) {
  return metadata.property("write.data.path", JoinLocation(metadata.location(), "data"));
}

std::string DataFileLocation(const TableMetadata& metadata, const OutputContext& context,
                             int number) {
  const std::string name = fmt::format(
      "{}{}-{:05}-{}-{:05}.parquet", kDataFilePrefix, RunTag(context.run_id, metadata.table_uuid()),
      context.task,
      context.attempt_id.empty() ? std::to_string(context.attempt) : context.attempt_id, number);
  const std::string folder = DataFolder(metadata);
  if (!metadata.BoolProperty("write.object-storage.enabled", false).ValueOr(false)) {
    return JoinLocation(folder, name);
  }
  // Spread over prefixes made of a hash of the name: three folders of 4 bits and one of 8, written
  // in binary digits.
  const uint64_t hash = XXH3_64bits(name.data(), name.size());
  return JoinLocation(folder, fmt::format("{:04b}/{:04b}/{:04b}/{:08b}/{}", hash & 15,
                                          hash >> 4 & 15, hash >> 8 & 15, hash >> 12 & 255, name));
}

bool IsOwnDataFile(const std::string& location) {
  const std::string_view name = FileName(location);
  return name.starts_with(kDataFilePrefix) && name.ends_with(".parquet") &&
         name.size() > kDataFilePrefix.size() + 36;
}

std::string IcebergTable::TagOfRun(const std::string& run_id) const {
  return RunTag(run_id, loaded_.metadata.table_uuid());
}

arrow::Result<std::vector<RunFile>> IcebergTable::ListRunFiles() const {
  std::vector<RunFile> intents;
  ARROW_ASSIGN_OR_RAISE(const auto listed,
                        io().List(store_->MetadataFolder(loaded_.metadata), /*recursive=*/false));
  for (const auto& file : listed) {
    const std::string_view name = FileName(file.location);
    if (RunTagOfRunFile(name).empty()) continue;
    auto text = io().ReadAll(file.location);
    if (!text.ok()) {
      // Its owner may have removed it since the folder was listed.
      ARROW_ASSIGN_OR_RAISE(const auto size, io().Size(file.location));
      if (!size) continue;
      return text.status();
    }
    intents.push_back({std::string(name), *std::move(text), file.modified_millis});
  }
  return intents;
}

arrow::Status IcebergTable::WriteRunFile(const std::string& name, const std::string& text) const {
  return io().Replace(JoinLocation(store_->MetadataFolder(loaded_.metadata), name), text);
}

arrow::Status IcebergTable::DeleteRunFile(const std::string& name) const {
  return io().Delete(JoinLocation(store_->MetadataFolder(loaded_.metadata), name));
}

arrow::Result<std::vector<Table::FileSize>> IcebergTable::FilesOfRun(const std::string& tag) const {
  std::vector<std::string> folders;
  for (const std::string& folder :
       {DataFolder(loaded_.metadata), store_->MetadataFolder(loaded_.metadata),
        JoinLocation(loaded_.metadata.location(), "data"),
        JoinLocation(loaded_.metadata.location(), "metadata")}) {
    if (std::none_of(folders.begin(), folders.end(),
                     [&](const auto& other) { return SameLocation(other, folder); })) {
      folders.push_back(folder);
    }
  }
  std::vector<FileSize> found;
  for (const auto& folder : folders) {
    ARROW_ASSIGN_OR_RAISE(const auto listed, io().List(folder, /*recursive=*/true));
    for (const auto& file : listed) {
      const std::string_view name = FileName(file.location);
      if (name.find(tag) == std::string_view::npos || LooksLikeRunFile(name)) continue;
      found.push_back({file.location, file.size});
    }
  }
  return found;
}

arrow::Result<std::set<std::string>> IcebergTable::ReferencedFiles() const {
  ARROW_ASSIGN_OR_RAISE(const LoadedTable fresh, store_->Load());
  std::set<std::string> referenced{fresh.metadata_location};
  std::set<std::string> manifests;
  ARROW_ASSIGN_OR_RAISE(const auto snapshots, fresh.metadata.Snapshots());
  for (const auto& snapshot : snapshots) {
    if (snapshot.manifest_list.empty()) continue;
    referenced.insert(snapshot.manifest_list);
    ARROW_ASSIGN_OR_RAISE(const std::string bytes, io().ReadAll(snapshot.manifest_list));
    ARROW_ASSIGN_OR_RAISE(const auto listed, ReadManifestList(bytes, snapshot.manifest_list));
    for (const auto& manifest : listed) manifests.insert(manifest.manifest_path);
  }
  for (const auto& path : manifests) {
    referenced.insert(path);
    ARROW_ASSIGN_OR_RAISE(const std::string bytes, io().ReadAll(path));
    ARROW_RETURN_NOT_OK(ReadManifest(bytes, path, [&](ManifestEntry&& entry) {
                          referenced.insert(std::move(entry.file.file_path));
                          return arrow::Status::OK();
                        }).status());
  }
  ARROW_ASSIGN_OR_RAISE(const auto statistics, fresh.metadata.Statistics());
  for (const auto& file : statistics) referenced.insert(file.statistics_path);
  const Json& json = fresh.metadata.json();
  auto insert_paths = [&](const char* list, const char* key) {
    auto it = json.find(list);
    if (it == json.end() || !it->is_array()) return;
    for (const auto& element : *it) {
      auto path = element.is_object() ? element.find(key) : element.end();
      if (element.is_object() && path != element.end() && path->is_string())
        referenced.insert(path->get<std::string>());
    }
  };
  insert_paths("metadata-log", "metadata-file");
  insert_paths("partition-statistics", "statistics-path");
  // Listed locations and metadata may spell the scheme differently.
  std::set<std::string> spellings;
  for (const auto& location : referenced) {
    for (auto& spelling : FileIO::Spellings(location)) spellings.insert(std::move(spelling));
  }
  referenced.merge(spellings);
  return referenced;
}

arrow::Status IcebergTable::DeleteFile(const std::string& location) const {
  return io().Delete(location);
}

}  // namespace thalweg::iceberg
