#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <string>

namespace thalweg {

/// Which process something belongs to, well enough to tell later whether that process is still
/// there.
struct ProcessIdentity {
  std::string host;           ///< host name
  std::string boot_id;        ///< of the running kernel: another one after each boot
  std::string pid_namespace;  ///< process ids mean something only within theirs
  int64_t pid = 0;
  int64_t start_time = 0;  ///< in clock ticks since boot: tells a reused process id

  static ProcessIdentity Own();
};

enum class Liveness { kAlive, kDead, kUnknown };
/// kUnknown when the process belongs to another host, boot (hosts may share a name) or process id
/// namespace, or cannot be looked at.
Liveness LivenessOf(const ProcessIdentity& process);

}  // namespace thalweg
