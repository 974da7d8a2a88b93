#include "cli/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "util/units.h"

namespace thalweg::cli {
namespace {

constexpr auto kRedrawInterval = std::chrono::milliseconds(100);
constexpr int kBarWidth = 24;

int TerminalWidth() {
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

}  // namespace

std::string ProgressLine(const Progress& progress, double seconds, int width) {
  std::string line = fmt::format("{:<8}", progress.stage);
  const double rate = seconds > 0 ? static_cast<double>(progress.done) / seconds : 0;
  if (progress.total > 0) {
    const double share = std::clamp(
        static_cast<double>(progress.done) / static_cast<double>(progress.total), 0., 1.);
    const int filled = static_cast<int>(share * kBarWidth);
    line += fmt::format(" [{}{}] {:3.0f} %", std::string(filled, '#'),
                        std::string(kBarWidth - filled, '.'), std::min(share * 100, 100.));
  } else if (progress.done > 0) {
    line += fmt::format(" {} rows", FormatCount(progress.done));
  }
  // The first second says little of the rate.
  if (seconds >= 1 && rate >= 1) {
    line += fmt::format("  {} rows/s", FormatCount(static_cast<int64_t>(rate)));
    if (progress.total > progress.done) {
      line += fmt::format(
          "  {} left", FormatDuration(static_cast<double>(progress.total - progress.done) / rate));
    }
  }
  if (static_cast<int>(line.size()) > width) line.resize(static_cast<size_t>(std::max(width, 0)));
  return line;
}

std::function<void(const Progress&)> ProgressBar::callback() {
  if (!enabled_) return {};
  return [this](const Progress& progress) { Show(progress); };
}

void ProgressBar::Show(const Progress& progress) {
  const auto now = Clock::now();
  std::lock_guard lock(mutex_);
  const bool new_stage = progress.stage != stage_;
  if (new_stage) {
    stage_ = progress.stage;
    stage_start_ = now;
  } else if (now - drawn_at_ < kRedrawInterval) {
    return;
  }
  drawn_at_ = now;
  drawn_ = true;
  const double seconds = std::chrono::duration<double>(now - stage_start_).count();
  const std::string text =
      fmt::format("\r{}\x1b[K", ProgressLine(progress, seconds, TerminalWidth() - 1));
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

void ProgressBar::Clear() {
  std::lock_guard lock(mutex_);
  if (!drawn_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  drawn_ = false;
}

bool StderrIsTerminal() {
  const char* terminal = std::getenv("TERM");
  return isatty(STDERR_FILENO) != 0 &&
         (terminal == nullptr || std::string_view(terminal) != "dumb");
}

}  // namespace thalweg::cli
