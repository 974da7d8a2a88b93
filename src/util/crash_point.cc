#include "util/crash_point.h"

#ifdef THALWEG_CRASH_POINTS
#include <csignal>
#include <cstdlib>
#include <atomic>
#include <string_view>

namespace thalweg {

void CrashPoint(const char* name) {
  static const char* const wanted = std::getenv("THALWEG_CRASH_POINT");
  if (wanted == nullptr) return;
  std::string_view spec(wanted);
  const auto colon = spec.find(':');
  if (spec.substr(0, colon) != name) return;
  static std::atomic<int> reached{0};
  const int at = colon == std::string_view::npos ? 1 : std::atoi(wanted + colon + 1);
  if (++reached == at) std::raise(SIGKILL);
}

}  // namespace thalweg
#endif
