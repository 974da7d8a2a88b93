#include "iceberg/commit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "iceberg/commit_test_util.h"
#include "util/status.h"

namespace thalweg::iceberg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Pair;
using testing::UnorderedElementsAre;

TEST_F(CommitTest, AppendsToAnEmptyTable) {
  const auto outcome = Do(Append({"a", "b"}));
  EXPECT_EQ(outcome.attempts, 1);
  EXPECT_FALSE(outcome.already_committed);
  const Snapshot snapshot = Current();
  EXPECT_EQ(snapshot.snapshot_id, outcome.snapshot_id);
  EXPECT_EQ(snapshot.sequence_number, 1);
  EXPECT_EQ(snapshot.parent_snapshot_id, std::nullopt);
  EXPECT_EQ(snapshot.schema_id, 0);
  EXPECT_THAT(snapshot.manifest_list,
              testing::MatchesRegex(location_ + "/metadata/snap-" +
                                    std::to_string(outcome.snapshot_id) + "-1-[0-9a-f-]{36}.avro"));
  const auto files = Read();
  EXPECT_THAT(Paths(files.data_files), ElementsAre("a", "b"));
  for (const auto& live : files.data_files) {
    EXPECT_EQ(live.snapshot_id, outcome.snapshot_id);
    EXPECT_EQ(live.sequence_number, 1);
    EXPECT_EQ(live.file_sequence_number, 1);
  }
  ASSERT_EQ(files.manifests.size(), 1u);
  EXPECT_THAT(files.manifests[0].manifest_path,
              testing::MatchesRegex(location_ + "/metadata/[0-9a-f-]{36}-m0.avro"));
  EXPECT_EQ(files.manifests[0].added_files_count, 2);
  EXPECT_EQ(files.manifests[0].added_rows_count, 20);
  EXPECT_EQ(files.manifests[0].min_sequence_number, 1);
  EXPECT_EQ(files.manifests[0].added_snapshot_id, outcome.snapshot_id);
  for (const auto& entry : Entries(files.manifests[0])) {
    EXPECT_EQ(entry.status, EntryStatus::kAdded);
    EXPECT_EQ(entry.snapshot_id, outcome.snapshot_id);
    EXPECT_EQ(entry.sequence_number, std::nullopt);
    EXPECT_EQ(entry.file_sequence_number, std::nullopt);
  }
}

