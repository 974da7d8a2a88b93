#include "task/row_digest.h"

#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <arrow/compute/initialize.h>
#include <arrow/json/from_string.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "util/json.h"

namespace thalweg {
namespace {

using arrow::field;

std::shared_ptr<arrow::Array> FromJson(const std::shared_ptr<arrow::DataType>& type,
                                       const std::string& json) {
  auto array = arrow::json::ArrayFromJSONString(type, json);
  EXPECT_TRUE(array.ok()) << array.status().ToString();
  return *array;
}

std::shared_ptr<arrow::RecordBatch> Batch(const arrow::ArrayVector& columns) {
  arrow::FieldVector fields;
  for (size_t i = 0; i < columns.size(); ++i) {
    fields.push_back(field("c" + std::to_string(i), columns[i]->type()));
  }
  return arrow::RecordBatch::Make(arrow::schema(fields), columns[0]->length(), columns);
}

std::string DigestOf(const arrow::RecordBatch& batch) {
  RowDigest digest;
  EXPECT_TRUE(digest.Update(batch).ok());
  return digest.ToHex();
}
std::string DigestOf(const arrow::ArrayVector& columns) { return DigestOf(*Batch(columns)); }

std::string Hex(std::string_view bytes) {
  std::string text;
  for (const unsigned char c : bytes) text += fmt::format("{:02x}", c);
  return text;
}

std::shared_ptr<arrow::Array> Encode(const std::shared_ptr<arrow::Array>& plain) {
  return arrow::compute::DictionaryEncode(plain)->make_array();
}

std::shared_ptr<arrow::Array> RandomText(int64_t rows, uint64_t seed) {
  std::mt19937_64 random(seed);
  arrow::StringBuilder builder;
  for (int64_t i = 0; i < rows; ++i) {
    EXPECT_TRUE((random() % 9 == 0 ? builder.AppendNull()
                                   : builder.Append(std::string(random() % 40, 'a' + i % 26)))
                    .ok());
  }
  return *builder.Finish();
}

std::shared_ptr<arrow::Array> RandomInts(int64_t rows, uint64_t seed) {
  std::mt19937_64 random(seed);
  arrow::Int64Builder builder;
  for (int64_t i = 0; i < rows; ++i) {
    EXPECT_TRUE(
        (random() % 11 == 0 ? builder.AppendNull() : builder.Append(static_cast<int64_t>(random())))
            .ok());
  }
  return *builder.Finish();
}

class RowDigestTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(arrow::compute::Initialize().ok()); }
};

