#include "report/value_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>

#include "key/encoded_value.h"
#include "util/number.h"

namespace thalweg::report {
namespace {

constexpr size_t kMostCharacters = 14;
constexpr int64_t kMinute = 60, kDay = 86400;

/// "1,234,567" from "1234567"; numbers too long for an axis in scientific form.
std::string ShowInteger(const std::string& text) {
  const size_t first = text.starts_with('-') ? 1 : 0;
  if (text.size() - first > 10) return fmt::format("{:.3e}", std::strtod(text.c_str(), nullptr));
  std::string digits = text;
  if (digits.size() - first <= 4) return digits;
  for (auto at = static_cast<int64_t>(digits.size()) - 3; at > static_cast<int64_t>(first);
       at -= 3) {
    digits.insert(static_cast<size_t>(at), 1, ',');
  }
  return digits;
}

std::string ShowDecimal(const std::string& text, int32_t scale) {
  scale = std::clamp(scale, -76, 76);  // more digits than any decimal has
  const bool negative = text.starts_with('-');
  std::string digits = negative ? text.substr(1) : text;
  std::string fraction;
  if (scale > 0) {
    const auto places = static_cast<size_t>(scale);
    digits = fmt::format("{:0>{}}", digits, places + 1);
    fraction = "." + digits.substr(digits.size() - places);
    digits.erase(digits.size() - places);
  } else {
    digits = fmt::format("{:0<{}}", digits, static_cast<int>(digits.size()) - scale);
  }
  std::string shown = (negative ? "-" : "") + digits + fraction;
  if (shown.size() <= kMostCharacters) return shown;
  return fmt::format("{:.4g}", std::strtod(shown.c_str(), nullptr));
}

/// The first characters of a quoted text.
std::string Shorten(const std::string& quoted) {
  size_t characters = 0;
  for (size_t at = 0; at < quoted.size(); ++at) {
    if ((static_cast<unsigned char>(quoted[at]) & 0xc0) == 0x80) continue;
    if (++characters > kMostCharacters) {
      size_t end = at;
      while (end > 0 && (quoted[end - 1] == '\\' || quoted[end - 1] == '"')) --end;
      return quoted.substr(0, end) + "…\"";
    }
  }
  return quoted;
}

int64_t FloorDivide(int64_t value, int64_t by) {
  return value / by - (value % by != 0 && (value < 0) != (by < 0) ? 1 : 0);
}

/// `units` since 1970, so many of them in a second; `finest` is the step that is still shown, in
/// seconds: a day, a minute, a second, or 0 for all there is.
std::string ShowTime(int64_t units, int64_t per_second, int64_t finest) {
  const int64_t seconds = FloorDivide(units, per_second);
  const int64_t day = FloorDivide(seconds, kDay), in_day = seconds - day * kDay;
  // Beyond what the calendar's years hold: days since 1970.
  if (day < -12'000'000 || day > 11'000'000) return fmt::format("day {}", day);
  const std::chrono::year_month_day date{
      std::chrono::sys_days{std::chrono::days{static_cast<int>(day)}}};
  std::string text =
      fmt::format("{:04}-{:02}-{:02}", static_cast<int>(date.year()),
                  static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
  if (finest >= kDay) return text;
  text += fmt::format(" {:02}:{:02}", in_day / 3600, in_day / 60 % 60);
  if (finest >= kMinute) return text;
  text += fmt::format(":{:02}", in_day % 60);
  if (finest > 0 || per_second == 1) return text;
  const int places = per_second == 1000 ? 3 : per_second == 1'000'000 ? 6 : 9;
  return text + fmt::format(".{:0{}}", units - seconds * per_second, places);
}

std::vector<std::string> ShowTimes(const std::vector<int64_t>& units, int64_t per_second,
                                   bool dates) {
  const auto [least, most] = std::minmax_element(units.begin(), units.end());
  const double span =
      (static_cast<double>(*most) - static_cast<double>(*least)) / static_cast<double>(per_second);
  const int64_t finest = dates || span >= 60.0 * kDay ? kDay
                         : span >= kDay               ? kMinute
                         : span >= kMinute            ? 1
                                                      : 0;
  std::vector<std::string> shown;
  shown.reserve(units.size());
  for (const int64_t value : units) shown.push_back(ShowTime(value, per_second, finest));
  return shown;
}

int64_t PerSecond(arrow::TimeUnit::type unit) {
  switch (unit) {
    case arrow::TimeUnit::SECOND:
      return 1;
    case arrow::TimeUnit::MILLI:
      return 1000;
    case arrow::TimeUnit::MICRO:
      return 1'000'000;
    default:
      return 1'000'000'000;
  }
}

}  // namespace

std::vector<std::string> ShowValues(const arrow::DataType& type, const KeyType& key_type,
                                    const std::vector<std::string>& encoded) {
  if (type.id() == arrow::Type::DICTIONARY) {
    return ShowValues(*static_cast<const arrow::DictionaryType&>(type).value_type(), key_type,
                      encoded);
  }
  std::vector<std::string> texts;
  texts.reserve(encoded.size());
  for (const auto& value : encoded) texts.push_back(DescribeEncoded(key_type, value));
  if (texts.empty()) return texts;
  // Dates and times are integers to the keys.
  std::vector<int64_t> whole;
  for (const auto& text : texts) {
    if (const auto number = ParseNumber<int64_t>(text)) whole.push_back(*number);
  }
  const bool all_whole = whole.size() == texts.size();
  switch (type.id()) {
    case arrow::Type::DATE32:
      if (!all_whole) return texts;
      for (int64_t& days : whole) days *= kDay;
      return ShowTimes(whole, 1, /*dates=*/true);
    case arrow::Type::DATE64:
      return all_whole ? ShowTimes(whole, 1000, /*dates=*/true) : texts;
    case arrow::Type::TIMESTAMP:
      return all_whole ? ShowTimes(whole,
                                   PerSecond(static_cast<const arrow::TimestampType&>(type).unit()),
                                   /*dates=*/false)
                       : texts;
    default:
      break;
  }
  for (auto& text : texts) {
    if (text.starts_with("0x")) continue;
    switch (key_type.kind) {
      case KeyType::Kind::kSigned:
      case KeyType::Kind::kUnsigned:
        text = ShowInteger(text);
        break;
      case KeyType::Kind::kFloat:
        text = fmt::format("{:.4g}", std::strtod(text.c_str(), nullptr));
        break;
      case KeyType::Kind::kDecimal128:
        if (type.id() == arrow::Type::DECIMAL128) {
          text = ShowDecimal(text, static_cast<const arrow::Decimal128Type&>(type).scale());
        }
        break;
      case KeyType::Kind::kUtf8:
        text = Shorten(text);
        break;
      case KeyType::Kind::kBool:
        break;
    }
  }
  return texts;
}

}  // namespace thalweg::report
