#include "util/edit_distance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace thalweg {

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      const bool same = std::tolower(static_cast<unsigned char>(a[i - 1])) ==
                        std::tolower(static_cast<unsigned char>(b[j - 1]));
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (same ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string NamesInstead(std::string_view wanted, const std::vector<std::string>& names,
                         std::string_view owner) {
  constexpr size_t kShown = 20;
  std::vector<std::string_view> similar;
  for (const auto& name : names) {
    if (EditDistance(wanted, name) <= std::max<size_t>(1, wanted.size() / 3)) {
      similar.push_back(name);
    }
  }
  if (!similar.empty()) return fmt::format("similar: {}", fmt::join(similar, ", "));
  const auto end = names.begin() + static_cast<ptrdiff_t>(std::min(names.size(), kShown));
  return fmt::format("the {} has: {}{}", owner, fmt::join(names.begin(), end, ", "),
                     names.size() > kShown ? ", …" : "");
}

std::string NearestNames(std::string_view wanted, std::vector<std::string> names) {
  constexpr size_t kShown = 5;
  std::stable_sort(names.begin(), names.end(), [&](const auto& a, const auto& b) {
    return EditDistance(a, wanted) < EditDistance(b, wanted);
  });
  const size_t more = names.size() - std::min(names.size(), kShown);
  names.resize(names.size() - more);
  const std::string rest = more > 0 ? fmt::format(" and {} more", more) : "";
  return fmt::format("{}{}", fmt::join(names, ", "), rest);
}

}  // namespace thalweg
