#pragma once

#include <arrow/api.h>
#include <arrow/json/from_string.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "iceberg/parquet_reader.h"
#include "iceberg/parquet_writer.h"
#include "iceberg/test_util.h"
#include "util/json.h"

namespace thalweg::iceberg {

// One row source for the round trip here and for the independent readers in
// test/iceberg_parquet_test.py.
inline constexpr char kAllTypes[] = R"json([
  {"id": 1, "name": "b", "required": false, "type": "boolean"},
  {"id": 2, "name": "i", "required": false, "type": "int"},
  {"id": 3, "name": "l", "required": true, "type": "long"},
  {"id": 4, "name": "f", "required": false, "type": "float"},
  {"id": 5, "name": "d", "required": false, "type": "double"},
  {"id": 6, "name": "dec9", "required": false, "type": "decimal(9, 2)"},
  {"id": 7, "name": "dec18", "required": false, "type": "decimal(18, 4)"},
  {"id": 8, "name": "dec38", "required": false, "type": "decimal(38, 10)"},
  {"id": 9, "name": "day", "required": false, "type": "date"},
  {"id": 10, "name": "tod", "required": false, "type": "time"},
  {"id": 11, "name": "ts", "required": false, "type": "timestamp"},
  {"id": 12, "name": "tstz", "required": false, "type": "timestamptz"},
  {"id": 13, "name": "s", "required": false, "type": "string"},
  {"id": 14, "name": "u", "required": false, "type": "uuid"},
  {"id": 15, "name": "fx", "required": false, "type": "fixed[3]"},
  {"id": 16, "name": "bin", "required": false, "type": "binary"},
  {"id": 17, "name": "st", "required": false, "type": {"type": "struct", "fields": [
     {"id": 18, "name": "x", "required": true, "type": "int"},
     {"id": 19, "name": "y", "required": false, "type": "string"}]}},
  {"id": 20, "name": "li", "required": false, "type": {"type": "list", "element-id": 21,
     "element": "long", "element-required": false}},
  {"id": 22, "name": "ma", "required": false, "type": {"type": "map", "key-id": 23, "key": "string",
     "value-id": 24, "value": "double", "value-required": false}},
  {"id": 25, "name": "empty", "required": false, "type": "string"}
])json";
inline constexpr char kAllRows[] = R"([
  [true, 1, 10, 1.5, -2.5, "1.23", "12345678901234.5678", "-1234567890123456789012345678.0123456789",
   19000, 3600000001, 1700000000123456, 1700000000123456, "größe", "0123456789abcdef", "abc", "xyz",
   [7, "in"], [1, null, 3], [["k", 1.5], ["m", null]], null],
  [false, -1, -10, -0.0, 0.0, "-9999999.99", "-0.0001", "9999999999999999999999999999.9999999999",
   -1, 0, -1, -1, "", "ffffffffffffffff", "zzz", "", null, [], [], null],
  [null, null, 0, NaN, NaN, null, null, null, null, null, null, null, null, null, null, null,
   [-8, null], null, null, null],
  [true, 2147483647, 9223372036854775807, Inf, -Inf, "0.00", "0.0000", "0.0000000000", 0, 86399999999, 0, 0,
   "𝄞 clef", "AAAAAAAAAAAAAAAA", "aaa", "b", [1, ""], [5], [["", 0.0]], null]
])";

/// Reads and writes small files in a folder that goes with the test.
class ParquetTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_ / name; }

  /// Schema of the fields of `json`, an array in Iceberg's JSON form.
  static Schema SchemaOf(const std::string& fields) {
    auto json = ParseJson("{\"type\": \"struct\", \"schema-id\": 0, \"fields\": " + fields + "}",
                          "test schema");
    EXPECT_TRUE(json.ok()) << json.status().ToString();
    auto schema = Schema::FromJson(*json);
    EXPECT_TRUE(schema.ok()) << schema.status().ToString();
    return *schema;
  }

  /// A batch of the schema from a JSON array of rows.
  static std::shared_ptr<arrow::RecordBatch> BatchOf(const Schema& schema,
                                                     const std::string& rows) {
    auto arrow_schema = *schema.ToArrow();
    auto structs = arrow::json::ArrayFromJSONString(arrow::struct_(arrow_schema->fields()), rows);
    EXPECT_TRUE(structs.ok()) << structs.status().ToString();
    auto batch = *arrow::RecordBatch::FromStructArray(*structs);
    return arrow::RecordBatch::Make(arrow_schema, batch->num_rows(), batch->columns());
  }

  arrow::Result<DataFile> WriteFile(const Schema& schema, const std::string& location,
                                    const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches,
                                    const ParquetWriteOptions& options = {}) {
    ARROW_ASSIGN_OR_RAISE(auto writer, ParquetFileWriter::Open(io_, schema, location, options));
    for (const auto& batch : batches) ARROW_RETURN_NOT_OK(writer->Write(*batch));
    return writer->Finish();
  }

  /// All rows of some columns of the files (all columns when empty), part by part.
  arrow::Result<std::shared_ptr<arrow::Table>> ReadFiles(const Schema& schema,
                                                         const std::vector<DataFile>& files,
                                                         std::vector<int> columns = {},
                                                         const ScanOptions& options = {}) {
    ARROW_ASSIGN_OR_RAISE(auto source, ScanParquetFiles(io_, schema, files, nullptr, options));
    if (columns.empty()) {
      for (int i = 0; i < source->schema()->num_fields(); ++i) columns.push_back(i);
    }
    std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
    for (int part = 0; part < source->num_parts(); ++part) {
      ARROW_ASSIGN_OR_RAISE(auto stream, source->OpenPart(part, columns));
      while (true) {
        ARROW_ASSIGN_OR_RAISE(auto next, stream->Next());
        if (!next) break;
        ARROW_RETURN_NOT_OK(next->batch->ValidateFull());
        batches.push_back(next->batch);
      }
    }
    arrow::FieldVector fields;
    for (int column : columns) fields.push_back(source->schema()->field(column));
    return arrow::Table::FromRecordBatches(arrow::schema(fields), batches);
  }

  std::shared_ptr<FileIO> io_ = std::make_shared<FileIO>();
  TempFolder folder_;
};

}  // namespace thalweg::iceberg
