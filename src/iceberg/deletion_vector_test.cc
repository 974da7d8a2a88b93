#include "iceberg/deletion_vector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <random>

#include "iceberg/test_util.h"

namespace thalweg::iceberg {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kManyRows = int64_t{1} << 32;

std::string FromHex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

std::vector<uint32_t> ValuesOf(const Roaring& positions) {
  std::vector<uint32_t> values(positions.cardinality());
  positions.toUint32Array(values.data());
  return values;
}

// Blobs and bitmaps made with pyroaring and zlib: {0, 3, 5, 65536, 65540} in arrays; 10 to 299 as a
// run and 70000; both with a container of runs and offsets.
const std::string kArrays = FromHex(
    "00000032d1d339640100000000000000000000003a300000020000000000020001000100180000001e000000000003"
    "000500000004008ab4bd66");
const std::string kRuns = FromHex(
    "00000025d1d339640100000000000000000000003b30010001000021010100000001000a0021017011409a1d1c");
const std::string kRunsWithOffsets = FromHex(
    "0100000000000000000000003b30050020000002000100000002000000030000000400000006006300350000003b00"
    "00003d0000003f00000041000000430000000100020003007011e0225034c0450100801a6300");
// An empty bitmap for key 0, {7} for key 1.
const std::string kSecondKey =
    FromHex("0200000000000000000000003a30000000000000010000003a3000000100000000000000100000000700");

std::string Enveloped(const std::string& bitmap) {
  const std::string body = FromHex("d1d33964") + bitmap;
  auto big_endian = [](uint64_t value) {
    std::string bytes;
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
    return bytes;
  };
  return big_endian(body.size()) + body +
         big_endian(::crc32_z(0, reinterpret_cast<const Bytef*>(body.data()), body.size()));
}

TEST(DeletionVector, Blobs) {
  ASSERT_OK_AND_ASSIGN(auto arrays, ParseDeletionVector(kArrays, 65541, 5, "dv"));
  EXPECT_EQ(ValuesOf(arrays), (std::vector<uint32_t>{0, 3, 5, 65536, 65540}));
  ASSERT_OK_AND_ASSIGN(auto runs, ParseDeletionVector(kRuns, 70001, 291, "dv"));
  std::vector<uint32_t> expected;
  for (uint32_t i = 10; i < 300; ++i) expected.push_back(i);
  expected.push_back(70000);
  EXPECT_EQ(ValuesOf(runs), expected);
  ASSERT_OK_AND_ASSIGN(auto offsets, ParsePositionBitmap(kRunsWithOffsets, kManyRows, "dv"));
  expected = {1, 2, 3, 70000, 140000, 210000, 280000};
  for (uint32_t i = 400000; i < 400100; ++i) expected.push_back(i);
  EXPECT_EQ(ValuesOf(offsets), expected);
  ASSERT_OK_AND_ASSIGN(auto empty, ParsePositionBitmap(std::string(8, '\0'), 0, "dv"));
  EXPECT_TRUE(empty.isEmpty());
}

TEST(DeletionVector, BitmapsOfAnotherSerializer) {
  std::mt19937 random(7);
  for (int round = 0; round < 40; ++round) {
    Roaring positions;
    const int containers = static_cast<int>(random() % 8) + 1;
    for (int i = 0; i < containers; ++i) {
      const uint32_t base = (random() % 60) << 16;
      const uint32_t count = random() % 3 == 0 ? 30000 : random() % 200 + 1;
      for (uint32_t k = 0; k < count; ++k) positions.add(base + random() % 65536);
      if (random() % 2 == 0) positions.addRange(base + 500, base + 500 + random() % 9000);
    }
    if (round % 2 == 0) positions.runOptimize();
    std::string bitmap = FromHex("010000000000000000000000");
    const size_t head = bitmap.size();
    bitmap.resize(head + positions.getSizeInBytes());
    ASSERT_EQ(positions.write(bitmap.data() + head), bitmap.size() - head);
    ASSERT_OK_AND_ASSIGN(auto parsed, ParsePositionBitmap(bitmap, 60 << 16, "dv"));
    EXPECT_TRUE(parsed == positions);
    // Cut anywhere it is an error, never a crash.
    for (int i = 0; i < 20; ++i) {
      const auto cut =
          ParsePositionBitmap(bitmap.substr(0, random() % bitmap.size()), 60 << 16, "dv");
      EXPECT_FALSE(cut.ok());
    }
    EXPECT_FALSE(ParsePositionBitmap(bitmap + '\0', 60 << 16, "dv").ok());
    EXPECT_FALSE(ParsePositionBitmap(bitmap, positions.maximum(), "dv").ok());
    EXPECT_TRUE(ParsePositionBitmap(bitmap, int64_t{positions.maximum()} + 1, "dv").ok());
  }
}

TEST(DeletionVector, WhatDoesNotFitIsRefused) {
  auto message = [](const std::string& blob, int64_t rows = 65541, int64_t cardinality = 5) {
    const auto parsed = ParseDeletionVector(blob, rows, cardinality, "dv of x");
    EXPECT_FALSE(parsed.ok());
    EXPECT_THAT(parsed.status().message(), HasSubstr("dv of x"));
    return parsed.status().message();
  };
  EXPECT_THAT(message(kArrays, 65540), HasSubstr("position 65540 is deleted"));
  EXPECT_THAT(message(kArrays, 65541, 4), HasSubstr("has 5 positions"));
  EXPECT_THAT(message(kArrays.substr(0, 11)), HasSubstr("cut short"));
  EXPECT_THAT(message(kArrays.substr(0, 40)), HasSubstr("says that it has 58"));
  std::string damaged = kArrays;
  damaged[30] ^= 1;
  EXPECT_THAT(message(damaged), HasSubstr("checksum"));
  damaged = kArrays;
  damaged[4] = 'x';
  EXPECT_THAT(message(damaged), HasSubstr("magic"));
  EXPECT_THAT(message(Enveloped(kSecondKey), kManyRows, 1), HasSubstr("position 4294967303"));
  const auto negative = ParsePositionBitmap(kRunsWithOffsets, -1, "dv");
  EXPECT_FALSE(negative.ok());
}

TEST(DeletionVector, InconsistentBitmapsAreRefused) {
  auto bitmap_message = [](const std::string& hex) {
    const auto parsed = ParsePositionBitmap(FromHex(hex), kManyRows, "dv");
    EXPECT_FALSE(parsed.ok()) << hex;
    return parsed.status().message();
  };
  const std::string one_map = "010000000000000000000000";
  // A container of one key with values 5, 5.
  EXPECT_THAT(bitmap_message(one_map + "3a30000001000000" + "00000100" + "10000000" + "05000500"),
              HasSubstr("values do not ascend"));
  // Container keys 1, 1.
  EXPECT_THAT(bitmap_message(one_map + "3a30000002000000" + "0100000001000000" +
                             "1800000000000000" + "05000600"),
              HasSubstr("container keys do not ascend"));
  // A run of 3 values from 1 in a container that says 5.
  EXPECT_THAT(bitmap_message(one_map + "3b300000" + "01" + "00000400" + "0100" + "01000200"),
              HasSubstr("cardinality"));
  // Runs that overlap: 1 to 3, 3 to 4.
  EXPECT_THAT(
      bitmap_message(one_map + "3b300000" + "01" + "00000400" + "0200" + "01000200" + "03000100"),
      HasSubstr("runs do not ascend"));
  // A run beyond 65535.
  EXPECT_THAT(bitmap_message(one_map + "3b300000" + "01" + "00000400" + "0100" + "feff0400"),
              HasSubstr("runs do not ascend"));
  // A bitset without a bit in a container of 5000.
  EXPECT_THAT(bitmap_message(one_map + "3a30000001000000" + "00008713" + "10000000" +
                             std::string(8192 * 2, '0')),
              HasSubstr("cardinality"));
  EXPECT_THAT(bitmap_message(one_map + "3a300000ffffffff"), HasSubstr("4294967295 containers"));
  EXPECT_THAT(bitmap_message(one_map + "39300000"), HasSubstr("cookie"));
  EXPECT_THAT(bitmap_message("ffffffffffffffff"), HasSubstr("cut short"));
  // Keys 1, 1 of the 64-bit form.
  EXPECT_THAT(bitmap_message("0200000000000000"
                             "01000000"
                             "3a30000000000000"
                             "01000000"
                             "3a30000000000000"),
              HasSubstr("32-bit keys"));
}

TEST(DeletionVector, ReadFromAFile) {
  TempFolder folder;
  FileIO io;
  ASSERT_OK(io.WriteNew(folder / "a.puffin", "PFA1" + kArrays + kRuns + "rest"));
  DataFile vector;
  vector.content = FileContent::kPositionDeletes;
  vector.file_path = folder / "a.puffin";
  vector.file_format = "PUFFIN";
  vector.referenced_data_file = "x";
  vector.record_count = 291;
  EXPECT_FALSE(ReadDeletionVector(io, vector, 70001, nullptr).ok());  // no offset
  vector.content_offset = 4 + kArrays.size();
  vector.content_size_in_bytes = kRuns.size();
  ASSERT_OK_AND_ASSIGN(auto positions, ReadDeletionVector(io, vector, 70001, nullptr));
  EXPECT_EQ(positions.cardinality(), 291u);
  for (auto [offset, size] : std::vector<std::pair<int64_t, int64_t>>{
           {-1, 10}, {4, -1}, {4, 1 << 20}, {INT64_MAX, INT64_MAX}, {5, 54}, {4, INT64_MAX}}) {
    vector.content_offset = offset;
    vector.content_size_in_bytes = size;
    const auto refused = ReadDeletionVector(io, vector, 70001, nullptr);
    ASSERT_FALSE(refused.ok());
    EXPECT_THAT(refused.status().message(), HasSubstr(vector.file_path));
  }
}

}  // namespace
}  // namespace thalweg::iceberg
