#pragma once

#include <arrow/status.h>

#include <atomic>
#include <functional>
#include <mutex>

namespace thalweg {

/// The first failure among threads that work together; the others look at `failed()` and stop.
class SharedStatus {
 public:
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  /// Keeps the first failure; returns what it was given.
  arrow::Status Set(arrow::Status status);
  arrow::Status status() const;

 private:
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;
  arrow::Status status_;
};

/// Runs `work(thread)` on `threads` threads (the caller is one of them) and joins them all: the
/// first failure. Exceptions become failures. `work` looks at `shared.failed()` between its steps.
arrow::Status RunThreads(int threads, SharedStatus& shared,
                         const std::function<arrow::Status(int)>& work);

/// Calls `work(i)` for 0 <= i < n, each once, on up to `threads` threads.
arrow::Status ParallelFor(int threads, int64_t n,
                          const std::function<arrow::Status(int64_t)>& work);

}  // namespace thalweg
