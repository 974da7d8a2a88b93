#include "task/write.h"

#include <arrow/compute/initialize.h>
#include <arrow/csv/api.h>
#include <arrow/io/file.h>
#include <arrow/ipc/writer.h>
#include <arrow/json/from_string.h>
#include <gmock/gmock.h>
#include <parquet/arrow/writer.h>

#include <numeric>

#include "task/toy_table_test.h"

namespace thalweg {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::ReadText;
using testing::RowTexts;
using testing::TempFolder;
using testing::ToyRows;
using testing::ToySchema;
using testing::ToySpec;
using testing::ToyTable;
using testing::Value;
using testing::WriteText;

std::shared_ptr<arrow::RecordBatchReader> ReaderOf(const arrow::RecordBatchVector& batches) {
  return Value(arrow::RecordBatchReader::Make(batches, batches.at(0)->schema()));
}

std::shared_ptr<arrow::Array> Json2Array(const std::shared_ptr<arrow::DataType>& type,
                                         const std::string& json) {
  return Value(arrow::json::ArrayFromJSONString(type, json));
}

/// All rows of a source, whole batches in order.
std::shared_ptr<arrow::Table> ReadAll(RowSource& source, std::vector<int> columns = {}) {
  if (columns.empty()) {
    columns.resize(source.schema()->num_fields());
    std::iota(columns.begin(), columns.end(), 0);
  }
  arrow::RecordBatchVector batches;
  for (int part = 0; part < source.num_parts(); ++part) {
    auto stream = Value(source.OpenPart(part, columns));
    uint64_t expected = static_cast<uint64_t>(part) << 32;
    while (auto rows = Value(stream->Next())) {
      EXPECT_EQ(rows->first_address, expected);
      expected += rows->batch->num_rows();
      batches.push_back(rows->batch);
    }
  }
  arrow::FieldVector fields;
  for (const int column : columns) fields.push_back(source.schema()->field(column));
  return Value(arrow::Table::FromRecordBatches(arrow::schema(fields), batches));
}

class WriteTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_OK(arrow::compute::Initialize()); }
  std::string Path(const char* name) const { return (folder_.path() / name).string(); }

  void WriteParquet(const arrow::RecordBatch& batch, const std::string& path, int64_t group_rows) {
    auto sink = Value(arrow::io::FileOutputStream::Open(path));
    auto table = Value(arrow::Table::FromRecordBatches({batch.Slice(0)}));
    ASSERT_OK(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), sink, group_rows));
    ASSERT_OK(sink->Close());
  }
  void WriteIpc(const arrow::RecordBatch& batch, const std::string& path, bool stream) {
    auto sink = Value(arrow::io::FileOutputStream::Open(path));
    auto writer = Value(stream ? arrow::ipc::MakeStreamWriter(sink, batch.schema())
                               : arrow::ipc::MakeFileWriter(sink, batch.schema()));
    for (int64_t row = 0; row < batch.num_rows(); row += 700) {
      ASSERT_OK(writer->WriteRecordBatch(*batch.Slice(row, 700)));
    }
    ASSERT_OK(writer->Close());
    ASSERT_OK(sink->Close());
  }
  void WriteCsv(const arrow::RecordBatch& batch, const std::string& path) {
    auto sink = Value(arrow::io::FileOutputStream::Open(path));
    ASSERT_OK(arrow::csv::WriteCSV(batch, arrow::csv::WriteOptions::Defaults(), sink.get()));
    ASSERT_OK(sink->Close());
  }

  TempFolder folder_;
  ToyTable table_{folder_.path() / "table"};
};