TEST_F(CommitTest, ReplaceRewritesOnlyTheManifestsItTouches) {
  const auto first = Do(Append({"a", "b"}));
  const auto second = Do(Append({"c"}));
  const auto before = Read();
  auto change = Replace({"a"}, "x", 2);
  change.summary = {{"run", "r1"}, {"operation", "nonsense"}};
  const auto outcome = Do(change);
  const auto files = Read();
  EXPECT_THAT(Paths(files.data_files), UnorderedElementsAre("x", "b", "c"));
  ASSERT_EQ(files.manifests.size(), 3u);

  const ManifestFile& added = files.manifests[0];
  EXPECT_EQ(added.sequence_number, 3);
  EXPECT_EQ(added.min_sequence_number, 2);
  auto entries = Entries(added);
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].sequence_number, 2);
  EXPECT_EQ(entries[0].file_sequence_number, std::nullopt);

  // The manifest of the first append is written anew, that of the second is the same file.
  EXPECT_EQ(files.manifests[1], before.manifests[0]);
  const ManifestFile& rewritten = files.manifests[2];
  EXPECT_EQ(rewritten.added_snapshot_id, outcome.snapshot_id);
  EXPECT_EQ(rewritten.sequence_number, 3);
  EXPECT_EQ(rewritten.min_sequence_number, 1);
  EXPECT_EQ(rewritten.existing_files_count, 1);
  EXPECT_EQ(rewritten.deleted_files_count, 1);
  EXPECT_EQ(rewritten.deleted_rows_count, 10);
  EXPECT_EQ(rewritten.added_files_count, 0);
  entries = Entries(rewritten);
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].status, EntryStatus::kDeleted);
  EXPECT_EQ(entries[0].file.file_path, "a");
  EXPECT_EQ(entries[0].snapshot_id, outcome.snapshot_id);
  EXPECT_EQ(entries[1].status, EntryStatus::kExisting);
  EXPECT_EQ(entries[1].snapshot_id, first.snapshot_id);
  for (const auto& entry : entries) {
    EXPECT_EQ(entry.sequence_number, 1);
    EXPECT_EQ(entry.file_sequence_number, 1);
  }
  for (const auto& live : files.data_files) {
    const auto& path = live.file.file_path;
    EXPECT_EQ(live.sequence_number, path == "b" ? 1 : 2) << path;
    EXPECT_EQ(live.file_sequence_number, path == "b" ? 1 : path == "c" ? 2 : 3) << path;
    EXPECT_EQ(live.snapshot_id, path == "b"   ? first.snapshot_id
                                : path == "c" ? second.snapshot_id
                                              : outcome.snapshot_id);
  }
  EXPECT_THAT(
      Current().summary,
      IsSupersetOf({Pair("operation", "replace"),         Pair("run", "r1"),
                    Pair("added-data-files", "1"),        Pair("deleted-data-files", "1"),
                    Pair("added-records", "10"),          Pair("deleted-records", "10"),
                    Pair("added-files-size", "1000"),     Pair("removed-files-size", "1000"),
                    Pair("changed-partition-count", "1"), Pair("total-data-files", "3"),
                    Pair("total-records", "30"),          Pair("total-files-size", "3000"),
                    Pair("total-delete-files", "0"),      Pair("total-position-deletes", "0"),
                    Pair("total-equality-deletes", "0"),  Pair("manifests-created", "2"),
                    Pair("manifests-kept", "1"),          Pair("manifests-replaced", "1"),
                    Pair("entries-processed", "2"),       Pair("engine-name", "thalweg")}));
}

TEST_F(CommitTest, ManifestsWithoutLiveFilesGoWithTheNextSnapshot) {
  Do(Append({"a"}));
  Do(Replace({"a"}, "x"));
  auto files = Read();
  ASSERT_EQ(files.manifests.size(), 2u);
  EXPECT_EQ(files.manifests[1].deleted_files_count, 1);
  EXPECT_EQ(files.manifests[1].min_sequence_number, 2) << "no live entry: the commit's own number";
  Do(Append({"b"}));
  files = Read();
  EXPECT_EQ(files.manifests.size(), 2u);
  EXPECT_THAT(Paths(files.data_files), ElementsAre("b", "x"));
}

TEST_F(CommitTest, MinSequenceNumberCountsNewFilesOfOlderData) {
  // A file is read for a rewrite at number 1; an equality delete arrives at 2; the rewrite commits
  // at 3. Had its manifest 3 as least number, the delete (number 2, for data below 2) would pass
  // for one that no live file needs.
  Do(Append({"a"}));
  const int64_t starting = Current().sequence_number;
  Do(Append({"stands for the delete's snapshot"}));
  Do(Replace({"a"}, "x", starting));
  const auto files = Read();
  int64_t least = INT64_MAX;
  for (const auto& manifest : files.manifests) {
    if (manifest.added_files_count + manifest.existing_files_count > 0) {
      least = std::min(least, manifest.min_sequence_number);
    }
  }
  EXPECT_EQ(least, starting);

  // In one manifest with files that inherit, too.
  SnapshotChange mixed = Replace({"x"}, "y", starting);
  mixed.added[0][0].file.record_count = 5;
  mixed.added[0].push_back({File("z", 5), std::nullopt});
  Do(mixed);
  EXPECT_EQ(Read().manifests[0].min_sequence_number, starting);
}

