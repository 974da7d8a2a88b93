#include "layout/cube_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "util/status.h"
#include "util/units.h"

namespace thalweg {
namespace {

constexpr char kWhat[] = "cube map";
constexpr size_t kMostColumns = 4;
constexpr size_t kMostQuantiles = 256;

std::string ToHex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(bytes.size() * 2);
  for (const char c : bytes) {
    hex += kDigits[static_cast<uint8_t>(c) >> 4];
    hex += kDigits[static_cast<uint8_t>(c) & 15];
  }
  return hex;
}

arrow::Result<std::string> FromHex(const Json& json) {
  if (!json.is_string()) return Invalid("{}: an encoded value is not a string", kWhat);
  const auto& hex = json.get_ref<const std::string&>();
  auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return -1;
  };
  if (hex.size() % 2 != 0) return Invalid("{}: an encoded value is not hexadecimal", kWhat);
  std::string bytes;
  bytes.reserve(hex.size() / 2);
  for (size_t i = 0; i < hex.size(); i += 2) {
    const int high = digit(hex[i]), low = digit(hex[i + 1]);
    if (high < 0 || low < 0) return Invalid("{}: an encoded value is not hexadecimal", kWhat);
    bytes += static_cast<char>(high << 4 | low);
  }
  return bytes;
}

arrow::Result<double> GetShare(const Json& object, const char* key) {
  ARROW_ASSIGN_OR_RAISE(double share, GetDouble(object, key, kWhat));
  if (!(share >= 0 && share <= 1)) return Invalid("{}: \"{}\" is not between 0 and 1", kWhat, key);
  return share;
}

arrow::Result<int32_t> ToFieldId(const Json& json) {
  if (!json.is_number_integer() || json.get<double>() < 0 || json.get<double>() > INT32_MAX) {
    return Invalid("{}: a field id is not a number from 0 to {}", kWhat, INT32_MAX);
  }
  return static_cast<int32_t>(json.get<int64_t>());
}

/// An optional depth; absent is -1.
arrow::Result<double> FindDepth(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return -1;
  ARROW_ASSIGN_OR_RAISE(double depth, GetDouble(object, key, kWhat));
  if (!std::isfinite(depth) || depth < 0) return Invalid("{}: \"{}\" is not a depth", kWhat, key);
  return depth;
}

Json QuantilesToJson(const ColumnQuantiles& column) {
  Json json = Json::object();
  json["field-id"] = column.field_id;
  json["null-share"] = column.null_share;
  Json& quantiles = json["quantiles"] = Json::array();
  for (const std::string& value : column.quantiles) quantiles.push_back(ToHex(value));
  Json& repeated = json["repeated"] = Json::array();
  for (const auto& one : column.repeated) {
    repeated.push_back(Json{{"value", ToHex(one.value)}, {"mass", one.mass}});
  }
  return json;
}

arrow::Result<ColumnQuantiles> QuantilesFromJson(const Json& json) {
  if (!json.is_object()) return Invalid("{}: quantiles are not an object", kWhat);
  ColumnQuantiles column;
  const auto field = json.find("field-id");
  if (field == json.end()) return Invalid("{}: \"field-id\" is missing", kWhat);
  ARROW_ASSIGN_OR_RAISE(column.field_id, ToFieldId(*field));
  ARROW_ASSIGN_OR_RAISE(column.null_share, GetShare(json, "null-share"));
  ARROW_ASSIGN_OR_RAISE(const Json* quantiles, GetArray(json, "quantiles", kWhat));
  ARROW_ASSIGN_OR_RAISE(const Json* repeated, GetArray(json, "repeated", kWhat));
  if (quantiles->size() > kMostQuantiles || repeated->size() > kMostQuantiles) {
    return Invalid("{}: more than {} quantiles or repeated values of one column", kWhat,
                   kMostQuantiles);
  }
  for (const Json& value : *quantiles) {
    ARROW_ASSIGN_OR_RAISE(std::string bytes, FromHex(value));
    if (!column.quantiles.empty() && bytes < column.quantiles.back()) {
      return Invalid("{}: quantiles are not in ascending order", kWhat);
    }
    column.quantiles.push_back(std::move(bytes));
  }
  for (const Json& one : *repeated) {
    if (!one.is_object() || !one.contains("value")) {
      return Invalid("{}: a repeated value is not an object with a value", kWhat);
    }
    ColumnQuantiles::Repeated entry;
    ARROW_ASSIGN_OR_RAISE(entry.value, FromHex(one["value"]));
    ARROW_ASSIGN_OR_RAISE(entry.mass, GetShare(one, "mass"));
    column.repeated.push_back(std::move(entry));
  }
  return column;
}

