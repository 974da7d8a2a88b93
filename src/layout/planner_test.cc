#include "layout/planner.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "layout/test_util_internal.h"

namespace thalweg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kGb = 1'000'000;  // sizes of the tests in units of their own

ClusteringSpec SpecOf(int keys = 2) {
  ClusteringSpec spec;
  for (int k = 0; k < keys; ++k) spec.columns.push_back({fmt::format("k{}", k), k + 1});
  spec.target_cube_bytes = 10 * kGb;
  spec.min_cube_bytes = 5 * kGb;
  return spec;
}

std::vector<int32_t> FieldIds(const ClusteringSpec& spec) {
  std::vector<int32_t> ids;
  for (const ClusteringColumn& column : spec.columns) ids.push_back(column.field_id);
  return ids;
}

PlanOptions Options() {
  PlanOptions options;
  options.target_file_bytes = kGb / 2;
  return options;
}

/// A unit over the whole domain of two integer keys.
void AddWide(Layout* layout, int64_t bytes) {
  AddUnit(layout, std::max<int64_t>(1, bytes / 100), {IntBounds(0, 999'999), IntBounds(0, 999'999)},
          bytes);
}

void AddCube(Layout* layout, const std::string& run, const ClusteringSpec& spec, int64_t bytes,
             int units = 1) {
  Cube cube;
  cube.cube_id = fmt::format("cube{}", layout->cubes.size());
  cube.run_id = run;
  cube.spec_id = spec.SpecId();
  cube.field_ids = FieldIds(spec);
  for (int i = 0; i < units; ++i) {
    AddWide(layout, bytes / units);
    cube.units.push_back(static_cast<int>(layout->units.size() - 1));
    cube.rows += layout->units.back().rows;
    cube.bytes += layout->units.back().bytes;
    layout->units.back().stamp = Stamp{run, cube.cube_id, cube.spec_id, cube.field_ids};
  }
  layout->cubes.push_back(cube);
  if (layout->runs.empty() || layout->runs.back().run_id != run) {
    layout->runs.push_back({});
    layout->runs.back().run_id = run;
  }
}

