#include "iceberg/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "iceberg/avro_file.h"
#include "util/json.h"
#include "util/status.h"

namespace thalweg::iceberg {
namespace {

using ::testing::HasSubstr;

constexpr char kSchema[] =
    R"({"type":"struct","schema-id":7,"fields":[{"id":1,"name":"a","required":true,"type":"long"},)"
    R"({"id":2,"name":"b","required":false,"type":"string"}]})";

ManifestWriteOptions Options(int version = 2, std::string content = "data") {
  ManifestWriteOptions options;
  options.header.schema_json = kSchema;
  options.header.schema_id = 7;
  options.header.partition_spec_json = "[]";
  options.header.format_version = version;
  options.header.content = std::move(content);
  return options;
}

class RandomEntries {
 public:
  explicit RandomEntries(uint32_t seed) : random_(seed) {}

  ManifestEntry Next(int version, bool deletes) {
    ManifestEntry entry;
    entry.status = static_cast<EntryStatus>(Below(3));
    bool explicit_numbers = entry.status != EntryStatus::kAdded;
    if (explicit_numbers || Coin()) entry.snapshot_id = Number();
    if (explicit_numbers || Coin()) entry.sequence_number = Number();
    if (explicit_numbers || Coin()) entry.file_sequence_number = Number();
    DataFile& file = entry.file;
    if (deletes)
      file.content = Coin() ? FileContent::kPositionDeletes : FileContent::kEqualityDeletes;
    file.file_path = "s3://bucket/" + Text(40);
    file.file_format = Coin() ? "PARQUET" : "ORC";
    file.record_count = Number();
    file.file_size_in_bytes = Number();
    for (auto* map : {&file.column_sizes, &file.value_counts, &file.null_value_counts,
                      &file.nan_value_counts}) {
      for (int i = Below(4) * Below(5); i > 0; --i) (*map)[Below(INT32_MAX)] = Number();
    }
    for (auto* map : {&file.lower_bounds, &file.upper_bounds}) {
      for (int i = Below(4) * Below(5); i > 0; --i) (*map)[Below(2000)] = Text(30);
    }
    if (Coin()) file.key_metadata = Text(10);
    for (int i = Below(3) * Below(4); i > 0; --i) file.split_offsets.push_back(Number());
    for (int i = deletes ? Below(4) : 0; i > 0; --i) file.equality_ids.push_back(Below(INT32_MAX));
    if (Coin()) file.sort_order_id = Below(100);
    if (Coin()) file.referenced_data_file = Text(20);
    if (version >= 3) {
      if (Coin()) file.first_row_id = Number();
      if (Coin()) file.content_offset = Number();
      if (Coin()) file.content_size_in_bytes = Number();
    }
    return entry;
  }

  ManifestFile NextManifest(int version) {
    ManifestFile m;
    m.manifest_path = "file:///t/metadata/" + Text(20) + ".avro";
    m.manifest_length = Number();
    m.partition_spec_id = Below(9);
    m.content = Below(2);
    m.sequence_number = Number();
    m.min_sequence_number = Number();
    m.added_snapshot_id = Number();
    for (auto* count : {&m.added_files_count, &m.existing_files_count, &m.deleted_files_count}) {
      *count = Below(INT32_MAX);
    }
    for (auto* count : {&m.added_rows_count, &m.existing_rows_count, &m.deleted_rows_count}) {
      *count = Number();
    }
    if (Coin()) {
      auto& partitions = m.partitions.emplace();
      for (int i = Below(4); i > 0; --i) {
        auto& summary = partitions.emplace_back();
        summary.contains_null = Coin();
        if (Coin()) summary.contains_nan = Coin();
        if (Coin()) summary.lower_bound = Text(9);
        if (Coin()) summary.upper_bound = Text(9);
      }
    }
    if (Coin()) m.key_metadata = Text(8);
    if (version >= 3 && Coin()) m.first_row_id = Number();
    return m;
  }

  int Below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }

