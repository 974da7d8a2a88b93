// libFuzzer: the cube map of a table; what is accepted must survive being written and read again.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "layout/cube_map.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thalweg;  // NOLINT
  const auto map = ParseCubeMap({reinterpret_cast<const char*>(data), size});
  if (!map.ok()) return 0;
  const Json json = CubeMapToJson(*map);
  const auto again = CubeMapFromJson(json);
  if (!again.ok() || CubeMapToJson(*again) != json) std::abort();
  (void)CompleteCubeMap(*map, {});
  return 0;
}
