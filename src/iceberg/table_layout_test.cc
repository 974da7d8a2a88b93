#include <gtest/gtest.h>

#include "iceberg/iceberg_table_internal.h"
#include "util/json.h"

namespace thalweg::iceberg {
namespace {

Schema OneColumn(const std::string& type, const std::string& more = "") {
  auto json = ParseJson(R"({"type": "struct", "schema-id": 0, "fields": [
      {"id": 5, "name": "c", "required": false, "type": ")" +
                            type + "\"" + more + "}]}",
                        "test");
  return *Schema::FromJson(*json);
}

UnitColumn ColumnOf(const DataFile& file, const Schema& schema) {
  LiveFile live;
  live.file = file;
  ClusteringColumn column;
  column.name = "c";
  column.field_id = 5;
  return UnitOf(live, /*deleted_rows=*/0, schema, {column}).columns.at(0);
}

// What is known of a column of which the file's entry tells nothing.
TEST(TableLayout, ColumnsThatAFileDoesNotHave) {
  DataFile file;
  file.record_count = 10;
  file.column_sizes = {{1, 100}};
  UnitColumn column = ColumnOf(file, OneColumn("long"));
  EXPECT_TRUE(column.usable);  // all NULL
  EXPECT_EQ(column.null_count, 10);
  EXPECT_FALSE(column.lower || column.upper);
  // With a default its values are others.
  EXPECT_FALSE(ColumnOf(file, OneColumn("long", ", \"initial-default\": 3")).usable);
  // The file has the column and no metrics of it, or the entry says nothing of any column.
  file.column_sizes[5] = 7;
  EXPECT_FALSE(ColumnOf(file, OneColumn("long")).usable);
  file.column_sizes.clear();
  EXPECT_FALSE(ColumnOf(file, OneColumn("long")).usable);
}

// NaN is no bound, but where a file has nothing else it is known where the file lies.
TEST(TableLayout, FilesOfNothingButNaN) {
  DataFile file;
  file.record_count = 10;
  file.null_value_counts = {{5, 3}};
  EXPECT_FALSE(ColumnOf(file, OneColumn("double")).usable);
  file.nan_value_counts = {{5, 6}};  // one row is something else
  EXPECT_FALSE(ColumnOf(file, OneColumn("double")).usable);
  file.nan_value_counts = {{5, 7}};
  for (const char* type : {"double", "float"}) {
    const UnitColumn column = ColumnOf(file, OneColumn(type));
    EXPECT_TRUE(column.usable) << type;
    EXPECT_EQ(column.null_count, 3);
    // The sign and the leading mantissa bit flipped in: above infinity.
    const std::string nan = type[0] == 'd' ? std::string("\x01\xff\xf8\0\0\0\0\0\0", 9)
                                           : std::string("\x01\xff\xc0\0\0", 5);
    EXPECT_EQ(column.lower, nan) << type;
    EXPECT_EQ(column.upper, nan) << type;
  }
  EXPECT_FALSE(ColumnOf(file, OneColumn("long")).usable);
  // Some NaN among values: the bounds of these are what a comparison prunes by.
  const double one = 1, two = 2;
  file.nan_value_counts = {{5, 2}};
  file.lower_bounds[5] = std::string(reinterpret_cast<const char*>(&one), 8);
  file.upper_bounds[5] = std::string(reinterpret_cast<const char*>(&two), 8);
  const UnitColumn column = ColumnOf(file, OneColumn("double"));
  EXPECT_EQ(column.lower, std::string("\x01\xbf\xf0\0\0\0\0\0\0", 9));
  EXPECT_EQ(column.upper, std::string("\x01\xc0\0\0\0\0\0\0\0", 9));
}

// Bounds from before a promotion give the same units as those of the new type.
TEST(TableLayout, BoundsFromBeforeAPromotion) {
  DataFile file;
  file.record_count = 10;
  file.null_value_counts = {{5, 0}};
  auto with = [&](const std::string& type, std::string lower, std::string upper) {
    file.lower_bounds[5] = std::move(lower);
    file.upper_bounds[5] = std::move(upper);
    return ColumnOf(file, OneColumn(type));
  };
  auto raw = [](auto value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  auto same = [](const UnitColumn& a, const UnitColumn& b) {
    return a.usable && b.usable && a.lower == b.lower && a.upper == b.upper && a.lower != a.upper;
  };
  EXPECT_TRUE(same(with("long", raw(int32_t{-3}), raw(int32_t{4})),
                   with("long", raw(int64_t{-3}), raw(int64_t{4}))));
  EXPECT_TRUE(same(with("double", raw(-1.5f), raw(0.5f)), with("double", raw(-1.5), raw(0.5))));
  // -2 and 300 days.
  EXPECT_TRUE(
      same(with("timestamp", raw(int32_t{-2}), raw(int32_t{300})),
           with("timestamp", raw(int64_t{-172'800'000'000}), raw(int64_t{25'920'000'000'000}))));
  EXPECT_TRUE(same(with("timestamp_ns", raw(int32_t{-2}), raw(int32_t{300})),
                   with("timestamp_ns", raw(int64_t{-172'800'000'000'000}),
                        raw(int64_t{25'920'000'000'000'000}))));
  EXPECT_TRUE(same(with("decimal(30, 2)", "\x85", "\x01"),
                   with("decimal(30, 2)", "\xff\xff\x85", std::string("\0\0\x01", 3))));
}

}  // namespace
}  // namespace thalweg::iceberg