TEST_F(WriteTest, ClusteredAppendFromAOneShotStream) {
  table_.Declare(ToySpec());
  const auto rows = ToyRows(0, 8000, 1);
  WriteOptions options;
  options.run_id = "load-1";
  const auto report = Value(WriteRows(
      table_, RowsOfReader(ReaderOf({rows->Slice(0, 3000), rows->Slice(3000)})), options));
  EXPECT_EQ(report.outcome, "committed");
  EXPECT_EQ(report.rows, 8000);
  EXPECT_GT(report.output_units, 3);
  EXPECT_EQ(table_.Rows(), RowTexts(*rows));
  EXPECT_THAT(table_.Intents(), IsEmpty());
  // One run of cubes: equalities open few of the files.
  EXPECT_LT(report.depth_after, 2.0 * std::sqrt(static_cast<double>(report.output_units)));
  EXPECT_EQ(table_.last_write->run.quantiles.size(), 2u);
  EXPECT_EQ(table_.last_write->spec, ToySpec());
  EXPECT_EQ(Value(WriteRows(table_, RowsOfReader(ReaderOf({rows})), options)).outcome,
            "already-committed");
  EXPECT_EQ(table_.Rows().size(), 8000u);
}

TEST_F(WriteTest, WithoutDeclarationRowsKeepTheirOrderAndFilesTheirSize) {
  table_.sizes.target_file_bytes = 200 << 10;
  const auto rows = ToyRows(0, 60000, 1);
  arrow::RecordBatchVector batches;
  for (int64_t row = 0; row < 60000; row += 5000) batches.push_back(rows->Slice(row, 5000));
  const auto report = Value(WriteRows(table_, RowsOfReader(ReaderOf(batches)), {}));
  EXPECT_EQ(report.rows, 60000);
  const auto& outputs = table_.last_write->outputs;
  EXPECT_GT(outputs.size(), 5u);
  int64_t next = 0;
  for (const auto& unit : outputs) {
    EXPECT_EQ(unit.cube_id, "");
    if (&unit != &outputs.back()) {
      EXPECT_GE(unit.bytes, 200 << 10);
    }
    EXPECT_LE(unit.bytes, 600 << 10);
    auto source = Value(table_.ReadBack(unit));
    auto batch = Value(Value(source->OpenPart(0, {0}))->Next())->batch;
    const auto& ids = static_cast<const arrow::Int64Array&>(*batch->column(0));
    for (int64_t i = 0; i < ids.length(); ++i) ASSERT_EQ(ids.Value(i), next++);
  }
  EXPECT_EQ(next, 60000);
}

TEST_F(WriteTest, OverwriteReplacesWhatItSaw) {
  table_.Append(ToyRows(0, 100, 1));
  const auto rows = ToyRows(500, 300, 2);
  WriteOptions options;
  options.mode = WriteMode::kOverwrite;
  EXPECT_EQ(Value(WriteRows(table_, RowsOfReader(ReaderOf({rows})), options)).outcome, "committed");
  EXPECT_EQ(table_.Rows(), RowTexts(*rows));

  table_.faults.before_commit = [&] {
    ToyTable(folder_.path() / "table").Append(ToyRows(9000, 5, 9));
    return arrow::Status::OK();
  };
  const auto files = table_.FilesIn("data").size();
  const auto status = WriteRows(table_, RowsOfReader(ReaderOf({rows})), options).status();
  EXPECT_EQ(KindOf(status), FailureKind::kConflict);
  EXPECT_EQ(table_.FilesIn("data").size(), files + 1);  // the other one's
  EXPECT_EQ(table_.Rows().size(), 305u);
  EXPECT_THAT(table_.Intents(), IsEmpty());
}

TEST_F(WriteTest, NoRows) {
  table_.Append(ToyRows(0, 100, 1));
  for (const bool declared : {false, true}) {
    if (declared) table_.Declare(ToySpec());
    const auto report = Value(WriteRows(table_, RowsOfReader(ReaderOf({ToyRows(0, 0, 1)})), {}));
    EXPECT_EQ(report.outcome, "nothing-to-do");
    EXPECT_EQ(report.reason, "the input has no rows");
    EXPECT_EQ(table_.snapshots(), 1);
  }
  WriteOptions options;
  options.mode = WriteMode::kOverwrite;
  EXPECT_EQ(Value(WriteRows(table_, RowsOfReader(ReaderOf({ToyRows(0, 0, 1)})), options)).outcome,
            "committed");
  EXPECT_THAT(table_.Rows(), IsEmpty());
}

