// libFuzzer: a serialised model, as it travels beside the envelopes.
#include <cstddef>
#include <cstdint>

#include "task/envelope.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thalweg;  // NOLINT
  const auto fitted = DeserializeFitted({reinterpret_cast<const char*>(data), size});
  if (fitted.ok()) (void)SerializeFitted(*fitted);
  return 0;
}
