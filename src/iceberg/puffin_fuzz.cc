// libFuzzer: a Puffin file.
#include <cstddef>
#include <cstdint>

#include "iceberg/puffin.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  (void)thalweg::iceberg::ReadPuffin({reinterpret_cast<const char*>(data), size}, "fuzz");
  return 0;
}
