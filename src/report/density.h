#pragma once

#include <string>
#include <vector>

#include "layout/key_distribution.h"

namespace thalweg::report {

/// How many units overlap in each cell of a grid over the ranks: the mean over the cell.
struct DensityGrid {
  int columns = 0, rows = 0;
  std::vector<double> cells;  ///< by row from the lowest ranks of the second key, then by column
  double most() const;
};

/// A grid of 64 by 64 cells over two keys, or of 256 steps over one. Units without a value of a key
/// count nowhere.
DensityGrid MakeDensity(const std::vector<std::vector<RankInterval>>& boxes, int axes);

/// The cells in shades up to `most` (logarithmic), in a square of `side`.
std::string DensitySvg(const DensityGrid& grid, double most, int side);
std::string DensityLegend(double most, const std::string& unit_name);

}  // namespace thalweg::report
