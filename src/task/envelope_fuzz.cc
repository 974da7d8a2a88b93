// libFuzzer: an envelope of any kind.
#include <cstddef>
#include <cstdint>

#include "task/envelope.h"
#include "util/json.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thalweg;  // NOLINT
  const auto json = ParseJson({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!json.ok()) return 0;
  (void)ResultEnvelope::FromJson(*json, "fuzz");
  (void)TaskEnvelope::FromJson(*json, "fuzz");
  (void)SelectionEnvelope::FromJson(*json, "fuzz");
  (void)ScanReport::FromJson(*json, "fuzz");
  return 0;
}
