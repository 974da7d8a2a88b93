// libFuzzer: a manifest, and its bounds as those of each type that can be a key.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "iceberg/bounds.h"
#include "iceberg/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thalweg::iceberg;  // NOLINT
  auto decode_bounds = [](ManifestEntry&& entry) {
    for (const auto* bounds : {&entry.file.lower_bounds, &entry.file.upper_bounds}) {
      for (const auto& [id, bound] : *bounds) {
        for (int kind = 0; kind < static_cast<int>(TypeKind::kStruct); ++kind) {
          Type type;
          type.kind = static_cast<TypeKind>(kind);
          type.precision = 12;
          type.scale = 2;
          type.length = 16;
          (void)BoundToEncoded(type, bound);
        }
      }
    }
    return arrow::Status::OK();
  };
  (void)ReadManifest({reinterpret_cast<const char*>(data), size}, "fuzz", decode_bounds);
  return 0;
}
