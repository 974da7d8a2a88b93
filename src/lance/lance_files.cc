// Names of the dataset's files, run intents, and what the versions still refer to.

#include "lance/lance_table_internal.h"
#include "table/run_tag.h"
#include "util/status.h"

namespace thalweg::lance {
namespace {

constexpr char kDataFolder[] = "data";
constexpr char kOwnFolder[] = "_thalweg";
constexpr std::string_view kNamePrefix = "thalweg-";
constexpr std::string_view kDataSuffix = ".lance";
constexpr std::string_view kIntentPrefix = "thalweg-run-";

std::string_view FileName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

std::string OwnPath(const std::string& name) { return std::string(kOwnFolder) + "/" + name; }

std::string Stem(const std::string& data_path) {
  std::string_view stem = FileName(data_path);
  if (stem.ends_with(kDataSuffix)) stem.remove_suffix(kDataSuffix.size());
  return std::string(stem);
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
    ARROW_ASSIGN_OR_RAISE(const auto blobs, version.dataset->ListFiles(std::string(kDataFolder) +
                                                                       "/" + Stem(data_path)));
    for (const auto& blob : blobs) ARROW_RETURN_NOT_OK(version.dataset->DeleteFile(blob.path));
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
    if (!name.starts_with(kIntentPrefix) || !name.ends_with(".json")) continue;
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

arrow::Result<std::vector<Table::FileSize>> LanceTable::FilesOfRun(
    const std::string& run_id) const {
  const std::string tag = RunTag(run_id);
  std::map<std::string, int64_t> found;
  for (const std::string folder : {kDataFolder, kOwnFolder}) {
    ARROW_ASSIGN_OR_RAISE(const auto listed, Named(version_->dataset->ListFiles(folder)));
    for (const auto& file : listed) {
      // Blobs stand in a folder named like their data file: they are its part, also where a crash
      // left nothing else of it.
      std::string path = file.path;
      const size_t deeper = path.find('/', folder.size() + 1);
      if (folder == kDataFolder && deeper != std::string::npos) {
        path = path.substr(0, deeper) + std::string(kDataSuffix);
      }
      const std::string_view name = FileName(path);
      if (name.find(tag) == std::string_view::npos || name.starts_with(kIntentPrefix) ||
          !CheckOwnPath(path).ok()) {
        continue;
      }
      found[path] += file.bytes;
    }
  }
  std::vector<FileSize> files;
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
