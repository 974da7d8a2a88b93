// libFuzzer entry: the first byte chooses the reader, the rest is the file.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "iceberg/manifest.h"
#include "iceberg/puffin.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thalweg::iceberg;  // NOLINT
  if (size == 0) return 0;
  std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      (void)ReadManifest(bytes, "fuzz", [](ManifestEntry&&) { return arrow::Status::OK(); });
      break;
    case 1:
      (void)ReadManifestList(bytes, "fuzz");
      break;
    default:
      (void)ReadPuffin(bytes, "fuzz");
  }
  return 0;
}
