#include "iceberg/puffin.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

#include "util/json.h"

namespace thalweg::iceberg {
namespace {

using ::testing::HasSubstr;

PuffinFile Sample() {
  PuffinFile file;
  file.properties = {{"created-by", "a test"}};
  PuffinBlob plain;
  plain.type = "some-sketch-v1";
  plain.fields = {1, 7};
  plain.snapshot_id = 5;
  plain.sequence_number = 3;
  plain.properties = {{"ndv", "12"}, {"x", "ü"}};
  plain.data = std::string("\0binary\xff", 8);
  PuffinBlob packed;
  packed.type = "liquid-cubes-v1";
  packed.snapshot_id = INT64_MAX;
  packed.sequence_number = 9;
  packed.compression_codec = "zstd";
  for (int i = 0; i < 2000; ++i) packed.data += fmt::format("{{\"cube\": {}}},", i);
  PuffinBlob empty;
  empty.type = "nothing";
  empty.fields = {2147483645};
  PuffinBlob raw;
  raw.type = "theirs";
  raw.compression_codec = "lz4";
  raw.data = "not really lz4";
  raw.raw = true;
  file.blobs = {plain, packed, empty, raw};
  return file;
}

void ExpectSame(const PuffinFile& read, const PuffinFile& wanted) {
  EXPECT_EQ(read.properties, wanted.properties);
  ASSERT_EQ(read.blobs.size(), wanted.blobs.size());
  for (size_t i = 0; i < read.blobs.size(); ++i) {
    const PuffinBlob &a = read.blobs[i], &b = wanted.blobs[i];
    EXPECT_EQ(a.type, b.type);
    EXPECT_EQ(a.fields, b.fields);
    EXPECT_EQ(a.snapshot_id, b.snapshot_id);
    EXPECT_EQ(a.sequence_number, b.sequence_number);
    EXPECT_EQ(a.properties, b.properties);
    EXPECT_EQ(a.compression_codec, b.compression_codec);
    EXPECT_EQ(a.data, b.data);
    EXPECT_EQ(a.raw, b.raw);
  }
}

TEST(Puffin, RoundTrip) {
  const PuffinFile file = Sample();
  auto written = WritePuffin(file).ValueOrDie();
  auto read = ReadPuffin(written.bytes, "p").ValueOrDie();
  ExpectSame(read, file);
  EXPECT_EQ(read.blobs[0].offset, 4);
  EXPECT_EQ(read.blobs[0].length, 8);
  EXPECT_LT(read.blobs[1].length, static_cast<int64_t>(file.blobs[1].data.size()) / 2);
  // What was read is written again as it was, the foreign codec byte for byte.
  ExpectSame(ReadPuffin(WritePuffin(read)->bytes, "p").ValueOrDie(), file);
}

TEST(Puffin, Empty) {
  // The layout of the specification: magic; footer: magic, payload, its size, flags, magic.
  auto written = WritePuffin(PuffinFile{}).ValueOrDie();
  using namespace std::string_literals;
  EXPECT_EQ(written.bytes, "PFA1PFA1{\"blobs\":[]}\x0c\0\0\0\0\0\0\0PFA1"s);
  EXPECT_EQ(written.footer_size, 4 + 12 + 4 + 4 + 4);
  EXPECT_TRUE(ReadPuffin(written.bytes, "p").ValueOrDie().blobs.empty());
}

std::string WithFooter(const std::string& body, const std::string& payload, uint32_t flags = 0) {
  std::string out = "PFA1" + body + "PFA1" + payload;
  const auto size = static_cast<uint32_t>(payload.size());
  for (uint32_t value : {size, flags}) {
    for (int i = 0; i < 4; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
  }
  return out + "PFA1";
}

std::string BlobJson(int64_t offset, int64_t length, const std::string& more = "") {
  return fmt::format(
      R"({{"type":"t","fields":[],"snapshot-id":1,"sequence-number":2,"offset":{},"length":{}{}}})",
      offset, length, more);
}

TEST(Puffin, BadFiles) {
  auto message = [](const std::string& bytes) {
    return ReadPuffin(bytes, "p.puffin").status().message();
  };
  auto blob = [&](const std::string& json) {
    return message(WithFooter("0123456789", "{\"blobs\":[" + json + "]}"));
  };
  EXPECT_THAT(message(""), HasSubstr("p.puffin: not a Puffin file"));
  EXPECT_THAT(message("PFA1PFA1PFA1"), HasSubstr("not a Puffin file"));
  EXPECT_THAT(message(WithFooter("", "{}").replace(0, 4, "PFA2")), HasSubstr("not a Puffin file"));
  EXPECT_THAT(message(WithFooter("", "{}", 1)), HasSubstr("lz4"));
  EXPECT_THAT(message(WithFooter("", "{}", 2)), HasSubstr("flags 0x2"));
  EXPECT_THAT(message(WithFooter("", "{}")), HasSubstr("blobs"));
  EXPECT_THAT(message(WithFooter("", "{]")), HasSubstr("not valid JSON"));
  std::string bad = WithFooter("", "{\"blobs\":[]}");
  bad[bad.size() - 12] = 100;  // the payload's size
  EXPECT_THAT(message(bad), HasSubstr("a footer of 100 bytes"));
  bad[bad.size() - 12] = 5;
  EXPECT_THAT(message(bad), HasSubstr("does not start with its magic"));

  EXPECT_EQ(blob(BlobJson(4, 10)), "");
  EXPECT_EQ(blob(BlobJson(14, 0)), "");
  for (auto [offset, length] : std::vector<std::pair<int64_t, int64_t>>{
           {4, 11}, {15, 0}, {0, 4}, {-1, 1}, {5, -1}, {INT64_MAX, INT64_MAX}, {4, INT64_MAX}}) {
    EXPECT_THAT(blob(BlobJson(offset, length)), HasSubstr("does not lie before the footer"))
        << offset;
  }
  EXPECT_THAT(blob(BlobJson(4, 10, R"(,"compression-codec":"zstd")")), HasSubstr("zstd"));
  EXPECT_EQ(blob(BlobJson(4, 10, R"(,"compression-codec":"brotli")")), "");
  EXPECT_THAT(blob(BlobJson(4, 10, R"(,"properties":[])")), HasSubstr("properties"));
  EXPECT_THAT(blob(BlobJson(4, 10, R"(,"properties":{"a":1})")), HasSubstr("\"a\" is no string"));
  EXPECT_THAT(blob("7"), HasSubstr("expected an object"));
  EXPECT_THAT(blob(R"({"type":"t","fields":[4294967296]})"), HasSubstr("field id"));
}

TEST(Puffin, ForeignCodecIsKeptButNotMade) {
  PuffinFile file;
  file.blobs.emplace_back();
  file.blobs[0].type = "t";
  file.blobs[0].compression_codec = "lz4";
  EXPECT_THAT(WritePuffin(file).status().message(), HasSubstr("lz4"));
}

// Many blobs on the same compressed bytes must not add up without bound.
TEST(Puffin, Bombs) {
  PuffinFile file;
  file.blobs.emplace_back();
  file.blobs[0].type = "t";
  file.blobs[0].compression_codec = "zstd";
  file.blobs[0].data.assign(15 << 20, '\0');
  auto written = WritePuffin(file).ValueOrDie();
  auto one = ReadPuffin(written.bytes, "p").ValueOrDie();
  const int64_t length = one.blobs[0].length;
  std::string blobs;
  for (int i = 0; i < 100; ++i) {
    if (i > 0) blobs += ",";
    blobs += BlobJson(4, length, R"(,"compression-codec":"zstd")");
  }
  std::string bad = WithFooter(written.bytes.substr(4, length), "{\"blobs\":[" + blobs + "]}");
  EXPECT_THAT(ReadPuffin(bad, "p").status().message(), HasSubstr("decompress to more than"));
}

TEST(PuffinRobustness, TruncatedAndFlipped) {
  const std::string good = WritePuffin(Sample())->bytes;
  for (size_t size = 0; size < good.size(); ++size) {
    std::string cut = good.substr(0, size);
    EXPECT_FALSE(ReadPuffin(cut, "p").ok()) << size;
  }
  std::mt19937 random(8);
  for (int round = 0; round < 5000; ++round) {
    std::string bad = good;
    // Half of them in the footer, where most of the structure is.
    size_t from = round % 2 ? bad.size() - 700 : 0;
    for (int flips = 1 + random() % 3; flips > 0; --flips) {
      bad[from + random() % (bad.size() - from)] ^= static_cast<char>(1 << random() % 8);
    }
    auto read = ReadPuffin(bad, "p.puffin");
    if (read.ok()) continue;
    EXPECT_THAT(read.status().message(), HasSubstr("p.puffin"));
    EXPECT_EQ(read.status().message().find('\n'), std::string::npos);
  }
}

// Written for test/iceberg_puffin_test.py, with the values beside it.
TEST(PuffinInterop, Write) {
  const char* folder = std::getenv("THALWEG_INTEROP_DIR");
  if (!folder) GTEST_SKIP() << "driven by test/iceberg_puffin_test.py";
  PuffinFile file = Sample();
  auto written = WritePuffin(file).ValueOrDie();
  std::ofstream(std::filesystem::path(folder) / "sample.puffin", std::ios::binary) << written.bytes;
  Json blobs = Json::array();
  for (const PuffinBlob& blob : file.blobs) {
    std::string hex;
    for (unsigned char c : blob.data) hex += fmt::format("{:02x}", c);
    blobs.push_back(
        {{"type", blob.type},
         {"fields", blob.fields},
         {"snapshot-id", blob.snapshot_id},
         {"sequence-number", blob.sequence_number},
         {"compression-codec", blob.compression_codec ? Json(*blob.compression_codec) : Json()},
         {"properties", blob.properties},
         {"data", hex}});
  }
  Json expected{
      {"footer_size", written.footer_size}, {"properties", file.properties}, {"blobs", blobs}};
  std::ofstream(std::filesystem::path(folder) / "sample.json") << DumpJson(expected);
}

}  // namespace
}  // namespace thalweg::iceberg
