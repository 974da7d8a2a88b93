#include "iceberg/projection.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/writer.h>
#include <parquet/file_reader.h>

#include <array>
#include <random>
#include <set>

#include "iceberg/parquet_test_util.h"

namespace thalweg::iceberg {
namespace {

using ::testing::HasSubstr;

std::string Fields(const std::string& inner) { return "[" + inner + "]"; }

std::string Leaf(int id, const std::string& name, const std::string& type,
                 const std::string& more = "") {
  return fmt::format(R"({{"id": {}, "name": "{}", "required": false, "type": "{}"{}}})", id, name,
                     type, more);
}

std::string Struct(int id, const std::string& name, const std::string& fields) {
  return fmt::format(
      R"({{"id": {}, "name": "{}", "required": false, "type": {{"type": "struct", "fields": [{}]}}}})",
      id, name, fields);
}

std::string ListOf(int id, const std::string& name, int element_id, const std::string& element) {
  return fmt::format(
      R"({{"id": {}, "name": "{}", "required": false, "type": {{"type": "list", "element-id": {},
          "element": {}, "element-required": false}}}})",
      id, name, element_id, element);
}

std::string MapOf(int id, const std::string& name, int key_id, const std::string& key, int value_id,
                  const std::string& value) {
  return fmt::format(
      R"({{"id": {}, "name": "{}", "required": false, "type": {{"type": "map", "key-id": {},
          "key": {}, "value-id": {}, "value": {}, "value-required": false}}}})",
      id, name, key_id, key, value_id, value);
}

std::string StructType(const std::string& fields) {
  return R"({"type": "struct", "fields": [)" + fields + "]}";
}

class ProjectionTest : public ParquetTest {
 protected:
  /// Rows of a file of the schema `before`.
  DataFile FileOf(const std::string& before, const std::string& rows) {
    const Schema schema = SchemaOf(before);
    auto file = WriteFile(schema, Path(fmt::format("file-{}", ++files_)), {BatchOf(schema, rows)});
    EXPECT_TRUE(file.ok()) << file.status();
    return *file;
  }

  void ExpectRows(const std::string& before, const std::string& rows, const std::string& after,
                  const std::string& expected, const ScanOptions& options = {}) {
    const Schema schema = SchemaOf(after);
    const DataFile file = FileOf(before, rows);
    ASSERT_OK_AND_ASSIGN(auto table, ReadFiles(schema, {file}, {}, options));
    ASSERT_OK_AND_ASSIGN(auto batch, table->CombineChunksToBatch());
    const auto wanted = BatchOf(schema, expected);
    EXPECT_TRUE(batch->schema()->Equals(*wanted->schema(), /*check_metadata=*/true));
    EXPECT_TRUE(batch->Equals(*wanted)) << batch->ToString() << "\ninstead of\n"
                                        << wanted->ToString();
    // Each column alone, and the columns backwards, are the same ones.
    std::vector<int> backwards;
    for (int i = batch->num_columns() - 1; i >= 0; --i) {
      backwards.push_back(i);
      ASSERT_OK_AND_ASSIGN(auto one, ReadFiles(schema, {file}, {i}, options));
      ASSERT_OK_AND_ASSIGN(auto column, one->CombineChunksToBatch());
      EXPECT_TRUE(column->column(0)->Equals(wanted->column(i))) << column->ToString();
    }
    ASSERT_OK_AND_ASSIGN(auto turned, ReadFiles(schema, {file}, backwards, options));
    ASSERT_OK_AND_ASSIGN(auto turned_batch, turned->CombineChunksToBatch());
    for (int i = 0; i < batch->num_columns(); ++i) {
      EXPECT_TRUE(turned_batch->column(batch->num_columns() - 1 - i)->Equals(batch->column(i)));
    }
  }

  std::string Refusal(const std::string& before, const std::string& after,
                      const std::string& rows = "[]") {
    const DataFile file = FileOf(before, rows);
    auto source = ScanParquetFiles(io_, SchemaOf(after), {file}, nullptr);
    EXPECT_FALSE(source.ok()) << after;
    if (source.ok()) return "";
    const std::string message = source.status().message();
    EXPECT_THAT(message, HasSubstr(file.file_path));
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  }

  int files_ = 0;
};

