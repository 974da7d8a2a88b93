#include "iceberg/metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>

#include "iceberg/metadata_file.h"
#include "iceberg/test_util.h"
#include "util/uuid.h"

namespace thalweg::iceberg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

// Keys in an unusual order, unknown ones at every level, those of format version 3, numbers beyond
// double's 53 bits.
const char kExotic[] =
    R"({"zeta":{"b":1,"a":[null,true,"é\u0001"]},"format-version":2,"table-uuid":"u-1","location":"file:///t",)"
    R"("last-sequence-number":7,"last-updated-ms":4000000000000,"last-column-id":2,"next-row-id":9007199254740993,)"
    R"("encryption-keys":[{"key-id":"k","x":1.5}],"current-schema-id":1,"schemas":[)"
    R"({"type":"struct","schema-id":0,"fields":[{"id":1,"name":"a","required":true,"type":"long","unknown":{}}]},)"
    R"({"schema-id":1,"type":"struct","identifier-field-ids":[1],"fields":[{"id":1,"name":"a","required":true,"type":"long"},)"
    R"({"id":2,"name":"b","required":false,"type":"variant","initial-default":null}]}],)"
    R"("default-spec-id":3,"partition-specs":[{"spec-id":3,"fields":[{"name":"p","transform":"void","source-id":1,"field-id":1000}]},)"
    R"({"spec-id":4,"fields":[{"name":"p","transform":"day","source-id":1,"field-id":1000}]}],"last-partition-id":1000,)"
    R"("default-sort-order-id":0,"sort-orders":[{"order-id":0,"fields":[]}],"properties":{"k":"v","n":"12"},)"
    R"("current-snapshot-id":9223372036854775807,"refs":{"main":{"snapshot-id":9223372036854775807,"type":"branch",)"
    R"("max-ref-age-ms":5},"t":{"snapshot-id":11,"type":"tag"}},"snapshots":[{"snapshot-id":11,"sequence-number":1,)"
    R"("timestamp-ms":10,"summary":{"operation":"append","x":"y"},"manifest-list":"m1","schema-id":0,"first-row-id":0,"added-rows":5},)"
    R"({"snapshot-id":9223372036854775807,"parent-snapshot-id":11,"sequence-number":7,"timestamp-ms":20,)"
    R"("summary":{"operation":"delete"},"manifest-list":"m2","key-id":"k"}],"statistics":[{"snapshot-id":11,)"
    R"("statistics-path":"s","file-size-in-bytes":10,"file-footer-size-in-bytes":5,"key-metadata":"zz","blob-metadata":[{"type":"theta"}]}],)"
    R"("partition-statistics":[{"u":1}],"snapshot-log":[{"timestamp-ms":10,"snapshot-id":11}],)"
    R"("metadata-log":[{"timestamp-ms":5,"metadata-file":"v0"}],"last":{}})";

TableMetadata Exotic() {
  auto metadata = TableMetadata::Parse(kExotic, "here");
  EXPECT_TRUE(metadata.ok()) << metadata.status().ToString();
  return *metadata;
}

TEST(TableMetadataTest, RoundTripIsVerbatim) {
  // The text has the escapes that a writer would choose, except \u0001 and é, which stay too.
  EXPECT_EQ(Exotic().ToText(), kExotic);
}