// The strings and digests in the file are checked by test/row_digest_test.py, which shares no code
// with this program.
TEST_F(RowDigestTest, PinnedVectors) {
  std::ifstream file(THALWEG_TEST_DATA "/row_digest_vectors.json");
  ASSERT_TRUE(file) << "row_digest_vectors.json";
  std::stringstream text;
  text << file.rdbuf();
  const Json vectors = *ParseJson(text.str(), "vectors");
  const std::map<std::string, std::shared_ptr<arrow::DataType>> types = {
      {"bool", arrow::boolean()},
      {"int8", arrow::int8()},
      {"int16", arrow::int16()},
      {"int32", arrow::int32()},
      {"int64", arrow::int64()},
      {"uint8", arrow::uint8()},
      {"uint16", arrow::uint16()},
      {"uint32", arrow::uint32()},
      {"uint64", arrow::uint64()},
      {"float32", arrow::float32()},
      {"float64", arrow::float64()},
      {"decimal128(20,2)", arrow::decimal128(20, 2)},
      {"decimal256(50,3)", arrow::decimal256(50, 3)},
      {"date32", arrow::date32()},
      {"date64", arrow::date64()},
      {"time32[s]", arrow::time32(arrow::TimeUnit::SECOND)},
      {"time64[us]", arrow::time64(arrow::TimeUnit::MICRO)},
      {"timestamp[us]", arrow::timestamp(arrow::TimeUnit::MICRO)},
      {"timestamp[ns, UTC]", arrow::timestamp(arrow::TimeUnit::NANO, "UTC")},
      {"duration[ms]", arrow::duration(arrow::TimeUnit::MILLI)},
      {"utf8", arrow::utf8()},
      {"large_utf8", arrow::large_utf8()},
      {"utf8_view", arrow::utf8_view()},
      {"binary", arrow::binary()},
      {"fixed_size_binary[3]", arrow::fixed_size_binary(3)},
      {"list<int32>", arrow::list(arrow::int32())},
      {"large_list<utf8>", arrow::large_list(arrow::utf8())},
      {"fixed_size_list<int16>[2]", arrow::fixed_size_list(arrow::int16(), 2)},
      {"list_view<int32>", arrow::list_view(arrow::int32())},
      {"struct<a: int32, b: utf8>",
       arrow::struct_({field("a", arrow::int32()), field("b", arrow::utf8())})},
      {"map<utf8, int64>", arrow::map(arrow::utf8(), arrow::int64())},
      {"list<struct<a: int32, b: list<utf8>>>",
       arrow::list(
           arrow::struct_({field("a", arrow::int32()), field("b", arrow::list(arrow::utf8()))}))},
      {"dictionary<utf8>", arrow::dictionary(arrow::int8(), arrow::utf8())},
      {"null", arrow::null()},
  };
  std::set<std::string> seen;
  for (const Json& vector : vectors["vectors"]) {
    arrow::ArrayVector columns;
    for (const Json& column : vector["columns"]) {
      const std::string name = column["type"];
      ASSERT_TRUE(types.contains(name)) << name;
      seen.insert(name);
      columns.push_back(FromJson(types.at(name), column["values"].dump()));
    }
    const auto batch = Batch(columns);
    const auto rows = CanonicalRows(*batch);
    ASSERT_TRUE(rows.ok());
    ASSERT_EQ(rows->size(), vector["rows"].size());
    for (size_t i = 0; i < rows->size(); ++i) {
      EXPECT_EQ(Hex((*rows)[i]), vector["rows"][i].get<std::string>()) << vector["name"];
    }
    EXPECT_EQ(DigestOf(*batch), vector["digest"].get<std::string>()) << vector["name"];
  }
  EXPECT_EQ(seen.size(), types.size());
}

TEST_F(RowDigestTest, NoRowsGiveZero) {
  EXPECT_EQ(RowDigest().ToHex(), std::string(32, '0'));
  EXPECT_EQ(DigestOf({FromJson(arrow::int32(), "[]")}), std::string(32, '0'));
}

TEST_F(RowDigestTest, HexRoundTripAndRefusals) {
  RowDigest digest;
  ASSERT_TRUE(digest.Update(*Batch({RandomInts(100, 1)})).ok());
  EXPECT_EQ(*RowDigest::FromHex(digest.ToHex()), digest);
  for (const char* bad :
       {"", "12", "0123456789abcdef0123456789abcdeg", "0123456789ABCDEF0123456789ABCDEF",
        "0123456789abcdef0123456789abcdef0"}) {
    EXPECT_FALSE(RowDigest::FromHex(bad).ok()) << bad;
  }
}

// 5000 rows: several blocks of the implementation, the last one partial.
TEST_F(RowDigestTest, SameForAnySlicingAndOrder) {
  constexpr int64_t kRows = 5000;
  const auto batch = Batch({RandomInts(kRows, 1), RandomText(kRows, 2), RandomInts(kRows, 3)});
  const std::string whole = DigestOf(*batch);
  RowDigest sum;
  std::mt19937_64 random(4);
  for (int64_t row = 0; row < kRows;) {
    const int64_t n = std::min<int64_t>(kRows - row, random() % 1500);
    RowDigest part;
    ASSERT_TRUE(part.Update(*batch->Slice(row, n)).ok());
    sum.Merge(part);
    row += n;
  }
  EXPECT_EQ(sum.ToHex(), whole);

  std::vector<int64_t> order(kRows);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random);
  arrow::Int64Builder indices;
  ASSERT_TRUE(indices.AppendValues(order).ok());
  const auto taken = arrow::compute::Take(batch, *indices.Finish());
  ASSERT_TRUE(taken.ok());
  EXPECT_EQ(DigestOf(*taken->record_batch()), whole);
}

