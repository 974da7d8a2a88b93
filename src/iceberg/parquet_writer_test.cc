#include "iceberg/parquet_writer.h"

#include <arrow/compute/api.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <parquet/file_reader.h>
#include <parquet/page_index.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <random>

#include "iceberg/parquet_test_util.h"

namespace thalweg::iceberg {
namespace {

using ::testing::HasSubstr;

class ParquetWriterTest : public ParquetTest {};

TEST_F(ParquetWriterTest, AllTypesComeBack) {
  Schema schema = SchemaOf(kAllTypes);
  auto batch = BatchOf(schema, kAllRows);
  for (std::string codec : {"zstd", "gzip", "snappy", "lz4", "brotli", "uncompressed"}) {
    ASSERT_OK_AND_ASSIGN(auto options, ParquetWriteOptions::FromProperties(
                                           {{"write.parquet.compression-codec", codec}}, schema));
    std::string location = Path(codec + ".parquet");
    ASSERT_OK_AND_ASSIGN(DataFile file, WriteFile(schema, location, {batch, batch}, options));
    EXPECT_EQ(file.record_count, 8);
    EXPECT_EQ(file.file_size_in_bytes, static_cast<int64_t>(std::filesystem::file_size(location)));
    ASSERT_OK_AND_ASSIGN(auto table, ReadFiles(schema, {file}));
    ASSERT_OK_AND_ASSIGN(auto expected, arrow::Table::FromRecordBatches({batch, batch}));
    EXPECT_TRUE(table->Equals(
        *expected, arrow::EqualOptions::Defaults().nans_equal(true).signed_zeros_equal(false)))
        << codec << "\n"
        << table->ToString();
  }
}

TEST_F(ParquetWriterTest, DecimalsOfEveryPrecision) {
  for (int precision = 1; precision <= 38; ++precision) {
    Schema schema = SchemaOf(fmt::format(
        R"json([{{"id": 4, "name": "d", "required": false, "type": "decimal({}, {})"}}])json",
        precision, precision / 2));
    auto type = arrow::decimal128(precision, precision / 2);
    arrow::Decimal128Builder builder(type);
    arrow::Decimal128 most(arrow::Decimal128::GetMaxValue(precision));
    arrow::Decimal128 least(-most);
    for (auto value : {most, least, arrow::Decimal128(0), arrow::Decimal128(-1)}) {
      ASSERT_OK(builder.Append(value));
    }
    ASSERT_OK(builder.AppendNull());
    ASSERT_OK_AND_ASSIGN(auto array, builder.Finish());
    auto batch = arrow::RecordBatch::Make(*schema.ToArrow(), array->length(), {array});
    ASSERT_OK_AND_ASSIGN(DataFile file,
                         WriteFile(schema, Path(std::to_string(precision)), {batch}));
    ASSERT_OK_AND_ASSIGN(auto table, ReadFiles(schema, {file}));
    EXPECT_TRUE(table->column(0)->chunk(0)->Equals(*array)) << precision;
  }
}

TEST_F(ParquetWriterTest, DictionaryInputEqualsPlain) {
  Schema schema = SchemaOf(R"([{"id": 1, "name": "s", "required": false, "type": "string"},
                               {"id": 2, "name": "l", "required": false, "type": "long"}])");
  auto plain =
      BatchOf(schema, R"([["b", 1], ["a", 2], [null, 3], ["b", 4], ["c", null], ["a", 6]])");
  ASSERT_OK_AND_ASSIGN(auto encoded, arrow::compute::DictionaryEncode(plain->column(0)));
  arrow::ArrayVector columns = {encoded.make_array(), plain->column(1)};
  auto with_dictionary = arrow::RecordBatch::Make(
      arrow::schema({arrow::field("s", columns[0]->type()), arrow::field("l", arrow::int64())}), 6,
      columns);
  ASSERT_OK_AND_ASSIGN(DataFile a, WriteFile(schema, Path("a"), {plain, plain->Slice(1, 3)}));
  ASSERT_OK_AND_ASSIGN(
      DataFile b, WriteFile(schema, Path("b"), {with_dictionary, with_dictionary->Slice(1, 3)}));
  ASSERT_OK_AND_ASSIGN(auto table_a, ReadFiles(schema, {a}));
  ASSERT_OK_AND_ASSIGN(auto table_b, ReadFiles(schema, {b}));
  EXPECT_EQ(table_a->num_rows(), 9);
  EXPECT_TRUE(table_a->Equals(*table_b)) << table_b->ToString();
  EXPECT_EQ(a.lower_bounds, b.lower_bounds);
  EXPECT_EQ(a.upper_bounds, b.upper_bounds);
  EXPECT_EQ(a.null_value_counts, b.null_value_counts);
}

/// n rows of a long that counts up and a string of `width` random letters.
std::shared_ptr<arrow::RecordBatch> RandomRows(const Schema& schema, int64_t n, int width,
                                               int seed) {
  std::mt19937_64 random(seed);
  arrow::Int64Builder longs;
  arrow::StringBuilder strings;
  std::string text(width, ' ');
  for (int64_t i = 0; i < n; ++i) {
    EXPECT_TRUE(longs.Append(i).ok());
    for (char& c : text) c = static_cast<char>('a' + random() % 26);
    EXPECT_TRUE(strings.Append(text).ok());
  }
  return arrow::RecordBatch::Make(*schema.ToArrow(), n, {*longs.Finish(), *strings.Finish()});
}

constexpr char kLongAndString[] = R"([{"id": 1, "name": "l", "required": false, "type": "long"},
                                      {"id": 2, "name": "s", "required": false, "type": "string"}])";

