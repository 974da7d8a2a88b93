// The policy `size` on layouts of groups: every sentence of the rule, by hand-made layouts.

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "layout/planner.h"
#include "layout/test_util_internal.h"

namespace thalweg {
namespace {

constexpr int64_t kTarget = 100;  // rows of a fragment

ClusteringSpec Spec(int64_t version = 1) {
  ClusteringSpec spec;
  spec.columns = {{"k0", 1}, {"k1", 2}};
  spec.version = version;
  spec.target_cube_bytes = spec.min_cube_bytes = INT64_MAX / 4;
  return spec;
}

/// A table of groups: fragments are added in order, each of no group or of a named one.
struct GroupTable {
  Layout layout = LayoutOf({kIntKey, kIntKey});
  GroupTable() {
    layout.size_rule = SizeRule::kGroups;
    layout.group_rows = kTarget;
    layout.unit_name = "fragment";
    layout.cube_name = "group";
  }
  GroupTable& Add(int64_t rows, const std::string& run = "", int64_t version = 1, int cls = 0) {
    AddUnit(&layout, rows, {IntBounds(0, 1000), IntBounds(0, 1000)}, rows * 10);
    layout.units.back().rewrite_class = cls;
    const int unit = static_cast<int>(layout.units.size()) - 1;
    if (run.empty()) return *this;
    for (Cube& cube : layout.cubes) {
      if (cube.cube_id != run) continue;
      cube.units.push_back(unit);
      cube.rows += rows;
      return *this;
    }
    layout.cubes.push_back(
        {run, run, Spec(version).SpecId(), {1, 2}, "1", rows, rows * 10, {unit}});
    return *this;
  }
  Plan MakePlanFor(PlanOptions options = {}, int64_t version = 1) const {
    if (options.target_file_rows < 0) options.target_file_rows = kTarget;
    auto plan = MakePlan(layout, Spec(version), options);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.ok() ? *plan : Plan{};
  }
};

std::vector<int> Selected(const Plan& plan) {
  std::vector<int> units;
  for (const auto& selection : plan.selections) {
    units.insert(units.end(), selection.units.begin(), selection.units.end());
  }
  return units;
}

TEST(Groups, AllUnstampedFragmentsFormOneSort) {
  const Plan plan = GroupTable().Add(50).Add(500).Add(10).MakePlanFor();
  ASSERT_EQ(plan.selections.size(), 1u);
  EXPECT_EQ(plan.selections[0].units, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(plan.selections[0].reason, "3 unclustered units");
  EXPECT_GE(plan.selections[0].predicted_units, 6);  // 560 rows in files of 67 to 100
  EXPECT_LE(plan.selections[0].predicted_units, 8);
}

TEST(Groups, AnOlderOrNewerVersionCountsAsUnclustered) {
  const Plan plan = GroupTable()
                        .Add(500, "a", 1)
                        .Add(500, "b", 3)
                        .Add(500, "c", 2)
                        .MakePlanFor({}, /*version=*/2);
  EXPECT_EQ(Selected(plan), (std::vector<int>{0, 1}));
  EXPECT_EQ(plan.selections[0].reason, "2 units of another declaration");
}

TEST(Groups, ALonePartialGroupIsLeftAlone) {
  const Plan plan = GroupTable().Add(60, "a").MakePlanFor();
  EXPECT_TRUE(plan.selections.empty());
  EXPECT_EQ(plan.reason,
            "all units are clustered as declared, and 1 group below the target of 100 rows has no "
            "neighbour to merge with");
}

TEST(Groups, AdjacentPartialGroupsMergeAndAFullOneBreaksAdjacency) {
  EXPECT_EQ(Selected(GroupTable().Add(60, "a").Add(30, "b").MakePlanFor()),
            (std::vector<int>{0, 1}));
  const Plan apart = GroupTable().Add(60, "a").Add(500, "b").Add(30, "c").MakePlanFor();
  EXPECT_TRUE(apart.selections.empty());
  // What is eligible on both sides of the full group still is one sort.
  const Plan both = GroupTable()
                        .Add(60, "a")
                        .Add(30, "b")
                        .Add(500, "full")
                        .Add(20, "c")
                        .Add(5)
                        .Add(900, "full2")
                        .Add(40, "lone")
                        .MakePlanFor();
  ASSERT_EQ(both.selections.size(), 1u);
  EXPECT_EQ(both.selections[0].units, (std::vector<int>{0, 1, 3, 4}));
  EXPECT_EQ(both.selections[0].reason, "1 unclustered unit, 3 partial groups");
}

TEST(Groups, AGroupIsJudgedByItsLiveRowsAsAWhole) {
  // 3 fragments of 40 are a full group of 120 rows.
  const Plan plan = GroupTable().Add(40, "a").Add(40, "a").Add(40, "a").Add(50, "b").MakePlanFor();
  EXPECT_TRUE(plan.selections.empty());
}

TEST(Groups, SortPerStretchMakesSortsOfAboutTheTarget) {
  GroupTable table;
  for (int i = 0; i < 6; ++i) table.Add(50);
  table.Add(500, "full").Add(30).Add(30);
  PlanOptions options;
  options.sort_per_stretch = true;
  const Plan plan = table.MakePlanFor(options);
  ASSERT_EQ(plan.selections.size(), 4u);
  EXPECT_EQ(plan.selections[0].units, (std::vector<int>{0, 1}));
  EXPECT_EQ(plan.selections[2].units, (std::vector<int>{4, 5}));
  EXPECT_EQ(plan.selections[3].units, (std::vector<int>{7, 8}));
}

TEST(Groups, ClassesAreSortedApart) {
  const Plan plan = GroupTable()
                        .Add(50, "", 1, 0)
                        .Add(50, "", 1, 1)
                        .Add(50, "", 1, 0)
                        .Add(20, "a", 1, 1)
                        .Add(20, "b", 1, 2)
                        .MakePlanFor();
  ASSERT_EQ(plan.selections.size(), 2u);
  EXPECT_EQ(plan.selections[0].units, (std::vector<int>{0, 2}));
  EXPECT_EQ(plan.selections[1].units, (std::vector<int>{1, 3}));
}

TEST(Groups, BudgetsAreHardBounds) {
  GroupTable table;
  for (int i = 0; i < 10; ++i) table.Add(50);
  PlanOptions options;
  options.budgets.max_units = 3;
  EXPECT_EQ(Selected(table.MakePlanFor(options)).size(), 3u);
  options.budgets = {.max_units = -1, .max_rows = 120, .max_bytes = -1};
  EXPECT_EQ(Selected(table.MakePlanFor(options)).size(), 2u);
  options.budgets = {.max_units = -1, .max_rows = -1, .max_bytes = 499};
  const Plan none = table.MakePlanFor(options);
  EXPECT_TRUE(none.selections.empty());
  EXPECT_NE(none.reason.find("--max-source-bytes is 499 B"), std::string::npos) << none.reason;
}

TEST(Groups, FullTakesEverythingOnceAndUnderABudgetOnlyWhatIsNotCurrent) {
  const GroupTable table = GroupTable().Add(500, "a").Add(300, "b").Add(20);
  PlanOptions options;
  options.full = true;
  EXPECT_EQ(Selected(table.MakePlanFor(options)), (std::vector<int>{0, 1, 2}));
  options.budgets.max_rows = 400;
  EXPECT_EQ(Selected(table.MakePlanFor(options)), (std::vector<int>{2}));
  GroupTable sorted;
  for (int i = 0; i < 5; ++i) sorted.Add(90, "one");
  options.budgets = {};
  const Plan plan = sorted.MakePlanFor(options);
  EXPECT_TRUE(plan.selections.empty());
  EXPECT_NE(plan.reason.find("would change nothing"), std::string::npos) << plan.reason;
}

TEST(Groups, HealthFollowsTheRule) {
  const GroupTable table = GroupTable().Add(500, "a").Add(50, "b").Add(500, "c", 2);
  auto health = [&](int cube) { return HealthOf(table.layout, table.layout.cubes[cube], Spec()); };
  EXPECT_EQ(health(0), CubeHealth::kHealthy);
  EXPECT_EQ(health(1), CubeHealth::kPartial);
  EXPECT_EQ(health(2), CubeHealth::kStale);
}

TEST(Groups, FileRowsKeepsTheByteLimit) {
  EXPECT_EQ(FileRows(1000, 10'000, 100, 1 << 30), 100);
  EXPECT_EQ(FileRows(1000, 10'000, 100, 500), 50);
  EXPECT_EQ(FileRows(1000, 10'000, -1, 500), -1);
  EXPECT_EQ(FileRows(10, 10'000, 100, 500), 1);
}

/// Plans carried out as the rule says, on random tables with random budgets: they end, and then
/// every fragment is of a current group.
TEST(Groups, RepeatedRunsEnd) {
  std::mt19937_64 random(20261130);
  for (int round = 0; round < 200; ++round) {
    GroupTable table;
    const int fragments = 1 + static_cast<int>(random() % 30);
    for (int i = 0; i < fragments; ++i) {
      const auto kind = random() % 4;
      table.Add(1 + static_cast<int64_t>(random() % 150),
                kind == 0 ? "" : "r" + std::to_string(random() % 6 + 10 * kind),
                static_cast<int64_t>(kind), static_cast<int>(random() % 2));
    }
    PlanOptions options;
    options.target_file_rows = kTarget;
    if (random() % 2) options.budgets.max_rows = 150 + static_cast<int64_t>(random() % 400);
    int runs = 0;
    for (;; ++runs) {
      ASSERT_LT(runs, 100) << "round " << round;
      const Plan plan = table.MakePlanFor(options, /*version=*/2);
      if (plan.selections.empty()) break;
      int64_t rows = 0;
      GroupTable next;
      const std::vector<int> selected = Selected(plan);
      const std::set<int> gone(selected.begin(), selected.end());
      EXPECT_EQ(gone.size(), selected.size());
      std::map<int, const Cube*> group_of;
      for (const Cube& cube : table.layout.cubes) {
        for (int unit : cube.units) group_of[unit] = &cube;
      }
      for (int i = 0; i < static_cast<int>(table.layout.units.size()); ++i) {
        if (gone.contains(i)) continue;
        const Cube* cube = group_of.contains(i) ? group_of[i] : nullptr;
        int64_t version = 0;
        for (int64_t v = 1; cube && v < 4; ++v) {
          if (Spec(v).SpecId() == cube->spec_id) version = v;
        }
        next.Add(table.layout.units[i].rows, cube ? cube->cube_id : "", version,
                 table.layout.units[i].rewrite_class);
      }
      for (size_t s = 0; s < plan.selections.size(); ++s) {
        const auto& selection = plan.selections[s];
        rows += selection.rows;
        for (int64_t left = selection.rows; left > 0; left -= kTarget) {
          next.Add(std::min(left, kTarget), fmt::format("run{}-{}", runs, s), 2,
                   table.layout.units[selection.units[0]].rewrite_class);
        }
      }
      EXPECT_TRUE(options.budgets.max_rows < 0 || rows <= options.budgets.max_rows) << rows;
      table = next;
    }
    for (const Cube& cube : table.layout.cubes) EXPECT_EQ(cube.spec_id, Spec(2).SpecId());
    size_t stamped = 0;
    for (const Cube& cube : table.layout.cubes) stamped += cube.units.size();
    EXPECT_EQ(stamped, table.layout.units.size());
  }
}

}  // namespace
}  // namespace thalweg
