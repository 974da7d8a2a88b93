#include "task/process_identity.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <optional>

#include "util/status.h"

namespace thalweg {
namespace {

/// The first bytes of a small file of /proc; nullopt when it cannot be read.
std::optional<std::string> ReadSmall(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return std::nullopt;
  char buffer[4096];
  const ssize_t n = read(file, buffer, sizeof(buffer));
  close(file);
  if (n < 0) return std::nullopt;
  return std::string(buffer, n);
}

/// Fields 3, 20 and 22 of /proc/<pid>/stat, counted after the command, which is in parentheses and
/// may hold anything.
struct ProcessStat {
  char state = '?';
  int64_t threads = 0;
  int64_t start_time = -1;

  /// A zombie leader may have left threads behind that still run.
  bool gone() const { return (state == 'Z' && threads <= 1) || state == 'X'; }
};
std::optional<ProcessStat> StatOf(int64_t pid) {
  const auto text = ReadSmall(fmt::format("/proc/{}/stat", pid));
  const size_t paren = text ? text->rfind(')') : std::string::npos;
  if (paren == std::string::npos) return std::nullopt;
  ProcessStat stat;
  size_t at = paren + 1;
  for (int field = 3; field <= 22; ++field) {
    at = text->find_first_not_of(' ', at);
    if (at == std::string::npos) return std::nullopt;
    if (field == 3) stat.state = (*text)[at];
    if (field == 20) stat.threads = std::strtoll(text->c_str() + at, nullptr, 10);
    if (field == 22) stat.start_time = std::strtoll(text->c_str() + at, nullptr, 10);
    at = text->find(' ', at);
  }
  return stat;
}

}  // namespace

ProcessIdentity ProcessIdentity::Own() {
  ProcessIdentity own;
  char host[HOST_NAME_MAX + 1] = {};
  if (gethostname(host, sizeof(host) - 1) == 0) own.host = host;
  if (auto boot = ReadSmall("/proc/sys/kernel/random/boot_id")) {
    own.boot_id = boot->substr(0, boot->find('\n'));
  }
  char link[256];
  const ssize_t n = readlink("/proc/self/ns/pid", link, sizeof(link));
  if (n > 0) own.pid_namespace.assign(link, n);
  own.pid = getpid();
  if (auto stat = StatOf(own.pid)) own.start_time = stat->start_time;
  return own;
}

Liveness LivenessOf(const ProcessIdentity& process) {
  const ProcessIdentity own = ProcessIdentity::Own();
  if (process.host.empty() || process.boot_id.empty() || process.pid_namespace.empty() ||
      process.pid <= 0 || process.start_time <= 0 || process.host != own.host ||
      own.boot_id.empty()) {
    return Liveness::kUnknown;
  }
  if (process.boot_id != own.boot_id || process.pid_namespace != own.pid_namespace) {
    return Liveness::kUnknown;
  }
  if (auto stat = StatOf(process.pid)) {
    if (stat->start_time != process.start_time) return Liveness::kDead;
    return stat->gone() ? Liveness::kDead : Liveness::kAlive;
  }
  // Without /proc (or with hidepid) only the signal tells: no such process is proof, anything else
  // is not.
  if (kill(static_cast<pid_t>(process.pid), 0) != 0 && errno == ESRCH) return Liveness::kDead;
  return Liveness::kUnknown;
}

}  // namespace thalweg