 private:
  bool Coin() { return Below(2) == 1; }
  // Of any magnitude, so that all varint lengths occur.
  int64_t Number() { return static_cast<int64_t>((random_() & INT64_MAX) >> Below(63)); }
  // Printable ASCII: the interop tests store it as text too.
  std::string Text(int longest) {
    std::string text(Below(longest + 1), ' ');
    for (char& c : text) c = static_cast<char>('!' + Below(90));
    return text;
  }

  std::mt19937_64 random_;
};

std::vector<ManifestEntry> Entries(uint32_t seed, int count, int version = 2,
                                   bool deletes = false) {
  RandomEntries random(seed);
  std::vector<ManifestEntry> entries;
  for (int i = 0; i < count; ++i) entries.push_back(random.Next(version, deletes));
  return entries;
}

arrow::Result<std::vector<ManifestEntry>> ReadEntries(std::string_view bytes,
                                                      ManifestHeader* header = nullptr) {
  std::vector<ManifestEntry> entries;
  ARROW_ASSIGN_OR_RAISE(ManifestHeader read,
                        ReadManifest(bytes, "m.avro", [&](ManifestEntry&& entry) {
                          entries.push_back(std::move(entry));
                          return arrow::Status::OK();
                        }));
  if (header) *header = read;
  return entries;
}

TEST(Manifest, RoundTripOfRandomEntries) {
  for (const char* codec : {"null", "deflate", "zstandard", "snappy"}) {
    for (int version : {2, 3}) {
      for (bool deletes : {false, true}) {
        for (int count : {0, 1, 700}) {
          SCOPED_TRACE(fmt::format("{} v{} deletes {} count {}", codec, version, deletes, count));
          auto entries = Entries(count + version, count, version, deletes);
          auto options = Options(version, deletes ? "deletes" : "data");
          options.codec = codec;
          options.header.partition_spec_id = 3;
          auto bytes = WriteManifest(entries, options);
          ASSERT_TRUE(bytes.ok()) << bytes.status();
          ManifestHeader header;
          auto read = ReadEntries(*bytes, &header);
          ASSERT_TRUE(read.ok()) << read.status();
          EXPECT_EQ(*read, entries);
          EXPECT_EQ(header.schema_json, kSchema);
          EXPECT_EQ(header.schema_id, 7);
          EXPECT_EQ(header.partition_spec_json, "[]");
          EXPECT_EQ(header.partition_spec_id, 3);
          EXPECT_EQ(header.format_version, version);
          EXPECT_EQ(header.content, deletes ? "deletes" : "data");
        }
      }
    }
  }
}

TEST(Manifest, VisitorStopsEarly) {
  auto bytes = WriteManifest(Entries(1, 100), Options()).ValueOrDie();
  int seen = 0;
  auto result = ReadManifest(bytes, "m.avro", [&](ManifestEntry&&) {
    return ++seen == 3 ? Conflict("enough") : arrow::Status::OK();
  });
  EXPECT_EQ(seen, 3);
  EXPECT_EQ(KindOf(result.status()), FailureKind::kConflict);
}

TEST(Manifest, VoidPartitionFieldsAreWrittenAsNulls) {
  auto options = Options();
  options.header.partition_spec_json =
      R"([{"source-id":1,"field-id":1000,"name":"a_void","transform":"void"},)"
      R"({"source-id":2,"field-id":1001,"name":"b-day.é","transform":"void"},)"
      R"({"source-id":99,"field-id":1002,"name":"3gone","transform":"void"}])";
  auto entries = Entries(2, 5);
  entries[1].file.partition_avro = std::string("\2x", 2);  // as another writer's union order had it
  auto bytes = WriteManifest(entries, options).ValueOrDie();
  auto read = ReadEntries(bytes).ValueOrDie();
  ASSERT_EQ(read.size(), 5u);
  for (size_t i = 0; i < read.size(); ++i) {
    EXPECT_EQ(read[i].file.partition_avro, std::string(3, '\0'));
    entries[i].file.partition_avro = read[i].file.partition_avro;
  }
  EXPECT_EQ(read, entries);
  auto file = AvroFileReader::Open(bytes, "m").ValueOrDie();
  auto schema = ParseJson(file.metadata().at("avro.schema"), "s").ValueOrDie();
  Json fields = schema["fields"][4]["type"]["fields"][3]["type"]["fields"];
  EXPECT_EQ(fields[0]["name"], "a_void");
  EXPECT_EQ(fields[0]["type"], Json::parse(R"(["null","long"])"));
  EXPECT_EQ(fields[1]["name"], "b_x2Dday_x2E_xE9");  // by UTF-16 unit
  EXPECT_EQ(fields[1]["iceberg-field-name"], "b-day.é");
  EXPECT_EQ(fields[1]["type"], Json::parse(R"(["null","string"])"));
  EXPECT_EQ(fields[2]["name"], "_3gone");
  EXPECT_EQ(fields[2]["field-id"], 1002);
}

TEST(Manifest, WriterRefusals) {
  auto message = [](const std::vector<ManifestEntry>& entries,
                    const ManifestWriteOptions& options) {
    return WriteManifest(entries, options).status().message();
  };
  auto options = Options();
  options.header.partition_spec_json =
      R"([{"source-id":1,"field-id":1000,"name":"p","transform":"bucket[4]"}])";
  EXPECT_THAT(message({}, options), HasSubstr("bucket[4]"));
  options = Options();
  options.header.partition_spec_json = "{}";
  EXPECT_THAT(message({}, options), HasSubstr("partition spec"));
  options = Options();
  options.header.schema_json = R"({"name":"manifest_entry"})";
  EXPECT_THAT(message({}, options), HasSubstr("schema"));
  EXPECT_THAT(message({}, Options(1)), HasSubstr("format version 1"));
  EXPECT_THAT(message({}, Options(4)), HasSubstr("format version 4"));
  options = Options();
  options.codec = "bzip2";
  EXPECT_THAT(message({}, options), HasSubstr("bzip2"));

  ManifestEntry entry;
  entry.status = EntryStatus::kExisting;
  entry.file.file_path = "/f";
  EXPECT_THAT(message({entry}, Options()), HasSubstr("sequence numbers"));
  entry.status = EntryStatus::kAdded;
  EXPECT_THAT(message({entry}, Options(2, "deletes")), HasSubstr("share"));
  entry.file.first_row_id = 0;
  EXPECT_THAT(message({entry}, Options()), HasSubstr("format version 3"));
  entry.file.first_row_id.reset();
  entry.file.partition_avro = "x";
  EXPECT_THAT(message({entry}, Options()), HasSubstr("partition"));
}

TEST(ManifestList, RoundTrip) {
  for (const char* codec : {"null", "deflate", "zstandard", "snappy"}) {
    for (int version : {2, 3}) {
      RandomEntries random(version);
      std::vector<ManifestFile> manifests;
      for (int i = 0; i < 300; ++i) manifests.push_back(random.NextManifest(version));
      ManifestListHeader header;
      header.snapshot_id = 77;
      header.sequence_number = 5;
      header.format_version = version;
      if (version == 3) header.first_row_id = 1000;
      auto bytes = WriteManifestList(manifests, header, codec);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      auto read = ReadManifestList(*bytes, "l.avro");
      ASSERT_TRUE(read.ok()) << read.status();
      EXPECT_EQ(*read, manifests);
      auto file = AvroFileReader::Open(*bytes, "l").ValueOrDie();
      EXPECT_EQ(file.metadata().at("snapshot-id"), "77");
      EXPECT_EQ(file.metadata().at("parent-snapshot-id"), "null");
      EXPECT_EQ(file.metadata().at("sequence-number"), "5");
      EXPECT_EQ(file.metadata().at("format-version"), std::to_string(version));
      EXPECT_EQ(file.metadata().contains("first-row-id"), version == 3);
    }
  }
}

TEST(ManifestList, Empty) {
  auto bytes = WriteManifestList({}, ManifestListHeader{}).ValueOrDie();
  EXPECT_TRUE(ReadManifestList(bytes, "l.avro").ValueOrDie().empty());
}

TEST(ManifestList, IsNoManifest) {
  auto list = WriteManifestList({}, ManifestListHeader{}).ValueOrDie();
  EXPECT_THAT(ReadEntries(list).status().message(), HasSubstr("m.avro: no manifest"));
  auto manifest = WriteManifest({}, Options()).ValueOrDie();
  EXPECT_THAT(ReadManifestList(manifest, "l.avro").status().message(),
              HasSubstr("l.avro: no manifest list"));
}

// ---- Hostile input ----

void ExpectOneLine(const arrow::Status& status, std::string_view path) {
  if (status.ok()) return;  // a flipped bit in a value, say
  EXPECT_EQ(status.message().find('\n'), std::string::npos);
  EXPECT_THAT(status.message(), HasSubstr(std::string(path)));
}

TEST(ManifestRobustness, TruncatedAnywhere) {
  for (const char* codec : {"null", "deflate", "zstandard", "snappy"}) {
    auto options = Options();
    options.codec = codec;
    auto bytes = WriteManifest(Entries(4, 6), options).ValueOrDie();
    auto list = WriteManifestList({RandomEntries(1).NextManifest(2)}, {}, codec).ValueOrDie();
    // Cut behind the header the file is one without blocks; anything else is an error.
    auto empty_size = WriteManifest({}, options).ValueOrDie().size();
    // The headers are alike: one codec is enough for them.
    const bool whole = codec == std::string_view("null");
    for (size_t size = whole ? 0 : empty_size; size < bytes.size(); ++size) {
      // A copy of exactly this size, so that a sanitizer sees any access beyond it.
      std::string cut = bytes.substr(0, size);
      auto status = ReadEntries(cut).status();
      EXPECT_EQ(status.ok(), size == empty_size) << size;
      ExpectOneLine(status, "m.avro");
    }
    for (size_t size = 0; whole && size < list.size(); ++size) {
      std::string cut = list.substr(0, size);
      ExpectOneLine(ReadManifestList(cut, "l.avro").status(), "l.avro");
    }
  }
}

TEST(ManifestRobustness, FlippedBits) {
  std::mt19937 random(5);
  for (const char* codec : {"null", "deflate", "zstandard", "snappy"}) {
    auto options = Options(3);
    options.codec = codec;
    auto bytes = WriteManifest(Entries(6, 5, 3), options).ValueOrDie();
    for (int round = 0; round < 700; ++round) {
      std::string bad = bytes;
      for (int flips = 1 + random() % 3; flips > 0; --flips) {
        bad[random() % bad.size()] ^= static_cast<char>(1 << random() % 8);
      }
      ExpectOneLine(ReadEntries(bad).status(), "m.avro");
    }
    auto list = WriteManifestList({RandomEntries(1).NextManifest(2)}, {}, codec).ValueOrDie();
    for (int round = 0; round < 300; ++round) {
      std::string bad = list;
      bad[random() % bad.size()] ^= static_cast<char>(1 << random() % 8);
      ExpectOneLine(ReadManifestList(bad, "l.avro").status(), "l.avro");
    }
  }
}

// ---- Other implementations (driven by test/iceberg_manifest_test.py) ----

std::string Hex(std::string_view bytes) {
  std::string out;
  for (unsigned char c : bytes) out += fmt::format("{:02x}", c);
  return out;
}

template <typename T>
Json ToJson(const std::optional<T>& value) {
  if (!value) return nullptr;
  return *value;
}

Json ToJson(const std::optional<std::string>& value) {
  if (!value) return nullptr;
  return Hex(*value);
}

Json ToJson(const std::map<int32_t, int64_t>& map) {
  Json json = Json::object();
  for (auto [key, value] : map) json[std::to_string(key)] = value;
  return json;
}

Json ToJson(const std::map<int32_t, std::string>& map) {
  Json json = Json::object();
  for (const auto& [key, value] : map) json[std::to_string(key)] = Hex(value);
  return json;
}

Json ToJson(const ManifestEntry& entry) {
  const DataFile& file = entry.file;
  return Json{{"status", static_cast<int>(entry.status)},
              {"snapshot_id", ToJson(entry.snapshot_id)},
              {"sequence_number", ToJson(entry.sequence_number)},
              {"file_sequence_number", ToJson(entry.file_sequence_number)},
              {"content", static_cast<int>(file.content)},
              {"file_path", file.file_path},
              {"file_format", file.file_format},
              {"partition_avro", Hex(file.partition_avro)},
              {"record_count", file.record_count},
              {"file_size_in_bytes", file.file_size_in_bytes},
              {"column_sizes", ToJson(file.column_sizes)},
              {"value_counts", ToJson(file.value_counts)},
              {"null_value_counts", ToJson(file.null_value_counts)},
              {"nan_value_counts", ToJson(file.nan_value_counts)},
              {"lower_bounds", ToJson(file.lower_bounds)},
              {"upper_bounds", ToJson(file.upper_bounds)},
              {"key_metadata", ToJson(file.key_metadata)},
              {"split_offsets", file.split_offsets},
              {"equality_ids", file.equality_ids},
              {"sort_order_id", ToJson(file.sort_order_id)},
              {"first_row_id", ToJson(file.first_row_id)},
              {"referenced_data_file",
               file.referenced_data_file ? Json(*file.referenced_data_file) : Json(nullptr)},
              {"content_offset", ToJson(file.content_offset)},
              {"content_size_in_bytes", ToJson(file.content_size_in_bytes)}};
}

Json ToJson(const ManifestFile& m) {
  Json partitions = nullptr;
  if (m.partitions) {
    partitions = Json::array();
    for (const auto& summary : *m.partitions) {
      partitions.push_back({{"contains_null", summary.contains_null},
                            {"contains_nan", ToJson(summary.contains_nan)},
                            {"lower_bound", ToJson(summary.lower_bound)},
                            {"upper_bound", ToJson(summary.upper_bound)}});
    }
  }
  return Json{{"manifest_path", m.manifest_path},
              {"manifest_length", m.manifest_length},
              {"partition_spec_id", m.partition_spec_id},
              {"content", m.content},
              {"sequence_number", m.sequence_number},
              {"min_sequence_number", m.min_sequence_number},
              {"added_snapshot_id", m.added_snapshot_id},
              {"added_files_count", m.added_files_count},
              {"existing_files_count", m.existing_files_count},
              {"deleted_files_count", m.deleted_files_count},
              {"added_rows_count", m.added_rows_count},
              {"existing_rows_count", m.existing_rows_count},
              {"deleted_rows_count", m.deleted_rows_count},
              {"partitions", partitions},
              {"key_metadata", ToJson(m.key_metadata)},
              {"first_row_id", ToJson(m.first_row_id)}};
}

template <typename T>
Json ToJson(const std::vector<T>& items) {
  Json json = Json::array();
  for (const T& item : items) json.push_back(ToJson(item));
  return json;
}

class ManifestInterop : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("THALWEG_INTEROP_DIR");
    if (!folder) GTEST_SKIP() << "driven by test/iceberg_manifest_test.py";
    folder_ = folder;
  }
  void Put(const std::string& name, std::string_view bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  static std::string Get(const std::filesystem::path& path) {
    std::ostringstream out;
    out << std::ifstream(path, std::ios::binary).rdbuf();
    return out.str();
  }
  std::filesystem::path folder_;
};