TEST_F(CommitTest, EachGroupHasItsManifest) {
  SnapshotChange change = Append({"a", "b"});
  change.added.push_back({});
  change.added.push_back({{File("c"), std::nullopt}});
  Do(change);
  const auto files = Read();
  ASSERT_EQ(files.manifests.size(), 2u);
  EXPECT_EQ(files.manifests[0].added_files_count, 2);
  EXPECT_EQ(files.manifests[1].added_files_count, 1);
}

TEST_F(CommitTest, OverwriteMayRemoveEverything) {
  Do(Append({"a", "b"}));
  SnapshotChange change;
  change.operation = "overwrite";
  change.removed = {"a", "b"};
  Do(change);
  EXPECT_TRUE(Read().data_files.empty());
  EXPECT_THAT(Current().summary,
              IsSupersetOf({Pair("total-data-files", "0"), Pair("total-records", "0"),
                            Pair("total-files-size", "0")}));
}

TEST_F(CommitTest, ImpossibleChangesAreRefused) {
  Do(Append({"a", "b"}));
  const auto before = MetadataFiles();
  auto refused = [&](const SnapshotChange& change, const char* reason) {
    auto status = CommitSnapshot(*store_, change).status();
    EXPECT_EQ(KindOf(status), FailureKind::kError);
    EXPECT_THAT(status.message(), HasSubstr(reason));
  };
  SnapshotChange change = Append({"x"});
  change.removed = {"a"};
  refused(change, "append cannot remove");
  change = Append({"x", "x"});
  refused(change, "x is added twice");
  refused(Append({"a"}), "a is already a file of the table");
  refused(Append({}), "must add or remove");
  change = Append({"x"});
  change.operation = "delete";
  refused(change, "\"delete\" is no operation");
  change.operation = "replace";
  refused(change, "must remove files");
  change = Replace({"a", "a"}, "x");
  refused(change, "a is removed twice");
  change = Replace({"a"}, "x");
  change.added[0][0].file.record_count = 11;
  refused(change, "11 would replace 10");
  change.allow_fewer_records = true;
  refused(change, "11 would replace 10");
  change.added[0][0].file.record_count = 9;
  change.allow_fewer_records = false;
  refused(change, "9 would replace 10");
  change.added[0][0].file.content = FileContent::kPositionDeletes;
  refused(change, "only data files");
  EXPECT_EQ(MetadataFiles(), before);
  change.added[0][0].file.content = FileContent::kData;
  change.allow_fewer_records = true;
  Do(change);
}

TEST_F(CommitTest, OtherFormatVersionsAndPartitionsAreRefused) {
  ASSERT_OK_AND_ASSIGN(auto table, store_->Load());
  std::string text = table.metadata.ToText();
  auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    Decorator decorated(*store_);
    decorated.on_load = [&]() -> arrow::Result<LoadedTable> {
      ARROW_ASSIGN_OR_RAISE(auto metadata, TableMetadata::Parse(changed, "x"));
      return LoadedTable{table.metadata_location, std::move(metadata)};
    };
    return CommitSnapshot(decorated, Append({"x"})).status();
  };
  EXPECT_THAT(with("\"format-version\":2", "\"format-version\":4").message(),
              HasSubstr("format version 4"));
  EXPECT_THAT(with("\"format-version\":2", "\"format-version\":1").message(),
              HasSubstr("format version 1"));
  EXPECT_THAT(
      with(
          "{\"spec-id\":0,\"fields\":[]}",
          R"({"spec-id":0,"fields":[{"source-id":1,"field-id":1000,"name":"p","transform":"identity"}]})")
          .message(),
      HasSubstr("only unpartitioned"));
  EXPECT_EQ(MetadataFiles().size(), 2u);
}

