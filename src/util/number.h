#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace thalweg {

/// The number that the whole text is, as std::from_chars reads it: no blanks, no plus sign. Nothing
/// when it is none, goes on after it, or does not fit.
template <typename Number>
std::optional<Number> ParseNumber(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) return std::nullopt;
  return number;
}

/// Digits of a number that is not negative, nothing else.
inline std::optional<int64_t> ParseCount(std::string_view text) {
  return text.starts_with('-') ? std::nullopt : ParseNumber<int64_t>(text);
}

}  // namespace thalweg