Json RunToJson(const RunRecord& run) {
  Json json = Json::object();
  json["run-id"] = run.run_id;
  json["snapshot-id"] = run.snapshot_id;
  json["spec-id"] = run.spec_id;
  json["committed-ms"] = run.committed_millis;
  json["rows"] = run.rows;
  json["source-units"] = run.source_units;
  json["source-bytes"] = run.source_bytes;
  json["output-units"] = run.output_units;
  json["output-bytes"] = run.output_bytes;
  if (run.depth_before >= 0) json["depth-before"] = run.depth_before;
  if (run.predicted_depth >= 0) json["predicted-depth"] = run.predicted_depth;
  if (run.achieved_depth >= 0) json["achieved-depth"] = run.achieved_depth;
  if (run.prediction_correction != 1) json["prediction-correction"] = run.prediction_correction;
  if (run.theta > 0) {
    json["theta"] = run.theta;
    json["settled"] = run.settled;
  }
  Json& quantiles = json["quantiles"] = Json::array();
  for (const ColumnQuantiles& column : run.quantiles) quantiles.push_back(QuantilesToJson(column));
  return json;
}

arrow::Result<RunRecord> RunFromJson(const Json& json) {
  RunRecord run;
  ARROW_ASSIGN_OR_RAISE(run.run_id, GetString(json, "run-id", kWhat));
  ARROW_ASSIGN_OR_RAISE(run.snapshot_id, GetString(json, "snapshot-id", kWhat));
  ARROW_ASSIGN_OR_RAISE(run.spec_id, GetString(json, "spec-id", kWhat));
  ARROW_ASSIGN_OR_RAISE(run.committed_millis, GetCount(json, "committed-ms", kWhat));
  ARROW_ASSIGN_OR_RAISE(run.rows, GetCount(json, "rows", kWhat));
  ARROW_ASSIGN_OR_RAISE(run.source_units, GetCount(json, "source-units", kWhat));
  ARROW_ASSIGN_OR_RAISE(run.source_bytes, GetCount(json, "source-bytes", kWhat));
  ARROW_ASSIGN_OR_RAISE(run.output_units, GetCount(json, "output-units", kWhat));
  ARROW_ASSIGN_OR_RAISE(run.output_bytes, GetCount(json, "output-bytes", kWhat));
  ARROW_ASSIGN_OR_RAISE(run.depth_before, FindDepth(json, "depth-before"));
  ARROW_ASSIGN_OR_RAISE(run.predicted_depth, FindDepth(json, "predicted-depth"));
  ARROW_ASSIGN_OR_RAISE(run.achieved_depth, FindDepth(json, "achieved-depth"));
  ARROW_ASSIGN_OR_RAISE(const double correction, FindDepth(json, "prediction-correction"));
  if (correction > 0) run.prediction_correction = correction;
  ARROW_ASSIGN_OR_RAISE(const double theta, FindDepth(json, "theta"));
  if (theta > 0 && theta < 1) {
    run.theta = theta;
    const auto settled = json.find("settled");
    run.settled = settled != json.end() && settled->is_boolean() && settled->get<bool>();
  }
  ARROW_ASSIGN_OR_RAISE(const Json* quantiles, GetArray(json, "quantiles", kWhat));
  if (quantiles->size() > kMostColumns)
    return Invalid("{}: a run with more than {} columns", kWhat, kMostColumns);
  for (const Json& column : *quantiles) {
    ARROW_ASSIGN_OR_RAISE(ColumnQuantiles one, QuantilesFromJson(column));
    run.quantiles.push_back(std::move(one));
  }
  return run;
}

