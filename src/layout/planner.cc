#include "layout/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "layout/plan_items_internal.h"
#include "layout/planner_internal.h"
#include "layout/sort_model.h"
#include "util/status.h"
#include "util/units.h"

namespace thalweg {
std::string_view ToString(CubeHealth health) {
  switch (health) {
    case CubeHealth::kHealthy:
      return "healthy";
    case CubeHealth::kPartial:
      return "partial";
    case CubeHealth::kMismatch:
      return "column_mismatch";
    case CubeHealth::kOversized:
      return "oversized";
    case CubeHealth::kStale:
      return "stale";
  }
  return "";
}

bool OfDeclaredColumns(const std::vector<int32_t>& field_ids, const ClusteringSpec& spec) {
  auto declared = [&](int32_t id) {
    return std::any_of(spec.columns.begin(), spec.columns.end(),
                       [id](const ClusteringColumn& column) { return column.field_id == id; });
  };
  auto there = [&](const ClusteringColumn& column) {
    return std::find(field_ids.begin(), field_ids.end(), column.field_id) != field_ids.end();
  };
  return std::all_of(field_ids.begin(), field_ids.end(), declared) &&
         std::all_of(spec.columns.begin(), spec.columns.end(), there);
}

CubeHealth HealthOf(int64_t bytes, const std::vector<int32_t>& field_ids,
                    const std::string& spec_id, const ClusteringSpec& spec, bool* other_spec) {
  const bool same_set = OfDeclaredColumns(field_ids, spec);
  if (other_spec) *other_spec = same_set && spec_id != spec.SpecId();
  if (bytes < spec.min_cube_bytes) return CubeHealth::kPartial;
  if (!same_set) return CubeHealth::kMismatch;
  const double limit = 1.5 * static_cast<double>(spec.target_cube_bytes);
  return static_cast<double>(bytes) > limit ? CubeHealth::kOversized : CubeHealth::kHealthy;
}

CubeHealth HealthOf(const Cube& cube, const ClusteringSpec& spec, bool* other_spec) {
  return HealthOf(cube.bytes, cube.field_ids, cube.spec_id, spec, other_spec);
}

CubeHealth HealthOf(const Layout& layout, const Cube& cube, const ClusteringSpec& spec,
                    bool* other_spec) {
  if (layout.size_rule == SizeRule::kCubes) return HealthOf(cube, spec, other_spec);
  if (other_spec) *other_spec = false;
  if (cube.spec_id != spec.SpecId()) return CubeHealth::kStale;
  return cube.rows < layout.group_rows ? CubeHealth::kPartial : CubeHealth::kHealthy;
}

int64_t FileRows(int64_t rows, int64_t bytes, int64_t target_file_rows, int64_t target_file_bytes) {
  if (target_file_rows <= 0 || rows <= 0 || bytes <= 0) return target_file_rows;
  const double by_bytes = static_cast<double>(target_file_bytes) * static_cast<double>(rows) /
                          static_cast<double>(bytes);
  return std::max<int64_t>(
      1, static_cast<int64_t>(std::min(static_cast<double>(target_file_rows), by_bytes)));
}

int64_t CubesOf(int64_t bytes, int64_t target_cube_bytes) {
  const double cubes =
      static_cast<double>(bytes) / static_cast<double>(std::max<int64_t>(1, target_cube_bytes));
  return std::max<int64_t>(1, std::llround(cubes));
}

PlannedRun RecordOf(const Plan& plan) {
  return {plan.depth_before, plan.depth_after, plan.correction, plan.theta, plan.settled};
}

void MarkOverlapping(const Plan& plan, Layout* layout) {
  const std::vector<char> selected = SelectedMask(*layout, plan);
  for (Cube& cube : layout->cubes) {
    cube.overlapping = std::any_of(cube.units.begin(), cube.units.end(),
                                   [&](int unit) { return selected[unit] != 0; });
  }
}

arrow::Result<std::string> OverlapHint(const Layout& layout, const ClusteringSpec& spec,
                                       const PlanOptions& options, const Plan& plan) {
  if (plan.theta > 0) return std::string();
  PlanOptions other = options;
  other.policy = Policy::kOverlap;
  other.full = false;
  ARROW_ASSIGN_OR_RAISE(const Plan overlap, MakePlan(layout, spec, other));
  if (SelectedUnits(layout, overlap) == SelectedUnits(layout, plan)) return std::string();
  if (overlap.selections.empty()) {
    return std::string("the policy overlap would have rewritten nothing instead");
  }
  return fmt::format(
      "the policy overlap would have rewritten {} of {} instead, for a depth of {:.2f} rather than "
      "{:.2f} (predicted): --policy overlap",
      Plural(overlap.units_selected, layout.unit_name, layout.unit_name + "s"),
      FormatBytes(overlap.bytes), overlap.depth_after, plan.depth_after);
}

std::vector<char> SelectedMask(const Layout& layout, const Plan& plan) {
  std::vector<char> selected(layout.units.size(), 0);
  for (const Selection& selection : plan.selections) {
    for (int unit : selection.units) selected[static_cast<size_t>(unit)] = 1;
  }
  return selected;
}

std::vector<std::string> SelectedUnits(const Layout& layout, const Plan& plan) {
  std::vector<std::string> ids;
  for (const Selection& selection : plan.selections) {
    for (int unit : selection.units) ids.push_back(layout.units[unit].id);
  }
  return ids;
}

double OutputUnits(int64_t rows, int64_t bytes, const PlanOptions& options) {
  const auto most = static_cast<double>(rows);  // a unit holds a row at least
  if (options.target_file_rows <= 0) {
    return std::min(most,
                    static_cast<double>(bytes) / static_cast<double>(options.target_file_bytes));
  }
  // Files end within 0.67 and 1.0 of the cap.
  const auto cap = static_cast<double>(
      FileRows(rows, bytes, options.target_file_rows, options.target_file_bytes));
  return std::min(most, most / (0.85 * cap));
}

int PredictUnits(int64_t rows, int64_t bytes, const ClusteringSpec& spec,
                 const PlanOptions& options) {
  double units;
  if (options.target_file_rows > 0) {
    // Files end within 0.67 and 1.0 of the cap.
    const auto cap = static_cast<double>(
        FileRows(rows, bytes, options.target_file_rows, options.target_file_bytes));
    units = std::max(std::ceil(static_cast<double>(rows) / cap),
                     std::round(static_cast<double>(rows) / (0.85 * cap)));
  } else {
    const int64_t cubes = CubesOf(bytes, spec.target_cube_bytes);
    const double per_cube = static_cast<double>(bytes) / static_cast<double>(cubes);
    units = static_cast<double>(cubes) *
            std::max(1.0, std::round(per_cube / static_cast<double>(options.target_file_bytes)));
  }
  return static_cast<int>(std::clamp(std::min(units, static_cast<double>(rows)), 1.0, 1e9));
}

Selection MakeSelection(const Layout& layout, std::vector<int> units, const ClusteringSpec& spec,
                        const PlanOptions& options) {
  Selection selection;
  selection.units = std::move(units);
  std::sort(selection.units.begin(), selection.units.end());
  for (int unit : selection.units) {
    selection.rows += layout.units[unit].rows;
    selection.bytes += layout.units[unit].bytes;
  }
  selection.predicted_units = PredictUnits(selection.rows, selection.bytes, spec, options);
  if (options.max_task_bytes > 0) {
    const int64_t tasks = (selection.bytes + options.max_task_bytes - 1) / options.max_task_bytes;
    selection.tasks = static_cast<int>(std::clamp<int64_t>(
        tasks, 1, std::max<int64_t>(1, std::min<int64_t>(selection.rows, 1'000'000))));
  }
  return selection;
}

void PredictBoxes(const Layout& layout, const Ranks& ranks, const ClusteringSpec& spec,
                  const PlanOptions& options, Selection* selection, Plan* plan) {
  const auto so_far = static_cast<int64_t>(plan->predicted_boxes.size());
  const bool by_rows = options.target_file_rows > 0;
  // One key needs no curve, and few values are better cut at their borders than at drawn points.
  const bool modelled =
      ranks.key_count() > 1 && so_far + selection->predicted_units <= kMostModelled;
  std::vector<DrawnRows> drawn;
  std::vector<BoxMass> boxes;
  for (int at : selection->units) {
    const Unit& unit = layout.units[at];
    const auto mass = static_cast<double>(std::max<int64_t>(1, by_rows ? unit.rows : unit.bytes));
    if (!modelled) {
      boxes.push_back({BoxOf(ranks, at), mass});
      continue;
    }
    drawn.push_back({BoxOf(ranks, at), mass, {}});
    for (size_t k = 0; k < unit.columns.size() && k < kMostKeys; ++k) {
      drawn.back().nulls[k] = std::clamp(static_cast<double>(unit.columns[k].null_count) /
                                             static_cast<double>(std::max<int64_t>(1, unit.rows)),
                                         0.0, 1.0);
    }
  }
  std::vector<RankBoxOf> predicted;
  if (modelled) {
    CutModel cuts;
    cuts.hard_cap = by_rows;
    const auto all =
        static_cast<double>(std::max<int64_t>(1, by_rows ? selection->rows : selection->bytes));
    const int64_t file = by_rows ? FileRows(selection->rows, selection->bytes,
                                            options.target_file_rows, options.target_file_bytes)
                                 : options.target_file_bytes;
    cuts.file = static_cast<double>(file) / all;
    if (layout.size_rule == SizeRule::kCubes) {
      cuts.cubes = static_cast<double>(CubesOf(selection->bytes, spec.target_cube_bytes));
    }
    predicted = ModelSort(drawn, selection->rows, cuts, spec, ranks.keys);
    selection->predicted_units = static_cast<int>(predicted.size());
  } else {
    predicted = TileSort(boxes, selection->predicted_units, ranks.keys);
  }
  plan->predicted_boxes.insert(plan->predicted_boxes.end(), predicted.begin(), predicted.end());
}

void AddSelection(const Layout& layout, Selection selection, Plan* plan) {
  plan->rows += selection.rows;
  plan->bytes += selection.bytes;
  plan->units_selected += static_cast<int>(selection.units.size());
  plan->units_after += selection.predicted_units - static_cast<int>(selection.units.size());
  for (int unit : selection.units) {
    if (!layout.units[unit].stamp) plan->new_bytes += layout.units[unit].bytes;
  }
  plan->selections.push_back(std::move(selection));
}

arrow::Result<Plan> MakePlan(const Layout& layout, const ClusteringSpec& spec,
                             const PlanOptions& options) {
  if (options.target_file_bytes <= 0) return Invalid("the target file size must be above 0");
  if (layout.columns.size() != spec.columns.size() || layout.types.size() != spec.columns.size()) {
    return Invalid("the layout does not describe the clustering columns");
  }
  for (size_t k = 0; k < spec.columns.size(); ++k) {
    if (layout.columns[k].field_id != spec.columns[k].field_id) {
      return Invalid("the layout does not describe clustering column {}", spec.columns[k].name);
    }
  }
  Plan plan;
  if (layout.units.empty()) {
    plan.reason = "the table is empty";
    return plan;
  }
  const Ranks ranks(layout);
  plan.units_after = static_cast<int>(layout.units.size());
  PredictAfter(layout, ranks, &plan);
  ClusteringSpec effective = spec;
  effective.policy = options.policy.value_or(spec.policy);
  effective.theta = options.theta.value_or(spec.theta);
  ARROW_RETURN_NOT_OK(effective.Validate());
  if (options.theta && effective.policy != Policy::kOverlap) {
    return Usage("--theta belongs to the policy overlap: add --policy overlap");
  }
  const bool by_overlap = effective.policy == Policy::kOverlap && !options.full;
  ARROW_RETURN_NOT_OK(by_overlap ? PlanByOverlap(layout, effective, options, ranks, &plan)
                                 : PlanBySize(layout, effective, options, ranks, &plan));
  return plan;
}

}  // namespace thalweg