TEST_F(ParquetWriterTest, RowGroupsPagesAndSplitOffsets) {
  Schema schema = SchemaOf(kLongAndString);
  ASSERT_OK_AND_ASSIGN(auto options, ParquetWriteOptions::FromProperties(
                                         {{"write.parquet.row-group-size-bytes", "1000000"},
                                          {"write.parquet.page-row-limit", "5000"}},
                                         schema));
  ASSERT_OK_AND_ASSIGN(auto writer, ParquetFileWriter::Open(io_, schema, Path("f"), options));
  auto batch = RandomRows(schema, 60000, 40, 1);
  int64_t last_estimate = 0;
  for (int64_t begin = 0; begin < 60000; begin += 20000) {
    ASSERT_OK(writer->Write(*batch->Slice(begin, 20000)));
    EXPECT_GE(writer->bytes_estimate(), last_estimate);
    last_estimate = writer->bytes_estimate();
  }
  ASSERT_OK(writer->EndRowGroup());
  ASSERT_OK(writer->EndRowGroup());  // nothing was written in between: no empty row group
  ASSERT_OK(writer->Write(*batch->Slice(0, 10)));
  ASSERT_OK(writer->EndRowGroup());
  ASSERT_OK_AND_ASSIGN(DataFile file, writer->Finish());
  EXPECT_EQ(file.record_count, 60010);
  EXPECT_NEAR(static_cast<double>(last_estimate), static_cast<double>(file.file_size_in_bytes),
              0.1 * file.file_size_in_bytes);

  auto reader = parquet::ParquetFileReader::OpenFile(Path("f"));
  auto metadata = reader->metadata();
  ASSERT_GE(metadata->num_row_groups(), 3);
  ASSERT_EQ(static_cast<int>(file.split_offsets.size()), metadata->num_row_groups());
  EXPECT_EQ(metadata->RowGroup(metadata->num_row_groups() - 1)->num_rows(), 10);
  EXPECT_TRUE(std::is_sorted(file.split_offsets.begin(), file.split_offsets.end()));
  EXPECT_EQ(file.split_offsets[0], 4);  // behind the magic
  for (int i = 0; i < metadata->num_row_groups(); ++i) {
    EXPECT_GT(metadata->RowGroup(i)->num_rows(), 0);
    auto index = reader->GetPageIndexReader()->RowGroup(i);
    auto offsets = index->GetOffsetIndex(1);
    ASSERT_NE(offsets, nullptr);
    ASSERT_NE(index->GetColumnIndex(1), nullptr);
    const auto& pages = offsets->page_locations();
    for (size_t page = 1; page < pages.size(); ++page) {
      EXPECT_LE(pages[page].first_row_index - pages[page - 1].first_row_index, 5000);
    }
  }
  EXPECT_EQ(metadata->created_by().substr(0, 7), "thalweg");
}

