#include "layout/plan_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "layout/test_util_internal.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

ClusteringSpec Spec() {
  ClusteringSpec spec;
  spec.columns = {{"k0", 1}, {"k1", 2}};
  spec.target_cube_bytes = 10'000;
  spec.min_cube_bytes = 5'000;
  return spec;
}

/// Four units in a 2 x 2 grid (a healthy cube), one partial cube of other columns, one unclustered
/// unit over everything.
Layout Example() {
  Layout layout = LayoutOf({kIntKey, kIntKey});
  for (int cell = 0; cell < 4; ++cell) {
    AddUnit(&layout, 100,
            {IntBounds(cell % 2 * 500, cell % 2 * 500 + 499),
             IntBounds(cell / 2 * 500, cell / 2 * 500 + 499)},
            2048);
  }
  AddUnit(&layout, 100, {IntBounds(0, 999), IntBounds(0, 999, 50)}, 1024);
  AddUnit(&layout, 100, {IntBounds(0, 999), IntBounds(0, 999)}, 1024);
  layout.cubes.push_back({.cube_id = "c1",
                          .run_id = "r1",
                          .spec_id = Spec().SpecId(),
                          .field_ids = {1, 2},
                          .snapshot_id = "11",
                          .rows = 400,
                          .bytes = 8192,
                          .units = {0, 1, 2, 3}});
  layout.cubes.push_back({.cube_id = "c2",
                          .run_id = "r2",
                          .spec_id = "x",
                          .field_ids = {1, 9},
                          .snapshot_id = "12",
                          .rows = 100,
                          .bytes = 1024,
                          .units = {4}});
  layout.notes = {"a renamed column"};
  return layout;
}

TEST(StatusJson, SaysWhatTheCommandLinePromises) {
  const Layout layout = Example();
  const ClusteringSpec spec = Spec();
  const Json json = StatusJson(layout, &spec, MeasureLayout(layout));
  EXPECT_EQ(json["units"], 6);
  EXPECT_EQ(json["bytes"], 4 * 2048 + 2 * 1024);
  EXPECT_EQ(json["rows"], 600);
  ASSERT_EQ(json["keys"].size(), 2u);
  EXPECT_EQ(json["keys"][0]["name"], "k0");
  EXPECT_NEAR(json["keys"][0]["depth_mean"].get<double>(), 2 + 2,
              1e-9);  // two of the grid, and the two wide ones
  EXPECT_EQ(json["keys"][0]["depth_p95"], 4);
  EXPECT_EQ(json["keys"][0]["depth_max"], 4);
  EXPECT_NEAR(json["keys"][0]["ideal"].get<double>(), 1.1 * std::sqrt(6) + 6.0 / 1000, 1e-6);
  EXPECT_NEAR(json["keys"][0]["efficiency"].get<double>(), (1.1 * std::sqrt(6) + 6.0 / 1000) / 4,
              1e-6);
  EXPECT_NEAR(json["keys"][0]["rows_share"].get<double>(), 4.0 / 6, 1e-9);
  EXPECT_EQ(json["keys"][1]["null_units"], 1);
  EXPECT_EQ(json["keys"][1]["distribution"], "bounds");
  EXPECT_EQ(
      DumpJson(json["health"]),
      R"({"cubes":2,"unclustered_units":1,"unclustered_rows":100,"unclustered_bytes":1024,"healthy":1,"partial":1,)"
      R"("column_mismatch":0,"oversized":0,"other_spec":0,"overlapping":0})");
  EXPECT_EQ(json["notes"][0], "a renamed column");
  EXPECT_FALSE(StatusJson(layout, nullptr, MeasureLayout(layout))["health"].contains("healthy"));
}

