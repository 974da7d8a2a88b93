#pragma once

#include <string>
#include <string_view>

namespace thalweg {

/// With the letters A to Z in lower case, everything else as it is.
inline std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

}  // namespace thalweg