// Dictionaries where values repeat, none where they do not; files stay small either way.
TEST_F(ParquetWriterTest, EncodingsFollowTheData) {
  Schema schema = SchemaOf(R"([{"id": 1, "name": "unique", "required": false, "type": "long"},
                               {"id": 2, "name": "few", "required": false, "type": "string"},
                               {"id": 3, "name": "random", "required": false, "type": "string"},
                               {"id": 4, "name": "null", "required": false, "type": "string"}])");
  std::mt19937_64 random(5);
  arrow::Int64Builder unique;
  arrow::StringBuilder few;
  arrow::StringBuilder hex;
  for (int i = 0; i < 50000; ++i) {
    ASSERT_OK(unique.Append(static_cast<int64_t>(random() >> 20)));
    ASSERT_OK(few.Append(fmt::format("country number {}", random() % 200)));
    ASSERT_OK(hex.Append(fmt::format("{:016x}{:016x}", random(), random())));
  }
  ASSERT_OK_AND_ASSIGN(auto nulls, arrow::MakeArrayOfNull(arrow::utf8(), 50000));
  auto batch = arrow::RecordBatch::Make(*schema.ToArrow(), 50000,
                                        {*unique.Finish(), *few.Finish(), *hex.Finish(), nulls});
  ASSERT_OK_AND_ASSIGN(auto options, ParquetWriteOptions::FromProperties({}, schema));
  ASSERT_OK_AND_ASSIGN(auto more, ParquetWriteOptions::FromProperties({}, schema));
  EXPECT_EQ(options.encodings, more.encodings);  // found once for all files of a table
  for (int round = 0; round < 2; ++round) {
    std::string location = Path(std::to_string(round));
    ASSERT_OK_AND_ASSIGN(DataFile file, WriteFile(schema, location, {batch}, options));
    auto metadata = parquet::ParquetFileReader::OpenFile(location)->metadata();
    auto group = metadata->RowGroup(0);
    EXPECT_FALSE(group->ColumnChunk(0)->has_dictionary_page());
    EXPECT_TRUE(group->ColumnChunk(1)->has_dictionary_page());
    EXPECT_FALSE(group->ColumnChunk(2)->has_dictionary_page());
    // A row cannot do with less than 44, log2(200) and 128 bits. A dictionary of the first would
    // need 16 more for its index.
    EXPECT_LT(file.column_sizes[1], 50000 * (44 + 16) / 8);
    EXPECT_LT(file.column_sizes[2], 1.15 * 50000 * 8 / 8);
    EXPECT_LT(file.column_sizes[3], 1.15 * 50000 * 128 / 8);
    ASSERT_OK_AND_ASSIGN(auto table, ReadFiles(schema, {file}));
    ASSERT_OK_AND_ASSIGN(auto expected, arrow::Table::FromRecordBatches({batch}));
    EXPECT_TRUE(table->Equals(*expected));
  }
}

TEST_F(ParquetWriterTest, StampsAreKept) {
  Schema schema = SchemaOf(kLongAndString);
  ParquetWriteOptions options;
  options.key_values = {{"thalweg.cube", "c-1"}, {"thalweg.run", "größe"}};
  ASSERT_OK_AND_ASSIGN(DataFile file, WriteFile(schema, Path("f"), {}, options));
  EXPECT_EQ(file.record_count, 0);
  ASSERT_OK_AND_ASSIGN(auto footer, ReadParquetFooter(*io_, Path("f")));
  EXPECT_EQ(footer.rows, 0);
  EXPECT_EQ(footer.key_values, options.key_values);
  ASSERT_OK_AND_ASSIGN(auto table, ReadFiles(schema, {file}));
  EXPECT_EQ(table->num_rows(), 0);
}

