#include "iceberg/parquet_reader.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <parquet/arrow/writer.h>

#include <atomic>
#include <fstream>
#include <random>
#include <thread>

#include "iceberg/parquet_test_util.h"

namespace thalweg::iceberg {
namespace {

using ::testing::HasSubstr;

constexpr char kFields[] = R"([{"id": 1, "name": "l", "required": false, "type": "long"},
                               {"id": 2, "name": "s", "required": false, "type": "string"},
                               {"id": 3, "name": "d", "required": false, "type": "double"}])";

std::shared_ptr<arrow::KeyValueMetadata> Id(int id) {
  return arrow::key_value_metadata({"PARQUET:field_id"}, {std::to_string(id)});
}

class ParquetReaderTest : public ParquetTest {
 protected:
  /// Writes a table with Arrow's own writer, as other programs do; its Arrow schema is stored.
  DataFile WriteForeign(
      const arrow::Table& table, const std::string& name,
      std::shared_ptr<parquet::WriterProperties> properties = parquet::default_writer_properties(),
      bool int96 = false, int64_t rows_per_group = 1000) {
    auto sink = *io_->Create(Path(name));
    parquet::ArrowWriterProperties::Builder builder;
    builder.store_schema();
    if (int96) builder.enable_deprecated_int96_timestamps();
    EXPECT_TRUE(parquet::arrow::WriteTable(table, arrow::default_memory_pool(), sink,
                                           rows_per_group, properties, builder.build())
                    .ok());
    EXPECT_TRUE(sink->Close().ok());
    DataFile file;
    file.file_path = Path(name);
    file.record_count = table.num_rows();
    file.file_size_in_bytes = **io_->Size(Path(name));
    return file;
  }

  std::string ScanError(const Schema& schema, const DataFile& file) {
    auto result = ReadFiles(schema, {file});
    EXPECT_FALSE(result.ok());
    std::string message = result.status().message();
    EXPECT_THAT(message, HasSubstr(file.file_path));
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    return message;
  }
};

std::shared_ptr<arrow::RecordBatch> Rows(const Schema& schema, int64_t first, int64_t n,
                                         int distinct) {
  arrow::Int64Builder longs;
  arrow::StringBuilder strings;
  arrow::DoubleBuilder doubles;
  for (int64_t i = first; i < first + n; ++i) {
    EXPECT_TRUE(longs.Append(i).ok());
    EXPECT_TRUE((i % 7 == 0
                     ? strings.AppendNull()
                     : strings.Append("value " + std::to_string((i * 2654435761u >> 7) % distinct)))
                    .ok());
    EXPECT_TRUE(doubles.Append(static_cast<double>(i) / 3).ok());
  }
  return arrow::RecordBatch::Make(*schema.ToArrow(), n,
                                  {*longs.Finish(), *strings.Finish(), *doubles.Finish()});
}

TEST_F(ParquetReaderTest, ProjectsInTheOrderAskedAndAddressesRows) {
  Schema schema = SchemaOf(kFields);
  ParquetWriteOptions options;
  options.row_group_bytes = 1;  // a row group per slice of the writer
  auto first = Rows(schema, 0, 50000, 1000);
  auto second = Rows(schema, 50000, 20000, 1000);
  // Written and given in another order than that of their paths.
  ASSERT_OK_AND_ASSIGN(DataFile b, WriteFile(schema, Path("b"), {second}, options));
  ASSERT_OK_AND_ASSIGN(DataFile a, WriteFile(schema, Path("a"), {first}, options));
  ScanOptions scan;
  scan.max_batch_rows = 3000;
  ASSERT_OK_AND_ASSIGN(auto source, ScanParquetFiles(io_, schema, {b, a}, nullptr, scan));
  EXPECT_EQ(source->num_rows(), 70000);
  EXPECT_EQ(source->encoded_bytes(), a.file_size_in_bytes + b.file_size_in_bytes);
  int64_t rows = 0;
  for (int part = 0; part < source->num_parts(); ++part) {
    ASSERT_OK_AND_ASSIGN(auto stream, source->OpenPart(part, {2, 0}));
    while (true) {
      ASSERT_OK_AND_ASSIGN(auto next, stream->Next());
      if (!next) break;
      ASSERT_EQ(next->batch->num_columns(), 2);
      EXPECT_LE(next->batch->num_rows(), 3000);
      EXPECT_EQ(next->batch->schema()->field(0)->name(), "d");
      const auto& longs = static_cast<const arrow::Int64Array&>(*next->batch->column(1));
      const auto& doubles = static_cast<const arrow::DoubleArray&>(*next->batch->column(0));
      for (int64_t i = 0; i < longs.length(); ++i) {
        const uint64_t address = next->first_address + static_cast<uint64_t>(i);
        const int64_t row =
            static_cast<int64_t>(address & 0xffffffff) + ((address >> 32) ? 50000 : 0);
        ASSERT_EQ(longs.Value(i), row);
        ASSERT_EQ(doubles.Value(i), static_cast<double>(row) / 3);
        ++rows;
      }
    }
  }
  EXPECT_EQ(rows, 70000);
  EXPECT_FALSE(source->OpenPart(source->num_parts(), {0}).ok());
  EXPECT_FALSE(source->OpenPart(0, {3}).ok());
}