TEST_F(WriteTest, FailuresLeaveNothing) {
  for (const bool declared : {false, true}) {
    if (declared) table_.Declare(ToySpec());
    for (const int at : {1, 2}) {
      std::atomic<int> writes = 0;
      table_.faults.on_write = [&] {
        return ++writes == at ? arrow::Status::IOError("disk full") : arrow::Status::OK();
      };
      EXPECT_THAT(
          WriteRows(table_, RowsOfReader(ReaderOf({ToyRows(0, 40000, 1)})), {}).status().message(),
          HasSubstr("disk full"));
      EXPECT_THAT(table_.FilesIn("data"), IsEmpty());
      EXPECT_THAT(table_.Intents(), IsEmpty());
    }
    table_.faults.on_write = nullptr;
    table_.faults.before_commit = [] { return arrow::Status::IOError("denied"); };
    EXPECT_FALSE(WriteRows(table_, RowsOfReader(ReaderOf({ToyRows(0, 100, 1)})), {}).ok());
    EXPECT_THAT(table_.FilesIn("data"), IsEmpty());
    table_.faults.before_commit = nullptr;
  }
}

TEST_F(WriteTest, UnknownOutcomeKeepsFiles) {
  table_.faults.before_commit = [] { return UnknownOutcome("timed out"); };
  WriteOptions options;
  options.run_id = "load-2";
  const auto status =
      WriteRows(table_, RowsOfReader(ReaderOf({ToyRows(0, 100, 1)})), options).status();
  EXPECT_EQ(KindOf(status), FailureKind::kUnknown);
  EXPECT_THAT(status.message(), HasSubstr("--run-id load-2"));
  EXPECT_EQ(table_.FilesIn("data").size(), 1u);
  EXPECT_EQ(table_.Intents().size(), 1u);
}

TEST_F(WriteTest, StoppingLeavesNothing) {
  arrow::StopSource stop;
  WriteOptions options;
  options.execute.stop = stop.token();
  table_.faults.before_commit = [&] {
    stop.RequestStop();
    return arrow::Status::OK();
  };
  EXPECT_TRUE(WriteRows(table_, RowsOfReader(ReaderOf({ToyRows(0, 100, 1)})), options)
                  .status()
                  .IsCancelled());
  EXPECT_THAT(table_.FilesIn("data"), IsEmpty());
}

TEST_F(WriteTest, EveryInputFormatGivesTheSameRows) {
  const auto rows = ToyRows(0, 3000, 4);
  const auto expected = Value(arrow::Table::FromRecordBatches({rows}));
  WriteParquet(*rows, Path("a.parquet"), 1000);
  WriteIpc(*rows, Path("a.arrow"), false);
  WriteIpc(*rows, Path("a.arrows"), true);
  for (const char* name : {"a.parquet", "a.arrow", "a.arrows"}) {
    auto source = Value(OpenInputFiles({Path(name)}, nullptr));
    EXPECT_TRUE(ReadAll(*source)->Equals(*expected)) << name;
    EXPECT_TRUE(ReadAll(*source, {3, 1})->Equals(*Value(expected->SelectColumns({3, 1})))) << name;
    EXPECT_TRUE(source->rereadable());
    EXPECT_EQ(source->encoded_bytes(),
              static_cast<int64_t>(std::filesystem::file_size(Path(name))));
  }
  auto parquet = Value(OpenInputFiles({Path("a.parquet"), Path("a.parquet")}, nullptr));
  EXPECT_EQ(parquet->num_parts(), 6);
  EXPECT_EQ(parquet->num_rows(), 6000);
  EXPECT_EQ(parquet->part_name(5), Path("a.parquet"));
  const auto report = Value(WriteRows(table_, std::move(parquet), {}));
  EXPECT_EQ(report.rows, 6000);
}

