#pragma once

#include <arrow/result.h>

#include <string>
#include <string_view>

namespace thalweg {

/// A 128-bit number as 32 lower-case hex digits, the most significant first, and back. Anything
/// else is an error.
std::string ToHex128(unsigned __int128 value);
arrow::Result<unsigned __int128> ParseHex128(std::string_view text);

}  // namespace thalweg