TEST_F(ParquetWriterTest, UnfinishedFilesAreDeleted) {
  Schema schema = SchemaOf(kLongAndString);
  auto batch = RandomRows(schema, 1000, 10, 2);
  {
    ASSERT_OK_AND_ASSIGN(auto writer, ParquetFileWriter::Open(io_, schema, Path("a"), {}));
    ASSERT_OK(writer->Write(*batch));
    EXPECT_TRUE(std::filesystem::exists(Path("a")));
  }
  EXPECT_FALSE(std::filesystem::exists(Path("a")));
  ASSERT_OK_AND_ASSIGN(auto writer, ParquetFileWriter::Open(io_, schema, Path("b"), {}));
  ASSERT_OK(writer->Write(*batch));
  ASSERT_OK(writer->Discard());
  EXPECT_FALSE(std::filesystem::exists(Path("b")));
  EXPECT_FALSE(writer->Write(*batch).ok());
  EXPECT_FALSE(writer->Finish().ok());
}

TEST_F(ParquetWriterTest, FinishedFilesStayUntilTheyAreDiscarded) {
  Schema schema = SchemaOf(kLongAndString);
  auto batch = RandomRows(schema, 1000, 10, 2);
  {
    ASSERT_OK_AND_ASSIGN(auto kept, ParquetFileWriter::Open(io_, schema, Path("a"), {}));
    ASSERT_OK(kept->Write(*batch));
    ASSERT_OK(kept->Finish().status());
  }
  EXPECT_TRUE(std::filesystem::exists(Path("a")));
  ASSERT_OK_AND_ASSIGN(auto writer, ParquetFileWriter::Open(io_, schema, Path("b"), {}));
  ASSERT_OK(writer->Write(*batch));
  ASSERT_OK(writer->Finish().status());
  ASSERT_OK(writer->Discard());
  EXPECT_FALSE(std::filesystem::exists(Path("b")));
}

TEST_F(ParquetWriterTest, NeverOverwritesAFile) {
  Schema schema = SchemaOf(kLongAndString);
  ASSERT_OK(io_->WriteNew(Path("a"), "precious"));
  EXPECT_FALSE(ParquetFileWriter::Open(io_, schema, Path("a"), {}).ok());
  ASSERT_OK_AND_ASSIGN(std::string text, io_->ReadAll(Path("a")));
  EXPECT_EQ(text, "precious");
}

TEST_F(ParquetWriterTest, FullDiskNamesTheFileAndLeavesNothing) {
  Schema schema = SchemaOf(kLongAndString);
  ASSERT_OK_AND_ASSIGN(auto options,
                       ParquetWriteOptions::FromProperties(
                           {{"write.parquet.row-group-size-bytes", "100000"}}, schema));
  auto batch = RandomRows(schema, 50000, 40, 3);
  // A file size limit stands for the full disk: writes beyond it fail with an error of the system.
  auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  rlimit small = old;
  small.rlim_cur = 300000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  auto result = WriteFile(schema, Path("full"), {batch, batch}, options);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
  std::signal(SIGXFSZ, before);
  ASSERT_FALSE(result.ok());
  EXPECT_THAT(result.status().message(), HasSubstr(Path("full")));
  EXPECT_EQ(result.status().message().find('\n'), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(Path("full")));
}

TEST_F(ParquetWriterTest, RefusesWhatDoesNotFitTheSchema) {
  Schema schema = SchemaOf(R"([{"id": 1, "name": "l", "required": true, "type": "long"}])");
  auto strings = SchemaOf(R"([{"id": 1, "name": "l", "required": true, "type": "string"}])");
  ASSERT_OK_AND_ASSIGN(auto writer, ParquetFileWriter::Open(io_, schema, Path("a"), {}));
  auto status = writer->Write(*BatchOf(SchemaOf(kLongAndString), R"([[1, "a"]])"));
  EXPECT_THAT(status.message(), HasSubstr("2 columns for a schema of 1"));
  ASSERT_OK_AND_ASSIGN(writer, ParquetFileWriter::Open(io_, schema, Path("b"), {}));
  status = writer->Write(*BatchOf(strings, R"([["x"]])"));
  EXPECT_THAT(status.message(), HasSubstr("column \"l\""));
  ASSERT_OK_AND_ASSIGN(writer, ParquetFileWriter::Open(io_, schema, Path("c"), {}));
  status = writer->Write(
      *BatchOf(SchemaOf(R"([{"id": 1, "name": "l", "required": false, "type": "long"}])"),
               R"([[1], [null]])"));
  EXPECT_THAT(status.message(), HasSubstr("is required in the table's schema and has nulls"));
}