TEST_F(CommitTest, MergesSmallManifests) {
  auto store = Create(folder_ / "other", {{"commit.manifest.min-count-to-merge", "4"}});
  std::map<std::string, int64_t> snapshots;
  for (const char* path : {"a", "b", "c"}) {
    ASSERT_OK_AND_ASSIGN(auto outcome, CommitSnapshot(*store, Append({path})));
    snapshots[path] = outcome.snapshot_id;
  }
  EXPECT_EQ(Read(*store).manifests.size(), 3u);
  ASSERT_OK_AND_ASSIGN(auto outcome, CommitSnapshot(*store, Append({"d"})));
  const auto files = Read(*store);
  ASSERT_EQ(files.manifests.size(), 2u);
  EXPECT_EQ(files.manifests[1].existing_files_count, 3);
  EXPECT_EQ(files.manifests[1].min_sequence_number, 1);
  EXPECT_EQ(files.manifests[1].sequence_number, 4);
  EXPECT_THAT(Paths(files.data_files), ElementsAre("d", "c", "b", "a"));
  for (const auto& entry : Entries(files.manifests[1])) {
    EXPECT_EQ(entry.status, EntryStatus::kExisting);
    EXPECT_EQ(entry.snapshot_id, snapshots[entry.file.file_path]);
    EXPECT_EQ(entry.sequence_number, entry.file.file_path[0] - 'a' + 1);
    EXPECT_EQ(entry.file_sequence_number, entry.sequence_number);
  }
  ASSERT_OK_AND_ASSIGN(auto snapshot, outcome.table.metadata.FindSnapshot(outcome.snapshot_id));
  EXPECT_THAT(snapshot->summary,
              IsSupersetOf({Pair("manifests-created", "2"), Pair("manifests-kept", "0"),
                            Pair("manifests-replaced", "3"), Pair("entries-processed", "3")}));
  // Not above the target, and not when it is off.
  for (const char* key : {"commit.manifest.target-size-bytes", "commit.manifest-merge.enabled"}) {
    auto unmerged = Create(folder_ / key, {{"commit.manifest.min-count-to-merge", "2"},
                                           {key, key[15] == '.' ? "100" : "false"}});
    for (const char* path : {"a", "b", "c"}) {
      ASSERT_OK(CommitSnapshot(*unmerged, Append({path})).status());
    }
    EXPECT_EQ(Read(*unmerged).manifests.size(), 3u) << key;
  }
}

TEST_F(CommitTest, ManifestsThatAreWrittenAnewAreMerged) {
  // Rewriting a table of many small appends must not write as many manifests of removed files.
  std::vector<std::string> removed;
  for (int i = 0; i < 9; ++i) {
    const std::string path = std::to_string(i);
    Do(Append({path, "kept" + path}));
    if (i != 4) removed.push_back(path);
  }
  const auto outcome = Do(Replace(removed, "new", 9));
  const auto files = Read();
  ASSERT_EQ(files.manifests.size(), 3u) << "the new files, the rewritten, and the one not touched";
  const ManifestFile& merged = files.manifests[1];
  EXPECT_EQ(merged.deleted_files_count, 8);
  EXPECT_EQ(merged.existing_files_count, 8);
  EXPECT_EQ(merged.min_sequence_number, 1);
  for (const auto& entry : Entries(merged)) {
    const std::string& path = entry.file.file_path;
    const int64_t number = path.back() - '0' + 1;
    EXPECT_EQ(entry.sequence_number, number);
    EXPECT_EQ(entry.file_sequence_number, number);
    EXPECT_EQ(entry.status == EntryStatus::kDeleted, path.size() == 1);
    EXPECT_EQ(entry.snapshot_id == outcome.snapshot_id, path.size() == 1);
  }
  EXPECT_EQ(files.data_files.size(), 11u);

  // Where the table wants none merged, each stays for itself.
  auto unmerged = Create(folder_ / "off", {{"commit.manifest-merge.enabled", "false"}});
  for (const char* path : {"a", "b"}) ASSERT_OK(CommitSnapshot(*unmerged, Append({path})).status());
  ASSERT_OK(CommitSnapshot(*unmerged, Replace({"a", "b"}, "c")).status());
  EXPECT_EQ(Read(*unmerged).manifests.size(), 3u);
}

