#include "iceberg/commit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>

#include "iceberg/metadata_file.h"
#include "iceberg/test_util.h"
#include "util/status.h"
#include "util/uuid.h"

namespace thalweg::iceberg {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::Pair;
using testing::UnorderedElementsAre;

DataFile File(const std::string& path, int64_t records = 10) {
  DataFile file;
  file.file_path = path;
  file.record_count = records;
  file.file_size_in_bytes = records * 100;
  return file;
}

SnapshotChange Append(const std::vector<std::string>& paths) {
  SnapshotChange change;
  change.operation = "append";
  change.added.emplace_back();
  for (const auto& path : paths) change.added[0].push_back({File(path), std::nullopt});
  return change;
}

SnapshotChange Replace(const std::vector<std::string>& removed, const std::string& added,
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
                                     std::map<std::string, std::string> properties) {
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
    for (const auto& live : files) paths.push_back(live.file.file_path);
    return paths;
  }
  std::vector<std::string> MetadataFiles() const { return FilesIn(location_ + "/metadata"); }

  TempFolder folder_;
  std::string location_ = folder_ / "table";
  std::shared_ptr<FileIO> io_ = std::make_shared<FileIO>();
  std::unique_ptr<TableStore> store_;
};

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
  EXPECT_THAT(with("\"format-version\":2", "\"format-version\":3").message(),
              HasSubstr("format version 3"));
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

TEST_F(CommitTest, AFileThatIsGoneIsAConflictAndLeavesNothing) {
  Do(Append({"a", "b"}));
  Do(Replace({"a"}, "x"));
  const auto before = MetadataFiles();
  auto status = CommitSnapshot(*store_, Replace({"b", "a"}, "y")).status();
  EXPECT_EQ(KindOf(status), FailureKind::kConflict);
  EXPECT_THAT(status.message(), HasSubstr("1 of 2 files"));
  EXPECT_THAT(status.message(), HasSubstr("first a"));
  EXPECT_EQ(MetadataFiles(), before);
}

TEST_F(CommitTest, ALostRaceIsTriedAgainUponTheNewParent) {
  Do(Append({"a", "b"}));
  Decorator racing(*store_);
  int lost = 0;
  racing.on_commit = [&](const LoadedTable& base,
                         const TableMetadata& updated) -> arrow::Result<LoadedTable> {
    if (lost < 2) Do(Append({"other" + std::to_string(lost++)}));
    return store_->Commit(base, updated);
  };
  SnapshotChange change = Replace({"a"}, "x", 1);
  std::vector<std::string> statistics;
  std::vector<int64_t> numbers;
  int validated = 0;
  change.validate = [&](const LoadedTable& parent, const SnapshotFiles& files) {
    EXPECT_EQ(files.data_files.size(), static_cast<size_t>(2 + validated));
    ++validated;
    return arrow::Status::OK();
  };
  change.statistics = [&](const LoadedTable&, const SnapshotFiles&, int64_t snapshot_id,
                          int64_t sequence_number) -> arrow::Result<std::optional<StatisticsFile>> {
    StatisticsFile file;
    file.snapshot_id = snapshot_id;
    file.statistics_path = location_ + "/metadata/" + NewUuid() + ".stats";
    ARROW_RETURN_NOT_OK(io_->WriteNew(file.statistics_path, "x"));
    statistics.push_back(file.statistics_path);
    numbers.push_back(sequence_number);
    return std::optional<StatisticsFile>(file);
  };
  int before_swap = 0;
  change.before_swap = [&] {
    ++before_swap;
    return arrow::Status::OK();
  };
  ASSERT_OK_AND_ASSIGN(auto outcome, CommitSnapshot(racing, change));
  EXPECT_EQ(outcome.attempts, 3);
  EXPECT_EQ(validated, 3);
  EXPECT_EQ(before_swap, 3);
  EXPECT_THAT(numbers, ElementsAre(2, 3, 4));
  const auto files = Read();
  EXPECT_THAT(Paths(files.data_files), UnorderedElementsAre("x", "b", "other0", "other1"));
  EXPECT_EQ(files.manifests[0].sequence_number, 4);
  EXPECT_EQ(files.manifests[0].min_sequence_number, 1);
  ASSERT_OK_AND_ASSIGN(auto entry, outcome.table.metadata.Statistics());
  ASSERT_EQ(entry.size(), 1u);
  EXPECT_EQ(entry[0].statistics_path, statistics[2]);
  EXPECT_THAT(Current().manifest_list, HasSubstr("-3-"));

  // Of the lost attempts nothing is left: every file is named by the metadata.
  std::set<std::string> named = {location_ + "/metadata/version-hint.text", statistics[2]};
  for (int i = 1; i <= 5; ++i) {
    named.insert(fmt::format("{}/metadata/v{}.metadata.json", location_, i));
  }
  ASSERT_OK_AND_ASSIGN(auto snapshots, outcome.table.metadata.Snapshots());
  for (const auto& snapshot : snapshots) {
    named.insert(snapshot.manifest_list);
    ASSERT_OK_AND_ASSIGN(auto of,
                         ReadSnapshotFiles(*io_, outcome.table.metadata, snapshot.snapshot_id));
    for (const auto& manifest : of.manifests) named.insert(manifest.manifest_path);
  }
  std::set<std::string> there;
  for (const auto& name : MetadataFiles()) there.insert(location_ + "/metadata/" + name);
  EXPECT_EQ(there, named);
}

