
#include "iceberg/catalog.h"
#include "iceberg/metadata_file.h"
#include "iceberg/s3_file_io.h"
#include "util/crash_point.h"
#include "util/number.h"
#include "util/status.h"
#include "util/uuid.h"

namespace thalweg::iceberg {
namespace {

constexpr std::string_view kSuffixes[] = {".metadata.json", ".gz.metadata.json",
                                          ".metadata.json.gz"};
constexpr char kHint[] = "version-hint.text";

std::string HadoopMetadataFolder(const std::string& location) {
  return JoinLocation(location, "metadata");
}

/// The metadata file of a version, nullopt when there is none.
arrow::Result<std::optional<std::string>> FindVersion(const FileIO& io, const std::string& folder,
                                                      int64_t version) {
  for (std::string_view suffix : kSuffixes) {
    const auto file = JoinLocation(folder, fmt::format("v{}{}", version, suffix));
    ARROW_ASSIGN_OR_RAISE(auto size, io.Size(file));
    if (size) return std::optional<std::string>(file);
  }
  return std::nullopt;
}

std::optional<int64_t> ReadHint(const FileIO& io, const std::string& folder) {
  constexpr int64_t kLargestHint = 64;
  auto text = io.ReadAll(JoinLocation(folder, kHint), kLargestHint);
  if (!text.ok()) return std::nullopt;
  while (!text->empty() && std::isspace(static_cast<unsigned char>(text->back()))) {
    text->pop_back();
  }
  return ParseNumber<int64_t>(*text);
}

/// The newest version's file: the hint probed forward, or the whole folder listed when the hint
/// leads nowhere.
arrow::Result<std::optional<std::string>> NewestVersion(const FileIO& io,
                                                        const std::string& folder) {
  if (auto version = ReadHint(io, folder)) {
    ARROW_ASSIGN_OR_RAISE(auto newest, FindVersion(io, folder, *version));
    auto next = newest;
    while (next) {
      newest = next;
      ARROW_ASSIGN_OR_RAISE(next, FindVersion(io, folder, ++*version));
    }
    if (newest) return newest;
  }
  ARROW_ASSIGN_OR_RAISE(auto files, io.List(folder, /*recursive=*/false));
  int64_t best = -1;
  std::optional<std::string> newest;
  for (const auto& file : files) {
    auto version = HadoopFileVersion(FileNameOf(file.location));
    if (version && *version > best) {
      best = *version;
      newest = file.location;
    }
  }
  return newest;
}

/// The newest "NNNNN-<uuid>.metadata.json" of a folder that belongs to a catalog.
arrow::Result<std::optional<std::string>> NewestCatalogFile(const FileIO& io,
                                                            const std::string& folder) {
  ARROW_ASSIGN_OR_RAISE(auto files, io.List(folder, /*recursive=*/false));
  std::pair<int64_t, int64_t> best{
      -1, -1};  // version, then age: lost commits leave equal versions behind
  std::optional<std::string> newest;
  for (const auto& file : files) {
    auto version = CatalogFileVersion(FileNameOf(file.location));
    if (version && std::pair(*version, file.modified_millis) > best) {
      best = {*version, file.modified_millis};
      newest = file.location;
    }
  }
  return newest;
}

class HadoopTable : public TableStore {
 public:
  HadoopTable(std::shared_ptr<FileIO> io, const std::string& location)
      : TableStore(std::move(io)),
        location_(location),
        folder_(HadoopMetadataFolder(location)),
        description_("table at " + location) {}

  /// Decides whether the table may be written to.
  arrow::Status Check() {
    ARROW_ASSIGN_OR_RAISE(auto table, Load());
    if (!FileIO::LocalPath(location_).ok()) {
      read_only_ = fmt::format(
          "the {} can only be read: Hadoop tables need a file system with atomic rename; put the "
          "table into a catalog to change it",
          description_);
    } else if (!SameLocation(table.metadata.location(), location_)) {
      read_only_ = fmt::format(
          "the {} was moved or copied: its metadata says that it is at {}; it can only be read "
          "here",
          description_, table.metadata.location());
    }
    return arrow::Status::OK();
  }

