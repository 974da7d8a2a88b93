// The policy `overlap`: rewrite a region when one sort of it would cut the units that are avoidably
// touched there by at least theta. docs/overlap.md has the rule, why it ends, and what was
// measured.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "layout/plan_items_internal.h"
#include "layout/planner_internal.h"
#include "layout/region_density.h"
#include "layout/sort_model.h"
#include "layout/tiling.h"
#include "sort/key_sort.h"
#include "util/units.h"

namespace thalweg {
namespace {

/// A unit belongs to a cell when it is at most so much wider than it.
constexpr double kSlack = 1.3;
/// Where a budget leaves the larger regions out, wide units find a place in smaller ones.
constexpr double kSlackInBudget = 2;
/// Beside theta of what is avoidably opened a rewrite must save this part of what is opened in any
/// case: where a query on a repeated value opens a hundred units, two more are not noticed.
constexpr double kNoticed = 0.12;
/// What a budget has cut short is finished at this part of theta: sorts in pieces lie over one
/// another along their borders, which no single region gains much by.
constexpr double kFinishing = 1.0 / 3;
/// And a set must then gain this part of what its share of the bytes opens avoidably on average.
constexpr double kLeastGain = 0.05;
/// What one sort into m units gives, over extent·m^(1-1/N): the mean over all m with files that end
/// on cell borders, two and three keys (docs/overlap.md).
constexpr double kSortConstant = 1.0645;
/// Lighter values are told apart in no region.
constexpr double kLeastValue = 1.0 / 4096;
/// One sort is predicted by so many tiles; of more units each tile stands for several.
constexpr double kMostTiles = 1 << 20;
constexpr int kMostLevels = 14;
constexpr int kMostRounds = 16;
/// How often a region is looked at in one round as its units are taken by others.
constexpr int kMostLooks = 16;

/// A unit of the table, or a predicted one of a sort that this plan makes.
struct Tile {
  RankBoxOf box;
  double units = 0;  ///< what its rows are written as, in output units
  int64_t rows = 0, bytes = 0;
  int unit = -1;  ///< position in the layout; -1: predicted
  int run = -1;   ///< position in runs_
  bool taken = false;
};

/// One sort: of the past, or of this plan.
struct Run {
  int rewrite_class = 0;
  int order = -1;      ///< the larger, the newer
  int selection = -1;  ///< of this plan: position in pending_
  /// This policy made it, at this threshold or a lower one, and nothing was left to do: without
  /// newer units there is nothing to gain where it lies.
  bool settled = false;
  bool rewrote = false;  ///< of units that were there, and not an append
  bool barred = false;   ///< it achieved less than half of the gain that was predicted
};

/// Units that are sorted as one.
struct Pending {
  std::vector<int> units;
  int run = -1;
  int64_t unclustered = 0, overlapping = 0;
  std::set<int> past_runs;
  int joined = -1;  ///< has become part of this one
};

/// A region and the best set of its runs.
struct Candidate {
  std::vector<int> tiles;
  std::vector<int> chosen;
  double worth = 0;  ///< gain; under a budget gain per byte
  int looks = 0;
  bool operator<(const Candidate& other) const {
    if (worth != other.worth) return worth < other.worth;
    return chosen.front() > other.chosen.front();  // for a plan that is always the same
  }
};

bool AchievedTooLittle(const RunRecord& run) {
  if (run.depth_before < 0 || run.predicted_depth < 0 || run.achieved_depth < 0) return false;
  const double predicted = run.depth_before - run.predicted_depth;
  return predicted > 0 && run.depth_before - run.achieved_depth < predicted / 2;
}

class OverlapPlanner {
 public:
  OverlapPlanner(const Layout& layout, const ClusteringSpec& spec, const PlanOptions& options,
                 const Ranks& ranks)
      : layout_(layout),
        spec_(spec),
        options_(options),
        ranks_(ranks),
        n_(ranks.key_count()),
        density_(n_) {
    for (const auto& key : ranks.keys) {
      repeats_.push_back(key.repeated_square_sum() > 1e-7);
      values_.push_back(key.ValuesOfMass(kLeastValue));
    }
  }

  void MakePlan(Plan* plan) {
    Collect();
    TakeUnclustered();
    SetFinishing();
    bool settled = false;
    for (int round = 0; round < kMostRounds && !settled; ++round) settled = !Round();
    Finish(settled && !over_budget_, plan);
  }