TEST_F(CommitTest, DeleteManifestsAreCarriedOverUntouched) {
  Do(Append({"a", "b"}));
  // A snapshot of another engine that adds a position delete file.
  ASSERT_OK_AND_ASSIGN(auto table, store_->Load());
  ManifestWriteOptions options;
  options.header.schema_json = table.metadata.CurrentSchemaText();
  options.header.partition_spec_json = "[]";
  options.header.format_version = 2;
  options.header.content = "deletes";
  ManifestEntry entry;
  entry.file = File(folder_ / "deletes.parquet", 3);
  entry.file.content = FileContent::kPositionDeletes;
  ASSERT_OK_AND_ASSIGN(std::string bytes, WriteManifest({entry}, options));
  ManifestFile deletes;
  deletes.manifest_path = location_ + "/metadata/deletes-m0.avro";
  deletes.manifest_length = static_cast<int64_t>(bytes.size());
  deletes.content = 1;
  deletes.sequence_number = deletes.min_sequence_number = 2;
  deletes.added_snapshot_id = 77;
  deletes.added_files_count = 1;
  deletes.added_rows_count = 3;
  ASSERT_OK(io_->WriteNew(deletes.manifest_path, bytes));
  auto manifests = Read().manifests;
  manifests.push_back(deletes);
  ManifestListHeader header;
  header.snapshot_id = 77;
  header.sequence_number = 2;
  ASSERT_OK_AND_ASSIGN(bytes, WriteManifestList(manifests, header));
  Snapshot snapshot;
  snapshot.snapshot_id = 77;
  snapshot.parent_snapshot_id = table.metadata.current_snapshot_id();
  snapshot.sequence_number = 2;
  snapshot.manifest_list = location_ + "/metadata/deletes-list.avro";
  snapshot.summary = {{"operation", "delete"}};
  ASSERT_OK(io_->WriteNew(snapshot.manifest_list, bytes));
  TableMetadata with_deletes = table.metadata;
  with_deletes.AddSnapshot(snapshot);
  ASSERT_OK(store_->Commit(table, with_deletes).status());

  auto change = Replace({"a"}, "x");
  change.added[0][0].file.record_count = 7;
  change.allow_fewer_records = true;
  Do(change);
  const auto files = Read();
  ASSERT_EQ(files.delete_files.size(), 1u);
  EXPECT_EQ(files.delete_files[0].sequence_number, 2);
  EXPECT_EQ(files.delete_files[0].snapshot_id, 77);
  const auto kept = std::find_if(files.manifests.begin(), files.manifests.end(),
                                 [](const auto& manifest) { return manifest.content == 1; });
  ASSERT_NE(kept, files.manifests.end());
  EXPECT_EQ(kept->manifest_path, deletes.manifest_path);
  EXPECT_EQ(kept->sequence_number, 2);
  EXPECT_EQ(kept->added_snapshot_id, 77);
  EXPECT_THAT(Current().summary,
              IsSupersetOf({Pair("total-delete-files", "1"), Pair("total-position-deletes", "3"),
                            Pair("total-records", "17"), Pair("total-files-size", "2300"),
                            Pair("total-data-files", "2")}));
}

TEST_F(CommitTest, BranchesKeepTheirSnapshots) {
  const auto first = Do(Append({"a"}));
  ASSERT_OK_AND_ASSIGN(auto table, store_->Load());
  Json json = table.metadata.json();
  json["refs"]["tag"] = Json{{"snapshot-id", first.snapshot_id}, {"type", "tag"}};
  ASSERT_OK_AND_ASSIGN(auto tagged, TableMetadata::Parse(json.dump(), "x"));
  ASSERT_OK(store_->Commit(table, tagged).status());
  const auto second = Do(Append({"b"}));
  ASSERT_OK_AND_ASSIGN(auto refs, second.table.metadata.Refs());
  EXPECT_THAT(refs, ElementsAre(Pair("main", second.snapshot_id), Pair("tag", first.snapshot_id)));
}

}  // namespace
}  // namespace thalweg::iceberg
