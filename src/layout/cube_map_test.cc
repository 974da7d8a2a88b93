#include "layout/cube_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "layout/test_util_internal.h"

namespace thalweg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

CubeMap::Entry CubeOf(const std::string& id, const std::string& run,
                      std::vector<std::string> units) {
  return {.cube_id = id,
          .run_id = run,
          .spec_id = "s",
          .field_ids = {3, 1},
          .snapshot_id = "77",
          .rows = 100,
          .bytes = 1000,
          .unit_ids = std::move(units)};
}

RunRecord RunOf(const std::string& id) {
  RunRecord run;
  run.run_id = id;
  run.snapshot_id = "9007199254740993";  // not a double
  run.spec_id = "s";
  run.committed_millis = 1'700'000'000'123;
  run.rows = 200;
  run.source_units = 9;
  run.source_bytes = 9'007'199'254'740'993;
  run.output_units = 3;
  run.output_bytes = 8000;
  run.depth_before = 12.5;
  run.predicted_depth = 3.25;
  run.achieved_depth = 3.125;
  run.prediction_correction = 0.75;
  run.quantiles.push_back({.field_id = 3,
                           .quantiles = {std::string("\0\x7f\xff", 3), "z"},
                           .null_share = 0.125,
                           .repeated = {{"z", 0.5}}});
  return run;
}

CubeMap Example() {
  return {.last_run_id = "r2",
          .cubes = {CubeOf("c1", "r1", {"a", "b"}), CubeOf("c2", "r2", {"c"})},
          .runs = {RunOf("r1"), RunOf("r2")}};
}

TEST(CubeMap, DocumentIsAsDescribed) {
  const Json json = CubeMapToJson(Example());
  EXPECT_EQ(json["format"], "thalweg.cube-map/1");
  EXPECT_EQ(json["last-run-id"], "r2");
  EXPECT_EQ(
      DumpJson(json["cubes"][0]),
      R"({"cube-id":"c1","run-id":"r1","spec-id":"s","field-ids":[3,1],"snapshot-id":"77","rows":100,"bytes":1000,"data-files":["a","b"]})");
  EXPECT_EQ(
      DumpJson(json["runs"][1]),
      R"({"run-id":"r2","snapshot-id":"9007199254740993","spec-id":"s","committed-ms":1700000000123,"rows":200,)"
      R"("source-units":9,"source-bytes":9007199254740993,"output-units":3,"output-bytes":8000,"depth-before":12.5,)"
      R"("predicted-depth":3.25,"achieved-depth":3.125,"prediction-correction":0.75,)"
      R"("quantiles":[{"field-id":3,"null-share":0.125,"quantiles":["007fff","7a"],"repeated":[{"value":"7a","mass":0.5}]}]})");
}

