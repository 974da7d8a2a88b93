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

/// A folder that goes with the test.
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