TEST_F(CommitTest, RetriesEnd) {
  auto store = Create(folder_ / "other",
                      {{"commit.retry.num-retries", "3"}, {"commit.retry.min-wait-ms", "1"}});
  Decorator racing(*store);
  int attempts = 0;
  racing.on_commit = [&](const LoadedTable&, const TableMetadata&) -> arrow::Result<LoadedTable> {
    ++attempts;
    return Conflict("lost");
  };
  auto status = CommitSnapshot(racing, Append({"a"})).status();
  EXPECT_EQ(KindOf(status), FailureKind::kConflict);
  EXPECT_THAT(status.message(), HasSubstr("lost (after 4 attempts)"));
  EXPECT_EQ(attempts, 4);
  EXPECT_THAT(FilesIn(folder_ / "other/metadata"),
              ElementsAre("v1.metadata.json", "version-hint.text"));
}

TEST_F(CommitTest, AFailureOfTheCallersChecksEndsTheCommit) {
  Do(Append({"a"}));
  const auto before = MetadataFiles();
  for (int which = 0; which < 3; ++which) {
    SnapshotChange change = Append({"x"});
    int calls = 0;
    auto fail = [&, which](int here) {
      if (which != here) return arrow::Status::OK();
      ++calls;
      return Conflict("planned upon something else");
    };
    change.validate = [&](const LoadedTable&, const SnapshotFiles&) { return fail(0); };
    change.statistics = [&](const LoadedTable&, const SnapshotFiles&, int64_t snapshot_id,
                            int64_t) -> arrow::Result<std::optional<StatisticsFile>> {
      ARROW_RETURN_NOT_OK(fail(1));
      StatisticsFile file;
      file.snapshot_id = snapshot_id;
      file.statistics_path = location_ + "/metadata/" + NewUuid() + ".stats";
      ARROW_RETURN_NOT_OK(io_->WriteNew(file.statistics_path, "x"));
      return std::optional<StatisticsFile>(file);
    };
    change.before_swap = [&] { return fail(2); };
    auto status = CommitSnapshot(*store_, change).status();
    EXPECT_EQ(KindOf(status), FailureKind::kConflict);
    EXPECT_EQ(status.message(), "planned upon something else");
    EXPECT_EQ(calls, 1) << "it is not tried again";
    EXPECT_EQ(MetadataFiles(), before);
  }
}

TEST_F(CommitTest, AnUnknownOutcomeThatIsFoundIsACommit) {
  Do(Append({"a"}));
  Decorator unsure(*store_);
  unsure.on_commit = [&](const LoadedTable& base,
                         const TableMetadata& updated) -> arrow::Result<LoadedTable> {
    EXPECT_TRUE(store_->Commit(base, updated).ok());
    Do(Append({"later"}));
    return UnknownOutcome("timed out");
  };
  ASSERT_OK_AND_ASSIGN(auto outcome, CommitSnapshot(unsure, Append({"b"})));
  EXPECT_THAT(Paths(Read().data_files), UnorderedElementsAre("a", "b", "later"));
  ASSERT_OK_AND_ASSIGN(auto found, outcome.table.metadata.FindSnapshot(outcome.snapshot_id));
  EXPECT_TRUE(found);
}

TEST_F(CommitTest, AnUnknownOutcomeThatIsNotFoundDeletesNothing) {
  Do(Append({"a"}));
  const auto before = MetadataFiles();
  for (const bool loads : {true, false}) {
    Decorator unsure(*store_);
    std::string list;
    bool sent = false;
    unsure.on_commit = [&](const LoadedTable&,
                           const TableMetadata& updated) -> arrow::Result<LoadedTable> {
      list = (*updated.FindSnapshot(*updated.current_snapshot_id()))->manifest_list;
      sent = true;
      return UnknownOutcome("timed out");
    };
    unsure.on_load = [&]() -> arrow::Result<LoadedTable> {
      if (sent && !loads) return arrow::Status::IOError("the catalog is away");
      return store_->Load();
    };
    auto status = CommitSnapshot(unsure, Append({"b"})).status();
    EXPECT_EQ(KindOf(status), FailureKind::kUnknown);
    EXPECT_THAT(status.message(), HasSubstr("timed out"));
    ASSERT_OK_AND_ASSIGN(auto bytes, io_->ReadAll(list));
    ASSERT_OK_AND_ASSIGN(auto manifests, ReadManifestList(bytes, list));
    for (const auto& manifest : manifests) {
      ASSERT_OK_AND_ASSIGN(auto size, io_->Size(manifest.manifest_path));
      EXPECT_EQ(size, manifest.manifest_length);
    }
  }
  EXPECT_EQ(MetadataFiles().size(), before.size() + 4) << "two lists, two manifests";
}

