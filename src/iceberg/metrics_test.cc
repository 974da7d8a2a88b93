#include "iceberg/metrics.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "iceberg/parquet_test_util.h"

namespace thalweg::iceberg {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;
using Kind = ParquetWriteOptions::MetricsMode::Kind;

std::string Bytes(std::initializer_list<int> bytes) {
  std::string text;
  for (int byte : bytes) text += static_cast<char>(byte);
  return text;
}

template <typename T>
std::string Raw(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

class MetricsTest : public ParquetTest {
 protected:
  DataFile Measure(const Schema& schema, const std::string& rows,
                   const ParquetWriteOptions& options = {}) {
    auto file = WriteFile(schema, Path(std::to_string(next_++)), {BatchOf(schema, rows)}, options);
    EXPECT_TRUE(file.ok()) << file.status().ToString();
    return file.ok() ? *file : DataFile();
  }
  /// Bounds of a clustering column "c" of strings or binaries.
  std::pair<std::string, std::string> ClusteringBounds(const std::string& type,
                                                       const std::vector<std::string>& values,
                                                       bool clustering = true) {
    Schema schema = SchemaOf(
        fmt::format(R"([{{"id": 5, "name": "c", "required": false, "type": "{}"}}])", type));
    arrow::BinaryBuilder builder;
    for (const std::string& value : values) EXPECT_TRUE(builder.Append(value).ok());
    auto batch = arrow::RecordBatch::Make(
        *schema.ToArrow(), static_cast<int64_t>(values.size()),
        {*(*builder.Finish())->View((*schema.ToArrow())->field(0)->type())});
    ParquetWriteOptions options;
    if (clustering) options.clustering_field_ids = {5};
    auto file = WriteFile(schema, Path(std::to_string(next_++)), {batch}, options);
    EXPECT_TRUE(file.ok()) << file.status().ToString();
    if (!file.ok()) return {};
    return {file->lower_bounds.contains(5) ? file->lower_bounds[5] : "(none)",
            file->upper_bounds.contains(5) ? file->upper_bounds[5] : "(none)"};
  }
  int next_ = 0;
};

TEST_F(MetricsTest, SingleValueBinary) {
  Schema schema = SchemaOf(R"json([
    {"id": 1, "name": "b", "required": false, "type": "boolean"},
    {"id": 2, "name": "i", "required": false, "type": "int"},
    {"id": 3, "name": "l", "required": false, "type": "long"},
    {"id": 4, "name": "day", "required": false, "type": "date"},
    {"id": 5, "name": "ts", "required": false, "type": "timestamp"},
    {"id": 6, "name": "ns", "required": false, "type": "timestamptz_ns"},
    {"id": 7, "name": "tod", "required": false, "type": "time"},
    {"id": 8, "name": "u", "required": false, "type": "uuid"},
    {"id": 9, "name": "fx", "required": false, "type": "fixed[2]"},
    {"id": 10, "name": "none", "required": false, "type": "long"}])json");
  DataFile file = Measure(schema, R"([
    [true, -2, 5, -1, 7, 1, 3, "0123456789abcdef", "zz", null],
    [null, null, null, null, null, null, null, null, null, null],
    [true, 300, -5000000000, 19000, -9, -1, 2, "fedcba9876543210", "aa", null]])");
  EXPECT_EQ(file.record_count, 3);
  EXPECT_EQ(file.sort_order_id, 0);
  EXPECT_THAT(
      file.lower_bounds,
      ElementsAre(Pair(1, Bytes({1})), Pair(2, Bytes({0xfe, 0xff, 0xff, 0xff})),
                  Pair(3, Raw(int64_t{-5000000000})), Pair(4, Bytes({0xff, 0xff, 0xff, 0xff})),
                  Pair(5, Raw(int64_t{-9})), Pair(6, Raw(int64_t{-1})), Pair(7, Raw(int64_t{2})),
                  Pair(8, "0123456789abcdef"), Pair(9, "aa")));
  EXPECT_THAT(file.upper_bounds,
              ElementsAre(Pair(1, Bytes({1})), Pair(2, Bytes({0x2c, 0x01, 0, 0})),
                          Pair(3, Raw(int64_t{5})), Pair(4, Bytes({0x38, 0x4a, 0, 0})),
                          Pair(5, Raw(int64_t{7})), Pair(6, Raw(int64_t{1})),
                          Pair(7, Raw(int64_t{3})), Pair(8, "fedcba9876543210"), Pair(9, "zz")));
  for (int id = 1; id <= 10; ++id) {
    EXPECT_EQ(file.value_counts[id], 3) << id;
    EXPECT_EQ(file.null_value_counts[id], id == 10 ? 3 : 1) << id;
    EXPECT_GT(file.column_sizes[id], 0) << id;
  }
  EXPECT_TRUE(file.nan_value_counts.empty());
}

