#include "util/interrupt.h"

#include <atomic>

namespace thalweg {
namespace {

std::atomic<bool (*)()> interrupt_check{nullptr};

}  // namespace

void SetInterruptCheck(bool (*check)()) { interrupt_check.store(check); }

bool InterruptRequested() {
  const auto check = interrupt_check.load();
  return check != nullptr && check();
}

}  // namespace thalweg
