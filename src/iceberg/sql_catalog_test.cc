#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "iceberg/catalog.h"
#include "iceberg/metadata_file.h"
#include "iceberg/test_util.h"
#include "util/status.h"
#include "util/uuid.h"

namespace thalweg::iceberg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

constexpr char kV0Schema[] =
    "CREATE TABLE iceberg_tables (catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) "
    "NOT NULL, table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000), "
    "previous_metadata_location VARCHAR(1000), PRIMARY KEY (catalog_name, table_namespace, "
    "table_name));"
    "CREATE TABLE iceberg_namespace_properties (catalog_name VARCHAR(255) NOT NULL, namespace "
    "VARCHAR(255) NOT NULL, property_key VARCHAR(255), property_value VARCHAR(1000), PRIMARY KEY "
    "(catalog_name, namespace, property_key));";

class SqlCatalogTest : public testing::Test {
 protected:
  /// Runs SQL; the cells of all rows, NULL as "NULL".
  std::vector<std::string> Sql(const std::string& sql) {
    std::vector<std::string> cells;
    sqlite3* database = nullptr;
    EXPECT_EQ(sqlite3_open(file_.c_str(), &database), SQLITE_OK);
    auto collect = [](void* out, int count, char** values, char**) {
      for (int i = 0; i < count; ++i) {
        static_cast<std::vector<std::string>*>(out)->push_back(values[i] ? values[i] : "NULL");
      }
      return 0;
    };
    char* error = nullptr;
    EXPECT_EQ(sqlite3_exec(database, sql.c_str(), collect, &cells, &error), SQLITE_OK) << error;
    sqlite3_free(error);
    sqlite3_close(database);
    return cells;
  }
  arrow::Result<std::unique_ptr<TableStore>> Open(bool create, const std::string& name = "events",
                                                  const std::string& catalog = "default") {
    return OpenSqlTable(io_, catalog, properties_, {{"db", "sub"}, name}, create);
  }
  std::unique_ptr<TableStore> Create(const std::string& name = "events",
                                     std::map<std::string, std::string> properties = {}) {
    auto store = Open(/*create=*/true, name);
    EXPECT_TRUE(store.ok()) << store.status().ToString();
    auto location = NewSqlTableLocation("default", properties_, {{"db", "sub"}, name});
    EXPECT_TRUE(location.ok()) << location.status().ToString();
    auto created = (*store)->CreateTable(
        *TableMetadata::Create(OneColumn(), *location, std::move(properties)));
    EXPECT_TRUE(created.ok()) << created.status().ToString();
    return *std::move(store);
  }

  TempFolder folder_;
  std::string file_ = folder_ / "catalog.db";
  std::map<std::string, std::string> properties_ = {{"uri", "sqlite:///" + file_},
                                                    {"warehouse", folder_ / "warehouse/"}};
  std::string metadata_ = folder_ / "warehouse/db.sub/events/metadata";
  std::shared_ptr<FileIO> io_ = std::make_shared<FileIO>();
};

