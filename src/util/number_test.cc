#include "util/number.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <optional>

namespace thalweg {
namespace {

TEST(ParseNumber, TakesTheWholeText) {
  EXPECT_EQ(ParseNumber<int64_t>("-17"), -17);
  EXPECT_EQ(ParseNumber<int64_t>("007"), 7);
  EXPECT_EQ(ParseNumber<double>("0.25"), 0.25);
  EXPECT_EQ(ParseNumber<double>("2.5e-3"), 0.0025);
  for (const char* text : {"", " 1", "1 ", "+1", "-", "1x", "0x10", "1.5", "1e3", "-+1"}) {
    EXPECT_EQ(ParseNumber<int64_t>(text), std::nullopt) << text;
  }
  for (const char* text : {"", " 1", "1.5x", "1.5.", "+1"}) {
    EXPECT_EQ(ParseNumber<double>(text), std::nullopt) << text;
  }
}

TEST(ParseNumber, EndsWhereTheTypeEnds) {
  EXPECT_EQ(ParseNumber<int32_t>("2147483647"), std::numeric_limits<int32_t>::max());
  EXPECT_EQ(ParseNumber<int32_t>("-2147483648"), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(ParseNumber<int32_t>("2147483648"), std::nullopt);
  EXPECT_EQ(ParseNumber<int32_t>("-2147483649"), std::nullopt);
  EXPECT_EQ(ParseNumber<int64_t>("9223372036854775808"), std::nullopt);
  EXPECT_EQ(ParseNumber<double>("1e999"), std::nullopt);
}

TEST(ParseNumber, DoesNotReadBehindTheText) {
  EXPECT_EQ(ParseNumber<int64_t>(std::string_view("1234", 2)), 12);
}

TEST(ParseCount, IsNotNegative) {
  EXPECT_EQ(ParseCount("0"), 0);
  EXPECT_EQ(ParseCount("9223372036854775807"), std::numeric_limits<int64_t>::max());
  for (const char* text : {"-1", "-0", "", "+1", "1.0", "12a", "9223372036854775808"}) {
    EXPECT_EQ(ParseCount(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace thalweg
