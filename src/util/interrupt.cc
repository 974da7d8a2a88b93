#include "util/interrupt.h"

#include <atomic>

namespace thalweg {
namespace {

std::atomic<bool (*)()> interrupt_check{nullptr};
thread_local const arrow::StopToken* thread_token = nullptr;

}  // namespace

void SetInterruptCheck(bool (*check)()) { interrupt_check.store(check); }

InterruptibleBy::InterruptibleBy(const arrow::StopToken& token) : outer_(thread_token) {
  thread_token = &token;
}

InterruptibleBy::~InterruptibleBy() { thread_token = outer_; }

bool InterruptRequested() {
  if (thread_token != nullptr && thread_token->IsStopRequested()) return true;
  const auto check = interrupt_check.load();
  return check != nullptr && check();
}

}  // namespace thalweg