TEST(TableMetadataTest, Accessors) {
  const auto metadata = Exotic();
  EXPECT_EQ(metadata.format_version(), 2);
  EXPECT_EQ(metadata.table_uuid(), "u-1");
  EXPECT_EQ(metadata.location(), "file:///t");
  EXPECT_EQ(metadata.last_sequence_number(), 7);
  EXPECT_EQ(metadata.current_schema_id(), 1);
  EXPECT_EQ(metadata.default_spec_id(), 3);
  EXPECT_EQ(metadata.current_snapshot_id(), INT64_MAX);
  ASSERT_OK_AND_ASSIGN(auto schema, metadata.CurrentSchema());
  EXPECT_EQ(schema.schema_id, 1);
  ASSERT_OK_AND_ASSIGN(auto schemas, metadata.Schemas());
  EXPECT_EQ(schemas.size(), 2u);
  EXPECT_FALSE(metadata.SchemaById(5).ok());
  EXPECT_THAT(metadata.CurrentSchemaText(),
              HasSubstr(R"({"schema-id":1,"type":"struct","identifier)"));
  ASSERT_OK_AND_ASSIGN(auto specs, metadata.PartitionSpecs());
  ASSERT_EQ(specs.size(), 2u);
  EXPECT_TRUE(specs[0].unpartitioned());
  EXPECT_FALSE(specs[1].unpartitioned());
  EXPECT_THAT(metadata.properties(), ElementsAre(Pair("k", "v"), Pair("n", "12")));
  EXPECT_EQ(metadata.property("k", "x"), "v");
  EXPECT_EQ(metadata.property("none", "x"), "x");
  ASSERT_OK_AND_ASSIGN(int64_t n, metadata.IntProperty("n", 3));
  EXPECT_EQ(n, 12);
  EXPECT_THAT(metadata.IntProperty("k", 3).status().message(), HasSubstr("k: \"v\""));
  EXPECT_FALSE(metadata.BoolProperty("k", true).ok());
  ASSERT_OK_AND_ASSIGN(auto snapshots, metadata.Snapshots());
  ASSERT_EQ(snapshots.size(), 2u);
  EXPECT_EQ(snapshots[0].parent_snapshot_id, std::nullopt);
  EXPECT_EQ(snapshots[1].parent_snapshot_id, 11);
  EXPECT_EQ(snapshots[1].operation(), "delete");
  EXPECT_EQ(snapshots[0].schema_id, 0);
  EXPECT_EQ(snapshots[1].schema_id, std::nullopt);
  ASSERT_OK_AND_ASSIGN(auto missing, metadata.FindSnapshot(12));
  EXPECT_FALSE(missing);
  ASSERT_OK_AND_ASSIGN(auto refs, metadata.Refs());
  EXPECT_THAT(refs, ElementsAre(Pair("main", INT64_MAX), Pair("t", 11)));
  ASSERT_OK_AND_ASSIGN(auto statistics, metadata.Statistics());
  ASSERT_EQ(statistics.size(), 1u);
  EXPECT_EQ(statistics[0].blob_metadata[0]["type"], "theta");
}

TEST(TableMetadataTest, OptionalKeysMayBeAbsent) {
  ASSERT_OK_AND_ASSIGN(
      auto metadata, TableMetadata::Parse(
                         R"({"format-version":1,"location":"/t","schema":{"type":"struct","fields":[
        {"id":1,"name":"a","required":false,"type":"int"}]},"current-snapshot-id":-1,"refs":null})",
                         "here"));
  EXPECT_EQ(metadata.current_snapshot_id(), std::nullopt);
  EXPECT_EQ(metadata.table_uuid(), "");
  EXPECT_EQ(metadata.last_sequence_number(), 0);
  ASSERT_OK_AND_ASSIGN(auto schema, metadata.CurrentSchema());
  EXPECT_EQ(schema.fields.size(), 1u);
  ASSERT_OK_AND_ASSIGN(auto specs, metadata.PartitionSpecs());
  ASSERT_EQ(specs.size(), 1u);
  EXPECT_TRUE(specs[0].unpartitioned());
  ASSERT_OK_AND_ASSIGN(auto snapshots, metadata.Snapshots());
  EXPECT_TRUE(snapshots.empty());
  ASSERT_OK_AND_ASSIGN(auto refs, metadata.Refs());
  EXPECT_TRUE(refs.empty());
  ASSERT_OK_AND_ASSIGN(auto statistics, metadata.Statistics());
  EXPECT_TRUE(statistics.empty());
  EXPECT_TRUE(metadata.properties().empty());
  metadata.AddSnapshot({.snapshot_id = 5,
                        .parent_snapshot_id = {},
                        .sequence_number = 0,
                        .timestamp_ms = 1,
                        .manifest_list = "m",
                        .summary = {},
                        .schema_id = {}});
  EXPECT_EQ(metadata.current_snapshot_id(), 5);
}