TEST_F(MetricsTest, FloatsHaveNoNanAndSignedZeros) {
  Schema schema = SchemaOf(R"([{"id": 1, "name": "zeros", "required": false, "type": "double"},
                               {"id": 2, "name": "mixed", "required": false, "type": "float"},
                               {"id": 3, "name": "nans", "required": false, "type": "double"}])");
  DataFile file = Measure(
      schema, R"([[0.0, NaN, NaN], [-0.0, 1.5, null], [0.0, -Inf, NaN], [null, null, NaN]])");
  EXPECT_THAT(file.lower_bounds, ElementsAre(Pair(1, Raw(-0.0)), Pair(2, Raw(-INFINITY))));
  EXPECT_THAT(file.upper_bounds, ElementsAre(Pair(1, Raw(0.0)), Pair(2, Raw(1.5f))));
  EXPECT_THAT(file.nan_value_counts, ElementsAre(Pair(1, 0), Pair(2, 1), Pair(3, 3)));
  EXPECT_THAT(file.null_value_counts, ElementsAre(Pair(1, 1), Pair(2, 1), Pair(3, 1)));
}

TEST_F(MetricsTest, DecimalsAreMinimalBigEndian) {
  Schema schema =
      SchemaOf(R"json([{"id": 1, "name": "a", "required": false, "type": "decimal(9, 2)"},
                               {"id": 2, "name": "b", "required": false, "type": "decimal(38, 0)"},
                               {"id": 3, "name": "c", "required": false, "type": "decimal(3, 0)"}])json");
  DataFile file = Measure(schema, R"([["-1.29", "-170141183460469231731687303715884105", "-1"],
                                      ["14.20", "65536", "0"], ["1.28", "0", "-128"]])");
  EXPECT_EQ(file.lower_bounds[1], Bytes({0xff, 0x7f}));  // -129
  EXPECT_EQ(file.upper_bounds[1], Bytes({0x05, 0x8c}));  // 1420, the example of the specification
  EXPECT_EQ(file.upper_bounds[2], Bytes({0x01, 0x00, 0x00}));
  EXPECT_EQ(file.lower_bounds[2].size(), 15u);
  EXPECT_EQ(file.lower_bounds[3], Bytes({0x80}));
  EXPECT_EQ(file.upper_bounds[3], Bytes({0x00}));
}

TEST_F(MetricsTest, StructsHaveBoundsListsAndMapsHaveNone) {
  Schema schema = SchemaOf(R"([
    {"id": 1, "name": "st", "required": false, "type": {"type": "struct", "fields": [
      {"id": 2, "name": "x", "required": true, "type": "int"},
      {"id": 3, "name": "y", "required": false, "type": "double"}]}},
    {"id": 4, "name": "li", "required": false, "type": {"type": "list", "element-id": 5, "element": "int", "element-required": false}},
    {"id": 6, "name": "ma", "required": false, "type": {"type": "map", "key-id": 7, "key": "string", "value-id": 8, "value": "double", "value-required": false}}])");
  // The second row's struct is null: the zeros that stand in its children's buffers are no values.
  DataFile file = Measure(
      schema,
      R"([[[5, 1.0], [1, null, 3], [["k", NaN]]], [null, null, null], [[9, NaN], [], []]])");
  EXPECT_THAT(file.lower_bounds, ElementsAre(Pair(2, Raw(int32_t{5})), Pair(3, Raw(1.0))));
  EXPECT_THAT(file.upper_bounds, ElementsAre(Pair(2, Raw(int32_t{9})), Pair(3, Raw(1.0))));
  EXPECT_THAT(file.nan_value_counts, ElementsAre(Pair(3, 1)));
  EXPECT_THAT(file.value_counts,
              ElementsAre(Pair(2, 3), Pair(3, 3), Pair(5, 5), Pair(7, 3), Pair(8, 3)));
  EXPECT_THAT(file.null_value_counts,
              ElementsAre(Pair(2, 1), Pair(3, 1), Pair(5, 3), Pair(7, 2), Pair(8, 2)));
}

TEST_F(MetricsTest, TruncatedTexts) {
  // Sixteen code points of two and four bytes; what follows is cut and the last one incremented.
  std::string sixteen;
  for (int i = 0; i < 15; ++i) sixteen += "é";
  auto bounds = ClusteringBounds("string", {sixteen + "𝄞" + "tail", sixteen + "𝄞" + "tail"}, false);
  EXPECT_EQ(bounds.first, sixteen + "𝄞");
  EXPECT_EQ(bounds.second, sixteen + "𝄟");
  // U+D7FF is followed by U+E000, U+10FFFF by nothing: the one before is incremented.
  std::string fifteen(15, 'a');
  EXPECT_EQ(ClusteringBounds("string", {fifteen + "\xed\x9f\xbf" + "x"}, false).second,
            fifteen + "\xee\x80\x80");
  EXPECT_EQ(ClusteringBounds("string", {fifteen + "\xf4\x8f\xbf\xbf" + "x"}, false).second,
            std::string(14, 'a') + "b");
  // No upper bound of sixteen bytes exists; other columns go without one, clustering columns get
  // the value.
  const std::string high(17, '\xff');
  EXPECT_EQ(ClusteringBounds("binary", {high}, false).second, "(none)");
  EXPECT_EQ(ClusteringBounds("binary", {high, std::string("a")}).second, high);
  EXPECT_EQ(ClusteringBounds("string", {"", "short"}, false),
            std::make_pair(std::string(), std::string("short")));
}

