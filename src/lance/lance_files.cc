// Names of the dataset's files, run intents, and what the versions still refer to.

#include "lance/lance_table_internal.h"
#include "table/run_tag.h"
#include "util/status.h"

namespace thalweg::lance {
namespace {

constexpr char kDataFolder[] = "data";
constexpr char kPartsFolder[] = "_parts";
constexpr char kOwnFolder[] = "_thalweg";
constexpr std::string_view kNamePrefix = "thalweg-";
constexpr std::string_view kDataSuffix = ".lance";

std::string_view FileName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::string OwnPath(const std::string& name) { return std::string(kOwnFolder) + "/" + name; }

std::string Stem(const std::string& data_path) {
  std::string_view stem = FileName(data_path);
  if (stem.ends_with(kDataSuffix)) stem.remove_suffix(kDataSuffix.size());
  return std::string(stem);
}

/// Where Lance puts the parts of a data file with blobs until it is whole.
std::string PartsFolder(const std::string& data_path) {
  return fmt::format("{}/{}/{}", kDataFolder, kPartsFolder, FileName(data_path));
}

/// The data file that a file below the data folder is part of, there or not: its blobs stand in a
/// folder named like it, and its parts in one below the folder of parts.
std::string OwnerPath(const std::string& path) {
  const std::string data = std::string(kDataFolder) + "/";
  const std::string parts = data + kPartsFolder + "/";
  if (path.starts_with(parts)) {
    return data + path.substr(parts.size(), path.find('/', parts.size()) - parts.size());
  }
  const size_t deeper = path.find('/', data.size());
  if (!path.starts_with(data) || deeper == std::string::npos) return path;
  return path.substr(0, deeper) + std::string(kDataSuffix);
}

bool IsDataPath(const std::string& path) {
  return path.starts_with(std::string(kDataFolder) + "/") && path.ends_with(kDataSuffix);
}

}  // namespace

std::string DataFileName(const OutputContext& context, int number) {
  return fmt::format(
      "{}{}-{:05}-{}-{:05}{}", kNamePrefix, RunTag(context.run_id), context.task,
      context.attempt_id.empty() ? std::to_string(context.attempt) : context.attempt_id, number,
      kDataSuffix);
}

std::string RowsFilePath(const std::string& data_path) {
  return OwnPath(Stem(data_path) + ".rows");
}

arrow::Status DeleteDataFile(const Version& version, const std::string& data_path) {
  ARROW_RETURN_NOT_OK(version.dataset->DeleteFile(data_path));
  if (version.description.has_blobs()) {
    for (const std::string& folder :
         {fmt::format("{}/{}", kDataFolder, Stem(data_path)), PartsFolder(data_path)}) {
      ARROW_ASSIGN_OR_RAISE(const auto files, version.dataset->ListFiles(folder));
      for (const auto& file : files) ARROW_RETURN_NOT_OK(version.dataset->DeleteFile(file.path));
    }
  }
  return version.dataset->DeleteFile(RowsFilePath(data_path));
}

arrow::Status CheckOwnPath(const std::string& path) {
  const size_t slash = path.find('/');
  const std::string folder = path.substr(0, slash);
  const std::string_view name = FileName(path);
  if ((folder == kDataFolder || folder == kOwnFolder) && slash + 1 + name.size() == path.size() &&
      name.starts_with(kNamePrefix) && name.find('\\') == std::string_view::npos) {
    return arrow::Status::OK();
  }
  return Invalid("\"{}\" is not the path of a file that this program writes", path.substr(0, 200));
}

arrow::Result<std::vector<RunFile>> LanceTable::ListRunFiles() const {
  std::vector<RunFile> intents;
  ARROW_ASSIGN_OR_RAISE(const auto listed, Named(version_->dataset->ListFiles(kOwnFolder)));
  for (const auto& file : listed) {
    const std::string_view name = FileName(file.path);
    if (RunTagOfRunFile(name).empty()) continue;
    auto text = version_->dataset->ReadFile(file.path);
    // Its owner may have removed it since the folder was listed.
    if (!text.ok() && IsNotFound(text.status())) continue;
    ARROW_RETURN_NOT_OK(Named(text.status()));
    intents.push_back({std::string(name), *std::move(text), file.modified_millis});
  }
  return intents;
}

arrow::Status LanceTable::WriteRunFile(const std::string& name, const std::string& text) const {
  return Named(version_->dataset->WriteFile(OwnPath(name), text));
}

arrow::Status LanceTable::DeleteRunFile(const std::string& name) const {
  return Named(version_->dataset->DeleteFile(OwnPath(name)));
}

arrow::Result<std::vector<Table::FileSize>> LanceTable::FilesOfRun(const std::string& tag) const {
  std::map<std::string, int64_t> found;
  for (const std::string folder : {kDataFolder, kOwnFolder}) {
    ARROW_ASSIGN_OR_RAISE(const auto listed, Named(version_->dataset->ListFiles(folder)));
    for (const auto& file : listed) {
      const std::string path = OwnerPath(file.path);
      const std::string_view name = FileName(path);
      if (name.find(tag) == std::string_view::npos || LooksLikeRunFile(name) ||
          !CheckOwnPath(path).ok()) {
        continue;
      }
      found[path] += file.bytes;
    }
  }
  std::vector<FileSize> files;
  files.reserve(found.size());
  for (const auto& [path, bytes] : found) files.push_back({path, bytes});
  return files;
}

arrow::Result<std::set<std::string>> LanceTable::ReferencedFiles() const {
  ARROW_ASSIGN_OR_RAISE(const auto paths, Named(version_->dataset->ReferencedFiles()));
  return std::set<std::string>(paths.begin(), paths.end());
}

arrow::Status LanceTable::DeleteFile(const std::string& location) const {
  ARROW_RETURN_NOT_OK(Named(CheckOwnPath(location)));
  return Named(IsDataPath(location) ? DeleteDataFile(*version_, location)
                                    : version_->dataset->DeleteFile(location));
}

}  // namespace thalweg::lance