TEST_F(ParquetWriterTest, ManyColumns) {
  std::string fields = "[";
  for (int i = 0; i < 400; ++i) {
    fields += fmt::format(R"({}{{"id": {}, "name": "c{}", "required": false, "type": "{}"}})",
                          i ? "," : "", i + 1, i, i % 2 ? "long" : "string");
  }
  Schema schema = SchemaOf(fields + "]");
  std::string rows = "[";
  for (int r = 0; r < 100; ++r) {
    rows += r ? ",[" : "[";
    for (int i = 0; i < 400; ++i) {
      rows += fmt::format("{}{}", i ? "," : "",
                          i % 2 ? fmt::format("{}", r * i) : fmt::format("\"v{}\"", r));
    }
    rows += "]";
  }
  auto batch = BatchOf(schema, rows + "]");
  ASSERT_OK_AND_ASSIGN(auto options, ParquetWriteOptions::FromProperties({}, schema));
  options.clustering_field_ids = {399};
  MemoryAccount memory(int64_t{1} << 40);
  options.memory = &memory;
  ASSERT_OK_AND_ASSIGN(DataFile file, WriteFile(schema, Path("wide"), {batch, batch}, options));
  EXPECT_GT(memory.peak(), 0);
  EXPECT_EQ(memory.held(), 0);
  // The first hundred columns and the clustering column have bounds.
  EXPECT_EQ(file.lower_bounds.size(), 101u);
  EXPECT_TRUE(file.lower_bounds.contains(100));
  EXPECT_FALSE(file.lower_bounds.contains(101));
  EXPECT_TRUE(file.lower_bounds.contains(399));
  EXPECT_EQ(file.column_sizes.size(), 400u);
  EXPECT_EQ(file.value_counts.size(), 101u);
  ASSERT_OK_AND_ASSIGN(auto table, ReadFiles(schema, {file}));
  ASSERT_OK_AND_ASSIGN(auto expected, arrow::Table::FromRecordBatches({batch, batch}));
  EXPECT_TRUE(table->Equals(*expected));
}

TEST_F(ParquetWriterTest, BloomFiltersWhereAsked) {
  Schema schema = SchemaOf(kLongAndString);
  ASSERT_OK_AND_ASSIGN(auto options,
                       ParquetWriteOptions::FromProperties(
                           {{"write.parquet.bloom-filter-enabled.column.s", "true"},
                            {"write.parquet.bloom-filter-enabled.column.gone", "true"}},
                           schema));
  ASSERT_OK(WriteFile(schema, Path("f"), {RandomRows(schema, 1000, 12, 4)}, options).status());
  auto metadata = parquet::ParquetFileReader::OpenFile(Path("f"))->metadata();
  EXPECT_FALSE(metadata->RowGroup(0)->ColumnChunk(0)->bloom_filter_offset().has_value());
  ASSERT_TRUE(metadata->RowGroup(0)->ColumnChunk(1)->bloom_filter_offset().has_value());
  EXPECT_LE(*metadata->RowGroup(0)->ColumnChunk(1)->bloom_filter_length(), (1 << 20) + 64);
}