 private:
  // --- what there is

  void Collect() {
    std::map<std::string_view, std::pair<int, const RunRecord*>> records;
    for (const RunRecord& run : layout_.runs) {
      const int order = static_cast<int>(records.size());
      records.emplace(run.run_id, std::make_pair(order, &run));
    }
    std::map<std::pair<std::string_view, int>, int> runs;  // by id and class
    const std::string spec_id = spec_.SpecId();
    for (size_t i = 0; i < layout_.units.size(); ++i) {
      const Unit& unit = layout_.units[i];
      const bool stale =
          layout_.size_rule == SizeRule::kGroups && unit.stamp && unit.stamp->spec_id != spec_id;
      if (!unit.stamp || stale) {
        unclustered_.push_back(static_cast<int>(i));
        continue;
      }
      if (!OfDeclaredColumns(unit.stamp->field_ids, spec_)) {
        ++mismatched_;
        continue;
      }
      const auto [at, added] =
          runs.emplace(std::make_pair(std::string_view(unit.stamp->run_id), unit.rewrite_class),
                       static_cast<int>(runs_.size()));
      if (added) {
        Run run;
        run.rewrite_class = unit.rewrite_class;
        if (const auto record = records.find(unit.stamp->run_id); record != records.end()) {
          run.order = record->second.first;
          const RunRecord& known = *record->second.second;
          run.settled = known.settled && known.theta > 0 && known.theta <= spec_.theta;
          run.barred = AchievedTooLittle(known);
          run.rewrote = IsRewrite(known);
        }
        runs_.push_back(run);
      }
      Tile tile;
      tile.box = BoxOf(ranks_, static_cast<int>(i));
      for (int k = 0; k < n_ && runs_[at->second].rewrote; ++k) {
        // A rewrite has not told where its rows lie, and another would not: nothing to gain.
        if (ranks_.intervals[k][i].unknown) tile.box.Clear(k);
      }
      tile.rows = unit.rows;
      tile.bytes = unit.bytes;
      tile.units = OutputUnits(unit.rows, unit.bytes, options_);
      tile.unit = static_cast<int>(i);
      tile.run = at->second;
      tiles_.push_back(tile);
    }
  }

  // --- budgets

  bool Fits(const Totals& more) const {
    Totals all = spent_;
    all.Add(more);
    return all.Fits(options_.budgets);
  }
  /// Something worth a rewrite does not fit; remembers the smallest such.
  void LeaveOut(const Totals& needed) {
    if (!over_budget_ || needed.bytes < smallest_left_.bytes) smallest_left_ = needed;
    over_budget_ = true;
  }
  static void Add(const Tile& tile, Totals* totals) {
    if (tile.unit < 0) return;
    ++totals->units;
    totals->rows += tile.rows;
    totals->bytes += tile.bytes;
  }

  /// Bounded runs without new data: the newest run is of this policy and a budget cut it short.
  void SetFinishing() {
    finishing_ = options_.budgets.any() && unclustered_.empty() && !layout_.runs.empty() &&
                 layout_.runs.back().theta > 0 && !layout_.runs.back().settled;
    if (!finishing_) return;
    double avoidable = 0, bytes = 0;
    for (const Tile& tile : tiles_) {
      avoidable += ranks_.Avoidable(tile.unit, tile.box);
      bytes += static_cast<double>(tile.bytes);
    }
    least_gain_ = kLeastGain * avoidable / std::max(1.0, bytes);
  }

  // --- selections and their predicted units

  int NewPending(int rewrite_class) {
    Run run;
    run.rewrite_class = rewrite_class;
    run.order = static_cast<int>(layout_.runs.size());
    run.selection = static_cast<int>(pending_.size());
    pending_.emplace_back();
    pending_.back().run = static_cast<int>(runs_.size());
    runs_.push_back(run);
    return run.selection;
  }

  int Root(int selection) const {
    while (pending_[selection].joined >= 0) selection = pending_[selection].joined;
    return selection;
  }