TEST(StatusText, ShowsFilesRowsAndIdeal) {
  const Layout layout = Example();
  const ClusteringSpec spec = Spec();
  const std::string text = StatusText(layout, &spec, MeasureLayout(layout));
  EXPECT_THAT(text, HasSubstr("6 files, 10.0 KiB, 600 rows\n"));
  EXPECT_THAT(text, HasSubstr("2 cubes (1 healthy, 1 partial); 1 file unclustered (1.00 KiB)\n"));
  EXPECT_THAT(text, HasSubstr("k1: distribution from bounds"));
  EXPECT_THAT(text, HasSubstr("IS NULL opens 1 file"));
  EXPECT_THAT(text, HasSubstr("note: a renamed column\n"));
  // The rows of the table are aligned: each ends in the same column.
  std::istringstream lines(text);
  std::string line;
  size_t width = 0;
  int rows = 0;
  while (std::getline(lines, line)) {
    if (!line.starts_with("k0 ") && !line.starts_with("k1 ") && !line.starts_with("key ")) continue;
    if (width == 0) width = line.size();
    EXPECT_EQ(line.size(), width) << line;
    ++rows;
  }
  EXPECT_EQ(rows, 3);
  EXPECT_THAT(StatusText(LayoutOf({kIntKey}), nullptr, MeasureLayout(LayoutOf({kIntKey}))),
              HasSubstr("0 files"));
  EXPECT_THAT(StatusText(layout, nullptr, MeasureLayout(layout)), HasSubstr("declared: nothing\n"));
  EXPECT_THAT(StatusText(layout, nullptr, MeasureLayout(layout), /*unusable=*/true),
              HasSubstr("declared: columns that cannot be used, see the note\n"));
}

TEST(PlanJson, PlannedAndNothingToDo) {
  const Layout layout = Example();
  const ClusteringSpec spec = Spec();
  Plan plan = MakePlan(layout, spec, {}).ValueOrDie();
  Json json = PlanJson(layout, plan);
  EXPECT_EQ(json["outcome"], "planned");
  EXPECT_EQ(json["snapshot_before"], "1");
  EXPECT_EQ(json["source_units"], 2);
  EXPECT_EQ(json["source_bytes"], 2048);
  EXPECT_EQ(json["rows"], 200);
  EXPECT_EQ(json["output_units"], 1);
  EXPECT_NEAR(json["depth_before"].get<double>(), 4, 1e-9);
  EXPECT_NEAR(json["depth_after"].get<double>(), 3, 1e-9);
  EXPECT_EQ(json["selections"][0]["reason"], "1 unclustered unit, 1 partial cube");
  EXPECT_THAT(PlanText(layout, plan), HasSubstr("4.00 of 6 now, about 3.00 of 5 afterwards"));

  Layout healthy = layout;
  healthy.units.resize(4);
  healthy.cubes.resize(1);
  plan = MakePlan(healthy, spec, {}).ValueOrDie();
  json = PlanJson(healthy, plan);
  EXPECT_EQ(json["outcome"], "nothing-to-do");
  EXPECT_EQ(json["reason"], "all units are in healthy cubes");
  EXPECT_THAT(PlanText(healthy, plan),
              HasSubstr("nothing to do: all units are in healthy cubes\n"));
}

TEST(Cubes, ListsThem) {
  const Layout layout = Example();
  const ClusteringSpec spec = Spec();
  const Json json = CubesJson(layout, &spec);
  EXPECT_EQ(
      DumpJson(json["cubes"][1]),
      R"({"cube_id":"c2","run_id":"r2","files":1,"rows":100,"bytes":1024,"columns":"k0,#9","field_ids":[1,9],)"
      R"("spec_id":"x","snapshot_id":"12","health":"partial","overlapping":false,"same_spec":false})");
  EXPECT_EQ(json["cubes"][0]["health"], "healthy");
  EXPECT_EQ(json["cubes"][0]["same_spec"], true);
  EXPECT_EQ(json["unclustered_units"], 1);
  EXPECT_TRUE(CubesJson(layout, nullptr)["cubes"][0]["health"].is_null());
  const std::string text = CubesText(layout, &spec);
  EXPECT_THAT(text, HasSubstr("c1    r1   k0,k1    11        healthy      4   400  8.00 KiB\n"));
  EXPECT_THAT(text, HasSubstr("2 cubes, 1 file unclustered (1.00 KiB)\n"));
}

}  // namespace
}  // namespace thalweg
