#include "key/sample.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "key/encoded_value_internal.h"
#include "key/test_util_internal.h"

namespace thalweg {
namespace {

const KeyType kInt64{KeyType::Kind::kSigned, 64};
const KeyType kText{KeyType::Kind::kUtf8, 0};

struct Row {
  uint64_t address;
  std::optional<std::string> text;
};

// Step 2 as the text says it.
std::vector<ColumnSample::Candidate> Naive(const std::vector<Row>& rows, int column) {
  std::vector<ColumnSample::Candidate> all;
  size_t width = 0;
  for (const Row& row : rows) {
    if (!row.text) continue;
    all.push_back({SamplePriority(row.address, column), row.address, EncodeText(*row.text)});
    width = std::max(width, all.back().encoded.size());
  }
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
    return std::tie(a.priority, a.address) < std::tie(b.priority, b.address);
  });
  all.resize(std::min({all.size(), size_t{65536}, (size_t{8} << 20) / (width + 40)}));
  return all;
}

void ExpectSame(const std::vector<ColumnSample::Candidate>& a,
                const std::vector<ColumnSample::Candidate>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].priority, b[i].priority) << i;
    ASSERT_EQ(a[i].address, b[i].address) << i;
    ASSERT_TRUE(a[i].encoded == b[i].encoded) << i;
  }
}

void AddRows(ColumnSample& sample, const std::vector<Row>& rows, size_t begin, size_t end) {
  arrow::StringBuilder builder;
  std::vector<uint64_t> addresses;
  for (size_t i = begin; i < end; ++i) {
    ASSERT_TRUE((rows[i].text ? builder.Append(*rows[i].text) : builder.AppendNull()).ok());
    addresses.push_back(rows[i].address);
  }
  ASSERT_TRUE(sample.Add(*builder.Finish().ValueOrDie(), 0, addresses.data()).ok());
}

TEST(Sample, PriorityVectors) {
  const Json vectors = QuantileRankVectors();
  for (const auto& entry : vectors["priority"]) {
    EXPECT_EQ(fmt::format("{:016x}", SamplePriority(entry["address"].get<uint64_t>(),
                                                    entry["column"].get<int>())),
              entry["priority"].get<std::string>());
  }
  EXPECT_EQ(vectors["priority"].size(), 5u);
}

TEST(Sample, SamplingVector) {
  const Json vectors = QuantileRankVectors();
  const std::vector<Row> rows = {{62, "a"},
                                 {50, "b"},
                                 {17, "c"},
                                 {6, "d"},
                                 {24, "e"},
                                 {12, "f"},
                                 {35, std::string(1626848, 'g')}};
  for (bool long_first : {false, true}) {
    auto order = rows;
    if (long_first) std::reverse(order.begin(), order.end());
    ColumnSample sample(kText, 0);
    for (size_t i = 0; i < order.size(); ++i) AddRows(sample, order, i, i + 1);
    auto retained = sample.Retained().ValueOrDie();
    const auto& want = vectors["sampling"]["retained"];
    ASSERT_EQ(retained.size(), want.size());
    for (size_t i = 0; i < retained.size(); ++i) {
      EXPECT_EQ(retained[i].address, want[i]["address"].get<uint64_t>());
      EXPECT_EQ(fmt::format("{:016x}", retained[i].priority),
                want[i]["priority"].get<std::string>());
    }
    auto model = sample.Finish().ValueOrDie();
    const auto& values = vectors["sampling"]["model"];
    ASSERT_EQ(static_cast<size_t>(model.size()), values.size());
    for (int64_t i = 0; i < model.size(); ++i)
      EXPECT_EQ(ToHex(model.value(i)), values[i].get<std::string>());
  }
}

TEST(Sample, NoRoomForOneEntryIsAnError) {
  // 37 bytes for the first 32 and 33 for each large block: 254,197 of them leave room for one entry
  // in 8 MiB less 40 bytes.
  ColumnSample one(kText, 0);
  AddRows(one, {{1, "a"}, {2, std::string(size_t{254197} * 32 + 32, 'x')}}, 0, 2);
  EXPECT_EQ(one.Retained().ValueOrDie().size(), 1u);
  ColumnSample sample(kText, 0);
  AddRows(sample, {{1, "a"}, {2, std::string(size_t{254198} * 32 + 32, 'x')}}, 0, 2);
  EXPECT_FALSE(sample.Retained().ok());
  auto model = sample.Finish();
  ASSERT_FALSE(model.ok());
  EXPECT_NE(model.status().message().find("widest"), std::string::npos);
}

TEST(Sample, NullsAreNoCandidates) {
  ColumnSample sample(kInt64, 3);
  ASSERT_TRUE(
      sample.Add(*ArrayOf<arrow::Int64Builder, int64_t>({std::nullopt, 5, std::nullopt, 6}), 100)
          .ok());
  ASSERT_TRUE(sample.Add(*arrow::MakeArrayOfNull(arrow::int64(), 10).ValueOrDie(), 200).ok());
  auto retained = sample.Retained().ValueOrDie();
  std::vector<uint64_t> addresses;
  for (const auto& candidate : retained) addresses.push_back(candidate.address);
  std::sort(addresses.begin(), addresses.end());
  EXPECT_EQ(addresses, (std::vector<uint64_t>{101, 103}));
  ColumnSample none(kInt64, 0);
  EXPECT_EQ(none.Finish().ValueOrDie().size(), 0);
}