  /// Adds the predicted units of a sort of these rows.
  void AddPredicted(const std::vector<BoxMass>& rows, int64_t row_count, int64_t bytes, int run) {
    const double units = OutputUnits(row_count, bytes, options_);
    const int count = static_cast<int>(std::clamp(std::round(units), 1.0, kMostTiles));
    for (const RankBoxOf& box : TileSort(rows, count, ranks_.keys)) {
      Tile tile;
      tile.box = box;
      tile.units = units / count;
      tile.rows = row_count / count;
      tile.bytes = bytes / count;
      tile.run = run;
      tiles_.push_back(tile);
    }
  }

  /// Unclustered units are sorted in any case, as far as the budgets let it: in the planner's model
  /// first by themselves.
  void TakeUnclustered() {
    if (options_.budgets.any()) {
      auto worth = [&](int unit) {
        return ranks_.Avoidable(unit) /
               static_cast<double>(std::max<int64_t>(1, layout_.units[unit].bytes));
      };
      std::stable_sort(unclustered_.begin(), unclustered_.end(), [&](int a, int b) {
        const double x = worth(a), y = worth(b);
        return x != y ? x > y : layout_.units[a].id < layout_.units[b].id;
      });
    }
    std::map<int, int> selections;  // by class
    std::map<int, std::vector<BoxMass>> rows;
    std::map<int, Totals> sizes;
    for (int unit : unclustered_) {
      const Unit& of = layout_.units[unit];
      const Totals cost{1, of.rows, of.bytes};
      if (!Fits(cost)) {
        LeaveOut(cost);
        continue;
      }
      spent_.Add(cost);
      const auto [at, added] = selections.emplace(of.rewrite_class, 0);
      if (added) at->second = NewPending(of.rewrite_class);
      pending_[at->second].units.push_back(unit);
      ++pending_[at->second].unclustered;
      sizes[of.rewrite_class].Add(cost);
      rows[of.rewrite_class].push_back(
          {BoxOf(ranks_, unit), OutputUnits(std::max<int64_t>(1, of.rows), of.bytes, options_)});
    }
    for (const auto& [rewrite_class, selection] : selections) {
      const Totals& size = sizes[rewrite_class];
      AddPredicted(rows[rewrite_class], size.rows, size.bytes, pending_[selection].run);
    }
  }

  // --- regions

  /// The halvings of each key that make up the cells of one grid.
  struct Shape {
    std::array<int, kMostKeys> halvings{};
    /// By key, as bits: whether the grid lies half a cell further on.
    int shifted = 0;
  };

  /// Where a tile is, for all grids: the middle of its box in units of the finest cells, and the
  /// finest level at which it is not too wide for a cell.
  struct Place {
    int tile;
    int rewrite_class;
    std::array<uint32_t, kMostKeys> middle;
    std::array<int8_t, kMostKeys> finest;
  };
  static constexpr int kFinest = kMostLevels + 1;

  Place PlaceOf(int at) const {
    const Tile& tile = tiles_[at];
    const double slack = options_.budgets.any() ? kSlackInBudget : kSlack;
    Place place{at, runs_[tile.run].rewrite_class, {}, {}};
    for (int k = 0; k < n_; ++k) {
      place.finest[k] = kFinest;
      if (!tile.box.holds[k]) {
        place.middle[k] = uint32_t{3} << (kFinest - 1);  // without a value: a cell of its own
        continue;
      }
      const double middle = (tile.box.below[k] + tile.box.upto[k]) / 2;
      place.middle[k] = static_cast<uint32_t>(
          std::clamp(std::ldexp(middle, kFinest), 0.0, std::ldexp(1.0, kFinest) - 1));
      const double width = tile.box.width(k);
      if (width > 0) {
        place.finest[k] = static_cast<int8_t>(
            std::clamp(std::floor(std::log2(slack / width)), 0.0, double{kFinest}));
      }
    }
    return place;
  }

  /// The cell of a tile in this grid; false when it is too wide for one.
  bool CellOf(const Place& place, const Shape& shape, uint64_t* cell) const {
    auto at = static_cast<uint64_t>(place.rewrite_class);
    for (int k = 0; k < n_; ++k) {
      const int halvings = shape.halvings[k];
      if (halvings > place.finest[k]) return false;
      const bool shifted = halvings > 0 && (shape.shifted >> k & 1) != 0;
      const uint32_t shift = shifted ? (uint32_t{1} << (kFinest - halvings)) / 2 : 0;
      at = at << (halvings + 1) | (place.middle[k] + shift) >> (kFinest - halvings);
    }
    *cell = at;
    return true;
  }

