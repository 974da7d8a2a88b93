#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "iceberg/commit.h"
#include "iceberg/test_util.h"

namespace thalweg::iceberg {

inline DataFile File(const std::string& path, int64_t records = 10) {
  DataFile file;
  file.file_path = path;
  file.record_count = records;
  file.file_size_in_bytes = records * 100;
  return file;
}

inline SnapshotChange Append(const std::vector<std::string>& paths) {
  SnapshotChange change;
  change.operation = "append";
  change.added.emplace_back();
  for (const auto& path : paths) change.added[0].push_back({File(path), std::nullopt});
  return change;
}

inline SnapshotChange Replace(const std::vector<std::string>& removed, const std::string& added,
                              std::optional<int64_t> sequence_number = std::nullopt) {
  SnapshotChange change;
  change.operation = "replace";
  change.removed = removed;
  change.added = {{{File(added, 10 * static_cast<int64_t>(removed.size())), sequence_number}}};
  return change;
}

/// Passes calls on; tests put failures in between.
class Decorator : public TableStore {
 public:
  explicit Decorator(TableStore& inner) : TableStore(inner.io()), inner_(inner) {}
  arrow::Result<LoadedTable> Load() override { return on_load ? on_load() : inner_.Load(); }
  arrow::Result<LoadedTable> Commit(const LoadedTable& base,
                                    const TableMetadata& updated) override {
    return on_commit ? on_commit(base, updated) : inner_.Commit(base, updated);
  }
  arrow::Result<LoadedTable> CreateTable(const TableMetadata& metadata) override {
    return inner_.CreateTable(metadata);
  }
  const std::string& description() const override { return inner_.description(); }
  bool writable(std::string* why) const override { return inner_.writable(why); }
  std::string MetadataFolder(const TableMetadata& metadata) const override {
    return inner_.MetadataFolder(metadata);
  }
  std::function<arrow::Result<LoadedTable>()> on_load;
  std::function<arrow::Result<LoadedTable>(const LoadedTable&, const TableMetadata&)> on_commit;

 private:
  TableStore& inner_;
};

class CommitTest : public testing::Test {
 protected:
  void SetUp() override {
    store_ = Create(location_, {{"commit.retry.min-wait-ms", "1"},
                                {"commit.retry.max-wait-ms", "50"},
                                {"commit.retry.num-retries", "200"},
                                {"commit.status-check.num-retries", "2"},
                                {"commit.status-check.min-wait-ms", "1"}});
  }
  std::unique_ptr<TableStore> Create(const std::string& location,
                                     const std::map<std::string, std::string>& properties) {
    auto store = NewHadoopTable(io_, location);
    EXPECT_TRUE(store.ok());
    auto created = (*store)->CreateTable(*TableMetadata::Create(OneColumn(), location, properties));
    EXPECT_TRUE(created.ok()) << created.status().ToString();
    return *std::move(store);
  }
  CommitOutcome Do(const SnapshotChange& change) {
    auto outcome = CommitSnapshot(*store_, change);
    EXPECT_TRUE(outcome.ok()) << outcome.status().ToString();
    return outcome.ok() ? *outcome : CommitOutcome{};
  }
  SnapshotFiles Read(TableStore& store) {
    auto table = store.Load();
    EXPECT_TRUE(table.ok()) << table.status().ToString();
    auto files = ReadSnapshotFiles(*io_, table->metadata, table->metadata.current_snapshot_id());
    EXPECT_TRUE(files.ok()) << files.status().ToString();
    return *std::move(files);
  }
  SnapshotFiles Read() { return Read(*store_); }
  Snapshot Current() {
    auto table = store_->Load();
    return **table->metadata.FindSnapshot(*table->metadata.current_snapshot_id());
  }
  std::vector<ManifestEntry> Entries(const ManifestFile& manifest) {
    std::vector<ManifestEntry> entries;
    auto bytes = io_->ReadAll(manifest.manifest_path);
    EXPECT_TRUE(bytes.ok());
    EXPECT_EQ(static_cast<int64_t>(bytes->size()), manifest.manifest_length);
    auto header = ReadManifest(*bytes, manifest.manifest_path, [&](ManifestEntry&& entry) {
      entries.push_back(std::move(entry));
      return arrow::Status::OK();
    });
    EXPECT_TRUE(header.ok()) << header.status().ToString();
    return entries;
  }
  static std::vector<std::string> Paths(const std::vector<LiveFile>& files) {
    std::vector<std::string> paths;
    paths.reserve(files.size());
    for (const auto& live : files) paths.push_back(live.file.file_path);
    return paths;
  }
  std::vector<std::string> MetadataFiles() const { return FilesIn(location_ + "/metadata"); }

  TempFolder folder_;
  std::string location_ = folder_ / "table";
  std::shared_ptr<FileIO> io_ = std::make_shared<FileIO>();
  std::unique_ptr<TableStore> store_;
};

}  // namespace thalweg::iceberg