Plan PlanOf(const Layout& layout, const ClusteringSpec& spec,
            const PlanOptions& options = Options()) {
  auto plan = MakePlan(layout, spec, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.ValueOrDie();
}

/// The layout after a plan was carried out: the rows of the selection (here: their evenly spread
/// bounds) sorted into grid cells of equal mass, in balanced cubes of balanced files.
Layout Execute(const Layout& layout, const Plan& plan, const ClusteringSpec& spec,
               const PlanOptions& options, const std::string& run) {
  Layout after = LayoutOf(layout.types);
  std::vector<char> gone(layout.units.size(), 0);
  for (const Selection& selection : plan.selections) {
    for (int unit : selection.units) {
      EXPECT_FALSE(gone[unit]) << "a unit in two selections";
      gone[unit] = 1;
    }
  }
  std::map<std::string, size_t> cube_at;
  for (size_t i = 0; i < layout.units.size(); ++i) {
    if (gone[i]) continue;
    after.units.push_back(layout.units[i]);
    if (!layout.units[i].stamp) continue;
    const Stamp& stamp = *layout.units[i].stamp;
    const auto [at, added] = cube_at.emplace(stamp.cube_id, after.cubes.size());
    if (added) {
      after.cubes.push_back({});
      after.cubes.back().cube_id = stamp.cube_id;
      after.cubes.back().run_id = stamp.run_id;
      after.cubes.back().spec_id = stamp.spec_id;
      after.cubes.back().field_ids = stamp.field_ids;
    }
    Cube& cube = after.cubes[at->second];
    cube.units.push_back(static_cast<int>(after.units.size() - 1));
    cube.bytes += layout.units[i].bytes;
    cube.rows += layout.units[i].rows;
  }
  for (const Selection& selection : plan.selections) {
    int64_t rows = 0, bytes = 0;
    for (int unit : selection.units) {
      rows += layout.units[unit].rows;
      bytes += layout.units[unit].bytes;
    }
    EXPECT_EQ(rows, selection.rows);
    EXPECT_EQ(bytes, selection.bytes);
    const auto cubes = std::max<int64_t>(
        1, std::llround(static_cast<double>(bytes) / static_cast<double>(spec.target_cube_bytes)));
    const auto per_cube =
        std::max<int64_t>(1, std::llround(static_cast<double>(bytes) / static_cast<double>(cubes) /
                                          static_cast<double>(options.target_file_bytes)));
    const int64_t files = cubes * per_cube;
    const auto side = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(files))));
    for (int64_t f = 0; f < files; ++f) {
      Unit unit;
      unit.id = fmt::format("{}-{}", run, f);
      unit.rows = rows * (f + 1) / files - rows * f / files;
      unit.bytes = bytes * (f + 1) / files - bytes * f / files;
      // A grid of `side` columns; the last column may be cut coarser.
      const int64_t x = f / side, in_column = std::min(side, files - x * side), y = f % side;
      const int64_t columns = (files + side - 1) / side;
      unit.columns.push_back(IntBounds(1'000'000 * x / columns, 1'000'000 * (x + 1) / columns - 1));
      unit.columns.push_back(
          IntBounds(1'000'000 * y / in_column, 1'000'000 * (y + 1) / in_column - 1));
      unit.stamp =
          Stamp{run, fmt::format("{}-c{}", run, f / per_cube), spec.SpecId(), FieldIds(spec)};
      if (f % per_cube == 0) {
        after.cubes.push_back({});
        after.cubes.back().cube_id = unit.stamp->cube_id;
        after.cubes.back().run_id = run;
        after.cubes.back().spec_id = spec.SpecId();
        after.cubes.back().field_ids = FieldIds(spec);
      }
      after.cubes.back().units.push_back(static_cast<int>(after.units.size()));
      after.cubes.back().bytes += unit.bytes;
      after.cubes.back().rows += unit.rows;
      after.units.push_back(std::move(unit));
    }
  }
  return after;
}

TEST(HealthOf, SizeFirstThenColumns) {
  const ClusteringSpec spec = SpecOf();
  Cube cube;
  cube.spec_id = spec.SpecId();
  auto health = [&](int64_t bytes, std::vector<int32_t> ids, bool* other = nullptr) {
    cube.bytes = bytes;
    cube.field_ids = std::move(ids);
    return HealthOf(cube, spec, other);
  };
  EXPECT_EQ(health(5 * kGb, {1, 2}), CubeHealth::kHealthy);
  EXPECT_EQ(health(5 * kGb - 1, {1, 2}), CubeHealth::kPartial);
  EXPECT_EQ(health(5 * kGb - 1, {1, 3}), CubeHealth::kPartial);
  EXPECT_EQ(health(5 * kGb, {1, 3}), CubeHealth::kMismatch);
  EXPECT_EQ(health(5 * kGb, {1}), CubeHealth::kMismatch);
  EXPECT_EQ(health(15 * kGb, {1, 2}), CubeHealth::kHealthy);
  EXPECT_EQ(health(15 * kGb + 1, {1, 2}), CubeHealth::kOversized);
  EXPECT_EQ(health(15 * kGb + 1, {1, 3}), CubeHealth::kMismatch);
  bool other = true;
  health(5 * kGb, {1, 2}, &other);
  EXPECT_FALSE(other);
  cube.spec_id = "another";
  EXPECT_EQ(health(5 * kGb, {2, 1}, &other), CubeHealth::kHealthy);
  EXPECT_TRUE(other);
}

