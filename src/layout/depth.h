#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "layout/unit.h"

namespace thalweg {

/// The distribution of one key column over the table, for widths: a piecewise-linear distribution function over encoded values with
/// point masses for repeated values, plus the null share. Mixture of the live runs' quantiles weighted by their rows, and of the units of
/// no run with their rows spread evenly between their bounds (strings by the eight bytes after the common prefix).
class KeyDistribution {
 public:
  static KeyDistribution Make(const Layout& layout, int column);

  /// P(lower <= V <= upper) for a random non-null value V, both ends inclusive; an absent bound is open.
  double Mass(const std::string* lower, const std::string* upper) const;
  /// P(V < value) and P(V <= value).
  double Below(std::string_view value) const;
  double UpTo(std::string_view value) const;
  double null_share() const { return null_share_; }
  /// Sum of squared masses of the repeated values.
  double repeated_square_sum() const { return repeated_square_sum_; }
  /// "runs", "bounds" or "runs and bounds": what it was made of.
  const std::string& source() const { return source_; }

 private:
  struct Step {
    std::string value;
    double below;  ///< P(V < value)
    double upto;   ///< P(V <= value)
  };
  std::vector<Step> steps_;
  double null_share_ = 0;
  double repeated_square_sum_ = 0;
  std::string source_;
};

/// Health of one key from metadata alone (design section 5).
struct KeyHealth {
  std::string name;
  double depth_mean = 0;  ///< expected number of units that an equality on a random non-null value opens: the sum of widths
  double depth_p95 = 0;   ///< over values drawn by rows
  double depth_max = 0;
  double ideal = 0;       ///< predicted depth of one perfect sort of the whole table into as many units
  double unavoidable = 0;  ///< share of `ideal` that repeated values cost whatever the layout
  double efficiency = 1;  ///< ideal / depth_mean, at most 1
  double rows_share = 0;  ///< rows read by an equality, share of all rows
  double box1_files = 0, box10_files = 0;  ///< units opened by a box of 1 % and 10 % of the ranks on this key alone
  double box1_rows = 0, box10_rows = 0;    ///< rows read by it, share of all rows
  double null_share = 0;
  double null_units = 0;   ///< units that an IS NULL opens
  int unknown_units = 0;   ///< units without usable statistics
  int constant_units = 0;  ///< lower == upper
  std::string distribution;  ///< KeyDistribution::source()
  std::vector<int64_t> histogram;  ///< depth over 32 equal rank steps (rounded)
};

struct LayoutHealth {
  std::vector<KeyHealth> keys;
  double depth = 0;       ///< mean over the keys
  double ideal = 0;
  double efficiency = 1;
  double box1_files = 0, box10_files = 0;  ///< units opened by boxes of 1 % and 10 % on every key at once
};
LayoutHealth MeasureLayout(const Layout& layout);

/// Expected units that an equality on each key opens after one sort of `rows` of a region into m units: design section 5,
/// predicted_k = min(m·extent_k, 1.1·extent_k·m^(1-1/N) + m·Σ p_j²).
double PredictDepth(double extent, double units, int keys, double repeated_square_sum);

}  // namespace thalweg