  arrow::Result<LoadedTable> Load() override {
    return ReadCurrentMetadata(*io_, [&]() -> arrow::Result<std::string> {
      ARROW_ASSIGN_OR_RAISE(auto newest, NewestVersion(*io_, folder_));
      if (!newest) {
        return arrow::Status::KeyError("no table at ", location_,
                                       ": there is no v<N>.metadata.json in ", folder_);
      }
      return *std::move(newest);
    });
  }

  arrow::Result<LoadedTable> Commit(const LoadedTable& base,
                                    const TableMetadata& updated) override {
    if (!read_only_.empty()) return Invalid("{}", read_only_);
    auto version = HadoopFileVersion(FileNameOf(base.metadata_location));
    if (!version) {
      return Invalid("{} is not a version of the {}", base.metadata_location, description_);
    }
    std::vector<std::string> expired;
    ARROW_ASSIGN_OR_RAISE(auto next, NextMetadata(base, updated, &expired));
    ARROW_ASSIGN_OR_RAISE(auto location, Publish(*version + 1, next));
    if (!location) {
      return Conflict("{}: another commit made version {} first", description_, *version + 1);
    }
    DeleteQuietly(*io_, expired);
    return LoadedTable{*location, std::move(next)};
  }

  arrow::Result<LoadedTable> CreateTable(const TableMetadata& metadata) override {
    if (!SameLocation(metadata.location(), location_)) {
      return Invalid("a table with location {} cannot be created at {}", metadata.location(),
                     location_);
    }
    ARROW_ASSIGN_OR_RAISE(auto newest, NewestVersion(*io_, folder_));
    if (!newest) {
      ARROW_ASSIGN_OR_RAISE(newest, NewestCatalogFile(*io_, folder_));
    }
    std::optional<std::string> location;
    if (!newest) {
      ARROW_ASSIGN_OR_RAISE(location, Publish(1, metadata));
    }
    if (!location) return arrow::Status::AlreadyExists("there is already a ", description_);
    return LoadedTable{*location, metadata};
  }

  arrow::Status CheckProperties(const TableMetadata& metadata) const override {
    // Its location may be relative: it is the folder that the table was opened in.
    ARROW_RETURN_NOT_OK(
        CheckAbsolute("table property write.data.path:", metadata.property("write.data.path", "")));
    return CheckMetadataFileProperties(metadata);
  }

  const std::string& description() const override { return description_; }

  bool writable(std::string* why) const override {
    if (why != nullptr) *why = read_only_;
    return read_only_.empty();
  }

  std::string MetadataFolder(const TableMetadata&) const override { return folder_; }

 private:
  /// Makes `metadata` version `version` of the table; nullopt when that version exists. A failure
  /// leaves nothing, except with kind kUnknown.
  arrow::Result<std::optional<std::string>> Publish(int64_t version,
                                                    const TableMetadata& metadata) {
    ARROW_ASSIGN_OR_RAISE(const std::string suffix, MetadataFileSuffix(metadata));
    const auto temporary =
        JoinLocation(folder_, (file_uuid_.empty() ? "" : file_uuid_ + "-") + NewUuid() + suffix);
    const auto target = JoinLocation(folder_, fmt::format("v{}{}", version, suffix));
    ARROW_RETURN_NOT_OK(WriteMetadataFile(*io_, temporary, metadata));
    CrashPoint("metadata-written");

    // The rename catches a version of the same name. Another codec's name, and a version so old
    // that it was already expired, are caught here.
    auto newest = NewestVersion(*io_, folder_);
    const bool current =
        newest.ok() &&
        HadoopFileVersion(FileNameOf(newest->value_or("v0.metadata.json"))) == version - 1;
    if (!current) {
      ARROW_RETURN_NOT_OK(io_->Delete(temporary));
      ARROW_RETURN_NOT_OK(newest.status());
      return std::nullopt;
    }
    const auto renamed = io_->RenameNoReplace(temporary, target);
    if (!renamed.ok()) {
      auto still_there = io_->Size(temporary);
      if (!still_there.ok() || !*still_there) {
        // The rename happened; only what follows it failed.
        auto published = ReadMetadataFile(*io_, target);
        if (!published.ok() || published->metadata.json() != metadata.json()) {
          return UnknownOutcome("{}: {}", description_, renamed.message());
        }
      } else {
        ARROW_RETURN_NOT_OK(io_->Delete(temporary));
        if (renamed.IsAlreadyExists()) return std::nullopt;
        return renamed;
      }
    }
    CrashPoint("renamed");
    // Readers probe forward from the hint, so that an old one does no harm.
    (void)io_->Replace(JoinLocation(folder_, kHint), std::to_string(version));
    return std::optional<std::string>(target);
  }

