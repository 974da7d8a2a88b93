#include "iceberg/rest_catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "iceberg/canned_server.h"
#include "iceberg/rest_update.h"
#include "iceberg/test_util.h"
#include "util/status.h"

namespace thalweg::iceberg {
namespace {

using testing::HasSubstr;

TableMetadata NewTable() {
  return *TableMetadata::Create(OneColumn(), "s3://b/t", {{"kept", "1"}, {"gone", "1"}});
}

Snapshot NewSnapshot(int64_t id, int64_t sequence_number) {
  Snapshot snapshot;
  snapshot.snapshot_id = id;
  snapshot.sequence_number = sequence_number;
  snapshot.timestamp_ms = 1'790'000'000'000;
  snapshot.manifest_list = "s3://b/t/metadata/snap.avro";
  snapshot.summary = {{"operation", "replace"}};
  snapshot.schema_id = 0;
  return snapshot;
}

StatisticsFile StatisticsOf(int64_t id) {
  StatisticsFile file;
  file.snapshot_id = id;
  file.statistics_path = "s3://b/t/metadata/stats.puffin";
  file.file_size_in_bytes = 10;
  file.file_footer_size_in_bytes = 5;
  return file;
}

Json ParsedJson(const std::string& text) { return *ParseJson(text, "test"); }
bool Equal(const Json& a, const Json& b) { return nlohmann::json(a) == nlohmann::json(b); }

TEST(RestUpdate, OfASnapshot) {
  const auto base = NewTable();
  auto updated = base;
  updated.AddSnapshot(NewSnapshot(7, 1));
  updated.SetStatistics(StatisticsOf(7));
  ASSERT_OK_AND_ASSIGN(const auto first, MakeRestUpdate(base, updated));
  EXPECT_EQ(first.snapshot_id, 7);
  EXPECT_PRED2(
      Equal, first.requirements,
      (Json{{{"type", "assert-table-uuid"}, {"uuid", base.table_uuid()}},
            {{"type", "assert-ref-snapshot-id"}, {"ref", "main"}, {"snapshot-id", nullptr}}}));
  EXPECT_PRED2(Equal, first.updates, ParsedJson(R"([
    {"action": "add-snapshot", "snapshot": {"snapshot-id": 7, "sequence-number": 1,
      "timestamp-ms": 1790000000000, "manifest-list": "s3://b/t/metadata/snap.avro",
      "summary": {"operation": "replace"}, "schema-id": 0}},
    {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 7},
    {"action": "set-statistics", "snapshot-id": 7, "statistics": {"snapshot-id": 7,
      "statistics-path": "s3://b/t/metadata/stats.puffin", "file-size-in-bytes": 10,
      "file-footer-size-in-bytes": 5, "blob-metadata": []}}])"));

  // The next one, on a branch with settings of its own, beside another.
  Json json = updated.json();
  json["refs"]["main"]["max-ref-age-ms"] = 5;
  json["refs"]["side"] = {{"snapshot-id", 7}, {"type", "branch"}};
  ASSERT_OK_AND_ASSIGN(const auto second, TableMetadata::FromJson(json, "test"));
  auto third = second;
  third.AddSnapshot(NewSnapshot(8, 2));
  ASSERT_OK_AND_ASSIGN(const auto next, MakeRestUpdate(second, third));
  EXPECT_EQ(next.requirements[1]["snapshot-id"], 7);
  ASSERT_EQ(next.updates.size(), 2u);
  EXPECT_PRED2(Equal, next.updates[1], ParsedJson(R"({"action": "set-snapshot-ref",
    "ref-name": "main", "type": "branch", "snapshot-id": 8, "max-ref-age-ms": 5})"));
}

TEST(RestUpdate, OfStatisticsAlone) {
  auto base = NewTable();
  base.AddSnapshot(NewSnapshot(7, 1));
  auto updated = base;
  updated.SetStatistics(StatisticsOf(7));
  ASSERT_OK_AND_ASSIGN(const auto set, MakeRestUpdate(base, updated));
  ASSERT_EQ(set.updates.size(), 1u);
  EXPECT_EQ(set.updates[0]["action"], "set-statistics");
  EXPECT_EQ(set.requirements[1]["snapshot-id"], 7);
  EXPECT_FALSE(set.snapshot_id);
  ASSERT_OK_AND_ASSIGN(const auto removed, MakeRestUpdate(updated, base));
  EXPECT_PRED2(Equal, removed.updates,
               ParsedJson(R"([{"action": "remove-statistics", "snapshot-id": 7}])"));
}

TEST(RestUpdate, OfProperties) {
  const auto base = NewTable();
  auto updated = base;
  updated.SetProperties({{"kept", "2"}, {"new", "3"}});
  updated.RemoveProperties({"gone"});
  ASSERT_OK_AND_ASSIGN(const auto update, MakeRestUpdate(base, updated));
  EXPECT_PRED2(Equal, update.updates, ParsedJson(R"([
    {"action": "set-properties", "updates": {"kept": "2", "new": "3"}},
    {"action": "remove-properties", "removals": ["gone"]}])"));
  ASSERT_EQ(update.requirements.size(), 1u);  // the last writer wins: there is no other
  EXPECT_EQ(update.requirements[0]["uuid"], base.table_uuid());
  ASSERT_OK_AND_ASSIGN(const auto nothing, MakeRestUpdate(base, base));
  EXPECT_TRUE(nothing.updates.empty());
}

TEST(RestUpdate, RefusesWhatItCannotSay) {
  auto base = NewTable();
  base.AddSnapshot(NewSnapshot(7, 1));
  auto refused = [&](const std::function<void(Json&)>& change) {
    Json json = base.json();
    change(json);
    auto updated = TableMetadata::FromJson(json, "test");
    EXPECT_TRUE(updated.ok());
    return MakeRestUpdate(base, *updated).status().message();
  };
  EXPECT_THAT(refused([](Json& j) { j["location"] = "elsewhere"; }), HasSubstr("\"location\""));
  EXPECT_THAT(refused([](Json& j) { j["schemas"].push_back(j["schemas"][0]); }),
              HasSubstr("\"schemas\""));
  EXPECT_THAT(refused([](Json& j) { j["unknown"] = 1; }), HasSubstr("\"unknown\""));
  EXPECT_THAT(refused([](Json& j) { j.erase("last-partition-id"); }),
              HasSubstr("\"last-partition-id\""));
  EXPECT_THAT(refused([](Json& j) { j["snapshots"][0]["timestamp-ms"] = 1; }),
              HasSubstr("existing snapshot 7"));
  EXPECT_THAT(refused([](Json& j) {
                j["refs"]["other"] = {{"snapshot-id", 7}, {"type", "tag"}};
              }),
              HasSubstr("the ref other"));
  auto both = base;
  both.AddSnapshot(NewSnapshot(8, 2));
  both.SetProperties({{"a", "b"}});
  EXPECT_THAT(MakeRestUpdate(base, both).status().message(), HasSubstr("together"));
}

TEST(RestCatalog, VerdictsOnCommits) {
  for (int status : {200, 201, 204}) EXPECT_EQ(VerdictOf(status), CommitVerdict::kCommitted);
  EXPECT_EQ(VerdictOf(409), CommitVerdict::kConflict);
  for (int status : {400, 401, 403, 404, 406, 419, 422, 429, 501}) {
    EXPECT_EQ(VerdictOf(status), CommitVerdict::kRefused) << status;
  }
  for (int status : {100, 302, 408, 500, 502, 503, 504, 599}) {
    EXPECT_EQ(VerdictOf(status), CommitVerdict::kUnknown) << status;
  }
}

TEST(RestCatalog, CredentialsOfTheServerGoFirst) {
  const auto access = StorageAccess(
      {{"s3.endpoint", "http://own"}, {"s3.access-key-id", "own"}, {"s3.session-token", "own"}},
      ParsedJson(R"({"config": {"s3.region": "r"}, "storage-credentials": [
        {"prefix": "s3://b/", "config": {"s3.access-key-id": "bucket"}},
        {"prefix": "s3://b/t", "config": {"s3.access-key-id": "table", "s3.session-token": "x",
          "s3.session-token-expires-at-ms": "1790000000000"}}, 7, {"prefix": "s3://c"}]})"));
  using Properties = S3Access::Properties;
  EXPECT_EQ(access.For("s3://other/x"), (Properties{{"s3.endpoint", "http://own"},
                                                    {"s3.access-key-id", "own"},
                                                    {"s3.session-token", "own"},
                                                    {"s3.region", "r"}}));
  // Not the token that belongs to other keys.
  EXPECT_EQ(access.For("s3a://b/other"), (Properties{{"s3.endpoint", "http://own"},
                                                     {"s3.access-key-id", "bucket"},
                                                     {"s3.region", "r"}}));
  EXPECT_EQ(access.For("s3://b/t/data/f").at("s3.access-key-id"), "table");
  EXPECT_EQ(access.For("s3://b/t/data/f").at("s3.session-token"), "x");
  EXPECT_EQ(access.ExpiresAtMillis(), 1790000000000);
  EXPECT_FALSE(StorageAccess({}, Json::array()).ExpiresAtMillis());
}

/// A table in a catalog that answers as it is told.
class RestCatalogTest : public testing::Test {
 protected:
  void SetUp() override {
    server_.Answer(200, "{}");
    auto store = OpenRestTable("prod", {{"uri", server_.uri()}}, {{"db"}, "t"});
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    store_ = *std::move(store);
    base_ = {"s3://b/t/metadata/1.json", NewTable()};
    updated_ = base_.metadata;
    updated_.AddSnapshot(NewSnapshot(7, 1));
  }
  void AnswerTable(const TableMetadata& metadata, const std::string& location) {
    server_.Answer(200,
                   DumpJson(Json{{"metadata-location", location}, {"metadata", metadata.json()}}));
  }
  FailureKind CommitFailure() {
    const auto status = store_->Commit(base_, updated_).status();
    EXPECT_FALSE(status.ok());
    return KindOf(status);
  }