TEST_F(ProjectionTest, AddedDroppedRenamedAndReordered) {
  ExpectRows(
      Fields(Leaf(1, "a", "long") + "," + Leaf(2, "b", "string") + "," + Leaf(3, "c", "double")),
      R"([[1, "x", 0.5], [null, null, null], [3, "z", -1.5]])",
      // b dropped and created anew; c renamed to a; a to A.
      Fields(Leaf(3, "a", "double") + "," + Leaf(4, "b", "string") + "," + Leaf(1, "A", "long")),
      R"([[0.5, null, 1], [null, null, null], [-1.5, null, 3]])");
}

TEST_F(ProjectionTest, NothingOfTheFileIsLeft) {
  ExpectRows(Fields(Leaf(1, "a", "long")), "[[1], [2], [3]]", Fields(Leaf(2, "a", "long")),
             "[[null], [null], [null]]");
}

TEST_F(ProjectionTest, NestedFields) {
  const std::string before =
      Fields(Struct(1, "s", Leaf(2, "x", "int") + "," + Leaf(3, "y", "string")) + "," +
             ListOf(4, "l", 5, StructType(Leaf(6, "p", "int") + "," + Leaf(7, "q", "float"))) +
             "," + MapOf(8, "m", 9, "\"string\"", 10, StructType(Leaf(11, "v", "int"))));
  const std::string rows = R"([[[1, "a"], [[1, 0.5], null, [2, 1.5]], [["k", [7]], ["n", null]]],
                               [null, null, null],
                               [[null, "c"], [], []]])";
  // Fields within are dropped, added, promoted, renamed and moved.
  const std::string after = Fields(
      MapOf(8, "m", 9, "\"string\"", 10,
            StructType(Leaf(12, "w", "date") + "," + Leaf(11, "u", "long"))) +
      "," +
      Struct(1, "s2",
             Leaf(13, "x", "string") + "," + Leaf(3, "y", "string") + "," + Leaf(2, "z", "long")) +
      "," + ListOf(4, "l", 5, StructType(Leaf(7, "q", "double") + "," + Leaf(14, "p", "int"))));
  ExpectRows(before, rows, after, R"([
      [[["k", [null, 7]], ["n", null]], [null, "a", 1], [[0.5, null], null, [1.5, null]]],
      [null, null, null],
      [[], [null, "c", null], []]])");
}

TEST_F(ProjectionTest, GroupsOfWhichNothingIsLeftStayNullWhereTheyWere) {
  ExpectRows(Fields(Struct(1, "s", ListOf(2, "l", 3, "\"int\"") + "," + Leaf(4, "x", "int")) + "," +
                    ListOf(5, "e", 6, StructType(ListOf(7, "i", 8, "\"long\"")))),
             R"([[[[1, 2], null], [[[1, 2]], null, [null], [[]]]], [null, []], [[[], 1], null]])",
             Fields(Struct(1, "s", Leaf(9, "n", "string")) + "," +
                    ListOf(5, "e", 6, StructType(Leaf(10, "m", "boolean")))),
             R"([[[null], [[null], null, [null], [null]]], [null, []], [[null], null]])");
}

TEST_F(ProjectionTest, Promotions) {
  ExpectRows(
      Fields(Leaf(1, "i", "int") + "," + Leaf(2, "f", "float") + "," +
             Leaf(3, "d", "decimal(5, 2)") + "," + Leaf(4, "e", "decimal(18, 0)") + "," +
             Leaf(5, "t", "date") + "," + Leaf(6, "u", "date")),
      R"([[-2147483648, 0.1, "-123.45", "999999999999999999", -719162, 106751],
          [2147483647, -0.0, "0.01", "-1", 0, -1], [null, null, null, null, null, null]])",
      Fields(Leaf(1, "i", "long") + "," + Leaf(2, "f", "double") + "," +
             Leaf(3, "d", "decimal(20, 2)") + "," + Leaf(4, "e", "decimal(38, 0)") + "," +
             Leaf(5, "t", "timestamp") + "," + Leaf(6, "u", "timestamp_ns")),
      // 0.1f as a double; days times 86,400 seconds.
      R"([[-2147483648, 0.10000000149011612, "-123.45", "999999999999999999", -62135596800000000,
           9223286400000000000],
          [2147483647, -0.0, "0.01", "-1", 0, -86400000000000],
          [null, null, null, null, null, null]])");
  // A day that the promoted type does not reach.
  const DataFile far = FileOf(Fields(Leaf(1, "t", "date")), "[[106752]]");
  EXPECT_THAT(ReadFiles(SchemaOf(Fields(Leaf(1, "t", "timestamp_ns"))), {far}).status().message(),
              HasSubstr("column \"t\""));
}

