#include "table/run_tag.h"

#include <xxhash.h>

#include <cctype>

#include "util/status.h"

namespace thalweg {

arrow::Status CheckRunId(const std::string& run_id) {
  bool good = !run_id.empty() && run_id.size() <= 64;
  for (unsigned char c : run_id)
    good = good && (std::isalnum(c) || c == '.' || c == '_' || c == '-');
  if (!good) return Usage("run id \"{}\": use 1 to 64 letters, digits, '.', '_' or '-'", run_id);
  return arrow::Status::OK();
}

std::string RunTag(const std::string& run_id) {
  bool uuid = run_id.size() == 36;
  for (size_t i = 0; uuid && i < run_id.size(); ++i) {
    const char c = run_id[i];
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    uuid = dash ? c == '-' : (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  }
  if (uuid) return run_id;
  const XXH128_hash_t hash = XXH3_128bits(run_id.data(), run_id.size());
  return fmt::format("{:08x}-{:04x}-8{:03x}-{:04x}-{:012x}", hash.high64 >> 32,
                     (hash.high64 >> 16) & 0xFFFF, hash.high64 & 0xFFF,
                     0x8000 | ((hash.low64 >> 48) & 0x3FFF), hash.low64 & 0xFFFFFFFFFFFFULL);
}

}  // namespace thalweg
