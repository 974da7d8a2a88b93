#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace thalweg::report {

/// Text as it may stand in HTML, between tags or in a quoted attribute: markup is escaped, control
/// characters and bytes that are no UTF-8 become U+FFFD.
std::string Escape(std::string_view text);

/// A name that came from the table: escaped, and kept from changing the direction of what is around
/// it.
std::string Name(std::string_view text);

// Figures as people read them, with the exact value in the element's `value`.
std::string Number(double number);  ///< an expected number of files
std::string Count(int64_t count);   ///< "1,234"
std::string Percent(double share);  ///< of 0 to 1
std::string Bytes(int64_t bytes);   ///< "1.50 GiB"
std::string Depth(double depth);    ///< as Number; "–" where it is not known (negative)

/// "1 file", "1,234 files", with the exact value.
std::string Plural(int64_t count, std::string_view noun);

/// `<tag class="classes">content</tag>` and a line end; `classes` may be empty.
std::string Element(std::string_view tag, std::string_view classes, std::string_view content);

}  // namespace thalweg::report