TEST_F(WriteTest, CsvByTheTablesTypes) {
  WriteText(Path("a.csv"),
            "user,id,name,amount\n7,1,\"Smith, John\",1.5\nNA,2,NA,\n,3,\"line\nbreak\",1e3\n");
  auto source = Value(OpenInputFiles({Path("a.csv")}, ToySchema()));
  const auto report = Value(WriteRows(table_, std::move(source), {}));
  EXPECT_EQ(report.rows, 3);
  EXPECT_EQ(table_.Rows(), (std::multiset<std::string>{"1|7|Smith, John|1.5|", "2|null|NA|null|",
                                                       "3|null|line\nbreak|1000|"}));
  WriteText(Path("b.tsv"), "id\tname\n5\tx\n");
  EXPECT_EQ(Value(WriteRows(table_, Value(OpenInputFiles({Path("b.tsv")}, ToySchema())), {})).rows,
            1);

  WriteText(Path("bad.csv"), "id,user\n1,many\n");
  const auto status = OpenInputFiles({Path("bad.csv")}, ToySchema()).status();
  EXPECT_THAT(status.message(), HasSubstr("bad.csv"));
  EXPECT_THAT(status.message(), HasSubstr("many"));
  // Without a schema the types are inferred.
  auto inferred = Value(OpenInputFiles({Path("a.csv")}, nullptr));
  EXPECT_EQ(inferred->schema()->GetFieldByName("amount")->type()->ToString(), "double");
}

TEST_F(WriteTest, LargeCsvIsClusteredAndComplete) {
  table_.Declare(ToySpec());
  auto rows = ToyRows(0, 5000, 5);
  rows = Value(rows->RemoveColumn(2));  // names have nulls, which CSV text cannot tell from ""
  WriteCsv(*rows, Path("a.csv"));
  EXPECT_EQ(Value(WriteRows(table_, Value(OpenInputFiles({Path("a.csv")}, ToySchema())), {})).rows,
            5000);
  EXPECT_EQ(table_.Rows().size(), 5000u);
}

TEST_F(WriteTest, BadFilesAreNamed) {
  const auto refused = [&](const std::vector<std::string>& paths, const char* why) {
    const auto status = OpenInputFiles(paths, nullptr).status();
    ASSERT_FALSE(status.ok()) << why;
    if (!paths.empty()) {
      EXPECT_THAT(status.message(), HasSubstr(paths.back()));
    }
    EXPECT_THAT(status.message(), HasSubstr(why));
  };
  const auto rows = ToyRows(0, 2000, 4);
  WriteParquet(*rows, Path("a.parquet"), 1000);
  refused({}, "no input files");
  refused({Path("none.parquet")}, "no such file");
  refused({folder_.path().string()}, "not a regular file");
  WriteText(Path("a.txt"), "x");
  refused({Path("a.txt")}, "must end in");
  WriteParquet(*Value(rows->RemoveColumn(1)), Path("b.parquet"), 1000);
  refused({Path("a.parquet"), Path("b.parquet")}, "has 3 columns");
  WriteParquet(*Value(rows->SetColumn(1, arrow::field("user", arrow::utf8()), rows->column(2))),
               Path("c.parquet"), 1000);
  refused({Path("a.parquet"), Path("c.parquet")}, "its column 2 is \"user\" (string)");
  const std::string bytes = ReadText(Path("a.parquet"));
  for (const size_t size : {size_t{0}, size_t{3}, bytes.size() / 2, bytes.size() - 1}) {
    WriteText(Path("cut.parquet"), bytes.substr(0, size));
    EXPECT_THAT(OpenInputFiles({Path("cut.parquet")}, nullptr).status().message(),
                HasSubstr("cut.parquet"));
  }
  std::string damaged = bytes;  // the footer is right, the header of the first page is not
  std::fill_n(damaged.begin() + 4, 60, '\xff');
  WriteText(Path("damaged.parquet"), damaged);
  EXPECT_THAT(WriteRows(table_, Value(OpenInputFiles({Path("damaged.parquet")}, nullptr)), {})
                  .status()
                  .message(),
              HasSubstr("damaged.parquet"));
  EXPECT_THAT(table_.FilesIn("data"), IsEmpty());
  WriteIpc(*rows, Path("a.arrow"), false);
  WriteText(Path("cut.arrow"), ReadText(Path("a.arrow")).substr(0, 2000));
  refused({Path("cut.arrow")}, "");
}

