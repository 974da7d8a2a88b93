#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "key/key_type.h"
#include "layout/unit.h"

namespace thalweg {

/// Where the values of one unit lie in the rank space [0, 1] of one key: the unit may hold a value
/// of rank t when below <= t <= upto.
struct RankInterval {
  double below = 0;  ///< P(V < lower)
  double upto = 0;   ///< P(V <= upper)
  /// Sum of the squared masses of the single values in it (of repeated ones; see
  /// RepeatedSquareSum).
  double repeated_squares = 0;
  bool unknown = false;  ///< no usable statistics: the whole domain
  bool empty = false;    ///< no non-null value: no query on a value opens it
  /// P(lower <= V <= upper): the chance that an equality on a random non-null value opens the unit.
  double width() const { return empty ? 0 : upto - below; }
};

/// The distribution of one key column over the table, from metadata alone: what widths are measured
/// with (docs: layout depth).
///
/// A mixture, weighted by live non-null rows, of the quantiles that the live runs recorded and, for
/// units of no such run, of their rows spread evenly between their bounds. Integers, dates,
/// timestamps, decimals and booleans are spread over the *values* between the bounds, so that each
/// value has its mass; floating-point numbers over the numeric range; strings over the eight bytes
/// after the common prefix of the bounds. Repeated values of runs and the values of constant units
/// are point masses.
class KeyDistribution {
 public:
  /// `intervals`, when given, receives the rank interval of every unit. O(n log n) in the number of
  /// bounds and quantiles.
  static KeyDistribution Make(const Layout& layout, int column,
                              std::vector<RankInterval>* intervals = nullptr);

  /// P(lower <= V <= upper) for a random non-null value V, both ends inclusive; an absent bound is
  /// open. 1 when nothing is known of the column.
  double Mass(const std::string* lower, const std::string* upper) const;
  /// P(V < value) and P(V <= value).
  double Below(std::string_view value) const;
  double UpTo(std::string_view value) const;
  /// Share of all rows that hold null, as far as it is known.
  double null_share() const { return null_share_; }
  /// Sum of the squared masses of the single values (of repeated ones; a continuous spread has
  /// none).
  double repeated_square_sum() const { return repeated_square_sum_; }
  /// The same over the values whose ranks lie in [below, upto], with their masses in the whole
  /// table.
  double RepeatedSquareSum(double below, double upto) const;
  /// Moves the ends of an interval of ranks outwards to where no single value is cut: below the
  /// first value that it touches and past the last. Ranks of a continuous spread stay.
  void WidenToValues(double* below, double* upto) const;
  /// Whether the ranks between these ends are those of more than one value.
  bool HoldsSeveralValues(double below, double upto) const;
  /// The ranks of the single values of at least this mass, ascending.
  struct ValueRanks {
    double below, upto;
  };
  std::vector<ValueRanks> ValuesOfMass(double least) const;
  /// "runs", "bounds", "runs and bounds" or "none": what it was made of.
  const std::string& source() const { return source_; }

 private:
  struct Step {
    std::string value;  ///< discrete kinds: also one past an upper bound
    double below;       ///< P(V < value)
    double upto;        ///< P(V <= value); discrete kinds: equal to below
    double squares;     ///< sum of squared masses of the values below
  };
  double At(std::string_view value, bool inclusive) const;
  /// The ranks of the single value that the ranks just above (`after`) or below `rank` belong to;
  /// both are `rank` in a continuous spread.
  void ValueAt(double rank, bool after, double* below, double* upto) const;

  KeyType type_;
  std::vector<Step> steps_;  // ascending
  double null_share_ = 0;
  double repeated_square_sum_ = 0;
  std::string source_ = "none";
};

/// By key of the layout, then by unit: where the values of each unit lie.
std::vector<std::vector<RankInterval>> RankIntervals(const Layout& layout);

}  // namespace thalweg
