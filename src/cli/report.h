#pragma once

#include <string>

#include "task/optimize.h"
#include "util/json.h"

namespace thalweg::cli {

/// A finished run as JSON (section "optimize" of the command line's documentation); `command` is
/// "optimize", "write" or "commit".
Json ReportJson(std::string_view command, const std::string& table, const OptimizeReport& report,
                const std::string& spill_dir);
/// The same for people.
std::string ReportText(const OptimizeReport& report, const std::string& spill_dir);

}  // namespace thalweg::cli
