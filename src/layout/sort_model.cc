#include "layout/sort_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <utility>

#include "curve/curve.h"
#include "sort/curve_profile.h"
#include "sort/cut_planner.h"

namespace thalweg {
namespace {

constexpr double kPointsPerFile = 128;
constexpr double kFewestPoints = 1024;

/// A point on one key: the ranks of its value, which are one where values do not repeat.
struct Value {
  double below = 0, upto = 0;
  bool null = false;
};

/// Points spread over the boxes by mass, `columns[k][i]` the value of point i on key k.
std::vector<std::vector<Value>> DrawPoints(const std::vector<DrawnRows>& rows, int64_t count,
                                           const std::vector<KeyDistribution>& keys) {
  std::mt19937_64 random(1);
  auto uniform = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  double total = 0, before = 0;
  for (const DrawnRows& box : rows) total += box.mass;
  if (!(total > 0)) return {};
  std::vector<std::vector<Value>> columns(keys.size());
  for (auto& column : columns) column.reserve(static_cast<size_t>(count));
  std::vector<char> repeats;  // by key: whether two points may have one value
  repeats.reserve(keys.size());
  for (const auto& key : keys) {
    repeats.push_back(std::sqrt(key.repeated_square_sum()) * static_cast<double>(count) > 0.5);
  }
  int64_t drawn = 0;
  for (const DrawnRows& box : rows) {
    before += box.mass;
    const auto until = std::min(
        count, static_cast<int64_t>(std::llround(before / total * static_cast<double>(count))));
    for (; drawn < until; ++drawn) {
      for (size_t k = 0; k < keys.size(); ++k) {
        const int key = static_cast<int>(k);
        Value value;
        value.null = !box.box.holds[k] || uniform() < box.nulls[k];
        value.below = value.upto = box.box.below[k] + box.box.width(key) * uniform();
        if (!value.null && repeats[k]) keys[k].WidenToValues(&value.below, &value.upto);
        columns[k].push_back(value);
      }
    }
  }
  return columns;
}

/// As typed-quantile-rank-v1 has it when all of the rows are sampled.
std::vector<uint32_t> Coordinates(const std::vector<Value>& column, int bits) {
  const uint32_t most = bits >= 32 ? ~uint32_t{0} : (uint32_t{1} << bits) - 1;
  std::vector<double> sorted;
  for (const Value& value : column) {
    if (!value.null) sorted.push_back(value.upto);
  }
  std::sort(sorted.begin(), sorted.end());
  const double step =
      static_cast<double>(most - 1) / static_cast<double>(std::max<size_t>(2, sorted.size()) - 1);
  std::vector<uint32_t> coordinates;
  coordinates.reserve(column.size());
  for (const Value& value : column) {
    if (value.null) {
      coordinates.push_back(most);
      continue;
    }
    const auto rank = std::upper_bound(sorted.begin(), sorted.end(), value.upto) - sorted.begin();
    coordinates.push_back(static_cast<uint32_t>(static_cast<double>(rank - 1) * step));
  }
  return coordinates;
}

/// Ends of the files among points that are sorted by their keys.
std::vector<int64_t> Ends(const std::vector<Key128>& sorted, const CutModel& cuts,
                          const ClusteringSpec& spec, int keys) {
  auto bins = MakeCurveBins(sorted, spec.curve, spec.bits_per_dim, keys, 0, 0);
  for (size_t b = 0, i = 0; b < bins.size(); ++b) {
    const size_t from = i;
    while (i < sorted.size() && (b + 1 == bins.size() || sorted[i] < bins[b + 1].begin)) ++i;
    bins[b].rows = bins[b].weight = static_cast<int64_t>(i - from);
  }
  const CutPlanner planner(std::move(bins), keys, CutPlanner::Unit::kRows);
  const auto count = static_cast<double>(sorted.size());
  const auto all = static_cast<int64_t>(sorted.size());
  std::vector<int64_t> cubes;
  if (cuts.cubes > 1) {
    const double cube = count / cuts.cubes;
    cubes = planner.Cuts(0, all, {cube, 0.9 * cube, 1.1 * cube}, /*may_exceed=*/false);
  }
  cubes.push_back(all);
  std::vector<int64_t> ends;
  int64_t begin = 0;
  for (int64_t end : cubes) {
    const auto inner = planner.Cuts(begin, end, FileWindow(cuts.file * count, cuts.hard_cap),
                                    /*may_exceed=*/!cuts.hard_cap);
    ends.insert(ends.end(), inner.begin(), inner.end());
    ends.push_back(end);
    begin = end;
  }
  return ends;
}

/// The files at the ends of each key reach as far as the rows are known to.
void ReachEnds(const std::vector<DrawnRows>& rows, int keys, std::vector<RankBoxOf>* boxes) {
  for (int k = 0; k < keys; ++k) {
    double below = 1, upto = 0;
    for (const DrawnRows& drawn : rows) {
      if (!drawn.box.holds[k]) continue;
      below = std::min(below, drawn.box.below[k]);
      upto = std::max(upto, drawn.box.upto[k]);
    }
    RankBoxOf *first = nullptr, *last = nullptr;
    for (RankBoxOf& box : *boxes) {
      if (!box.holds[k]) continue;
      if (first == nullptr || box.below[k] < first->below[k]) first = &box;
      if (last == nullptr || box.upto[k] > last->upto[k]) last = &box;
    }
    if (first == nullptr) continue;
    first->below[k] = std::min(first->below[k], below);
    last->upto[k] = std::max(last->upto[k], upto);
  }
}

}  // namespace

std::vector<RankBoxOf> ModelSort(const std::vector<DrawnRows>& rows, int64_t row_count,
                                 const CutModel& cuts, const ClusteringSpec& spec,
                                 const std::vector<KeyDistribution>& keys) {
  const double wanted = std::max(kFewestPoints, kPointsPerFile / cuts.file);
  const auto count =
      static_cast<int64_t>(std::min(wanted, static_cast<double>(std::max<int64_t>(1, row_count))));
  const auto columns = DrawPoints(rows, count, keys);
  if (columns.empty()) return {};
  const auto points = static_cast<int64_t>(columns.front().size());
  std::vector<std::vector<uint32_t>> coordinates;
  const uint32_t* pointers[kMostKeys];
  for (const auto& column : columns) {
    coordinates.push_back(Coordinates(column, spec.bits_per_dim));
    pointers[coordinates.size() - 1] = coordinates.back().data();
  }
  const int n = static_cast<int>(keys.size());
  std::vector<Key128> curve(static_cast<size_t>(points));
  CurveKeys(spec.curve, pointers, n, spec.bits_per_dim, points, curve.data());
  std::vector<std::pair<Key128, int64_t>> order;
  order.reserve(curve.size());
  for (int64_t i = 0; i < points; ++i) order.emplace_back(curve[static_cast<size_t>(i)], i);
  std::sort(order.begin(), order.end());
  for (size_t i = 0; i < order.size(); ++i) curve[i] = order[i].first;

  // Of the extent of a file's rows s points reach (s-1)/(s+1); along a single key the ends are cut
  // between neighbours, and it is (s-1)/s.
  auto reached = [n](double of) { return std::max(0.0, of - 1) / (n > 1 ? of + 1 : of); };
  std::vector<RankBoxOf> boxes;
  int64_t begin = 0;
  for (int64_t end : Ends(curve, cuts, spec, n)) {
    RankBoxOf box;
    std::array<bool, kMostKeys> value_below{}, value_upto{};  // the end is that of a repeated value
    for (int64_t i = begin; i < end; ++i) {
      for (int k = 0; k < n; ++k) {
        const Value& value = columns[k][static_cast<size_t>(order[static_cast<size_t>(i)].second)];
        if (value.null) continue;
        const bool repeated = value.upto > value.below;
        if (!box.holds[k] || value.below < box.below[k]) {
          box.below[k] = value.below;
          value_below[k] = repeated;
        }
        if (!box.holds[k] || value.upto > box.upto[k]) {
          box.upto[k] = value.upto;
          value_upto[k] = repeated;
        }
        box.holds[k] = true;
      }
    }
    const auto drawn = static_cast<double>(end - begin);
    const double of_rows = drawn * static_cast<double>(row_count) / static_cast<double>(points);
    const double wider = drawn > 1 ? reached(of_rows) / reached(drawn) - 1 : 0;
    for (int k = 0; k < n && wider > 0; ++k) {
      const double more = box.width(k) * wider / 2;
      if (!value_below[k]) box.below[k] = std::max(0.0, box.below[k] - more);
      if (!value_upto[k]) box.upto[k] = std::min(1.0, box.upto[k] + more);
    }
    boxes.push_back(box);
    begin = end;
  }
  ReachEnds(rows, n, &boxes);
  return boxes;
}

}  // namespace thalweg
