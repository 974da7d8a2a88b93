#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "iceberg/avro_file.h"
#include "iceberg/manifest.h"
#include "util/json.h"
#include "util/status.h"

namespace thalweg::iceberg {
namespace {

using ::testing::HasSubstr;

std::string Zigzag(int64_t value) {
  AvroEncoder encoder;
  encoder.Long(value);
  return std::string(encoder.view());
}

// The examples of the Avro specification, and the ends of the range.
TEST(AvroEncoding, Numbers) {
  const std::vector<std::pair<int64_t, std::string>> cases = {
      {0, std::string(1, '\0')},
      {-1, "\x01"},
      {1, "\x02"},
      {-2, "\x03"},
      {2, "\x04"},
      {-64, "\x7f"},
      {64, "\x80\x01"},
      {INT64_MAX, "\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"},
      {INT64_MIN, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"}};
  for (const auto& [value, bytes] : cases) {
    EXPECT_EQ(Zigzag(value), bytes) << value;
    AvroDecoder decoder(bytes);
    EXPECT_EQ(decoder.Long(), value);
    EXPECT_TRUE(decoder.ok());
    EXPECT_EQ(decoder.remaining(), 0);
  }
}

TEST(AvroEncoding, BadNumbers) {
  for (std::string bytes : {std::string(), std::string("\x80"), std::string(10, '\xff'),
                            std::string(9, '\x80') + "\x02", std::string(12, '\x80')}) {
    AvroDecoder decoder(bytes);
    EXPECT_EQ(decoder.Long(), 0);
    EXPECT_FALSE(decoder.ok());
    // The failure sticks.
    std::string first = decoder.error();
    EXPECT_EQ(decoder.Bytes(), "");
    EXPECT_EQ(decoder.error(), first);
  }
}

AvroSchema Parse(std::string_view json) {
  auto schema = AvroSchema::Parse(json);
  EXPECT_TRUE(schema.ok()) << schema.status();
  return schema.MoveValueUnsafe();
}

TEST(AvroSchema, NamesAndNamespaces) {
  // "b" is found in the namespace of the record that encloses it, "top.c" by its full name, "d"
  // without namespace.
  auto schema = Parse(R"({"type":"record","name":"top.a","fields":[
    {"name":"f0","type":{"type":"fixed","name":"b","size":3},"field-id":1},
    {"name":"f1","type":"b"},
    {"name":"f2","type":{"type":"enum","name":"c","namespace":"top","symbols":["X"]}},
    {"name":"f3","type":{"type":{"type":"array","items":{"type":"top.c"}}}},
    {"name":"f4","type":["null",{"type":"record","name":"other.r","fields":[
        {"name":"again","type":["null","r","top.a"]}]}]}]})");
  const auto& fields = schema.root().fields;
  ASSERT_EQ(fields.size(), 5u);
  EXPECT_EQ(fields[0].id, 1);
  EXPECT_EQ(fields[1].id, -1);
  EXPECT_EQ(fields[1].type, fields[0].type);
  EXPECT_EQ(fields[1].type->size, 3);
  EXPECT_EQ(fields[3].type->kind, AvroKind::kArray);
  EXPECT_EQ(fields[3].type->items, fields[2].type);
  const AvroType* r = fields[4].type->branches[1];
  EXPECT_EQ(r->fields[0].type->branches[1], r);
  EXPECT_EQ(r->fields[0].type->branches[2], &schema.root());
  EXPECT_EQ(schema.root().min_size, 3 + 3 + 1 + 1 + 1);
}

TEST(AvroSchema, Errors) {
  for (
      const char* json :
      {"", "{", "3", "\"nothing\"", "[]", "[[\"int\"]]", "{}", R"({"type":"record","name":"a"})",
       R"({"type":"record","fields":[]})", R"({"type":"fixed","name":"f"})",
       R"({"type":"fixed","name":"f","size":-1})", R"({"type":"array"})",
       R"({"type":"record","name":"a","fields":[{"name":"x"}]})",
       R"({"type":"record","name":"a","fields":[{"type":"int"}]})",
       R"({"type":"record","name":"a","fields":[{"name":"x","type":"int","field-id":"7"}]})",
       R"({"type":"record","name":"a","fields":[{"name":"x","type":"int","field-id":-7}]})",
       R"({"type":"record","name":"a","fields":[{"name":"x","type":"int"},{"name":"x","type":"int"}]})",
       R"([{"type":"fixed","name":"f","size":1},{"type":"fixed","name":"f","size":1}])"}) {
    auto schema = AvroSchema::Parse(json);
    ASSERT_FALSE(schema.ok()) << json;
    EXPECT_THAT(schema.status().message(), HasSubstr("Avro schema"));
  }
  std::string deep;
  for (int i = 0; i < 5000; ++i) deep += R"({"type":"array","items":)";
  EXPECT_THAT(AvroSchema::Parse(deep).status().message(), HasSubstr("Avro schema"));
}

// Decodes `bytes` by skipping a value of the schema; gives the number of bytes passed over, -1 on
// failure.
int64_t SkipAll(std::string_view json, std::string_view bytes, std::string* error = nullptr) {
  auto schema = Parse(json);
  AvroDecoder decoder(bytes);
  decoder.Skip(schema.root());
  if (error) *error = decoder.error();
  return decoder.ok() ? decoder.position() : -1;
}

TEST(AvroSkip, EveryType) {
  using namespace std::string_literals;
  EXPECT_EQ(SkipAll(R"("null")", "xx"), 0);
  EXPECT_EQ(SkipAll(R"("boolean")", "\1x"), 1);
  EXPECT_EQ(SkipAll(R"("boolean")", "\2x"), -1);
  EXPECT_EQ(SkipAll(R"("int")", "\x80\1x"), 2);
  EXPECT_EQ(SkipAll(R"("float")", "abcdx"), 4);
  EXPECT_EQ(SkipAll(R"("double")", "abcdefghx"), 8);
  EXPECT_EQ(SkipAll(R"("double")", "abcdefg"), -1);
  EXPECT_EQ(SkipAll(R"("string")", "\6abcx"), 4);
  EXPECT_EQ(SkipAll(R"("bytes")", "\6ab"), -1);
  EXPECT_EQ(SkipAll(R"("bytes")", "\1"), -1);  // length -1
  EXPECT_EQ(SkipAll(R"({"type":"fixed","name":"f","size":3})", "abcx"), 3);
  EXPECT_EQ(SkipAll(R"({"type":"enum","name":"f","symbols":["A"]})", "\0x"s), 1);
  EXPECT_EQ(SkipAll(R"(["string","null","float"])", "\4abcd"), 5);
  EXPECT_EQ(SkipAll(R"(["string","null","float"])", "\2abcd"), 1);
  EXPECT_EQ(SkipAll(R"(["string","null","float"])", "\6abcd"), -1);
  const char* array = R"({"type":"array","items":"string"})";
  EXPECT_EQ(SkipAll(array, "\0x"s), 1);
  EXPECT_EQ(SkipAll(array, "\4\2a\2b\2\2c\0x"s), 9);      // blocks of 2 and 1
  EXPECT_EQ(SkipAll(array, "\3\x8\2a\2b\2\2c\0x"s), 10);  // the first with its size, 4 bytes
  EXPECT_EQ(SkipAll(array, "\3\x64\2a\2b\0"s), -1);       // a size beyond the end
  EXPECT_EQ(SkipAll(array, "\3\1\2a\2b\0"s), -1);         // a negative size
  EXPECT_EQ(SkipAll(array, "\4\2a"), -1);
  EXPECT_EQ(SkipAll(array, Zigzag(int64_t{1} << 60) + "\2a"), -1);
  EXPECT_EQ(SkipAll(array, Zigzag(INT64_MIN) + "\0\0"s), -1);
  EXPECT_EQ(SkipAll(R"({"type":"map","values":"boolean"})", "\4\2k\1\2l\0\0x"s), 8);
  // Elements without bytes: any number of them takes none.
  EXPECT_EQ(SkipAll(R"({"type":"array","items":"null"})", Zigzag(int64_t{1} << 60) + "\0"s), 10);
}

TEST(AvroSkip, RecursionIsBounded) {
  const char* list =
      R"({"type":"record","name":"l","fields":[{"name":"next","type":["null","l"]}]})";
  EXPECT_EQ(SkipAll(list, std::string(20, '\2') + '\0'), 21);
  std::string error;
  EXPECT_EQ(SkipAll(list, std::string(100000, '\2'), &error), -1);
  EXPECT_THAT(error, HasSubstr("nested deeper"));
  EXPECT_EQ(
      SkipAll(
          R"({"type":"record","name":"l","fields":[{"name":"n","type":"l"},{"name":"m","type":"l"}]})",
          "", &error),
      -1);
  EXPECT_THAT(error, HasSubstr("nested deeper"));
}

// Each record holds the one before it twice: 2^60 values, but no bytes, or one byte each.
TEST(AvroSkip, DoublingSchemasTakeNoTime) {
  for (std::string leaf : {"null", "boolean"}) {
    Json fields = Json::array();
    std::string before = leaf;
    for (int i = 0; i < 60; ++i) {
      std::string name = fmt::format("r{}", i);
      Json twice = Json::array({AvroFieldJson(1, "a", before), AvroFieldJson(2, "b", before)});
      fields.push_back(AvroFieldJson(i, name, AvroRecordJson(name, std::move(twice))));
      before = name;
    }
    std::string json = DumpJson(AvroRecordJson("all", std::move(fields)));
    EXPECT_EQ(SkipAll(json, std::string(1000, '\1')), leaf == "null" ? 0 : -1);
  }
}

TEST(AvroCodec, RoundTrip) {
  std::mt19937 random(1);
  for (AvroCodec codec :
       {AvroCodec::kNull, AvroCodec::kDeflate, AvroCodec::kZstandard, AvroCodec::kSnappy}) {
    EXPECT_EQ(*ParseAvroCodec(ToString(codec)), codec);
    for (size_t size : {0, 1, 100, 65536, 65537, 300000, 5000000}) {
      std::string plain(size, 'a');
      for (size_t i = 0; i < size; i += 1 + random() % 50) plain[i] = static_cast<char>(random());
      std::string packed = Compress(codec, plain).ValueOrDie();
      std::string back = "something before";
      auto status = Decompress(codec, packed, &back);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_EQ(back, plain);
      if (codec == AvroCodec::kNull) continue;
      packed.pop_back();
      EXPECT_FALSE(Decompress(codec, packed, &back).ok()) << ToString(codec) << " " << size;
      EXPECT_FALSE(Decompress(codec, "", &back).ok()) << ToString(codec);
    }
  }
  EXPECT_EQ(*ParseAvroCodec("GZIP"), AvroCodec::kDeflate);
  EXPECT_EQ(*ParseAvroCodec("zstd"), AvroCodec::kZstandard);
  EXPECT_EQ(*ParseAvroCodec("uncompressed"), AvroCodec::kNull);
  EXPECT_FALSE(ParseAvroCodec("lz4").ok());
}

TEST(AvroCodec, Bombs) {
  const std::string zeros(48 << 20, '\0');
  for (AvroCodec codec : {AvroCodec::kDeflate, AvroCodec::kZstandard}) {
    std::string packed = Compress(codec, zeros).ValueOrDie();
    std::string plain;
    auto status = Decompress(codec, packed, &plain);
    EXPECT_THAT(status.message(), HasSubstr("decompresses to more than"));
    EXPECT_LE(static_cast<int64_t>(plain.capacity()),
              2 * DecompressionLimit(static_cast<int64_t>(packed.size())));
  }
  // snappy states its length ahead: 2^31 here
  std::string plain;
  EXPECT_THAT(Decompress(AvroCodec::kSnappy, "\x80\x80\x80\x80\x08xxxx", &plain).message(),
              HasSubstr("more than"));
  EXPECT_EQ(plain.capacity(), std::string().capacity());
}

TEST(AvroCodec, SnappyChecksum) {
  std::string packed = Compress(AvroCodec::kSnappy, "123456789").ValueOrDie();
  EXPECT_EQ(packed.substr(packed.size() - 4),
            "\xcb\xf4\x39\x26");  // CRC-32 check value, big-endian
  packed.back() ^= 1;
  std::string plain;
  EXPECT_THAT(Decompress(AvroCodec::kSnappy, packed, &plain).message(), HasSubstr("checksum"));
}

// ---- Container files that no library would write ----

Json FileFields() {
  Json fields = Json::array();
  fields.push_back(AvroFieldJson(100, "p", "string"));
  fields.push_back(AvroFieldJson(101, "f", "string"));
  fields.push_back(AvroFieldJson(103, "n", "long"));
  fields.push_back(AvroFieldJson(104, "s", "long"));
  return fields;
}

Json EntryJson(Json file_fields) {
  Json fields = Json::array();
  fields.push_back(AvroFieldJson(0, "status", "int"));
  fields.push_back(AvroFieldJson(2, "df", AvroRecordJson("df", std::move(file_fields))));
  return AvroRecordJson("e", std::move(fields));
}

void PutFile(AvroEncoder* out) {
  out->Long(1);
  out->Bytes("/f");
  out->Bytes("PARQUET");
  out->Long(10);
  out->Long(20);
}

std::string Finish(AvroFileWriter* writer) {
  EXPECT_TRUE(writer->EndRecord().ok());
  return writer->Finish().ValueOrDie();
}

arrow::Result<std::vector<ManifestEntry>> Read(std::string_view bytes) {
  std::vector<ManifestEntry> entries;
  ARROW_RETURN_NOT_OK(ReadManifest(bytes, "x.avro", [&](ManifestEntry&& entry) {
                        entries.push_back(std::move(entry));
                        return arrow::Status::OK();
                      }).status());
  return entries;
}

TEST(AvroFile, MinimalManifest) {
  AvroFileWriter writer(EntryJson(FileFields()), AvroCodec::kNull, {});
  PutFile(writer.record());
  auto entries = Read(Finish(&writer)).ValueOrDie();
  ASSERT_EQ(entries.size(), 1u);
  ManifestEntry expected;
  expected.file.file_path = "/f";
  expected.file.record_count = 10;
  expected.file.file_size_in_bytes = 20;
  EXPECT_EQ(entries[0], expected);
}

// Arrays in several blocks, with and without their sizes, as some writers make them.
TEST(AvroFile, ArrayBlocks) {
  Json fields = FileFields();
  fields.push_back(AvroFieldJson(125, "lower", AvroIntMapJson(126, 127, "bytes")));
  fields.push_back(AvroFieldJson(132, "offsets", AvroListJson(133, "int")));
  AvroFileWriter writer(EntryJson(std::move(fields)), AvroCodec::kDeflate, {});
  AvroEncoder* out = writer.record();
  PutFile(out);
  out->Long(-2);  // two pairs in 6 bytes
  out->Long(6);
  out->Long(1);
  out->Bytes("a");
  out->Long(2);
  out->Bytes("b");
  out->Long(1);
  out->Long(3);
  out->Bytes("");
  out->Long(0);
  out->Long(-1);
  out->Long(1);
  out->Long(7);
  out->Long(1);
  out->Long(-3);
  out->Long(0);
  auto entries = Read(Finish(&writer)).ValueOrDie();
  ASSERT_EQ(entries.size(), 1u);
  EXPECT_EQ(entries[0].file.lower_bounds,
            (std::map<int32_t, std::string>{{1, "a"}, {2, "b"}, {3, ""}}));
  EXPECT_EQ(entries[0].file.split_offsets, (std::vector<int64_t>{7, -3}));
}

TEST(AvroFile, BadValues) {
  auto message = [](Json extra, const std::function<void(AvroEncoder*)>& put) {
    Json fields = FileFields();
    fields.push_back(std::move(extra));
    AvroFileWriter writer(EntryJson(std::move(fields)), AvroCodec::kNull, {});
    PutFile(writer.record());
    put(writer.record());
    return Read(Finish(&writer)).status().message();
  };
  EXPECT_THAT(message(AvroFieldJson(140, "order", "long"),
                      [](AvroEncoder* out) { out->Long(int64_t{1} << 31); }),
              HasSubstr("field 140 (order): 2147483648 is no int"));
  EXPECT_THAT(
      message(AvroFieldJson(140, "order", "string"), [](AvroEncoder* out) { out->Bytes("a"); }),
      HasSubstr("field 140 (order): expected long, found string"));
  EXPECT_THAT(message(AvroFieldJson(143, "ref", "long"), [](AvroEncoder* out) { out->Long(1); }),
              HasSubstr("field 143 (ref): expected string or bytes, found long"));
  EXPECT_THAT(message(AvroFieldJson(108, "sizes", AvroListJson(1, "long")),
                      [](AvroEncoder* out) { out->Long(0); }),
              HasSubstr("field 108 (sizes): not a map"));
  EXPECT_THAT(message(AvroFieldJson(132, "offsets", AvroListJson(133, "long")),
                      [](AvroEncoder* out) { out->Long(int64_t{1} << 40); }),
              HasSubstr("1099511627776 elements where 0 bytes remain"));
  EXPECT_THAT(message(AvroFieldJson(132, "offsets", AvroListJson(133, "null")),
                      [](AvroEncoder* out) { out->Long(int64_t{1} << 40); }),
              HasSubstr("without bytes"));
  EXPECT_THAT(message(AvroFieldJson(9, "more", "long"),
                      [](AvroEncoder* out) {
                        out->Long(1);
                        out->Long(1);
                      }),
              HasSubstr("bytes after the last record"));
  // Where it went wrong: after path and offset of the block.
  EXPECT_THAT(message(AvroFieldJson(9, "more", "bytes"), [](AvroEncoder* out) { out->Long(5); }),
              ::testing::MatchesRegex("x.avro: block at offset [0-9]+, byte [0-9]+: .*"));
}

TEST(AvroFile, NegativeCountsAreRefused) {
  AvroFileWriter writer(EntryJson(FileFields()), AvroCodec::kNull, {});
  AvroEncoder* out = writer.record();
  out->Long(1);
  out->Bytes("/f");
  out->Bytes("PARQUET");
  out->Long(-10);
  out->Long(20);
  EXPECT_THAT(Read(Finish(&writer)).status().message(), HasSubstr("field 103 (n) is -10"));
}

TEST(AvroFile, UnknownStatusIsRefused) {
  AvroFileWriter writer(EntryJson(FileFields()), AvroCodec::kNull, {});
  AvroEncoder* out = writer.record();
  out->Long(3);
  out->Bytes("a whole record's worth of bytes");
  EXPECT_THAT(Read(Finish(&writer)).status().message(), HasSubstr("field 0 (status) is 3"));
}

TEST(AvroFile, BadContainers) {
  AvroFileWriter writer(EntryJson(FileFields()), AvroCodec::kNull, {});
  PutFile(writer.record());
  const std::string good = Finish(&writer);
  ASSERT_TRUE(Read(good).ok());
  auto message = [](const std::string& bytes) { return Read(bytes).status().message(); };
  EXPECT_THAT(message(""), HasSubstr("not an Avro file"));
  EXPECT_THAT(message("PAR1"), HasSubstr("not an Avro file"));
  std::string bad = good;
  bad.back() ^= 1;
  EXPECT_THAT(message(bad), HasSubstr("sync marker"));
  bad = good;
  bad.replace(bad.find("avro.codec") + 10, 5, "\x08oops");
  EXPECT_THAT(message(bad), HasSubstr("unknown Avro codec \"oops\""));
  bad = good;
  bad.replace(bad.find("avro.schema"), 11, "avro.shemas");
  EXPECT_THAT(message(bad), HasSubstr("no avro.schema"));
  // A header entry that claims to be longer than the file.
  EXPECT_THAT(message(std::string("Obj\1\2", 5) + Zigzag(int64_t{1} << 50)),
              HasSubstr("offset 13"));
  // More records than the block has bytes for.
  const std::string end = good.substr(good.size() - 16);
  bad = good + Zigzag(int64_t{1} << 50) + Zigzag(0) + end;
  EXPECT_THAT(message(bad), HasSubstr("1125899906842624 records in 0 bytes"));
  bad = good + Zigzag(-1) + Zigzag(0) + end;
  EXPECT_THAT(message(bad), HasSubstr("-1 records"));
  EXPECT_TRUE(Read(good + Zigzag(0) + Zigzag(0) + end).ok());  // an empty block is harmless
}

TEST(AvroFile, WithoutFieldIds) {
  Json schema = EntryJson(FileFields());
  for (Json& field : schema["fields"]) field.erase("field-id");
  AvroFileWriter writer(schema, AvroCodec::kNull, {});
  EXPECT_THAT(Read(writer.Finish().ValueOrDie()).status().message(),
              HasSubstr("no field with field-id 0"));
}

// Many blocks within their own limits must not expand beyond that of the file.
TEST(AvroFile, ManySmallBombs) {
  Json fields = FileFields();
  fields.push_back(AvroFieldJson(9, "filler", "bytes"));
  AvroFileWriter writer(EntryJson(std::move(fields)), AvroCodec::kZstandard, {});
  const std::string filler(12 << 20, '\0');
  for (int i = 0; i < 4; ++i) {
    PutFile(writer.record());
    writer.record()->Bytes(filler);
    ASSERT_TRUE(writer.EndRecord().ok());
  }
  EXPECT_THAT(Read(writer.Finish().ValueOrDie()).status().message(),
              HasSubstr("the blocks decompress to more than"));
}

}  // namespace
}  // namespace thalweg::iceberg