TEST_F(MetricsTest, ClusteringColumnsDifferBehindLongPrefixes) {
  const std::string prefix(64, 'p');
  auto plain = ClusteringBounds("string", {prefix + "aaaa", prefix + "zzzz"}, false);
  EXPECT_EQ(plain.first, std::string(16, 'p'));  // no use to anybody
  auto bounds = ClusteringBounds(
      "string", {prefix + std::string(100, 'm'), prefix + "b" + std::string(100, 'x')});
  EXPECT_EQ(bounds.first, prefix + "b" + std::string(15, 'x'));
  EXPECT_EQ(bounds.second, prefix + std::string(15, 'm') + "n");
  // Short values stay whole; equal ones too, up to a cap.
  EXPECT_EQ(ClusteringBounds("string", {prefix + "a", prefix + "b"}),
            std::make_pair(prefix + "a", prefix + "b"));
  const std::string equal(200, 'e');
  EXPECT_EQ(ClusteringBounds("string", {equal, equal}), std::make_pair(equal, equal));
  auto huge = ClusteringBounds("binary", {std::string(100000, 'h'), std::string(100000, 'h')});
  EXPECT_EQ(huge.first, std::string(kMaxEqualBoundLength, 'h'));
  EXPECT_EQ(huge.second, std::string(kMaxEqualBoundLength - 1, 'h') + "i");
  auto long_prefix =
      ClusteringBounds("string", {std::string(100000, 'h') + "a", std::string(100000, 'h') + "b"});
  EXPECT_EQ(long_prefix.first.size(),
            static_cast<size_t>(kMaxCommonPrefix + kClusteringBoundLength));
}

TEST_F(MetricsTest, Modes) {
  Schema schema = SchemaOf(R"([
    {"id": 1, "name": "a", "required": false, "type": "string"},
    {"id": 2, "name": "st", "required": false, "type": {"type": "struct", "fields": [
      {"id": 3, "name": "x", "required": false, "type": "double"}]}},
    {"id": 4, "name": "b", "required": false, "type": "long"},
    {"id": 5, "name": "c", "required": false, "type": "long"}])");
  using Properties = std::map<std::string, std::string>;
  auto kinds = [&](const Properties& properties) {
    std::map<int32_t, Kind> kinds;
    auto modes = MetricsModes(properties, schema);
    EXPECT_TRUE(modes.ok()) << modes.status().ToString();
    for (const auto& [id, mode] : *modes) kinds[id] = mode.kind;
    return kinds;
  };
  const std::string prefix = "write.metadata.metrics.";
  EXPECT_THAT(kinds({}), ElementsAre(Pair(1, Kind::kTruncate), Pair(3, Kind::kTruncate),
                                     Pair(4, Kind::kTruncate), Pair(5, Kind::kTruncate)));
  // Top-level fields come before nested ones.
  EXPECT_THAT(kinds({{prefix + "max-inferred-column-defaults", "3"}}),
              ElementsAre(Pair(1, Kind::kTruncate), Pair(3, Kind::kNone), Pair(4, Kind::kTruncate),
                          Pair(5, Kind::kTruncate)));
  EXPECT_THAT(kinds({{prefix + "max-inferred-column-defaults", "1"},
                     {prefix + "default", "counts"},
                     {prefix + "column.st.x", "full"}}),
              ElementsAre(Pair(1, Kind::kCounts), Pair(3, Kind::kFull), Pair(4, Kind::kCounts),
                          Pair(5, Kind::kCounts)));

  ASSERT_OK_AND_ASSIGN(auto options,
                       ParquetWriteOptions::FromProperties({{prefix + "column.a", "none"},
                                                            {prefix + "column.st.x", "counts"},
                                                            {prefix + "column.b", "none"}},
                                                           schema));
  options.clustering_field_ids = {4};
  DataFile file = Measure(schema, R"([["v", [NaN], 1, 2]])", options);
  EXPECT_THAT(file.lower_bounds, ElementsAre(Pair(4, Raw(int64_t{1})), Pair(5, Raw(int64_t{2}))));
  EXPECT_THAT(file.value_counts, ElementsAre(Pair(3, 1), Pair(4, 1), Pair(5, 1)));
  EXPECT_THAT(file.nan_value_counts, ElementsAre(Pair(3, 1)));
  EXPECT_EQ(file.column_sizes.size(), 4u);
  ASSERT_OK_AND_ASSIGN(
      options, ParquetWriteOptions::FromProperties({{prefix + "column.a", "full"}}, schema));
  const std::string text(50, 't');
  file = Measure(schema, "[[\"" + text + "\", null, null, null]]", options);
  EXPECT_THAT(file.lower_bounds, ElementsAre(Pair(1, text)));
}

}  // namespace
}  // namespace thalweg::iceberg
