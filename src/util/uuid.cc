#include "util/uuid.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <chrono>
#include <random>

namespace thalweg {
namespace {

uint64_t Random64() {
  uint64_t value = 0;
  if (getrandom(&value, sizeof(value), 0) != sizeof(value)) {
    std::random_device device;
    value = (static_cast<uint64_t>(device()) << 32) | device();
  }
  return value;
}

}  // namespace

std::string NewUuid() {
  const uint64_t high =
      (static_cast<uint64_t>(NowMillis()) << 16) | 0x7000ULL | (Random64() & 0xFFFULL);
  const uint64_t low = (Random64() & ~(3ULL << 62)) | (2ULL << 62);
  return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", high >> 32, (high >> 16) & 0xFFFF,
                     high & 0xFFFF, low >> 48, low & 0xFFFFFFFFFFFFULL);
}

std::optional<int64_t> TimeOfUuid(std::string_view uuid) {
  constexpr std::string_view kForm = "xxxxxxxx-xxxx-7xxx-xxxx-xxxxxxxxxxxx";
  if (uuid.size() != kForm.size()) return std::nullopt;
  uint64_t time = 0;
  for (size_t at = 0; at < kForm.size(); ++at) {
    const bool digit = std::string_view("0123456789abcdef").find(uuid[at]) != std::string::npos;
    if (kForm[at] == 'x' ? !digit : uuid[at] != kForm[at]) return std::nullopt;
    if (at >= 13 || !digit) continue;
    time =
        time * 16 + static_cast<uint64_t>(uuid[at] <= '9' ? uuid[at] - '0' : uuid[at] - 'a' + 10);
  }
  return static_cast<int64_t>(time);
}

int64_t NewRandomId() {
  int64_t id = 0;
  while (id == 0) id = static_cast<int64_t>(Random64() & INT64_MAX);
  return id;
}

int64_t NowMillis() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace thalweg
