#include "report/density.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/boxes.h"
#include "report/html.h"
#include "util/units.h"

namespace thalweg::report {
namespace {

constexpr int kCells = 64, kSteps = 256;

/// An interval over equal steps: which it begins and ends in, and how much of these two it covers.
struct Cover {
  int first, last;
  double of_first, of_last;

  Cover(const RankInterval& interval, int steps) {
    const double from = std::clamp(interval.below, 0.0, 1.0) * steps;
    const double to = std::max(from, std::clamp(interval.upto, 0.0, 1.0) * steps);
    first = std::min(steps - 1, static_cast<int>(from));
    last = std::min(steps - 1, static_cast<int>(to));
    of_first = first == last ? to - from : first + 1 - from;
    of_last = first == last ? of_first : to - last;
  }
  double Of(int step) const { return step == first ? of_first : step == last ? of_last : 1; }
};

double Shade(double depth, double most) {
  return depth <= 0 || most <= 0 ? 0 : 0.06 + 0.94 * std::log1p(depth) / std::log1p(most);
}

}  // namespace

double DensityGrid::most() const {
  return cells.empty() ? 0 : *std::max_element(cells.begin(), cells.end());
}

DensityGrid MakeDensity(const std::vector<std::vector<RankInterval>>& boxes, int axes) {
  DensityGrid grid;
  grid.columns = axes > 1 ? kCells : kSteps;
  grid.rows = axes > 1 ? kCells : 1;
  const auto stride = static_cast<size_t>(grid.columns) + 2;
  // Differences from cell to cell along each row: a box costs four of them a row.
  std::vector<double> steps(stride * static_cast<size_t>(grid.rows), 0.0);
  static const RankInterval kAll{.below = 0, .upto = 1};
  for (const auto& box : boxes) {
    if (std::any_of(box.begin(), box.end(), [](const auto& side) { return side.empty; })) continue;
    const Cover across(box[0], grid.columns), up(axes > 1 ? box[1] : kAll, grid.rows);
    for (int row = up.first; row <= up.last; ++row) {
      double* step = &steps[stride * static_cast<size_t>(row)];
      const double share = up.Of(row);
      step[across.first] += share * across.of_first;
      if (across.first == across.last) {
        step[across.first + 1] -= share * across.of_first;
        continue;
      }
      step[across.first + 1] += share * (1 - across.of_first);
      step[across.last] += share * (across.of_last - 1);
      step[across.last + 1] -= share * across.of_last;
    }
  }
  for (int row = 0; row < grid.rows; ++row) {
    double depth = 0;
    for (int column = 0; column < grid.columns; ++column) {
      depth += steps[stride * static_cast<size_t>(row) + static_cast<size_t>(column)];
      grid.cells.push_back(std::max(0.0, depth));
    }
  }
  return grid;
}

std::string DensitySvg(const DensityGrid& grid, double most, int side) {
  std::string svg = "<g class=\"cells\">";
  for (int row = 0; row < grid.rows; ++row) {
    const int top = side - (row + 1) * side / grid.rows, bottom = side - row * side / grid.rows;
    for (int column = 0; column < grid.columns; ++column) {
      const double depth = grid.cells[static_cast<size_t>(row) * static_cast<size_t>(grid.columns) +
                                      static_cast<size_t>(column)];
      if (depth < 1e-9) continue;
      const int left = column * side / grid.columns, right = (column + 1) * side / grid.columns;
      fmt::format_to(std::back_inserter(svg),
                     "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill-opacity=\"{:.2f}\"/>",
                     left, top, right - left, bottom - top, Shade(depth, most));
    }
  }
  return svg + "</g>";
}

std::string DensityLegend(double most, const std::string& unit_name) {
  std::string swatches;
  for (const double share : {0.0, 1.0 / 3, 2.0 / 3, 1.0}) {
    const double depth = std::expm1(std::log1p(most) * share);
    swatches += fmt::format(
        "<span class=\"swatch\"><svg viewBox=\"0 0 1 1\"><g class=\"cells\"><rect width=\"1\" "
        "height=\"1\" fill-opacity=\"{:.2f}\"/></g></svg> {}</span> ",
        Shade(depth, most), FormatNumber(depth));
  }
  return Element(
      "p", "legend",
      fmt::format("With more than {} {}s, the plots show how many of them overlap in each "
                  "cell of a grid (mean over the cell): {}",
                  FormatCount(kMostBoxes), unit_name, swatches));
}

}  // namespace thalweg::report