// More rows than are kept: the same sample as sorting everything, whatever the splits, the order
// and the merges.
TEST(Sample, SplitsAndMergesDoNotMatter) {
  std::mt19937_64 random(11);
  std::vector<Row> rows;
  for (uint64_t i = 0; i < 30000; ++i) {
    // Widths grow from 10 to thousands of bytes, so that the number kept shrinks on the way (to
    // about 2,000).
    size_t length = random() % (i % 5000 == 4999 ? 4000 : 20);
    rows.push_back({(i % 3) << 32 | i, random() % 10 == 0
                                           ? std::nullopt
                                           : std::optional(std::string(
                                                 length, static_cast<char>('a' + random() % 26)))});
  }
  const auto want = Naive(rows, 2);
  ASSERT_LT(want.size(), 20000u);
  for (int round = 0; round < 4; ++round) {
    std::shuffle(rows.begin(), rows.end(), random);
    std::vector<ColumnSample> parts;
    for (int part = 0; part < 5; ++part) parts.emplace_back(kText, 2);
    for (size_t begin = 0; begin < rows.size();) {
      const size_t end = std::min(rows.size(), begin + 1 + random() % 3000);
      AddRows(parts[random() % parts.size()], rows, begin, end);
      begin = end;
    }
    std::shuffle(parts.begin(), parts.end(), random);
    for (size_t part = 1; part < parts.size(); ++part)
      ASSERT_TRUE(parts[0].Merge(parts[part]).ok());
    ExpectSame(parts[0].Retained().ValueOrDie(), want);
  }
}

TEST(Sample, KeepsTheSmallestPrioritiesOfManyRows) {
  constexpr int64_t kRows = 300000;
  std::vector<int64_t> values(kRows);
  std::iota(values.begin(), values.end(), -1000);
  arrow::Int64Builder builder;
  ASSERT_TRUE(builder.AppendValues(values).ok());
  auto array = builder.Finish().ValueOrDie();
  ColumnSample whole(kInt64, 1);
  ASSERT_TRUE(whole.Add(*array, 77).ok());
  ColumnSample left(kInt64, 1), right(kInt64, 1);
  ASSERT_TRUE(right.Add(*array->Slice(123456), 77 + 123456).ok());
  ASSERT_TRUE(left.Add(*array->Slice(0, 123456), 77).ok());
  ASSERT_TRUE(left.Merge(right).ok());
  const auto retained = whole.Retained().ValueOrDie();
  ExpectSame(left.Retained().ValueOrDie(), retained);
  ASSERT_EQ(retained.size(), 65536u);
  std::vector<uint64_t> priorities;
  for (int64_t i = 0; i < kRows; ++i)
    priorities.push_back(SamplePriority(static_cast<uint64_t>(77 + i), 1));
  std::sort(priorities.begin(), priorities.end());
  for (size_t i = 0; i < retained.size(); ++i) {
    ASSERT_EQ(retained[i].priority, priorities[i]);
    ASSERT_EQ(retained[i].encoded,
              EncodeMapped(kInt64, (retained[i].address - 77 - 1000) ^ (uint64_t{1} << 63)));
  }
}

TEST(Sample, DictionariesCountAsTheirValues) {
  auto values = ArrayOf<arrow::StringBuilder, std::string>(
      {"x", std::nullopt, "yy", std::string(5000000, 'z')});
  auto indices = ArrayOf<arrow::Int32Builder, int32_t>({0, 1, 2, std::nullopt, 2, 0});
  auto dictionary = arrow::DictionaryArray::FromArrays(indices, values).ValueOrDie();
  ColumnSample encoded(kText, 0), plain(kText, 0);
  ASSERT_TRUE(encoded.Add(*dictionary, 10).ok());
  ASSERT_TRUE(plain
                  .Add(*ArrayOf<arrow::StringBuilder, std::string>(
                           {"x", std::nullopt, "yy", std::nullopt, "yy", "x"}),
                       10)
                  .ok());
  // The long value that no row refers to is no candidate: it would leave room for one entry only.
  ASSERT_EQ(plain.Retained().ValueOrDie().size(), 4u);
  ExpectSame(encoded.Retained().ValueOrDie(), plain.Retained().ValueOrDie());
}

TEST(Sample, Mismatches) {
  ColumnSample sample(kInt64, 0), other_column(kInt64, 1), other_type(kText, 0);
  EXPECT_FALSE(sample.Merge(other_column).ok());
  EXPECT_FALSE(sample.Merge(other_type).ok());
  EXPECT_FALSE(sample.Merge(sample).ok());
  EXPECT_FALSE(sample.Add(*ArrayOf<arrow::Int32Builder, int32_t>({1}), 0).ok());
}

}  // namespace
}  // namespace thalweg
