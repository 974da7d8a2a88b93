#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layout/key_distribution.h"
#include "layout/unit.h"

namespace thalweg {

/// Health of one key from metadata alone.
struct KeyHealth {
  std::string name;
  double depth_mean = 0;  ///< expected number of units that an equality on a random non-null value
                          ///< opens: the sum of widths
  double depth_p95 = 0;   ///< over values drawn by rows
  double depth_max = 0;   ///< the most units that any rank is in
  double ideal = 0;  ///< predicted depth of one perfect sort of the whole table into as many units
  double unavoidable = 0;  ///< share of `ideal` that repeated values cost whatever the layout
  double efficiency = 1;   ///< ideal / depth_mean, at most 1
  double rows_share = 0;   ///< rows read by an equality, share of all rows
  double box1_files = 0,
         box10_files = 0;  ///< units opened by a box of 1 % and 10 % of the ranks on this key alone
  double box1_rows = 0, box10_rows = 0;  ///< rows read by it, share of all rows
  double null_share = 0;
  double null_units = 0;           ///< units that an IS NULL opens
  int unknown_units = 0;           ///< units without usable statistics
  int constant_units = 0;          ///< lower == upper
  std::string distribution;        ///< KeyDistribution::source()
  std::vector<int64_t> histogram;  ///< mean depth over each of 32 equal rank steps (rounded)
};

struct LayoutHealth {
  std::vector<KeyHealth> keys;
  double depth = 0;  ///< mean over the keys
  double ideal = 0;
  double efficiency = 1;
  double box1_files = 0,
         box10_files = 0;  ///< units opened by boxes of 1 % and 10 % on every key at once
  double box1_rows = 0, box10_rows = 0;  ///< rows read by them, share of all rows
};
LayoutHealth MeasureLayout(const Layout& layout);

/// Whether a run rewrote units that were there before, in order to tell better where rows lie.
bool IsRewrite(const RunRecord& run);
/// For each key whether rewrites sorted units by it and none of these has usable statistics of it:
/// what another one writes will have none either.
std::vector<char> KeysWithoutStatistics(const Layout& layout);

/// Expected units that an equality on each key opens after one sort of `rows` of a region into m
/// units: predicted_k = min(m·extent_k, 1.1·extent_k·m^(1-1/N) + m·Σ p_j²).
/// `extent` is the mass of the region on key k; `repeated_square_sum` is Σ p_j² / extent_k over the
/// values in the region with their masses in the whole table: a query hits value j with probability
/// p_j, and then opens the share p_j / extent_k of the region's units.
double PredictDepth(double extent, double units, int keys, double repeated_square_sum);

/// The chance that a query for a window of `window` of all ranks of one key, its place drawn evenly
/// from [0, 1 - window], opens a unit: the window [t, t + window] meets [below, upto] when below -
/// window <= t <= upto, so it is (min(1 - window, upto) - max(0, below - window)) / (1 - window),
/// at least 0. Windows on several keys are independent, and a unit is opened when all of them meet
/// it: the product over the keys.
double WindowOpens(const RankInterval& interval, double window);

}  // namespace thalweg
