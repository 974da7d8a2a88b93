#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "iceberg/commit.h"
#include "iceberg/test_util.h"

namespace thalweg::iceberg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ManifestEntry Entry(const std::string& path, EntryStatus status,
                    std::optional<int64_t> snapshot_id = {},
                    std::optional<int64_t> sequence_number = {},
                    std::optional<int64_t> file_sequence_number = {}) {
  ManifestEntry entry;
  entry.status = status;
  entry.snapshot_id = snapshot_id;
  entry.sequence_number = sequence_number;
  entry.file_sequence_number = file_sequence_number;
  entry.file.file_path = path;
  entry.file.record_count = 1;
  entry.file.file_size_in_bytes = 2;
  return entry;
}

/// A table whose one snapshot has the manifests that a test writes.
class SnapshotFilesTest : public testing::Test {
 protected:
  ManifestFile& Add(const std::string& name, const std::vector<ManifestEntry>& entries,
                    const std::string& content = "data") {
    ManifestWriteOptions options;
    options.header.schema_json = metadata_.CurrentSchemaText();
    options.header.schema_id = 0;
    options.header.partition_spec_json = "[]";
    options.header.format_version = 2;
    options.header.content = content;
    auto bytes = WriteManifest(entries, options);
    EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
    ManifestFile manifest;
    manifest.manifest_path = folder_ / name;
    manifest.manifest_length = static_cast<int64_t>(bytes->size());
    manifest.content = content == "data" ? 0 : 1;
    manifest.sequence_number = 7;
    manifest.min_sequence_number = 1;
    manifest.added_snapshot_id = 100;
    manifest.added_files_count = static_cast<int32_t>(entries.size());
    EXPECT_TRUE(io_.WriteNew(manifest.manifest_path, *bytes).ok());
    manifests_.push_back(std::move(manifest));
    return manifests_.back();
  }
  arrow::Result<SnapshotFiles> Read() {
    ARROW_ASSIGN_OR_RAISE(auto bytes, WriteManifestList(manifests_, {}));
    ARROW_RETURN_NOT_OK(io_.Replace(folder_ / "list", bytes));
    Snapshot snapshot;
    snapshot.snapshot_id = 100;
    snapshot.manifest_list = folder_ / "list";
    auto metadata = metadata_;
    metadata.AddSnapshot(snapshot);
    return ReadSnapshotFiles(io_, metadata, 100);
  }

  TempFolder folder_;
  FileIO io_;
  TableMetadata metadata_ = *TableMetadata::Create(OneColumn(), "/t", {});
  std::vector<ManifestFile> manifests_;
};

TEST_F(SnapshotFilesTest, EntriesInheritFromTheirManifest) {
  Add("m0",
      {Entry("a", EntryStatus::kAdded), Entry("b", EntryStatus::kAdded, 5, 3),
       Entry("c", EntryStatus::kDeleted, 6, 2, 2), Entry("d", EntryStatus::kExisting, 4, 1, 2)});
  ASSERT_OK_AND_ASSIGN(auto files, Read());
  auto numbers = [&](size_t i) {
    const LiveFile& live = files.data_files[i];
    return std::tuple(live.file.file_path, live.snapshot_id, live.sequence_number,
                      live.file_sequence_number);
  };
  ASSERT_EQ(files.data_files.size(), 3u);
  EXPECT_EQ(numbers(0), std::tuple("a", 100, 7, 7));
  EXPECT_EQ(numbers(1), std::tuple("b", 5, 3, 7));
  EXPECT_EQ(numbers(2), std::tuple("d", 4, 1, 2));
}

TEST_F(SnapshotFilesTest, RangesAndContents) {
  Add("m0", {Entry("a", EntryStatus::kAdded), Entry("b", EntryStatus::kAdded)});
  auto deletes = Entry("p", EntryStatus::kAdded);
  deletes.file.content = FileContent::kPositionDeletes;
  Add("d0", {deletes}, "deletes");
  Add("m1", {Entry("x", EntryStatus::kDeleted, 1, 1, 1)});
  Add("m2", {Entry("c", EntryStatus::kAdded)});
  ASSERT_OK_AND_ASSIGN(auto files, Read());
  EXPECT_EQ(files.data_files.size(), 3u);
  ASSERT_EQ(files.delete_files.size(), 1u);
  EXPECT_EQ(files.delete_files[0].file.file_path, "p");
  std::vector<std::pair<size_t, size_t>> ranges;
  ranges.reserve(files.ranges.size());
  for (const auto& range : files.ranges) ranges.emplace_back(range.begin, range.end);
  EXPECT_THAT(ranges,
              ElementsAre(std::pair(0, 2), std::pair(0, 1), std::pair(2, 2), std::pair(2, 3)));

  // A data file among deletes.
  manifests_[0].content = 1;
  EXPECT_THAT(Read().status().message(), HasSubstr("m0: a is a data file in a manifest of delete"));
}

TEST_F(SnapshotFilesTest, NumbersOfFormatVersionOne) {
  ManifestFile& manifest =
      Add("m0", {Entry("a", EntryStatus::kAdded), Entry("b", EntryStatus::kAdded)});
  manifest.sequence_number = 0;
  manifest.min_sequence_number = 0;
  manifest.added_files_count = 0;  // lists of version 1 may lack the counts
  ASSERT_OK_AND_ASSIGN(auto files, Read());
  EXPECT_EQ(files.data_files[0].sequence_number, 0);
  EXPECT_EQ(files.data_files[1].file_sequence_number, 0);
  EXPECT_EQ(files.manifests[0].added_files_count, 2);
  EXPECT_EQ(files.manifests[0].added_rows_count, 2);
}

TEST_F(SnapshotFilesTest, EncryptedManifestsAreRefused) {
  Add("m0", {Entry("a", EntryStatus::kAdded)}).key_metadata = "";  // as some writers say none
  EXPECT_TRUE(Read().ok());
  Add("m1", {Entry("b", EntryStatus::kAdded)}).key_metadata = "key";
  EXPECT_THAT(Read().status().message(), HasSubstr("m1 is encrypted"));
}

TEST_F(SnapshotFilesTest, Failures) {
  ASSERT_OK_AND_ASSIGN(auto none, ReadSnapshotFiles(io_, metadata_, std::nullopt));
  EXPECT_TRUE(none.manifests.empty());
  EXPECT_TRUE(ReadSnapshotFiles(io_, metadata_, 4).status().IsKeyError());
  for (int i = 0; i < 10; ++i) {
    Add("m" + std::to_string(i), {Entry("a" + std::to_string(i), EntryStatus::kAdded)});
  }
  ASSERT_OK_AND_ASSIGN(auto files, Read());
  EXPECT_EQ(files.data_files.size(), 10u);
  for (int i = 0; i < 10; ++i)
    EXPECT_EQ(files.data_files[i].file.file_path, "a" + std::to_string(i));
  ASSERT_OK(io_.Delete(folder_ / "m6"));
  EXPECT_THAT(Read().status().message(), HasSubstr(folder_ / "m6: No such file"));
  ASSERT_OK(io_.Replace(folder_ / "m6", "Obj\x01"));
  EXPECT_THAT(Read().status().message(), HasSubstr(folder_ / "m6"));
}

}  // namespace
}  // namespace thalweg::iceberg
