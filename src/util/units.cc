#include "util/units.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <ctime>

#include "util/status.h"

namespace thalweg {
namespace {

struct Quantity {
  double number;
  std::string unit;  // lower case
};

arrow::Result<Quantity> SplitQuantity(std::string_view text, const char* what) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())))
    text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())))
    text.remove_suffix(1);
  Quantity quantity{0, ""};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), quantity.number,
                                      std::chars_format::fixed);
  if (error != std::errc() || !(quantity.number >= 0) || std::isinf(quantity.number)) {
    return Usage("\"{}\" is not a {}", text, what);
  }
  for (const char* c = end; c != text.data() + text.size(); ++c) {
    if (!std::isspace(static_cast<unsigned char>(*c))) {
      quantity.unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
    }
  }
  return quantity;
}

}  // namespace

arrow::Result<int64_t> ParseBytes(std::string_view text) {
  ARROW_ASSIGN_OR_RAISE(Quantity quantity,
                        SplitQuantity(text, "size (try 512MiB, 2GB or 1000000)"));
  double scale = 0;
  static constexpr std::string_view kLetters = "kmgtp";
  const std::string& unit = quantity.unit;
  if (unit.empty() || unit == "b") {
    scale = 1;
  } else if (auto power = kLetters.find(unit[0]); power != std::string_view::npos) {
    const std::string_view rest = std::string_view(unit).substr(1);
    if (rest == "b") scale = std::pow(1000.0, power + 1);
    if (rest.empty() || rest == "ib" || rest == "i") scale = std::pow(1024.0, power + 1);
  }
  if (scale == 0) return Usage("\"{}\": unknown unit; use KB MB GB TB or KiB MiB GiB TiB", text);
  const double bytes = quantity.number * scale;
  if (bytes >= 9.2e18) return Usage("\"{}\" is too large", text);
  return static_cast<int64_t>(std::llround(bytes));
}

std::string FormatBytes(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (std::abs(value) >= 1023.5 && unit < 6) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  const int digits = std::abs(value) < 9.995 ? 2 : std::abs(value) < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", value, digits, kUnits[unit]);
}

arrow::Result<double> ParseDuration(std::string_view text) {
  ARROW_ASSIGN_OR_RAISE(Quantity quantity,
                        SplitQuantity(text, "duration (try 90s, 15m, 24h or 7d)"));
  double scale = 0;
  const std::string& unit = quantity.unit;
  if (unit == "ms") scale = 1e-3;
  if (unit.empty() || unit == "s" || unit == "sec") scale = 1;
  if (unit == "m" || unit == "min") scale = 60;
  if (unit == "h") scale = 3600;
  if (unit == "d") scale = 86400;
  if (scale == 0) return Usage("\"{}\": unknown unit; use ms, s, m, h or d", text);
  return quantity.number * scale;
}

std::string FormatDuration(double seconds) {
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1000);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const int64_t whole = std::llround(seconds);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

std::string FormatCount(int64_t count) {
  std::string digits = std::to_string(count);
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > (count < 0 ? 1 : 0); at -= 3) {
    digits.insert(static_cast<size_t>(at), 1, ',');
  }
  return digits;
}

std::string FormatNumber(double number) {
  return number < 9.995   ? fmt::format("{:.2f}", number)
         : number < 99.95 ? fmt::format("{:.1f}", number)
                          : FormatCount(std::llround(number));
}

std::string FormatPercent(double share) {
  const double percent = share * 100;
  return percent > 0 && percent < 0.095 ? "<0.1 %"
                                        : fmt::format("{:.{}f} %", percent, percent < 9.95 ? 1 : 0);
}

std::string FormatTime(int64_t millis) {
  const std::time_t seconds = millis / 1000;
  std::tm parts = {};
  if (gmtime_r(&seconds, &parts) == nullptr) return std::to_string(millis);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

}  // namespace thalweg