  const std::string location_;
  const std::string folder_;
  const std::string description_;
  std::string read_only_;
};

/// A metadata file as it is: a table that can only be looked at.
class StaticTable : public TableStore {
 public:
  StaticTable(std::shared_ptr<FileIO> io, std::string file, std::string why)
      : TableStore(std::move(io)),
        file_(std::move(file)),
        why_(std::move(why)),
        description_("table of metadata file " + file_) {}

  arrow::Result<LoadedTable> Load() override { return ReadMetadataFile(*io_, file_); }
  arrow::Result<LoadedTable> Commit(const LoadedTable&, const TableMetadata&) override {
    return Invalid("{}", why_);
  }
  arrow::Result<LoadedTable> CreateTable(const TableMetadata&) override {
    return Invalid("{}", why_);
  }
  const std::string& description() const override { return description_; }
  bool writable(std::string* why) const override {
    if (why != nullptr) *why = why_;
    return false;
  }

 private:
  const std::string file_;
  const std::string why_;
  const std::string description_;
};

}  // namespace

arrow::Result<std::unique_ptr<TableStore>> OpenHadoopTable(std::shared_ptr<FileIO> io,
                                                           const std::string& location) {
  const std::string name = FileNameOf(location);
  if (CatalogFileVersion(name)) {
    return std::make_unique<StaticTable>(
        std::move(io), location,
        fmt::format("{} belongs to a table of a catalog; to change it name the table as "
                    "<catalog>.<namespace>.<table>",
                    location));
  }
  if (name.ends_with(".metadata.json") || name.ends_with(".metadata.json.gz")) {
    return std::make_unique<StaticTable>(
        std::move(io), location,
        fmt::format("{} is one version of a table; to change the table name its folder", location));
  }
  const auto folder = HadoopMetadataFolder(location);
  ARROW_ASSIGN_OR_RAISE(auto newest, NewestVersion(*io, folder));
  if (!newest) {
    ARROW_ASSIGN_OR_RAISE(auto file, NewestCatalogFile(*io, folder));
    if (!file) {
      return arrow::Status::KeyError("no Iceberg table at ", location,
                                     ": there is no metadata file in ", folder);
    }
    return std::make_unique<StaticTable>(
        std::move(io), *file,
        fmt::format(
            "the table at {} belongs to a catalog (its metadata files are named "
            "NNNNN-<uuid>.metadata.json); to change it name it as <catalog>.<namespace>.<table>",
            location));
  }
  auto table = std::make_unique<HadoopTable>(std::move(io), location);
  ARROW_RETURN_NOT_OK(table->Check());
  return table;
}

arrow::Result<std::unique_ptr<TableStore>> NewHadoopTable(std::shared_ptr<FileIO> io,
                                                          const std::string& location) {
  if (IsS3Location(location)) {
    return arrow::Status::NotImplemented(
        fmt::format("{}: a table cannot be made there by path: Hadoop tables need a file system "
                    "with atomic rename; use a catalog",
                    location));
  }
  ARROW_RETURN_NOT_OK(FileIO::LocalPath(location).status());
  return std::make_unique<HadoopTable>(std::move(io), location);
}

}  // namespace thalweg::iceberg
