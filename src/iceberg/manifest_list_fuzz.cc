// libFuzzer: a manifest list.
#include <cstddef>
#include <cstdint>

#include "iceberg/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  (void)thalweg::iceberg::ReadManifestList({reinterpret_cast<const char*>(data), size}, "fuzz");
  return 0;
}