TEST_F(CommitTest, ADefiniteErrorIsCleanedUpUnlessTheTableNamesTheFiles) {
  Do(Append({"a"}));
  const auto before = MetadataFiles();
  Decorator failing(*store_);
  failing.on_commit = [&](const LoadedTable&, const TableMetadata&) -> arrow::Result<LoadedTable> {
    return arrow::Status::IOError("No space left on device");
  };
  auto status = CommitSnapshot(failing, Append({"b"})).status();
  EXPECT_EQ(KindOf(status), FailureKind::kError);
  EXPECT_EQ(MetadataFiles(), before);

  // A store that is wrong about it: the reloaded table names the files, they stay.
  failing.on_commit = [&](const LoadedTable& base,
                          const TableMetadata& updated) -> arrow::Result<LoadedTable> {
    EXPECT_TRUE(store_->Commit(base, updated).ok());
    return arrow::Status::IOError("wrong");
  };
  status = CommitSnapshot(failing, Append({"b"})).status();
  EXPECT_EQ(KindOf(status), FailureKind::kError);
  EXPECT_THAT(Paths(Read().data_files), UnorderedElementsAre("a", "b"));

  // And when the table cannot be loaded nothing is deleted.
  const auto now = MetadataFiles();
  bool away = false;
  failing.on_commit = [&](const LoadedTable&, const TableMetadata&) -> arrow::Result<LoadedTable> {
    away = true;
    return arrow::Status::IOError("gone");
  };
  failing.on_load = [&]() -> arrow::Result<LoadedTable> {
    if (away) return arrow::Status::IOError("gone");
    return store_->Load();
  };
  EXPECT_FALSE(CommitSnapshot(failing, Append({"c"})).ok());
  EXPECT_EQ(MetadataFiles().size(), now.size() + 2);
}

TEST_F(CommitTest, IdempotentByKey) {
  SnapshotChange change = Append({"a"});
  change.summary = {{"run-id", "r1"}};
  change.idempotence_key = "run-id";
  change.idempotence_value = "r1";
  const auto first = Do(change);
  Do(Append({"b"}));
  const auto before = MetadataFiles();
  const auto again = Do(change);
  EXPECT_TRUE(again.already_committed);
  EXPECT_EQ(again.snapshot_id, first.snapshot_id);
  EXPECT_EQ(MetadataFiles(), before);
  change.idempotence_value = change.summary["run-id"] = "r2";
  change.added[0][0].file.file_path = "c";
  EXPECT_FALSE(Do(change).already_committed);
}