TEST(TableMetadataTest, RefusesWhatIsNotMetadata) {
  const std::string good(kExotic);
  auto without = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "not valid JSON"},
      {"[]", "no JSON object"},
      {"{}", "format-version"},
      {without("\"format-version\":2", "\"format-version\":5"), "format version 5"},
      {without("\"format-version\":2", "\"format-version\":\"2\""), "format-version"},
      {without("\"location\":\"file:///t\"", "\"location\":3"), "location"},
      {without("\"table-uuid\":\"u-1\",", ""), "table-uuid"},
      {without("\"last-sequence-number\":7", "\"last-sequence-number\":18446744073709551615"),
       "last-sequence-number"},
      {without("\"current-schema-id\":1", "\"current-schema-id\":4294967296"), "current-schema-id"},
      {without("\"schemas\":[", "\"schemas\":3,\"x\":["), "schemas"},
      {without("\"snapshots\":[", "\"snapshots\":[17,"), "expected an object"},
      {without("\"refs\":{", "\"refs\":[],\"x\":{"), "refs"},
      {without("\"refs\":{", "\"refs\":{\"b\":{},"), "snapshot-id"},
      {without("\"properties\":{", "\"properties\":\"\",\"x\":{"), "properties"},
      {without("\"current-snapshot-id\":9223372036854775807", "\"current-snapshot-id\":3"),
       "current snapshot 3"},
      {without("\"timestamp-ms\":20,", ""), "timestamp-ms"},
  };
  for (const auto& [text, reason] : cases) {
    auto status = TableMetadata::Parse(text, "s/v7.metadata.json").status();
    EXPECT_THAT(status.message(), HasSubstr("s/v7.metadata.json")) << text;
    EXPECT_THAT(status.message(), HasSubstr(reason)) << text;
    EXPECT_THAT(status.message(), Not(HasSubstr("\n")));
  }
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(TableMetadata::Parse(good.substr(0, length), "x").ok());
  }
}

TEST(TableMetadataTest, ReplacingAnyValueNeverCrashes) {
  const Json document = Json::parse(kExotic);
  const Json flat = document.flatten();
  int accepted = 0;
  for (const auto& [pointer, unused] : flat.items()) {
    for (const Json& value : {Json(nullptr), Json(-1), Json(UINT64_MAX), Json("x"), Json::array(),
                              Json::object({{"a", 1}})}) {
      Json changed = document;
      changed[Json::json_pointer(pointer)] = value;
      auto metadata = TableMetadata::Parse(changed.dump(), "x");
      if (!metadata.ok()) continue;
      ++accepted;
      (void)metadata->CurrentSchema();
      (void)metadata->PartitionSpecs();
      (void)metadata->properties();
      (void)metadata->Statistics();
      (void)metadata->Refs();
      metadata->SetProperties({{"a", "b"}});
      metadata->RemoveProperties({"a"});
      metadata->AppendMetadataLog("l", 1);
      metadata->SetStatistics({11, "p", 1, 1, Json::array()});
      metadata->AddSnapshot({.snapshot_id = 5,
                             .parent_snapshot_id = {},
                             .sequence_number = 8,
                             .timestamp_ms = 1,
                             .manifest_list = "m",
                             .summary = {},
                             .schema_id = {}});
      EXPECT_EQ(metadata->current_snapshot_id(), 5);
    }
  }
  EXPECT_GT(accepted, 100);
}

