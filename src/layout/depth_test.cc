#include "layout/depth.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "layout/test_util_internal.h"

namespace thalweg {
namespace {

// A perfect sort of a uniform table into side^keys cells: an equality on any key opens
// side^(keys-1) units.
TEST(MeasureLayout, GridsHaveTheDepthOfTheirSide) {
  for (int keys = 1; keys <= 3; ++keys) {
    const int side = 6;
    Layout layout = LayoutOf(std::vector<KeyType>(keys, kIntKey));
    const int cells = static_cast<int>(std::lround(std::pow(side, keys)));
    for (int cell = 0; cell < cells; ++cell) {
      std::vector<UnitColumn> columns;
      for (int k = 0, rest = cell; k < keys; ++k, rest /= side) {
        columns.push_back(IntBounds(rest % side * 1000, rest % side * 1000 + 999));
      }
      AddUnit(&layout, 100, columns);
    }
    const LayoutHealth health = MeasureLayout(layout);
    const double depth = static_cast<double>(cells) / side;
    ASSERT_EQ(health.keys.size(), static_cast<size_t>(keys));
    for (const KeyHealth& key : health.keys) {
      EXPECT_NEAR(key.depth_mean, depth, 1e-9);
      EXPECT_EQ(key.depth_p95, depth);
      EXPECT_EQ(key.depth_max, depth);
      EXPECT_NEAR(key.rows_share, 1.0 / side, 1e-9);
      // 1.1·F^(1-1/N), and the six thousand values of 1/6000 each.
      EXPECT_NEAR(key.ideal, 1.1 * depth + cells / 6000.0, 1e-9);
      EXPECT_EQ(key.efficiency, 1);
      EXPECT_EQ(key.unknown_units, 0);
      for (int64_t step : key.histogram) EXPECT_EQ(step, std::lround(depth));
      EXPECT_EQ(key.histogram.size(), 32u);
    }
    EXPECT_NEAR(health.depth, depth, 1e-9);
    // A window of w meets on average 1 + w (side - ...) slabs: sum over slabs of the closed form,
    // to the power of the keys.
    double slabs = 0;
    for (int s = 0; s < side; ++s) {
      const double a = static_cast<double>(s) / side, b = static_cast<double>(s + 1) / side;
      slabs += (std::min(0.9, b) - std::max(0.0, a - 0.1)) / 0.9;
    }
    EXPECT_NEAR(health.box10_files, std::pow(slabs, keys), 1e-9);
    EXPECT_NEAR(health.keys[0].box10_files, slabs * cells / side, 1e-9);
  }
}

TEST(MeasureLayout, OverlappingUnitsAreAllOpened) {
  Layout layout = LayoutOf({kIntKey, kIntKey});
  for (int i = 0; i < 8; ++i)
    AddUnit(&layout, 100, {IntBounds(0, 1'000'000), IntBounds(0, 1'000'000)});
  const LayoutHealth health = MeasureLayout(layout);
  EXPECT_NEAR(health.depth, 8, 1e-9);
  EXPECT_NEAR(health.efficiency, 1.1 * std::sqrt(8) / 8, 1e-4);
  EXPECT_EQ(health.box1_files, 8);
}

TEST(MeasureLayout, NullsUnknownAndConstantUnits) {
  Layout layout = LayoutOf({kIntKey});
  AddUnit(&layout, 100, {IntBounds(0, 99)});
  AddUnit(&layout, 100, {IntBounds(7, 7)});
  AddUnit(&layout, 100, {UnitColumn{.lower = {}, .upper = {}, .null_count = 100}});
  AddUnit(&layout, 100, {UnitColumn{.lower = {}, .upper = {}, .null_count = -1, .usable = false}});
  const KeyHealth key = MeasureLayout(layout).keys[0];
  EXPECT_EQ(key.unknown_units, 1);
  EXPECT_EQ(key.constant_units, 1);
  EXPECT_EQ(key.null_units, 2);
  EXPECT_NEAR(key.null_share, 0.25, 1e-12);
  // 1 for the first, the mass of 7 for the second, nothing for the third, 1 for the unknown one.
  EXPECT_NEAR(key.depth_mean, 1 + 0.505 + 0 + 1, 1e-9);
  EXPECT_EQ(key.depth_max, 3);
}

TEST(MeasureLayout, Degenerate) {
  EXPECT_EQ(MeasureLayout(LayoutOf({kIntKey})).depth, 0);
  EXPECT_EQ(MeasureLayout(Layout{}).efficiency, 1);
  Layout layout = LayoutOf({kIntKey, kBoolKey});
  AddUnit(&layout, 0, {IntBounds(0, 1), {}});
  const LayoutHealth health = MeasureLayout(layout);
  EXPECT_EQ(health.depth, 0);
  EXPECT_EQ(health.keys[1].unknown_units, 0);
}

// Against counting: draw rows as the distribution says, look up which units may hold them, draw
// windows.
TEST(MeasureLayout, AgreesWithCounting) {
  std::mt19937_64 rng(11);
  for (int round = 0; round < 4; ++round) {
    Layout layout = LayoutOf({kIntKey, kIntKey});
    const int units = 60;
    struct Range {
      int64_t lower, upper;
    };
    std::vector<std::vector<Range>> ranges(2);
    std::vector<std::vector<int64_t>> values(2);
    for (int i = 0; i < units; ++i) {
      std::vector<UnitColumn> columns;
      const int rows = 200 + static_cast<int>(rng() % 400);
      for (int k = 0; k < 2; ++k) {
        const int64_t lower = static_cast<int64_t>(rng() % 100'000);
        const int64_t upper =
            rng() % 5 == 0 && k == 1 ? lower : lower + static_cast<int64_t>(rng() % 50'000);
        ranges[k].push_back({lower, upper});
        columns.push_back(IntBounds(lower, upper));
        for (int r = 0; r < rows; ++r)
          values[k].push_back(lower + static_cast<int64_t>(rng() % (upper - lower + 1)));
      }
      AddUnit(&layout, rows, columns);
    }
    const LayoutHealth health = MeasureLayout(layout);
    std::vector<std::vector<double>> boxes(2, std::vector<double>(2000, 0));
    std::vector<std::vector<std::vector<char>>> met(2);
    for (int k = 0; k < 2; ++k) {
      std::sort(values[k].begin(), values[k].end());
      const size_t n = values[k].size();
      std::vector<double> counts;
      for (size_t j = 0; j < 3000; ++j) {
        const int64_t v = values[k][rng() % n];
        counts.push_back(static_cast<double>(
            std::count_if(ranges[k].begin(), ranges[k].end(),
                          [&](const Range& r) { return r.lower <= v && v <= r.upper; })));
      }
      double mean = 0;
      for (double c : counts) mean += c / static_cast<double>(counts.size());
      std::sort(counts.begin(), counts.end());
      EXPECT_NEAR(health.keys[k].depth_mean, mean, 0.05 * mean);
      EXPECT_NEAR(health.keys[k].depth_p95, counts[counts.size() * 95 / 100], 1);
      EXPECT_GE(health.keys[k].depth_max, counts.back());
      for (int j = 0; j < 2000; ++j) {
        const auto window = static_cast<size_t>(0.1 * static_cast<double>(n));
        const size_t at = rng() % (n - window);
        std::vector<char> hit;
        for (const Range& r : ranges[k])
          hit.push_back(r.lower <= values[k][at + window] && values[k][at] <= r.upper);
        met[k].push_back(hit);
      }
      double box = 0;
      for (const auto& hit : met[k])
        box += static_cast<double>(std::count(hit.begin(), hit.end(), 1)) / 2000;
      EXPECT_NEAR(health.keys[k].box10_files, box, 0.05 * box);
    }
    double both = 0;
    for (int j = 0; j < 2000; ++j) {
      for (int i = 0; i < units; ++i) both += met[0][j][i] && met[1][j][i] ? 1.0 / 2000 : 0;
    }
    EXPECT_NEAR(health.box10_files, both, 0.07 * both);
  }
}

TEST(PredictDepth, ClosedForms) {
  EXPECT_NEAR(PredictDepth(1, 100, 2, 0), 11, 1e-9);
  EXPECT_NEAR(PredictDepth(1, 1, 2, 0), 1, 1e-9);       // one unit is always opened, once
  EXPECT_NEAR(PredictDepth(0.5, 64, 3, 0), 8.8, 1e-9);  // 1.1 · 0.5 · 64^(2/3)
  EXPECT_NEAR(PredictDepth(1, 100, 2, 0.5), 61,
              1e-9);  // a boolean: half of the units whatever the layout
  EXPECT_NEAR(PredictDepth(1, 100, 2, 1), 100, 1e-9);  // a constant opens all
  EXPECT_EQ(PredictDepth(0, 100, 2, 0), 0);
}

TEST(WindowOpens, ClosedForms) {
  EXPECT_NEAR(WindowOpens({.below = 0.4, .upto = 0.6}, 0.1), 0.3 / 0.9, 1e-12);
  EXPECT_NEAR(WindowOpens({.below = 0, .upto = 0.05}, 0.1), 0.05 / 0.9, 1e-12);
  EXPECT_NEAR(WindowOpens({.below = 0.95, .upto = 1}, 0.1), 0.05 / 0.9, 1e-12);
  EXPECT_EQ(WindowOpens({.below = 0, .upto = 1}, 0.1), 1);
  EXPECT_EQ(WindowOpens({.below = 0, .upto = 0, .empty = true}, 0.1), 0);
}

// Many units of every kind, and wide ones: nothing quadratic. (A run of this size takes a fraction
// of a second.)
TEST(MeasureLayout, ManyUnits) {
  std::mt19937_64 rng(5);
  Layout layout = LayoutOf({kIntKey, kTextKey, kDoubleKey, kBoolKey});
  for (int i = 0; i < 20'000; ++i) {
    const auto a = static_cast<int64_t>(rng() >> 12), b = static_cast<int64_t>(rng() >> 12);
    const std::string x = "https://example.org/" + std::to_string(rng() % 1'000'000);
    const std::string y = "https://example.org/" + std::to_string(rng() % 1'000'000);
    const double p = std::ldexp(static_cast<double>(rng() >> 11), -53);
    AddUnit(&layout, 100,
            {IntBounds(std::min(a, b), std::max(a, b)),
             Bounds(EncodedText(std::min(x, y)), EncodedText(std::max(x, y))),
             Bounds(EncodedDouble(p), EncodedDouble(p + 0.1)),
             Bounds(EncodedBool(i % 3 == 0), EncodedBool(true))});
  }
  const LayoutHealth health = MeasureLayout(layout);
  // The mixture of units between two uniform ends has the density 2 ((1 - x) ln(1 / (1 - x)) +
  // ...): denser in the middle than uniform values, of which a unit covers 1/3; at most 1/2 cover
  // any value.
  EXPECT_GT(health.keys[0].depth_mean, 20'000 / 3.0);
  EXPECT_LT(health.keys[0].depth_mean, 20'000 / 2.0);
  EXPECT_EQ(health.keys[3].unknown_units, 0);
}

}  // namespace
}  // namespace thalweg
