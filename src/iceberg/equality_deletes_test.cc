#include "iceberg/equality_deletes.h"

#include <arrow/api.h>
#include <arrow/json/from_string.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "iceberg/equality_keys.h"
#include "iceberg/parquet_test_util.h"

namespace thalweg::iceberg {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<XXH128_hash_t> Hashes(const std::shared_ptr<arrow::Array>& array,
                                  std::vector<int> way = {0}, uint64_t seed = 1) {
  const auto batch = arrow::RecordBatch::Make(arrow::schema({arrow::field("c", array->type())}),
                                              array->length(), {array});
  std::vector<XXH128_hash_t> hashes;
  EXPECT_TRUE(EqualityHasher({std::move(way)}, seed).Hash(*batch, &hashes).ok());
  return hashes;
}
std::vector<XXH128_hash_t> Hashes(const std::shared_ptr<arrow::DataType>& type,
                                  const std::string& values) {
  auto array = arrow::json::ArrayFromJSONString(type, values);
  EXPECT_TRUE(array.ok()) << array.status();
  return Hashes(*array);
}
bool Same(XXH128_hash_t a, XXH128_hash_t b) { return XXH128_isEqual(a, b) != 0; }

TEST(EqualityHasher, WhatIsEqual) {
  for (const auto& type : {arrow::float32(), arrow::float64()}) {
    const auto hashes = Hashes(type, "[NaN, 0.0, -0.0, null, 1.5, 1.5, null]");
    EXPECT_FALSE(Same(hashes[1], hashes[2]));  // as Java's Float.compare
    EXPECT_FALSE(Same(hashes[0], hashes[3]));
    EXPECT_TRUE(Same(hashes[4], hashes[5]));
    EXPECT_TRUE(Same(hashes[3], hashes[6]));
    EXPECT_FALSE(Same(hashes[1], hashes[3]));
  }
  const uint64_t other_nan = 0xfff8000000000123;
  double nan;
  std::memcpy(&nan, &other_nan, 8);
  arrow::DoubleBuilder doubles;
  ASSERT_OK(doubles.AppendValues({std::nan(""), nan, std::numeric_limits<double>::infinity()}));
  const auto nans = Hashes(*doubles.Finish());
  EXPECT_TRUE(Same(nans[0], nans[1]));
  EXPECT_FALSE(Same(nans[0], nans[2]));
  const auto texts = Hashes(arrow::utf8(), R"(["", null, "a", "a", "ab"])");
  EXPECT_FALSE(Same(texts[0], texts[1]));
  EXPECT_TRUE(Same(texts[2], texts[3]));
  EXPECT_FALSE(Same(texts[3], texts[4]));
  const auto flags = Hashes(arrow::boolean(), "[true, false, null, true]");
  EXPECT_FALSE(Same(flags[0], flags[1]));
  EXPECT_TRUE(Same(flags[0], flags[3]));
  EXPECT_FALSE(Same(flags[1], flags[2]));
}

TEST(EqualityHasher, SeveralColumnsSlicesAndStructs) {
  const auto type =
      arrow::struct_({arrow::field("x", arrow::utf8()), arrow::field("y", arrow::int32())});
  auto rows = arrow::json::ArrayFromJSONString(
      type, R"([["a", 1], null, ["a", 2], [null, 1], ["a", 1], [null, null]])");
  ASSERT_OK(rows.status());
  const auto x = Hashes(*rows, {0, 0});
  EXPECT_TRUE(Same(x[0], x[2]));
  EXPECT_TRUE(Same(x[1], x[3]));  // no struct: no field
  const auto y = Hashes((*rows)->Slice(2), {0, 1});
  ASSERT_EQ(y.size(), 4u);
  EXPECT_TRUE(Same(y[1], y[2]));
  EXPECT_FALSE(Same(y[0], y[1]));

  // Neighbouring strings do not run together.
  auto pairs = arrow::json::ArrayFromJSONString(
      arrow::struct_({arrow::field("a", arrow::utf8()), arrow::field("b", arrow::utf8())}),
      R"([["ab", "c"], ["a", "bc"], ["ab", "c"], ["abc", null], [null, "abc"]])");
  ASSERT_OK(pairs.status());
  ASSERT_OK_AND_ASSIGN(auto batch, arrow::RecordBatch::FromStructArray(*pairs));
  std::vector<XXH128_hash_t> hashes;
  ASSERT_OK(EqualityHasher({{0}, {1}}, 3).Hash(*batch, &hashes));
  EXPECT_TRUE(Same(hashes[0], hashes[2]));
  for (size_t i : {1, 3, 4}) EXPECT_FALSE(Same(hashes[0], hashes[i]));
  EXPECT_FALSE(Same(hashes[3], hashes[4]));
  EXPECT_FALSE(EqualityHasher({{0, 0}}, 3).Hash(*batch, &hashes).ok());
}

TEST(EqualityTable, KeepsTheYoungestDelete) {
  EqualityTable table(1000, 1 << 20);
  EXPECT_EQ(table.limit(), 1000);
  std::vector<XXH128_hash_t> keys;
  for (uint64_t i = 0; i < 1000; ++i) keys.push_back({i, ~i});  // all in few slots
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_FALSE(table.full());
    table.Put(keys[i], 1 + i % 3);
  }
  EXPECT_TRUE(table.full());
  table.Put(keys[0], 3);
  table.Put(keys[2], 1);  // has 3
  EXPECT_EQ(table.size(), 1000);
  std::vector<uint32_t> found;
  table.FindAbove({keys[0], {5, 5}, keys[1], keys[2], keys[3]}, 1, &found);
  EXPECT_THAT(found, ElementsAre(0, 2, 3));
  table.FindAbove({keys[0], keys[1]}, 2, &found);
  EXPECT_THAT(found, ElementsAre(0));
  table.FindAbove(keys, 0, &found);
  EXPECT_EQ(found.size(), 1000u);
  table.FindAbove(keys, 3, &found);
  EXPECT_THAT(found, ElementsAre());
  table.Clear();
  table.FindAbove(keys, 0, &found);
  EXPECT_THAT(found, ElementsAre());
  EXPECT_EQ(EqualityTable(1000, 300).limit(), 10);
  EXPECT_EQ(EqualityTable(1000, 0).limit(), 1);
}

