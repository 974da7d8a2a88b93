#include "cli/signals.h"

#include <csignal>

#include "util/interrupt.h"

namespace thalweg::cli {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM};

// Never destroyed, so that a late signal finds it.
arrow::StopSource& Source() {
  static arrow::StopSource* source = new arrow::StopSource();
  return *source;
}

extern "C" void OnSignal(int signal_number) {
  for (const int number : kSignals) std::signal(number, SIG_DFL);
  Source().RequestStopFromSignal(signal_number);
}

}  // namespace

InterruptScope::InterruptScope() {
  Source().Reset();
  SetInterruptCheck(WasInterrupted);
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int number : kSignals) sigaction(number, &action, nullptr);
}

InterruptScope::~InterruptScope() {
  for (const int number : kSignals) std::signal(number, SIG_DFL);
}

arrow::StopToken InterruptScope::token() { return Source().token(); }

bool WasInterrupted() { return Source().token().IsStopRequested(); }

}  // namespace thalweg::cli