TEST_F(ProjectionTest, OtherTypesAreRefused) {
  const std::vector<std::array<std::string, 2>> pairs = {{"long", "int"},
                                                         {"double", "float"},
                                                         {"int", "double"},
                                                         {"int", "float"},
                                                         {"decimal(9, 2)", "decimal(9, 3)"},
                                                         {"decimal(9, 2)", "decimal(8, 2)"},
                                                         {"decimal(19, 2)", "decimal(18, 2)"},
                                                         {"date", "timestamptz"},
                                                         {"timestamp", "timestamp_ns"},
                                                         {"timestamp_ns", "timestamp"},
                                                         {"timestamp", "timestamptz"},
                                                         {"string", "binary"},
                                                         {"binary", "string"},
                                                         {"long", "timestamp"},
                                                         {"timestamp", "long"},
                                                         {"int", "date"},
                                                         {"date", "int"},
                                                         {"int", "decimal(10, 0)"},
                                                         {"decimal(9, 0)", "int"},
                                                         {"fixed[4]", "fixed[5]"},
                                                         {"uuid", "fixed[15]"},
                                                         {"boolean", "int"},
                                                         {"date", "long"},
                                                         {"time", "long"},
                                                         {"string", "variant"},
                                                         {"long", "geometry"},
                                                         {"string", "unknown"}};
  for (const auto& [before, after] : pairs) {
    const std::string message = Refusal(Fields(Leaf(1, "c", before)), Fields(Leaf(1, "c", after)));
    EXPECT_THAT(message, HasSubstr("column \"c\" is ")) << before << " " << after;
    EXPECT_THAT(message, HasSubstr(after + " in the table's schema"));
    EXPECT_THAT(Refusal(Fields(ListOf(1, "l", 2, StructType(Leaf(3, "c", before)))),
                        Fields(ListOf(1, "l", 2, StructType(Leaf(3, "c", after))))),
                HasSubstr("column \"l.element.c\" is "));
  }
  const std::string leaf = Leaf(1, "c", "long");
  const std::string group = Struct(1, "c", Leaf(2, "x", "long"));
  const std::string list = ListOf(1, "c", 2, "\"long\"");
  const std::string map = MapOf(1, "c", 2, "\"long\"", 3, "\"long\"");
  for (const auto& before : {leaf, group, list, map}) {
    for (const auto& after : {leaf, group, list, map}) {
      if (before == after) continue;
      EXPECT_THAT(Refusal(Fields(before), Fields(after)), HasSubstr("column \"c"));
    }
  }
  // Elements, keys and values cannot be exchanged.
  EXPECT_THAT(Refusal(Fields(list), Fields(ListOf(1, "c", 9, "\"long\""))),
              HasSubstr("column \"c.element\" has field id 2 in the file and field id 9"));
}

TEST_F(ProjectionTest, IdsAtOtherPlacesAreRefused) {
  const std::string nested = Fields(Struct(1, "s", Leaf(2, "x", "long")));
  EXPECT_THAT(Refusal(nested, Fields(Leaf(2, "x", "long"))),
              HasSubstr("column \"x\" (field id 2) stands at another place in the file"));
  EXPECT_THAT(Refusal(Fields(Leaf(2, "x", "long")), nested),
              HasSubstr("column \"s.x\" (field id 2) stands at another place in the file"));
}