class EqualityColumnsTest : public ParquetTest {};

TEST_F(EqualityColumnsTest, FieldsByIdOfNewAndOldSchemas) {
  const Schema old = SchemaOf(R"([
    {"id": 1, "name": "a", "required": true, "type": "int"},
    {"id": 2, "name": "b", "required": false, "type": "float"},
    {"id": 3, "name": "s", "required": false, "type": {"type": "struct", "fields": [
      {"id": 4, "name": "x", "required": true, "type": "int"},
      {"id": 5, "name": "y", "required": false, "type": "string"}]}}])");
  const Schema current = SchemaOf(R"([
    {"id": 1, "name": "a", "required": true, "type": "long"},
    {"id": 9, "name": "b", "required": false, "type": "string"},
    {"id": 3, "name": "s", "required": false, "type": {"type": "struct", "fields": [
      {"id": 5, "name": "y", "required": false, "type": "string"}]}},
    {"id": 6, "name": "l", "required": false, "type": {"type": "list", "element-id": 7,
      "element": "long", "element-required": false}}])");
  const std::vector<Schema> schemas{old, current};
  ASSERT_OK_AND_ASSIGN(auto columns, FindEqualityColumns({5, 2, 1, 9}, current, schemas));
  ASSERT_EQ(columns.projection.fields.size(), 4u);
  EXPECT_THAT(columns.ways,
              ElementsAre(ElementsAre(2, 0), ElementsAre(3), ElementsAre(0), ElementsAre(1)));
  EXPECT_EQ(columns.projection.fields[0].type->kind, TypeKind::kLong);
  EXPECT_FALSE(columns.projection.fields[0].required);
  EXPECT_EQ(columns.projection.fields[2].type->fields.size(), 1u);
  EXPECT_EQ(columns.projection.fields[3].type->kind, TypeKind::kFloat);
  EXPECT_NE(columns.projection.fields[3].name, columns.projection.fields[1].name);
  EXPECT_EQ(columns.fields[0], nullptr);
  EXPECT_EQ(columns.fields[2], &current.fields[0]);
  auto message = [&](const std::vector<int32_t>& ids) {
    const auto refused = FindEqualityColumns(ids, current, schemas);
    EXPECT_FALSE(refused.ok());
    return refused.ok() ? "" : refused.status().message();
  };
  EXPECT_THAT(message({}), HasSubstr("no fields"));
  EXPECT_THAT(message({77}), HasSubstr("field 77"));
  EXPECT_THAT(message({7}), HasSubstr("list or map"));
  EXPECT_THAT(message({3}), HasSubstr("struct"));
  EXPECT_THAT(message({4, 5}), HasSubstr("different schemas"));
}

