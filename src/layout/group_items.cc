// What the policy `size` rewrites of a layout of groups: whole runs whose fragments merge with
// neighbours.

#include <algorithm>

#include "layout/plan_items_internal.h"
#include "util/status.h"
#include "util/units.h"

namespace thalweg {
namespace {

/// The group of each unit, as a position in Layout::cubes; -1 for none.
arrow::Result<std::vector<int>> GroupsOfUnits(const Layout& layout) {
  std::vector<int> groups(layout.units.size(), -1);
  for (size_t g = 0; g < layout.cubes.size(); ++g) {
    for (int unit : layout.cubes[g].units) {
      if (unit < 0 || static_cast<size_t>(unit) >= groups.size() || groups[unit] != -1) {
        return Invalid("group {}: unit {} does not exist or is in two groups",
                       layout.cubes[g].cube_id, unit);
      }
      groups[unit] = static_cast<int>(g);
    }
  }
  return groups;
}

void AddUnit(const Layout& layout, int unit, Item* item) {
  item->units.push_back(unit);
  item->rows += layout.units[unit].rows;
  item->bytes += layout.units[unit].bytes;
}

/// Groups below the target stay only where something else of their stretch and class is eligible.
void DropLoneGroups(std::vector<Item>* items) {
  auto lone = [&](const Item& item) {
    if (item.kind != Item::Kind::kPartial) return false;
    return std::none_of(items->begin(), items->end(), [&](const Item& other) {
      return &other != &item && other.stretch == item.stretch &&
             other.rewrite_class == item.rewrite_class;
    });
  };
  std::vector<Item> kept;
  for (const Item& item : *items) {
    if (!lone(item)) kept.push_back(item);
  }
  *items = std::move(kept);
}

}  // namespace

arrow::Result<GroupItems> MakeGroupItems(const Layout& layout, const ClusteringSpec& spec,
                                         int64_t group_rows, bool full) {
  ARROW_ASSIGN_OR_RAISE(const auto groups, GroupsOfUnits(layout));
  const std::string spec_id = spec.SpecId();
  GroupItems result;
  std::vector<int> item_of_group(layout.cubes.size(), -1);
  int stretch = 0;
  for (size_t i = 0; i < layout.units.size(); ++i) {
    const int unit = static_cast<int>(i);
    const Cube* group = groups[i] < 0 ? nullptr : &layout.cubes[groups[i]];
    const bool current = group != nullptr && group->spec_id == spec_id;
    if (!current) {
      Item item;
      item.kind = group == nullptr ? Item::Kind::kUnclustered : Item::Kind::kStale;
      item.useful_alone = true;
      item.stretch = stretch;
      item.rewrite_class = layout.units[i].rewrite_class;
      AddUnit(layout, unit, &item);
      result.items.push_back(std::move(item));
      continue;
    }
    const bool is_full = group->rows >= group_rows;
    if (is_full) ++stretch;
    if (is_full && !full) continue;
    if (item_of_group[groups[i]] >= 0) {
      AddUnit(layout, unit, &result.items[item_of_group[groups[i]]]);
      continue;
    }
    item_of_group[groups[i]] = static_cast<int>(result.items.size());
    Item item;
    item.kind = is_full ? Item::Kind::kHealthy : Item::Kind::kPartial;
    item.useful_alone = is_full;
    item.run_id = group->run_id;
    item.stretch = stretch;
    item.rewrite_class = layout.units[i].rewrite_class;
    AddUnit(layout, unit, &item);
    result.items.push_back(std::move(item));
  }
  const auto partial =
      std::count_if(result.items.begin(), result.items.end(),
                    [](const Item& item) { return item.kind == Item::Kind::kPartial; });
  if (!full) DropLoneGroups(&result.items);
  if (result.items.empty()) {
    result.reason = "all units are clustered as declared";
    if (partial > 0) {
      result.reason +=
          fmt::format(", and {} below the target of {} rows {} no neighbour to merge with",
                      Plural(partial, "group", "groups"), FormatCount(group_rows),
                      partial == 1 ? "has" : "have");
    }
  }
  return result;
}

}  // namespace thalweg