Json CubeToJson(const CubeMap::Entry& cube) {
  Json json = Json::object();
  json["cube-id"] = cube.cube_id;
  json["run-id"] = cube.run_id;
  json["spec-id"] = cube.spec_id;
  json["field-ids"] = cube.field_ids;
  json["snapshot-id"] = cube.snapshot_id;
  json["rows"] = cube.rows;
  json["bytes"] = cube.bytes;
  json["data-files"] = cube.unit_ids;
  return json;
}

arrow::Result<CubeMap::Entry> CubeFromJson(const Json& json) {
  CubeMap::Entry cube;
  ARROW_ASSIGN_OR_RAISE(cube.cube_id, GetString(json, "cube-id", kWhat));
  ARROW_ASSIGN_OR_RAISE(cube.run_id, GetString(json, "run-id", kWhat));
  ARROW_ASSIGN_OR_RAISE(cube.spec_id, GetString(json, "spec-id", kWhat));
  ARROW_ASSIGN_OR_RAISE(cube.snapshot_id, GetString(json, "snapshot-id", kWhat));
  ARROW_ASSIGN_OR_RAISE(cube.rows, GetCount(json, "rows", kWhat));
  ARROW_ASSIGN_OR_RAISE(cube.bytes, GetCount(json, "bytes", kWhat));
  ARROW_ASSIGN_OR_RAISE(const Json* field_ids, GetArray(json, "field-ids", kWhat));
  if (field_ids->empty() || field_ids->size() > kMostColumns) {
    return Invalid("{}: cube {} has {} clustering columns", kWhat, cube.cube_id, field_ids->size());
  }
  for (const Json& id : *field_ids) {
    ARROW_ASSIGN_OR_RAISE(int32_t field_id, ToFieldId(id));
    cube.field_ids.push_back(field_id);
  }
  ARROW_ASSIGN_OR_RAISE(const Json* units, GetArray(json, "data-files", kWhat));
  if (units->empty()) return Invalid("{}: cube {} has no data files", kWhat, cube.cube_id);
  for (const Json& unit : *units) {
    if (!unit.is_string())
      return Invalid("{}: cube {}: a data file is not a string", kWhat, cube.cube_id);
    cube.unit_ids.push_back(unit.get<std::string>());
  }
  return cube;
}

/// Drops cubes without units and runs without cubes.
void DropEmpty(CubeMap* map) {
  std::erase_if(map->cubes, [](const CubeMap::Entry& cube) { return cube.unit_ids.empty(); });
  std::unordered_set<std::string_view> live;
  for (const CubeMap::Entry& cube : map->cubes) live.insert(cube.run_id);
  std::erase_if(map->runs, [&](const RunRecord& run) { return live.count(run.run_id) == 0; });
}

}  // namespace

Json CubeMapToJson(const CubeMap& map) {
  Json json = Json::object();
  json["format"] = kCubeMapFormat;
  json["last-run-id"] = map.last_run_id;
  Json& cubes = json["cubes"] = Json::array();
  for (const CubeMap::Entry& cube : map.cubes) cubes.push_back(CubeToJson(cube));
  Json& runs = json["runs"] = Json::array();
  for (const RunRecord& run : map.runs) runs.push_back(RunToJson(run));
  return json;
}

