#include "iceberg/name_mapping.h"

#include <gmock/gmock.h>
#include <parquet/arrow/writer.h>

#include "iceberg/parquet_test_util.h"

namespace thalweg::iceberg {
namespace {

using ::testing::HasSubstr;

// The example of the format's specification, with a list of its own.
constexpr char kMapping[] = R"([
  {"field-id": 1, "names": ["id", "record_id"]},
  {"field-id": 2, "names": ["data"]},
  {"field-id": 3, "names": ["location"], "fields": [
     {"field-id": 4, "names": ["latitude", "lat"]}, {"field-id": 5, "names": ["longitude", "long"]}]},
  {"field-id": 6, "names": ["tags"], "fields": [{"field-id": 7, "names": ["element"]}]},
  {"field-id": 8, "names": ["counts"], "fields": [
     {"field-id": 9, "names": ["key"]}, {"field-id": 10, "names": ["value"]}]},
  {"names": ["ignored"]}
])";

constexpr char kSchema[] = R"([
  {"id": 3, "name": "place", "required": false, "type": {"type": "struct", "fields": [
     {"id": 5, "name": "x", "required": false, "type": "double"},
     {"id": 4, "name": "y", "required": false, "type": "double"}]}},
  {"id": 1, "name": "id", "required": false, "type": "long"},
  {"id": 11, "name": "Data", "required": false, "type": "string"},
  {"id": 6, "name": "tags", "required": false, "type": {"type": "list", "element-id": 7,
     "element": "string", "element-required": false}},
  {"id": 8, "name": "counts", "required": false, "type": {"type": "map", "key-id": 9,
     "key": "string", "value-id": 10, "value": "long", "value-required": false}}
])";

class NameMappingTest : public ParquetTest {
 protected:
  DataFile Write(const std::shared_ptr<arrow::Schema>& schema, const std::string& rows,
                 const std::string& name) {
    auto structs = *arrow::json::ArrayFromJSONString(arrow::struct_(schema->fields()), rows);
    auto batch = *arrow::RecordBatch::FromStructArray(structs);
    auto table =
        *arrow::Table::FromRecordBatches(schema, {batch->ReplaceSchema(schema).ValueOrDie()});
    auto sink = *io_->Create(Path(name));
    EXPECT_TRUE(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), sink).ok());
    EXPECT_TRUE(sink->Close().ok());
    DataFile file;
    file.file_path = Path(name);
    file.record_count = table->num_rows();
    return file;
  }

  static ScanOptions With(const std::string& mapping) {
    ScanOptions options;
    auto parsed = NameMapping::FromProperties({{"schema.name-mapping.default", mapping}});
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    options.name_mapping = *parsed;
    return options;
  }

  void ExpectRows(const DataFile& file, const std::string& mapping, const std::string& expected) {
    const Schema schema = SchemaOf(kSchema);
    ASSERT_OK_AND_ASSIGN(auto table, ReadFiles(schema, {file}, {}, With(mapping)));
    ASSERT_OK_AND_ASSIGN(auto batch, table->CombineChunksToBatch());
    EXPECT_TRUE(batch->Equals(*BatchOf(schema, expected))) << batch->ToString();
  }
};

std::shared_ptr<arrow::Field> WithId(const std::shared_ptr<arrow::Field>& field, int id) {
  return field->WithMetadata(arrow::key_value_metadata({"PARQUET:field_id"}, {std::to_string(id)}));
}

TEST_F(NameMappingTest, FilesWithoutIds) {
  auto point =
      arrow::struct_({arrow::field("lat", arrow::float64()), arrow::field("LONG", arrow::float64()),
                      arrow::field("long", arrow::float32())});
  auto schema = arrow::schema(
      {arrow::field("ignored", arrow::int64()), arrow::field("record_id", arrow::int32()),
       arrow::field("location", point), arrow::field("Data", arrow::utf8()),
       arrow::field("tags", arrow::list(arrow::field("array_element", arrow::utf8()))),
       arrow::field("counts", arrow::map(arrow::utf8(), arrow::int32()))});
  const DataFile file = Write(schema, R"([[9, 1, [1.5, 0.0, 2.5], "x", ["a", null], [["k", 5]]],
                        [9, null, null, "y", null, null]])",
                              "plain");
  // "Data" and "LONG" are not "data" and "long"; field 11 is not mapped.
  ExpectRows(file, kMapping, R"([[[2.5, 1.5], 1, null, ["a", null], [["k", 5]]],
                                 [null, null, null, null, null]])");
  const Schema table = SchemaOf(kSchema);
  EXPECT_THAT(ReadFiles(table, {file}).status().message(),
              HasSubstr("its columns have no field ids, and the table has no name mapping"));
  // A list whose elements have no id cannot be read.
  const std::string without =
      R"([{"field-id": 6, "names": ["tags"]}, {"field-id": 1, "names": ["record_id"]}])";
  EXPECT_THAT(ReadFiles(table, {file}, {}, With(without)).status().message(),
              HasSubstr("column \"tags.element\" has no field id in the file"));
  // Two columns of one id.
  const std::string doubled = R"([{"field-id": 1, "names": ["record_id", "ignored"]}])";
  EXPECT_THAT(ReadFiles(table, {file}, {}, With(doubled)).status().message(),
              HasSubstr("field id 1, which stands at two columns"));
}

TEST_F(NameMappingTest, FilesWithIdsIgnoreIt) {
  // One id anywhere is enough.
  auto schema = arrow::schema(
      {arrow::field("id", arrow::int64()), WithId(arrow::field("data", arrow::int64()), 1)});
  ExpectRows(Write(schema, "[[1, 2]]", "some"), kMapping, "[[null, 2, null, null, null]]");
  auto nested = arrow::schema(
      {arrow::field("id", arrow::int64()),
       arrow::field("s", arrow::struct_({WithId(arrow::field("x", arrow::int64()), 99)}))});
  ExpectRows(Write(nested, "[[1, [2]]]", "nested"), kMapping, "[[null, null, null, null, null]]");
}

TEST_F(NameMappingTest, BadMappings) {
  for (const std::string bad :
       {"", "{}", "[1]", "[{}]", R"([{"names": "a"}])", R"([{"names": [1]}])",
        R"([{"field-id": -1, "names": ["a"]}])", R"([{"field-id": "1", "names": ["a"]}])",
        R"([{"field-id": 4294967296, "names": ["a"]}])", R"([{"names": ["a"], "fields": {}}])",
        R"([{"names": ["a", "a"]}])", R"([{"names": ["a"]}, {"names": ["b", "a"]}])"}) {
    auto parsed = NameMapping::FromProperties({{"schema.name-mapping.default", bad}});
    ASSERT_FALSE(parsed.ok()) << bad;
    EXPECT_THAT(parsed.status().message(), HasSubstr("schema.name-mapping.default"));
  }
  ASSERT_OK_AND_ASSIGN(auto none, NameMapping::FromProperties({}));
  EXPECT_EQ(none, nullptr);
}

}  // namespace
}  // namespace thalweg::iceberg
