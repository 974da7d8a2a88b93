#include "layout/key_distribution.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "layout/test_util_internal.h"

namespace thalweg {
namespace {

double Mass(const KeyDistribution& d, const std::string& lower, const std::string& upper) {
  return d.Mass(&lower, &upper);
}

TEST(KeyDistribution, IntegersAreSpreadOverTheValuesBetweenTheBounds) {
  Layout layout = LayoutOf({kIntKey});
  AddUnit(&layout, 100, {IntBounds(0, 9)});
  std::vector<RankInterval> intervals;
  const auto d = KeyDistribution::Make(layout, 0, &intervals);
  for (int v = 0; v < 10; ++v) {
    EXPECT_NEAR(Mass(d, EncodedInt(v), EncodedInt(v)), 0.1, 1e-12);
    EXPECT_NEAR(d.Below(EncodedInt(v)), v / 10.0, 1e-12);
    EXPECT_NEAR(d.UpTo(EncodedInt(v)), (v + 1) / 10.0, 1e-12);
  }
  EXPECT_NEAR(d.repeated_square_sum(), 0.1, 1e-12);  // ten values of a tenth each
  EXPECT_EQ(Mass(d, EncodedInt(10), EncodedInt(INT64_MAX)), 0);
  EXPECT_EQ(Mass(d, EncodedInt(INT64_MIN), EncodedInt(-1)), 0);
  EXPECT_EQ(d.source(), "bounds");
  EXPECT_EQ(intervals[0].width(), 1);
}

TEST(KeyDistribution, MixesUnitsByTheirNonNullRows) {
  Layout layout = LayoutOf({kIntKey});
  AddUnit(&layout, 400, {IntBounds(0, 99, 100)});  // 300 over [0, 100)
  AddUnit(&layout, 100, {IntBounds(50, 149)});     // 100 over [50, 150)
  const auto d = KeyDistribution::Make(layout, 0);
  EXPECT_NEAR(d.UpTo(EncodedInt(49)), 150.0 / 400, 1e-12);
  EXPECT_NEAR(d.UpTo(EncodedInt(99)), 350.0 / 400, 1e-12);
  EXPECT_NEAR(d.UpTo(EncodedInt(124)), 375.0 / 400, 1e-12);
  EXPECT_NEAR(d.null_share(), 0.2, 1e-12);
}

TEST(KeyDistribution, BooleansAndTheirExtremes) {
  Layout layout = LayoutOf({kBoolKey});
  AddUnit(&layout, 100, {Bounds(EncodedBool(false), EncodedBool(true))});
  AddUnit(&layout, 300, {Bounds(EncodedBool(true), EncodedBool(true))});
  std::vector<RankInterval> intervals;
  const auto d = KeyDistribution::Make(layout, 0, &intervals);
  EXPECT_NEAR(d.UpTo(EncodedBool(false)), 0.125, 1e-12);
  EXPECT_NEAR(intervals[1].width(), 0.875, 1e-12);
  EXPECT_NEAR(d.repeated_square_sum(), 0.125 * 0.125 + 0.875 * 0.875, 1e-12);
}

TEST(KeyDistribution, LargestIntegerDoesNotOverflow) {
  Layout layout = LayoutOf({kIntKey});
  AddUnit(&layout, 10, {IntBounds(INT64_MAX, INT64_MAX)});
  AddUnit(&layout, 30, {IntBounds(INT64_MIN, INT64_MIN)});
  std::vector<RankInterval> intervals;
  const auto d = KeyDistribution::Make(layout, 0, &intervals);
  EXPECT_NEAR(intervals[0].width(), 0.25, 1e-12);
  EXPECT_NEAR(intervals[1].width(), 0.75, 1e-12);
  EXPECT_NEAR(d.UpTo(EncodedInt(0)), 0.75, 1e-12);
  EXPECT_EQ(d.UpTo(EncodedInt(INT64_MAX)), 1);
}

TEST(KeyDistribution, DecimalsOf128Bits) {
  Layout layout = LayoutOf({KeyType{KeyType::Kind::kDecimal128, 128}});
  auto decimal = [](uint64_t high, uint64_t low) {
    std::string bytes = BigEndianBytes(high, 8);
    bytes.append(BigEndianBytes(low, 8), 1, 8);
    return bytes;
  };
  AddUnit(&layout, 10, {Bounds(decimal(5, ~uint64_t{0} - 9), decimal(6, 9))});  // twenty values
  const auto d = KeyDistribution::Make(layout, 0);
  EXPECT_NEAR(d.UpTo(decimal(5, ~uint64_t{0})), 0.5, 1e-9);
  EXPECT_NEAR(Mass(d, decimal(6, 0), decimal(6, 0)), 0.05, 1e-9);
}

TEST(KeyDistribution, FloatsAreSpreadOverTheNumericRangeWithConstantsAsPoints) {
  Layout layout = LayoutOf({kDoubleKey});
  AddUnit(&layout, 50, {Bounds(EncodedDouble(-1), EncodedDouble(3))});
  AddUnit(&layout, 50, {Bounds(EncodedDouble(2), EncodedDouble(2))});
  const auto d = KeyDistribution::Make(layout, 0);
  EXPECT_NEAR(d.UpTo(EncodedDouble(0)), 0.125, 1e-12);
  EXPECT_NEAR(d.Below(EncodedDouble(2)), 0.375, 1e-12);
  EXPECT_NEAR(d.UpTo(EncodedDouble(2)), 0.875, 1e-12);
  EXPECT_NEAR(d.repeated_square_sum(), 0.25, 1e-12);
  EXPECT_NEAR(d.RepeatedSquareSum(0.375, 0.875), 0.25, 1e-12);
  EXPECT_EQ(d.RepeatedSquareSum(0, 0.3), 0);
  EXPECT_EQ(d.RepeatedSquareSum(0.9, 1), 0);
}

TEST(KeyDistribution, InfinitiesStayFinite) {
  Layout layout = LayoutOf({kDoubleKey});
  AddUnit(&layout, 50, {Bounds(EncodedDouble(-INFINITY), EncodedDouble(INFINITY))});
  AddUnit(&layout, 50, {Bounds(EncodedDouble(0), EncodedDouble(1))});
  const auto d = KeyDistribution::Make(layout, 0);
  EXPECT_NEAR(d.Below(EncodedDouble(0)), 0.25, 1e-9);
  EXPECT_NEAR(d.UpTo(EncodedDouble(1)), 0.75, 1e-9);
  EXPECT_EQ(d.UpTo(EncodedDouble(INFINITY)), 1);
}

TEST(KeyDistribution, TextIsSpreadAfterTheCommonPrefix) {
  const std::string prefix =
      "https://www.example.org/a/long/common/prefix/of/sixty/bytes/and/more/";
  for (const std::string& p : {std::string(), prefix}) {
    auto with = [&](const char* end) { return EncodedText(std::string(p).append(end)); };
    Layout layout = LayoutOf({kTextKey});
    // Two units whose bounds differ late, and one far away that would hide them from a projection
    // over the whole table.
    AddUnit(&layout, 100, {Bounds(with("aa"), with("ae"))});
    AddUnit(&layout, 100, {Bounds(EncodedText("A"), EncodedText("A"))});
    const auto d = KeyDistribution::Make(layout, 0);
    EXPECT_NEAR(d.UpTo(EncodedText("A")), 0.5, 1e-12);
    EXPECT_NEAR(d.UpTo(with("ab")), 0.5 + 0.125, 0.01) << p;
    EXPECT_NEAR(d.UpTo(with("ac")), 0.5 + 0.25, 0.01) << p;
    EXPECT_NEAR(d.UpTo(with("ad")), 0.5 + 0.375, 0.01) << p;
    EXPECT_EQ(d.UpTo(with("ae")), 1);
  }
}

TEST(KeyDistribution, NestedUnitsOfVeryDifferentExtentDoNotCancel) {
  Layout layout = LayoutOf({kIntKey});
  AddUnit(&layout, 500, {IntBounds(INT64_MIN / 2, INT64_MAX / 2)});
  for (int i = 0; i < 500; ++i) AddUnit(&layout, 1, {IntBounds(1000 + i, 1000 + i)});
  const auto d = KeyDistribution::Make(layout, 0);
  EXPECT_NEAR(d.UpTo(EncodedInt(0)), 0.25, 1e-9);
  EXPECT_NEAR(d.UpTo(EncodedInt(1249)), 0.5, 1e-9);
  EXPECT_NEAR(d.UpTo(EncodedInt(1'000'000)), 0.75, 1e-9);
}

RunRecord RunOf(const std::string& id, const std::vector<std::string>& quantiles,
                std::vector<ColumnQuantiles::Repeated> repeated = {}) {
  RunRecord run;
  run.run_id = id;
  run.quantiles.push_back(
      {.field_id = 1, .quantiles = quantiles, .null_share = 0, .repeated = std::move(repeated)});
  return run;
}

TEST(KeyDistribution, RunsGiveQuantilesAndRepeatedValues) {
  Layout layout = LayoutOf({kDoubleKey});
  // 60 % are 5; the others lie evenly in [0, 10].
  std::vector<double> values;
  for (int i = 0; i < 400; ++i) values.push_back(10.0 * (i + 0.5) / 400);
  for (int i = 0; i < 600; ++i) values.push_back(5);
  std::sort(values.begin(), values.end());
  std::vector<std::string> quantiles;
  for (int i = 0; i < 256; ++i) quantiles.push_back(EncodedDouble(values[i * 999 / 255]));
  layout.runs.push_back(RunOf("r", quantiles, {{EncodedDouble(5), 0.6}}));
  AddUnit(&layout, 1000, {Bounds(EncodedDouble(0), EncodedDouble(10))});
  layout.units[0].stamp = Stamp{"r", "c", "s", {1}};
  const auto d = KeyDistribution::Make(layout, 0);
  EXPECT_EQ(d.source(), "runs");
  EXPECT_NEAR(d.Below(EncodedDouble(5)), 0.2, 0.005);
  EXPECT_NEAR(d.UpTo(EncodedDouble(5)), 0.8, 0.005);
  EXPECT_NEAR(d.UpTo(EncodedDouble(2.5)), 0.1, 0.005);
  EXPECT_NEAR(d.repeated_square_sum(), 0.36, 0.005);

  AddUnit(&layout, 1000, {Bounds(EncodedDouble(20), EncodedDouble(30))});  // of no run
  const auto mixed = KeyDistribution::Make(layout, 0);
  EXPECT_EQ(mixed.source(), "runs and bounds");
  EXPECT_NEAR(mixed.UpTo(EncodedDouble(5)), 0.4, 0.005);
  EXPECT_NEAR(mixed.UpTo(EncodedDouble(25)), 0.75, 0.005);
}

// So many runs that not every quantile of each is kept: the mixture of evenly spread runs is still
// even, its ends included.
TEST(KeyDistribution, ThousandsOfRuns) {
  constexpr int kRuns = 3000;
  Layout layout = LayoutOf({kDoubleKey});
  for (int r = 0; r < kRuns; ++r) {
    std::vector<std::string> quantiles;
    for (int i = 0; i < 256; ++i) quantiles.push_back(EncodedDouble(i + r / (2.0 * kRuns)));
    const std::string id = "run " + std::to_string(r);
    layout.runs.push_back(RunOf(id, quantiles));
    AddUnit(&layout, 100, {Bounds(quantiles.front(), quantiles.back())});
    layout.units.back().stamp = Stamp{id, id, "s", {1}};
  }
  const auto d = KeyDistribution::Make(layout, 0);
  EXPECT_NEAR(d.UpTo(EncodedDouble(0.25)), 0, 0.01);
  for (double share : {0.1, 0.25, 0.5, 0.9}) {
    EXPECT_NEAR(d.UpTo(EncodedDouble(0.25 + 255 * share)), share, 0.01) << share;
  }
  EXPECT_NEAR(d.UpTo(EncodedDouble(256)), 1, 1e-9);
}

TEST(KeyDistribution, QuantilesOfIntegersAndBooleans) {
  Layout layout = LayoutOf({kBoolKey});
  std::vector<std::string> quantiles(256, EncodedBool(false));
  for (int i = 192; i < 256; ++i) quantiles[i] = EncodedBool(true);
  layout.runs.push_back(
      RunOf("r", quantiles, {{EncodedBool(false), 0.75}, {EncodedBool(true), 0.25}}));
  AddUnit(&layout, 10, {Bounds(EncodedBool(false), EncodedBool(true))});
  layout.units[0].stamp = Stamp{"r", "c", "s", {1}};
  const auto d = KeyDistribution::Make(layout, 0);
  EXPECT_NEAR(d.UpTo(EncodedBool(false)), 0.75, 1e-9);
  EXPECT_NEAR(d.repeated_square_sum(), 0.625, 1e-9);

  Layout skewed = LayoutOf({kIntKey});
  std::vector<std::string> squares;
  for (int i = 0; i < 256; ++i) squares.push_back(EncodedInt(int64_t{i} * i * 1000));
  skewed.runs.push_back(RunOf("r", squares));
  AddUnit(&skewed, 10, {IntBounds(0, 255 * 255 * 1000)});
  skewed.units[0].stamp = Stamp{"r", "c", "s", {1}};
  const auto s = KeyDistribution::Make(skewed, 0);
  for (int i = 1; i < 256; i += 25)
    EXPECT_NEAR(s.UpTo(EncodedInt(int64_t{i} * i * 1000)), i / 255.0, 1e-4);
}

// A run of 10,000 ascending values in files of 100, of which some files are left.
struct RunOfFiles {
  RunOfFiles(const KeyType& type, std::vector<std::string> ascending,
             std::vector<ColumnQuantiles::Repeated> repeated = {})
      : layout(LayoutOf({type})), values(std::move(ascending)) {
    std::vector<std::string> quantiles;
    for (size_t i = 0; i < 256; ++i) quantiles.push_back(values[i * (values.size() - 1) / 255]);
    layout.runs.push_back(RunOf("r", quantiles, std::move(repeated)));
    layout.runs.back().rows = static_cast<int64_t>(values.size());
  }
  void Keep(size_t first_file, size_t last_file) {
    for (size_t file = first_file; file < last_file; ++file) {
      AddUnit(&layout, 100, {Bounds(values[file * 100], values[file * 100 + 99])});
      layout.units.back().stamp = Stamp{"r", "c", "s", {1}};
      kept.insert(kept.end(), values.begin() + static_cast<int64_t>(file * 100),
                  values.begin() + static_cast<int64_t>(file * 100 + 100));
    }
  }
  /// The ranks are those of what is left, counted. (Between two quantiles text is told apart by its
  /// bytes, which digits do not fill evenly.)
  void Check(const std::string& source) {
    const double within = layout.types[0].kind == KeyType::Kind::kUtf8 ? 0.015 : 0.01;
    const auto d = KeyDistribution::Make(layout, 0);
    EXPECT_EQ(d.source(), source);
    for (size_t i = 0; i < kept.size(); i += 61) {
      const auto below = std::lower_bound(kept.begin(), kept.end(), kept[i]) - kept.begin();
      const auto upto = std::upper_bound(kept.begin(), kept.end(), kept[i]) - kept.begin();
      const auto all = static_cast<double>(kept.size());
      EXPECT_NEAR(d.Below(kept[i]), static_cast<double>(below) / all, within) << i;
      EXPECT_NEAR(d.UpTo(kept[i]), static_cast<double>(upto) / all, within) << i;
    }
  }
  Layout layout;
  std::vector<std::string> values, kept;
};

TEST(KeyDistribution, ARunOfWhichRowsAreGoneIsRefittedToWhatIsLeft) {
  std::vector<std::string> doubles, integers, texts, hot;
  for (int i = 0; i < 10'000; ++i) {
    doubles.push_back(EncodedDouble(static_cast<double>(i) * i));
    integers.push_back(EncodedInt(int64_t{i} * 1000 + i % 7 - 5'000'000));
    texts.push_back(EncodedText(fmt::format("https://example.org/{:05}", i)));
    hot.push_back(EncodedInt(i < 2000 ? i : i < 8000 ? 2000 : i));  // 60 % are one value
  }
  const std::pair<KeyType, std::vector<std::string>> runs[] = {
      {kDoubleKey, doubles}, {kIntKey, integers}, {kTextKey, texts}};
  for (const auto& [type, values] : runs) {
    RunOfFiles newest(type, values);
    newest.Keep(70, 100);
    newest.Check("refitted runs");
    RunOfFiles holes(type, values);
    holes.Keep(0, 10);
    holes.Keep(55, 75);
    holes.Check("refitted runs");
    RunOfFiles whole(type, values);
    whole.Keep(0, 99);  // 99 % are there
    whole.Check("runs");
  }
  RunOfFiles part(kIntKey, hot, {{EncodedInt(2000), 0.6}});
  part.Keep(50, 100);  // three fifths of what is left have the value
  part.Check("refitted runs");
  RunOfFiles without(kIntKey, hot, {{EncodedInt(2000), 0.6}});
  without.Keep(85, 100);
  without.Check("refitted runs");
  // Bounds that the run's quantiles do not know count by themselves.
  RunOfFiles foreign(kIntKey, integers);
  foreign.Keep(0, 50);
  foreign.layout.units[0].columns = {IntBounds(500'000'000, 500'000'100)};
  const auto d = KeyDistribution::Make(foreign.layout, 0);
  EXPECT_EQ(d.source(), "refitted runs and bounds");
  EXPECT_NEAR(Mass(d, EncodedInt(500'000'000), EncodedInt(500'000'100)), 0.02, 1e-9);
}

TEST(KeyDistribution, NothingKnown) {
  Layout layout = LayoutOf({kIntKey});
  std::vector<RankInterval> intervals;
  auto d = KeyDistribution::Make(layout, 0, &intervals);
  EXPECT_EQ(d.source(), "none");
  EXPECT_EQ(Mass(d, EncodedInt(1), EncodedInt(2)), 1);
  AddUnit(&layout, 10, {UnitColumn{.lower = {}, .upper = {}, .null_count = -1, .usable = false}});
  AddUnit(&layout, 10, {UnitColumn{.lower = {}, .upper = {}, .null_count = 10}});  // all null
  AddUnit(&layout, 10, {UnitColumn{.lower = {}, .upper = {}, .null_count = 3}});
  AddUnit(&layout, 10, {IntBounds(5, 4)});  // malformed
  AddUnit(&layout, 10, {});                 // no statistics at all
  d = KeyDistribution::Make(layout, 0, &intervals);
  EXPECT_EQ(d.source(), "none");
  EXPECT_EQ(intervals[0].width(), 1);
  EXPECT_TRUE(intervals[0].unknown);
  EXPECT_EQ(intervals[1].width(), 0);
  EXPECT_TRUE(intervals[1].empty);
  EXPECT_EQ(intervals[2].width(), 1);
  EXPECT_TRUE(intervals[3].unknown);
  EXPECT_TRUE(intervals[4].unknown);
}

TEST(KeyDistribution, AMissingBoundIsOpen) {
  Layout layout = LayoutOf({kIntKey});
  AddUnit(&layout, 100, {IntBounds(0, 99)});
  AddUnit(&layout, 100, {UnitColumn{.lower = EncodedInt(25), .upper = {}, .null_count = 0}});
  AddUnit(&layout, 100, {UnitColumn{.lower = {}, .upper = EncodedInt(24), .null_count = 0}});
  std::vector<RankInterval> intervals;
  KeyDistribution::Make(layout, 0, &intervals);
  EXPECT_NEAR(intervals[1].below, 0.25, 1e-12);
  EXPECT_EQ(intervals[1].upto, 1);
  EXPECT_EQ(intervals[2].below, 0);
  EXPECT_NEAR(intervals[2].upto, 0.25, 1e-12);
  EXPECT_FALSE(intervals[1].unknown);
}

// Invariants over random layouts of all kinds, and the mixture against a direct sum over the units.
TEST(KeyDistribution, RandomLayouts) {
  std::mt19937_64 rng(3);
  for (int round = 0; round < 60; ++round) {
    const int kind = round % 3;
    auto encode = [&](int64_t v) {
      if (kind == 0) return EncodedInt(v);
      if (kind == 1) return EncodedDouble(static_cast<double>(v));
      std::string text = "prefix/";
      text.append(std::to_string(1'000'000 + v));
      return EncodedText(text);
    };
    Layout layout = LayoutOf({kind == 0 ? kIntKey : kind == 1 ? kDoubleKey : kTextKey});
    struct Range {
      int64_t lower, upper, rows;
    };
    std::vector<Range> ranges;
    const int units = 1 + static_cast<int>(rng() % 40);
    for (int i = 0; i < units; ++i) {
      int64_t a = rng() % 1000, b = rng() % 4 == 0 ? a : static_cast<int64_t>(rng() % 1000);
      ranges.push_back({std::min(a, b), std::max(a, b), static_cast<int64_t>(1 + rng() % 100)});
      AddUnit(&layout, ranges.back().rows,
              {Bounds(encode(ranges.back().lower), encode(ranges.back().upper))});
    }
    std::vector<RankInterval> intervals;
    const auto d = KeyDistribution::Make(layout, 0, &intervals);
    EXPECT_EQ(d.Mass(nullptr, nullptr), 1);
    double previous = 0, total = 0;
    for (const Range& r : ranges) total += static_cast<double>(r.rows);
    for (int64_t v = 0; v < 1000; ++v) {
      const std::string value = encode(v);
      const double below = d.Below(value), upto = d.UpTo(value);
      ASSERT_GE(below, previous - 1e-12);
      ASSERT_GE(upto, below);
      ASSERT_LE(upto, 1);
      previous = upto;
      double expected = 0;
      for (const Range& r : ranges) {
        const double values = static_cast<double>(r.upper - r.lower);
        double part;
        if (kind == 0) {
          part = static_cast<double>(v + 1 - r.lower) / (values + 1);
        } else {
          part = r.lower == r.upper ? (v >= r.lower ? 1 : 0)
                                    : static_cast<double>(v - r.lower) / values;
        }
        expected += static_cast<double>(r.rows) / total * std::clamp(part, 0.0, 1.0);
      }
      if (kind != 2) {
        ASSERT_NEAR(upto, expected, 1e-9);
      }
    }
    for (int i = 0; i < units; ++i) {
      ASSERT_NEAR(intervals[i].repeated_squares,
                  d.RepeatedSquareSum(intervals[i].below, intervals[i].upto), 1e-9);
      ASSERT_NEAR(intervals[i].width(), Mass(d, encode(ranges[i].lower), encode(ranges[i].upper)),
                  1e-9);
    }
  }
}

}  // namespace
}  // namespace thalweg