  /// Down to cells of about one unit.
  int Levels() const {
    const auto tiles =
        std::count_if(tiles_.begin(), tiles_.end(), [](const Tile& tile) { return !tile.taken; });
    const double octaves = std::log2(std::max(1.0, static_cast<double>(tiles)));
    return std::min(static_cast<int>(octaves / std::max(1, n_)), kMostLevels);
  }

  /// Square cells at every level and, of two keys, also those halved once more along one of them:
  /// new rows often lie in a band. To finish what a budget cut short also shifted ones, whose cells
  /// have the borders of earlier sorts in their middle.
  std::vector<Shape> Shapes() const {
    std::vector<Shape> shapes;
    const int levels = Levels();
    for (int level = 0; level <= levels; ++level) {
      Shape shape;
      std::fill(shape.halvings.begin(), shape.halvings.begin() + n_, level);
      shapes.push_back(shape);
      for (int k = 0; n_ == 2 && k < n_; ++k) {
        Shape longer = shape;
        ++longer.halvings[k];
        shapes.push_back(longer);
      }
    }
    const size_t plain = finishing_ ? shapes.size() : 0;
    for (int shifted = 1; shifted < 1 << n_; ++shifted) {
      for (size_t i = 1; i < plain; ++i) {
        shapes.push_back(shapes[i]);
        shapes.back().shifted = shifted;
      }
    }
    return shapes;
  }

  /// Looks at all regions once and takes what is worth it, the best first. False: nothing was.
  bool Round() {
    std::vector<Candidate> queue;  // a heap
    auto push = [&](Candidate candidate) {
      queue.push_back(std::move(candidate));
      std::push_heap(queue.begin(), queue.end());
    };
    std::vector<Place> places;
    for (size_t i = 0; i < tiles_.size(); ++i) {
      if (!tiles_[i].taken) places.push_back(PlaceOf(static_cast<int>(i)));
    }
    std::vector<KeyRow64> placed;
    for (const Shape& shape : Shapes()) {
      placed.clear();
      for (const Place& place : places) {
        uint64_t cell = 0;
        if (CellOf(place, shape, &cell))
          placed.push_back({static_cast<uint64_t>(place.tile), cell});
      }
      SortKeyRows(placed.data(), static_cast<int64_t>(placed.size()));
      for (size_t from = 0, to = 0; from < placed.size(); from = to) {
        const int run = tiles_[placed[from].row].run;
        bool several = false;
        for (to = from; to < placed.size() && placed[to].key == placed[from].key; ++to) {
          several |= tiles_[placed[to].row].run != run;
        }
        // What was looked at before and has no new tile has nothing new to tell.
        if (!several || placed[to - 1].row < static_cast<uint64_t>(looked_at_)) continue;
        Candidate candidate;
        candidate.tiles.reserve(to - from);
        for (size_t i = from; i < to; ++i) {
          candidate.tiles.push_back(static_cast<int>(placed[i].row));
        }
        if (Evaluate(&candidate)) push(std::move(candidate));
      }
    }
    looked_at_ = static_cast<int>(tiles_.size());
    bool any = false;
    while (!queue.empty()) {
      std::pop_heap(queue.begin(), queue.end());
      Candidate candidate = std::move(queue.back());
      queue.pop_back();
      auto taken = [&](int tile) { return tiles_[tile].taken; };
      if (std::any_of(candidate.chosen.begin(), candidate.chosen.end(), taken) ||
          !Fits(CostOf(candidate.chosen))) {
        std::erase_if(candidate.tiles, taken);
        if (++candidate.looks < kMostLooks && Evaluate(&candidate)) {
          push(std::move(candidate));
        }
        continue;
      }
      Take(candidate);
      any = true;
    }
    return any;
  }

  Totals CostOf(const std::vector<int>& tiles) const {
    Totals cost;
    for (int tile : tiles) Add(tiles_[tile], &cost);
    return cost;
  }

  /// A run's tiles, as a stretch of a region's.
  struct RunTiles {
    int run;
    size_t begin, end;
  };

