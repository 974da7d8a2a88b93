#include "table/run_tag.h"

#include <xxhash.h>

#include <cctype>

#include "util/status.h"

namespace thalweg {
namespace {

constexpr std::string_view kRunFilePrefix = "thalweg-run-";
constexpr std::string_view kRunFileSuffix = ".json";
constexpr std::string_view kUnfinishedSuffix = ".tmp";
constexpr size_t kTagSize = 36;

}  // namespace

arrow::Status CheckRunId(const std::string& run_id) {
  bool good = !run_id.empty() && run_id.size() <= 64;
  for (unsigned char c : run_id)
    good = good && (std::isalnum(c) || c == '.' || c == '_' || c == '-');
  if (!good) return Usage("run id \"{}\": use 1 to 64 letters, digits, '.', '_' or '-'", run_id);
  return arrow::Status::OK();
}

std::string RunTag(const std::string& run_id, const std::string& scope) {
  bool uuid = run_id.size() == 36 && scope.empty();
  for (size_t i = 0; uuid && i < run_id.size(); ++i) {
    const char c = run_id[i];
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    uuid = dash ? c == '-' : (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  }
  if (uuid) return run_id;
  const std::string text = scope.empty() ? run_id : scope + "\n" + run_id;
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:08x}-{:04x}-8{:03x}-{:04x}-{:012x}", hash.high64 >> 32,
                     (hash.high64 >> 16) & 0xFFFF, hash.high64 & 0xFFF,
                     0x8000 | ((hash.low64 >> 48) & 0x3FFF), hash.low64 & 0xFFFFFFFFFFFFULL);
}

std::string RunFileName(const std::string& run_tag, const std::string& attempt) {
  return fmt::format("{}{}-{}{}", kRunFilePrefix, run_tag, attempt, kRunFileSuffix);
}

std::string RunTagOfRunFile(std::string_view name) {
  if (!LooksLikeRunFile(name)) return "";
  if (name.ends_with(kUnfinishedSuffix)) {
    const size_t end = name.find(kRunFileSuffix);
    if (end == std::string_view::npos) return "";
    name = name.substr(0, end + kRunFileSuffix.size());
  }
  name.remove_prefix(kRunFilePrefix.size());
  if (!name.ends_with(kRunFileSuffix) || name.size() <= kTagSize || name[kTagSize] != '-') {
    return "";
  }
  return std::string(name.substr(0, kTagSize));
}

bool LooksLikeRunFile(std::string_view name) { return name.starts_with(kRunFilePrefix); }

}  // namespace thalweg
