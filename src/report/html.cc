#include "report/html.h"

#include <fmt/format.h>

#include "util/units.h"

namespace thalweg::report {
namespace {

constexpr char kReplacement[] = "\xef\xbf\xbd";

/// Length of the well-formed UTF-8 sequence that the text begins with; 0 when there is none.
size_t SequenceLength(std::string_view text) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xf0 && lead < 0xf5 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 0;
  if (lead >= 0xf5 || length == 0 || text.size() < length) return 0;
  for (size_t at = 1; at < length; ++at) {
    if ((byte(at) & 0xc0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, and what is above U+10FFFF.
  if ((lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) >= 0xa0) ||
      (lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) >= 0x90)) {
    return 0;
  }
  return length;
}

std::string Data(const std::string& value, const std::string& shown) {
  return fmt::format("<data value=\"{}\">{}</data>", value, Escape(shown));
}

}  // namespace

std::string Escape(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    const char c = text[0];
    if (length == 0 || (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') ||
        c == 0x7f) {
      escaped += kReplacement;
    } else if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else if (c == '>') {
      escaped += "&gt;";
    } else if (c == '"') {
      escaped += "&quot;";
    } else if (c == '\'') {
      escaped += "&#39;";
    } else {
      escaped += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return escaped;
}

std::string Name(std::string_view text) { return "<bdi>" + Escape(text) + "</bdi>"; }

std::string Number(double number) { return Data(fmt::format("{}", number), FormatNumber(number)); }
std::string Count(int64_t count) { return Data(std::to_string(count), FormatCount(count)); }
std::string Percent(double share) { return Data(fmt::format("{}", share), FormatPercent(share)); }
std::string Bytes(int64_t bytes) { return Data(std::to_string(bytes), FormatBytes(bytes)); }
std::string Depth(double depth) { return depth < 0 ? "–" : Number(depth); }

std::string Plural(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", Count(count), noun, count == 1 ? "" : "s");
}

std::string Element(std::string_view tag, std::string_view classes, std::string_view content) {
  if (classes.empty()) return fmt::format("<{0}>{1}</{0}>\n", tag, content);
  return fmt::format("<{0} class=\"{1}\">{2}</{0}>\n", tag, classes, content);
}

}  // namespace thalweg::report
