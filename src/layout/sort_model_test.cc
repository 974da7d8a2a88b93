// What one sort is predicted to give, against closed forms.

#include "layout/sort_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "layout/test_util_internal.h"

namespace thalweg {
namespace {

struct Space {
  std::vector<KeyDistribution> keys;
  RankBoxOf whole;
  ClusteringSpec spec;

  explicit Space(const Layout& layout) {
    for (size_t k = 0; k < layout.columns.size(); ++k) {
      keys.push_back(KeyDistribution::Make(layout, static_cast<int>(k)));
      whole.upto[k] = 1;
      whole.holds[k] = true;
    }
  }
  std::vector<RankBoxOf> Sort(double files, bool hard_cap = false, double cubes = 1,
                              std::array<double, kMostKeys> nulls = {}) const {
    CutModel cuts;
    cuts.file = 1 / files;
    cuts.hard_cap = hard_cap;
    cuts.cubes = cubes;
    return ModelSort({{whole, 1.0, nulls}}, 100'000'000, cuts, spec, keys);
  }
  double Depth(const std::vector<RankBoxOf>& boxes) const {
    double sum = 0;
    for (const RankBoxOf& box : boxes) sum += box.MeanWidth(static_cast<int>(keys.size()));
    return sum;
  }
};

Space EvenSpace(size_t keys) {
  Layout layout = LayoutOf(std::vector<KeyType>(keys, kIntKey));
  AddUnit(&layout, 1000, std::vector<UnitColumn>(keys, IntBounds(0, 999'999'999)));
  return Space(layout);
}

TEST(ModelSort, EvenRowsInFilesThatAreWholeCells) {
  for (const int keys : {2, 3}) {
    const Space space = EvenSpace(static_cast<size_t>(keys));
    const auto boxes = space.Sort(64);
    EXPECT_EQ(boxes.size(), 64u);
    // A grid opens m^(1-1/N) of its m cells.
    EXPECT_NEAR(space.Depth(boxes), std::pow(64, 1 - 1.0 / keys), 0.25);
    double volume = 0;
    for (const RankBoxOf& box : boxes) {
      double product = 1;
      for (int k = 0; k < keys; ++k) product *= box.width(k);
      volume += product;
    }
    EXPECT_NEAR(volume, 1, 0.05);
  }
}

TEST(ModelSort, FilesKeepTheirWindow) {
  const Space space = EvenSpace(2);
  // No more files than of the smallest size, no fewer than of the largest.
  const auto soft = space.Sort(90), hard = space.Sort(90, /*hard_cap=*/true);
  EXPECT_THAT(soft.size(), testing::AllOf(testing::Ge(75u), testing::Le(112u)));
  EXPECT_THAT(hard.size(), testing::AllOf(testing::Ge(90u), testing::Le(134u)));
  EXPECT_GT(hard.size(), soft.size());
  // Cubes of a tenth of ninety files: each is cut by itself.
  EXPECT_THAT(space.Sort(90, false, 10).size(),
              testing::AllOf(testing::Ge(75u), testing::Le(112u)));
  EXPECT_EQ(space.Sort(0.5).size(), 1u);
  EXPECT_NEAR(space.Sort(0.5)[0].width(0), 1, 0.01);
}

TEST(ModelSort, ValuesAreNotCutAndTheSameComesOutTwice) {
  Layout layout = LayoutOf({kIntKey, kBoolKey});
  AddUnit(&layout, 1000, {IntBounds(0, 999'999), Bounds(EncodedBool(false), EncodedBool(true))});
  const Space space(layout);
  const auto boxes = space.Sort(16), again = space.Sort(16);
  ASSERT_EQ(boxes.size(), again.size());
  for (size_t i = 0; i < boxes.size(); ++i) {
    // One of the two values or both.
    EXPECT_NEAR(std::fmod(boxes[i].width(1), 0.5), 0, 1e-9);
    EXPECT_GE(boxes[i].width(1), 0.5);
    EXPECT_EQ(boxes[i].below, again[i].below);
    EXPECT_EQ(boxes[i].upto, again[i].upto);
  }
}

TEST(ModelSort, RowsWithoutAValue) {
  Space space = EvenSpace(2);
  space.whole.holds[1] = false;
  for (const RankBoxOf& box : space.Sort(8)) {
    EXPECT_FALSE(box.holds[1]);
    EXPECT_NEAR(box.width(0), 1.0 / 8, 0.03);  // 0.8 to 1.2 of it
  }
  // Rows without a value lie past the largest: of half of them, and half of the others, files are
  // in the upper half of the values.
  space.whole.holds[1] = true;
  int upper = 0;
  const auto boxes = space.Sort(32, false, 1, {0, 0.5});
  for (const RankBoxOf& box : boxes) upper += box.below[1] >= 0.45;
  EXPECT_NEAR(upper, 0.75 * static_cast<double>(boxes.size()), 4);
}

}  // namespace
}  // namespace thalweg
