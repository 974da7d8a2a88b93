#pragma once

#include <string>
#include <vector>

#include "table/table.h"

namespace thalweg::report {

/// The runs, newest first, as a table with bars: what each read and wrote, and the depth before it,
/// predicted, and achieved. At most the newest kMostRuns; it says how many are left out.
inline constexpr size_t kMostRuns = 50;
std::string HistoryTable(const std::vector<HistoryEntry>& history, const std::string& unit_name);

}  // namespace thalweg::report