TEST_F(ProjectionTest, RequiredFields) {
  auto required = [](int id, const std::string& type, const std::string& more = "") {
    return fmt::format(R"({{"id": {}, "name": "r{}", "required": true, "type": "{}"{}}})", id, id,
                       type, more);
  };
  const std::string a = Leaf(1, "a", "int");
  EXPECT_THAT(Refusal(Fields(a), Fields(a + "," + required(2, "long"))),
              HasSubstr("column \"r2\" (field id 2) is required, missing in the file"));
  EXPECT_THAT(
      Refusal(Fields(Struct(3, "s", a)), Fields(Struct(3, "s", a + "," + required(2, "int")))),
      HasSubstr("column \"s.r2\""));
  ExpectRows(Fields(a), "[[1], [null]]",
             Fields(a + "," + required(2, "long", R"(, "initial-default": 7)")),
             "[[1, 7], [null, 7]]");
  // A field of a struct that is itself missing need not be there.
  ExpectRows(Fields(a), "[[1]]", Fields(a + "," + Struct(3, "s", required(2, "long"))),
             "[[1, null]]");
  // NULLs where there must be none, at any level; those of a NULL struct are none.
  auto error = [&](const std::string& before, const std::string& rows, const std::string& after) {
    return ReadFiles(SchemaOf(after), {FileOf(before, rows)}).status().message();
  };
  EXPECT_THAT(error(Fields(Leaf(1, "a", "int")), "[[1], [null]]", Fields(required(1, "int"))),
              HasSubstr("column \"r1\" is required in the table's schema and has nulls"));
  const std::string optional_in = Fields(Struct(3, "s", Leaf(4, "r4", "int")));
  const std::string required_in = Fields(Struct(3, "s", required(4, "int")));
  EXPECT_THAT(error(optional_in, "[[[1]], [[null]], [null]]", required_in),
              HasSubstr("column \"s.r4\" is required"));
  ExpectRows(optional_in, "[[[1]], [null], [[2]]]", required_in, "[[[1]], [null], [[2]]]");
  EXPECT_THAT(error(Fields(ListOf(3, "l", 5, StructType(Leaf(4, "r4", "int")))),
                    "[[[[1], null]], [[]], [[[null]]]]",
                    Fields(ListOf(3, "l", 5, StructType(required(4, "int"))))),
              HasSubstr("column \"l.element.r4\" is required"));
}

TEST_F(ProjectionTest, InitialDefaults) {
  const std::string a = Leaf(1, "a", "int");
  auto with = [&](const std::string& type, const std::string& value) {
    return Fields(a + "," + Leaf(2, "d", type, ", \"initial-default\": " + value) + "," +
                  Struct(3, "s", Leaf(4, "e", type, ", \"initial-default\": " + value)));
  };
  // By the format's JSON single-value serialization; the values as numbers were computed with
  // Python's datetime.
  const std::vector<std::array<std::string, 3>> cases = {
      {"boolean", "true", "true"},
      {"int", "-5", "-5"},
      {"long", "9223372036854775807", "9223372036854775807"},
      {"float", "1.5", "1.5"},
      {"double", "-2", "-2.0"},
      {"decimal(9, 2)", "\"14.20\"", "\"14.20\""},
      {"decimal(9, 2)", "\"14.2\"", "\"14.20\""},
      {"date", "\"2017-11-16\"", "17486"},
      {"time", "\"22:31:08.123456\"", "81068123456"},
      {"timestamp", "\"2017-11-16T22:31:08.123456\"", "1510871468123456"},
      {"timestamptz", "\"2017-11-16T22:31:08.123456+00:00\"", "1510871468123456"},
      {"timestamptz", "\"2017-11-16T14:31:08.000001-08:00\"", "1510871468000001"},
      {"timestamp_ns", "\"2017-11-16T22:31:08.123456789\"", "1510871468123456789"},
      {"timestamptz_ns", "\"2017-11-16T22:31:08.123456789+00:00\"", "1510871468123456789"},
      {"string", "\"größe\"", "\"größe\""},
      {"uuid", "\"61626364-6566-6768-696a-6b6c6d6e6f70\"", "\"abcdefghijklmnop\""},
      {"fixed[3]", "\"414243\"", "\"ABC\""},
      {"binary", "\"5a\"", "\"Z\""},
  };
  for (const auto& [type, value, expected] : cases) {
    // The struct is missing as a whole: NULL, whatever its fields would be.
    ExpectRows(Fields(a), "[[1], [2]]", with(type, value),
               fmt::format("[[1, {0}, null], [2, {0}, null]]", expected));
    ExpectRows(Fields(a + "," + Struct(3, "s", Leaf(9, "x", "int"))), "[[1, [1]], [2, null]]",
               with(type, value), fmt::format("[[1, {0}, [{0}]], [2, {0}, null]]", expected));
  }
  // Where the file has the column the default plays no part.
  ExpectRows(Fields(a), "[[1], [null]]", Fields(Leaf(1, "a", "int", ", \"initial-default\": 3")),
             "[[1], [null]]");
  for (const auto& [type, value] :
       std::vector<std::array<std::string, 2>>{{"boolean", "1"},
                                               {"int", "2147483648"},
                                               {"int", "1.5"},
                                               {"int", "\"1\""},
                                               {"long", "9223372036854775808"},
                                               {"float", "1e+300"},
                                               {"double", "\"NaN\""},
                                               {"decimal(4, 2)", "\"123.45\""},
                                               {"decimal(9, 2)", "\"1.234\""},
                                               {"decimal(9, 2)", "\"x\""},
                                               {"date", "\"2017-13-01\""},
                                               {"date", "17486"},
                                               {"time", "\"25:00:00\""},
                                               {"timestamp", "\"2017-11-16T22:31:08+00:00\""},
                                               {"timestamptz", "\"2017-11-16T22:31:08\""},
                                               {"timestamp", "\"2017-11-16T22:31:08.123456789\""},
                                               {"timestamp_ns", "\"9999-11-16T22:31:08\""},
                                               {"string", "5"},
                                               {"uuid", "\"61626364\""},
                                               {"fixed[3]", "\"4142\""},
                                               {"binary", "\"5\""},
                                               {"binary", "\"zz\""},
                                               {"variant", "\"00\""},
                                               {"geometry", "\"POINT(1 1)\""},
                                               {"unknown", "1"}}) {
    EXPECT_THAT(Refusal(Fields(a), with(type, value)),
                HasSubstr("column \"d\": its initial default " + value))
        << type;
  }
}