TEST(CubeMap, ReadsWhatIsWritten) {
  const std::string text = DumpJson(CubeMapToJson(Example()));
  const auto map = ParseCubeMap(text);
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(DumpJson(CubeMapToJson(*map)), text);
  EXPECT_EQ(map->cubes, Example().cubes);
  EXPECT_EQ(map->runs[0].quantiles[0].quantiles[0], std::string("\0\x7f\xff", 3));
  EXPECT_EQ(map->runs[0].source_bytes, 9'007'199'254'740'993);
  const auto empty = ParseCubeMap(DumpJson(CubeMapToJson({})));
  ASSERT_TRUE(empty.ok());
  EXPECT_THAT(empty->cubes, IsEmpty());
}

TEST(CubeMap, HostileDocumentsAreErrors) {
  const std::vector<std::pair<const char*, std::function<void(Json&)>>> changes = {
      {"is not thalweg.cube-map/1", [](Json& j) { j["format"] = "other/1"; }},
      {"\"format\" is missing", [](Json& j) { j.erase("format"); }},
      {"\"cubes\" is not an array", [](Json& j) { j["cubes"] = 5; }},
      {"\"runs\" is missing", [](Json& j) { j.erase("runs"); }},
      {"listed twice", [](Json& j) { j["cubes"][1]["cube-id"] = "c1"; }},
      {"data file a is listed twice", [](Json& j) { j["cubes"][1]["data-files"][0] = "a"; }},
      {"run r1 is listed twice", [](Json& j) { j["runs"][1]["run-id"] = "r1"; }},
      {"\"rows\" is negative", [](Json& j) { j["cubes"][0]["rows"] = -1; }},
      {"\"bytes\" is not an integer", [](Json& j) { j["cubes"][0]["bytes"] = 1e300; }},
      {"\"bytes\" is not an integer", [](Json& j) { j["cubes"][0]["bytes"] = UINT64_MAX; }},
      {"has 0 clustering columns", [](Json& j) { j["cubes"][0]["field-ids"] = Json::array(); }},
      {"has 5 clustering columns",
       [](Json& j) {
         j["cubes"][0]["field-ids"] = {1, 2, 3, 4, 5};
       }},
      {"field id", [](Json& j) { j["cubes"][0]["field-ids"][0] = int64_t{1} << 40; }},
      {"field id", [](Json& j) { j["cubes"][0]["field-ids"][0] = "x"; }},
      {"has no data files", [](Json& j) { j["cubes"][0]["data-files"] = Json::array(); }},
      {"not a string", [](Json& j) { j["cubes"][0]["data-files"][0] = 1; }},
      {"expected an object", [](Json& j) { j["cubes"][0] = "x"; }},
      {"not hexadecimal", [](Json& j) { j["runs"][0]["quantiles"][0]["quantiles"][0] = "abc"; }},
      {"not hexadecimal", [](Json& j) { j["runs"][0]["quantiles"][0]["quantiles"][0] = "zz"; }},
      {"not a string", [](Json& j) { j["runs"][0]["quantiles"][0]["quantiles"][0] = 7; }},
      {"ascending", [](Json& j) { j["runs"][0]["quantiles"][0]["quantiles"][0] = "ff"; }},
      {"more than 256",
       [](Json& j) {
         j["runs"][0]["quantiles"][0]["quantiles"] = std::vector<std::string>(257, "00");
       }},
      {"between 0 and 1",
       [](Json& j) { j["runs"][0]["quantiles"][0]["repeated"][0]["mass"] = 1.5; }},
      {"between 0 and 1", [](Json& j) { j["runs"][0]["quantiles"][0]["null-share"] = -0.5; }},
      {"repeated value", [](Json& j) { j["runs"][0]["quantiles"][0]["repeated"][0] = 3; }},
      {"not an object", [](Json& j) { j["runs"][0]["quantiles"][0] = nullptr; }},
      {"not a depth", [](Json& j) { j["runs"][0]["achieved-depth"] = -3; }},
      {"more than 4 columns", [](Json& j) { j["runs"][0]["quantiles"] = std::vector<int>(5); }},
  };
  for (const auto& [message, change] : changes) {
    Json json = CubeMapToJson(Example());
    change(json);
    const auto map = CubeMapFromJson(json);
    ASSERT_FALSE(map.ok()) << message;
    EXPECT_THAT(map.status().message(), HasSubstr(message));
    EXPECT_EQ(map.status().message().find('\n'), std::string::npos);
  }
  EXPECT_FALSE(ParseCubeMap("").ok());
  EXPECT_FALSE(ParseCubeMap("[]").ok());
  EXPECT_FALSE(ParseCubeMap(std::string(100'000, '[')).ok());
  // Every truncation of a document is an error and no crash.
  const std::string text = DumpJson(CubeMapToJson(Example()));
  for (size_t length = 0; length < text.size(); ++length) {
    EXPECT_FALSE(ParseCubeMap(std::string_view(text).substr(0, length)).ok());
  }
  // Changed bytes may give another valid document, but no crash.
  std::mt19937 rng(1);
  for (int round = 0; round < 2000; ++round) {
    std::string damaged = text;
    for (int i = 0; i < 3; ++i) damaged[rng() % damaged.size()] = static_cast<char>(rng());
    (void)ParseCubeMap(damaged).ok();
  }
}

TEST(CubeMap, DerivesTheMapAfterACommit) {
  const CubeMap parent = Example();
  RunRecord run = RunOf("r3");
  const std::vector<CubeMap::Entry> added = {CubeOf("c3", "r3", {"d"})};
  CubeMap map = DeriveCubeMap(parent, {{"a", 30, 300}, {"c", 100, 1000}}, added, run, "r3");
  ASSERT_EQ(map.cubes.size(), 2u);
  EXPECT_EQ(map.cubes[0].cube_id, "c1");
  EXPECT_THAT(map.cubes[0].unit_ids, ElementsAre("b"));
  EXPECT_EQ(map.cubes[0].rows, 70);
  EXPECT_EQ(map.cubes[0].bytes, 700);
  EXPECT_EQ(map.cubes[1], added[0]);
  ASSERT_EQ(map.runs.size(), 2u);  // r2 has no cube left
  EXPECT_EQ(map.runs[0].run_id, "r1");
  EXPECT_EQ(map.runs[1].run_id, "r3");
  EXPECT_EQ(map.last_run_id, "r3");
  const CubeMap again = DeriveCubeMap(map, {{"a", 30, 300}, {"c", 100, 1000}}, added, run, "r3");
  EXPECT_EQ(DumpJson(CubeMapToJson(again)), DumpJson(CubeMapToJson(map)));
  // Removing everything leaves an empty map that still knows its last run.
  map = DeriveCubeMap(parent, {{"a", 50, 500}, {"b", 50, 500}, {"c", 100, 1000}}, {}, std::nullopt,
                      "r4");
  EXPECT_THAT(map.cubes, IsEmpty());
  EXPECT_THAT(map.runs, IsEmpty());
  EXPECT_EQ(map.last_run_id, "r4");
}

Unit UnitOf(const std::string& id, std::optional<Stamp> stamp) {
  Unit unit;
  unit.id = id;
  unit.rows = 10;
  unit.bytes = 100;
  unit.stamp = std::move(stamp);
  return unit;
}

TEST(CubeMap, IsCompletedFromStamps) {
  const std::vector<Unit> live = {
      UnitOf("a", std::nullopt),                    // the map knows it
      UnitOf("x", Stamp{"r3", "c3", "s", {3, 1}}),  // of a run that the map does not know
      UnitOf("y", Stamp{"r3", "c3", "s", {3, 1}}),
      UnitOf("b2", Stamp{"r1", "c1", "s", {3, 1}}),   // joins a cube of the map
      UnitOf("odd", Stamp{"r9", "c1", "s", {3, 1}}),  // the same cube of another run
      UnitOf("plain", std::nullopt),
  };
  CompletedCubeMap completed = CompleteCubeMap(Example(), live);
  ASSERT_EQ(completed.map.cubes.size(), 2u);
  EXPECT_EQ(completed.map.cubes[0].cube_id, "c1");
  EXPECT_THAT(completed.map.cubes[0].unit_ids, ElementsAre("a", "b2"));
  EXPECT_EQ(completed.map.cubes[0].rows, 20);
  EXPECT_EQ(completed.map.cubes[0].bytes, 200);
  EXPECT_EQ(completed.map.cubes[1].cube_id, "c3");
  EXPECT_THAT(completed.map.cubes[1].unit_ids, ElementsAre("x", "y"));
  ASSERT_EQ(completed.map.runs.size(), 2u);
  EXPECT_EQ(completed.map.runs[1].run_id, "r3");
  EXPECT_EQ(completed.map.runs[1].rows, 20);
  EXPECT_THAT(completed.map.runs[1].quantiles, IsEmpty());
  EXPECT_EQ(completed.note, "cube map completed from the files' own metadata: 3 files of 2 cubes");

  std::vector<Unit> reversed(live.rbegin(), live.rend());
  EXPECT_EQ(DumpJson(CubeMapToJson(CompleteCubeMap(Example(), reversed).map)),
            DumpJson(CubeMapToJson(completed.map)));

  completed = CompleteCubeMap(std::nullopt, live);
  EXPECT_THAT(completed.note, HasSubstr("rebuilt"));
  EXPECT_EQ(completed.map.cubes.size(), 2u);
  EXPECT_EQ(CompleteCubeMap(Example(), {UnitOf("a", std::nullopt)}).note, "");
  EXPECT_EQ(CompleteCubeMap(std::nullopt, {}).note, "");
}

TEST(CubeMap, IsAppliedToALayout) {
  Layout layout;
  for (const char* id : {"c", "new", "b"}) layout.units.push_back(UnitOf(id, std::nullopt));
  ApplyCubeMap(Example(), &layout);
  ASSERT_EQ(layout.cubes.size(), 2u);
  EXPECT_EQ(layout.cubes[0].cube_id, "c1");
  EXPECT_THAT(layout.cubes[0].units, ElementsAre(2));
  EXPECT_EQ(layout.cubes[0].bytes, 100);  // of what is live
  EXPECT_THAT(layout.cubes[1].units, ElementsAre(0));
  EXPECT_EQ(layout.cubes[1].snapshot_id, "77");
  EXPECT_EQ(layout.units[0].stamp, (Stamp{"r2", "c2", "s", {3, 1}}));
  EXPECT_FALSE(layout.units[1].stamp);
  EXPECT_EQ(layout.runs.size(), 2u);
  layout.units.resize(1);
  ApplyCubeMap(Example(), &layout);
  ASSERT_EQ(layout.runs.size(), 1u);
  EXPECT_EQ(layout.runs[0].run_id, "r2");
}

}  // namespace
}  // namespace thalweg