TEST_F(ParquetReaderTest, PartsOfOneFileOnTwoThreads) {
  Schema schema = SchemaOf(kFields);
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
  ASSERT_OK_AND_ASSIGN(auto options, ParquetWriteOptions::FromProperties(
                                         {{"write.parquet.compression-codec", "uncompressed"},
                                          {"write.parquet.row-group-size-bytes", "9000000"}},
                                         schema));
  for (int i = 0; i < 32; ++i) batches.push_back(Rows(schema, i * 50000, 50000, 1 << 30));
  ASSERT_OK_AND_ASSIGN(DataFile file, WriteFile(schema, Path("f"), batches, options));
  MemoryAccount memory(int64_t{1} << 30);
  ASSERT_OK_AND_ASSIGN(auto source, ScanParquetFiles(io_, schema, {file}, &memory));
  ASSERT_GE(source->num_parts(), 2);
  std::atomic<int> next_part{0};
  std::atomic<int64_t> sum{0};
  std::atomic<int64_t> failures{0};
  auto work = [&] {
    for (int part = next_part++; part < source->num_parts(); part = next_part++) {
      auto stream = source->OpenPart(part, {0});
      if (!stream.ok()) {
        ++failures;
        return;
      }
      while (true) {
        auto next = (*stream)->Next();
        if (!next.ok()) ++failures;
        if (!next.ok() || !*next) break;
        const auto& longs = static_cast<const arrow::Int64Array&>(*(*next)->batch->column(0));
        for (int64_t i = 0; i < longs.length(); ++i) sum += longs.Value(i);
      }
    }
  };
  std::thread other(work);
  work();
  other.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(sum, int64_t{1600000} * 1599999 / 2);
  source.reset();
  EXPECT_EQ(memory.held(), 0);
}

TEST_F(ParquetReaderTest, LargeRowGroupsAreStreamed) {
  Schema schema = SchemaOf(R"([{"id": 1, "name": "l", "required": false, "type": "long"}])");
  arrow::Int64Builder builder;
  for (int64_t i = 0; i < 3000000; ++i) ASSERT_OK(builder.Append(i * 7919 % 1000003));
  ASSERT_OK_AND_ASSIGN(auto array, builder.Finish());
  auto batch = arrow::RecordBatch::Make(*schema.ToArrow(), array->length(), {array});
  ParquetWriteOptions options;
  options.codec = "uncompressed";
  ASSERT_OK_AND_ASSIGN(DataFile file, WriteFile(schema, Path("f"), {batch}, options));
  ASSERT_EQ(file.split_offsets.size(), 1u);
  array.reset();
  batch.reset();
  MemoryAccount memory(int64_t{1} << 30);
  ASSERT_OK_AND_ASSIGN(auto source, ScanParquetFiles(io_, schema, {file}, &memory));
  ASSERT_OK_AND_ASSIGN(auto stream, source->OpenPart(0, {0}));
  const int64_t before = arrow::default_memory_pool()->bytes_allocated();
  int64_t most = 0;
  int64_t rows = 0;
  while (true) {
    ASSERT_OK_AND_ASSIGN(auto next, stream->Next());
    if (!next) break;
    rows += next->batch->num_rows();
    most = std::max(most, arrow::default_memory_pool()->bytes_allocated() - before);
  }
  EXPECT_EQ(rows, 3000000);
  EXPECT_LT(most, 6 << 20);  // of 24 MB in the row group
  EXPECT_GT(memory.peak(), 512 << 10);
  EXPECT_LT(memory.peak(), 8 << 20);
}