/// Writes one column of the given type into a table that has another one.
arrow::Status CastOne(const std::shared_ptr<arrow::DataType>& from, const std::string& json,
                      const std::shared_ptr<arrow::DataType>& to, const std::string& expected,
                      bool nullable = true) {
  const auto values = Json2Array(from, json);
  const auto batch = arrow::RecordBatch::Make(arrow::schema({arrow::field("x", from)}),
                                              values->length(), {values});
  auto rows = Value(arrow::RecordBatchReader::Make({batch}));
  ARROW_ASSIGN_OR_RAISE(
      auto source, CastRows(RowsOfReader(rows), arrow::schema({arrow::field("x", to, nullable)})));
  ARROW_ASSIGN_OR_RAISE(auto stream, source->OpenPart(0, {0}));
  ARROW_ASSIGN_OR_RAISE(auto next, stream->Next());
  EXPECT_TRUE(next->batch->column(0)->type()->Equals(to));
  EXPECT_TRUE(next->batch->column(0)->Equals(Json2Array(to, expected),
                                             arrow::EqualOptions::Defaults().nans_equal(true)))
      << from->ToString() << " " << json << " -> " << next->batch->column(0)->ToString();
  return arrow::Status::OK();
}

TEST_F(WriteTest, CastsThatKeepEveryValue) {
  using namespace arrow;  // NOLINT: a table of types
  EXPECT_OK(CastOne(int32(), "[1, null, -5]", int64(), "[1, null, -5]"));
  EXPECT_OK(CastOne(int64(), "[1, 127]", int8(), "[1, 127]"));
  EXPECT_OK(CastOne(uint64(), "[9007199254740992]", float64(), "[9007199254740992]"));
  EXPECT_OK(CastOne(float32(), "[1.5, null]", float64(), "[1.5, null]"));
  EXPECT_OK(CastOne(float64(), "[1.5, NaN]", float32(), "[1.5, NaN]"));
  EXPECT_OK(CastOne(float64(), "[3.0]", int32(), "[3]"));
  EXPECT_OK(CastOne(int32(), "[12]", decimal128(10, 2), R"(["12.00"])"));
  EXPECT_OK(CastOne(decimal128(5, 1), R"(["12.5"])", decimal128(10, 2), R"(["12.50"])"));
  EXPECT_OK(CastOne(date32(), "[1]", timestamp(TimeUnit::MICRO), "[86400000000]"));
  EXPECT_OK(CastOne(timestamp(TimeUnit::NANO), "[5000]", timestamp(TimeUnit::MICRO), "[5]"));
  EXPECT_OK(CastOne(timestamp(TimeUnit::MILLI, "Europe/Berlin"), "[5]",
                    timestamp(TimeUnit::MICRO, "UTC"), "[5000]"));
  EXPECT_OK(CastOne(large_utf8(), R"(["a", null])", utf8(), R"(["a", null])"));
  EXPECT_OK(CastOne(utf8(), R"(["a"])", binary(), R"(["a"])"));
  EXPECT_OK(
      CastOne(dictionary(int32(), utf8()), R"(["a", "b", "a"])", utf8(), R"(["a", "b", "a"])"));
  EXPECT_OK(CastOne(dictionary(int32(), int32()), "[7, null]", int64(), "[7, null]"));
  EXPECT_OK(CastOne(null(), "[null]", utf8(), "[null]"));
  EXPECT_OK(CastOne(list(int32()), "[[1, 2], null]", large_list(int64()), "[[1, 2], null]"));
  EXPECT_OK(CastOne(struct_({field("a", int32())}), R"([{"a": 1}])", struct_({field("a", int64())}),
                    R"([{"a": 1}])"));
}

