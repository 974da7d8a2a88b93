#include "iceberg/row_lineage.h"

#include <gmock/gmock.h>
#include <parquet/file_reader.h>

#include "iceberg/parquet_test_util.h"

namespace thalweg::iceberg {
namespace {

using ::testing::HasSubstr;

constexpr char kFields[] = R"([{"id": 1, "name": "a", "required": false, "type": "int"}])";

class RowLineageTest : public ParquetTest {
 protected:
  void SetUp() override {
    const Schema plain = SchemaOf(kFields);
    const Schema schema = WithRowLineage(plain);
    // In the order of their paths: a file that stores nothing, one that stores some, one that
    // has no first row id.
    ASSERT_OK_AND_ASSIGN(auto first, WriteFile(plain, Path("1"), {BatchOf(plain, "[[10], [11]]")}));
    ASSERT_OK_AND_ASSIGN(
        auto second,
        WriteFile(
            schema, Path("2"),
            {BatchOf(schema, "[[20, 7, 3], [21, null, null], [22, 5, null], [23, null, 2]]")}));
    ASSERT_OK_AND_ASSIGN(auto third, WriteFile(plain, Path("3"), {BatchOf(plain, "[[30]]")}));
    files_ = {third, first, second};
    lineage_ = {{100, 4}, {200, 6}, {std::nullopt, 9}};
  }

  arrow::Result<std::unique_ptr<RowSource>> Open() {
    ARROW_ASSIGN_OR_RAISE(
        auto source, ScanParquetFiles(io_, WithRowLineage(SchemaOf(kFields)), files_, nullptr));
    return InheritRowLineage(std::move(source), lineage_);
  }

