#include "key/encoded_value.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "key/encoded_value_internal.h"
#include "key/test_util_internal.h"

namespace thalweg {
namespace {

using Kind = KeyType::Kind;

KeyType TypeOf(const std::shared_ptr<arrow::DataType>& type) {
  return KeyTypeOf(*type, Algorithm::kTypedQuantileRankV1).ValueOrDie();
}

std::string Encode(const std::shared_ptr<arrow::Array>& array, int64_t row = 0) {
  return EncodeValue(TypeOf(array->type()), *array, row).ValueOrDie();
}

std::string PlainOf(const std::string& kind, int bits, const std::string& text) {
  if (kind == "utf8") return text;
  if (kind == "bool") return std::string(1, text == "True");
  auto bytes_of = [](auto value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  if (kind == "float") {
    return bits == 32 ? bytes_of(std::stof(text)) : bytes_of(std::stod(text));
  }
  if (bits == 128) return bytes_of(arrow::Decimal128::FromString(text).ValueOrDie().ToBytes());
  const std::string wide =
      kind == "uint" ? bytes_of(std::stoull(text)) : bytes_of(std::stoll(text));
  return wide.substr(0, static_cast<size_t>(bits / 8));
}

TEST(KeyTypeOf, AcceptsWhatTheAlgorithmsTake) {
  const std::vector<std::pair<std::shared_ptr<arrow::DataType>, KeyType>> both = {
      {arrow::boolean(), {Kind::kBool, 8}},
      {arrow::int8(), {Kind::kSigned, 8}},
      {arrow::int16(), {Kind::kSigned, 16}},
      {arrow::int32(), {Kind::kSigned, 32}},
      {arrow::int64(), {Kind::kSigned, 64}},
      {arrow::uint8(), {Kind::kUnsigned, 8}},
      {arrow::uint16(), {Kind::kUnsigned, 16}},
      {arrow::uint32(), {Kind::kUnsigned, 32}},
      {arrow::uint64(), {Kind::kUnsigned, 64}},
      {arrow::float32(), {Kind::kFloat, 32}},
      {arrow::float64(), {Kind::kFloat, 64}},
      {arrow::utf8(), {Kind::kUtf8, 0}},
      {arrow::large_utf8(), {Kind::kUtf8, 0}},
      {arrow::utf8_view(), {Kind::kUtf8, 0}},
      {arrow::dictionary(arrow::int16(), arrow::utf8()), {Kind::kUtf8, 0}}};
  const std::vector<std::pair<std::shared_ptr<arrow::DataType>, KeyType>> typed_only = {
      {arrow::date32(), {Kind::kSigned, 32}},
      {arrow::date64(), {Kind::kSigned, 64}},
      {arrow::timestamp(arrow::TimeUnit::SECOND), {Kind::kSigned, 64}},
      {arrow::timestamp(arrow::TimeUnit::MILLI), {Kind::kSigned, 64}},
      {arrow::timestamp(arrow::TimeUnit::MICRO, "Europe/Bern"), {Kind::kSigned, 64}},
      {arrow::timestamp(arrow::TimeUnit::NANO, "UTC"), {Kind::kSigned, 64}},
      {arrow::decimal128(38, 10), {Kind::kDecimal128, 128}},
      {arrow::dictionary(arrow::int32(), arrow::date32()), {Kind::kSigned, 32}}};
  for (const auto& [type, key] : both) {
    EXPECT_EQ(*KeyTypeOf(*type, Algorithm::kTypedQuantileRankV1), key) << type->ToString();
    EXPECT_EQ(*KeyTypeOf(*type, Algorithm::kQuantileRankV1), key) << type->ToString();
  }
  for (const auto& [type, key] : typed_only) {
    EXPECT_EQ(*KeyTypeOf(*type, Algorithm::kTypedQuantileRankV1), key) << type->ToString();
    auto refused = KeyTypeOf(*type, Algorithm::kQuantileRankV1);
    ASSERT_FALSE(refused.ok()) << type->ToString();
    EXPECT_NE(refused.status().message().find("quantile-rank-v1 cannot"), std::string::npos);
  }
}

TEST(KeyTypeOf, RefusesTheRestByName) {
  for (const auto& type :
       {arrow::binary(), arrow::large_binary(), arrow::fixed_size_binary(16), arrow::float16(),
        arrow::decimal256(50, 2), arrow::decimal32(5, 2), arrow::decimal64(12, 2),
        arrow::time32(arrow::TimeUnit::SECOND), arrow::time64(arrow::TimeUnit::MICRO),
        arrow::duration(arrow::TimeUnit::SECOND), arrow::null(), arrow::list(arrow::int32()),
        arrow::struct_({arrow::field("a", arrow::int32())}),
        arrow::dictionary(arrow::int8(), arrow::binary())}) {
    auto refused = KeyTypeOf(*type, Algorithm::kTypedQuantileRankV1);
    ASSERT_FALSE(refused.ok()) << type->ToString();
    EXPECT_NE(refused.status().message().find("decimal128"), std::string::npos);
  }
  EXPECT_NE(
      KeyTypeOf(*arrow::binary(), Algorithm::kQuantileRankV1).status().message().find("binary"),
      std::string::npos);
}

TEST(EncodedValue, Vectors) {
  int checked = 0;
  const Json vectors = QuantileRankVectors();
  for (const auto& entry : vectors["encoded"]) {
    const auto kind = entry["kind"].get<std::string>();
    const int bits = entry["bits"].get<int>();
    const auto text = entry["value"].get<std::string>();
    KeyType type{kind == "bool"    ? Kind::kBool
                 : kind == "uint"  ? Kind::kUnsigned
                 : kind == "float" ? Kind::kFloat
                 : kind == "utf8"  ? Kind::kUtf8
                 : bits == 128     ? Kind::kDecimal128
                                   : Kind::kSigned,
                 bits};
    const std::string encoded = EncodePlain(type, PlainOf(kind, bits, text)).ValueOrDie();
    EXPECT_EQ(ToHex(encoded), entry["hex"].get<std::string>()) << kind << bits << " " << text;
    ++checked;
  }
  EXPECT_EQ(checked, 20);
}

TEST(EncodedValue, ArraysEncodeAsTheirPlainBytes) {
  auto ints = ArrayOf<arrow::Int32Builder, int32_t>({0, -1, std::nullopt, 7});
  EXPECT_EQ(ToHex(Encode(ints, 0)), "0180000000");
  EXPECT_EQ(ToHex(Encode(ints, 1)), "017fffffff");
  EXPECT_EQ(ToHex(Encode(ints->Slice(3), 0)), "0180000007");
  EXPECT_FALSE(EncodeValue(TypeOf(arrow::int32()), *ints, 2).ok());  // null
  EXPECT_FALSE(EncodeValue(TypeOf(arrow::int32()), *ints, 4).ok());  // past the end
  EXPECT_FALSE(EncodeValue(TypeOf(arrow::int64()), *ints, 0).ok());  // another type
  auto bools = ArrayOf<arrow::BooleanBuilder, bool>({false, true, true});
  EXPECT_EQ(ToHex(Encode(bools->Slice(1), 1)), "0101");
  EXPECT_EQ(ToHex(Encode(bools, 0)), "0100");
  auto decimals = ArrayOf<arrow::Decimal128Builder, arrow::Decimal128>(
      {arrow::Decimal128("-1000000000000000000000000000000")},
      arrow::Decimal128Builder(arrow::decimal128(38, 2)));
  EXPECT_EQ(ToHex(Encode(decimals)), "017ffffff360d3632fb98b1215c0000000");
  auto stamps = ArrayOf<arrow::TimestampBuilder, int64_t>(
      {12345}, arrow::TimestampBuilder(arrow::timestamp(arrow::TimeUnit::NANO, "UTC"),
                                       arrow::default_memory_pool()));
  EXPECT_EQ(ToHex(Encode(stamps)), "018000000000003039");
  auto views = ArrayOf<arrow::StringViewBuilder, std::string>({"a", std::string(33, 'x')});
  auto large = ArrayOf<arrow::LargeStringBuilder, std::string>({"a", std::string(33, 'x')});
  auto small = ArrayOf<arrow::StringBuilder, std::string>({"a", std::string(33, 'x')});
  EXPECT_EQ(ToHex(Encode(small)), "02610000000000000001");
  for (int64_t row : {0, 1}) {
    EXPECT_EQ(Encode(views, row), Encode(small, row));
    EXPECT_EQ(Encode(large, row), Encode(small, row));
  }
  auto dictionary = arrow::DictionaryArray::FromArrays(
                        ArrayOf<arrow::Int8Builder, int8_t>({1, std::nullopt, 0}), small)
                        .ValueOrDie();
  EXPECT_EQ(Encode(dictionary, 0), Encode(small, 1));
  EXPECT_EQ(Encode(dictionary, 2), Encode(small, 0));
  EXPECT_FALSE(EncodeValue(TypeOf(arrow::utf8()), *dictionary, 1).ok());
}

TEST(EncodedValue, FloatsFollowTotalOrder) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<std::optional<double>> ascending = {-nan, -inf,   -1.5, -1e-310, -0.0,
                                                        0.0,  1e-310, 1.5,  inf,     nan};
  auto doubles = ArrayOf<arrow::DoubleBuilder, double>(ascending);
  arrow::FloatBuilder builder;
  for (auto value : ascending)
    ASSERT_TRUE(
        builder.Append(static_cast<float>(std::abs(*value) == 1e-310 ? *value * 1e265 : *value))
            .ok());
  auto floats = builder.Finish().ValueOrDie();
  for (int64_t row = 1; row < doubles->length(); ++row) {
    EXPECT_LT(Encode(doubles, row - 1), Encode(doubles, row)) << row;
    EXPECT_LT(Encode(floats, row - 1), Encode(floats, row)) << row;
  }
}

// Encoded bytes order as the texts do, and the text comes back; lengths around the block borders,
// zero bytes among them.
TEST(EncodedValue, TextsKeepTheirOrder) {
  std::mt19937_64 random(3);
  std::vector<std::string> texts = {"", std::string(1, '\0'), std::string(2, '\0'), "a"};
  for (int length : {1, 7, 8, 9, 15, 16, 31, 32, 33, 63, 64, 65, 96, 97, 200}) {
    for (int k = 0; k < 4; ++k) {
      std::string text(static_cast<size_t>(length), 'm');
      text.back() = static_cast<char>(random() % 3 == 0 ? 0 : random());
      texts.push_back(text);
    }
  }
  for (const auto& a : texts) {
    EXPECT_EQ(DecodeText(EncodeText(a)).ValueOrDie(), a);
    EXPECT_EQ(EncodedTextLength(static_cast<int64_t>(a.size())),
              static_cast<int64_t>(EncodeText(a).size()));
    for (const auto& b : texts) EXPECT_EQ(EncodeText(a) < EncodeText(b), a < b);
  }
}

TEST(EncodedValue, MalformedBytesAreRefused) {
  const std::string good = EncodeText(std::string(40, 'q'));
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(DecodeText(good.substr(0, length)).ok()) << length;
  }
  EXPECT_FALSE(DecodeText(good + "x").ok());
  EXPECT_FALSE(DecodeText(std::string("\x03", 1)).ok());
  EXPECT_FALSE(DecodeText(FromHex("02610000000000000000")).ok());  // a last block of no bytes
  EXPECT_FALSE(DecodeText(FromHex("02610000000000000009")).ok());  // longer than the block
  EXPECT_FALSE(DecodeText(FromHex("02610000000000000101")).ok());  // padding that is not zero
  EXPECT_FALSE(DecodeMapped({Kind::kSigned, 32}, FromHex("01800000")).ok());
  EXPECT_FALSE(DecodeMapped({Kind::kSigned, 32}, FromHex("0280000000")).ok());
  EXPECT_FALSE(DecodeMapped({Kind::kBool, 8}, FromHex("0102")).ok());
  EXPECT_FALSE(EncodePlain({Kind::kSigned, 32}, "abc").ok());
  EXPECT_FALSE(EncodePlain({Kind::kSigned, 32}, "abcde").ok());
}

TEST(EncodedValue, Descriptions) {
  auto describe = [](KeyType type, const char* hex) { return DescribeEncoded(type, FromHex(hex)); };
  EXPECT_EQ(describe({Kind::kSigned, 8}, "017f"), "-1");
  EXPECT_EQ(describe({Kind::kSigned, 64}, "010000000000000000"), "-9223372036854775808");
  EXPECT_EQ(describe({Kind::kUnsigned, 64}, "01ffffffffffffffff"), "18446744073709551615");
  EXPECT_EQ(describe({Kind::kBool, 8}, "0101"), "true");
  EXPECT_EQ(describe({Kind::kFloat, 32}, "01bfc00000"), "1.5");
  EXPECT_EQ(describe({Kind::kFloat, 64}, "017fffffffffffffff"), "-0");
  EXPECT_EQ(describe({Kind::kDecimal128, 128}, "017ffffff360d3632fb98b1215c0000000"),
            "-1000000000000000000000000000000");
  EXPECT_EQ(describe({Kind::kUtf8, 0}, "02610000000000000001"), "\"a\"");
  EXPECT_EQ(DescribeEncoded({Kind::kUtf8, 0}, EncodeText("a\"\n")), "\"a\\\"\\x0a\"");
  EXPECT_EQ(DescribeEncoded({Kind::kUtf8, 0}, EncodeText(std::string(39, 'x') + "éé")),
            fmt::format("\"{}…\"", std::string(39, 'x')));
  EXPECT_EQ(describe({Kind::kSigned, 64}, "0100"), "0x0100");
}

}  // namespace
}  // namespace thalweg