TEST_F(ProjectionTest, NestedDefaults) {
  const std::string a = Leaf(1, "a", "int");
  auto with = [&](std::string field, const std::string& value) {
    field.insert(field.rfind('}'), ", \"initial-default\": " + value);
    return Fields(a + "," + field);
  };
  ExpectRows(
      Fields(a), "[[1]]",
      with(Struct(2, "s",
                  Leaf(3, "x", "int", ", \"initial-default\": 5") + "," + Leaf(4, "y", "string")),
           "{}"),
      "[[1, [5, null]]]");
  ExpectRows(Fields(a), "[[1]]",
             with(Struct(2, "s", Leaf(3, "x", "int") + "," + Leaf(4, "y", "string")),
                  R"({"4": "b", "3": 1})"),
             R"([[1, [1, "b"]]])");
  ExpectRows(Fields(a), "[[1], [2]]", with(ListOf(2, "l", 3, "\"int\""), "[1, null, 3]"),
             "[[1, [1, null, 3]], [2, [1, null, 3]]]");
  ExpectRows(Fields(a), "[[1]]",
             with(MapOf(2, "m", 3, "\"string\"", 4, "\"long\""),
                  R"({"keys": ["a", "b"], "values": [1, null]})"),
             R"([[1, [["a", 1], ["b", null]]]])");
  for (const std::string bad : {"[1]", "{\"keys\": [null], \"values\": [1]}",
                                "{\"keys\": [\"a\"], \"values\": []}", "{\"keys\": [\"a\"]}"}) {
    EXPECT_THAT(Refusal(Fields(a), with(MapOf(2, "m", 3, "\"string\"", 4, "\"long\""), bad)),
                HasSubstr("its initial default"));
  }
}

