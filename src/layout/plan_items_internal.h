#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "layout/planner.h"

namespace thalweg {

/// What is selected whole or not at all: an unclustered unit, or a cube.
struct Item {
  enum class Kind {
    kUnclustered,
    kStale,  ///< of a declaration of another number (groups only)
    kPartial,
    kOversized,
    kMismatch,
    kOtherSpec,
    kDeleted,  ///< healthy, but for a large share of deleted rows
    kHealthy
  };
  Kind kind = Kind::kUnclustered;
  /// Rewriting it is of use by itself; a partial cube of the declared columns only gains by being
  /// merged with another run.
  bool useful_alone = false;
  std::vector<int> units;
  int64_t rows = 0;
  int64_t deleted_rows = 0;
  int64_t bytes = 0;
  double gain = 0;  ///< mean over the keys of the avoidable widths
  std::string_view run_id;
  int rewrite_class = 0;  ///< of its units; items of different classes are not sorted as one
  int stretch = 0;        ///< groups: number of the stretch of neighbours that it is in
};

struct Totals {
  int64_t units = 0, rows = 0, bytes = 0;
  void Add(const Item& item) {
    units += static_cast<int64_t>(item.units.size());
    rows += item.rows;
    bytes += item.bytes;
  }
  void Add(const Totals& other) {
    units += other.units;
    rows += other.rows;
    bytes += other.bytes;
  }
  bool Fits(const Budgets& budgets) const {
    return (budgets.max_units < 0 || units <= budgets.max_units) &&
           (budgets.max_rows < 0 || rows <= budgets.max_rows) &&
           (budgets.max_bytes < 0 || bytes <= budgets.max_bytes);
  }
};

Totals TotalsOf(const std::vector<const Item*>& items);

/// Whether rewriting a set of items makes progress, given all the partial cubes there are (see
/// MakePlan).
class Usefulness {
 public:
  Usefulness(const std::vector<Item>& candidates, const ClusteringSpec& spec) : spec_(spec) {
    for (const Item& item : candidates) partial_ += item.kind == Item::Kind::kPartial;
  }
  /// Items added one after another.
  void Add(const Item& item) {
    alone_ |= item.useful_alone;
    Together& together = by_class_[item.rewrite_class];
    together.bytes += item.bytes;
    ++together.count;
    together.runs.insert(item.run_id);
  }
  bool useful() const {
    return alone_ || std::any_of(by_class_.begin(), by_class_.end(),
                                 [&](const auto& one) { return Merges(one.second); });
  }

 private:
  /// Items that are sorted as one.
  struct Together {
    int64_t bytes = 0;
    int64_t count = 0;
    std::set<std::string_view> runs;
  };
  bool Merges(const Together& together) const {
    if (together.runs.size() < 2) return false;
    if (together.count == partial_) return true;  // one run is left of all
    // Fewer partial cubes afterwards: the new ones are healthy, or fewer.
    const int64_t cubes = CubesOf(together.bytes, spec_.target_cube_bytes);
    return together.bytes / cubes >= spec_.min_cube_bytes || cubes < together.count;
  }

  const ClusteringSpec& spec_;
  int64_t partial_ = 0;
  bool alone_ = false;
  std::map<int, Together> by_class_;
};

/// Takes candidates in order as far as they fit the budgets, and of these the longest useful
/// beginning.
std::vector<const Item*> Take(const std::vector<Item>& candidates,
                              const std::vector<const Item*>& order, const Budgets& budgets,
                              const ClusteringSpec& spec);
/// "the smallest useful rewrite needs 2 units of 13.1 MiB; --max-source-bytes is 1 MiB"
std::string TooSmall(const std::vector<Item>& candidates, const Budgets& budgets,
                     const ClusteringSpec& spec);
/// "12 unclustered units, 1 partial cube", with what the format calls a cube.
std::string Describe(const std::vector<const Item*>& items, std::string_view cube);
std::string Plural(int64_t count, std::string_view one, std::string_view many);

/// The items of a layout of groups (SizeRule::kGroups) that are worth a rewrite, or all of them
/// with `full`; without any the reason why not. Eligible are the units that are not of the declared
/// spec, each on its own, and groups of fewer than `group_rows` live rows that have an eligible
/// neighbour of their class: the next ones in the order of the units, up to a group that is full.
struct GroupItems {
  std::vector<Item> items;
  std::string reason;
};
arrow::Result<GroupItems> MakeGroupItems(const Layout& layout, const ClusteringSpec& spec,
                                         int64_t group_rows, bool full);

}  // namespace thalweg