TEST_F(RowDigestTest, SameForEveryLayout) {
  const auto text = RandomText(3000, 7);
  const std::string plain = DigestOf({text});
  for (const auto& type : {arrow::large_utf8(), arrow::utf8_view(), arrow::binary(),
                           arrow::large_binary(), arrow::binary_view()}) {
    EXPECT_EQ(DigestOf({*arrow::compute::Cast(*text, type)}), plain) << type->ToString();
  }
  const auto dictionary = Encode(text);
  EXPECT_EQ(DigestOf({dictionary}), plain);
  EXPECT_EQ(DigestOf({dictionary->Slice(100, 1000)}), DigestOf({text->Slice(100, 1000)}));
  // A null in the dictionary itself is the same as a null index.
  const auto null_inside = *arrow::DictionaryArray::FromArrays(
      FromJson(arrow::int16(), "[0, 1, null]"), FromJson(arrow::utf8(), R"(["x", null])"));
  EXPECT_EQ(DigestOf({null_inside}), DigestOf({FromJson(arrow::utf8(), R"(["x", null, null])")}));

  const auto ints = RandomInts(3000, 8);
  const auto runs = arrow::compute::RunEndEncode(ints);
  ASSERT_TRUE(runs.ok());
  EXPECT_EQ(DigestOf({runs->make_array()}), DigestOf({ints}));
  EXPECT_EQ(DigestOf({runs->make_array()->Slice(500, 700)}), DigestOf({ints->Slice(500, 700)}));

  const std::string lists = "[[1, 2], null, [3, 4], [5, null], [7, 8]]";
  const auto list = FromJson(arrow::list(arrow::int32()), lists);
  for (const auto& type :
       {arrow::large_list(arrow::int32()), arrow::fixed_size_list(arrow::int32(), 2),
        arrow::list_view(arrow::int32()), arrow::large_list_view(arrow::int32())}) {
    const auto other = FromJson(type, lists);
    EXPECT_EQ(DigestOf({other}), DigestOf({list})) << type->ToString();
    EXPECT_EQ(DigestOf({other->Slice(2, 2)}), DigestOf({list->Slice(2, 2)})) << type->ToString();
  }
  const auto rows =
      FromJson(arrow::struct_({field("a", arrow::int32()), field("b", arrow::utf8())}),
               R"([[1, "x"], null, [3, null], [4, "yy"]])");
  const auto tail =
      FromJson(arrow::struct_({field("a", arrow::int32()), field("b", arrow::utf8())}),
               R"([[3, null], [4, "yy"]])");
  EXPECT_EQ(DigestOf({rows->Slice(2)}), DigestOf({tail}));
  const auto fixed = FromJson(arrow::fixed_size_binary(2), R"(["ab", null, "cd"])");
  EXPECT_EQ(DigestOf({fixed->Slice(1)}), DigestOf({FromJson(arrow::binary(), R"([null, "cd"])")}));
}

TEST_F(RowDigestTest, BooleansAndDecimalsInSlices) {
  const auto flags =
      FromJson(arrow::boolean(), "[true, false, null, true, true, false, false, true, true]");
  EXPECT_EQ(DigestOf({flags->Slice(3, 4)}),
            DigestOf({FromJson(arrow::boolean(), "[true, true, false, false]")}));
  const auto decimals = FromJson(arrow::decimal128(10, 2), R"(["1.00", null, "-3.25"])");
  EXPECT_EQ(DigestOf({decimals->Slice(2)}),
            DigestOf({FromJson(arrow::decimal128(10, 2), R"(["-3.25"])")}));
}

