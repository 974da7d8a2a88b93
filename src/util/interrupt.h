#pragma once

#include <arrow/util/cancel.h>

namespace thalweg {

/// Says how to learn whether the user asked the process to stop (SIGINT, SIGTERM); nullptr: never.
/// For waits that no stop token reaches, those for servers.
void SetInterruptCheck(bool (*check)());

/// While it lives, waits of this thread also end when `token` asks for it.
class InterruptibleBy {
 public:
  explicit InterruptibleBy(const arrow::StopToken& token);
  ~InterruptibleBy();
  InterruptibleBy(const InterruptibleBy&) = delete;
  InterruptibleBy& operator=(const InterruptibleBy&) = delete;

 private:
  const arrow::StopToken* const outer_;
};

/// True when the user asked to stop.
bool InterruptRequested();

}  // namespace thalweg
