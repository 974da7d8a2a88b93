// The policy `size`: unclustered units, partial and oversized cubes, as one selection.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "layout/plan_items_internal.h"
#include "layout/planner_internal.h"
#include "util/status.h"
#include "util/units.h"

namespace thalweg {
namespace {

/// A healthy cube is rewritten when this share of its rows is deleted.
constexpr double kDeletedShare = 0.3;

bool ManyAreDeleted(const Item& item) {
  return static_cast<double>(item.deleted_rows) >=
             kDeletedShare * static_cast<double>(item.rows + item.deleted_rows) &&
         item.deleted_rows > 0;
}

arrow::Result<std::vector<Item>> MakeItems(const Layout& layout, const ClusteringSpec& spec,
                                           bool full) {
  std::vector<Item> items;
  std::vector<char> in_cube(layout.units.size(), 0);
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
      item.deleted_rows += layout.units[unit].deleted_rows;
      item.bytes += layout.units[unit].bytes;
    }
    if (item.units.empty()) continue;
    bool other_spec = false;
    const bool same_set = OfDeclaredColumns(cube.field_ids, spec);
    // By what is left of it: another engine may have removed some of its files.
    switch (HealthOf(item.bytes, cube.field_ids, cube.spec_id, spec, &other_spec)) {
      case CubeHealth::kPartial:
        item.kind = Item::Kind::kPartial;
        item.useful_alone = !same_set || (full && other_spec) || ManyAreDeleted(item);
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
        item.kind = other_spec             ? Item::Kind::kOtherSpec
                    : ManyAreDeleted(item) ? Item::Kind::kDeleted
                                           : Item::Kind::kHealthy;
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

/// The table is the output of one run with the declared spec, no row of it is deleted, no cube is
/// too large, and there are about as many files as the target size asks for: sorting it again would
/// change nothing.
bool IsPerfect(const Layout& layout, const std::vector<Item>& items, const ClusteringSpec& spec,
               const PlanOptions& options) {
  const std::string spec_id = spec.SpecId();
  int64_t bytes = 0, rows = 0;
  for (const Unit& unit : layout.units) {
    bytes += unit.bytes;
    rows += unit.rows;
    if (unit.deleted_rows > 0) return false;
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
                         item.kind == Item::Kind::kPartial || item.kind == Item::Kind::kOversized ||
                         item.kind == Item::Kind::kDeleted;
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
  struct Worth {
    double gain_per_byte;
    int64_t bytes;
    const Item* item;
  };
  std::vector<Worth> worth;
  worth.reserve(candidates.size());
  for (const Item& item : candidates) {
    worth.push_back(
        {item.gain / static_cast<double>(std::max<int64_t>(1, item.bytes)), item.bytes, &item});
  }
  // Ties (and partial cubes of one width) the small ones first; then by unit id, so that the plan
  // does not depend on the listing.
  std::stable_sort(worth.begin(), worth.end(), [&](const Worth& a, const Worth& b) {
    if (a.gain_per_byte != b.gain_per_byte) return a.gain_per_byte > b.gain_per_byte;
    if (a.bytes != b.bytes) return a.bytes < b.bytes;
    return layout.units[a.item->units.front()].id < layout.units[b.item->units.front()].id;
  });
  std::vector<const Item*> order;
  order.reserve(worth.size());
  for (const Worth& one : worth) order.push_back(one.item);
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
  std::vector<int> units;
  for (const Item* item : items) {
    units.insert(units.end(), item->units.begin(), item->units.end());
  }
  Selection selection = MakeSelection(layout, std::move(units), spec, options);
  selection.reason = Describe(items, layout.cube_name);
  return selection;
}

}  // namespace

arrow::Status PlanBySize(const Layout& layout, const ClusteringSpec& spec,
                         const PlanOptions& options, const Ranks& ranks, Plan* plan_out) {
  Plan& plan = *plan_out;
  const bool groups = layout.size_rule == SizeRule::kGroups;
  ARROW_ASSIGN_OR_RAISE(std::vector<Item> candidates,
                        groups ? GroupCandidates(layout, spec, options, plan_out)
                               : CubeCandidates(layout, spec, options, plan_out));
  if (candidates.empty()) return arrow::Status::OK();

  Totals wanted;
  for (Item& item : candidates) {
    wanted.Add(item);
    for (int unit : item.units) item.gain += ranks.Avoidable(unit);
    item.gain = std::round(item.gain * 1e9) / 1e9;  // rounding makes no order
  }
  std::vector<const Item*> chosen = Choose(layout, candidates, options.budgets, spec);
  if (chosen.empty()) {
    plan.reason = TooSmall(candidates, options.budgets, spec);
    return arrow::Status::OK();
  }
  plan.correction = CorrectionOf(layout);
  for (const auto& part : PartsOf(chosen, candidates, spec, options)) {
    Selection selection = SelectionOf(part, layout, spec, options);
    PredictBoxes(layout, ranks, spec, options, &selection, plan_out);
    AddSelection(layout, std::move(selection), plan_out);
  }
  if (plan.selections.empty()) {
    plan.reason =
        "the groups below the target are covered by different indexes, and none can be merged with "
        "a neighbour of its own kind";
    return arrow::Status::OK();
  }
  if (chosen.size() < candidates.size()) {
    plan.notes.push_back(fmt::format("left for later runs by the budget: {} of {}",
                                     Plural(wanted.units - plan.units_selected, "unit", "units"),
                                     FormatBytes(wanted.bytes - plan.bytes)));
  }
  PredictAfter(layout, ranks, plan_out);
  return arrow::Status::OK();
}

}  // namespace thalweg