  CannedServer server_;
  std::unique_ptr<TableStore> store_;
  LoadedTable base_;
  TableMetadata updated_;
};

TEST_F(RestCatalogTest, LoadsAndCommits) {
  AnswerTable(base_.metadata, base_.metadata_location);
  ASSERT_OK_AND_ASSIGN(const auto loaded, store_->Load());
  EXPECT_EQ(loaded.metadata.json(), base_.metadata.json());
  EXPECT_EQ(server_.requests().back().line(),
            "GET /v1/namespaces/db/tables/t?snapshots=all HTTP/1.1");
  AnswerTable(updated_, "s3://b/t/metadata/2.json");
  ASSERT_OK_AND_ASSIGN(const auto committed, store_->Commit(loaded, updated_));
  EXPECT_EQ(committed.metadata_location, "s3://b/t/metadata/2.json");
  const auto request = server_.requests().back();
  EXPECT_EQ(request.line(), "POST /v1/namespaces/db/tables/t HTTP/1.1");
  EXPECT_EQ(request.header("Idempotency-Key"), "");
  const Json body = ParsedJson(request.body);
  EXPECT_PRED2(Equal, body["identifier"], ParsedJson(R"({"namespace": ["db"], "name": "t"})"));
  EXPECT_EQ(body["updates"].size(), 2u);
  server_.Answer(404, R"({"error": {"message": "no t", "type": "NoSuchTableException"}})");
  const auto missing = store_->Load().status();
  EXPECT_TRUE(missing.IsKeyError()) << missing.ToString();
  EXPECT_THAT(missing.message(), HasSubstr("no t"));
}

TEST_F(RestCatalogTest, FailuresHaveTheirKinds) {
  server_.Answer(409, "{}");
  EXPECT_EQ(CommitFailure(), FailureKind::kConflict);
  server_.Answer(403, "{}");
  EXPECT_EQ(CommitFailure(), FailureKind::kError);
  server_.Answer(503, "{}");
  EXPECT_EQ(CommitFailure(), FailureKind::kUnknown);
  server_.Raw("");
  EXPECT_EQ(CommitFailure(), FailureKind::kUnknown);
  // Refused: because the table moved, or for what it says.
  server_.Answer(400, "{}");
  AnswerTable(base_.metadata, base_.metadata_location);
  EXPECT_EQ(CommitFailure(), FailureKind::kError);
  server_.Answer(400, "{}");
  AnswerTable(base_.metadata, "s3://b/t/metadata/2.json");
  EXPECT_EQ(CommitFailure(), FailureKind::kConflict);
  // Done, but said in a way that nobody understands: the table knows.
  server_.Answer(200, "{}");
  AnswerTable(updated_, "s3://b/t/metadata/2.json");
  ASSERT_OK_AND_ASSIGN(const auto committed, store_->Commit(base_, updated_));
  EXPECT_EQ(committed.metadata_location, "s3://b/t/metadata/2.json");
}

TEST_F(RestCatalogTest, HostileAnswersAreErrors) {
  for (const char* body : {"[]", "7", "{}", R"({"metadata-location": 7, "metadata": {}})",
                           R"({"metadata-location": "x", "metadata": []})",
                           R"({"metadata-location": "x", "metadata": {"format-version": 9}})",
                           R"({"metadata-location": "x", "metadata": {"format-version": 2}})"}) {
    server_.Answer(200, body);
    EXPECT_FALSE(store_->Load().ok()) << body;
  }
  server_.Answer(200, std::string(100'000, '['));
  EXPECT_THAT(store_->Load().status().message(), HasSubstr("nested deeper"));
}

TEST_F(RestCatalogTest, MakesNamespacesOnDemand) {
  server_.Answer(404,
                 R"({"error": {"message": "no namespace", "type": "NoSuchNamespaceException"}})");
  server_.Answer(200, "{}");
  AnswerTable(NewTable(), "s3://b/t/metadata/0.json");
  ASSERT_OK_AND_ASSIGN(const auto metadata, TableMetadata::Create(OneColumn(), "", {{"a", "b"}}));
  ASSERT_OK(store_->CreateTable(metadata).status());
  const auto requests = server_.requests();
  ASSERT_EQ(requests.size(), 4u);
  EXPECT_EQ(requests[2].line(), "POST /v1/namespaces HTTP/1.1");
  EXPECT_PRED2(Equal, ParsedJson(requests[2].body),
               ParsedJson(R"({"namespace": ["db"], "properties": {}})"));
  EXPECT_EQ(requests[3].line(), "POST /v1/namespaces/db/tables HTTP/1.1");
  const Json body = ParsedJson(requests[3].body);
  EXPECT_EQ(body["name"], "t");
  EXPECT_FALSE(body.contains("location"));
  EXPECT_PRED2(Equal, body["properties"], ParsedJson(R"({"a": "b", "format-version": "2"})"));
  EXPECT_PRED2(Equal, body["schema"], OneColumn().ToJson());
  server_.Answer(409, "{}");
  EXPECT_TRUE(store_->CreateTable(metadata).status().IsAlreadyExists());
}

}  // namespace
}  // namespace thalweg::iceberg
