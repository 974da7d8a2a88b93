#include "lance/declaration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lance/property_names.h"
#include "lance/test_util_internal.h"
#include "util/status.h"

namespace thalweg::lance {
namespace {

using testing::HasSubstr;

const arrow::Schema& TestSchema() {
  static const auto schema =
      arrow::schema({arrow::field("user", arrow::int64()), arrow::field("day", arrow::date32()),
                     arrow::field("name", arrow::utf8()),
                     arrow::field("place", arrow::struct_({arrow::field("x", arrow::int32())})),
                     arrow::field("vector", arrow::fixed_size_list(arrow::float32(), 4))});
  return *schema;
}

/// The five keys as any tool may have set them.
Properties Declared() {
  return {{"lance.clustering.columns", R"(["user","name"])"},
          {"lance.clustering.curve", "hilbert"},
          {"lance.clustering.version", "3"},
          {"lance.clustering.bits_per_dim", "16"},
          {"lance.clustering.algorithm", "quantile-rank-v1"}};
}

Description With(Properties config) {
  Description description = DescriptionOf(TestSchema());
  description.config = std::move(config);
  return description;
}

std::string ProblemOf(const std::string& key, const std::string& value) {
  Properties config = Declared();
  config[key] = value;
  return ReadDeclaration(With(config), TestSchema()).problem;
}

ClusteringSpec SpecOf(std::vector<ClusteringColumn> columns) {
  ClusteringSpec spec;
  spec.columns = std::move(columns);
  spec.algorithm = Algorithm::kQuantileRankV1;
  return spec;
}

TEST(Declaration, FiveKeysAreRead) {
  const auto declaration = ReadDeclaration(With(Declared()), TestSchema());
  ASSERT_TRUE(declaration.spec) << declaration.problem;
  EXPECT_EQ(declaration.spec->columns, (std::vector<ClusteringColumn>{{"user", 0}, {"name", 2}}));
  EXPECT_EQ(declaration.spec->curve, Curve::kHilbert);
  EXPECT_EQ(declaration.spec->version, 3);
  EXPECT_EQ(declaration.spec->bits_per_dim, 16);
  EXPECT_EQ(declaration.spec->algorithm, Algorithm::kQuantileRankV1);
  EXPECT_EQ(declaration.spec->policy, Policy::kSize);
}

TEST(Declaration, NoneIsNotDeclaredAndNoProblem) {
  const auto declaration =
      ReadDeclaration(With({{"lance.compaction.target_rows_per_fragment", "1000"}}), TestSchema());
  EXPECT_FALSE(declaration.spec);
  EXPECT_EQ(declaration.problem, "");
}

TEST(Declaration, AnyMissingKeyIsAProblemThatNamesIt) {
  for (const auto& [key, value] : Declared()) {
    Properties config = Declared();
    config.erase(key);
    const auto declaration = ReadDeclaration(With(config), TestSchema());
    EXPECT_FALSE(declaration.spec);
    EXPECT_THAT(declaration.problem, HasSubstr(key));
    EXPECT_THAT(declaration.problem, HasSubstr("thalweg set"));
  }
}

TEST(Declaration, MalformedValuesAreProblemsThatNameTheKey) {
  const std::vector<std::pair<std::string, std::vector<std::string>>> malformed = {
      {"lance.clustering.columns",
       {"user,name", "[]", R"(["user",1])", R"({"a":1})", "[", R"(["user","name","day","a","b"])",
        R"("user")", ""}},
      {"lance.clustering.curve", {"spiral", "", "HILBERT", "z-order"}},
      {"lance.clustering.version", {"0", "-1", "1.5", "one", "", "99999999999999999999", "+1"}},
      {"lance.clustering.bits_per_dim", {"0", "33", "sixteen", "", "-16"}},
      {"lance.clustering.algorithm", {"quantile-rank-v2", ""}},
      {"thalweg.theta", {"0", "1", "half", "nan"}},
      {"thalweg.policy", {"none"}}};
  for (const auto& [key, values] : malformed) {
    for (const auto& value : values) {
      EXPECT_THAT(ProblemOf(key, value), HasSubstr(key)) << value;
    }
  }
  EXPECT_THAT(ProblemOf("lance.clustering.shape", "round"), HasSubstr("lance.clustering.shape"));
}

TEST(Declaration, ColumnsMustBeTopLevelAndOfAnAcceptedType) {
  EXPECT_THAT(ProblemOf("lance.clustering.columns", R"(["user","gone"])"), HasSubstr("\"gone\""));
  EXPECT_THAT(ProblemOf("lance.clustering.columns", R"(["place.x"])"), HasSubstr("nested"));
  EXPECT_THAT(ProblemOf("lance.clustering.columns", R"(["vector"])"), HasSubstr("vector"));
  EXPECT_THAT(ProblemOf("lance.clustering.columns", R"(["place"])"), HasSubstr("place"));
  EXPECT_THAT(ProblemOf("lance.clustering.columns", R"(["user","user"])"), HasSubstr("twice"));
  // A date takes the typed algorithm.
  EXPECT_THAT(ProblemOf("lance.clustering.columns", R"(["day"])"), HasSubstr("date32"));
  Properties config = Declared();
  config["lance.clustering.columns"] = R"(["day"])";
  config["lance.clustering.algorithm"] = "typed-quantile-rank-v1";
  EXPECT_TRUE(ReadDeclaration(With(config), TestSchema()).spec);
}

TEST(DeclarationChange, WritesAllFiveKeys) {
  auto change = DeclarationChange(With({}), TestSchema(), SpecOf({{"user", 0}, {"name", 2}}),
                                  std::nullopt, false, 0);
  ASSERT_TRUE(change.ok()) << change.status();
  Properties set;
  for (const auto& [key, value] : *change) {
    ASSERT_TRUE(value) << key;
    set[key] = *value;
  }
  Properties expected = Declared();
  expected["lance.clustering.version"] = "1";
  EXPECT_EQ(set, expected);
}

TEST(DeclarationChange, RepeatingChangesNothing) {
  const auto spec = SpecOf({{"user", 0}, {"name", 2}});
  for (const auto version : {std::optional<int64_t>(), std::optional<int64_t>(3)}) {
    auto change = DeclarationChange(With(Declared()), TestSchema(), spec, version, false, 3);
    ASSERT_TRUE(change.ok()) << change.status();
    EXPECT_TRUE(change->empty());
  }
  // Other blanks in the names are no change either.
  Properties config = Declared();
  config["lance.clustering.columns"] = R"([ "user", "name" ])";
  EXPECT_TRUE(DeclarationChange(With(config), TestSchema(), spec, std::nullopt, false, 0)->empty());
}

TEST(DeclarationChange, AnotherOrderNeedsAVersionAboveEveryOneSeen) {
  ClusteringSpec other = SpecOf({{"name", 2}, {"user", 0}});
  auto version_for = [&](const ClusteringSpec& spec, std::optional<int64_t> version,
                         int64_t highest_stamp) -> std::string {
    auto change =
        DeclarationChange(With(Declared()), TestSchema(), spec, version, false, highest_stamp);
    if (!change.ok()) {
      EXPECT_EQ(KindOf(change.status()), FailureKind::kUsage);
      return "refused";
    }
    return change->at("lance.clustering.version").value();
  };
  EXPECT_EQ(version_for(other, std::nullopt, 0), "4");
  EXPECT_EQ(version_for(other, std::nullopt, 9), "10");
  EXPECT_EQ(version_for(other, 4, 0), "4");
  EXPECT_EQ(version_for(other, 3, 0), "refused");
  EXPECT_EQ(version_for(other, 9, 9), "refused");
  EXPECT_EQ(version_for(other, 0, 0), "refused");
  for (auto change : {+[](ClusteringSpec* s) { s->curve = Curve::kZOrder; },
                      +[](ClusteringSpec* s) { s->bits_per_dim = 8; },
                      +[](ClusteringSpec* s) { s->algorithm = Algorithm::kTypedQuantileRankV1; }}) {
    ClusteringSpec spec = SpecOf({{"user", 0}, {"name", 2}});
    change(&spec);
    EXPECT_EQ(version_for(spec, std::nullopt, 0), "4");
    EXPECT_EQ(version_for(spec, 3, 0), "refused");
  }
  // Raising only the version is allowed.
  const auto same = SpecOf({{"user", 0}, {"name", 2}});
  EXPECT_EQ(version_for(same, 5, 3), "5");
  EXPECT_EQ(version_for(same, 2, 0), "refused");
}

TEST(DeclarationChange, ClearedKeepsItsStamps) {
  const auto spec = SpecOf({{"user", 0}, {"name", 2}});
  EXPECT_EQ(DeclarationChange(With({}), TestSchema(), spec, std::nullopt, false, 6)
                ->at("lance.clustering.version"),
            "7");
  EXPECT_FALSE(DeclarationChange(With({}), TestSchema(), spec, 6, false, 6).ok());
  EXPECT_TRUE(DeclarationChange(With({}), TestSchema(), spec, 7, false, 6).ok());
}

TEST(DeclarationChange, PolicyAloneKeepsTheVersion) {
  ClusteringSpec spec = SpecOf({{"user", 0}, {"name", 2}});
  spec.policy = Policy::kOverlap;
  spec.theta = 0.3;
  auto change = DeclarationChange(With(Declared()), TestSchema(), spec, std::nullopt, false, 0);
  ASSERT_TRUE(change.ok()) << change.status();
  EXPECT_EQ(*change, (ConfigChange{{"thalweg.policy", "overlap"}, {"thalweg.theta", "0.3"}}));
}

TEST(DeclarationChange, MendsABrokenOne) {
  Properties config = Declared();
  config.erase("lance.clustering.curve");
  config["lance.clustering.shape"] = "round";
  auto change = DeclarationChange(With(config), TestSchema(), SpecOf({{"user", 0}, {"name", 2}}),
                                  std::nullopt, false, 0);
  ASSERT_TRUE(change.ok()) << change.status();
  EXPECT_EQ(change->at("lance.clustering.shape"), std::nullopt);
  EXPECT_EQ(change->at("lance.clustering.curve"), "hilbert");
  EXPECT_EQ(change->at("lance.clustering.version"), "4");
}

TEST(DeclarationChange, Refusals) {
  auto refused = [](ClusteringSpec spec, bool allow_single = false) {
    return !DeclarationChange(With({}), TestSchema(), spec, std::nullopt, allow_single, 0).ok();
  };
  EXPECT_TRUE(refused(SpecOf({{"user", 0}})));
  EXPECT_FALSE(refused(SpecOf({{"user", 0}}), true));
  EXPECT_TRUE(refused(SpecOf({{"user", 0}, {"vector", 4}})));
  EXPECT_TRUE(refused(SpecOf({{"user", 0}, {"day", 1}})));  // quantile-rank-v1 takes no dates
  ClusteringSpec cubes = SpecOf({{"user", 0}, {"name", 2}});
  cubes.target_cube_bytes = 1 << 30;
  cubes.min_cube_bytes = 1 << 29;
  EXPECT_TRUE(refused(cubes));
}

TEST(ClearingChange, TakesTheNamespaceAndItsSettings) {
  Properties config = Declared();
  config["thalweg.policy"] = "overlap";
  config["lance.compaction.target_rows_per_fragment"] = "1000";
  const auto change = ClearingChange(config);
  EXPECT_EQ(change.size(), 6u);
  for (const auto& [key, value] : change) EXPECT_FALSE(value) << key;
  EXPECT_FALSE(change.contains("lance.compaction.target_rows_per_fragment"));
  EXPECT_TRUE(ClearingChange({}).empty());
}

TEST(ResolveTopLevelColumn, NamesWhatIsMeant) {
  const Description description = With({});
  EXPECT_EQ(ResolveTopLevelColumn(description, "name")->field_id, 2);
  EXPECT_THAT(ResolveTopLevelColumn(description, "User").status().message(), HasSubstr("user"));
  EXPECT_THAT(ResolveTopLevelColumn(description, "place.x").status().message(),
              HasSubstr("nested"));
}

}  // namespace
}  // namespace thalweg::lance
