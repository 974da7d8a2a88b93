#pragma once

#include <string>
#include <vector>

#include "layout/key_distribution.h"
#include "report/axis.h"

namespace thalweg::report {

/// The units of a table in one state, to be drawn.
struct Panel {
  std::string id;       ///< "before", "now", "after": the figure's id
  std::string title;    ///< "Now"
  std::string caption;  ///< HTML
  /// By unit, then by axis (one or two): what each holds of the keys that are drawn.
  std::vector<std::vector<RankInterval>> boxes;
  /// What each unit is, as text; shown when it is pointed at. May be empty.
  std::vector<std::string> labels;
};

/// One key of the plots.
struct PlotAxis {
  std::string name;
  std::vector<Tick> ticks;
};

/// Above this number of units in one panel, all panels show how many units overlap in each cell of
/// a grid instead of the units.
inline constexpr size_t kMostBoxes = 20000;

/// The panels side by side, in rank space, in one scale of colour: with two axes a box for each
/// unit, with one an interval. Units without a value of a key are not drawn, and counted; units
/// without usable statistics are drawn dashed, over everything.
std::string BoxPanels(const std::vector<PlotAxis>& axes, const std::vector<Panel>& panels,
                      const std::string& unit_name);

}  // namespace thalweg::report