TEST(MakePlan, SaysWhyThereIsNothingToDo) {
  const ClusteringSpec spec = SpecOf();
  Layout layout = LayoutOf({kIntKey, kIntKey});
  EXPECT_EQ(PlanOf(layout, spec).reason, "the table is empty");
  AddCube(&layout, "r1", spec, 8 * kGb);
  EXPECT_THAT(PlanOf(layout, spec).reason, HasSubstr("healthy"));
  AddCube(&layout, "r2", spec, 3 * kGb);
  Plan plan = PlanOf(layout, spec);
  EXPECT_THAT(plan.selections, IsEmpty());
  EXPECT_THAT(plan.reason, HasSubstr("one run (r2)"));
  EXPECT_EQ(plan.depth_before, plan.depth_after);
}

TEST(MakePlan, TakesUnclusteredUnitsAndPartialCubesAsOneSelection) {
  const ClusteringSpec spec = SpecOf();
  Layout layout = LayoutOf({kIntKey, kIntKey});
  AddCube(&layout, "r1", spec, 8 * kGb, 2);   // units 0, 1
  AddCube(&layout, "r2", spec, 3 * kGb, 2);   // units 2, 3
  AddWide(&layout, kGb);                      // unit 4
  AddCube(&layout, "r3", spec, 16 * kGb, 1);  // unit 5, oversized
  const Plan plan = PlanOf(layout, spec);
  ASSERT_EQ(plan.selections.size(), 1u);
  EXPECT_THAT(plan.selections[0].units, ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(plan.bytes, 20 * kGb);
  const int files = plan.selections[0].predicted_units;  // of 0.8 to 1.2 of 0.5 GB
  EXPECT_GE(files, 34);
  EXPECT_LE(files, 50);
  EXPECT_EQ(plan.selections[0].reason, "1 unclustered unit, 1 partial cube, 1 oversized cube");
  EXPECT_NEAR(plan.depth_before, 6, 1e-9);
  EXPECT_NEAR(plan.depth_after, 2 + 1.1 * std::sqrt(40), 0.6);
  EXPECT_EQ(plan.units_after, 2 + files);
}

TEST(MakePlan, PartialCubesOfTwoRunsAreMergedOnce) {
  const ClusteringSpec spec = SpecOf();
  for (const int64_t second : {kGb / 2, 4 * kGb, 4'999'999L}) {
    Layout layout = LayoutOf({kIntKey, kIntKey});
    AddCube(&layout, "r1", spec, 4 * kGb);
    AddCube(&layout, "r2", spec, second);
    Plan plan = PlanOf(layout, spec);
    ASSERT_EQ(plan.units_selected, 2);
    layout = Execute(layout, plan, spec, Options(), "r3");
    EXPECT_THAT(PlanOf(layout, spec).selections, IsEmpty());
  }
}

// However much there is, one sort is enough: 10.5, 12 and 19.9 GB in cubes of 10 GB and so on.
TEST(MakePlan, ASecondRunHasNothingToDo) {
  for (const double size :
       {0.001, 4.0, 5.0, 9.0, 10.5, 12.0, 14.9, 15.0, 15.1, 19.9, 24.9, 25.0, 100.0}) {
    for (const double minimum : {5.0, 7.6, 10.0}) {
      ClusteringSpec spec = SpecOf();
      spec.min_cube_bytes = static_cast<int64_t>(minimum * kGb);
      Layout layout = LayoutOf({kIntKey, kIntKey});
      const auto bytes = static_cast<int64_t>(size * kGb);
      for (int i = 0; i < 10; ++i) AddWide(&layout, bytes / 10);
      Plan plan = PlanOf(layout, spec);
      ASSERT_EQ(plan.units_selected, 10);
      layout = Execute(layout, plan, spec, Options(), "r1");
      plan = PlanOf(layout, spec);
      EXPECT_THAT(plan.selections, IsEmpty()) << size;
      EXPECT_FALSE(plan.reason.empty());
      PlanOptions full = Options();
      full.full = true;
      plan = PlanOf(layout, spec, full);
      EXPECT_THAT(plan.selections, IsEmpty()) << size;
      EXPECT_THAT(plan.reason, HasSubstr("full rewrite would change nothing"));
    }
  }
}

TEST(MakePlan, DeletedRowsAreAReasonToRewrite) {
  const ClusteringSpec spec = SpecOf();
  Layout layout = LayoutOf({kIntKey, kIntKey});
  for (int i = 0; i < 10; ++i) AddWide(&layout, 3 * kGb);
  layout = Execute(layout, PlanOf(layout, spec), spec, Options(), "r1");
  ASSERT_EQ(layout.cubes.size(), 3u);
  PlanOptions full = Options();
  full.full = true;
  EXPECT_THAT(PlanOf(layout, spec, full).reason, HasSubstr("full rewrite would change nothing"));
  // Three tenths of a healthy cube's rows are enough, a little less is not; --full takes any.
  auto with_deleted = [&](int64_t live, int64_t deleted) {
    Layout changed = layout;
    for (const int unit : layout.cubes[1].units) {
      changed.units[unit].rows = live;
      changed.units[unit].deleted_rows = deleted;
    }
    return changed;
  };
  Plan plan = PlanOf(with_deleted(70, 30), spec);
  ASSERT_EQ(plan.selections.size(), 1u);
  EXPECT_EQ(plan.selections[0].units, layout.cubes[1].units);
  EXPECT_EQ(plan.selections[0].reason, "1 healthy cube with many deleted rows");
  plan = PlanOf(with_deleted(71, 29), spec);
  EXPECT_THAT(plan.selections, IsEmpty());
  EXPECT_EQ(plan.reason, "all units are in healthy cubes");
  plan = PlanOf(with_deleted(99, 1), spec, full);
  EXPECT_EQ(plan.units_selected, static_cast<int64_t>(layout.units.size()));
}

TEST(MakePlan, FullTakesEverythingOnce) {
  const ClusteringSpec spec = SpecOf();
  ClusteringSpec other = spec;
  other.columns[1].field_id = 9;
  Layout layout = LayoutOf({kIntKey, kIntKey});
  AddCube(&layout, "r1", spec, 8 * kGb);
  AddCube(&layout, "r2", other, 9 * kGb);
  Plan plan = PlanOf(layout, spec);
  EXPECT_THAT(plan.selections, IsEmpty());
  EXPECT_THAT(plan.notes, ElementsAre(HasSubstr("other columns")));
  PlanOptions full = Options();
  full.full = true;
  plan = PlanOf(layout, spec, full);
  ASSERT_EQ(plan.units_selected, 2);
  EXPECT_EQ(plan.selections[0].reason, "1 cube of other columns, 1 healthy cube");
  layout = Execute(layout, plan, spec, full, "r3");
  plan = PlanOf(layout, spec, full);
  EXPECT_THAT(plan.selections, IsEmpty());
}

TEST(MakePlan, AnotherOrderOfTheSameColumnsIsLeftToFull) {
  const ClusteringSpec spec = SpecOf();
  ClusteringSpec other = spec;
  std::swap(other.columns[0], other.columns[1]);
  ASSERT_NE(other.SpecId(), spec.SpecId());
  for (const int64_t bytes : {8 * kGb, 3 * kGb}) {  // healthy, and partial of one run
    Layout layout = LayoutOf({kIntKey, kIntKey});
    AddCube(&layout, "r1", other, bytes);
    EXPECT_THAT(PlanOf(layout, spec).selections, IsEmpty());
    PlanOptions full = Options();
    full.full = true;
    EXPECT_EQ(PlanOf(layout, spec, full).units_selected, 1);
  }
}

TEST(MakePlan, APartialCubeOfOtherColumnsIsRewritten) {
  const ClusteringSpec spec = SpecOf();
  ClusteringSpec other = spec;
  other.columns[1].field_id = 9;
  Layout layout = LayoutOf({kIntKey, kIntKey});
  AddCube(&layout, "r1", other, 3 * kGb);
  Plan plan = PlanOf(layout, spec);
  ASSERT_EQ(plan.units_selected, 1);
  layout = Execute(layout, plan, spec, Options(), "r2");
  EXPECT_THAT(PlanOf(layout, spec).selections, IsEmpty());
}

TEST(MakePlan, ACubeIsJudgedByWhatIsLeftOfIt) {
  const ClusteringSpec spec = SpecOf();
  Layout layout = LayoutOf({kIntKey, kIntKey});
  AddCube(&layout, "r1", spec, 8 * kGb, 8);
  layout.cubes[0].units.resize(4);  // another engine removed half of its files …
  layout.units.resize(4);
  AddWide(&layout, kGb);  // … and added one
  EXPECT_EQ(PlanOf(layout, spec).units_selected, 5);
}

TEST(MakePlan, BudgetsAreHardAndTheBestGainGoesFirst) {
  const ClusteringSpec spec = SpecOf();
  Layout layout = LayoutOf({kIntKey, kIntKey});
  AddUnit(&layout, 100, {IntBounds(0, 999), IntBounds(0, 999)}, kGb);              // narrow
  AddUnit(&layout, 100, {IntBounds(0, 999'999), IntBounds(0, 999'999)}, kGb);      // wide
  AddUnit(&layout, 100, {IntBounds(0, 999'999), IntBounds(0, 999'999)}, 2 * kGb);  // wide, larger
  PlanOptions options = Options();
  options.budgets.max_units = 1;
  EXPECT_THAT(PlanOf(layout, spec, options).selections[0].units, ElementsAre(1));
  options.budgets.max_units = 2;
  Plan plan = PlanOf(layout, spec, options);
  EXPECT_THAT(plan.selections[0].units, ElementsAre(1, 2));
  ASSERT_EQ(plan.notes.size(), 1u);
  EXPECT_THAT(plan.notes[0], HasSubstr("1 unit of"));
  options.budgets.max_bytes = 2 * kGb;  // the large one does not fit any more; the narrow one does
  EXPECT_THAT(PlanOf(layout, spec, options).selections[0].units, ElementsAre(0, 1));
}

// What a repeated value costs whatever the layout is no gain.
TEST(MakePlan, ConstantUnitsGainNothing) {
  const ClusteringSpec spec = SpecOf();
  Layout layout = LayoutOf({kIntKey, kIntKey});
  AddUnit(&layout, 900, {IntBounds(7, 7), IntBounds(7, 7)}, kGb);  // nearly all rows: the widest
  AddUnit(&layout, 50, {IntBounds(100, 9999), IntBounds(100, 9999)}, kGb);
  AddUnit(&layout, 50, {IntBounds(100, 9999), IntBounds(100, 9999)}, kGb);
  PlanOptions options = Options();
  options.budgets.max_units = 2;
  EXPECT_THAT(PlanOf(layout, spec, options).selections[0].units, ElementsAre(1, 2));
}

TEST(MakePlan, ABudgetThatIsTooSmallSaysWhatIsNeeded) {
  const ClusteringSpec spec = SpecOf();
  Layout layout = LayoutOf({kIntKey, kIntKey});
  AddCube(&layout, "r1", spec, 3 * kGb, 2);
  AddCube(&layout, "r2", spec, 4 * kGb, 3);
  PlanOptions options = Options();
  options.budgets.max_bytes = 5 * kGb;
  Plan plan = PlanOf(layout, spec, options);
  EXPECT_THAT(plan.selections, IsEmpty());
  EXPECT_THAT(plan.reason, HasSubstr("needs 5 units of 6.68 MiB"));
  EXPECT_THAT(plan.reason, HasSubstr("--max-source-bytes is 4.77 MiB"));
  options.budgets = {};
  options.budgets.max_units = 4;
  EXPECT_THAT(PlanOf(layout, spec, options).reason, HasSubstr("--max-source-files is 4"));
  options.budgets.max_units = 5;
  EXPECT_EQ(PlanOf(layout, spec, options).units_selected, 5);
  AddWide(&layout, kGb);
  options.budgets.max_units = 1;
  EXPECT_THAT(PlanOf(layout, spec, options).selections[0].units, ElementsAre(5));
  options.budgets.max_units = 0;
  EXPECT_THAT(PlanOf(layout, spec, options).reason, HasSubstr("needs 1 unit of"));
}

TEST(MakePlan, ALargePartialCubeDoesNotStandInTheWayOfSmallOnes) {
  const ClusteringSpec spec = SpecOf();
  Layout layout = LayoutOf({kIntKey, kIntKey});
  // The best gain per byte, but with it nothing else fits.
  AddCube(&layout, "r1", spec, 4 * kGb, 40);
  AddCube(&layout, "r2", spec, kGb, 1);
  AddCube(&layout, "r3", spec, kGb, 1);
  PlanOptions options = Options();
  options.budgets.max_bytes = 4 * kGb + 1;
  EXPECT_THAT(PlanOf(layout, spec, options).selections[0].units, ElementsAre(40, 41));
}

TEST(MakePlan, LargeSelectionsAreSplitIntoTasks) {
  ClusteringSpec spec = SpecOf();
  Layout layout = LayoutOf({kIntKey, kIntKey});
  AddWide(&layout, 10 * kGb);
  PlanOptions options = Options();
  options.max_task_bytes = 3 * kGb;
  EXPECT_EQ(PlanOf(layout, spec, options).selections[0].tasks, 4);
  EXPECT_EQ(PlanOf(layout, spec).selections[0].tasks, 1);
  spec.policy = Policy::kOverlap;
  EXPECT_EQ(PlanOf(layout, spec, options).selections[0].tasks, 4);
}

TEST(MakePlan, WhatPastRunsAchievedCorrectsThePrediction) {
  const ClusteringSpec spec = SpecOf();
  Layout layout = LayoutOf({kIntKey, kIntKey});
  for (int i = 0; i < 100; ++i) AddWide(&layout, kGb / 2);
  const double plain = PlanOf(layout, spec).depth_after;
  EXPECT_NEAR(plain, 1.1 * 10, 1);
  layout.runs.push_back({});
  layout.runs.back().run_id = "r1";
  layout.runs.back().predicted_depth = 10;
  layout.runs.back().achieved_depth = 8;
  EXPECT_NEAR(PlanOf(layout, spec).depth_after, std::pow(0.8, 0.25) * plain, 1e-9);
  layout.runs.back().prediction_correction = 2;  // of the 10, a plain prediction of 5
  EXPECT_NEAR(PlanOf(layout, spec).depth_after, std::pow(1.6, 0.25) * plain, 1e-9);
}

TEST(MakePlan, RefusesWhatDoesNotFitTogether) {
  const ClusteringSpec spec = SpecOf();
  EXPECT_FALSE(MakePlan(LayoutOf({kIntKey}), spec, Options()).ok());
  Layout layout = LayoutOf({kIntKey, kIntKey});
  AddCube(&layout, "r1", spec, kGb);
  layout.cubes.push_back(layout.cubes[0]);
  EXPECT_FALSE(MakePlan(layout, spec, Options()).ok());
  layout.cubes.pop_back();
  layout.cubes[0].units = {7};
  EXPECT_FALSE(MakePlan(layout, spec, Options()).ok());
}

int64_t Fitting(const Plan& plan, const PlanOptions& options) {
  EXPECT_TRUE(options.budgets.max_units < 0 || plan.units_selected <= options.budgets.max_units);
  EXPECT_TRUE(options.budgets.max_rows < 0 || plan.rows <= options.budgets.max_rows);
  EXPECT_TRUE(options.budgets.max_bytes < 0 || plan.bytes <= options.budgets.max_bytes);
  return plan.units_selected;
}

/// Columns of one unit of an adversarial table.
std::vector<UnitColumn> RandomColumns(int shape, std::mt19937_64* rng, int64_t rows) {
  auto range = [&] {
    const auto a = static_cast<int64_t>((*rng)() % 1'000'000),
               b = static_cast<int64_t>((*rng)() % 1'000'000);
    return IntBounds(std::min(a, b), std::max(a, b));
  };
  switch (shape) {
    case 0:  // all equal
      return {IntBounds(5, 5), IntBounds(5, 5)};
    case 1:  // one hot value
      return {(*rng)() % 10 < 6 ? IntBounds(77, 77) : range(), range()};
    case 2:  // all null
      return {UnitColumn{.lower = {}, .upper = {}, .null_count = rows},
              UnitColumn{.lower = {}, .upper = {}, .null_count = rows}};
    case 3:  // missing statistics
      return {UnitColumn{.lower = {}, .upper = {}, .null_count = -1, .usable = false}, range()};
    case 4:  // constant second key
      return {range(), IntBounds(1, 1)};
    default:
      return {range(), range()};
  }
}

// Random tables, budgets and runs: budgets hold, what is healthy is not touched, and without new
// data it ends.
TEST(MakePlan, EndsOnAdversarialTables) {
  std::mt19937_64 rng(17);
  for (int round = 0; round < 120; ++round) {
    const int shape = round % 6;
    ClusteringSpec spec = SpecOf();
    spec.min_cube_bytes =
        (3 + static_cast<int64_t>(rng() % 8)) * kGb;  // 3 to 10, the target itself included
    ClusteringSpec other = spec;
    other.columns[1].field_id = 9;
    PlanOptions options = Options();
    if (rng() % 3 > 0) options.budgets.max_bytes = static_cast<int64_t>(rng() % (20 * kGb));
    if (rng() % 3 == 0) options.budgets.max_units = 1 + static_cast<int64_t>(rng() % 30);
    if (rng() % 4 == 0) options.budgets.max_rows = static_cast<int64_t>(rng() % 200'000);
    options.full = rng() % 4 == 0;
    Layout layout = LayoutOf({kIntKey, kIntKey});
    for (int i = 0, n = static_cast<int>(rng() % 40); i < n; ++i) {
      const int64_t rows = 1 + static_cast<int64_t>(rng() % 10'000);
      AddUnit(&layout, rows, RandomColumns(shape, &rng, rows),
              1 + static_cast<int64_t>(rng() % kGb));
    }
    for (int i = 0, n = static_cast<int>(rng() % 8); i < n; ++i) {
      AddCube(&layout, fmt::format("old{}", rng() % 4), rng() % 4 == 0 ? other : spec,
              1 + static_cast<int64_t>(rng() % (18 * kGb)), 1 + static_cast<int>(rng() % 4));
    }
    int runs = 0;
    const size_t bound = 2 * layout.units.size() + 4 * layout.cubes.size() + 4;
    for (;; ++runs) {
      ASSERT_LT(runs, static_cast<int>(bound)) << "does not end, round " << round;
      const Plan plan = PlanOf(layout, spec, options);
      if (Fitting(plan, options) == 0) {
        EXPECT_FALSE(plan.reason.empty());
        break;
      }
      std::set<int> selected(plan.selections[0].units.begin(), plan.selections[0].units.end());
      ASSERT_EQ(selected.size(), plan.selections[0].units.size());
      ASSERT_TRUE(std::is_sorted(plan.selections[0].units.begin(), plan.selections[0].units.end()));
      for (const Cube& cube : layout.cubes) {  // whole or not at all, healthy ones never
        const auto in = std::count_if(cube.units.begin(), cube.units.end(),
                                      [&](int u) { return selected.count(u) > 0; });
        ASSERT_TRUE(in == 0 || in == static_cast<int64_t>(cube.units.size()));
        if (!options.full && cube.bytes >= spec.min_cube_bytes && cube.bytes <= 15 * kGb) {
          ASSERT_EQ(in, 0);
        }
        if (!options.full && cube.field_ids[1] == 9 && cube.bytes >= spec.min_cube_bytes) {
          ASSERT_EQ(in, 0);
        }
      }
      layout = Execute(layout, plan, spec, options, fmt::format("run{}-{}", round, runs));
    }
    if (!options.budgets.any()) {
      EXPECT_LE(runs, 1);
    }
    // An unbounded run afterwards takes what the budget could not, once.
    PlanOptions unbounded = Options();
    unbounded.full = options.full;
    const Plan plan = PlanOf(layout, spec, unbounded);
    layout = Execute(layout, plan, spec, unbounded, fmt::format("last{}", round));
    EXPECT_THAT(PlanOf(layout, spec, unbounded).selections, IsEmpty());
  }
}

// One run with the declared spec, but in files of another size than the one asked for now.
TEST(Planner, FullRewritesFilesOfAnotherSize) {
  const ClusteringSpec spec = SpecOf();
  Layout layout = LayoutOf({kIntKey, kIntKey});
  AddWide(&layout, 6 * kGb);
  layout = Execute(layout, PlanOf(layout, spec, Options()), spec, Options(), "r1");
  PlanOptions full = Options();
  full.full = true;
  EXPECT_TRUE(PlanOf(layout, spec, full).selections.empty());
  full.target_file_bytes = kGb / 8;
  EXPECT_EQ(PlanOf(layout, spec, full).bytes, 6 * kGb);
}

// Repeated bounded runs reach what one full sort reaches, as far as cubes above the minimum are not
// sorted again: b runs of F/b files each have b · (F/b)^(1/2) against F^(1/2).
TEST(MakePlan, BoundedRunsConverge) {
  const ClusteringSpec spec = SpecOf();
  Layout layout = LayoutOf({kIntKey, kIntKey});
  for (int i = 0; i < 128; ++i) AddWide(&layout, kGb / 2);
  const double before = PlanOf(layout, spec).depth_before;
  EXPECT_NEAR(before, 128, 1e-9);
  PlanOptions options = Options();
  options.budgets.max_bytes = 16 * kGb;
  int runs = 0;
  for (; runs < 20; ++runs) {
    const Plan plan = PlanOf(layout, spec, options);
    if (plan.selections.empty()) break;
    const Layout next = Execute(layout, plan, spec, options, fmt::format("r{}", runs));
    EXPECT_NEAR(PlanOf(next, spec).depth_before, plan.depth_after, 0.15 * plan.depth_after);
    layout = next;
  }
  EXPECT_EQ(runs, 4);
  EXPECT_LT(PlanOf(layout, spec).depth_before, 1.1 * 4 * std::sqrt(32));
  for (const Unit& unit : layout.units) EXPECT_TRUE(unit.stamp);
}

// A growing table that never reaches the minimum: each run takes the small cube and what is new,
// and nothing else.
TEST(MakePlan, TinyAppends) {
  const ClusteringSpec spec = SpecOf();
  Layout layout = LayoutOf({kIntKey, kIntKey});
  int64_t bytes = 0;
  for (int i = 0; i < 30; ++i) {
    AddWide(&layout, kGb / 10);
    layout.units.back().id = fmt::format("append{}", i);
    bytes += kGb / 10;
    Plan plan = PlanOf(layout, spec);
    EXPECT_EQ(plan.bytes, bytes);
    layout = Execute(layout, plan, spec, Options(), fmt::format("r{}", i));
    EXPECT_THAT(PlanOf(layout, spec).selections, IsEmpty());
  }
}

TEST(MakePlan, TwentyThousandUnits) {
  std::mt19937_64 rng(2);
  const ClusteringSpec spec = SpecOf();
  Layout layout = LayoutOf({kIntKey, kIntKey});
  for (int i = 0; i < 20'000; ++i) AddUnit(&layout, 100, RandomColumns(5, &rng, 100), kGb / 2);
  PlanOptions options = Options();
  options.budgets.max_bytes = 3000 * kGb;
  const Plan plan = PlanOf(layout, spec, options);
  EXPECT_EQ(plan.units_selected, 6000);
  EXPECT_LT(plan.depth_after, plan.depth_before);
}

}  // namespace
}  // namespace thalweg
