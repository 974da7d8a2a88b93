#pragma once

#include <array>
#include <vector>

#include "layout/tiling.h"

namespace thalweg {

/// Where in a region its rows are, on a grid: one sort follows the ranks of its own rows and cuts
/// crowded places finer. For many regions one after another.
class RegionDensity {
 public:
  explicit RegionDensity(int keys);

  /// Begins another region, of so many boxes; few need fewer bins.
  void Reset(const RankBoxOf& whole, size_t boxes);
  /// Spreads mass evenly over a box inside the region.
  void Add(const RankBoxOf& box, double mass);

  /// What stands for the width of the region on each key, in the depth c·extent·m^(1-1/N) of one
  /// sort into m units: with p the share of the rows in a bin, q_k that of the bins of its place
  /// on key k and l_k the width of one bin, Σ p^(1-1/N) · (Π q)^(1/N) · l_k / q_k over the bins.
  /// A unit there is (Π q / (m·p))^(1/N) wide in the ranks of the sort's own rows, and l_k / q_k
  /// as much in the table's. It is the width itself when the rows fill the region evenly.
  std::array<double, kMostKeys> Extents() const;

 private:
  static constexpr int kMostBins = 64;
  struct Spread {
    int first[kMostKeys] = {}, last[kMostKeys] = {};
    double share[kMostKeys][kMostBins];
  };
  double Root(double value) const;
  void AddOver(const Spread& spread, int k, size_t at, double mass);

  RankBoxOf whole_;
  int n_, bins_;
  double total_ = 0;
  std::vector<double> mass_;
};

}  // namespace thalweg
