#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace thalweg {

/// How many insertions, deletions and replacements of bytes turn one name into the other; upper and
/// lower case are alike.
size_t EditDistance(std::string_view a, std::string_view b);

/// What a message goes on with after "no column "x"; ": "similar: a, b", the names of which at most
/// a third of the wanted one's bytes differ (and one may), or, when there are none, "the table has:
/// a, b, …", at most twenty. `owner` is "table" or the like.
std::string NamesInstead(std::string_view wanted, const std::vector<std::string>& names,
                         std::string_view owner);

/// "a, b, c, d, e and 12 more": the names most like the wanted one first, equally like ones in
/// their order.
std::string NearestNames(std::string_view wanted, std::vector<std::string> names);

}  // namespace thalweg
