// libFuzzer: a deletion vector's blob, and its bitmap alone, which random bytes reach only without
// the checksum.
#include <cstddef>
#include <cstdint>

#include "iceberg/deletion_vector.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  constexpr int64_t kRows = int64_t{1} << 32;
  (void)thalweg::iceberg::ParseDeletionVector(bytes, kRows, 1, "fuzz");
  (void)thalweg::iceberg::ParsePositionBitmap(bytes, kRows, "fuzz");
  return 0;
}