TEST_F(WriteTest, CastsThatWouldChangeAValueAreRefused) {
  using namespace arrow;  // NOLINT: a table of types
  const auto refused = [](std::shared_ptr<DataType> from, const char* json,
                          std::shared_ptr<DataType> to, bool nullable = true) {
    const auto status = CastOne(from, json, to, "[]", nullable);
    ASSERT_FALSE(status.ok()) << from->ToString() << " " << json << " to " << to->ToString();
    EXPECT_THAT(status.message(), HasSubstr("\"x\""));
    EXPECT_THAT(status.message(), HasSubstr(to->ToString()));
  };
  refused(int64(), "[128]", int8());
  refused(int64(), "[-1]", uint32());
  refused(int64(), "[9007199254740993]", float64());
  refused(float64(), "[0.1]", float32());
  refused(float64(), "[1.5]", int32());
  refused(float64(), "[NaN]", int32());
  refused(decimal128(5, 2), R"(["1.25"])", decimal128(5, 1));
  refused(decimal128(5, 2), R"(["1.25"])", int32());
  refused(decimal128(5, 2), R"(["1.25"])", float64());
  refused(float64(), "[1.25]", decimal128(5, 2));
  refused(timestamp(TimeUnit::NANO), "[5001]", timestamp(TimeUnit::MICRO));
  refused(timestamp(TimeUnit::MICRO), "[5]", timestamp(TimeUnit::MICRO, "UTC"));
  refused(timestamp(TimeUnit::MICRO, "UTC"), "[5]", timestamp(TimeUnit::MICRO));
  refused(timestamp(TimeUnit::MICRO), "[5]", date32());
  refused(utf8(), R"(["7"])", int32());
  refused(int32(), "[7]", utf8());
  refused(int32(), "[1000]", decimal128(4, 2));
  refused(boolean(), "[true]", int32());
  refused(list(int64()), "[[300]]", list(int8()));
  refused(struct_({field("a", int32())}), R"([{"a": 1}])", struct_({field("b", int32())}));
  refused(int32(), "[1, null]", int32(), false);
}

TEST_F(WriteTest, BytesThatAreNoTextAreRefused) {
  arrow::BinaryBuilder builder;
  ASSERT_OK(builder.Append("\xff\xfe"));
  const auto schema = arrow::schema({arrow::field("x", arrow::binary())});
  const auto batch = arrow::RecordBatch::Make(schema, 1, {builder.Finish().ValueOrDie()});
  auto source = Value(
      CastRows(RowsOfReader(ReaderOf({batch})), arrow::schema({arrow::field("x", arrow::utf8())})));
  EXPECT_THAT(Value(source->OpenPart(0, {0}))->Next().status().message(), HasSubstr("UTF8"));
}

TEST_F(WriteTest, ColumnsGoByName) {
  const auto rows = ToyRows(0, 50, 1);
  // In another order and without a nullable column.
  const auto some = Value(rows->SelectColumns({3, 0, 2}));
  EXPECT_EQ(Value(WriteRows(table_, RowsOfReader(ReaderOf({some})), {})).rows, 50);
  EXPECT_TRUE(table_.Rows().begin()->find("|null|") != std::string::npos);
  const auto refused = [&](const std::shared_ptr<arrow::RecordBatch>& batch, const char* why) {
    EXPECT_THAT(WriteRows(table_, RowsOfReader(ReaderOf({batch})), {}).status().message(),
                HasSubstr(why));
  };
  refused(Value(rows->RemoveColumn(0)), "required column \"id\" (int64) is missing");
  refused(Value(rows->AddColumn(0, "extra", rows->column(1))),
          "column \"extra\" (int64) is not a column of the table");
  refused(Value(rows->AddColumn(0, "user", rows->column(1))), "column \"user\" is there twice");
  EXPECT_EQ(table_.snapshots(), 1);
}

}  // namespace
}  // namespace thalweg
