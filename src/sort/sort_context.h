#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>

#include "sort/cluster_sort.h"

namespace thalweg {

/// What the stages of one sort share: options made definite, progress and cancellation.
class SortContext {
 public:
  explicit SortContext(const ClusterSortOptions& options)
      : options(options), threads(options.threads < 1 ? 1 : options.threads) {
    if (options.memory != nullptr) memory = options.memory;
  }

  /// A failure of kind Cancelled once a stop was asked for.
  arrow::Status CheckStop() const { return options.stop.Poll(); }

  void Progress(ClusterSortProgress::Stage stage, int64_t more_rows, int64_t rows_total) {
    if (!options.progress) return;
    std::lock_guard<std::mutex> lock(mutex_);
    if (stage != progress_.stage) progress_ = {stage, 0, rows_total};
    progress_.rows_done += more_rows;
    if (rows_total >= 0) {  // files that are cut again count once
      progress_.rows_done = std::min(progress_.rows_done, rows_total);
    }
    options.progress(progress_);
  }

  const ClusterSortOptions& options;
  const int threads;

 private:
  MemoryAccount unlimited_{int64_t{1} << 62};
  std::mutex mutex_;
  ClusterSortProgress progress_{ClusterSortProgress::Stage::kFit, 0, -1};

 public:
  MemoryAccount* memory = &unlimited_;
};

}  // namespace thalweg