TEST_F(ProjectionTest, LongDefaultsMakeSmallBatches) {
  const std::string text(100000, 'x');
  const Schema schema =
      SchemaOf(Fields(Leaf(1, "a", "int") + "," +
                      Leaf(2, "d", "string", ", \"initial-default\": \"" + text + "\"")));
  std::string rows = "[[0]";
  for (int i = 1; i < 2000; ++i) rows += fmt::format(", [{}]", i);
  const DataFile file = FileOf(Fields(Leaf(1, "a", "int")), rows + "]");
  ScanOptions options;
  options.max_batch_bytes = 10 << 20;
  for (const std::vector<int>& columns : {std::vector<int>{0, 1}, std::vector<int>{1}}) {
    ASSERT_OK_AND_ASSIGN(auto source, ScanParquetFiles(io_, schema, {file}, nullptr, options));
    ASSERT_OK_AND_ASSIGN(auto stream, source->OpenPart(0, columns));
    int64_t total = 0;
    while (true) {
      ASSERT_OK_AND_ASSIGN(auto next, stream->Next());
      if (!next) break;
      EXPECT_LE(next->batch->num_rows(), 110);
      EXPECT_EQ(next->first_address, static_cast<uint64_t>(total));
      total += next->batch->num_rows();
    }
    EXPECT_EQ(total, 2000);
  }
}

TEST_F(ProjectionTest, ColumnsThatSomeFilesLackComePlain) {
  const std::string a = Leaf(1, "a", "int"), b = Leaf(2, "b", "string");
  const DataFile old = FileOf(Fields(a), "[[1]]");
  const DataFile recent = FileOf(Fields(a + "," + b), R"([[2, "x"], [3, "x"]])");
  ScanOptions options;
  options.dictionaries = true;
  const Schema schema = SchemaOf(Fields(a + "," + b));
  ASSERT_OK_AND_ASSIGN(auto table, ReadFiles(schema, {old, recent}, {}, options));
  ASSERT_OK_AND_ASSIGN(auto batch, table->CombineChunksToBatch());
  EXPECT_TRUE(batch->Equals(*BatchOf(schema, R"([[1, null], [2, "x"], [3, "x"]])")));
}

TEST_F(ProjectionTest, FilesThatDifferInNothingButTheirIds) {
  auto schema_of = [](int a, int b, int x, int y) {
    return Fields(Leaf(a, "a", "int") + "," + Leaf(b, "b", "int") + "," +
                  Struct(5, "s", Leaf(x, "x", "int") + "," + Leaf(y, "y", "int")));
  };
  const std::string rows = "[[1, 2, [3, 4]]]";
  const DataFile first = FileOf(schema_of(1, 2, 3, 4), rows);
  const DataFile second = FileOf(schema_of(2, 1, 3, 4), rows);
  const DataFile third = FileOf(schema_of(1, 2, 4, 3), rows);
  const Schema schema = SchemaOf(schema_of(1, 2, 3, 4));
  ASSERT_OK_AND_ASSIGN(auto table, ReadFiles(schema, {first, second, third, first}));
  ASSERT_OK_AND_ASSIGN(auto batch, table->CombineChunksToBatch());
  EXPECT_TRUE(batch->Equals(
      *BatchOf(schema, "[[1, 2, [3, 4]], [1, 2, [3, 4]], [2, 1, [3, 4]], [1, 2, [4, 3]]]")))
      << batch->ToString();
}

TEST_F(ProjectionTest, UnknownColumnsAreNullAndNotStored) {
  const std::string schema_json =
      Fields(Leaf(1, "a", "int") + "," + Leaf(2, "u", "unknown") + "," +
             Struct(3, "s", Leaf(4, "v", "unknown") + "," + Leaf(5, "w", "int")));
  const std::string rows = "[[1, null, [null, 5]], [2, null, null]]";
  ExpectRows(schema_json, rows, schema_json, rows);
  ASSERT_OK_AND_ASSIGN(auto footer, io_->ReadAll(Path("file-1")));
  auto reader = parquet::ParquetFileReader::OpenFile(Path("file-1"));
  EXPECT_EQ(reader->metadata()->num_columns(), 2);  // a and s.w
  // Promoted later.
  ExpectRows(schema_json, rows,
             Fields(Leaf(2, "u", "decimal(9, 2)") + "," + Leaf(1, "a", "int") + "," +
                    Struct(3, "s", Leaf(4, "v", "string") + "," + Leaf(5, "w", "long"))),
             "[[null, 1, [null, 5]], [null, 2, null]]");
  // Nothing would be left.
  for (const std::string& bad :
       {Fields(Leaf(1, "u", "unknown")),
        Fields(Leaf(2, "a", "int") + "," + Struct(3, "s", Leaf(4, "v", "unknown"))),
        Fields(ListOf(1, "l", 2, "\"unknown\""))}) {
    const auto written = ParquetFileWriter::Open(io_, SchemaOf(bad), Path("never"), {});
    EXPECT_THAT(written.status().message(), HasSubstr("type unknown")) << bad;
    ASSERT_OK_AND_ASSIGN(const auto size, io_->Size(Path("never")));
    EXPECT_FALSE(size.has_value());
  }
}

