#include "layout/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "layout/plan_items_internal.h"
#include "util/status.h"
#include "util/units.h"

namespace thalweg {
namespace {

std::set<int32_t> SetOf(const std::vector<int32_t>& ids) { return {ids.begin(), ids.end()}; }

std::set<int32_t> ColumnSet(const ClusteringSpec& spec) {
  std::set<int32_t> ids;
  for (const ClusteringColumn& column : spec.columns) ids.insert(column.field_id);
  return ids;
}

/// Rank intervals of all units on all keys, and the distributions behind them.
struct Ranks {
  std::vector<KeyDistribution> keys;
  std::vector<std::vector<RankInterval>> intervals;

  explicit Ranks(const Layout& layout) : intervals(layout.columns.size()) {
    for (size_t k = 0; k < layout.columns.size(); ++k) {
      keys.push_back(KeyDistribution::Make(layout, static_cast<int>(k), &intervals[k]));
    }
  }
  double width(int unit) const {
    double sum = 0;
    for (const auto& key : intervals) sum += key[static_cast<size_t>(unit)].width();
    return keys.empty() ? 0 : sum / static_cast<double>(keys.size());
  }
  /// The part of the width that is not due to repeated values: a query on value j, of mass p_j,
  /// opens the share p_j / width_k of the units that rows like these are sorted into.
  double Avoidable(int unit) const {
    double sum = 0;
    for (size_t k = 0; k < keys.size(); ++k) {
      const RankInterval& interval = intervals[k][static_cast<size_t>(unit)];
      const double width = interval.width();
      if (width <= 0) continue;
      sum += std::max(0.0, width - interval.repeated_squares / width);
    }
    return keys.empty() ? 0 : sum / static_cast<double>(keys.size());
  }
  /// Predicted depth, mean over the keys, of one sort of these units into `outputs`.
  double Predict(const std::vector<int>& units, double outputs) const {
    double sum = 0;
    for (size_t k = 0; k < keys.size(); ++k) {
      double below = 1, upto = 0;
      int64_t holding = 0;
      for (int unit : units) {
        const RankInterval& interval = intervals[k][static_cast<size_t>(unit)];
        if (interval.empty) continue;
        ++holding;
        below = std::min(below, interval.below);
        upto = std::max(upto, interval.upto);
      }
      if (holding == 0 || upto <= below) continue;
      const double extent = upto - below;
      sum += PredictDepth(extent, outputs, static_cast<int>(keys.size()),
                          keys[k].RepeatedSquareSum(below, upto) / extent);
    }
    return keys.empty() ? 0 : sum / static_cast<double>(keys.size());
  }
};

/// Geometric mean of what past runs achieved of their predictions, within a factor of two.
double CorrectionOf(const Layout& layout) {
  double sum = 0;
  int count = 0;
  for (const RunRecord& run : layout.runs) {
    if (!(run.predicted_depth > 0) || !(run.achieved_depth > 0) ||
        !(run.prediction_correction > 0)) {
      continue;
    }
    sum += std::log(run.achieved_depth / (run.predicted_depth / run.prediction_correction));
    ++count;
  }
  return count > 0 ? std::clamp(std::exp(sum / count), 0.5, 2.0) : 1;
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

CubeHealth HealthOf(int64_t bytes, const std::vector<int32_t>& field_ids,
                    const std::string& spec_id, const ClusteringSpec& spec, bool* other_spec) {
  const bool same_set = SetOf(field_ids) == ColumnSet(spec);
  if (other_spec) *other_spec = same_set && spec_id != spec.SpecId();
  if (bytes < spec.min_cube_bytes) return CubeHealth::kPartial;
  if (!same_set) return CubeHealth::kMismatch;
  const double limit = 1.5 * static_cast<double>(spec.target_cube_bytes);
  return static_cast<double>(bytes) > limit ? CubeHealth::kOversized : CubeHealth::kHealthy;
}

arrow::Result<std::vector<Item>> MakeItems(const Layout& layout, const ClusteringSpec& spec,
                                           bool full) {
  std::vector<Item> items;
  std::vector<char> in_cube(layout.units.size(), 0);
  const std::set<int32_t> columns = ColumnSet(spec);
  for (const Cube& cube : layout.cubes) {
    Item item;
    item.run_id = cube.run_id;
    for (int unit : cube.units) {
      if (unit < 0 || static_cast<size_t>(unit) >= layout.units.size() || in_cube[unit]) {
        return Invalid("cube {}: unit {} does not exist or is in two cubes", cube.cube_id, unit);
      }
      in_cube[unit] = 1;
      item.units.push_back(unit);
      item.rows += layout.units[unit].rows;
      item.bytes += layout.units[unit].bytes;
    }
    if (item.units.empty()) continue;
    bool other_spec = false;
    const bool same_set = SetOf(cube.field_ids) == columns;
    // By what is left of it: another engine may have removed some of its files.
    switch (HealthOf(item.bytes, cube.field_ids, cube.spec_id, spec, &other_spec)) {
      case CubeHealth::kPartial:
        item.kind = Item::Kind::kPartial;
        item.useful_alone = !same_set || (full && other_spec);
        break;
      case CubeHealth::kOversized:
        item.kind = item.rows > 1 ? Item::Kind::kOversized : Item::Kind::kHealthy;
        item.useful_alone = item.rows > 1;
        break;
      case CubeHealth::kMismatch:
      case CubeHealth::kStale:  // of groups only
        item.kind = Item::Kind::kMismatch;
        item.useful_alone = true;
        break;
      case CubeHealth::kHealthy:
        item.kind = other_spec ? Item::Kind::kOtherSpec : Item::Kind::kHealthy;
        item.useful_alone = true;
        break;
    }
    items.push_back(std::move(item));
  }
  for (size_t i = 0; i < layout.units.size(); ++i) {
    if (in_cube[i]) continue;
    Item item;
    item.useful_alone = true;
    item.units = {static_cast<int>(i)};
    item.rows = layout.units[i].rows;
    item.bytes = layout.units[i].bytes;
    items.push_back(std::move(item));
  }
  return items;
}

/// The table is the output of one run with the declared spec, no cube is too large, and there are
/// about as many files as the target size asks for: sorting it again would change nothing.
bool IsPerfect(const Layout& layout, const std::vector<Item>& items, const ClusteringSpec& spec,
               const PlanOptions& options) {
  const std::string spec_id = spec.SpecId();
  int64_t bytes = 0, rows = 0;
  for (const Unit& unit : layout.units) {
    bytes += unit.bytes;
    rows += unit.rows;
  }
  const double files = static_cast<double>(layout.units.size());
  const double asked = PredictUnits(rows, bytes, spec, options);
  if (files > 1.5 * asked + 1 || asked > 1.5 * files + 1) return false;
  for (const Item& item : items) {
    if (item.kind == Item::Kind::kUnclustered || item.kind == Item::Kind::kOversized) return false;
    if (item.run_id != items.front().run_id) return false;
  }
  return std::all_of(layout.cubes.begin(), layout.cubes.end(), [&](const Cube& cube) {
    return cube.units.empty() || cube.spec_id == spec_id;
  });
}

std::string NothingToChange(const std::vector<Item>& items) {
  return fmt::format(
      "everything is the output of one run ({}) with the declared clustering: a full rewrite would "
      "change nothing",
      items.front().run_id);
}

/// What the rule of cubes rewrites, or nothing, with the reason.
arrow::Result<std::vector<Item>> CubeCandidates(const Layout& layout, const ClusteringSpec& spec,
                                                const PlanOptions& options, Plan* plan) {
  ARROW_ASSIGN_OR_RAISE(std::vector<Item> all, MakeItems(layout, spec, options.full));
  int64_t mismatched = 0, other_spec = 0;
  Totals everything;
  for (const Item& item : all) {
    everything.Add(item);
    mismatched += item.kind == Item::Kind::kMismatch;
    other_spec += item.kind == Item::Kind::kOtherSpec;
  }
  const bool everything_fits = everything.Fits(options.budgets);

  if (options.full && IsPerfect(layout, all, spec, options)) {
    plan->reason = NothingToChange(all);
    return std::vector<Item>{};
  }
  std::vector<Item> candidates;
  bool one_run = true;
  std::string_view partial_run;
  for (Item& item : all) {
    const bool by_size = item.kind == Item::Kind::kUnclustered ||
                         item.kind == Item::Kind::kPartial || item.kind == Item::Kind::kOversized;
    const bool by_full = options.full && (everything_fits || item.kind != Item::Kind::kHealthy);
    if (!by_size && !by_full) continue;
    if (item.kind == Item::Kind::kPartial) {
      if (partial_run.empty()) partial_run = item.run_id;
      one_run &= item.run_id == partial_run;
    }
    candidates.push_back(std::move(item));
  }
  if (!options.full) {
    if (mismatched > 0) {
      plan->notes.push_back(
          fmt::format("{} clustered by other columns: only --full rewrites them",
                      Plural(mismatched, "healthy cube is", "healthy cubes are")));
    }
    if (other_spec > 0) {
      plan->notes.push_back(fmt::format(
          "{} of another column order, curve, width or algorithm: only --full rewrites them",
          Plural(other_spec, "healthy cube is", "healthy cubes are")));
    }
  }
  const bool any_alone = std::any_of(candidates.begin(), candidates.end(),
                                     [](const Item& item) { return item.useful_alone; });
  if (candidates.empty()) {
    plan->reason =
        options.full ? fmt::format(
                           "all cubes are healthy and of the declared clustering; sorting the "
                           "whole table as one needs {} of {}, more than the budget",
                           Plural(everything.units, "unit", "units"), FormatBytes(everything.bytes))
        : mismatched > 0 ? "there is no unclustered unit and no cube below the minimum size (cubes "
                           "of other columns are rewritten by --full)"
                         : "all units are in healthy cubes";
    return std::vector<Item>{};
  }
  if (!any_alone && one_run) {
    plan->reason = fmt::format(
        "{} below the minimum size of {} all come from one run ({}): sorting them again would "
        "change nothing",
        Plural(static_cast<int64_t>(candidates.size()), "cube", "cubes"),
        FormatBytes(spec.min_cube_bytes), partial_run);
    if (candidates.size() == 1) {
      plan->reason = fmt::format(
          "the only cube below the minimum size of {} comes from one run ({}): sorting it again "
          "would change nothing",
          FormatBytes(spec.min_cube_bytes), partial_run);
    }
    return std::vector<Item>{};
  }
  return candidates;
}

/// The same of the rule of groups.
arrow::Result<std::vector<Item>> GroupCandidates(const Layout& layout, const ClusteringSpec& spec,
                                                 const PlanOptions& options, Plan* plan) {
  const int64_t group_rows =
      options.target_file_rows > 0 ? options.target_file_rows : layout.group_rows;
  ARROW_ASSIGN_OR_RAISE(auto groups, MakeGroupItems(layout, spec, group_rows, options.full));
  plan->reason = groups.reason;
  if (options.full) {
    Totals everything;
    for (const Item& item : groups.items) everything.Add(item);
    if (!everything.Fits(options.budgets)) {
      // Only what is not a full group of the declared spec yet, so that bounded runs end.
      ARROW_ASSIGN_OR_RAISE(groups, MakeGroupItems(layout, spec, group_rows, /*full=*/false));
      if (groups.items.empty()) {
        plan->reason =
            fmt::format("{}; sorting the whole table as one needs {} of {}, more than the budget",
                        groups.reason, Plural(everything.units, "unit", "units"),
                        FormatBytes(everything.bytes));
      }
      return std::move(groups.items);
    }
  }
  if (options.full && IsPerfect(layout, groups.items, spec, options)) {
    plan->reason = NothingToChange(groups.items);
    return std::vector<Item>{};
  }
  return std::move(groups.items);
}

/// The best gain per byte first, as far as the budgets let it.
std::vector<const Item*> Choose(const Layout& layout, const std::vector<Item>& candidates,
                                const Budgets& budgets, const ClusteringSpec& spec) {
  std::vector<const Item*> order;
  for (const Item& item : candidates) order.push_back(&item);
  auto gain_per_byte = [](const Item* item) {
    return item->gain / static_cast<double>(std::max<int64_t>(1, item->bytes));
  };
  // Ties (and partial cubes of one width) the small ones first; then by unit id, so that the plan
  // does not depend on the listing.
  std::stable_sort(order.begin(), order.end(), [&](const Item* a, const Item* b) {
    const double x = gain_per_byte(a), y = gain_per_byte(b);
    if (x != y) return x > y;
    if (a->bytes != b->bytes) return a->bytes < b->bytes;
    return layout.units[a->units.front()].id < layout.units[b->units.front()].id;
  });
  auto chosen = Take(candidates, order, budgets, spec);
  if (chosen.empty()) {  // a large cube may have stood in the way of two small ones
    std::stable_sort(order.begin(), order.end(),
                     [](const Item* a, const Item* b) { return a->bytes < b->bytes; });
    chosen = Take(candidates, order, budgets, spec);
  }
  if (chosen.empty()) {  // or partial ones in the way of what is of use by itself
    std::erase_if(order, [](const Item* item) { return !item->useful_alone; });
    chosen = Take(candidates, order, budgets, spec);
  }
  return chosen;
}

/// The sets that are sorted as one: all of a class, or with `sort_per_stretch` neighbours up to the
/// target. Sets whose rewrite is of no use are left out.
std::vector<std::vector<const Item*>> PartsOf(const std::vector<const Item*>& chosen,
                                              const std::vector<Item>& candidates,
                                              const ClusteringSpec& spec,
                                              const PlanOptions& options) {
  std::map<std::pair<int, int>, std::vector<const Item*>> parts;
  std::vector<const Item*> in_order = chosen;
  std::sort(in_order.begin(), in_order.end(),
            [](const Item* a, const Item* b) { return a->units.front() < b->units.front(); });
  int part = 0;
  const Item* previous = nullptr;
  int64_t rows = 0;
  for (const Item* item : in_order) {
    if (options.sort_per_stretch) {
      const bool joins = previous != nullptr && previous->stretch == item->stretch &&
                         previous->rewrite_class == item->rewrite_class &&
                         rows < options.target_file_rows;
      if (!joins) {
        ++part;
        rows = 0;
      }
      rows += item->rows;
      previous = item;
    }
    parts[{item->rewrite_class, part}].push_back(item);
  }
  std::vector<std::vector<const Item*>> useful;
  for (auto& [key, items] : parts) {
    Usefulness usefulness(candidates, spec);
    for (const Item* item : items) usefulness.Add(*item);
    if (usefulness.useful()) useful.push_back(std::move(items));
  }
  return useful;
}

Selection SelectionOf(const std::vector<const Item*>& items, const Layout& layout,
                      const ClusteringSpec& spec, const PlanOptions& options) {
  Selection selection;
  selection.reason = Describe(items, layout.cube_name);
  for (const Item* item : items) {
    selection.units.insert(selection.units.end(), item->units.begin(), item->units.end());
    selection.rows += item->rows;
    selection.bytes += item->bytes;
  }
  std::sort(selection.units.begin(), selection.units.end());
  selection.predicted_units = PredictUnits(selection.rows, selection.bytes, spec, options);
  if (options.max_task_bytes > 0) {
    const int64_t tasks = (selection.bytes + options.max_task_bytes - 1) / options.max_task_bytes;
    selection.tasks = static_cast<int>(std::clamp<int64_t>(
        tasks, 1, std::max<int64_t>(1, std::min<int64_t>(selection.rows, 1'000'000))));
  }
  return selection;
}

}  // namespace

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

std::vector<std::string> SelectedUnits(const Layout& layout, const Plan& plan) {
  std::vector<std::string> ids;
  for (const Selection& selection : plan.selections) {
    for (int unit : selection.units) ids.push_back(layout.units[unit].id);
  }
  return ids;
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
  if (spec.policy == Policy::kOverlap) {
    plan.notes.push_back(
        "policy overlap is not available yet in this version: size was used (the property is "
        "kept)");
  }
  if (layout.units.empty()) {
    plan.reason = "the table is empty";
    return plan;
  }
  const Ranks ranks(layout);
  double depth = 0;
  for (size_t i = 0; i < layout.units.size(); ++i) depth += ranks.width(static_cast<int>(i));
  plan.depth_before = plan.depth_after = depth;
  plan.units_after = static_cast<int>(layout.units.size());
  const bool groups = layout.size_rule == SizeRule::kGroups;
  ARROW_ASSIGN_OR_RAISE(std::vector<Item> candidates,
                        groups ? GroupCandidates(layout, spec, options, &plan)
                               : CubeCandidates(layout, spec, options, &plan));
  if (candidates.empty()) return plan;

  Totals wanted;
  for (Item& item : candidates) {
    wanted.Add(item);
    for (int unit : item.units) item.gain += ranks.Avoidable(unit);
    item.gain = std::round(item.gain * 1e9) / 1e9;  // rounding makes no order
  }
  std::vector<const Item*> chosen = Choose(layout, candidates, options.budgets, spec);
  if (chosen.empty()) {
    plan.reason = TooSmall(candidates, options.budgets, spec);
    return plan;
  }
  plan.correction = CorrectionOf(layout);
  double predicted = 0;
  int outputs = 0;
  for (const auto& part : PartsOf(chosen, candidates, spec, options)) {
    Selection selection = SelectionOf(part, layout, spec, options);
    predicted += ranks.Predict(selection.units, selection.predicted_units);
    for (int unit : selection.units) depth -= ranks.width(unit);
    plan.rows += selection.rows;
    plan.bytes += selection.bytes;
    plan.units_selected += static_cast<int>(selection.units.size());
    outputs += selection.predicted_units;
    plan.selections.push_back(std::move(selection));
  }
  if (plan.selections.empty()) {
    plan.reason =
        "the groups below the target are covered by different indexes, and none can be merged with "
        "a neighbour of its own kind";
    return plan;
  }
  if (chosen.size() < candidates.size()) {
    plan.notes.push_back(fmt::format("left for later runs by the budget: {} of {}",
                                     Plural(wanted.units - plan.units_selected, "unit", "units"),
                                     FormatBytes(wanted.bytes - plan.bytes)));
  }
  plan.depth_after = plan.correction * predicted + std::max(0.0, depth);
  plan.units_after = static_cast<int>(layout.units.size()) - plan.units_selected + outputs;
  return plan;
}

}  // namespace thalweg
