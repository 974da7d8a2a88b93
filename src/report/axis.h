#pragma once

#include <arrow/type.h>

#include <memory>
#include <string>
#include <vector>

#include "layout/key_distribution.h"
#include "layout/unit.h"

namespace thalweg::report {

/// A value of a key and where it lies among the ranks: in the middle of its own share of the rows.
struct Tick {
  double rank = 0;
  std::string text;
};

/// Ticks near the ends of `parts` equal parts of the ranks, from left to right: at most parts + 1,
/// at least half a part from each other. The values are bounds of units and quantiles of runs, the
/// nearest to where a tick is wanted, each at its true rank. None when nothing is known of the
/// column.
std::vector<Tick> Ticks(const Layout& layout, int column, const arrow::DataType& type,
                        const KeyDistribution& distribution, int parts);

/// Whether any label is longer than a date, and needs more room.
bool AreLong(const std::vector<Tick>& ticks);

/// The ticks below a plot, with the name of the key; beside it.
std::string TicksBelow(const std::vector<Tick>& ticks, const std::string& name);
std::string TicksBeside(const std::vector<Tick>& ticks);

}  // namespace thalweg::report
