#include "iceberg/bounds.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "key/encoded_value.h"
#include "util/status.h"

namespace thalweg::iceberg {
namespace {

// The code point that starts at `at`; nullopt when the bytes there are not UTF-8 (RFC 3629).
struct CodePoint {
  uint32_t value;
  size_t size;
};
std::optional<CodePoint> DecodeUtf8(std::string_view text, size_t at) {
  const uint8_t first = static_cast<uint8_t>(text[at]);
  if (first < 0x80) return CodePoint{first, 1};
  const size_t size = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || at + size > text.size()) return std::nullopt;
  uint32_t value = first & (0x7F >> size);
  for (size_t i = 1; i < size; ++i) {
    const uint8_t next = static_cast<uint8_t>(text[at + i]);
    if ((next & 0xC0) != 0x80) return std::nullopt;
    value = value << 6 | (next & 0x3F);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (value < kLeast[size] || value > 0x10FFFF || surrogate) return std::nullopt;
  return CodePoint{value, size};
}

void AppendUtf8(uint32_t point, std::string* out) {
  auto put = [&](uint32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (point < 0x80) return put(point);
  const int more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  constexpr uint32_t kLead[] = {0, 0xC0, 0xE0, 0xF0};
  put(kLead[more] | point >> (6 * more));
  for (int i = more - 1; i >= 0; --i) put(0x80 | (point >> (6 * i) & 0x3F));
}

// Bytes of the first `length` code points. A byte that is not part of one counts as one: any prefix
// is a lower bound.
size_t PrefixSize(std::string_view text, int length) {
  size_t at = 0;
  for (int i = 0; i < length && at < text.size(); ++i) {
    auto point = DecodeUtf8(text, at);
    at += point ? point->size : 1;
  }
  return at;
}

std::optional<std::string> IncrementString(std::string_view prefix) {
  std::vector<CodePoint> points;
  for (size_t at = 0; at < prefix.size();) {
    auto point = DecodeUtf8(prefix, at);
    if (!point) return std::nullopt;
    points.push_back(*point);
    at += point->size;
  }
  size_t end = prefix.size();
  for (; !points.empty(); points.pop_back()) {
    end -= points.back().size;
    uint32_t next = points.back().value + 1;
    if (next == 0xD800) next = 0xE000;
    if (next > 0x10FFFF) continue;
    std::string result(prefix.substr(0, end));
    AppendUtf8(next, &result);
    return result;
  }
  return std::nullopt;
}

std::optional<std::string> IncrementBytes(std::string_view prefix) {
  std::string result(prefix);
  for (; !result.empty(); result.pop_back()) {
    if (static_cast<uint8_t>(result.back()) == 0xFF) continue;
    ++result.back();
    return result;
  }
  return std::nullopt;
}

arrow::Status Malformed(const Type& type, std::string_view bound) {
  return Invalid("a bound of {} bytes is malformed for type {}", bound.size(), type.ToString());
}

template <typename T>
T Load(std::string_view bytes) {
  static_assert(std::endian::native == std::endian::little);
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

template <typename T>
std::string_view View(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

// Eight bytes, or four of an int before its promotion to long.
arrow::Result<int64_t> LoadLong(const Type& type, std::string_view bound) {
  if (bound.size() == 8) return Load<int64_t>(bound);
  if (bound.size() == 4) return Load<int32_t>(bound);
  return Malformed(type, bound);
}

// Eight bytes, or the four of a date that was promoted (format version 3): days to `units_per_day`.
arrow::Result<int64_t> LoadTimestamp(const Type& type, std::string_view bound,
                                     int64_t units_per_day) {
  ARROW_ASSIGN_OR_RAISE(int64_t value, LoadLong(type, bound));
  if (bound.size() == 8) return value;
  if (__builtin_mul_overflow(value, units_per_day, &value)) return Malformed(type, bound);
  return value;
}

}  // namespace

std::optional<std::string> TruncateUpper(TypeKind kind, std::string_view value, int length) {
  const std::string prefix = TruncateLower(kind, value, length);
  if (prefix.size() == value.size()) return prefix;
  return kind == TypeKind::kString ? IncrementString(prefix) : IncrementBytes(prefix);
}

std::string TruncateLower(TypeKind kind, std::string_view value, int length) {
  length = std::max(length, 0);
  if (kind == TypeKind::kString) return std::string(value.substr(0, PrefixSize(value, length)));
  if (kind == TypeKind::kBinary) return std::string(value.substr(0, static_cast<size_t>(length)));
  return std::string(value);
}

arrow::Result<KeyType> KeyTypeOf(const Type& type, Algorithm algorithm) {
  switch (type.kind) {
    case TypeKind::kBoolean:
      return thalweg::KeyTypeOf(*arrow::boolean(), algorithm);
    case TypeKind::kInt:
      return thalweg::KeyTypeOf(*arrow::int32(), algorithm);
    case TypeKind::kLong:
      return thalweg::KeyTypeOf(*arrow::int64(), algorithm);
    case TypeKind::kFloat:
      return thalweg::KeyTypeOf(*arrow::float32(), algorithm);
    case TypeKind::kDouble:
      return thalweg::KeyTypeOf(*arrow::float64(), algorithm);
    case TypeKind::kDecimal:
      return thalweg::KeyTypeOf(*arrow::decimal128(type.precision, type.scale), algorithm);
    case TypeKind::kDate:
      return thalweg::KeyTypeOf(*arrow::date32(), algorithm);
    case TypeKind::kTimestamp:
    case TypeKind::kTimestampTz:
      return thalweg::KeyTypeOf(*arrow::timestamp(arrow::TimeUnit::MICRO), algorithm);
    case TypeKind::kTimestampNs:
    case TypeKind::kTimestampTzNs:
      return thalweg::KeyTypeOf(*arrow::timestamp(arrow::TimeUnit::NANO), algorithm);
    case TypeKind::kString:
      return thalweg::KeyTypeOf(*arrow::utf8(), algorithm);
    default:
      return Invalid(
          "cannot cluster by type {}: int, long, float, double, decimal, date, timestamp, string "
          "and boolean are accepted",
          type.ToString());
  }
}

arrow::Result<std::string> BoundToEncoded(const Type& type, std::string_view bound) {
  ARROW_ASSIGN_OR_RAISE(KeyType key, KeyTypeOf(type, Algorithm::kTypedQuantileRankV1));
  switch (type.kind) {
    case TypeKind::kString:
      return EncodePlain(key, bound);
    case TypeKind::kBoolean:
      if (bound.size() != 1) return Malformed(type, bound);
      return EncodePlain(key, bound[0] == 0 ? std::string_view("\0", 1) : "\1");
    case TypeKind::kInt:
    case TypeKind::kDate:
      if (bound.size() != 4) return Malformed(type, bound);
      return EncodePlain(key, bound);
    case TypeKind::kLong: {
      ARROW_ASSIGN_OR_RAISE(int64_t value, LoadLong(type, bound));
      return EncodePlain(key, View(value));
    }
    case TypeKind::kTimestamp:
    case TypeKind::kTimestampTz: {
      ARROW_ASSIGN_OR_RAISE(int64_t value, LoadTimestamp(type, bound, 86'400'000'000));
      return EncodePlain(key, View(value));
    }
    case TypeKind::kTimestampNs:
    case TypeKind::kTimestampTzNs: {
      ARROW_ASSIGN_OR_RAISE(int64_t value, LoadTimestamp(type, bound, 86'400'000'000'000));
      return EncodePlain(key, View(value));
    }
    case TypeKind::kFloat:
      if (bound.size() != 4 || std::isnan(Load<float>(bound))) return Malformed(type, bound);
      return EncodePlain(key, bound);
    case TypeKind::kDouble: {
      if (bound.size() != 4 && bound.size() != 8) return Malformed(type, bound);
      const double value = bound.size() == 8 ? Load<double>(bound) : Load<float>(bound);
      if (std::isnan(value)) return Malformed(type, bound);
      return EncodePlain(key, View(value));
    }
    case TypeKind::kDecimal: {
      // Minimal big-endian two's complement; longer forms are taken when the extra bytes only
      // extend the sign.
      if (bound.empty()) return Malformed(type, bound);
      const char sign = static_cast<char>(bound[0] & 0x80 ? 0xFF : 0);
      while (bound.size() > 16 && bound[0] == sign) bound.remove_prefix(1);
      const char kept = static_cast<char>(bound[0] & 0x80 ? 0xFF : 0);
      if (bound.size() > 16 || kept != sign) return Malformed(type, bound);
      std::string plain(bound.rbegin(), bound.rend());
      plain.resize(16, sign);
      return EncodePlain(key, plain);
    }
    default:
      return Malformed(type, bound);
  }
}

}  // namespace thalweg::iceberg