TEST_F(ProjectionTest, OnlyCaseTellsTwoColumnsApart) {
  ExpectRows(Fields(Leaf(1, "id", "int") + "," + Leaf(2, "ID", "int") + "," + Leaf(3, "Id", "int")),
             "[[1, 2, 3]]",
             Fields(Leaf(3, "Id", "int") + "," + Leaf(1, "ID", "int") + "," + Leaf(2, "id", "int")),
             "[[3, 1, 2]]");
}

TEST_F(ProjectionTest, VariantsAndGeometriesTravelUntouched) {
  const std::string schema_json = Fields(
      Leaf(1, "v", "variant") + "," + Leaf(2, "g", "geometry") + "," +
      Leaf(3, "h", "geography(OGC:CRS84, karney)") + "," + Leaf(4, "i", "geometry(srid:3857)") +
      "," + Struct(5, "s", Leaf(6, "w", "variant")) + "," + Leaf(7, "z", "int"));
  const std::string rows = R"([[["meta", "value"], "wkb 1", "wkb 2", "", [["m", ""]], 1],
                               [null, null, null, null, [null], 2],
                               [["", "v"], "x", "y", "z", null, 3]])";
  ExpectRows(schema_json, rows, schema_json, rows);
  const Schema schema = SchemaOf(schema_json);
  ASSERT_OK_AND_ASSIGN(const DataFile file, WriteFile(schema, Path("f"), {BatchOf(schema, rows)}));
  EXPECT_EQ(file.value_counts.at(1), 3);
  EXPECT_EQ(file.null_value_counts.at(1), 1);
  EXPECT_EQ(file.null_value_counts.at(6), 2);
  EXPECT_EQ(file.value_counts.at(7), 3);
  for (int id : {1, 2, 3, 4, 6}) EXPECT_FALSE(file.lower_bounds.contains(id)) << id;
  EXPECT_TRUE(file.lower_bounds.contains(7));
  auto reader = parquet::ParquetFileReader::OpenFile(Path("f"));
  const auto& root = *reader->metadata()->schema()->group_node();
  EXPECT_EQ(root.field(0)->logical_type()->ToString(), "Variant(1)");
  EXPECT_EQ(root.field(1)->logical_type()->ToString(), "Geometry(crs=)");
  EXPECT_EQ(root.field(2)->logical_type()->ToString(), "Geography(crs=, algorithm=karney)");
  EXPECT_EQ(root.field(3)->logical_type()->ToString(), "Geometry(crs=srid:3857)");
  EXPECT_EQ(static_cast<const parquet::schema::GroupNode&>(*root.field(4))
                .field(0)
                ->logical_type()
                ->ToString(),
            "Variant(1)");
  EXPECT_THAT(Refusal(Fields(Leaf(1, "g", "geometry(srid:1)")), Fields(Leaf(1, "g", "geometry"))),
              HasSubstr("column \"g\" is "));
  EXPECT_THAT(Refusal(Fields(Leaf(1, "g", "geography")), Fields(Leaf(1, "g", "geometry"))),
              HasSubstr("column \"g\" is "));
  EXPECT_THAT(WriteFile(SchemaOf(Fields(Leaf(1, "g", "geography(x, oblate)"))), Path("g"), {})
                  .status()
                  .message(),
              HasSubstr("\"geography(x, oblate)\" has an edge algorithm that is not known"));
}

TEST_F(ProjectionTest, ShreddedVariantsAreRefused) {
  // A struct of three columns in the place of the variant, without ids of their own.
  auto id = [](int n) {
    return arrow::key_value_metadata({"PARQUET:field_id"}, {std::to_string(n)});
  };
  auto type = arrow::struct_({arrow::field("metadata", arrow::binary(), false),
                              arrow::field("value", arrow::binary()),
                              arrow::field("typed_value", arrow::int64())});
  auto table = arrow::Table::Make(arrow::schema({arrow::field("v", type, true, id(1))}),
                                  {*arrow::json::ArrayFromJSONString(type, R"([["m", null, 5]])")});
  auto sink = *io_->Create(Path("shredded"));
  ASSERT_OK(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), sink));
  ASSERT_OK(sink->Close());
  DataFile file;
  file.file_path = Path("shredded");
  file.record_count = 1;
  EXPECT_THAT(ReadFiles(SchemaOf(Fields(Leaf(1, "v", "variant"))), {file}).status().message(),
              HasSubstr("column \"v\" is a variant that is stored as struct<"));
}