arrow::Result<CubeMap> CubeMapFromJson(const Json& json) {
  ARROW_ASSIGN_OR_RAISE(std::string format, GetString(json, "format", kWhat));
  if (format != kCubeMapFormat) {
    return Invalid("{}: format \"{}\" is not {}", kWhat, format.substr(0, 60), kCubeMapFormat);
  }
  CubeMap map;
  ARROW_ASSIGN_OR_RAISE(map.last_run_id, GetString(json, "last-run-id", kWhat));
  ARROW_ASSIGN_OR_RAISE(const Json* cubes, GetArray(json, "cubes", kWhat));
  ARROW_ASSIGN_OR_RAISE(const Json* runs, GetArray(json, "runs", kWhat));
  std::unordered_set<std::string> cube_ids, unit_ids, run_ids;
  for (const Json& one : *cubes) {
    ARROW_ASSIGN_OR_RAISE(CubeMap::Entry cube, CubeFromJson(one));
    if (!cube_ids.insert(cube.cube_id).second) {
      return Invalid("{}: cube {} is listed twice", kWhat, cube.cube_id);
    }
    for (const std::string& id : cube.unit_ids) {
      if (!unit_ids.insert(id).second)
        return Invalid("{}: data file {} is listed twice", kWhat, id);
    }
    map.cubes.push_back(std::move(cube));
  }
  for (const Json& one : *runs) {
    ARROW_ASSIGN_OR_RAISE(RunRecord run, RunFromJson(one));
    if (!run_ids.insert(run.run_id).second)
      return Invalid("{}: run {} is listed twice", kWhat, run.run_id);
    map.runs.push_back(std::move(run));
  }
  return map;
}

arrow::Result<CubeMap> ParseCubeMap(std::string_view text) {
  ARROW_ASSIGN_OR_RAISE(Json json, ParseJson(text, kWhat));
  return CubeMapFromJson(json);
}

CubeMap DeriveCubeMap(const CubeMap& parent, const std::vector<RemovedUnit>& removed,
                      const std::vector<CubeMap::Entry>& new_cubes,
                      const std::optional<RunRecord>& run, const std::string& run_id) {
  CubeMap map = parent;
  std::unordered_map<std::string_view, const RemovedUnit*> gone;
  for (const RemovedUnit& unit : removed) gone.emplace(unit.id, &unit);
  for (CubeMap::Entry& cube : map.cubes) {
    std::erase_if(cube.unit_ids, [&](const std::string& id) {
      const auto found = gone.find(id);
      if (found == gone.end()) return false;
      cube.rows = std::max<int64_t>(0, cube.rows - found->second->rows);
      cube.bytes = std::max<int64_t>(0, cube.bytes - found->second->bytes);
      return true;
    });
  }
  std::unordered_set<std::string_view> new_ids;
  for (const CubeMap::Entry& cube : new_cubes) new_ids.insert(cube.cube_id);
  std::erase_if(map.cubes,
                [&](const CubeMap::Entry& cube) { return new_ids.count(cube.cube_id) > 0; });
  map.cubes.insert(map.cubes.end(), new_cubes.begin(), new_cubes.end());
  if (run) {
    std::erase_if(map.runs, [&](const RunRecord& known) { return known.run_id == run->run_id; });
    map.runs.push_back(*run);
  }
  map.last_run_id = run_id;
  DropEmpty(&map);
  return map;
}