// What lies beneath a null takes no part.
TEST_F(RowDigestTest, BytesUnderNullsDoNotCount) {
  const auto values = FromJson(arrow::int64(), "[1, 2, 3]");
  const auto mask = *arrow::AllocateBitmap(3);
  mask->mutable_data()[0] = 0b101;
  auto data = values->data()->Copy();
  data->buffers[0] = std::shared_ptr<arrow::Buffer>(std::move(mask));
  data->null_count = 1;
  EXPECT_EQ(DigestOf({arrow::MakeArray(data)}),
            DigestOf({FromJson(arrow::int64(), "[1, null, 3]")}));
}

TEST_F(RowDigestTest, NoticesEverySingleChange) {
  const auto i = RandomInts(200, 1);
  const auto t = RandomText(200, 2);
  const std::string before = DigestOf({i, t});
  std::set<std::string> digests{before};
  for (int64_t row = 0; row < 200; ++row) {
    arrow::Int64Builder builder;
    for (int64_t r = 0; r < 200; ++r) {
      const auto& values = static_cast<const arrow::Int64Array&>(*i);
      const bool null = values.IsNull(r);
      if (r == row) {
        ASSERT_TRUE(
            (null ? builder.Append(0) : builder.Append(values.Value(r) ^ (1ll << (row % 64))))
                .ok());
      } else {
        ASSERT_TRUE((null ? builder.AppendNull() : builder.Append(values.Value(r))).ok());
      }
    }
    EXPECT_TRUE(digests.insert(DigestOf({*builder.Finish(), t})).second) << row;
  }
  const auto differ = [](const char* type, const char* a, const char* b) {
    const auto t = std::string(type) == "utf8"  ? arrow::utf8()
                   : std::string(type) == "f64" ? arrow::float64()
                                                : arrow::list(arrow::int32());
    EXPECT_NE(DigestOf({FromJson(t, a)}), DigestOf({FromJson(t, b)})) << a << " " << b;
  };
  differ("utf8", R"([""])", "[null]");
  differ("utf8", R"(["a", "a"])", R"(["a"])");
  differ("f64", "[0.0]", "[-0.0]");
  differ("f64", "[0.0]", "[null]");
  differ("list", "[[]]", "[null]");
  differ("list", "[[null]]", "[[]]");
  differ("list", "[[1], [2]]", "[[1, 2], []]");
  // Neighbouring strings, and values that change places between columns or rows.
  const auto text = [](const char* json) { return FromJson(arrow::utf8(), json); };
  EXPECT_NE(DigestOf({text(R"(["ab"])"), text(R"(["c"])")}),
            DigestOf({text(R"(["a"])"), text(R"(["bc"])")}));
  EXPECT_NE(DigestOf({text(R"(["x"])"), text(R"(["y"])")}),
            DigestOf({text(R"(["y"])"), text(R"(["x"])")}));
  EXPECT_NE(DigestOf({text(R"(["a", "b"])"), text(R"(["c", "d"])")}),
            DigestOf({text(R"(["a", "b"])"), text(R"(["d", "c"])")}));
}

TEST_F(RowDigestTest, OneRowLargerThanABlock) {
  arrow::StringBuilder builder;
  const std::string big(5 << 20, 'z');
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(builder.Append(i == 1 ? big : "small").ok());
  const auto text = *builder.Finish();
  RowDigest sum;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(sum.Update(*Batch({text->Slice(i, 1)})).ok());
  EXPECT_EQ(DigestOf({text}), sum.ToHex());
}

TEST_F(RowDigestTest, UnionsAreRefused) {
  const auto type = arrow::sparse_union({field("a", arrow::int32()), field("b", arrow::utf8())});
  RowDigest digest;
  const auto status = digest.Update(*Batch({FromJson(type, R"([[0, 1]])")}));
  EXPECT_THAT(status.message(), ::testing::HasSubstr("sparse_union"));
}

}  // namespace
}  // namespace thalweg
