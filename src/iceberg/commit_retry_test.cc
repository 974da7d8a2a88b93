// Commits that lose a race, fail, or whose outcome is not known; commits side by side.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "iceberg/commit_test_util.h"
#include "iceberg/metadata_file.h"
#include "util/status.h"
#include "util/uuid.h"

namespace thalweg::iceberg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

using CommitRetryTest = CommitTest;

TEST_F(CommitRetryTest, AFileThatIsGoneIsAConflictAndLeavesNothing) {
  Do(Append({"a", "b"}));
  Do(Replace({"a"}, "x"));
  const auto before = MetadataFiles();
  auto status = CommitSnapshot(*store_, Replace({"b", "a"}, "y")).status();
  EXPECT_EQ(KindOf(status), FailureKind::kConflict);
  EXPECT_THAT(status.message(), HasSubstr("1 of 2 files"));
  EXPECT_THAT(status.message(), HasSubstr("first a"));
  EXPECT_EQ(MetadataFiles(), before);
}

TEST_F(CommitRetryTest, ALostRaceIsTriedAgainUponTheNewParent) {
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

TEST_F(CommitRetryTest, RetriesEnd) {
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

TEST_F(CommitRetryTest, AFailureOfTheCallersChecksEndsTheCommit) {
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

TEST_F(CommitRetryTest, AnUnknownOutcomeThatIsFoundIsACommit) {
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

TEST_F(CommitRetryTest, AnUnknownOutcomeThatIsNotFoundDeletesNothing) {
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

TEST_F(CommitRetryTest, AnUnknownOutcomeStaysUnknownWhateverElseIsWrong) {
  // What is found wrong while looking for the snapshot must not pass for a definite failure.
  auto store = Create(folder_ / "other", {{"commit.status-check.num-retries", "x"}});
  Decorator unsure(*store);
  unsure.on_commit = [&](const LoadedTable& base,
                         const TableMetadata& updated) -> arrow::Result<LoadedTable> {
    EXPECT_TRUE(store->Commit(base, updated).ok());
    return UnknownOutcome("timed out");
  };
  EXPECT_EQ(KindOf(CommitSnapshot(unsure, Append({"b"})).status()), FailureKind::kUnknown);
  EXPECT_THAT(Paths(Read(*store).data_files), ElementsAre("b"));
  unsure.on_commit = [](const LoadedTable&, const TableMetadata&) -> arrow::Result<LoadedTable> {
    return UnknownOutcome("timed out");
  };
  auto set = [](TableMetadata* metadata) -> arrow::Result<bool> {
    metadata->SetProperties({{"a", "1"}});
    return true;
  };
  EXPECT_EQ(KindOf(CommitProperties(unsure, set).status()), FailureKind::kUnknown);
}

TEST_F(CommitRetryTest, ADefiniteErrorIsCleanedUpUnlessTheTableNamesTheFiles) {
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

TEST_F(CommitRetryTest, IdempotentByKey) {
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

TEST_F(CommitRetryTest, ARunThatAnotherProcessCommittedMeanwhile) {
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

TEST_F(CommitRetryTest, Properties) {
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
  threads.reserve(kThreads);
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

TEST_F(CommitRetryTest, ConcurrentAppendsToAHadoopTable) {
  AppendConcurrently([&] { return *OpenHadoopTable(io_, location_); }, *io_);
}

TEST_F(CommitRetryTest, ConcurrentAppendsToASqlTable) {
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
