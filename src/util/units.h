#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace thalweg {

/// Parses a size: digits with an optional fraction and unit. KB MB GB TB are powers of 1000, KiB
/// MiB GiB TiB (and K M G T, as most programs mean them) of 1024, a bare number bytes. Units in any
/// case. Negative, empty, or beyond int64: an error.
arrow::Result<int64_t> ParseBytes(std::string_view text);

/// "1.5 GiB", "812 B": three significant digits, powers of 1024.
std::string FormatBytes(int64_t bytes);

/// Parses "90s", "15m", "24h", "7d", "250ms"; a bare number is seconds. Returns seconds.
arrow::Result<double> ParseDuration(std::string_view text);

/// "850 ms", "12.3 s", "4 min 05 s", "3 h 20 min".
std::string FormatDuration(double seconds);

/// "1,234,567".
std::string FormatCount(int64_t count);

/// An expected number of files and the like: "3.81", "35.7", "1,234".
std::string FormatNumber(double number);

/// A share from 0 to 1: "0.0 %", "<0.1 %", "4.5 %", "38 %".
std::string FormatPercent(double share);

/// A time in milliseconds since 1970 as "2026-11-30 05:37:23" (UTC).
std::string FormatTime(int64_t millis);

}  // namespace thalweg
