// Commits to tables with delete files, and of format version 3.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "iceberg/commit_test_util.h"
#include "util/uuid.h"

namespace thalweg::iceberg {
namespace {

using testing::ElementsAre;
using testing::IsSupersetOf;
using testing::Key;
using testing::Not;
using testing::Pair;
using testing::UnorderedElementsAre;

DataFile Deletes(const std::string& path, FileContent content, int64_t records) {
  DataFile file = File(path, records);
  file.content = content;
  if (content == FileContent::kEqualityDeletes) file.equality_ids = {1};
  return file;
}

DataFile Vector(const std::string& puffin, const std::string& data_file, int64_t cardinality) {
  DataFile file = Deletes(puffin, FileContent::kPositionDeletes, cardinality);
  file.file_format.assign("PUFFIN");
  file.referenced_data_file = data_file;
  file.content_offset = 4;
  file.content_size_in_bytes = 40;
  return file;
}

class CommitDeletesTest : public CommitTest {
 protected:
  /// The table as a table of format version 3 that has no snapshot with row ids yet.
  void Upgrade() {
    auto table = *store_->Load();
    Json json = table.metadata.json();
    json["format-version"] = 3;
    json["next-row-id"] = 0;
    ASSERT_OK_AND_ASSIGN(const auto upgraded, TableMetadata::Parse(DumpJson(json), "upgraded"));
    ASSERT_OK(store_->Commit(table, upgraded).status());
  }

  /// A snapshot of another writer that adds one manifest of delete files.
  void AddDeletes(const std::vector<DataFile>& files) {
    auto table = *store_->Load();
    const auto parent = Read();
    Snapshot snapshot;
    snapshot.snapshot_id = NewRandomId();
    snapshot.parent_snapshot_id = table.metadata.current_snapshot_id();
    snapshot.sequence_number = table.metadata.last_sequence_number() + 1;
    snapshot.timestamp_ms = NowMillis();
    snapshot.summary = {{"operation", "delete"}};
    const int version = table.metadata.format_version();
    if (version >= 3) {
      snapshot.first_row_id = table.metadata.next_row_id();
      snapshot.added_rows = 0;
    }
    ManifestWriteOptions options;
    options.header.schema_json = table.metadata.CurrentSchemaText();
    options.header.partition_spec_json = "[]";
    options.header.format_version = version;
    options.header.content = "deletes";
    std::vector<ManifestEntry> entries;
    ManifestFile manifest;
    for (const auto& file : files) {
      entries.push_back({EntryStatus::kAdded, snapshot.snapshot_id, {}, {}, file});
      ++manifest.added_files_count;
      manifest.added_rows_count += file.record_count;
    }
    const std::string folder = store_->MetadataFolder(table.metadata);
    ASSERT_OK_AND_ASSIGN(const std::string bytes, WriteManifest(entries, options));
    manifest.manifest_path = JoinLocation(folder, NewUuid() + "-m0.avro");
    manifest.manifest_length = static_cast<int64_t>(bytes.size());
    manifest.content = 1;
    manifest.sequence_number = manifest.min_sequence_number = snapshot.sequence_number;
    manifest.added_snapshot_id = snapshot.snapshot_id;
    ASSERT_OK(io_->WriteNew(manifest.manifest_path, bytes));
    auto manifests = parent.manifests;
    manifests.push_back(manifest);
    ManifestListHeader header{snapshot.snapshot_id, snapshot.parent_snapshot_id,
                              snapshot.sequence_number, version, snapshot.first_row_id};
    ASSERT_OK_AND_ASSIGN(const std::string list, WriteManifestList(manifests, header));
    snapshot.manifest_list = JoinLocation(folder, NewUuid() + ".avro");
    ASSERT_OK(io_->WriteNew(snapshot.manifest_list, list));
    TableMetadata updated = table.metadata;
    updated.AddSnapshot(snapshot);
    ASSERT_OK(store_->Commit(table, updated).status());
  }