  /// Puts the tiles of a region in the order of their runs; gives the runs from the smallest up.
  std::vector<RunTiles> ByRun(std::vector<int>* tiles) {
    by_run_.clear();
    for (int tile : *tiles) {
      by_run_.push_back(static_cast<uint64_t>(tiles_[tile].run) << 32 |
                        static_cast<uint32_t>(tile));
    }
    std::sort(by_run_.begin(), by_run_.end());
    for (size_t i = 0; i < by_run_.size(); ++i) {
      (*tiles)[i] = static_cast<int>(static_cast<uint32_t>(by_run_[i]));
    }
    std::vector<RunTiles> runs;
    for (size_t i = 0; i < tiles->size(); ++i) {
      const int run = tiles_[(*tiles)[i]].run;
      if (runs.empty() || runs.back().run != run) runs.push_back({run, i, i});
      runs.back().end = i + 1;
    }
    std::sort(runs.begin(), runs.end(), [](const RunTiles& a, const RunTiles& b) {
      const size_t x = a.end - a.begin, y = b.end - b.begin;
      return x != y ? x < y : a.run > b.run;
    });
    return runs;
  }

  /// Whether the rule lets a set of runs be rewritten at all.
  class Eligibility {
   public:
    Eligibility(double theta, bool finishing) : theta_(theta), finishing_(finishing) {}
    void Add(const Run& run, int64_t rows) {
      if (run.order > newest_order_) {
        newest_order_ = run.order;
        newest_settled_ = run.settled;
      }
      rows_ += rows;
      if (run.barred) barred_rows_ = std::max(barred_rows_, rows);
    }
    bool eligible() const {
      if (finishing_ && barred_rows_ > 0) return false;
      return !newest_settled_ &&
             static_cast<double>(rows_) * (1 - theta_) >= static_cast<double>(barred_rows_);
    }

   private:
    double theta_;
    bool finishing_;
    int newest_order_ = -2;
    bool newest_settled_ = false;
    int64_t rows_ = 0, barred_rows_ = 0;
  };

  /// Finds the best set of runs of the region. False: none is worth a rewrite and fits the budgets.
  bool Evaluate(Candidate* candidate) {
    const std::vector<RunTiles> runs = ByRun(&candidate->tiles);
    RankBoxOf extent, whole;
    for (int tile : candidate->tiles) whole.Add(tiles_[tile].box, n_);
    density_.Reset(whole, candidate->tiles.size());
    Eligibility eligibility(spec_.theta, finishing_);
    const double worth_it = finishing_ ? kFinishing : 1;
    Totals cost;
    double current = 0, units = 0, best = 0;
    std::array<double, kMostKeys> holding{};
    size_t best_runs = 0;
    for (size_t r = 0; r < runs.size(); ++r) {
      int64_t rows = 0;
      for (size_t i = runs[r].begin; i < runs[r].end; ++i) {
        const Tile& tile = tiles_[candidate->tiles[i]];
        current += tile.box.MeanWidth(n_);
        extent.Add(tile.box, n_);
        density_.Add(tile.box, tile.units);
        units += tile.units;
        for (int k = 0; k < n_; ++k) holding[k] += tile.box.holds[k] ? tile.units : 0;
        rows += tile.rows;
        Add(tile, &cost);
      }
      eligibility.Add(runs_[runs[r].run], rows);
      if (r == 0 || !eligibility.eligible()) continue;
      double predicted = 0, unavoidable = 0;
      Predict(extent, units, holding, density_.Extents(), &predicted, &unavoidable);
      const double gain = current - predicted;
      if (!(gain > 1e-9) ||
          gain < worth_it * (spec_.theta * (current - unavoidable) + kNoticed * unavoidable) ||
          gain < least_gain_ * static_cast<double>(cost.bytes)) {
        continue;
      }
      if (!Fits(cost)) {
        LeaveOut(cost);
        continue;
      }
      const double worth = options_.budgets.any()
                               ? gain / static_cast<double>(std::max<int64_t>(1, cost.bytes))
                               : gain;
      if (worth > best) {
        best = worth;
        best_runs = r + 1;
      }
    }
    if (best_runs == 0) return false;
    candidate->worth = best;
    candidate->chosen.clear();
    for (size_t r = 0; r < best_runs; ++r) {
      const auto tiles = candidate->tiles.begin();
      candidate->chosen.insert(candidate->chosen.end(), tiles + static_cast<int64_t>(runs[r].begin),
                               tiles + static_cast<int64_t>(runs[r].end));
    }
    return true;
  }