TEST(TableMetadataTest, AddsSnapshots) {
  auto metadata = Exotic();
  metadata.AddSnapshot({.snapshot_id = 77,
                        .parent_snapshot_id = INT64_MAX,
                        .sequence_number = 8,
                        .timestamp_ms = 30,
                        .manifest_list = "m3",
                        .summary = {{"a", "1"}, {"operation", "append"}},
                        .schema_id = 1});
  const Json& json = metadata.json();
  EXPECT_EQ(json["snapshots"].size(), 3u);
  EXPECT_EQ(
      json["snapshots"][2].dump(),
      R"({"snapshot-id":77,"parent-snapshot-id":9223372036854775807,"sequence-number":8,)"
      R"("timestamp-ms":30,"summary":{"operation":"append","a":"1"},"manifest-list":"m3","schema-id":1})");
  EXPECT_EQ(json["snapshots"][0].dump(), Json::parse(kExotic)["snapshots"][0].dump());
  EXPECT_EQ(json["current-snapshot-id"], 77);
  EXPECT_EQ(
      json["refs"].dump(),
      R"({"main":{"snapshot-id":77,"type":"branch","max-ref-age-ms":5},"t":{"snapshot-id":11,"type":"tag"}})");
  EXPECT_EQ(json["last-sequence-number"], 8);
  EXPECT_EQ(json["snapshot-log"][1].dump(), R"({"timestamp-ms":30,"snapshot-id":77})");
  // The clock of whoever wrote before was ahead.
  EXPECT_EQ(json["last-updated-ms"], 4000000000000);
}

TEST(TableMetadataTest, SetsPropertiesAndStatistics) {
  auto metadata = Exotic();
  metadata.SetProperties({{"k", "w"}, {"new", "1"}});
  metadata.RemoveProperties({"n", "none"});
  EXPECT_EQ(metadata.json()["properties"].dump(), R"({"k":"w","new":"1"})");
  metadata.SetStatistics({11, "other", 20, 6, Json::array()});
  metadata.SetStatistics({12, "third", 21, 7, Json::array()});
  EXPECT_EQ(
      metadata.json()["statistics"].dump(),
      R"([{"snapshot-id":11,"statistics-path":"other","file-size-in-bytes":20,"file-footer-size-in-bytes":6,"blob-metadata":[]},)"
      R"({"snapshot-id":12,"statistics-path":"third","file-size-in-bytes":21,"file-footer-size-in-bytes":7,"blob-metadata":[]}])");
}

TEST(TableMetadataTest, MetadataLogIsBounded) {
  auto metadata = Exotic();
  metadata.SetProperties({{"write.metadata.previous-versions-max", "3"}});
  EXPECT_THAT(metadata.AppendMetadataLog("v1", 6), ElementsAre());
  EXPECT_THAT(metadata.AppendMetadataLog("v2", 7), ElementsAre());
  EXPECT_THAT(metadata.AppendMetadataLog("v3", 8), ElementsAre("v0"));
  metadata.SetProperties({{"write.metadata.previous-versions-max", "1"}});
  EXPECT_THAT(metadata.AppendMetadataLog("v4", 9), ElementsAre("v1", "v2", "v3"));
  EXPECT_EQ(metadata.json()["metadata-log"].dump(), R"([{"timestamp-ms":9,"metadata-file":"v4"}])");
}

TEST(TableMetadataTest, CreatesTables) {
  const int64_t before = NowMillis();
  ASSERT_OK_AND_ASSIGN(auto metadata, TableMetadata::Create(OneColumn(), "/t", {{"p", "q"}}));
  ASSERT_OK_AND_ASSIGN(auto read, TableMetadata::Parse(metadata.ToText(), "x"));
  EXPECT_EQ(read.format_version(), 2);
  EXPECT_EQ(read.table_uuid().size(), 36u);
  EXPECT_GE(read.last_updated_ms(), before);
  EXPECT_EQ(read.json()["partition-specs"].dump(), R"([{"spec-id":0,"fields":[]}])");
  EXPECT_EQ(read.json()["sort-orders"].dump(), R"([{"order-id":0,"fields":[]}])");
  EXPECT_EQ(read.json()["last-column-id"], 1);
  EXPECT_EQ(read.json()["last-partition-id"], 999);
  EXPECT_EQ(read.property("p", ""), "q");
  EXPECT_EQ(read.current_snapshot_id(), std::nullopt);
}

