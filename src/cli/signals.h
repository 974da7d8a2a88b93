#pragma once

#include <arrow/util/cancel.h>

namespace thalweg::cli {

/// While it lives, SIGINT and SIGTERM ask the work to stop instead of ending the process; a second
/// signal ends it at once. One at a time in a process.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  arrow::StopToken token();
};

/// True when a signal asked the last scope's work to stop.
bool WasInterrupted();

}  // namespace thalweg::cli