// Writes files of every codec, version and content, each with the values it holds as JSON beside
// it.
TEST_F(ManifestInterop, Write) {
  for (std::string codec : {"null", "deflate", "zstandard", "snappy"}) {
    for (int version : {2, 3}) {
      for (bool deletes : {false, true}) {
        auto name = fmt::format("manifest-{}-v{}-{}", codec, version, deletes ? "deletes" : "data");
        auto entries = Entries(version + deletes, 40, version, deletes);
        auto options = Options(version, deletes ? "deletes" : "data");
        options.codec = codec;
        Put(name + ".avro", WriteManifest(entries, options).ValueOrDie());
        Put(name + ".json", DumpJson(ToJson(entries)));
      }
      RandomEntries random(version);
      std::vector<ManifestFile> manifests;
      for (int i = 0; i < 30; ++i) manifests.push_back(random.NextManifest(version));
      ManifestListHeader header;
      header.snapshot_id = 77;
      header.parent_snapshot_id = 76;
      header.sequence_number = 5;
      header.format_version = version;
      if (version == 3) header.first_row_id = 1000;
      auto name = fmt::format("list-{}-v{}", codec, version);
      Put(name + ".avro", WriteManifestList(manifests, header, codec).ValueOrDie());
      Put(name + ".json", DumpJson(ToJson(manifests)));
    }
  }
  auto options = Options();
  options.header.schema_json = R"json({"type": "struct", "schema-id": 0, "fields": [
      {"id": 1, "name": "d", "required": false, "type": "date"},
      {"id": 2, "name": "n", "required": false, "type": "decimal(38, 2)"},
      {"id": 3, "name": "n2", "required": false, "type": "decimal(38, 2)"}]})json";
  options.header.partition_spec_json = R"json([
      {"source-id": 1, "field-id": 1000, "name": "d_void", "transform": "void"},
      {"source-id": 2, "field-id": 1001, "name": "n-void", "transform": "void"},
      {"source-id": 3, "field-id": 1002, "name": "n2_void", "transform": "void"},
      {"source-id": 9, "field-id": 1003, "name": "gone", "transform": "void"}])json";
  auto entries = Entries(9, 10);
  Put("void.avro", WriteManifest(entries, options).ValueOrDie());
  Put("void.json", DumpJson(ToJson(entries)));
}