std::string GzipOf(const std::string& text) {  // by zlib's file interface
  TempFolder folder;
  gzFile file = gzopen((folder / "x").c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
  std::ifstream stream(folder / "x", std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(stream), {});
}

TEST(MetadataFileTest, GzipIsReadByItsMagicAndWrittenByName) {
  TempFolder folder;
  FileIO io;
  ASSERT_OK(io.WriteNew(folder / "v1.metadata.json", GzipOf(kExotic)));
  ASSERT_OK_AND_ASSIGN(auto table, ReadMetadataFile(io, folder / "v1.metadata.json"));
  EXPECT_EQ(table.metadata.ToText(), kExotic);
  EXPECT_EQ(table.metadata_location, folder / "v1.metadata.json");

  ASSERT_OK_AND_ASSIGN(std::string suffix, MetadataFileSuffix(table.metadata));
  EXPECT_EQ(suffix, ".metadata.json");
  table.metadata.SetProperties({{"write.metadata.compression-codec", "GZIP"}});
  ASSERT_OK_AND_ASSIGN(suffix, MetadataFileSuffix(table.metadata));
  EXPECT_EQ(suffix, ".gz.metadata.json");
  ASSERT_OK(WriteMetadataFile(io, folder / "v2.gz.metadata.json", table.metadata));
  gzFile file = gzopen((folder / "v2.gz.metadata.json").c_str(), "rb");
  std::string text(100000, '\0');
  text.resize(static_cast<size_t>(gzread(file, text.data(), 100000)));
  EXPECT_EQ(gzdirect(file), 0);
  gzclose(file);
  EXPECT_EQ(text, table.metadata.ToText());
  table.metadata.SetProperties({{"write.metadata.compression-codec", "lz4"}});
  EXPECT_THAT(MetadataFileSuffix(table.metadata).status().message(), HasSubstr("lz4"));

  const std::string whole = GzipOf(kExotic);
  ASSERT_OK(io.WriteNew(folder / "cut", whole.substr(0, whole.size() / 2)));
  auto status = ReadMetadataFile(io, folder / "cut").status();
  EXPECT_THAT(status.message(), HasSubstr(folder / "cut: truncated or corrupt gzip"));
}

TEST(MetadataFileTest, VersionsOfNames) {
  const std::string uuid = NewUuid();
  EXPECT_EQ(CatalogFileVersion("00012-" + uuid + ".metadata.json"), 12);
  EXPECT_EQ(CatalogFileVersion("123456-" + uuid + ".gz.metadata.json"), 123456);
  EXPECT_EQ(CatalogFileVersion("v3.metadata.json"), std::nullopt);
  EXPECT_EQ(CatalogFileVersion("-" + uuid + ".metadata.json"), std::nullopt);
  EXPECT_EQ(CatalogFileVersion("00001-short.metadata.json"), std::nullopt);
  EXPECT_EQ(CatalogFileVersion("99999999999999999999-" + uuid + ".metadata.json"), std::nullopt);
  EXPECT_EQ(HadoopFileVersion("v3.metadata.json"), 3);
  EXPECT_EQ(HadoopFileVersion("v30.gz.metadata.json"), 30);
  EXPECT_EQ(HadoopFileVersion("v30.metadata.json.gz"), 30);
  EXPECT_EQ(HadoopFileVersion("v.metadata.json"), std::nullopt);
  EXPECT_EQ(HadoopFileVersion("v3.metadata.json.tmp"), std::nullopt);
  EXPECT_EQ(HadoopFileVersion(uuid + ".metadata.json"), std::nullopt);
}

}  // namespace
}  // namespace thalweg::iceberg
