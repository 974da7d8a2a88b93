#include "key/encoded_value.h"

#include <arrow/util/decimal.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "key/column_values_internal.h"
#include "key/encoded_value_internal.h"
#include "util/status.h"

namespace thalweg {
namespace {

constexpr char kFixedTag = 0x01;  // also the whole of the empty string
constexpr char kTextTag = 0x02;
constexpr size_t kSmallBlock = 8;
constexpr size_t kLargeBlock = 32;
constexpr size_t kSmallBytes = 32;  // so many bytes are in small blocks

size_t BlockAt(size_t position) { return position < kSmallBytes ? kSmallBlock : kLargeBlock; }

MappedValue TopBit(const KeyType& type) { return MappedValue{1} << (type.bits - 1); }
MappedValue AllBits(const KeyType& type) { return TopBit(type) | (TopBit(type) - 1); }

// MapPlain undone.
MappedValue UnmapValue(const KeyType& type, MappedValue mapped) {
  switch (type.kind) {
    case KeyType::Kind::kSigned:
    case KeyType::Kind::kDecimal128:
      return mapped ^ TopBit(type);
    case KeyType::Kind::kFloat:
      return mapped & TopBit(type) ? mapped ^ TopBit(type) : mapped ^ AllBits(type);
    default:
      return mapped;
  }
}

std::string Quote(std::string_view text) {
  constexpr size_t kShown = 40;
  size_t end = std::min(text.size(), kShown);
  // A shortened text ends before a character, not within one.
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80)
    --end;
  std::string quoted = "\"";
  for (char c : text.substr(0, end)) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      if (c == '"' || c == '\\') quoted += '\\';
      quoted += c;
    }
  }
  return quoted + (end < text.size() ? "…\"" : "\"");
}

std::string Hex(std::string_view bytes) {
  std::string hex = "0x";
  for (unsigned char c : bytes.substr(0, 24)) hex += fmt::format("{:02x}", c);
  return hex;
}

}  // namespace

std::string EncodeMapped(const KeyType& type, MappedValue mapped) {
  std::string encoded(static_cast<size_t>(type.encoded_width()), kFixedTag);
  for (size_t at = encoded.size() - 1; at >= 1; --at) {
    encoded[at] = static_cast<char>(mapped & 0xff);
    mapped >>= 8;
  }
  return encoded;
}

int64_t EncodedTextLength(int64_t bytes) {
  if (bytes == 0) return 1;
  const int64_t small = std::min<int64_t>(bytes, kSmallBytes);
  const int64_t small_blocks = (small + kSmallBlock - 1) / kSmallBlock;
  const int64_t large_blocks = (bytes - small + kLargeBlock - 1) / kLargeBlock;
  return 1 + small_blocks * (kSmallBlock + 1) + large_blocks * (kLargeBlock + 1);
}

std::string EncodeText(std::string_view text) {
  if (text.empty()) return std::string(1, kFixedTag);
  std::string encoded(1, kTextTag);
  encoded.reserve(static_cast<size_t>(EncodedTextLength(static_cast<int64_t>(text.size()))));
  for (size_t at = 0; at < text.size();) {
    const size_t block = BlockAt(at);
    const size_t length = std::min(block, text.size() - at);
    encoded.append(text, at, length).append(block - length, '\0');
    at += length;
    encoded += at < text.size() ? '\xff' : static_cast<char>(length);
  }
  return encoded;
}

arrow::Result<MappedValue> DecodeMapped(const KeyType& type, std::string_view encoded) {
  if (!type.fixed_width() || encoded.size() != static_cast<size_t>(type.encoded_width()) ||
      encoded[0] != kFixedTag) {
    return Invalid("{} is not an encoded value of {} bits", Hex(encoded), type.bits);
  }
  MappedValue mapped = 0;
  for (unsigned char c : encoded.substr(1)) mapped = mapped << 8 | c;
  if (type.kind == KeyType::Kind::kBool && mapped > 1) {
    return Invalid("{} is not an encoded boolean", Hex(encoded));
  }
  return mapped;
}

