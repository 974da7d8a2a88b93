#include "sort/cut_planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "curve/curve.h"
#include "sort/curve_profile.h"

namespace thalweg {
namespace {

constexpr CutWindow kWindow{100, 80, 120};

/// Bins of one column at equal distances, each of `rows[i]` rows.
std::vector<CurveBin> LineBins(const std::vector<int64_t>& rows) {
  std::vector<CurveBin> bins(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    bins[i].begin = i;
    bins[i].level = i == 0 ? 128 : __builtin_ctzll(i);
    bins[i].rows = bins[i].weight = rows[i];
    bins[i].box.low[0] = static_cast<float>(i) / static_cast<float>(rows.size());
    bins[i].box.high[0] = static_cast<float>(i + 1) / static_cast<float>(rows.size());
  }
  return bins;
}

void ExpectInWindow(const CutPlanner& planner, const std::vector<int64_t>& cuts, int64_t begin,
                    int64_t end, const CutWindow& window) {
  int64_t last = begin;
  for (size_t i = 0; i <= cuts.size(); ++i) {
    const int64_t cut = i < cuts.size() ? cuts[i] : end;
    ASSERT_LT(last, cut);
    const double weight = planner.Size(last, cut);
    EXPECT_GE(weight, window.low - 1) << i << " of " << cuts.size();
    EXPECT_LE(weight, window.high + 1) << i << " of " << cuts.size();
    last = cut;
  }
}

TEST(CutPlanner, EveryPieceKeepsItsWindowWheneverThatIsPossible) {
  std::mt19937_64 rng(1);
  for (int round = 0; round < 100; ++round) {
    std::vector<int64_t> rows(1 + rng() % 300);
    const int64_t most = 1 + static_cast<int64_t>(rng() % (round % 3 == 0 ? 400 : 20));
    for (int64_t& n : rows) n = static_cast<int64_t>(rng() % most) + 1;
    const CutPlanner planner(LineBins(rows), 1, CutPlanner::Unit::kBytes);
    const auto begin = static_cast<int64_t>(rng() % planner.rows());
    const int64_t end = begin + 1 + static_cast<int64_t>(rng() % (planner.rows() - begin));
    const double total = planner.Size(begin, end);
    const auto cuts = planner.Cuts(begin, end, kWindow, false);
    const double pieces = std::ceil(total / kWindow.high);
    if (pieces * kWindow.low <= total) {
      ExpectInWindow(planner, cuts, begin, end, kWindow);
    } else if (total <= kWindow.high) {
      EXPECT_TRUE(cuts.empty());
    } else {  // between one file and two: two halves
      EXPECT_EQ(cuts.size(), 1u);
      EXPECT_TRUE(planner.Cuts(begin, end, kWindow, true).empty());
    }
  }
}

TEST(CutPlanner, HotBinIsCutInside) {
  const CutPlanner planner(LineBins({10, 100000, 5}), 1, CutPlanner::Unit::kBytes);
  const auto cuts = planner.Cuts(0, planner.rows(), kWindow, false);
  EXPECT_NEAR(static_cast<double>(cuts.size()), 1000, 180);
  ExpectInWindow(planner, cuts, 0, planner.rows(), kWindow);
}

TEST(CutPlanner, RowsLargerThanPieces) {
  for (const double target : {0.6, 0.02, 0.001}) {  // of a row
    const CutPlanner planner(LineBins({3, 1, 40}), 1, CutPlanner::Unit::kBytes);
    const CutWindow window{target, 0.8 * target, 1.2 * target};
    std::vector<int64_t> every(43);
    std::iota(every.begin(), every.end(), 1);
    EXPECT_EQ(planner.Cuts(0, planner.rows(), window, true), every) << target;
  }
}

TEST(CutPlanner, RowsOrBytes) {
  auto bins = LineBins(std::vector<int64_t>(1000, 1));
  for (CurveBin& bin : bins) bin.weight = bin.begin < 500 ? 1 : 9;
  const CutPlanner by_rows(bins, 1, CutPlanner::Unit::kRows),
      by_bytes(bins, 1, CutPlanner::Unit::kBytes);
  EXPECT_EQ(by_rows.Size(0, 1000), 1000);
  EXPECT_EQ(by_bytes.Size(0, 1000), 5000);
  ExpectInWindow(by_rows, by_rows.Cuts(0, 1000, kWindow, false), 0, 1000, kWindow);
  ExpectInWindow(by_bytes, by_bytes.Cuts(0, 1000, kWindow, false), 0, 1000, kWindow);
}

/// The cheapest cuts by exhaustive search over all bin borders: sum over pieces of the mean box
/// width, at a given number of pieces.
TEST(CutPlanner, LearnsWhatRowsCameTo) {
  CutPlanner planner(LineBins({100, 100, 100, 100}), 1, CutPlanner::Unit::kBytes);
  planner.SetRatio(0.5);
  EXPECT_DOUBLE_EQ(planner.Size(0, 400), 200);
  planner.Learn(100, 300, 160);
  EXPECT_DOUBLE_EQ(planner.Size(0, 100), 50);
  EXPECT_DOUBLE_EQ(planner.Size(100, 300), 160);
  planner.SetRatio(2);  // what was learnt stays
  EXPECT_DOUBLE_EQ(planner.Size(100, 300), 160);
  EXPECT_DOUBLE_EQ(planner.Size(0, 400), 560);
  planner.Learn(50, 150, 300);  // half of two bins, one of which was known
  EXPECT_DOUBLE_EQ(planner.Size(0, 100), 250);
  EXPECT_DOUBLE_EQ(planner.Size(100, 200), 190);
  EXPECT_DOUBLE_EQ(planner.Payload(0, 400), 400);
}

TEST(CutPlanner, FindsWholeCells) {
  // 64 x 64 points on a Hilbert curve, and a target that is 6 % off a cell of 8 x 8.
  const int bits = 6, side = 64;
  std::vector<Key128> keys;
  for (uint32_t x = 0; x < side; ++x) {
    for (uint32_t y = 0; y < side; ++y) {
      const uint32_t coords[2] = {x, y};
      keys.push_back(CurveKeyReference(Curve::kHilbert, coords, 2, bits));
    }
  }
  std::sort(keys.begin(), keys.end());
  auto bins = MakeCurveBins(keys, Curve::kHilbert, bits, 2, 0, 0);
  ASSERT_EQ(bins.size(), keys.size());
  for (CurveBin& bin : bins) bin.rows = bin.weight = 1;
  const CutPlanner planner(bins, 2, CutPlanner::Unit::kBytes);
  const double target = 64 * 1.06;
  const auto cuts = planner.Cuts(0, 4096, {target, 0.8 * target, 1.2 * target}, false);
  EXPECT_EQ(cuts.size(), 63u);
  for (int64_t cut : cuts) EXPECT_EQ(cut % 64, 0) << cut;
}

TEST(CurveCoordinates, InvertsTheCurve) {
  std::mt19937_64 rng(2);
  for (Curve curve : {Curve::kHilbert, Curve::kZOrder}) {
    for (int columns = 1; columns <= 4; ++columns) {
      for (int bits : {1, 2, 7, 16, 31, 32}) {
        for (int i = 0; i < 50; ++i) {
          uint32_t coords[4], back[4];
          for (uint32_t& c : coords) c = static_cast<uint32_t>(rng() >> (64 - bits));
          CurveCoordinates(curve, CurveKeyReference(curve, coords, columns, bits), columns, bits,
                           back);
          for (int k = 0; k < columns; ++k) ASSERT_EQ(coords[k], back[k]);
        }
      }
    }
  }
}

TEST(CellBorder, SeparatesAtTheHighestBit) {
  int level = 0;
  EXPECT_TRUE(CellBorder(0b10110, 0b11001, &level) == 0b11000);
  EXPECT_EQ(level, 3);
  EXPECT_TRUE(CellBorder(Key128{5}, (Key128{1} << 100) + 77, &level) == Key128{1} << 100);
  EXPECT_EQ(level, 100);
  std::mt19937_64 rng(3);
  for (int i = 0; i < 1000; ++i) {
    Key128 a = rng() >> (rng() % 60), b = rng() >> (rng() % 60);
    if (a == b) continue;
    if (a > b) std::swap(a, b);
    const Key128 border = CellBorder(a, b, &level);
    EXPECT_TRUE(a < border && border <= b);
    EXPECT_TRUE(a >> (level + 1) == b >> (level + 1));
  }
}

TEST(EvenBorders, DividesEvenlyAndIsolatesHotKeys) {
  std::vector<Key128> keys;
  for (int i = 0; i < 10000; ++i) keys.push_back(i < 6000 ? 500 : 1000 + i);
  const auto borders = EvenBorders(keys, 10);
  EXPECT_TRUE(std::find(borders.begin(), borders.end(), Key128{501}) != borders.end());
  EXPECT_LE(borders.size(), 12u);
  for (size_t i = 0; i < borders.size(); ++i) {
    auto first = std::lower_bound(keys.begin(), keys.end(), borders[i]);
    auto last = i + 1 < borders.size() ? std::lower_bound(keys.begin(), keys.end(), borders[i + 1])
                                       : keys.end();
    const auto rows = last - first;
    EXPECT_TRUE(rows <= 2100 || (*first == 500 && *(last - 1) == 500)) << rows;
  }
  EXPECT_EQ(EvenBorders({}, 10).size(), 1u);
  EXPECT_EQ(EvenBorders({7, 7, 7}, 1).size(), 2u);
}

TEST(MakeCurveBins, CoversTheSliceAndCountsBoxes) {
  const std::vector<Key128> sample{3, 3, 3, 3, 3, 3, 3, 3, 3, 12, 40, 41};
  const auto bins = MakeCurveBins(sample, Curve::kZOrder, 6, 1, 0, 0);
  std::vector<int> begins;
  for (const CurveBin& bin : bins) begins.push_back(static_cast<int>(bin.begin));
  EXPECT_EQ(begins, (std::vector<int>{0, 3, 4, 8, 32, 41}));
  EXPECT_FLOAT_EQ(bins[1].box.low[0], 0);
  EXPECT_FLOAT_EQ(bins[1].box.high[0], 0.75);
  EXPECT_FLOAT_EQ(bins[5].box.low[0], 11 / 12.0f);
  const auto slice = MakeCurveBins(sample, Curve::kZOrder, 6, 1, 5, 41);
  EXPECT_TRUE(slice.front().begin == 5);
  EXPECT_TRUE(slice.back().begin == 32);
  EXPECT_EQ(MakeCurveBins({}, Curve::kHilbert, 16, 2, 0, 0).size(), 1u);
  const auto top = MakeCurveBins(std::vector<Key128>(9, ~Key128{0}), Curve::kZOrder, 32, 4, 0, 0);
  EXPECT_TRUE(top.back().begin == ~Key128{0});
}

// ---- the figure that cutting is about: files that an equality opens
// ---------------------------------------------------------

struct Workload {
  const char* name;
  int columns;
  double limit;  // on files opened relative to F^(1-1/N), the mean over keys
};

/// Points in value space; ranks follow from them as the key stage makes them.
std::vector<std::array<double, 3>> Points(const std::string& name, int64_t n,
                                          std::mt19937_64& rng) {
  std::uniform_real_distribution<double> u;
  std::vector<std::array<double, 3>> points(n);
  for (int64_t i = 0; i < n; ++i) {
    auto& p = points[i];
    p = {u(rng), u(rng), u(rng)};
    if (name == "correlated") p[1] = p[0] + 0.3 * u(rng);
    if (name == "low cardinality") p[1] = std::floor(200 * p[1]);
    if (name == "few values") p[1] = std::floor(12 * p[1]);
  }
  return points;
}

/// Files that an equality on each column opens, its value drawn from the rows; the mean over the
/// columns. `ranks` holds, per column and row in key order, the shares of rows below the row's
/// value and up to it.
double FilesOpened(const std::vector<std::vector<std::array<double, 2>>>& ranks,
                   const std::vector<int64_t>& cuts) {
  double sum = 0;
  for (const auto& column : ranks) {
    for (size_t f = 0; f <= cuts.size(); ++f) {
      const int64_t begin = f == 0 ? 0 : cuts[f - 1];
      const int64_t end = f < cuts.size() ? cuts[f] : static_cast<int64_t>(column.size());
      double low = 1, high = 0;
      for (int64_t i = begin; i < end; ++i) {
        low = std::min(low, column[i][0]);
        high = std::max(high, column[i][1]);
      }
      sum += high - low;
    }
  }
  return sum / static_cast<double>(ranks.size());
}

class CutQuality : public ::testing::TestWithParam<Workload> {};

TEST_P(CutQuality, FilesOpenedByAnEquality) {
  const Workload& workload = GetParam();
  const int columns = workload.columns, bits = 16;
  const int64_t n = 60000, sampled = 32768;
  std::mt19937_64 rng(4);
  const auto points = Points(workload.name, n, rng);
  // Coordinates by quantile rank over a sample, as the format has them; key order over all rows.
  std::vector<std::vector<uint32_t>> coords(columns, std::vector<uint32_t>(n));
  for (int k = 0; k < columns; ++k) {
    std::vector<double> sample(sampled);
    for (double& value : sample) value = points[rng() % n][k];
    std::sort(sample.begin(), sample.end());
    for (int64_t i = 0; i < n; ++i) {
      const int64_t rank = std::max<int64_t>(
          0, std::upper_bound(sample.begin(), sample.end(), points[i][k]) - sample.begin() - 1);
      coords[k][i] = static_cast<uint32_t>(rank * ((1 << bits) - 2) / (sampled - 1));
    }
  }
  std::vector<Key128> keys(n);
  std::vector<int64_t> order(n);
  const uint32_t* pointers[3];
  for (int k = 0; k < columns; ++k) pointers[k] = coords[k].data();
  CurveKeys(Curve::kHilbert, pointers, columns, bits, n, keys.data());
  for (int64_t i = 0; i < n; ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return keys[a] < keys[b]; });
  std::vector<std::vector<std::array<double, 2>>> ranks(columns);
  for (int k = 0; k < columns; ++k) {
    std::vector<double> sorted(n);
    for (int64_t i = 0; i < n; ++i) sorted[i] = points[i][k];
    std::sort(sorted.begin(), sorted.end());
    for (int64_t i : order) {
      auto equal = std::equal_range(sorted.begin(), sorted.end(), points[i][k]);
      ranks[k].push_back({static_cast<double>(equal.first - sorted.begin()) / n,
                          static_cast<double>(equal.second - sorted.begin()) / n});
    }
  }
  std::vector<Key128> row_sample(sampled);
  for (Key128& key : row_sample) key = keys[rng() % n];
  std::sort(row_sample.begin(), row_sample.end());
  auto bins = MakeCurveBins(row_sample, Curve::kHilbert, bits, columns, 0, 0);
  size_t bin = 0;
  for (int64_t i : order) {
    while (bin + 1 < bins.size() && bins[bin + 1].begin <= keys[i]) ++bin;
    ++bins[bin].rows;
    bins[bin].weight += 100;
  }
  const CutPlanner planner(bins, columns, CutPlanner::Unit::kBytes);
  double mean = 0;
  int counted = 0;
  for (double files : {24.0, 36.0, 45.0, 61.0, 100.0, 256.0, 400.0, 1024.0}) {
    const double target = planner.Size(0, n) / files;
    const CutWindow window{target, 0.8 * target, 1.2 * target};
    const auto cuts = planner.Cuts(0, n, window, false);
    const double made = static_cast<double>(cuts.size()) + 1;
    const double relative = FilesOpened(ranks, cuts) / std::pow(made, 1 - 1.0 / columns);
    std::vector<int64_t> equal;
    for (int f = 1; f < made; ++f) equal.push_back(static_cast<int64_t>(n * f / made));
    const double of_equal = FilesOpened(ranks, equal) / std::pow(made, 1 - 1.0 / columns);
    printf("  %-16s %d keys, target %5.0f made %5.0f: %.3f of F^(1-1/N), equal cuts %.3f\n",
           workload.name, columns, files, made, relative, of_equal);
    EXPECT_LE(relative, workload.limit) << files;
    mean += relative;
    ++counted;
  }
  printf("  %-16s mean %.3f\n", workload.name, mean / counted);
}

INSTANTIATE_TEST_SUITE_P(Workloads, CutQuality,
                         ::testing::Values(Workload{"uniform", 2, 1.15},
                                           Workload{"correlated", 2, 1.15},
                                           Workload{"low cardinality", 2, 1.15},
                                           Workload{"uniform", 3, 1.15},
                                           Workload{"few values", 2, 2.0}),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::replace(name.begin(), name.end(), ' ', '_');
                           return name + std::to_string(info.param.columns);
                         });

}  // namespace
}  // namespace thalweg