std::string Bytes(double value) { return {reinterpret_cast<const char*>(&value), sizeof(value)}; }
std::string Bytes(int32_t value) { return {reinterpret_cast<const char*>(&value), sizeof(value)}; }
std::string Bytes(int64_t value) { return {reinterpret_cast<const char*>(&value), sizeof(value)}; }

TEST_F(EqualityColumnsTest, FilesThatCannotMeet) {
  const Schema schema = SchemaOf(R"([
    {"id": 1, "name": "a", "required": false, "type": "long"},
    {"id": 2, "name": "d", "required": false, "type": "double"}])");
  const std::vector<const Field*> a{&schema.fields[0]};
  const std::vector<const Field*> d{&schema.fields[1]};
  auto file = [](int32_t id, const std::string& lower, const std::string& upper, int64_t nulls,
                 int64_t nans = 0) {
    DataFile result;
    result.value_counts[id] = 100;
    result.null_value_counts[id] = nulls;
    result.nan_value_counts[id] = nans;
    result.lower_bounds[id] = lower;
    result.upper_bounds[id] = upper;
    return result;
  };
  auto longs = [&](int64_t lower, int64_t upper, int64_t nulls) {
    return file(1, Bytes(lower), Bytes(upper), nulls);
  };
  EXPECT_TRUE(MayMeet(longs(1, 5, 0), longs(5, 9, 0), a));
  EXPECT_FALSE(MayMeet(longs(1, 5, 0), longs(6, 9, 0), a));
  EXPECT_FALSE(MayMeet(longs(6, 9, 0), longs(1, 5, 0), a));
  EXPECT_FALSE(MayMeet(longs(6, 9, 1), longs(1, 5, 0), a));
  EXPECT_TRUE(MayMeet(longs(6, 9, 1), longs(1, 5, 1), a));  // null equals null
  // Bounds from before the column became a long.
  EXPECT_FALSE(MayMeet(file(1, Bytes(int32_t{-3}), Bytes(int32_t{2}), 0), longs(3, 5, 0), a));
  EXPECT_TRUE(MayMeet(file(1, Bytes(int32_t{-3}), Bytes(int32_t{3}), 0), longs(3, 5, 0), a));
  EXPECT_TRUE(MayMeet(DataFile(), longs(3, 5, 0), a));  // nothing is known
  DataFile nulls = longs(0, 0, 100);
  nulls.lower_bounds.clear();
  nulls.upper_bounds.clear();
  EXPECT_FALSE(MayMeet(nulls, longs(3, 5, 0), a));
  EXPECT_TRUE(MayMeet(nulls, longs(3, 5, 1), a));
  auto doubles = [&](double lower, double upper, int64_t nans) {
    return file(2, Bytes(lower), Bytes(upper), 0, nans);
  };
  EXPECT_FALSE(MayMeet(doubles(1, 2, 0), doubles(3, 4, 1), d));
  EXPECT_TRUE(MayMeet(doubles(1, 2, 1), doubles(3, 4, 1), d));
  EXPECT_TRUE(MayMeet(doubles(0.0, 2, 0), doubles(-1, -0.0, 0), d));
  DataFile uncounted = doubles(1, 2, 0);
  uncounted.nan_value_counts.clear();
  EXPECT_TRUE(MayMeet(uncounted, doubles(3, 4, 1), d));
  // Each column may rule it out.
  DataFile left = longs(1, 5, 0);
  DataFile right = longs(1, 5, 0);
  left.lower_bounds[2] = Bytes(1.0);
  left.upper_bounds[2] = Bytes(2.0);
  left.nan_value_counts[2] = left.null_value_counts[2] = 0;
  right.lower_bounds[2] = Bytes(3.0);
  right.upper_bounds[2] = Bytes(4.0);
  EXPECT_FALSE(MayMeet(left, right, {a[0], d[0]}));
  EXPECT_TRUE(MayMeet(left, right, a));
}

}  // namespace
}  // namespace thalweg::iceberg
