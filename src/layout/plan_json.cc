#include "layout/plan_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "util/units.h"

namespace thalweg {
namespace {

using Row = std::vector<std::string>;

/// Columns padded to their widest cell, two spaces apart, the first `left` columns to the left and
/// the others to the right.
std::string Aligned(const std::vector<Row>& rows, size_t left) {
  std::vector<size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()), 0);
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      line += (i > 0 ? "  " : "") + (i < left ? row[i] + padding : padding + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

/// "1 file", "2 files".
std::string Count(int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", FormatCount(count), what, count == 1 ? "" : "s");
}

struct Totals {
  int64_t units = 0, rows = 0, bytes = 0;
  void Add(const Unit& unit) {
    ++units;
    rows += unit.rows;
    bytes += unit.bytes;
  }
};

Totals TableTotals(const Layout& layout) {
  Totals totals;
  for (const Unit& unit : layout.units) totals.Add(unit);
  return totals;
}

Totals UnclusteredTotals(const Layout& layout) {
  std::vector<char> in_cube(layout.units.size(), 0);
  for (const Cube& cube : layout.cubes) {
    for (int unit : cube.units) {
      if (unit >= 0 && static_cast<size_t>(unit) < in_cube.size()) in_cube[unit] = 1;
    }
  }
  Totals totals;
  for (size_t i = 0; i < layout.units.size(); ++i) {
    if (!in_cube[i]) totals.Add(layout.units[i]);
  }
  return totals;
}

/// How many cubes are in which state; `other_spec` of them are of the declared columns in another
/// order, curve, width or algorithm.
struct CubeCounts {
  int64_t healthy = 0, partial = 0, mismatch = 0, oversized = 0, stale = 0, other_spec = 0,
          overlapping = 0;
};

CubeCounts CountCubes(const Layout& layout, const ClusteringSpec& spec) {
  CubeCounts counts;
  for (const Cube& cube : layout.cubes) {
    bool other_spec = false;
    const CubeHealth health = HealthOf(layout, cube, spec, &other_spec);
    counts.healthy += health == CubeHealth::kHealthy;
    counts.partial += health == CubeHealth::kPartial;
    counts.mismatch += health == CubeHealth::kMismatch;
    counts.oversized += health == CubeHealth::kOversized;
    counts.stale += health == CubeHealth::kStale;
    counts.other_spec += other_spec;
    counts.overlapping += cube.overlapping;
  }
  return counts;
}

/// Under the policy overlap a cube that it would rewrite shows as that, whatever its size.
std::string HealthText(const Layout& layout, const Cube& cube, const ClusteringSpec& spec,
                       bool* other_spec = nullptr) {
  const CubeHealth health = HealthOf(layout, cube, spec, other_spec);
  if (spec.policy == Policy::kOverlap && cube.overlapping) return "overlapping";
  return std::string(ToString(health));
}

/// Share of the units.
double ShareOf(double files, int64_t units) {
  return units > 0 ? files / static_cast<double>(units) : 0;
}

Json BoxJson(double files, double rows_share, int64_t units) {
  return Json{{"files", files}, {"files_share", ShareOf(files, units)}, {"rows_share", rows_share}};
}

/// Steps of a histogram as blocks of eight heights, the highest one full.
std::string Blocks(const std::vector<int64_t>& steps) {
  static constexpr const char* kBlocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const int64_t most = steps.empty() ? 0 : *std::max_element(steps.begin(), steps.end());
  std::string text;
  for (int64_t step : steps) {
    text +=
        kBlocks[most > 0 ? std::llround(8.0 * static_cast<double>(step) / static_cast<double>(most))
                         : 0];
  }
  return text;
}

std::string ColumnNames(const Layout& layout, const ClusteringSpec* declared,
                        const std::vector<int32_t>& field_ids) {
  std::string names;
  for (int32_t id : field_ids) {
    std::string name = fmt::format("#{}", id);
    auto look = [&](const std::vector<ClusteringColumn>& columns) {
      for (const ClusteringColumn& column : columns) {
        if (column.field_id == id) name = column.name;
      }
    };
    look(layout.columns);
    if (declared) look(declared->columns);
    names += (names.empty() ? "" : ",") + name;
  }
  return names;
}

void AppendNotes(const std::vector<std::string>& notes, std::string* text) {
  for (const std::string& note : notes) *text += "note: " + note + "\n";
}

std::string SpecText(const ClusteringSpec& spec) {
  std::string names;
  for (const ClusteringColumn& column : spec.columns)
    names += (names.empty() ? "" : ", ") + column.name;
  return fmt::format("{} ({}, {} bits, {}, policy {})", names, ToString(spec.curve),
                     spec.bits_per_dim, ToString(spec.algorithm), ToString(spec.policy));
}

}  // namespace

Json StatusJson(const Layout& layout, const ClusteringSpec* declared, const LayoutHealth& health) {
  const Totals totals = TableTotals(layout), unclustered = UnclusteredTotals(layout);
  Json json = Json::object();
  json["snapshot"] = layout.snapshot_id;
  json["units"] = totals.units;
  json["bytes"] = totals.bytes;
  json["rows"] = totals.rows;
  json["depth"] = health.depth;
  json["ideal"] = health.ideal;
  json["efficiency"] = health.efficiency;
  json["box_1_percent"] = BoxJson(health.box1_files, health.box1_rows, totals.units);
  json["box_10_percent"] = BoxJson(health.box10_files, health.box10_rows, totals.units);
  Json& keys = json["keys"] = Json::array();
  for (const KeyHealth& key : health.keys) {
    Json one = Json::object();
    one["name"] = key.name;
    one["depth_mean"] = key.depth_mean;
    one["depth_p95"] = key.depth_p95;
    one["depth_max"] = key.depth_max;
    one["ideal"] = key.ideal;
    one["unavoidable_share"] = key.unavoidable;
    one["efficiency"] = key.efficiency;
    one["files_share"] = ShareOf(key.depth_mean, totals.units);
    one["rows_share"] = key.rows_share;
    one["box_1_percent"] = BoxJson(key.box1_files, key.box1_rows, totals.units);
    one["box_10_percent"] = BoxJson(key.box10_files, key.box10_rows, totals.units);
    one["null_share"] = key.null_share;
    one["null_units"] = key.null_units;
    one["unknown_units"] = key.unknown_units;
    one["constant_units"] = key.constant_units;
    one["distribution"] = key.distribution;
    one["depth_histogram"] = key.histogram;
    keys.push_back(std::move(one));
  }
  Json& states = json["health"] = Json::object();
  states["cubes"] = layout.cubes.size();
  states["unclustered_units"] = unclustered.units;
  states["unclustered_rows"] = unclustered.rows;
  states["unclustered_bytes"] = unclustered.bytes;
  if (declared) {
    const CubeCounts counts = CountCubes(layout, *declared);
    states["healthy"] = counts.healthy;
    states["partial"] = counts.partial;
    states["column_mismatch"] = counts.mismatch;
    states["oversized"] = counts.oversized;
    if (layout.size_rule == SizeRule::kGroups) states["stale"] = counts.stale;
    states["other_spec"] = counts.other_spec;
    states["overlapping"] = counts.overlapping;
  }
  json["notes"] = layout.notes;
  return json;
}

std::string StatusText(const Layout& layout, const ClusteringSpec* declared,
                       const LayoutHealth& health, bool unusable) {
  const Totals totals = TableTotals(layout), unclustered = UnclusteredTotals(layout);
  std::string text = fmt::format("{}, {}, {}\n", Count(totals.units, layout.unit_name),
                                 FormatBytes(totals.bytes), Count(totals.rows, "row"));
  text += fmt::format("declared: {}\n", declared   ? SpecText(*declared)
                                        : unusable ? "columns that cannot be used, see the note"
                                                   : "nothing");
  std::string cubes = Count(static_cast<int64_t>(layout.cubes.size()), layout.cube_name);
  if (declared && !layout.cubes.empty()) {
    const CubeCounts counts = CountCubes(layout, *declared);
    std::string states;
    auto add = [&](int64_t count, const char* what) {
      if (count > 0)
        states += fmt::format("{}{} {}", states.empty() ? "" : ", ", FormatCount(count), what);
    };
    add(counts.healthy, "healthy");
    add(counts.partial, "partial");
    add(counts.mismatch, "column_mismatch");
    add(counts.oversized, "oversized");
    add(counts.stale, "stale");
    add(counts.overlapping, "overlapping");
    cubes += " (" + states + ")";
    if (counts.other_spec > 0) {
      cubes += fmt::format(", {} of another column order, curve, width or algorithm",
                           FormatCount(counts.other_spec));
    }
  }
  text += fmt::format("layout: {}; {} unclustered ({})\n", cubes,
                      Count(unclustered.units, layout.unit_name), FormatBytes(unclustered.bytes));
  if (totals.units > 0 && !health.keys.empty()) {
    text += fmt::format("\nof {}, a query opens, and reads of the rows:\n",
                        Count(totals.units, layout.unit_name));
    std::vector<Row> rows = {{"key", "= v", "p95", "max", "ideal", "efficiency", "rows", "1 % box",
                              "rows", "10 % box", "rows"}};
    for (const KeyHealth& key : health.keys) {
      rows.push_back({key.name, FormatNumber(key.depth_mean), FormatNumber(key.depth_p95),
                      FormatNumber(key.depth_max), FormatNumber(key.ideal),
                      FormatPercent(key.efficiency), FormatPercent(key.rows_share),
                      FormatNumber(key.box1_files), FormatPercent(key.box1_rows),
                      FormatNumber(key.box10_files), FormatPercent(key.box10_rows)});
    }
    rows.push_back({"mean", FormatNumber(health.depth), "", "", FormatNumber(health.ideal),
                    FormatPercent(health.efficiency), "", "", "", "", ""});
    rows.push_back({"all keys", "", "", "", "", "", "", FormatNumber(health.box1_files),
                    FormatPercent(health.box1_rows), FormatNumber(health.box10_files),
                    FormatPercent(health.box10_rows)});
    text += Aligned(rows, 1);
    text += "\n";
    for (const KeyHealth& key : health.keys) {
      if (key.depth_max > 0) {
        text += fmt::format("{}: {}s opened over its ranks |{}|\n", key.name, layout.unit_name,
                            Blocks(key.histogram));
      }
      text += fmt::format("{}: distribution from {}", key.name, key.distribution);
      if (key.unavoidable >= 0.005) {
        text += fmt::format("; {} of the ideal is due to repeated values, whatever the layout",
                            FormatPercent(key.unavoidable));
      }
      if (key.null_share > 0) {
        text += fmt::format("; {} null, IS NULL opens {}", FormatPercent(key.null_share),
                            Count(std::llround(key.null_units), layout.unit_name));
      }
      if (key.constant_units > 0)
        text += fmt::format("; {} of one value", Count(key.constant_units, layout.unit_name));
      if (key.unknown_units > 0) {
        text += fmt::format("; {} without usable statistics, counted as opened by every query",
                            Count(key.unknown_units, layout.unit_name));
      }
      text += "\n";
    }
  }
  AppendNotes(layout.notes, &text);
  return text;
}

Json PlanJson(const Layout& layout, const Plan& plan) {
  Json json = Json::object();
  const bool planned = !plan.selections.empty();
  int64_t outputs = 0;
  for (const Selection& selection : plan.selections) outputs += selection.predicted_units;
  json["outcome"] = planned ? "planned" : "nothing-to-do";
  json["reason"] = plan.reason;
  json["snapshot_before"] = layout.snapshot_id;
  json["rows"] = plan.rows;
  json["source_units"] = plan.units_selected;
  json["source_bytes"] = plan.bytes;
  json["output_units"] = outputs;
  json["output_bytes"] = plan.bytes;  // predicted: what is read is written
  json["write_amplification"] =
      plan.new_bytes > 0
          ? Json(static_cast<double>(plan.bytes) / static_cast<double>(plan.new_bytes))
          : Json();
  json["depth_before"] = plan.depth_before;
  json["depth_after"] = plan.depth_after;
  json["prediction_correction"] = plan.correction;
  Json& keys = json["keys"] = Json::array();
  for (size_t k = 0; k < plan.keys.size() && k < layout.columns.size(); ++k) {
    keys.push_back({{"name", layout.columns[k].name},
                    {"depth_before", plan.keys[k].before},
                    {"depth_after", plan.keys[k].after}});
  }
  Json& selections = json["selections"] = Json::array();
  for (const Selection& selection : plan.selections) {
    Json one = Json::object();
    one["reason"] = selection.reason;
    one["units"] = selection.units.size();
    one["rows"] = selection.rows;
    one["bytes"] = selection.bytes;
    one["tasks"] = selection.tasks;
    one["predicted_units"] = selection.predicted_units;
    selections.push_back(std::move(one));
  }
  std::vector<std::string> notes = layout.notes;
  notes.insert(notes.end(), plan.notes.begin(), plan.notes.end());
  json["notes"] = notes;
  return json;
}

std::string PlanText(const Layout& layout, const Plan& plan) {
  std::string text;
  if (plan.selections.empty()) {
    text = "nothing to do: " + plan.reason + "\n";
  } else {
    int64_t tasks = 0, outputs = 0;
    for (const Selection& selection : plan.selections) {
      text += fmt::format("rewrite {}: {}, {}, {}\n", selection.reason,
                          Count(static_cast<int64_t>(selection.units.size()), layout.unit_name),
                          FormatBytes(selection.bytes), Count(selection.rows, "row"));
      tasks += selection.tasks;
      outputs += selection.predicted_units;
    }
    text += fmt::format("in {}, into about {}\n", Count(tasks, "task"),
                        Count(outputs, layout.unit_name));
    if (plan.new_bytes > 0) {
      text += fmt::format(
          "writes {}: {} bytes for each byte that no run has sorted before\n",
          FormatBytes(plan.bytes),
          FormatNumber(static_cast<double>(plan.bytes) / static_cast<double>(plan.new_bytes)));
    }
    text += fmt::format(
        "{}s opened by an equality, mean over the keys: {} of {} now, about {} of {} afterwards\n",
        layout.unit_name, FormatNumber(plan.depth_before),
        FormatCount(static_cast<int64_t>(layout.units.size())), FormatNumber(plan.depth_after),
        FormatCount(plan.units_after));
    for (size_t k = 0; k < plan.keys.size() && k < layout.columns.size(); ++k) {
      text += fmt::format("  {}: {} now, about {} afterwards\n", layout.columns[k].name,
                          FormatNumber(plan.keys[k].before), FormatNumber(plan.keys[k].after));
    }
  }
  AppendNotes(layout.notes, &text);
  AppendNotes(plan.notes, &text);
  return text;
}

Json CubesJson(const Layout& layout, const ClusteringSpec* declared) {
  Json json = Json::object();
  Json& cubes = json["cubes"] = Json::array();
  for (const Cube& cube : layout.cubes) {
    Json one = Json::object();
    one["cube_id"] = cube.cube_id;
    one["run_id"] = cube.run_id;
    one["files"] = cube.units.size();
    one["rows"] = cube.rows;
    one["bytes"] = cube.bytes;
    one["columns"] = ColumnNames(layout, declared, cube.field_ids);
    one["field_ids"] = cube.field_ids;
    one["spec_id"] = cube.spec_id;
    one["snapshot_id"] = cube.snapshot_id;
    if (declared) {
      one["health"] = HealthText(layout, cube, *declared);
      one["overlapping"] = cube.overlapping;
      one["same_spec"] = cube.spec_id == declared->SpecId();
    } else {
      one["health"] = nullptr;
      one["same_spec"] = nullptr;
    }
    cubes.push_back(std::move(one));
  }
  const Totals unclustered = UnclusteredTotals(layout);
  json["unclustered_units"] = unclustered.units;
  json["unclustered_bytes"] = unclustered.bytes;
  json["notes"] = layout.notes;
  return json;
}

std::string CubesText(const Layout& layout, const ClusteringSpec* declared) {
  std::string text;
  if (!layout.cubes.empty()) {
    std::vector<Row> rows = {{layout.cube_name, "run", "columns", "snapshot", "health",
                              layout.unit_name + "s", "rows", "size"}};
    for (const Cube& cube : layout.cubes) {
      std::string health = "-";
      if (declared) {
        bool other_spec = false;
        health = HealthText(layout, cube, *declared, &other_spec);
        if (other_spec) health += " (other spec)";
      }
      rows.push_back({cube.cube_id, cube.run_id, ColumnNames(layout, declared, cube.field_ids),
                      cube.snapshot_id.empty() ? "-" : cube.snapshot_id, health,
                      FormatCount(static_cast<int64_t>(cube.units.size())), FormatCount(cube.rows),
                      FormatBytes(cube.bytes)});
    }
    text += Aligned(rows, 5);
  }
  const Totals unclustered = UnclusteredTotals(layout);
  text += fmt::format("{}, {} unclustered ({})\n",
                      Count(static_cast<int64_t>(layout.cubes.size()), layout.cube_name),
                      Count(unclustered.units, layout.unit_name), FormatBytes(unclustered.bytes));
  AppendNotes(layout.notes, &text);
  return text;
}

}  // namespace thalweg