TEST_F(SqlCatalogTest, CreatesAndCommits) {
  auto store = Create();
  ASSERT_OK_AND_ASSIGN(auto first, store->Load());
  EXPECT_THAT(first.metadata_location,
              MatchesRegex(metadata_ + "/00000-[0-9a-f-]{36}.metadata.json"));
  EXPECT_THAT(Sql("SELECT * FROM iceberg_tables"),
              ElementsAre("default", "db.sub", "events", first.metadata_location, "NULL", "TABLE"));
  EXPECT_THAT(Sql("SELECT * FROM iceberg_namespace_properties"),
              ElementsAre("default", "db.sub", "exists", "true"));
  ASSERT_OK_AND_ASSIGN(auto second, SetProperty(*store, first, "a", "1"));
  EXPECT_THAT(second.metadata_location,
              MatchesRegex(metadata_ + "/00001-[0-9a-f-]{36}.metadata.json"));
  EXPECT_THAT(Sql("SELECT metadata_location, previous_metadata_location FROM iceberg_tables"),
              ElementsAre(second.metadata_location, first.metadata_location));
  properties_["uri"] = "jdbc:sqlite:" + file_;
  ASSERT_OK_AND_ASSIGN(auto opened, Open(false));
  ASSERT_OK_AND_ASSIGN(auto loaded, opened->Load());
  EXPECT_EQ(loaded.metadata_location, second.metadata_location);
  EXPECT_EQ(loaded.metadata.property("a", ""), "1");
  EXPECT_EQ(loaded.metadata.json()["metadata-log"][0]["metadata-file"], first.metadata_location);
  EXPECT_TRUE(opened->writable(nullptr));
  EXPECT_THAT(opened->description(), HasSubstr("db.sub.events"));
  // Creating again leaves all as it is.
  EXPECT_TRUE(store->CreateTable(first.metadata).status().IsAlreadyExists());
  EXPECT_EQ(FilesIn(metadata_).size(), 2u);
}

TEST_F(SqlCatalogTest, AStaleBaseIsAConflictAndLeavesNothing) {
  auto store = Create();
  ASSERT_OK_AND_ASSIGN(auto base, store->Load());
  ASSERT_OK(SetProperty(*store, base, "a", "1").status());
  const auto before = FilesIn(metadata_);
  auto status = SetProperty(*store, base, "a", "2").status();
  EXPECT_EQ(KindOf(status), FailureKind::kConflict) << status.ToString();
  EXPECT_EQ(FilesIn(metadata_), before);
  // A dropped table: neither.
  Sql("DELETE FROM iceberg_tables");
  status = SetProperty(*store, base, "a", "2").status();
  EXPECT_EQ(KindOf(status), FailureKind::kConflict) << status.ToString();
  EXPECT_EQ(FilesIn(metadata_), before);
}

TEST_F(SqlCatalogTest, OldSchemaWithoutTypes) {
  Sql(kV0Schema);
  auto store = Create();
  ASSERT_OK_AND_ASSIGN(auto table, store->Load());
  ASSERT_OK_AND_ASSIGN(table, SetProperty(*store, table, "a", "1"));
  EXPECT_EQ(Sql("SELECT * FROM iceberg_tables").size(), 5u);
  EXPECT_THAT(Sql("SELECT metadata_location FROM iceberg_tables"),
              ElementsAre(table.metadata_location));
}

TEST_F(SqlCatalogTest, ViewsAreNoTables) {
  auto store = Create();
  ASSERT_OK_AND_ASSIGN(auto base, store->Load());
  Sql("UPDATE iceberg_tables SET iceberg_type = NULL");
  ASSERT_OK(store->Load().status());
  Sql("UPDATE iceberg_tables SET iceberg_type = 'VIEW'");
  EXPECT_TRUE(store->Load().status().IsKeyError());
  EXPECT_EQ(KindOf(SetProperty(*store, base, "a", "1").status()), FailureKind::kConflict);
}

TEST_F(SqlCatalogTest, MetadataPathAndGzip) {
  auto store = Create("events", {{"write.metadata.path", folder_ / "elsewhere/"},
                                 {"write.metadata.compression-codec", "gzip"}});
  ASSERT_OK_AND_ASSIGN(auto table, store->Load());
  EXPECT_THAT(table.metadata_location,
              MatchesRegex(folder_ / "elsewhere/00000-.*.gz.metadata.json"));
  EXPECT_EQ(store->MetadataFolder(table.metadata), folder_ / "elsewhere");
  ASSERT_OK_AND_ASSIGN(table, SetProperty(*store, table, "a", "1"));
  EXPECT_THAT(table.metadata_location,
              MatchesRegex(folder_ / "elsewhere/00001-.*.gz.metadata.json"));
}

