#include <algorithm>
#include <cmath>

#include "layout/depth.h"
#include "layout/planner_internal.h"

namespace thalweg {

Ranks::Ranks(const Layout& layout) : intervals(layout.columns.size()) {
  for (size_t k = 0; k < layout.columns.size(); ++k) {
    keys.push_back(KeyDistribution::Make(layout, static_cast<int>(k), &intervals[k]));
  }
}

double Ranks::Width(int unit) const {
  double sum = 0;
  for (const auto& key : intervals) sum += key[static_cast<size_t>(unit)].width();
  return keys.empty() ? 0 : sum / static_cast<double>(keys.size());
}

double Ranks::Avoidable(int unit) const { return Avoidable(unit, BoxOf(*this, unit)); }

double Ranks::Avoidable(int unit, const RankBoxOf& box) const {
  double sum = 0;
  for (size_t k = 0; k < keys.size(); ++k) {
    if (!box.holds[k]) continue;
    const RankInterval& interval = intervals[k][static_cast<size_t>(unit)];
    const double width = interval.width();
    if (width <= 0) continue;
    sum += std::max(0.0, width - interval.repeated_squares / width);
  }
  return keys.empty() ? 0 : sum / static_cast<double>(keys.size());
}

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
  // Drawn to 1 as by three more runs that achieved what was predicted: the first sort of rows of
  // which only the ends were known says little of later ones.
  return std::clamp(std::exp(sum / (count + 3)), 0.5, 2.0);
}

RankBoxOf BoxOf(const Ranks& ranks, int unit) {
  RankBoxOf box;
  for (int k = 0; k < ranks.key_count(); ++k) {
    const RankInterval& interval = ranks.intervals[k][static_cast<size_t>(unit)];
    if (interval.empty) continue;
    box.below[k] = interval.below;
    box.upto[k] = interval.upto;
    box.holds[k] = true;
  }
  return box;
}

void PredictAfter(const Layout& layout, const Ranks& ranks, Plan* plan) {
  const std::vector<char> selected = SelectedMask(layout, *plan);
  const std::vector<char> untold = KeysWithoutStatistics(layout);
  const int keys = ranks.key_count();
  plan->keys.assign(static_cast<size_t>(keys), {});
  plan->depth_before = plan->depth_after = 0;
  for (int k = 0; k < keys; ++k) {
    Plan::KeyDepth& depth = plan->keys[k];
    double kept = 0, predicted = 0, holding = 0;
    for (size_t i = 0; i < selected.size(); ++i) {
      const double width = ranks.intervals[k][i].width();
      depth.before += width;
      if (!selected[i]) kept += width;
    }
    for (const RankBoxOf& box : plan->predicted_boxes) {
      predicted += box.width(k);
      holding += box.holds[k];
    }
    depth.after = kept + (untold[k] ? holding : std::min(plan->correction * predicted, holding));
    plan->depth_before += depth.before / keys;
    plan->depth_after += depth.after / keys;
  }
}

}  // namespace thalweg