  /// First row id of each live data file.
  std::map<std::string, std::optional<int64_t>> RowIds() {
    std::map<std::string, std::optional<int64_t>> ids;
    for (const auto& live : Read().data_files) ids[live.file.file_path] = live.file.first_row_id;
    return ids;
  }
  int64_t NextRowId() { return store_->Load()->metadata.next_row_id(); }
};

/// The delete files of these paths.
auto Unneeded(std::set<std::string> paths) {
  return [paths = std::move(paths)](const SnapshotFiles& files, const std::vector<size_t>&) {
    std::vector<size_t> found;
    for (size_t i = 0; i < files.delete_files.size(); ++i) {
      if (paths.contains(files.delete_files[i].file.file_path)) found.push_back(i);
    }
    return arrow::Result<std::vector<size_t>>(found);
  };
}

TEST_F(CommitDeletesTest, UnneededDeleteFilesGoInTheSameCommit) {
  Do(Append({"a", "b"}));
  AddDeletes({Deletes("p1", FileContent::kPositionDeletes, 3),
              Deletes("e1", FileContent::kEqualityDeletes, 2)});
  AddDeletes({Deletes("p2", FileContent::kPositionDeletes, 5)});
  const auto before = Read();
  auto change = Replace({"a"}, "x", 3);
  change.added[0][0].file.record_count = 7;
  change.allow_fewer_records = true;
  change.unneeded_deletes = Unneeded({"p1"});
  const auto outcome = Do(change);

  const auto files = Read();
  EXPECT_THAT(Paths(files.data_files), UnorderedElementsAre("x", "b"));
  EXPECT_THAT(Paths(files.delete_files), UnorderedElementsAre("e1", "p2"));
  for (const auto& live : files.delete_files) {
    EXPECT_EQ(live.sequence_number, live.file.file_path == "e1" ? 2 : 3);
    EXPECT_EQ(live.file_sequence_number, live.sequence_number);
  }
  std::vector<ManifestFile> deletes;
  for (const auto& manifest : files.manifests) {
    if (manifest.content == 1) deletes.push_back(manifest);
  }
  ASSERT_EQ(deletes.size(), 2u);
  const ManifestFile& rewritten = deletes[0];
  EXPECT_EQ(rewritten.added_snapshot_id, outcome.snapshot_id);
  EXPECT_EQ(rewritten.existing_files_count, 1);
  EXPECT_EQ(rewritten.deleted_files_count, 1);
  EXPECT_EQ(rewritten.deleted_rows_count, 3);
  EXPECT_EQ(rewritten.min_sequence_number, 2);
  const auto entries = Entries(rewritten);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].status, EntryStatus::kDeleted);
  EXPECT_EQ(entries[0].file.file_path, "p1");
  EXPECT_EQ(entries[1].status, EntryStatus::kExisting);
  EXPECT_EQ(entries[1].file.equality_ids, std::vector<int32_t>{1});
  EXPECT_EQ(deletes[1], before.manifests.back());
  EXPECT_THAT(
      Current().summary,
      IsSupersetOf({Pair("removed-delete-files", "1"), Pair("removed-position-delete-files", "1"),
                    Pair("removed-position-deletes", "3"), Pair("total-delete-files", "2"),
                    Pair("total-position-deletes", "5"), Pair("total-equality-deletes", "2"),
                    Pair("removed-files-size", "1300"), Pair("added-records", "7"),
                    Pair("total-records", "17")}));
  EXPECT_THAT(Current().summary, Not(testing::Contains(Key("removed-equality-delete-files"))));
}

TEST_F(CommitDeletesTest, UnneededDeleteFilesAreFoundAgainAtEachAttempt) {
  Do(Append({"a", "b"}));
  AddDeletes({Deletes("p1", FileContent::kPositionDeletes, 3),
              Deletes("p2", FileContent::kPositionDeletes, 2)});
  Decorator decorated(*store_);
  int attempts = 0;
  decorated.on_commit = [&](const LoadedTable& base, const TableMetadata& updated) {
    if (++attempts == 1) Do(Append({"c"}));
    return store_->Commit(base, updated);
  };
  auto change = Replace({"a"}, "x", 2);
  change.unneeded_deletes = [&](const SnapshotFiles& files, const std::vector<size_t>& removed) {
    EXPECT_EQ(removed.size(), 1u);
    return Unneeded({attempts == 0 ? "p1" : "p2"})(files, removed);
  };
  ASSERT_OK(CommitSnapshot(decorated, change).status());
  EXPECT_THAT(Paths(Read().delete_files), ElementsAre("p1"));
}

