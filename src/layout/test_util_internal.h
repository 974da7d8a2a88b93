#pragma once

#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layout/unit.h"

namespace thalweg {

inline std::string BigEndianBytes(uint64_t value, int bytes) {
  std::string text(1, '\x01');
  for (int i = bytes - 1; i >= 0; --i) text += static_cast<char>(value >> (8 * i) & 0xff);
  return text;
}
/// Encoded values, written out literally.
inline std::string EncodedInt(int64_t value) {
  return BigEndianBytes(static_cast<uint64_t>(value) ^ uint64_t{1} << 63, 8);
}
inline std::string EncodedBool(bool value) { return BigEndianBytes(value, 1); }
inline std::string EncodedDouble(double value) {
  const auto bits = std::bit_cast<uint64_t>(value);
  return BigEndianBytes(bits >> 63 ? ~bits : bits | uint64_t{1} << 63, 8);
}
inline std::string EncodedText(std::string_view text) {
  if (text.empty()) return "\x01";
  std::string encoded(1, '\x02');
  size_t in_block = 0, block = 8;
  for (size_t at = 0; at < text.size(); ++at, ++in_block) {
    if (in_block == block) {
      encoded.push_back('\xff');
      in_block = 0;
      block = at < 32 ? 8 : 32;
    }
    encoded.push_back(text[at]);
  }
  for (size_t i = in_block; i < block; ++i) encoded.push_back('\0');
  encoded.push_back(static_cast<char>(in_block));
  return encoded;
}

inline constexpr KeyType kIntKey{KeyType::Kind::kSigned, 64};
inline constexpr KeyType kBoolKey{KeyType::Kind::kBool, 8};
inline constexpr KeyType kDoubleKey{KeyType::Kind::kFloat, 64};
inline constexpr KeyType kTextKey{KeyType::Kind::kUtf8, 0};

inline UnitColumn Bounds(std::string lower, std::string upper, int64_t nulls = 0) {
  return {.lower = std::move(lower), .upper = std::move(upper), .null_count = nulls};
}
inline UnitColumn IntBounds(int64_t lower, int64_t upper, int64_t nulls = 0) {
  return Bounds(EncodedInt(lower), EncodedInt(upper), nulls);
}

/// An empty layout with key columns "k0", "k1", … of field ids 1, 2, …
inline Layout LayoutOf(const std::vector<KeyType>& types) {
  Layout layout;
  layout.snapshot_id = fmt::format("{}", 1);
  for (size_t i = 0; i < types.size(); ++i) {
    layout.columns.push_back({fmt::format("k{}", i), static_cast<int32_t>(i + 1)});
  }
  layout.types = types;
  return layout;
}
inline void AddUnit(Layout* layout, int64_t rows, std::vector<UnitColumn> columns,
                    int64_t bytes = 1000) {
  Unit unit;
  unit.id = fmt::format("u{}", 100000 + layout->units.size());
  unit.rows = rows;
  unit.bytes = bytes;
  unit.columns = std::move(columns);
  layout->units.push_back(std::move(unit));
}

}  // namespace thalweg