TEST_F(SqlCatalogTest, ExpiresOldMetadataWhenAsked) {
  auto store = Create("events", {{"write.metadata.delete-after-commit.enabled", "true"},
                                 {"write.metadata.previous-versions-max", "1"}});
  ASSERT_OK_AND_ASSIGN(auto table, store->Load());
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK_AND_ASSIGN(table, SetProperty(*store, table, "n", std::to_string(i)));
  }
  const auto files = FilesIn(metadata_);
  ASSERT_EQ(files.size(), 2u);
  EXPECT_THAT(files[0], HasSubstr("00002-"));
  EXPECT_THAT(files[1], HasSubstr("00003-"));
}

TEST_F(SqlCatalogTest, WhatBecameOfASwapIsInTheLogAsFarAsItReaches) {
  auto store = Create("events", {{"write.metadata.previous-versions-max", "1"}});
  ASSERT_OK_AND_ASSIGN(const auto first, store->Load());
  const std::string base = first.metadata_location;
  const std::string lost = base + ".lost";  // somebody else's commit came first
  auto outcomes = [&](const LoadedTable& now, const std::string& ours) {
    return std::pair(OutcomeOfSwap(now, base, ours), OutcomeOfSwap(now, base, lost));
  };
  using enum SwapOutcome;
  EXPECT_EQ(OutcomeOfSwap(first, base, lost), kLost) << "nobody committed";
  ASSERT_OK_AND_ASSIGN(auto table, SetProperty(*store, first, "n", "1"));
  const std::string ours = table.metadata_location;
  EXPECT_EQ(outcomes(table, ours), std::pair(kCommitted, kLost));
  ASSERT_OK_AND_ASSIGN(table, SetProperty(*store, table, "n", "2"));
  EXPECT_EQ(OutcomeOfSwap(table, base, ours), kCommitted);
  EXPECT_EQ(OutcomeOfSwap(table, base, lost), kUnknown) << "the log begins after the base";
  ASSERT_OK_AND_ASSIGN(table, SetProperty(*store, table, "n", "3"));
  EXPECT_EQ(table.metadata.json()["metadata-log"].size(), 1u);
  EXPECT_EQ(outcomes(table, ours), std::pair(kUnknown, kUnknown)) << "committed, and forgotten";
}

TEST_F(SqlCatalogTest, WhatBecameOfACreation) {
  auto store = Create();
  ASSERT_OK_AND_ASSIGN(auto table, store->Load());
  const std::string ours = table.metadata_location;
  EXPECT_EQ(OutcomeOfSwap(table, "", ours), SwapOutcome::kCommitted);
  EXPECT_EQ(OutcomeOfSwap(table, "", ours + ".other"), SwapOutcome::kLost);
  ASSERT_OK_AND_ASSIGN(table, SetProperty(*store, table, "n", "1"));
  EXPECT_EQ(OutcomeOfSwap(table, "", ours), SwapOutcome::kCommitted);
  EXPECT_EQ(OutcomeOfSwap(table, "", ours + ".other"), SwapOutcome::kUnknown);
}