TEST_F(ParquetReaderTest, WideRowsComeInSmallBatches) {
  Schema schema = SchemaOf(R"([{"id": 1, "name": "s", "required": false, "type": "string"}])");
  arrow::StringBuilder builder;
  // Four distinct values of 20 kB: small as stored, large once decoded.
  for (int i = 0; i < 5000; ++i) ASSERT_OK(builder.Append(std::string(20000, 'a' + i % 4)));
  ASSERT_OK_AND_ASSIGN(auto array, builder.Finish());
  auto batch = arrow::RecordBatch::Make(*schema.ToArrow(), array->length(), {array});
  ASSERT_OK_AND_ASSIGN(DataFile file, WriteFile(schema, Path("f"), {batch}));
  ScanOptions options;
  options.max_batch_bytes = 4 << 20;
  ASSERT_OK_AND_ASSIGN(auto source, ScanParquetFiles(io_, schema, {file}, nullptr, options));
  ASSERT_OK_AND_ASSIGN(auto stream, source->OpenPart(0, {0}));
  int64_t rows = 0;
  while (true) {
    ASSERT_OK_AND_ASSIGN(auto next, stream->Next());
    if (!next) break;
    rows += next->batch->num_rows();
    EXPECT_LE(next->batch->num_rows(), 256);
  }
  EXPECT_EQ(rows, 5000);
}

TEST_F(ParquetReaderTest, DictionariesWhereAskedAndWholeColumnsHaveThem) {
  Schema schema = SchemaOf(kFields);
  auto few = Rows(schema, 0, 30000, 50);
  auto more = Rows(schema, 30000, 30000, 60);
  ParquetWriteOptions options;
  options.row_group_bytes = 100000;
  ASSERT_OK_AND_ASSIGN(DataFile a, WriteFile(schema, Path("a"), {few}, options));
  ASSERT_OK_AND_ASSIGN(DataFile b, WriteFile(schema, Path("b"), {more}, options));
  ScanOptions scan;
  scan.dictionaries = true;
  ASSERT_OK_AND_ASSIGN(auto source, ScanParquetFiles(io_, schema, {a, b}, nullptr, scan));
  ASSERT_TRUE(
      source->schema()->field(1)->type()->Equals(arrow::dictionary(arrow::int32(), arrow::utf8())));
  EXPECT_TRUE(source->schema()->field(0)->type()->Equals(arrow::int64()));
  ASSERT_OK_AND_ASSIGN(auto with, ReadFiles(schema, {a, b}, {}, scan));
  ASSERT_OK_AND_ASSIGN(auto without, ReadFiles(schema, {a, b}));
  ASSERT_EQ(with->num_rows(), without->num_rows());
  int64_t row = 0;
  auto plain_chunks = arrow::Concatenate(without->column(1)->chunks());
  ASSERT_OK(plain_chunks.status());
  const auto& plain = static_cast<const arrow::StringArray&>(**plain_chunks);
  for (const auto& chunk : with->column(1)->chunks()) {
    const auto& encoded = static_cast<const arrow::DictionaryArray&>(*chunk);
    const auto& values = static_cast<const arrow::StringArray&>(*encoded.dictionary());
    for (int64_t i = 0; i < encoded.length(); ++i, ++row) {
      ASSERT_EQ(encoded.IsNull(i), plain.IsNull(row));
      if (encoded.IsNull(i)) continue;
      ASSERT_EQ(values.GetView(encoded.GetValueIndex(i)), plain.GetView(row));
    }
  }
  // A column that is not dictionary-encoded in one of the files is plain in all batches.
  ASSERT_OK_AND_ASSIGN(auto small, ParquetWriteOptions::FromProperties(
                                       {{"write.parquet.dict-size-bytes", "100"}}, schema));
  ASSERT_OK_AND_ASSIGN(DataFile c, WriteFile(schema, Path("c"), {few}, small));
  ASSERT_OK_AND_ASSIGN(source, ScanParquetFiles(io_, schema, {a, c}, nullptr, scan));
  EXPECT_TRUE(source->schema()->field(1)->type()->Equals(arrow::utf8()));
}

