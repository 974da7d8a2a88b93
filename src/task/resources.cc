#include "task/resources.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>

namespace thalweg {
namespace {

/// The number in a control group file; INT64_MAX for "max", a missing file or nonsense.
int64_t LimitIn(const std::string& path) {
  std::ifstream file(path);
  std::string text;
  if (!(file >> text) || text.empty() || text.size() > 18 || text[0] < '0' || text[0] > '9') {
    return INT64_MAX;
  }
  return std::strtoll(text.c_str(), nullptr, 10);
}

/// The lowest limit of the groups from `group` up to the root.
int64_t LowestLimit(const std::string& root, std::string group, const std::string& file) {
  int64_t lowest = INT64_MAX;
  while (true) {
    lowest = std::min(lowest, LimitIn(fmt::format("{}{}/{}", root, group, file)));
    const size_t slash = group.rfind('/');
    if (group.empty() || slash == std::string::npos) return lowest;
    group.resize(slash);
  }
}

int64_t ControlGroupLimit() {
  int64_t lowest = INT64_MAX;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // number:controllers:/path
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::string group = line.substr(second + 1);
    if (group == "/") group.clear();
    if (controllers.empty()) {
      lowest = std::min(lowest, LowestLimit("/sys/fs/cgroup", group, "memory.max"));
    } else if (controllers == "memory") {
      lowest =
          std::min(lowest, LowestLimit("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
    }
  }
  return lowest;
}

}  // namespace

int64_t AvailableMemory() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  const int64_t machine = pages > 0 && page > 0 ? pages * page : int64_t{4} << 30;
  return std::min(machine, ControlGroupLimit());
}

int AvailableThreads() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

int64_t PeakMemory() {
  // Not getrusage() where it can be helped: its figure goes on counting what the process that
  // started this one held between fork and exec.
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {  // "VmHWM:      2276 kB"
    if (!line.starts_with("VmHWM:")) continue;
    const int64_t kibibytes = std::strtoll(line.c_str() + 6, nullptr, 10);
    if (kibibytes > 0) return kibibytes * 1024;
  }
  struct rusage usage;
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return int64_t{usage.ru_maxrss} * 1024;
}

}  // namespace thalweg
