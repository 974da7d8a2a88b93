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
  const uint64_t high = (Random64() & ~0xF000ULL) | 0x4000ULL;
  const uint64_t low = (Random64() & ~(3ULL << 62)) | (2ULL << 62);
  return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", high >> 32, (high >> 16) & 0xFFFF,
                     high & 0xFFFF, low >> 48, low & 0xFFFFFFFFFFFFULL);
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
