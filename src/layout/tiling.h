#pragma once

#include <array>
#include <vector>

#include "layout/key_distribution.h"

namespace thalweg {

inline constexpr int kMostKeys = 4;

/// A box in the rank space of up to four keys: where the rows of a unit lie. A key on which the
/// rows have no value is [0, 0]; `holds` says so.
struct RankBoxOf {
  std::array<double, kMostKeys> below{};
  std::array<double, kMostKeys> upto{};
  std::array<bool, kMostKeys> holds{};

  double width(int key) const { return holds[key] ? upto[key] - below[key] : 0; }
  /// The mean over the keys of the widths.
  double MeanWidth(int keys) const {
    double sum = 0;
    for (int k = 0; k < keys; ++k) sum += width(k);
    return keys > 0 ? sum / keys : 0;
  }
  /// Without values on this key.
  void Clear(int key) {
    holds[key] = false;
    below[key] = upto[key] = 0;
  }
  /// Grows to hold `other` too.
  void Add(const RankBoxOf& other, int keys);
};

/// Rows spread evenly over a box.
struct BoxMass {
  RankBoxOf box;
  double mass = 0;
};

/// Where the units of one sort of these rows are expected to lie: the space halved at the median of
/// the rows, along the key on which a part is widest in comparison with the whole, until there are
/// `units` parts of equal mass. Values are not cut: a part that begins or ends within the ranks of
/// one value covers all of them. It is what a curve through quantile ranks gives, without the
/// curve: the boxes follow correlated keys, late rows and repeated values.
std::vector<RankBoxOf> TileSort(const std::vector<BoxMass>& rows, int units,
                                const std::vector<KeyDistribution>& keys);

}  // namespace thalweg
