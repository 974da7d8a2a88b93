#pragma once

#include <string>
#include <vector>

#include "layout/depth.h"
#include "report/axis.h"

namespace thalweg::report {

/// One key: how many units an equality opens along its ranks (KeyHealth::histogram), with the mean
/// and the ideal as lines, and its figures. `before`, when given, is the same key before the last
/// run.
std::string DepthHistogram(const KeyHealth& key, const std::vector<Tick>& ticks, int64_t units,
                           const KeyHealth* before, const std::string& unit_name);

/// All figures of all keys: a row for each figure, a column for each key, and one for all keys
/// together.
std::string KeyTable(const LayoutHealth& health, const std::string& unit_name);

}  // namespace thalweg::report