/// A random field of any type; ids from `next_id` on.
class RandomSchemas {
 public:
  explicit RandomSchemas(uint64_t seed) : random_(seed) {}

  std::string Next(int most_ids) {
    used_.clear();
    most_ids_ = most_ids;
    return Fields(FieldList(3));
  }

 private:
  /// Mostly one of the first few, so that two schemas share most ids.
  int NewId() {
    int id = 1 + static_cast<int>(random_() % static_cast<uint64_t>(most_ids_));
    while (!used_.insert(id).second) ++id;
    return id;
  }
  std::string FieldList(int depth) {
    std::string list;
    const int fields = 1 + static_cast<int>(random_() % 4);
    for (int i = 0; i < fields; ++i) {
      if (i) list += ",";
      const int id = NewId();
      list += fmt::format(R"({{"id": {}, "name": "f{}", "required": {}, "type": {}}})", id, i,
                          random_() % 8 == 0 ? "true" : "false", TypeOf(depth));
    }
    return list;
  }
  std::string TypeOf(int depth) {
    static const std::vector<std::string> kPrimitives = {
        "boolean",        "int",  "long",     "float",     "double",      "decimal(9, 2)",
        "decimal(20, 2)", "date", "time",     "timestamp", "timestamptz", "timestamp_ns",
        "string",         "uuid", "fixed[3]", "binary",    "unknown",     "variant",
        "geometry"};
    switch (depth == 0 ? 9 : random_() % 10) {
      case 0:
      case 1:
        return StructType(FieldList(depth - 1));
      case 2: {
        const int id = NewId();
        return fmt::format(
            R"({{"type": "list", "element-id": {}, "element": {}, "element-required": false}})", id,
            TypeOf(depth - 1));
      }
      case 3: {
        const int key = NewId();
        const int value = NewId();
        return fmt::format(
            R"({{"type": "map", "key-id": {}, "key": "string", "value-id": {}, "value": {}, "value-required": false}})",
            key, value, TypeOf(depth - 1));
      }
      default:
        return "\"" + kPrimitives[random_() % kPrimitives.size()] + "\"";
    }
  }

  std::mt19937_64 random_;
  std::set<int> used_;
  int most_ids_ = 1;
};

// Ids that mean other things in the file than in the table: an error of one line, or whole rows.
TEST_F(ProjectionTest, ConfusedIds) {
  RandomSchemas schemas(20261130);
  int read = 0;
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    const Schema before = SchemaOf(schemas.Next(8));
    const Schema after = SchemaOf(schemas.Next(8));
    auto arrow_schema = before.ToArrow();
    ASSERT_OK(arrow_schema.status());
    arrow::ArrayVector columns;
    bool nullable = true;
    for (const auto& field : (*arrow_schema)->fields()) {
      nullable &= field->nullable();
      columns.push_back(*arrow::MakeArrayOfNull(field->type(), 5));
    }
    const std::string path = Path(fmt::format("r{}", round));
    auto batch = arrow::RecordBatch::Make(*arrow_schema, nullable ? 5 : 0, columns);
    if (!nullable) batch = *arrow::RecordBatch::MakeEmpty(*arrow_schema);
    auto file = WriteFile(before, path, {batch});
    if (!file.ok()) continue;  // nothing but unknowns somewhere
    auto table = ReadFiles(after, {*file});
    if (table.ok()) {
      ++read;
      EXPECT_EQ((*table)->num_rows(), batch->num_rows());
    } else {
      ++refused;
      EXPECT_THAT(table.status().message(), HasSubstr(path));
      EXPECT_EQ(table.status().message().find('\n'), std::string::npos);
    }
  }
  EXPECT_GT(read, 20);
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace thalweg::iceberg