CompletedCubeMap CompleteCubeMap(const std::optional<CubeMap>& map, const std::vector<Unit>& live) {
  CompletedCubeMap completed;
  if (map) completed.map = *map;
  std::vector<CubeMap::Entry>& cubes = completed.map.cubes;
  std::unordered_map<std::string, size_t> cube_of, cube_at;
  for (size_t i = 0; i < cubes.size(); ++i) {
    for (const std::string& id : cubes[i].unit_ids) cube_of.emplace(id, i);
    cube_at.emplace(cubes[i].cube_id, i);
    cubes[i].unit_ids.clear();
    cubes[i].rows = cubes[i].bytes = 0;
  }
  std::set<std::string> runs_added;
  std::unordered_set<std::string> runs_known;
  for (const RunRecord& run : completed.map.runs) runs_known.insert(run.run_id);
  std::unordered_map<std::string, RunRecord> rebuilt;
  int64_t units_added = 0;
  std::set<std::string> cubes_touched;
  // By id: the result does not depend on the order of the listing.
  std::vector<const Unit*> units;
  units.reserve(live.size());
  for (const Unit& unit : live) units.push_back(&unit);
  std::sort(units.begin(), units.end(), [](const Unit* a, const Unit* b) { return a->id < b->id; });
  for (const Unit* unit : units) {
    size_t at;
    if (const auto known = cube_of.find(unit->id); known != cube_of.end()) {
      at = known->second;
    } else {
      if (!unit->stamp || unit->stamp->field_ids.empty()) continue;
      const Stamp& stamp = *unit->stamp;
      const auto [found, added] = cube_at.emplace(stamp.cube_id, cubes.size());
      at = found->second;
      if (added) {
        cubes.push_back({.cube_id = stamp.cube_id,
                         .run_id = stamp.run_id,
                         .spec_id = stamp.spec_id,
                         .field_ids = stamp.field_ids,
                         .snapshot_id = "",
                         .unit_ids = {}});
      } else if (cubes[at].run_id != stamp.run_id || cubes[at].spec_id != stamp.spec_id ||
                 cubes[at].field_ids != stamp.field_ids) {
        continue;
      }
      ++units_added;
      cubes_touched.insert(stamp.cube_id);
      if (runs_known.count(stamp.run_id) == 0) {
        RunRecord& run = rebuilt[stamp.run_id];
        run.run_id = stamp.run_id;
        run.spec_id = stamp.spec_id;
        run.rows += unit->rows;
        run.output_units += 1;
        run.output_bytes += unit->bytes;
        runs_added.insert(stamp.run_id);
      }
    }
    cubes[at].unit_ids.push_back(unit->id);
    cubes[at].rows += unit->rows;
    cubes[at].bytes += unit->bytes;
  }
  for (const std::string& id : runs_added) completed.map.runs.push_back(rebuilt[id]);
  DropEmpty(&completed.map);
  if (units_added > 0) {
    auto counted = [](size_t count, const char* one, const char* many) {
      return fmt::format("{} {}", FormatCount(static_cast<int64_t>(count)),
                         count == 1 ? one : many);
    };
    completed.note = fmt::format("cube map {} from the files' own metadata: {} of {}",
                                 map ? "completed" : "rebuilt",
                                 counted(static_cast<size_t>(units_added), "file", "files"),
                                 counted(cubes_touched.size(), "cube", "cubes"));
  }
  return completed;
}

void ApplyCubeMap(const CubeMap& map, Layout* layout) {
  std::unordered_map<std::string_view, size_t> cube_of;
  for (size_t i = 0; i < map.cubes.size(); ++i) {
    for (const std::string& id : map.cubes[i].unit_ids) cube_of.emplace(id, i);
  }
  std::vector<Cube> cubes(map.cubes.size());
  for (size_t i = 0; i < layout->units.size(); ++i) {
    Unit& unit = layout->units[i];
    unit.stamp.reset();
    const auto found = cube_of.find(unit.id);
    if (found == cube_of.end()) continue;
    const CubeMap::Entry& entry = map.cubes[found->second];
    unit.stamp = Stamp{entry.run_id, entry.cube_id, entry.spec_id, entry.field_ids};
    Cube& cube = cubes[found->second];
    cube.rows += unit.rows;
    cube.bytes += unit.bytes;
    cube.units.push_back(static_cast<int>(i));
  }
  layout->cubes.clear();
  layout->runs.clear();
  std::unordered_set<std::string_view> live;
  for (size_t i = 0; i < cubes.size(); ++i) {
    if (cubes[i].units.empty()) continue;
    const CubeMap::Entry& entry = map.cubes[i];
    cubes[i].cube_id = entry.cube_id;
    cubes[i].run_id = entry.run_id;
    cubes[i].spec_id = entry.spec_id;
    cubes[i].field_ids = entry.field_ids;
    cubes[i].snapshot_id = entry.snapshot_id;
    live.insert(entry.run_id);
    layout->cubes.push_back(std::move(cubes[i]));
  }
  for (const RunRecord& run : map.runs) {
    if (live.count(run.run_id) > 0) layout->runs.push_back(run);
  }
}

}  // namespace thalweg