TEST_F(ParquetWriterTest, MalformedPropertiesAreNamed) {
  Schema schema = SchemaOf(kLongAndString);
  auto message = [&](const std::string& key, const std::string& value) {
    return ParquetWriteOptions::FromProperties({{key, value}}, schema).status().message();
  };
  for (std::string key : {"write.parquet.row-group-size-bytes", "write.parquet.page-size-bytes",
                          "write.parquet.dict-size-bytes", "write.parquet.page-row-limit"}) {
    for (std::string value : {"", "0", "-1", "1MB", "99999999999999999999"}) {
      EXPECT_THAT(message(key, value), HasSubstr(key)) << value;
    }
  }
  std::string codec = message("write.parquet.compression-codec", "lzo");
  EXPECT_THAT(codec, HasSubstr("write.parquet.compression-codec"));
  EXPECT_THAT(codec, HasSubstr("zstd"));
  EXPECT_THAT(message("write.parquet.compression-level", "99"),
              HasSubstr("write.parquet.compression-level"));
  EXPECT_THAT(message("write.parquet.compression-level", "x"),
              HasSubstr("write.parquet.compression-level"));
  EXPECT_THAT(message("write.metadata.metrics.default", "truncate(0)"),
              HasSubstr("write.metadata.metrics.default"));
  EXPECT_THAT(message("write.metadata.metrics.column.s", "some"),
              HasSubstr("write.metadata.metrics.column.s"));
  EXPECT_THAT(message("write.parquet.bloom-filter-enabled.column.s", "ja"),
              HasSubstr("bloom-filter-enabled.column.s"));
  ASSERT_OK_AND_ASSIGN(auto options, ParquetWriteOptions::FromProperties(
                                         {{"write.parquet.compression-codec", "ZSTD"},
                                          {"write.parquet.compression-level", "9"}},
                                         schema));
  EXPECT_EQ(options.codec, "zstd");
  EXPECT_EQ(options.codec_level, 9);
}

/// Exchanges files with the readers and writers of other projects: test/iceberg_parquet_test.py
/// runs these.
class ParquetInterop : public ParquetTest {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("THALWEG_INTEROP_DIR");
    if (folder == nullptr) GTEST_SKIP() << "THALWEG_INTEROP_DIR is not set";
    shared_ = std::string(folder) + "/";
  }
  std::string shared_;
};

TEST_F(ParquetInterop, WritesAllTypes) {
  Schema schema = SchemaOf(kAllTypes);
  auto batch = BatchOf(schema, kAllRows);
  ParquetWriteOptions options;
  options.key_values = {{"thalweg.run", "r-1"}};
  ASSERT_OK_AND_ASSIGN(DataFile file,
                       WriteFile(schema, shared_ + "all-types.parquet", {batch, batch}, options));
  ASSERT_OK(io_->WriteNew(shared_ + "all-types.json", DumpJson(DataFileToJson(file))));
  ASSERT_OK(io_->WriteNew(shared_ + "all-types.schema.json", DumpJson(schema.ToJson())));
}

// Every NAME.in.parquet with the schema NAME.schema.json becomes NAME.out.parquet.
TEST_F(ParquetInterop, RewritesFilesOfOthers) {
  const std::string suffix = ".in.parquet";
  int files = 0;
  for (const std::string& name : FilesIn(shared_)) {
    if (!name.ends_with(suffix)) continue;
    const std::string stem = shared_ + name.substr(0, name.size() - suffix.size());
    ASSERT_OK_AND_ASSIGN(std::string text, io_->ReadAll(stem + ".schema.json"));
    ASSERT_OK_AND_ASSIGN(auto json, ParseJson(text, stem));
    ASSERT_OK_AND_ASSIGN(Schema schema, Schema::FromJson(json));
    DataFile file;
    file.file_path = shared_ + name;
    ASSERT_OK_AND_ASSIGN(auto footer, ReadParquetFooter(*io_, file.file_path));
    file.record_count = footer.rows;
    ASSERT_OK_AND_ASSIGN(auto table, ReadFiles(schema, {file}));
    ASSERT_OK_AND_ASSIGN(auto arrow_schema, schema.ToArrow());
    EXPECT_TRUE(table->schema()->Equals(*arrow_schema)) << name;
    ASSERT_OK_AND_ASSIGN(auto batch, table->CombineChunksToBatch());
    ASSERT_OK(WriteFile(schema, stem + ".out.parquet", {batch}).status());
    ++files;
  }
  EXPECT_GT(files, 0);
}