TEST_F(ParquetReaderTest, PhysicalVariantsOfTheSameType) {
  Schema schema = SchemaOf(R"json([
    {"id": 1, "name": "ts", "required": false, "type": "timestamp"},
    {"id": 2, "name": "dec", "required": false, "type": "decimal(7, 2)"},
    {"id": 3, "name": "s", "required": false, "type": "string"},
    {"id": 4, "name": "i", "required": false, "type": "int"},
    {"id": 5, "name": "li", "required": false, "type": {"type": "list", "element-id": 6, "element": "string", "element-required": true}}])json");
  auto expected = BatchOf(
      schema,
      R"([[1700000000123000, "12345.67", "a", 1, ["x", "y"]], [null, null, null, null, null],
                                      [-1000, "-0.01", "bb", -128, []]])");
  auto list_type = arrow::large_list(arrow::field("item", arrow::large_utf8(), true, Id(6)));
  auto foreign = arrow::schema(
      {arrow::field("when", arrow::timestamp(arrow::TimeUnit::MILLI), true, Id(1)),
       arrow::field("dec", arrow::decimal128(7, 2), true, Id(2)),
       arrow::field("s", arrow::dictionary(arrow::int8(), arrow::utf8()), true, Id(3)),
       arrow::field("i", arrow::int8(), true, Id(4)), arrow::field("li", list_type, true, Id(5))});
  arrow::ArrayVector columns;
  auto add = [&](const std::shared_ptr<arrow::DataType>& type, const std::string& json) {
    columns.push_back(*arrow::json::ArrayFromJSONString(type, json));
  };
  add(foreign->field(0)->type(), "[1700000000123, null, -1]");
  add(foreign->field(1)->type(), R"(["12345.67", null, "-0.01"])");
  columns.push_back(*arrow::DictionaryArray::FromArrays(
      foreign->field(2)->type(), *arrow::json::ArrayFromJSONString(arrow::int8(), "[1, null, 0]"),
      *arrow::json::ArrayFromJSONString(arrow::utf8(), R"(["bb", "a"])")));
  add(foreign->field(3)->type(), "[1, null, -128]");
  add(list_type, R"([["x", "y"], null, []])");
  auto table = arrow::Table::Make(foreign, columns);
  parquet::WriterProperties::Builder integer_decimals;
  integer_decimals.enable_store_decimal_as_integer();
  DataFile flba = WriteForeign(*table, "flba");
  DataFile int32 = WriteForeign(*table, "int32", integer_decimals.build());
  DataFile int96 = WriteForeign(*table, "int96", parquet::default_writer_properties(), true);
  for (const DataFile& file : {flba, int32, int96}) {
    ASSERT_OK_AND_ASSIGN(auto read, ReadFiles(schema, {file}));
    ASSERT_OK_AND_ASSIGN(auto read_batch, read->CombineChunksToBatch());
    EXPECT_TRUE(read_batch->schema()->Equals(*expected->schema()))
        << read_batch->schema()->ToString();
    EXPECT_TRUE(read_batch->Equals(*expected)) << read_batch->ToString();
  }
}

TEST_F(ParquetReaderTest, RefusesOtherTypes) {
  auto batch = Rows(SchemaOf(kFields), 0, 10, 5);
  ASSERT_OK_AND_ASSIGN(DataFile file, WriteFile(SchemaOf(kFields), Path("f"), {batch}));
  auto with = [&](const std::string& from, const std::string& to) {
    std::string fields = kFields;
    size_t at = fields.find(from);
    EXPECT_NE(at, std::string::npos);
    return SchemaOf(fields.replace(at, from.size(), to));
  };
  std::string message = ScanError(with("\"long\"", "\"int\""), file);
  EXPECT_THAT(message, HasSubstr("\"l\""));
  EXPECT_THAT(message, HasSubstr("int in the table's schema"));
  EXPECT_THAT(ScanError(with("\"double\"", "\"float\""), file), HasSubstr("\"d\""));
  EXPECT_THAT(ScanError(with("\"string\"", "\"binary\""), file), HasSubstr("\"s\""));
  // The name plays no part.
  ASSERT_OK(ReadFiles(with("\"l\"", "\"renamed\""), {file}).status());

  DataFile miscounted = file;
  miscounted.record_count = 11;
  EXPECT_THAT(ScanError(SchemaOf(kFields), miscounted),
              HasSubstr("10 rows, the table's manifest 11"));

  auto plain = arrow::schema({arrow::field("l", arrow::int64())});
  DataFile without_ids = WriteForeign(*arrow::Table::Make(plain, {batch->column(0)}), "no-ids");
  EXPECT_THAT(ScanError(SchemaOf(R"([{"id": 1, "name": "l", "required": false, "type": "long"}])"),
                        without_ids),
              HasSubstr("no field ids"));
  auto ns =
      arrow::schema({arrow::field("t", arrow::timestamp(arrow::TimeUnit::NANO), true, Id(1))});
  DataFile nanos = WriteForeign(
      *arrow::Table::Make(ns, {*arrow::json::ArrayFromJSONString(ns->field(0)->type(), "[1]")}),
      "ns");
  EXPECT_THAT(
      ScanError(SchemaOf(R"([{"id": 1, "name": "t", "required": false, "type": "timestamp"}])"),
                nanos),
      HasSubstr("\"t\""));
  ASSERT_OK(
      ReadFiles(SchemaOf(R"([{"id": 1, "name": "t", "required": false, "type": "timestamp_ns"}])"),
                {nanos})
          .status());
}

