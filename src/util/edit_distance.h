#pragma once

#include <cstddef>
#include <string_view>

namespace thalweg {

/// How many insertions, deletions and replacements of bytes turn one name into the other; upper and
/// lower case are alike.
size_t EditDistance(std::string_view a, std::string_view b);

}  // namespace thalweg
