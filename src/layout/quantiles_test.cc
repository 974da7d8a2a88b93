#include "layout/quantiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "layout/test_util_internal.h"

namespace thalweg {
namespace {

ColumnModel ModelOf(std::vector<int64_t> values) {
  std::sort(values.begin(), values.end());
  std::vector<std::string> encoded;
  for (int64_t v : values) encoded.push_back(EncodedInt(v));
  return ColumnModel::Make(kIntKey, std::move(encoded)).ValueOrDie();
}

TEST(QuantilesOf, FewValuesAreKeptAsTheyAre) {
  const auto q = QuantilesOf(ModelOf({5, 1, 3, 3}), 7, 0.25);
  EXPECT_EQ(q.field_id, 7);
  EXPECT_EQ(q.null_share, 0.25);
  EXPECT_EQ(q.quantiles,
            (std::vector<std::string>{EncodedInt(1), EncodedInt(3), EncodedInt(3), EncodedInt(5)}));
  ASSERT_EQ(q.repeated.size(), 1u);
  EXPECT_EQ(q.repeated[0].value, EncodedInt(3));
  EXPECT_EQ(q.repeated[0].mass, 0.5);
  EXPECT_EQ(QuantilesOf(ModelOf({4}), 1, 0).quantiles.size(), 1u);
}

TEST(QuantilesOf, NoSamplesGiveNoQuantiles) {
  EXPECT_TRUE(QuantilesOf(ModelOf({}), 1, 1).quantiles.empty());
  EXPECT_TRUE(QuantilesOf(ColumnModel::FixedDomain(kIntKey).ValueOrDie(), 1, 0).quantiles.empty());
}

TEST(QuantilesOf, EquiDepthAndRepeatedValuesAgainstCounting) {
  std::mt19937_64 rng(9);
  for (int round = 0; round < 12; ++round) {
    std::vector<int64_t> values;
    const int size = 1 + static_cast<int>(rng() % 20'000);
    const int64_t domain = int64_t{1} << (rng() % 20);
    for (int i = 0; i < size; ++i) {
      values.push_back(
          rng() % 3 == 0 ? 42 : static_cast<int64_t>(rng() % static_cast<uint64_t>(domain)));
    }
    const auto q = QuantilesOf(ModelOf(values), 1, 0);
    std::sort(values.begin(), values.end());
    ASSERT_EQ(q.quantiles.size(), static_cast<size_t>(std::min(size, 256)));
    EXPECT_EQ(q.quantiles.front(), EncodedInt(values.front()));
    EXPECT_EQ(q.quantiles.back(), EncodedInt(values.back()));
    EXPECT_TRUE(std::is_sorted(q.quantiles.begin(), q.quantiles.end()));
    if (size > 256) {
      for (int i = 0; i < 256; ++i) {  // the i-th quantile is within one row of rank i/255
        const double rank = i / 255.0 * (size - 1);
        const auto low = static_cast<size_t>(rank),
                   high = std::min<size_t>(values.size() - 1, low + 1);
        EXPECT_TRUE(q.quantiles[i] == EncodedInt(values[low]) ||
                    q.quantiles[i] == EncodedInt(values[high]));
      }
    }
    std::map<int64_t, int> counts;
    for (int64_t v : values) ++counts[v];
    std::map<std::string, double> expected;
    for (const auto& [v, n] : counts) {
      if (n >= 2 && n * 256.0 >= size) expected[EncodedInt(v)] = static_cast<double>(n) / size;
    }
    std::map<std::string, double> found;
    double previous = 1;
    for (const auto& r : q.repeated) {
      EXPECT_LE(r.mass, previous);
      previous = r.mass;
      found[r.value] = r.mass;
    }
    EXPECT_EQ(found, expected);
  }
}

}  // namespace
}  // namespace thalweg