TEST_F(ParquetReaderTest, RefusesWhatIsNoParquet) {
  Schema schema = SchemaOf(kFields);
  DataFile file;
  file.record_count = 1;
  file.file_path = Path("missing");
  ScanError(schema, file);
  for (std::string bytes : {"", "PAR1", "PAR1PAR1", "hello world, this is no Parquet file"}) {
    file.file_path = Path(fmt::format("bytes-{}", bytes.size()));
    ASSERT_OK(io_->WriteNew(file.file_path, bytes));
    ScanError(schema, file);
    EXPECT_FALSE(ReadParquetFooter(*io_, file.file_path).ok());
  }
}

// Cut and damaged files give an error or rows of the right shape, never a crash or a hang.
TEST_F(ParquetReaderTest, DamagedFiles) {
  Schema schema = SchemaOf(R"([{"id": 1, "name": "l", "required": false, "type": "long"},
    {"id": 2, "name": "s", "required": false, "type": "string"},
    {"id": 3, "name": "li", "required": false, "type": {"type": "list", "element-id": 4, "element": "string", "element-required": false}}])");
  std::string rows = "[";
  for (int i = 0; i < 400; ++i) {
    rows += fmt::format("{}[{}, \"v{}\", [\"{}\", null, \"x\"]]", i ? "," : "", i, i % 17, i * i);
  }
  auto batch = BatchOf(schema, rows + "]");
  ASSERT_OK_AND_ASSIGN(auto expected, arrow::Table::FromRecordBatches({batch, batch}));
  std::mt19937_64 random(20261130);
  for (std::string codec : {"uncompressed", "zstd", "snappy"}) {
    ParquetWriteOptions options;
    options.codec = codec;
    options.page_rows = 100;
    std::string intact = Path("intact-" + codec);
    ASSERT_OK_AND_ASSIGN(DataFile file, WriteFile(schema, intact, {batch, batch}, options));
    ASSERT_OK_AND_ASSIGN(std::string bytes, io_->ReadAll(intact));
    int64_t pages_end = 4;  // behind the magic
    for (const auto& [id, size] : file.column_sizes) pages_end += size;
    int errors = 0;
    for (int round = 0; round < 400; ++round) {
      std::string damaged = bytes;
      const bool in_pages = round % 2 == 1;
      if (round % 4 == 0) {
        damaged.resize(random() % damaged.size());
      } else {
        const size_t begin = in_pages ? 4 : pages_end;
        const size_t end = in_pages ? pages_end : damaged.size();
        for (uint64_t flips = 1 + random() % 3; flips > 0; --flips) {
          damaged[begin + random() % (end - begin)] ^= static_cast<char>(1 + random() % 255);
        }
      }
      file.file_path = Path(fmt::format("{}-{}", codec, round));
      std::ofstream(file.file_path, std::ios::binary) << damaged;
      auto table = ReadFiles(schema, {file});
      if (!table.ok()) {
        ++errors;
      } else {
        EXPECT_EQ((*table)->num_rows(), 800);
      }
      // Checksums guard the pages; what a damaged footer says about them is guarded by nothing.
      if (!in_pages) continue;
      if (table.ok()) {
        EXPECT_TRUE((*table)->Equals(*expected)) << file.file_path;
      } else {
        EXPECT_THAT(table.status().message(), HasSubstr(file.file_path));
      }
    }
    EXPECT_GT(errors, 100) << codec;
  }
}

}  // namespace
}  // namespace thalweg::iceberg