// The manifest and list of a table of one data file that the driver put there.
TEST_F(ManifestInterop, WriteTable) {
  const auto data = folder_ / "data.parquet";
  ManifestEntry entry;
  entry.snapshot_id = 77;
  entry.file.file_path = data.string();
  entry.file.record_count = 3;
  entry.file.file_size_in_bytes = static_cast<int64_t>(std::filesystem::file_size(data));
  entry.file.value_counts = {{1, 3}, {2, 3}};
  entry.file.null_value_counts = {{1, 0}, {2, 1}};
  entry.file.lower_bounds = {{1, std::string("\1\0\0\0\0\0\0\0", 8)}, {2, "x"}};
  entry.file.upper_bounds = {{1, std::string("\3\0\0\0\0\0\0\0", 8)}, {2, "z"}};
  std::string bytes = WriteManifest({entry}, Options()).ValueOrDie();
  Put("table-m0.avro", bytes);
  ManifestFile manifest;
  manifest.manifest_path = (folder_ / "table-m0.avro").string();
  manifest.manifest_length = static_cast<int64_t>(bytes.size());
  manifest.sequence_number = manifest.min_sequence_number = 1;
  manifest.added_snapshot_id = 77;
  manifest.added_files_count = 1;
  manifest.added_rows_count = 3;
  ManifestListHeader header;
  header.snapshot_id = 77;
  header.sequence_number = 1;
  Put("table-list.avro", WriteManifestList({manifest}, header).ValueOrDie());
}

// Reads each in-*.avro and puts what it found beside it as JSON; of lists when the name starts with
// in-list.
TEST_F(ManifestInterop, Read) {
  for (const auto& item : std::filesystem::directory_iterator(folder_)) {
    std::string name = item.path().filename().string();
    if (!name.starts_with("in-") || item.path().extension() != ".avro") continue;
    std::string bytes = Get(item.path());
    Json result;
    if (name.starts_with("in-list")) {
      auto read = ReadManifestList(bytes, name);
      ASSERT_TRUE(read.ok()) << read.status();
      result = ToJson(*read);
    } else {
      ManifestHeader header;
      auto read = ReadEntries(bytes, &header);
      ASSERT_TRUE(read.ok()) << name << read.status();
      result =
          Json{{"schema", header.schema_json},        {"spec", header.partition_spec_json},
               {"spec_id", header.partition_spec_id}, {"format_version", header.format_version},
               {"content", header.content},           {"entries", ToJson(*read)}};
    }
    Put(item.path().stem().string() + ".json", DumpJson(result));
  }
}

}  // namespace
}  // namespace thalweg::iceberg
