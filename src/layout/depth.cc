#include "layout/depth.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

namespace thalweg {
namespace {

constexpr int kHistogramSteps = 32;

/// How many units each rank is in, from one sweep over the ends of the intervals.
void Sweep(const std::vector<RankInterval>& intervals, KeyHealth* health) {
  std::vector<double> starts, ends;
  for (const RankInterval& interval : intervals) {
    if (interval.empty || !(interval.upto > interval.below)) continue;
    starts.push_back(interval.below);
    ends.push_back(interval.upto);
  }
  std::sort(starts.begin(), starts.end());
  std::sort(ends.begin(), ends.end());
  std::vector<double> ranks_at_depth(starts.size() + 1, 0.0);
  std::vector<double> in_step(kHistogramSteps, 0.0);
  size_t started = 0, ended = 0;
  double rank = 0;
  while (ended < ends.size()) {
    const double next =
        started < starts.size() ? std::min(starts[started], ends[ended]) : ends[ended];
    if (next > rank) {
      const size_t depth = started - ended;
      ranks_at_depth[depth] += next - rank;
      for (auto step = static_cast<int>(rank * kHistogramSteps); step < kHistogramSteps; ++step) {
        const double from = std::max(rank, static_cast<double>(step) / kHistogramSteps);
        const double to = std::min(next, static_cast<double>(step + 1) / kHistogramSteps);
        if (to <= from) break;
        in_step[step] += static_cast<double>(depth) * (to - from) * kHistogramSteps;
      }
      rank = next;
    }
    if (ends[ended] <= next) {
      ++ended;
    } else {
      ++started;
    }
  }
  ranks_at_depth[0] += std::max(0.0, 1 - rank);
  double covered = 0;
  bool have_p95 = false;
  for (size_t depth = 0; depth < ranks_at_depth.size(); ++depth) {
    if (ranks_at_depth[depth] <= 0) continue;
    covered += ranks_at_depth[depth];
    if (!have_p95 && covered >= 0.95 - 1e-9) {
      health->depth_p95 = static_cast<double>(depth);
      have_p95 = true;
    }
    // A sliver of rounding is no depth.
    if (ranks_at_depth[depth] > 1e-12) health->depth_max = static_cast<double>(depth);
  }
  for (double depth : in_step) health->histogram.push_back(std::llround(depth));
}

}  // namespace

double PredictDepth(double extent, double units, int keys, double repeated_square_sum) {
  if (units <= 0 || extent <= 0) return 0;
  const double sorted = 1.1 * extent * std::pow(units, 1 - 1.0 / std::max(1, keys));
  return std::min(units * extent, sorted + units * repeated_square_sum);
}

double WindowOpens(const RankInterval& interval, double window) {
  if (interval.empty) return 0;
  if (window >= 1) return 1;
  const double from = std::max(0.0, interval.below - window);
  const double to = std::min(1 - window, interval.upto);
  return std::clamp((to - from) / (1 - window), 0.0, 1.0);
}

LayoutHealth MeasureLayout(const Layout& layout) {
  LayoutHealth health;
  const size_t units = layout.units.size();
  const int keys = static_cast<int>(layout.columns.size());
  double all_rows = 0;
  for (const Unit& unit : layout.units) all_rows += static_cast<double>(unit.rows);
  const double per_row = all_rows > 0 ? 1 / all_rows : 0;

  std::vector<double> box1(units, 1.0), box10(units, 1.0);
  std::vector<RankInterval> intervals;
  for (int k = 0; k < keys; ++k) {
    const KeyDistribution distribution = KeyDistribution::Make(layout, k, &intervals);
    KeyHealth key;
    key.name = layout.columns[k].name;
    key.null_share = distribution.null_share();
    key.distribution = distribution.source();
    double holding = 0;  // units that hold values at all
    for (size_t i = 0; i < units; ++i) {
      const Unit& unit = layout.units[i];
      const RankInterval& interval = intervals[i];
      const double share = static_cast<double>(unit.rows) * per_row;
      const double width = interval.width();
      const double opens1 = WindowOpens(interval, 0.01), opens10 = WindowOpens(interval, 0.1);
      key.depth_mean += width;
      key.rows_share += width * share;
      key.box1_files += opens1;
      key.box10_files += opens10;
      key.box1_rows += opens1 * share;
      key.box10_rows += opens10 * share;
      box1[i] *= opens1;
      box10[i] *= opens10;
      holding += !interval.empty;
      key.unknown_units += interval.unknown;
      const UnitColumn* column =
          static_cast<size_t>(k) < unit.columns.size() ? &unit.columns[k] : nullptr;
      key.null_units += unit.rows > 0 && (!column || column->null_count != 0);
      key.constant_units += !interval.empty && !interval.unknown && column && column->lower &&
                            column->lower == column->upper;
    }
    const double squares = distribution.repeated_square_sum();
    key.ideal = PredictDepth(1, holding, keys, squares);
    key.unavoidable = key.ideal > 0 ? std::min(1.0, holding * squares / key.ideal) : 0;
    key.efficiency = key.depth_mean > 0 ? std::min(1.0, key.ideal / key.depth_mean) : 1;
    Sweep(intervals, &key);
    health.depth += key.depth_mean / keys;
    health.ideal += key.ideal / keys;
    health.keys.push_back(std::move(key));
  }
  health.efficiency = health.depth > 0 ? std::min(1.0, health.ideal / health.depth) : 1;
  for (size_t i = 0; keys > 0 && i < units; ++i) {
    const double share = static_cast<double>(layout.units[i].rows) * per_row;
    health.box1_files += box1[i];
    health.box10_files += box10[i];
    health.box1_rows += box1[i] * share;
    health.box10_rows += box10[i] * share;
  }
  return health;
}

bool IsRewrite(const RunRecord& run) { return run.theta > 0 || run.source_units > 0; }

std::vector<char> KeysWithoutStatistics(const Layout& layout) {
  std::set<std::string_view> rewrites;
  for (const RunRecord& run : layout.runs) {
    if (IsRewrite(run)) rewrites.insert(run.run_id);
  }
  const size_t keys = layout.columns.size();
  std::vector<char> any(keys, 0), told(keys, 0);
  for (const Unit& unit : layout.units) {
    if (!unit.stamp || !rewrites.contains(unit.stamp->run_id)) continue;
    const auto& sorted_by = unit.stamp->field_ids;
    for (size_t k = 0; k < keys; ++k) {
      const int32_t id = layout.columns[k].field_id;
      if (std::find(sorted_by.begin(), sorted_by.end(), id) == sorted_by.end()) continue;
      any[k] = 1;
      told[k] |= k < unit.columns.size() && unit.columns[k].usable;
    }
  }
  for (size_t k = 0; k < keys; ++k) any[k] = any[k] && !told[k];
  return any;
}

}  // namespace thalweg
