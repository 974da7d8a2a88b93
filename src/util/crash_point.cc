#include "util/crash_point.h"

#ifdef THALWEG_CRASH_POINTS
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <string_view>

namespace thalweg {
namespace {

/// True when `name` is reached for the time that the variable asks for.
bool Reached(const char* wanted, const char* name, std::atomic<int>* count) {
  if (wanted == nullptr) return false;
  const std::string_view spec(wanted);
  const auto colon = spec.find(':');
  if (spec.substr(0, colon) != name) return false;
  const int at = colon == std::string_view::npos ? 1 : std::atoi(wanted + colon + 1);
  return ++*count == at;
}

}  // namespace

void CrashPoint(const char* name) {
  static const char* const crash = std::getenv("THALWEG_CRASH_POINT");
  static const char* const pause = std::getenv("THALWEG_PAUSE_POINT");
  static std::atomic<int> crash_count{0};
  static std::atomic<int> pause_count{0};
  if (Reached(crash, name, &crash_count)) std::raise(SIGKILL);
  if (Reached(pause, name, &pause_count)) ::kill(::getpid(), SIGSTOP);
}

}  // namespace thalweg

#else

namespace thalweg {

void CrashPoint(const char*) {}

}  // namespace thalweg
#endif
