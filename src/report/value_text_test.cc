#include "report/value_text.h"

#include <arrow/array/util.h>
#include <arrow/scalar.h>
#include <arrow/util/decimal.h>
#include <gtest/gtest.h>

#include "key/encoded_value.h"

namespace thalweg::report {
namespace {

/// The values, parsed from their texts by Arrow, encoded, and shown.
std::vector<std::string> Show(const std::shared_ptr<arrow::DataType>& type,
                              const std::vector<std::string>& values) {
  const KeyType key = KeyTypeOf(*type, Algorithm::kTypedQuantileRankV1).ValueOrDie();
  std::vector<std::string> encoded;
  for (const auto& value : values) {
    const auto scalar = type->id() == arrow::Type::DECIMAL128
                            ? std::make_shared<arrow::Decimal128Scalar>(
                                  arrow::Decimal128::FromString(value).ValueOrDie(), type)
                            : arrow::Scalar::Parse(type, value).ValueOrDie();
    const auto array = arrow::MakeArrayFromScalar(*scalar, 1).ValueOrDie();
    encoded.push_back(EncodeValue(key, *array, 0).ValueOrDie());
  }
  return ShowValues(*type, key, encoded);
}

using Texts = std::vector<std::string>;

TEST(ShowValues, Numbers) {
  EXPECT_EQ(Show(arrow::int32(), {"-2013", "2013", "20130", "-1234567"}),
            (Texts{"-2013", "2013", "20,130", "-1,234,567"}));
  EXPECT_EQ(Show(arrow::int64(), {"9223372036854775807", "-9223372036854775808"}),
            (Texts{"9.223e+18", "-9.223e+18"}));
  EXPECT_EQ(Show(arrow::uint64(), {"18446744073709551615", "7"}), (Texts{"1.845e+19", "7"}));
  EXPECT_EQ(Show(arrow::float64(), {"0.30000000000000004", "-1e300", "12"}),
            (Texts{"0.3", "-1e+300", "12"}));
  EXPECT_EQ(Show(arrow::float32(), {"1.5", "-0.25"}), (Texts{"1.5", "-0.25"}));
  EXPECT_EQ(Show(arrow::boolean(), {"false", "true"}), (Texts{"false", "true"}));
}

TEST(ShowValues, Decimals) {
  EXPECT_EQ(Show(arrow::decimal128(12, 2), {"-12.34", "0.05", "1234567890.12"}),
            (Texts{"-12.34", "0.05", "1234567890.12"}));
  EXPECT_EQ(Show(arrow::decimal128(38, 10), {"-1234567890123456.5000000000", "0.0000000001"}),
            (Texts{"-1.235e+15", "0.0000000001"}));
}

TEST(ShowValues, DatesAndTimesAreAsFineAsTheyAreApart) {
  EXPECT_EQ(Show(arrow::date32(), {"1969-12-31", "2024-02-29"}),
            (Texts{"1969-12-31", "2024-02-29"}));
  const auto micros = arrow::timestamp(arrow::TimeUnit::MICRO);
  EXPECT_EQ(Show(micros, {"2013-01-01 10:00:00", "2013-12-31 23:00:00"}),
            (Texts{"2013-01-01", "2013-12-31"}));
  EXPECT_EQ(Show(micros, {"2013-01-01 10:00:59", "2013-01-03 23:05:00"}),
            (Texts{"2013-01-01 10:00", "2013-01-03 23:05"}));
  EXPECT_EQ(Show(micros, {"1969-12-31 23:59:59.250000", "1970-01-01 00:10:00"}),
            (Texts{"1969-12-31 23:59:59", "1970-01-01 00:10:00"}));
  EXPECT_EQ(Show(micros, {"1969-12-31 23:59:59.250000", "1970-01-01 00:00:00"}),
            (Texts{"1969-12-31 23:59:59.250000", "1970-01-01 00:00:00.000000"}));
  EXPECT_EQ(Show(arrow::timestamp(arrow::TimeUnit::NANO), {"2020-05-06 07:08:09.000000001"}),
            (Texts{"2020-05-06 07:08:09.000000001"}));
  EXPECT_EQ(Show(arrow::timestamp(arrow::TimeUnit::SECOND), {"2020-05-06 07:08:09"}),
            (Texts{"2020-05-06 07:08:09"}));
}

TEST(ShowValues, StringsAreShortenedBetweenCharacters) {
  EXPECT_EQ(Show(arrow::utf8(), {"", "Zürich", "äöüäöüäöüäöüäöüäöü"}),
            (Texts{"\"\"", "\"Zürich\"", "\"äöüäöüäöüäöüä…\""}));
}

TEST(ShowValues, WhatIsNoValueIsShownAsBytes) {
  const KeyType key{KeyType::Kind::kSigned, 32};
  EXPECT_EQ(ShowValues(*arrow::date32(), key, {"\x07"}), (Texts{"0x07"}));
  EXPECT_EQ(ShowValues(*arrow::int32(), key, {}), Texts{});
}

}  // namespace
}  // namespace thalweg::report
