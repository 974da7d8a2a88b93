// Driven by test/iceberg_commit_test.py: performs the commits that the file
// $THALWEG_INTEROP_DIR/request.json asks for, on tables that other engines made and then read.
// Skipped without that variable.
#include <gtest/gtest.h>

#include <cstdlib>

#include "iceberg/commit.h"
#include "iceberg/test_util.h"
#include "util/json.h"

namespace thalweg::iceberg {
namespace {

SnapshotChange ChangeFromJson(const Json& json) {
  SnapshotChange change;
  change.operation = json["operation"];
  change.allow_fewer_records = json.value("allow-fewer-records", false);
  change.removed = json.value("removed", std::vector<std::string>());
  change.summary = json.value("summary", std::map<std::string, std::string>());
  for (const Json& group : json.value("added", Json::array())) {
    auto& files = change.added.emplace_back();
    for (const Json& item : group) {
      SnapshotChange::Added added;
      added.file.file_path = item["path"];
      added.file.record_count = item["records"];
      added.file.file_size_in_bytes = item["bytes"];
      if (item.contains("sequence-number")) added.data_sequence_number = item["sequence-number"];
      files.push_back(std::move(added));
    }
  }
  return change;
}

arrow::Result<std::unique_ptr<TableStore>> Open(const Json& request, bool create) {
  auto io = std::make_shared<FileIO>();
  if (request.contains("location")) {
    return create ? NewHadoopTable(io, request["location"])
                  : OpenHadoopTable(io, request["location"]);
  }
  const std::map<std::string, std::string> properties = request["catalog"];
  const TableIdentifier table{request["namespace"], request["table"]};
  return OpenSqlTable(io, properties.at("name"), properties, table, create);
}

TEST(CommitInterop, Request) {
  const char* folder = std::getenv("THALWEG_INTEROP_DIR");
  if (folder == nullptr) GTEST_SKIP() << "THALWEG_INTEROP_DIR is not set";
  ASSERT_OK_AND_ASSIGN(auto text, FileIO().ReadAll(std::string(folder) + "/request.json"));
  ASSERT_OK_AND_ASSIGN(const Json request, ParseJson(text, "request.json"));
  const bool create = request.contains("schema");
  ASSERT_OK_AND_ASSIGN(auto store, Open(request, create));
  if (create) {
    ASSERT_OK_AND_ASSIGN(auto schema, Schema::FromJson(request["schema"]));
    std::string location = request.value("location", "");
    if (location.empty()) {
      const std::map<std::string, std::string> properties = request["catalog"];
      ASSERT_OK_AND_ASSIGN(location, NewSqlTableLocation(properties.at("name"), properties,
                                                         {request["namespace"], request["table"]}));
    }
    ASSERT_OK_AND_ASSIGN(
        auto metadata,
        TableMetadata::Create(schema, location,
                              request.value("properties", std::map<std::string, std::string>())));
    ASSERT_OK(store->CreateTable(metadata).status());
  }
  for (const Json& commit : request["commits"]) {
    ASSERT_OK(CommitSnapshot(*store, ChangeFromJson(commit)).status());
  }
  const auto properties = request.value("set-properties", std::map<std::string, std::string>());
  ASSERT_OK(CommitProperties(*store, [&](TableMetadata* metadata) -> arrow::Result<bool> {
              metadata->SetProperties(properties);
              return !properties.empty();
            }).status());
}

}  // namespace
}  // namespace thalweg::iceberg