TEST_F(CommitDeletesTest, RowIdsGoOnFromTheTables) {
  Upgrade();
  Do(Append({"a", "b"}));
  EXPECT_EQ(Current().first_row_id, 0);
  EXPECT_EQ(Current().added_rows, 20);
  EXPECT_EQ(NextRowId(), 20);
  Do(Append({"c"}));
  EXPECT_EQ(Current().first_row_id, 20);
  EXPECT_EQ(Current().added_rows, 10);
  EXPECT_THAT(RowIds(), UnorderedElementsAre(Pair("a", 0), Pair("b", 10), Pair("c", 20)));

  // The ids of what stays are the same; the new file has ids that nobody had.
  Do(Replace({"a"}, "x", 2));
  EXPECT_EQ(Current().first_row_id, 30);
  EXPECT_EQ(Current().added_rows, 20);  // the new manifest's, and the rewritten one's, which has b
  EXPECT_EQ(NextRowId(), 50);
  EXPECT_THAT(RowIds(), UnorderedElementsAre(Pair("x", 30), Pair("b", 10), Pair("c", 20)));
  for (const auto& manifest : Read().manifests) {
    EXPECT_TRUE(manifest.first_row_id);
    for (const auto& entry : Entries(manifest)) {
      EXPECT_EQ(entry.file.first_row_id.has_value(), entry.status != EntryStatus::kAdded);
    }
  }
}

TEST_F(CommitDeletesTest, RowIdsAreGivenAnewAtEachAttempt) {
  Upgrade();
  Do(Append({"a", "b"}));
  Decorator decorated(*store_);
  int attempts = 0;
  decorated.on_commit = [&](const LoadedTable& base, const TableMetadata& updated) {
    if (++attempts == 1) Do(Append({"c"}));
    return store_->Commit(base, updated);
  };
  ASSERT_OK_AND_ASSIGN(const auto outcome, CommitSnapshot(decorated, Replace({"a"}, "x", 1)));
  EXPECT_EQ(outcome.attempts, 2);
  EXPECT_THAT(RowIds(), UnorderedElementsAre(Pair("x", 30), Pair("b", 10), Pair("c", 20)));
  EXPECT_EQ(NextRowId(), 50);
}

TEST_F(CommitDeletesTest, AnUpgradedTableGetsIdsWithItsFirstSnapshot) {
  Do(Append({"a", "b"}));
  Do(Append({"c"}));
  Upgrade();
  EXPECT_THAT(RowIds(), UnorderedElementsAre(Pair("a", std::nullopt), Pair("b", std::nullopt),
                                             Pair("c", std::nullopt)));
  // Meanwhile another commit gives ids: those hold, also in the manifest that is made anew.
  Decorator decorated(*store_);
  int attempts = 0;
  std::map<std::string, std::optional<int64_t>> given;
  decorated.on_commit = [&](const LoadedTable& base, const TableMetadata& updated) {
    if (++attempts == 1) {
      Do(Append({"d"}));
      given = RowIds();
    }
    return store_->Commit(base, updated);
  };
  ASSERT_OK(CommitSnapshot(decorated, Replace({"a"}, "x", 2)).status());
  auto after = RowIds();
  for (const char* path : {"b", "c", "d"}) {
    EXPECT_TRUE(given[path].has_value());
    EXPECT_EQ(after[path], given[path]) << path;
  }
  EXPECT_EQ(after["x"], 40);
}

TEST_F(CommitDeletesTest, DeletionVectorsOfRemovedFilesGo) {
  Upgrade();
  Do(Append({"a", "b"}));
  AddDeletes({Vector("dv.puffin", "a", 3), Vector("dv.puffin", "b", 4)});
  auto change = Replace({"a"}, "x", 2);
  change.added[0][0].file.record_count = 7;
  change.allow_fewer_records = true;
  change.unneeded_deletes = [](const SnapshotFiles& files, const std::vector<size_t>&) {
    std::vector<size_t> found;
    for (size_t i = 0; i < files.delete_files.size(); ++i) {
      if (files.delete_files[i].file.referenced_data_file == "a") found.push_back(i);
    }
    return arrow::Result<std::vector<size_t>>(found);
  };
  Do(change);
  const auto files = Read();
  ASSERT_EQ(files.delete_files.size(), 1u);
  EXPECT_EQ(files.delete_files[0].file, Vector("dv.puffin", "b", 4));
  EXPECT_THAT(Current().summary,
              IsSupersetOf({Pair("removed-dvs", "1"), Pair("removed-position-deletes", "3"),
                            Pair("removed-delete-files", "1"), Pair("removed-files-size", "1040"),
                            Pair("total-position-deletes", "4")}));
  EXPECT_THAT(Current().summary, Not(testing::Contains(Key("removed-position-delete-files"))));
}

}  // namespace
}  // namespace thalweg::iceberg
