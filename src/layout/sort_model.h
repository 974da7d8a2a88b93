#pragma once

#include <array>
#include <vector>

#include "layout/tiling.h"
#include "spec/clustering_spec.h"

namespace thalweg {

/// How the rows of one sort are cut, in shares of them.
struct CutModel {
  double cubes = 1;
  double file = 1;        ///< the target
  bool hard_cap = false;  ///< files are at most the target, not about it
};

/// Rows spread evenly over a box, and over the ranks of keys on which some have no value.
struct DrawnRows {
  RankBoxOf box;
  double mass = 0;
  std::array<double, kMostKeys> nulls{};  ///< shares of them without a value
};

/// So many files are the most of a sort that is tried out.
inline constexpr int kMostModelled = 512;

/// Where the files of one sort of `row_count` rows like these are expected to lie: points are drawn
/// from the boxes, ranked, sorted along the curve and cut as the sort does it. Nearer to what a
/// sort gives than TileSort, which knows neither the curve nor what its cuts make of this number of
/// files, but for a small number of files only. Always the same points.
std::vector<RankBoxOf> ModelSort(const std::vector<DrawnRows>& rows, int64_t row_count,
                                 const CutModel& cuts, const ClusteringSpec& spec,
                                 const std::vector<KeyDistribution>& keys);

}  // namespace thalweg