TEST_F(CommitTest, ARunThatAnotherProcessCommittedMeanwhile) {
  SnapshotChange change = Append({"a"});
  change.summary = {{"run-id", "r1"}};
  change.idempotence_key = "run-id";
  change.idempotence_value = "r1";
  Decorator racing(*store_);
  int64_t theirs = 0;
  racing.on_commit = [&](const LoadedTable& base,
                         const TableMetadata& updated) -> arrow::Result<LoadedTable> {
    if (theirs == 0) theirs = Do(change).snapshot_id;
    return store_->Commit(base, updated);
  };
  ASSERT_OK_AND_ASSIGN(auto outcome, CommitSnapshot(racing, change));
  EXPECT_TRUE(outcome.already_committed);
  EXPECT_EQ(outcome.snapshot_id, theirs);
  EXPECT_THAT(Paths(Read().data_files), ElementsAre("a"));
  EXPECT_EQ(MetadataFiles().size(), 5u) << "two versions, hint, one list, one manifest";
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

TEST_F(CommitTest, Properties) {
  auto set = [](const std::string& value) {
    return [value](TableMetadata* metadata) -> arrow::Result<bool> {
      if (metadata->property("k", "") == value) return false;
      metadata->SetProperties({{"k", value}});
      return true;
    };
  };
  ASSERT_OK_AND_ASSIGN(bool changed, CommitProperties(*store_, set("1")));
  EXPECT_TRUE(changed);
  const auto before = MetadataFiles();
  ASSERT_OK_AND_ASSIGN(changed, CommitProperties(*store_, set("1")));
  EXPECT_FALSE(changed);
  EXPECT_EQ(MetadataFiles(), before);

  Decorator racing(*store_);
  int attempts = 0;
  racing.on_commit = [&](const LoadedTable& base,
                         const TableMetadata& updated) -> arrow::Result<LoadedTable> {
    if (attempts++ == 0) Do(Append({"a"}));
    return store_->Commit(base, updated);
  };
  ASSERT_OK_AND_ASSIGN(changed, CommitProperties(racing, set("2")));
  EXPECT_TRUE(changed);
  EXPECT_EQ(attempts, 2);
  EXPECT_THAT(Paths(Read().data_files), ElementsAre("a"));

  racing.on_commit = [&](const LoadedTable& base,
                         const TableMetadata& updated) -> arrow::Result<LoadedTable> {
    EXPECT_TRUE(store_->Commit(base, updated).ok());
    return UnknownOutcome("timed out");
  };
  ASSERT_OK_AND_ASSIGN(changed, CommitProperties(racing, set("3")));
  EXPECT_TRUE(changed);
  racing.on_commit = [&](const LoadedTable&, const TableMetadata&) -> arrow::Result<LoadedTable> {
    return UnknownOutcome("timed out");
  };
  EXPECT_EQ(KindOf(CommitProperties(racing, set("4")).status()), FailureKind::kUnknown);
}

/// Threads that append at once to one table: all land, none is lost.
void AppendConcurrently(const std::function<std::unique_ptr<TableStore>()>& open,
                        const FileIO& io) {
  constexpr int kThreads = 4;
  constexpr int kAppends = 5;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      auto store = open();
      for (int j = 0; j < kAppends; ++j) {
        auto outcome = CommitSnapshot(*store, Append({fmt::format("{}-{}", i, j)}));
        EXPECT_TRUE(outcome.ok()) << outcome.status().ToString();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  ASSERT_OK_AND_ASSIGN(auto table, open()->Load());
  ASSERT_OK_AND_ASSIGN(auto snapshots, table.metadata.Snapshots());
  ASSERT_EQ(snapshots.size(), static_cast<size_t>(kThreads * kAppends));
  std::set<std::string> lists;
  for (size_t i = 0; i < snapshots.size(); ++i) {
    EXPECT_EQ(snapshots[i].sequence_number, static_cast<int64_t>(i + 1));
    if (i > 0) {
      EXPECT_EQ(snapshots[i].parent_snapshot_id, snapshots[i - 1].snapshot_id);
    }
    EXPECT_EQ(snapshots[i].summary.at("total-data-files"), std::to_string(i + 1));
    lists.insert(FileNameOf(snapshots[i].manifest_list));
  }
  ASSERT_OK_AND_ASSIGN(auto files,
                       ReadSnapshotFiles(io, table.metadata, table.metadata.current_snapshot_id()));
  std::set<std::string> paths;
  std::set<std::string> manifests;
  for (const auto& live : files.data_files) paths.insert(live.file.file_path);
  for (const auto& manifest : files.manifests) manifests.insert(FileNameOf(manifest.manifest_path));
  EXPECT_EQ(paths.size(), static_cast<size_t>(kThreads * kAppends));
  // Lost attempts left no manifest or list.
  for (const auto& name : FilesIn(*FileIO::LocalPath(table.metadata.location()) + "/metadata")) {
    EXPECT_TRUE(!name.ends_with(".avro") || lists.contains(name) || manifests.contains(name))
        << name;
  }
}

TEST_F(CommitTest, ConcurrentAppendsToAHadoopTable) {
  AppendConcurrently([&] { return *OpenHadoopTable(io_, location_); }, *io_);
}

TEST_F(CommitTest, ConcurrentAppendsToASqlTable) {
  const std::map<std::string, std::string> properties = {
      {"uri", "sqlite:///" + folder_ / "catalog.db"}, {"warehouse", folder_.path()}};
  auto open = [&] { return *OpenSqlTable(io_, "c", properties, {{"db"}, "t"}, /*create=*/true); };
  ASSERT_OK_AND_ASSIGN(auto location, NewSqlTableLocation("c", properties, {{"db"}, "t"}));
  ASSERT_OK(open()
                ->CreateTable(*TableMetadata::Create(OneColumn(), location,
                                                     {{"commit.retry.min-wait-ms", "1"},
                                                      {"commit.retry.max-wait-ms", "50"},
                                                      {"commit.retry.num-retries", "200"}}))
                .status());
  AppendConcurrently(open, *io_);
  // Metadata files of lost swaps are gone: one for the creation and one for each commit.
  size_t versions = 0;
  for (const auto& name : FilesIn(folder_ / "db/t/metadata")) versions += name.ends_with(".json");
  EXPECT_EQ(versions, 21u);
}

}  // namespace
}  // namespace thalweg::iceberg