  std::vector<DataFile> files_;
  std::vector<LineageOfFile> lineage_;
};

TEST_F(RowLineageTest, Inherits) {
  ASSERT_OK_AND_ASSIGN(auto source, Open());
  EXPECT_EQ(source->num_rows(), 7);
  EXPECT_EQ(source->num_parts(), 3);
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
  for (int part = 0; part < source->num_parts(); ++part) {
    ASSERT_OK_AND_ASSIGN(auto stream, source->OpenPart(part, {2, 0, 1}));
    while (true) {
      ASSERT_OK_AND_ASSIGN(auto next, stream->Next());
      if (!next) break;
      batches.push_back(next->batch);
    }
  }
  ASSERT_OK_AND_ASSIGN(auto table, arrow::Table::FromRecordBatches(batches));
  ASSERT_OK_AND_ASSIGN(auto batch, table->CombineChunksToBatch());
  const auto long_type = arrow::int64();
  EXPECT_TRUE(batch->column(2)->Equals(
      **arrow::json::ArrayFromJSONString(long_type, "[100, 101, 7, 201, 5, 203, null]")))
      << batch->column(2)->ToString();
  EXPECT_TRUE(batch->column(0)->Equals(
      **arrow::json::ArrayFromJSONString(long_type, "[4, 4, 3, 6, 6, 2, null]")))
      << batch->column(0)->ToString();
  // Without the columns nothing is done.
  ASSERT_OK_AND_ASSIGN(auto stream, source->OpenPart(0, {0}));
  ASSERT_OK_AND_ASSIGN(auto next, stream->Next());
  EXPECT_EQ(next->batch->num_columns(), 1);
}

/// Gives every other row, with addresses, as after deletes.
class EveryOther : public RowSource {
 public:
  explicit EveryOther(std::unique_ptr<RowSource> rows) : rows_(std::move(rows)) {}
  const std::shared_ptr<arrow::Schema>& schema() const override { return rows_->schema(); }
  int num_parts() const override { return rows_->num_parts(); }
  int64_t num_rows() const override { return -1; }
  int64_t encoded_bytes() const override { return rows_->encoded_bytes(); }
  arrow::Result<std::unique_ptr<RowStream>> OpenPart(int part,
                                                     const std::vector<int>& columns) override {
    class Stream : public RowStream {
     public:
      explicit Stream(std::unique_ptr<RowStream> rows) : rows_(std::move(rows)) {}
      arrow::Result<std::optional<RowBatch>> Next() override {
        ARROW_ASSIGN_OR_RAISE(auto batch, rows_->Next());
        if (!batch) return batch;
        arrow::UInt64Builder addresses;
        std::vector<std::shared_ptr<arrow::RecordBatch>> kept;
        for (int64_t i = 1; i < batch->batch->num_rows(); i += 2) {
          ARROW_RETURN_NOT_OK(addresses.Append(batch->first_address + static_cast<uint64_t>(i)));
          kept.push_back(batch->batch->Slice(i, 1));
        }
        ARROW_ASSIGN_OR_RAISE(auto table,
                              arrow::Table::FromRecordBatches(batch->batch->schema(), kept));
        ARROW_ASSIGN_OR_RAISE(batch->batch, table->CombineChunksToBatch());
        ARROW_ASSIGN_OR_RAISE(auto array, addresses.Finish());
        batch->addresses = std::static_pointer_cast<arrow::UInt64Array>(array);
        return batch;
      }
      std::unique_ptr<RowStream> rows_;
    };
    ARROW_ASSIGN_OR_RAISE(auto stream, rows_->OpenPart(part, columns));
    return std::make_unique<Stream>(std::move(stream));
  }
  std::unique_ptr<RowSource> rows_;
};

TEST_F(RowLineageTest, GoesByAddresses) {
  ASSERT_OK_AND_ASSIGN(auto rows,
                       ScanParquetFiles(io_, WithRowLineage(SchemaOf(kFields)), files_, nullptr));
  ASSERT_OK_AND_ASSIGN(auto source,
                       InheritRowLineage(std::make_unique<EveryOther>(std::move(rows)), lineage_));
  ASSERT_OK_AND_ASSIGN(auto stream, source->OpenPart(1, {0, 1, 2}));
  ASSERT_OK_AND_ASSIGN(auto next, stream->Next());
  EXPECT_TRUE(next->batch->Equals(
      *BatchOf(WithRowLineage(SchemaOf(kFields)), "[[21, 201, 6], [23, 203, 2]]")))
      << next->batch->ToString();
}

TEST_F(RowLineageTest, Columns) {
  const Schema plain = SchemaOf(kFields);
  const Schema schema = WithRowLineage(plain);
  ASSERT_EQ(schema.fields.size(), 3u);
  EXPECT_EQ(schema.fields[1].id, 2147483540);
  EXPECT_EQ(schema.fields[1].name, "_row_id");
  EXPECT_EQ(schema.fields[2].id, 2147483539);
  EXPECT_EQ(schema.fields[2].name, "_last_updated_sequence_number");
  EXPECT_EQ(WithRowLineage(schema).fields.size(), 3u);
  auto reader = parquet::ParquetFileReader::OpenFile(Path("2"));
  const auto& root = *reader->metadata()->schema()->group_node();
  EXPECT_EQ(root.field(1)->field_id(), 2147483540);
  EXPECT_EQ(root.field(2)->field_id(), 2147483539);
  EXPECT_TRUE(root.field(1)->is_optional());
  // Who does not ask for them does not see them.
  ASSERT_OK_AND_ASSIGN(auto table, ReadFiles(plain, files_));
  EXPECT_EQ(table->num_columns(), 1);
  EXPECT_EQ(table->num_rows(), 7);
}

TEST_F(RowLineageTest, Errors) {
  ASSERT_OK_AND_ASSIGN(auto without, ScanParquetFiles(io_, SchemaOf(kFields), files_, nullptr));
  EXPECT_THAT(InheritRowLineage(std::move(without), lineage_).status().message(),
              HasSubstr("no columns _row_id"));
  lineage_.resize(2);
  ASSERT_OK_AND_ASSIGN(auto source, Open());
  ASSERT_OK_AND_ASSIGN(auto stream, source->OpenPart(2, {1}));
  EXPECT_THAT(stream->Next().status().message(), HasSubstr("file 2 where 2 are known"));
}

}  // namespace
}  // namespace thalweg::iceberg
