#include "task/hex128.h"

#include "util/status.h"

namespace thalweg {

std::string ToHex128(unsigned __int128 value) {
  return fmt::format("{:016x}{:016x}", static_cast<uint64_t>(value >> 64),
                     static_cast<uint64_t>(value));
}

arrow::Result<unsigned __int128> ParseHex128(std::string_view text) {
  unsigned __int128 value = 0;
  bool good = text.size() == 32;
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9';
    good = good && (digit || (c >= 'a' && c <= 'f'));
    if (good) value = value << 4 | static_cast<unsigned>(digit ? c - '0' : c - 'a' + 10);
  }
  if (!good) return Invalid("\"{}\" is not 32 hex digits", text.substr(0, 40));
  return value;
}

}  // namespace thalweg
