#include "iceberg/bounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "key/encoded_value.h"

namespace thalweg::iceberg {
namespace {

using ::testing::HasSubstr;

Type MakeType(TypeKind kind, int32_t precision = 0, int32_t scale = 0) {
  Type type;
  type.kind = kind;
  type.precision = precision;
  type.scale = scale;
  return type;
}

template <typename T>
std::string LittleEndian(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

TEST(Truncate, LowerStrings) {
  EXPECT_EQ(TruncateLower(TypeKind::kString, "abcdef", 3), "abc");
  EXPECT_EQ(TruncateLower(TypeKind::kString, "abc", 3), "abc");
  EXPECT_EQ(TruncateLower(TypeKind::kString, "", 3), "");
  EXPECT_EQ(TruncateLower(TypeKind::kString, "aé€😀z", 4), "aé€😀");
  EXPECT_EQ(TruncateLower(TypeKind::kString, "\xff\xff\xff", 2), "\xff\xff");  // not UTF-8
  EXPECT_EQ(TruncateLower(TypeKind::kBinary, "\xc3\xa9\xc3", 1), "\xc3");
  EXPECT_EQ(TruncateLower(TypeKind::kLong, "12345678", 3), "12345678");
}

// The cases of the reference implementation's tests (TestMetricsTruncation), and the ends of each
// range of code points.
TEST(Truncate, UpperStrings) {
  auto upper = [](std::string_view value, int length) {
    return TruncateUpper(TypeKind::kString, value, length);
  };
  EXPECT_EQ(upper("abcdef", 3), "abd");
  EXPECT_EQ(upper("abc", 3), "abc");
  EXPECT_EQ(upper("", 3), "");
  EXPECT_EQ(upper("\u007fx", 1), "\u0080");
  EXPECT_EQ(upper("\u07ffx", 1), "\u0800");
  EXPECT_EQ(upper("a\xed\x9f\xbfx", 2), "a\ue000");  // the surrogates are skipped
  EXPECT_EQ(upper("\uffffx", 1), "\U00010000");
  EXPECT_EQ(upper("a\U0010FFFFx", 2), "b");  // overflow: dropped
  EXPECT_EQ(upper("a\U0010FFFF\U0010FFFFx", 3), "b");
  EXPECT_EQ(upper("\U0010FFFF\U0010FFFFx", 2), std::nullopt);
  EXPECT_EQ(upper("\U0010FFFFx", 2), "\U0010FFFFx");
  EXPECT_EQ(upper("イロハニホヘト", 2), "イヮ");
  EXPECT_EQ(upper("a\xff"
                  "b",
                  2),
            std::nullopt);  // not UTF-8: nothing that surely lies above
  EXPECT_EQ(upper("x", 0), std::nullopt);
}

TEST(Truncate, UpperBinary) {
  using namespace std::string_literals;
  auto upper = [](std::string_view value, int length) {
    return TruncateUpper(TypeKind::kBinary, value, length);
  };
  EXPECT_EQ(upper("\1\2\3"s, 2), "\1\3"s);
  EXPECT_EQ(upper("\1\xff\3"s, 2), "\2"s);
  EXPECT_EQ(upper("\xff\xff\3"s, 2), std::nullopt);
  EXPECT_EQ(upper("\xff\xff"s, 2), "\xff\xff"s);
  EXPECT_EQ(upper("\0\0\0"s, 1), "\1"s);
}

TEST(Truncate, BoundsEnclose) {
  std::mt19937 random(3);
  const std::vector<std::string> pieces = {
      "a", "z", "\x7f", "é", "\u07ff", "\xed\x9f\xbf", "\uffff", "😀", "\U0010FFFF"};
  int bounded = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string value;
    for (int n = random() % 12; n > 0; --n) value += pieces[random() % pieces.size()];
    for (int length = 1; length < 8; ++length) {
      EXPECT_LE(TruncateLower(TypeKind::kString, value, length), value);
      auto upper = TruncateUpper(TypeKind::kString, value, length);
      if (upper) {
        EXPECT_GE(*upper, value);
        ++bounded;
      }
    }
  }
  EXPECT_GT(bounded, 30000);
}

std::string Encoded(const Type& type, std::string_view bound) {
  auto encoded = BoundToEncoded(type, bound);
  EXPECT_TRUE(encoded.ok()) << encoded.status();
  return encoded.ValueOr("");
}

// Values of each type in ascending order: the encoded bounds ascend too.
TEST(BoundToEncoded, Orders) {
  std::vector<std::pair<Type, std::vector<std::string>>> cases;
  std::vector<std::string> ints, longs, floats, doubles;
  for (int32_t v : {INT32_MIN, -70000, -1, 0, 1, 255, 256, INT32_MAX})
    ints.push_back(LittleEndian(v));
  for (int64_t v :
       {INT64_MIN, int64_t{INT32_MIN}, int64_t{-1}, int64_t{0}, int64_t{256}, INT64_MAX}) {
    longs.push_back(LittleEndian(v));
  }
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (float v : {-kInf, -1e30f, -1.5f, -1e-40f, 0.0f, 1e-40f, 2.5f, kInf}) {
    floats.push_back(LittleEndian(v));
    doubles.push_back(LittleEndian(static_cast<double>(v)));
  }
  for (auto kind : {TypeKind::kInt, TypeKind::kDate}) cases.push_back({MakeType(kind), ints});
  for (auto kind :
       {TypeKind::kLong, TypeKind::kTimestamp, TypeKind::kTimestampTz, TypeKind::kTimestampNs}) {
    cases.push_back({MakeType(kind), longs});
  }
  cases.push_back({MakeType(TypeKind::kFloat), floats});
  cases.push_back({MakeType(TypeKind::kDouble), doubles});
  cases.push_back({MakeType(TypeKind::kBoolean), {std::string(1, '\0'), "\1"}});
  cases.push_back({MakeType(TypeKind::kString), {"", "A", "a", "aa", "b", "é", "😀"}});
  // -2^127, -32769, -129, -128, -1, 0, 127, 128, 256, 2^127-1 in minimal big-endian form.
  cases.push_back({MakeType(TypeKind::kDecimal, 38, 2),
                   {"\x80" + std::string(15, '\0'), "\xff\x7f\xff", "\xff\x7f", "\x80", "\xff",
                    std::string(1, '\0'), "\x7f", std::string("\0\x80", 2), std::string("\1\0", 2),
                    "\x7f" + std::string(15, '\xff')}});
  for (const auto& [type, values] : cases) {
    for (size_t i = 1; i < values.size(); ++i) {
      EXPECT_LT(Encoded(type, values[i - 1]), Encoded(type, values[i]))
          << type.ToString() << " " << i;
    }
  }
}

TEST(BoundToEncoded, SaysTheValue) {
  auto describe = [](const Type& type, std::string_view bound) {
    return DescribeEncoded(KeyTypeOf(type, Algorithm::kTypedQuantileRankV1).ValueOrDie(),
                           Encoded(type, bound));
  };
  EXPECT_EQ(describe(MakeType(TypeKind::kInt), LittleEndian<int32_t>(-42)), "-42");
  EXPECT_EQ(describe(MakeType(TypeKind::kDecimal, 9, 0), std::string("\1\0", 2)), "256");
  EXPECT_EQ(describe(MakeType(TypeKind::kString), "thalweg"), "\"thalweg\"");
}

TEST(BoundToEncoded, StoredBeforePromotion) {
  const Type long_type = MakeType(TypeKind::kLong), double_type = MakeType(TypeKind::kDouble);
  for (int32_t v : {INT32_MIN, -5, 0, 77, INT32_MAX}) {
    EXPECT_EQ(Encoded(long_type, LittleEndian(v)), Encoded(long_type, LittleEndian<int64_t>(v)));
  }
  for (float v : {-2.5f, 0.0f, 1e30f}) {
    EXPECT_EQ(Encoded(double_type, LittleEndian(v)), Encoded(double_type, LittleEndian<double>(v)));
  }
  // 2000-01-01 is day 10957.
  EXPECT_EQ(Encoded(MakeType(TypeKind::kTimestamp), LittleEndian<int32_t>(10957)),
            Encoded(MakeType(TypeKind::kTimestamp), LittleEndian<int64_t>(946684800000000)));
  // decimal(4, 2) read as decimal(20, 2): the same unscaled value.
  EXPECT_EQ(Encoded(MakeType(TypeKind::kDecimal, 20, 2), "\x80"),
            Encoded(MakeType(TypeKind::kDecimal, 4, 2), "\xff\x80"));
  EXPECT_EQ(Encoded(MakeType(TypeKind::kDecimal, 38, 0), std::string(20, '\xff')),
            Encoded(MakeType(TypeKind::kDecimal, 38, 0), "\xff"));
}

TEST(BoundToEncoded, Malformed) {
  const double nan = std::nan("");
  const std::vector<std::pair<Type, std::string>> cases = {
      {MakeType(TypeKind::kInt), ""},
      {MakeType(TypeKind::kInt), "12345678"},
      {MakeType(TypeKind::kLong), "12345"},
      {MakeType(TypeKind::kFloat), LittleEndian(1.0)},
      {MakeType(TypeKind::kFloat), LittleEndian(static_cast<float>(nan))},
      {MakeType(TypeKind::kDouble), LittleEndian(nan)},
      {MakeType(TypeKind::kDouble), LittleEndian(-nan)},
      {MakeType(TypeKind::kDouble), LittleEndian(static_cast<float>(nan))},
      {MakeType(TypeKind::kDate), "12345678"},
      {MakeType(TypeKind::kBoolean), ""},
      {MakeType(TypeKind::kBoolean), "ab"},
      {MakeType(TypeKind::kDecimal, 38, 0), ""},
      {MakeType(TypeKind::kDecimal, 38, 0), "\1" + std::string(16, '\0')},
      // Seventeen bytes whose first is no mere sign: 2^127.
      {MakeType(TypeKind::kDecimal, 38, 0), std::string("\0\x80", 2) + std::string(15, '\0')},
      {MakeType(TypeKind::kTimestampNs), LittleEndian<int32_t>(INT32_MAX)}};
  for (const auto& [type, bound] : cases) {
    auto encoded = BoundToEncoded(type, bound);
    ASSERT_FALSE(encoded.ok()) << type.ToString() << " " << bound.size();
    EXPECT_THAT(encoded.status().message(), HasSubstr("malformed"));
  }
  EXPECT_THAT(BoundToEncoded(MakeType(TypeKind::kBinary), "x").status().message(),
              HasSubstr("cannot cluster by type binary"));
}

TEST(KeyTypeOf, AcceptedTypes) {
  constexpr auto kTyped = Algorithm::kTypedQuantileRankV1;
  EXPECT_EQ(*KeyTypeOf(MakeType(TypeKind::kDate), kTyped), (KeyType{KeyType::Kind::kSigned, 32}));
  EXPECT_EQ(*KeyTypeOf(MakeType(TypeKind::kDecimal, 9, 2), kTyped),
            (KeyType{KeyType::Kind::kDecimal128, 128}));
  EXPECT_EQ(*KeyTypeOf(MakeType(TypeKind::kString), kTyped), (KeyType{KeyType::Kind::kUtf8, 0}));
  for (auto kind : {TypeKind::kTime, TypeKind::kUuid, TypeKind::kFixed, TypeKind::kBinary,
                    TypeKind::kStruct, TypeKind::kList, TypeKind::kMap, TypeKind::kOther}) {
    Type type = MakeType(kind);
    Field field;
    field.type = std::make_shared<Type>(MakeType(TypeKind::kInt));
    if (kind == TypeKind::kList || kind == TypeKind::kMap) type.fields = {field, field};
    EXPECT_FALSE(KeyTypeOf(type, kTyped).ok());
  }
  EXPECT_FALSE(KeyTypeOf(MakeType(TypeKind::kTimestamp), Algorithm::kQuantileRankV1).ok());
  EXPECT_TRUE(KeyTypeOf(MakeType(TypeKind::kLong), Algorithm::kQuantileRankV1).ok());
}

}  // namespace
}  // namespace thalweg::iceberg
