#include "spec/clustering_spec.h"

#include <gtest/gtest.h>

#include <cmath>

#include "util/status.h"

namespace thalweg {
namespace {

ClusteringSpec TwoColumns() {
  ClusteringSpec spec;
  spec.columns = {{"user_id", 3}, {"event_time", 7}};
  return spec;
}

TEST(ClusteringSpec, Names) {
  for (Curve curve : {Curve::kHilbert, Curve::kZOrder})
    EXPECT_EQ(*ParseCurve(ToString(curve)), curve);
  for (Algorithm algorithm : {Algorithm::kTypedQuantileRankV1, Algorithm::kQuantileRankV1}) {
    EXPECT_EQ(*ParseAlgorithm(ToString(algorithm)), algorithm);
  }
  for (Policy policy : {Policy::kSize, Policy::kOverlap})
    EXPECT_EQ(*ParsePolicy(ToString(policy)), policy);
  EXPECT_EQ(*ParseCurve("Hilbert"), Curve::kHilbert);
  EXPECT_EQ(*ParseAlgorithm("QUANTILE-RANK-V1"), Algorithm::kQuantileRankV1);
  EXPECT_EQ(*ParsePolicy("OVERLAP"), Policy::kOverlap);
  for (const auto& status :
       {ParseCurve("peano").status(), ParseAlgorithm("v2").status(), ParsePolicy("").status()}) {
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(KindOf(status), FailureKind::kUsage);
  }
  EXPECT_NE(ParseCurve("peano").status().message().find("hilbert or zorder"), std::string::npos);
}

TEST(ClusteringSpec, Validation) {
  EXPECT_TRUE(TwoColumns().Validate().ok());
  auto refused = [](auto change, const char* part) {
    ClusteringSpec spec = TwoColumns();
    change(spec);
    const arrow::Status status = spec.Validate();
    ASSERT_FALSE(status.ok()) << part;
    EXPECT_EQ(KindOf(status), FailureKind::kUsage);
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  };
  refused([](auto& s) { s.columns.clear(); }, "one to four");
  refused(
      [](auto& s) {
        s.columns = {{"a", 1}, {"b", 2}, {"c", 3}, {"d", 4}, {"e", 5}};
      },
      "one to four");
  refused([](auto& s) { s.columns[1].name = "user_id"; }, "twice");
  refused([](auto& s) { s.columns[1].field_id = 3; }, "twice");
  refused([](auto& s) { s.columns[0].name = ""; }, "empty name");
  refused([](auto& s) { s.bits_per_dim = 0; }, "1 to 32");
  refused([](auto& s) { s.bits_per_dim = 33; }, "1 to 32");
  refused([](auto& s) { s.min_cube_bytes = 0; }, "positive");
  refused([](auto& s) { s.min_cube_bytes = s.target_cube_bytes + 1; }, "above the target");
  for (double theta : {0.0, 1.0, -0.5, std::nan("")})
    refused([&](auto& s) { s.theta = theta; }, "threshold");
  ClusteringSpec widest = TwoColumns();
  widest.columns = {{"a", 1}, {"b", 2}, {"c", 3}, {"d", 4}};
  widest.bits_per_dim = 32;
  widest.min_cube_bytes = widest.target_cube_bytes;
  EXPECT_TRUE(widest.Validate().ok());
}

// The id tells whether two declarations order rows alike: what decides the order changes it,
// nothing else does.
TEST(ClusteringSpec, IdFollowsTheOrderOfRows) {
  const std::string id = TwoColumns().SpecId();
  // XXH3-64 of "3,7,|hilbert|16|typed-quantile-rank-v1", as tables hold it: it must never change.
  EXPECT_EQ(id, "9676f96e8cdc5cc5");
  auto changed = [](auto change) {
    ClusteringSpec spec = TwoColumns();
    change(spec);
    return spec.SpecId();
  };
  EXPECT_NE(changed([](auto& s) { std::swap(s.columns[0], s.columns[1]); }), id);
  EXPECT_NE(changed([](auto& s) { s.columns[0].field_id = 4; }), id);
  EXPECT_NE(changed([](auto& s) { s.columns.pop_back(); }), id);
  EXPECT_NE(changed([](auto& s) { s.curve = Curve::kZOrder; }), id);
  EXPECT_NE(changed([](auto& s) { s.bits_per_dim = 17; }), id);
  EXPECT_NE(changed([](auto& s) { s.algorithm = Algorithm::kQuantileRankV1; }), id);
  EXPECT_EQ(changed([](auto& s) { s.columns[0].name = "renamed"; }), id);
  EXPECT_EQ(changed([](auto& s) { s.min_cube_bytes = 1; }), id);
  EXPECT_EQ(changed([](auto& s) { s.policy = Policy::kOverlap; }), id);
  EXPECT_EQ(changed([](auto& s) { s.theta = 0.3; }), id);
}

}  // namespace
}  // namespace thalweg