// Every NAME.scan.json (schema, name-mapping or null, files) becomes NAME.out.parquet, or the
// message of the refusal NAME.error.
TEST_F(ParquetInterop, ScansTables) {
  const std::string suffix = ".scan.json";
  int tables = 0;
  for (const std::string& name : FilesIn(shared_)) {
    if (!name.ends_with(suffix)) continue;
    const std::string stem = shared_ + name.substr(0, name.size() - suffix.size());
    ASSERT_OK_AND_ASSIGN(std::string text, io_->ReadAll(shared_ + name));
    ASSERT_OK_AND_ASSIGN(auto json, ParseJson(text, name));
    ASSERT_OK_AND_ASSIGN(Schema schema, Schema::FromJson(json["schema"]));
    ScanOptions options;
    std::map<std::string, std::string> properties;
    if (json["name-mapping"].is_string()) {
      properties["schema.name-mapping.default"] = json["name-mapping"].get<std::string>();
    }
    ASSERT_OK_AND_ASSIGN(options.name_mapping, NameMapping::FromProperties(properties));
    std::vector<DataFile> files;
    for (const Json& path : json["files"]) {
      DataFile& file = files.emplace_back();
      file.file_path = path.get<std::string>();
      ASSERT_OK_AND_ASSIGN(auto footer, ReadParquetFooter(*io_, file.file_path));
      file.record_count = footer.rows;
    }
    ++tables;
    auto table = ReadFiles(schema, files, {}, options);
    if (!table.ok()) {
      ASSERT_OK(io_->WriteNew(stem + ".error", table.status().message()));
      continue;
    }
    ASSERT_OK_AND_ASSIGN(auto batch, (*table)->CombineChunksToBatch());
    ASSERT_OK_AND_ASSIGN(DataFile written, WriteFile(schema, stem + ".out.parquet", {batch}));
    ASSERT_OK(io_->WriteNew(stem + ".out.json", DumpJson(DataFileToJson(written))));
  }
  EXPECT_GT(tables, 0);
}

TEST(DataFileJson, ComesBack) {
  DataFile file;
  file.content = FileContent::kEqualityDeletes;
  file.file_path = "/a/b.parquet";
  file.partition_avro = std::string("\x00\xff", 2);
  file.record_count = 5;
  file.file_size_in_bytes = 1234;
  file.column_sizes = {{1, 10}, {2147483546, 20}};
  file.value_counts = {{1, 5}};
  file.null_value_counts = {{1, 0}};
  file.nan_value_counts = {{1, 2}};
  file.lower_bounds = {{1, std::string("\x00\x7f\xff", 3)}, {2, ""}};
  file.upper_bounds = {{1, "z"}};
  file.key_metadata = "k";
  file.split_offsets = {4, 100};
  file.equality_ids = {1};
  file.sort_order_id = 0;
  file.first_row_id = 7;
  file.referenced_data_file = "/c";
  file.content_offset = 3;
  file.content_size_in_bytes = 9;
  std::string text = DumpJson(DataFileToJson(file));
  EXPECT_THAT(text, HasSubstr("\"1\":\"007fff\""));
  ASSERT_OK_AND_ASSIGN(auto json, ParseJson(text, "test"));
  ASSERT_OK_AND_ASSIGN(DataFile back, DataFileFromJson(json));
  EXPECT_EQ(back, file);
  ASSERT_OK_AND_ASSIGN(DataFile empty, DataFileFromJson(DataFileToJson(DataFile())));
  EXPECT_EQ(empty, DataFile());
  for (
      std::string bad :
      {R"([])", R"({"content": 3})",
       R"({"content":0,"file_path":"a","file_format":"P","record_count":-1,"file_size_in_bytes":1})",
       R"({"content":0,"file_path":"a","file_format":"P","record_count":1,"file_size_in_bytes":1,"lower_bounds":{"1":"0g"}})",
       R"({"content":0,"file_path":"a","file_format":"P","record_count":1,"file_size_in_bytes":1,"lower_bounds":{"x":"00"}})",
       R"({"content":0,"file_path":"a","file_format":"P","record_count":1,"file_size_in_bytes":1,"equality_ids":[99999999999]})"}) {
    ASSERT_OK_AND_ASSIGN(auto parsed, ParseJson(bad, "test"));
    EXPECT_FALSE(DataFileFromJson(parsed).ok()) << bad;
  }
}

}  // namespace
}  // namespace thalweg::iceberg