  /// The values of a region that are wider on a key than a unit of its sort would be.
  struct WideValues {
    int count = 0;
    double share = 0;  ///< of the region's width
  };
  WideValues WideOf(int key, const RankBoxOf& extent, double units) const {
    WideValues wide;
    const double width = extent.width(key);
    if (values_[key].empty() || !(width > 0)) return wide;
    const double least = width * std::pow(units, -1.0 / n_);
    auto at = std::lower_bound(values_[key].begin(), values_[key].end(), extent.below[key] - 1e-9,
                               [](const auto& value, double rank) { return value.below < rank; });
    for (; at != values_[key].end() && at->upto <= extent.upto[key] + 1e-9; ++at) {
      const double mass = at->upto - at->below;
      if (mass < least) continue;
      ++wide.count;
      wide.share += mass / width;
    }
    wide.share = std::min(1.0, wide.share);
    return wide;
  }

  /// Depth of one sort of a region into so many units, and what of it no layout can avoid; means
  /// over the keys. On each key only the units count that are known to hold values of it. The rows
  /// of a wide value are a part of the region that has one key fewer, and their units are of that
  /// value; so the region is summed up over all combinations of keys on which a row has a wide
  /// value.
  void Predict(const RankBoxOf& extent, double rows, const std::array<double, kMostKeys>& holding,
               const std::array<double, kMostKeys>& extents, double* predicted,
               double* unavoidable) const {
    const double units = std::max(1.0, rows);
    std::array<WideValues, kMostKeys> wide;
    std::array<double, kMostKeys> sorted{};
    for (int k = 0; k < n_; ++k) wide[k] = WideOf(k, extent, units);
    for (int of_wide = 0; of_wide < 1 << n_; ++of_wide) {
      double parts = 1, share = 1;
      int keys = 0;  // that still vary
      for (int k = 0; k < n_; ++k) {
        const bool is_wide = (of_wide >> k & 1) != 0;
        share *= is_wide ? wide[k].share : 1 - wide[k].share;
        if (is_wide) parts *= wide[k].count;
        keys += !is_wide;
      }
      if (!(share > 1e-9) || parts <= 0 || keys == 0) continue;
      const double in_part = units * share / parts;
      const double opened = in_part <= 1 ? in_part * parts
                                         : parts * (keys == 1 && n_ > 1 ? 1 : kSortConstant) *
                                               std::pow(in_part, 1 - 1.0 / keys);
      for (int k = 0; k < n_; ++k) {
        if ((of_wide >> k & 1) == 0) sorted[k] += opened * (1 - wide[k].share);
      }
    }
    for (int k = 0; k < n_; ++k) {
      const double width = extent.width(k);
      if (!(width > 0)) continue;
      // Σ p² / extent: see PredictDepth.
      const double repeats =
          repeats_[k] ? ranks_.keys[k].RepeatedSquareSum(extent.below[k], extent.upto[k]) / width
                      : 0;
      const double spread = units <= 1 ? width : std::min(width, extents[k]);
      const double held = std::max(1.0, holding[k]);
      *predicted += std::min(held * width, sorted[k] * spread + held * repeats) / n_;
      *unavoidable += held * std::min(width, repeats) / n_;
    }
  }

  void Take(const Candidate& candidate) {
    const int rewrite_class = runs_[tiles_[candidate.chosen.front()].run].rewrite_class;
    spent_.Add(CostOf(candidate.chosen));
    // A predicted tile brings the whole selection that it is of.
    int into = -1;
    for (int at : candidate.chosen) {
      const int selection = runs_[tiles_[at].run].selection;
      if (selection < 0) continue;
      const int root = Root(selection);
      if (into < 0) into = root;
      if (root != into) Join(root, into);
    }
    if (into < 0) into = NewPending(rewrite_class);
    Pending& pending = pending_[into];
    std::vector<BoxMass> rows;
    int64_t row_count = 0, bytes = 0;
    for (int at : candidate.chosen) {
      Tile& tile = tiles_[at];
      tile.taken = true;
      row_count += tile.rows;
      bytes += tile.bytes;
      rows.push_back({tile.box, tile.units});
      if (tile.unit < 0) continue;
      pending.units.push_back(tile.unit);
      pending.past_runs.insert(tile.run);
      ++pending.overlapping;
    }
    AddPredicted(rows, row_count, bytes, pending.run);
  }