arrow::Result<std::string> DecodeText(std::string_view encoded) {
  auto malformed = [&] { return Invalid("{} is not an encoded string", Hex(encoded)); };
  if (encoded.empty()) return malformed();
  if (encoded[0] == kFixedTag && encoded.size() == 1) return std::string();
  if (encoded[0] != kTextTag) return malformed();
  std::string text;
  for (size_t at = 1;;) {
    const size_t block = BlockAt(text.size());
    if (encoded.size() - at < block + 1) return malformed();
    const auto mark = static_cast<unsigned char>(encoded[at + block]);
    const std::string_view bytes = encoded.substr(at, block);
    at += block + 1;
    if (mark == 0xff) {
      text += bytes;
      continue;
    }
    if (mark == 0 || mark > block || at != encoded.size() ||
        bytes.substr(mark).find_first_not_of('\0') != std::string_view::npos) {
      return malformed();
    }
    text += bytes.substr(0, mark);
    return text;
  }
}

MappedValue MapPlain(const KeyType& type, MappedValue plain) {
  switch (type.kind) {
    case KeyType::Kind::kBool:
      return plain != 0;
    case KeyType::Kind::kSigned:
    case KeyType::Kind::kDecimal128:
      return plain ^ TopBit(type);
    case KeyType::Kind::kFloat:
      return plain & TopBit(type) ? plain ^ AllBits(type) : plain ^ TopBit(type);
    default:
      return plain;
  }
}

arrow::Result<std::string> EncodeValue(const KeyType& type, const arrow::Array& values,
                                       int64_t row) {
  ARROW_RETURN_NOT_OK(CheckKeyType(type, *values.type()));
  if (row < 0 || row >= values.length()) {
    return Invalid("row {} of an array of {}", row, values.length());
  }
  const ResolvedRow resolved = ResolveRow(values, row);
  if (resolved.row < 0) return Invalid("row {} is null, which has no encoded value", row);
  return type.fixed_width() ? EncodeMapped(type, MappedAt(type, *resolved.values, resolved.row))
                            : EncodeText(TextAt(*resolved.values, resolved.row));
}

arrow::Result<std::string> EncodePlain(const KeyType& type, std::string_view plain) {
  if (!type.fixed_width()) return EncodeText(plain);
  if (plain.size() != static_cast<size_t>(type.bits / 8)) {
    return Invalid("a plain value of {} bytes where {} are needed", plain.size(), type.bits / 8);
  }
  MappedValue value = 0;
  for (auto byte = plain.rbegin(); byte != plain.rend(); ++byte) {
    value = value << 8 | static_cast<unsigned char>(*byte);
  }
  return EncodeMapped(type, MapPlain(type, value));
}

std::string DescribeEncoded(const KeyType& type, std::string_view encoded) {
  if (!type.fixed_width()) {
    auto text = DecodeText(encoded);
    return text.ok() ? Quote(*text) : Hex(encoded);
  }
  auto mapped = DecodeMapped(type, encoded);
  if (!mapped.ok()) return Hex(encoded);
  const MappedValue plain = UnmapValue(type, *mapped);
  const auto word = static_cast<uint64_t>(plain);
  switch (type.kind) {
    case KeyType::Kind::kBool:
      return word ? "true" : "false";
    case KeyType::Kind::kSigned:
      return fmt::format("{}", static_cast<int64_t>(word << (64 - type.bits)) >> (64 - type.bits));
    case KeyType::Kind::kFloat:
      return type.bits == 32 ? fmt::format("{}", std::bit_cast<float>(static_cast<uint32_t>(word)))
                             : fmt::format("{}", std::bit_cast<double>(word));
    case KeyType::Kind::kDecimal128:
      return arrow::Decimal128(static_cast<int64_t>(plain >> 64), word).ToIntegerString();
    default:
      return fmt::format("{}", word);
  }
}

}  // namespace thalweg
