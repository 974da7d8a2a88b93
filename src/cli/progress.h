#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <string>

#include "task/execute.h"

namespace thalweg::cli {

/// One line of at most `width` columns: stage, bar and percent where the total is known, rate and
/// time left.
std::string ProgressLine(const Progress& progress, double seconds, int width);

/// A progress bar on standard error, redrawn at most ten times a second and cleared at the end.
/// Draws nothing unless `enabled`. The callback may be called from several threads; the bar must
/// outlive it.
class ProgressBar {
 public:
  explicit ProgressBar(bool enabled) : enabled_(enabled) {}
  ~ProgressBar() { Clear(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  std::function<void(const Progress&)> callback();
  void Clear();

 private:
  using Clock = std::chrono::steady_clock;
  void Show(const Progress& progress);

  const bool enabled_;
  std::mutex mutex_;
  std::string stage_;
  Clock::time_point stage_start_;
  Clock::time_point drawn_at_;
  bool drawn_ = false;
};

/// True when standard error is a terminal that can redraw a line.
bool StderrIsTerminal();

}  // namespace thalweg::cli