TEST_F(SqlCatalogTest, ErrorsSayWhatThereIsInstead) {
  auto missing = Open(false).status();
  EXPECT_THAT(missing.message(), HasSubstr(file_));
  EXPECT_THAT(missing.message(), HasSubstr("there is no file"));
  EXPECT_FALSE(std::filesystem::exists(file_)) << "looking must not make a database";

  std::ofstream(file_) << std::string(5000, 'x');
  EXPECT_THAT(Open(false).status().message(), HasSubstr("not a SQLite database"));
  std::filesystem::resize_file(file_, 0);
  EXPECT_THAT(Open(false).status().message(), HasSubstr("no Iceberg catalog"));
  std::filesystem::remove(file_);

  for (const char* name : {"events", "orders", "a1", "a2", "a3", "a4", "a5"}) Create(name);
  auto status = Open(false, "evnts").status();
  EXPECT_TRUE(status.IsKeyError());
  EXPECT_THAT(status.message(), HasSubstr("namespace db.sub has events, "));
  EXPECT_THAT(status.message(), HasSubstr(" and 2 more"));
  EXPECT_THAT(status.message(), HasSubstr(file_));
  status = OpenSqlTable(io_, "default", properties_, {{"dbsub"}, "events"}, false).status();
  EXPECT_THAT(status.message(), HasSubstr("there are namespaces db.sub"));
  status = Open(false, "events", "prod").status();
  EXPECT_THAT(status.message(), HasSubstr("no catalog of that name but default"));

  properties_["uri"] = "postgresql://host/db";
  EXPECT_THAT(Open(true).status().message(), HasSubstr("postgresql://host/db: only SQLite"));
  for (const char* uri : {"sqlite://", "sqlite:///", "jdbc:sqlite:", "sqlite:///:memory:"}) {
    properties_["uri"] = uri;
    EXPECT_THAT(Open(true).status().message(), HasSubstr("names no database file")) << uri;
  }
  properties_.erase("uri");
  EXPECT_THAT(Open(true).status().message(), HasSubstr("uri is not set"));
}

TEST_F(SqlCatalogTest, ATruncatedDatabaseIsAnError) {
  Create();
  const auto size = std::filesystem::file_size(file_);
  std::filesystem::resize_file(file_, size / 2);
  auto status = Open(false).status();
  EXPECT_THAT(status.message(), HasSubstr("corrupt"));
  EXPECT_THAT(status.message(), Not(HasSubstr("\n")));
}

TEST_F(SqlCatalogTest, Locations) {
  ASSERT_OK_AND_ASSIGN(auto location,
                       NewSqlTableLocation("default", properties_, {{"db", "sub"}, "new"}));
  EXPECT_EQ(location, folder_ / "warehouse/db.sub/new");
  EXPECT_FALSE(std::filesystem::exists(file_));
  Create();
  Sql("INSERT INTO iceberg_namespace_properties VALUES ('default', 'db.sub', 'location', "
      "'file:///else/'), ('other', 'db.sub', 'location', '/wrong')");
  ASSERT_OK_AND_ASSIGN(location,
                       NewSqlTableLocation("default", properties_, {{"db", "sub"}, "new"}));
  EXPECT_EQ(location, "file:///else/new");
  properties_.erase("warehouse");
  EXPECT_THAT(NewSqlTableLocation("default", properties_, {{"db"}, "new"}).status().message(),
              HasSubstr("warehouse"));
}

TEST_F(SqlCatalogTest, OneOfManyConcurrentSwapsWins) {
  auto store = Create();
  constexpr int kThreads = 6;
  for (int round = 0; round < 5; ++round) {
    ASSERT_OK_AND_ASSIGN(const auto base, store->Load());
    std::atomic<int> won{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        auto status = SetProperty(*store, base, "a", NewUuid()).status();
        EXPECT_TRUE(status.ok() || KindOf(status) == FailureKind::kConflict) << status.ToString();
        if (status.ok()) ++won;
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(won, 1);
  }
  EXPECT_EQ(FilesIn(metadata_).size(), 6u);
}

TEST_F(SqlCatalogTest, WaitsForAnotherWriter) {
  auto store = Create();
  ASSERT_OK_AND_ASSIGN(auto base, store->Load());
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(file_.c_str(), &database), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(database, "BEGIN EXCLUSIVE", nullptr, nullptr, nullptr), SQLITE_OK);
  std::thread holder([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    sqlite3_exec(database, "COMMIT", nullptr, nullptr, nullptr);
  });
  EXPECT_TRUE(SetProperty(*store, base, "a", "1").ok());
  holder.join();
  sqlite3_close(database);
}

}  // namespace
}  // namespace thalweg::iceberg