  void Join(int from, int into) {
    Pending& lost = pending_[from];
    Pending& kept = pending_[into];
    kept.units.insert(kept.units.end(), lost.units.begin(), lost.units.end());
    kept.unclustered += lost.unclustered;
    kept.overlapping += lost.overlapping;
    kept.past_runs.merge(lost.past_runs);
    for (Tile& tile : tiles_) {
      if (tile.run == lost.run) tile.run = kept.run;
    }
    lost = Pending();
    lost.joined = into;
  }

  // --- the plan

  std::string Describe(const Pending& pending) const {
    std::string text;
    if (pending.unclustered > 0) {
      text = Plural(pending.unclustered, "unclustered unit", "unclustered units");
    }
    if (pending.overlapping > 0) {
      text += fmt::format("{}{} of {}", text.empty() ? "" : ", ",
                          Plural(pending.overlapping, "overlapping unit", "overlapping units"),
                          Plural(static_cast<int64_t>(pending.past_runs.size()), "run", "runs"));
    }
    return text;
  }

  void Finish(bool settled, Plan* plan) {
    plan->theta = spec_.theta;
    plan->settled = settled;
    plan->correction = CorrectionOf(layout_);
    int64_t predicted = 0;
    for (const Tile& tile : tiles_) predicted += !tile.taken && tile.unit < 0;
    const bool few = predicted <= kMostModelled;
    for (const Tile& tile : tiles_) {
      if (!few && !tile.taken && tile.unit < 0) plan->predicted_boxes.push_back(tile.box);
    }
    for (Pending& pending : pending_) {
      if (pending.joined >= 0 || pending.units.empty()) continue;
      const std::string reason = Describe(pending);
      Selection selection = MakeSelection(layout_, std::move(pending.units), spec_, options_);
      selection.reason = reason;
      if (few) PredictBoxes(layout_, ranks_, spec_, options_, &selection, plan);
      AddSelection(layout_, std::move(selection), plan);
    }
    PredictAfter(layout_, ranks_, plan);
    if (mismatched_ > 0) {
      plan->notes.push_back(fmt::format("{} clustered by other columns: only --full rewrites them",
                                        Plural(mismatched_, "unit is", "units are")));
    }
    if (plan->selections.empty()) {
      plan->reason = over_budget_ ? TooSmallFor(smallest_left_, options_.budgets) : Nothing();
    } else if (over_budget_) {
      plan->notes.push_back("the budget left rewrites that are worth it for later runs");
    }
  }

  std::string Nothing() const {
    return fmt::format(
        "nowhere would one sort of several runs cut the {}s that are avoidably opened by {:.3g} %",
        layout_.unit_name, 100 * (finishing_ ? kFinishing : 1) * spec_.theta);
  }

  const Layout& layout_;
  const ClusteringSpec& spec_;
  const PlanOptions& options_;
  const Ranks& ranks_;
  const int n_;
  std::vector<char> repeats_;  // by key: whether any value is repeated enough to matter
  std::vector<std::vector<KeyDistribution::ValueRanks>> values_;  // by key: repeated ones
  RegionDensity density_;
  std::vector<Tile> tiles_;
  std::vector<Run> runs_;
  std::vector<Pending> pending_;
  std::vector<int> unclustered_;
  std::vector<uint64_t> by_run_;  // run and tile, while a region is put in order
  int looked_at_ = 0;             // tiles before this one took part in an earlier round
  int64_t mismatched_ = 0;
  Totals spent_, smallest_left_;
  bool over_budget_ = false;
  bool finishing_ = false;  ///< what earlier runs had no budget for
  double least_gain_ = 0;   ///< per byte
};

}  // namespace

arrow::Status PlanByOverlap(const Layout& layout, const ClusteringSpec& spec,
                            const PlanOptions& options, const Ranks& ranks, Plan* plan) {
  OverlapPlanner(layout, spec, options, ranks).MakePlan(plan);
  return arrow::Status::OK();
}

}  // namespace thalweg
