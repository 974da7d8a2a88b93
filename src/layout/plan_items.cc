#include "layout/plan_items_internal.h"
#include "layout/planner_internal.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "util/units.h"

namespace thalweg {

std::string Plural(int64_t count, std::string_view one, std::string_view many) {
  return fmt::format("{} {}", FormatCount(count), count == 1 ? one : many);
}

Totals TotalsOf(const std::vector<const Item*>& items) {
  Totals totals;
  for (const Item* item : items) totals.Add(*item);
  return totals;
}

std::vector<const Item*> Take(const std::vector<Item>& candidates,
                              const std::vector<const Item*>& order, const Budgets& budgets,
                              const ClusteringSpec& spec) {
  std::vector<const Item*> taken;
  Totals totals;
  Usefulness usefulness(candidates, spec);
  size_t useful = 0;
  for (const Item* item : order) {
    Totals with = totals;
    with.Add(*item);
    if (!with.Fits(budgets)) continue;
    totals = with;
    taken.push_back(item);
    usefulness.Add(*item);
    if (usefulness.useful()) useful = taken.size();
  }
  taken.resize(useful);
  return taken;
}

std::string TooSmall(const std::vector<Item>& candidates, const Budgets& budgets,
                     const ClusteringSpec& spec) {
  struct Measure {
    const std::string& option;
    int64_t budget;
    std::function<int64_t(const Totals&)> of;
    std::function<std::string(int64_t)> text;
  };
  const Measure measures[] = {
      {budgets.bytes_name, budgets.max_bytes, [](const Totals& t) { return t.bytes; }, FormatBytes},
      {budgets.units_name, budgets.max_units, [](const Totals& t) { return t.units; }, FormatCount},
      {budgets.rows_name, budgets.max_rows, [](const Totals& t) { return t.rows; }, FormatCount},
  };
  std::string together;
  for (const Measure& measure : measures) {
    if (measure.budget < 0) continue;
    auto size = [&](const Item* item) { return measure.of(TotalsOf({item})); };
    std::vector<const Item*> order;
    order.reserve(candidates.size());
    for (const Item& item : candidates) order.push_back(&item);
    std::stable_sort(order.begin(), order.end(),
                     [&](const Item* a, const Item* b) { return size(a) < size(b); });
    // The smallest item that is of use alone, or the shortest useful beginning of the order.
    std::vector<const Item*> smallest;
    Usefulness usefulness(candidates, spec);
    for (const Item* item : order) {
      if (item->useful_alone) {
        smallest = {item};
        break;
      }
      smallest.push_back(item);
      usefulness.Add(*item);
      if (usefulness.useful()) break;
    }
    const Totals totals = TotalsOf(smallest);
    std::string needs =
        fmt::format("the smallest useful rewrite needs {} of {} ({} rows); {} is {}: raise it",
                    Plural(totals.units, "unit", "units"), FormatBytes(totals.bytes),
                    FormatCount(totals.rows), measure.option, measure.text(measure.budget));
    if (measure.of(totals) > measure.budget) return needs;
    if (together.empty()) together = needs + ", the budgets together leave no room";
  }
  return together;
}

std::string TooSmallFor(const Totals& needed, const Budgets& budgets) {
  std::string limits;
  auto add = [&](bool over, const std::string& name, const std::string& budget) {
    if (over) limits += fmt::format("{}{} is {}", limits.empty() ? "" : ", ", name, budget);
  };
  add(budgets.max_bytes >= 0 && needed.bytes > budgets.max_bytes, budgets.bytes_name,
      FormatBytes(budgets.max_bytes));
  add(budgets.max_units >= 0 && needed.units > budgets.max_units, budgets.units_name,
      FormatCount(budgets.max_units));
  add(budgets.max_rows >= 0 && needed.rows > budgets.max_rows, budgets.rows_name,
      FormatCount(budgets.max_rows));
  return fmt::format("the smallest rewrite that is worth it needs {} of {} ({} rows); {}: raise it",
                     Plural(needed.units, "unit", "units"), FormatBytes(needed.bytes),
                     FormatCount(needed.rows), limits);
}

std::string Describe(const std::vector<const Item*>& items, std::string_view cube) {
  const std::pair<Item::Kind, std::pair<std::string, std::string>> names[] = {
      {Item::Kind::kUnclustered, {"unclustered unit", ""}},
      {Item::Kind::kStale, {"unit", " of another declaration"}},
      {Item::Kind::kPartial, {fmt::format("partial {}", cube), ""}},
      {Item::Kind::kOversized, {fmt::format("oversized {}", cube), ""}},
      {Item::Kind::kMismatch, {std::string(cube), " of other columns"}},
      {Item::Kind::kOtherSpec, {std::string(cube), " of another order, curve, width or algorithm"}},
      {Item::Kind::kDeleted, {fmt::format("healthy {}", cube), " with many deleted rows"}},
      {Item::Kind::kHealthy, {fmt::format("healthy {}", cube), ""}},
  };
  std::string text;
  for (const auto& [kind, name] : names) {
    const auto count = std::count_if(items.begin(), items.end(),
                                     [&](const Item* item) { return item->kind == kind; });
    if (count == 0) continue;
    text += (text.empty() ? "" : ", ") + Plural(count, name.first, name.first + "s") + name.second;
  }
  return text;
}

}  // namespace thalweg
