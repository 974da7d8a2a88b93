#include "util/units.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "util/status.h"

namespace thalweg {
namespace {

TEST(Units, ParseBytes) {
  const std::pair<const char*, int64_t> cases[] = {{"0", 0},
                                                   {"1000000", 1000000},
                                                   {"812 B", 812},
                                                   {"1KB", 1000},
                                                   {"1kib", 1024},
                                                   {"1.5 GiB", int64_t{3} << 29},
                                                   {"2GB", 2000000000},
                                                   {"10M", 10 << 20},
                                                   {"3 tb", 3000000000000},
                                                   {"1TiB", int64_t{1} << 40},
                                                   {" 7mb ", 7000000},
                                                   {"0.5k", 512}};
  for (const auto& [text, bytes] : cases) EXPECT_EQ(*ParseBytes(text), bytes) << text;
  for (const char* text :
       {"", " ", "-1", "1 2", "KB", "1XB", "1KBB", "1e3", "nan", "inf", "9300000000GB", "1b1"}) {
    auto refused = ParseBytes(text);
    ASSERT_FALSE(refused.ok()) << text;
    EXPECT_EQ(KindOf(refused.status()), FailureKind::kUsage) << text;
  }
}

TEST(Units, FormatBytes) {
  const std::pair<int64_t, const char*> cases[] = {{0, "0 B"},
                                                   {812, "812 B"},
                                                   {1023, "1023 B"},
                                                   {1024, "1.00 KiB"},
                                                   {1536, "1.50 KiB"},
                                                   {10240, "10.0 KiB"},
                                                   {int64_t{3} << 29, "1.50 GiB"},
                                                   {(1 << 20) - 1, "1.00 MiB"},
                                                   {INT64_MAX, "8.00 EiB"}};
  for (const auto& [bytes, text] : cases) EXPECT_EQ(FormatBytes(bytes), text);
}

TEST(Units, Durations) {
  const std::pair<const char*, double> cases[] = {{"90s", 90},    {"15m", 900},    {"24h", 86400},
                                                  {"7d", 604800}, {"250ms", 0.25}, {"2", 2},
                                                  {"1.5 min", 90}};
  for (const auto& [text, seconds] : cases) EXPECT_DOUBLE_EQ(*ParseDuration(text), seconds) << text;
  for (const char* text : {"", "h", "-1s", "1w", "1h30m"})
    EXPECT_FALSE(ParseDuration(text).ok()) << text;
  EXPECT_EQ(FormatDuration(0.85), "850 ms");
  EXPECT_EQ(FormatDuration(12.34), "12.3 s");
  EXPECT_EQ(FormatDuration(59.99), "1 min 00 s");
  EXPECT_EQ(FormatDuration(245), "4 min 05 s");
  EXPECT_EQ(FormatDuration(12000), "3 h 20 min");
}

TEST(Units, NumbersSharesAndTimes) {
  const std::pair<double, const char*> numbers[] = {{0, "0.00"},     {3.814, "3.81"},
                                                    {9.996, "10.0"}, {35.73, "35.7"},
                                                    {99.96, "100"},  {12345.6, "12,346"}};
  for (const auto& [number, text] : numbers) EXPECT_EQ(FormatNumber(number), text);
  const std::pair<double, const char*> shares[] = {
      {0, "0.0 %"}, {0.0004, "<0.1 %"}, {0.045, "4.5 %"}, {0.3849, "38 %"}, {1, "100 %"}};
  for (const auto& [share, text] : shares) EXPECT_EQ(FormatPercent(share), text);
  EXPECT_EQ(FormatTime(0), "1970-01-01 00:00:00");
  EXPECT_EQ(FormatTime(951827696789), "2000-02-29 12:34:56");
}

TEST(Units, FormatCount) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1000), "1,000");
  EXPECT_EQ(FormatCount(1234567), "1,234,567");
  EXPECT_EQ(FormatCount(-123456), "-123,456");
  EXPECT_EQ(FormatCount(INT64_MIN), "-9,223,372,036,854,775,808");
}

}  // namespace
}  // namespace thalweg
