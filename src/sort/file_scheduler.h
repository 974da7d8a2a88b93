#pragma once

#include <arrow/result.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "sort/cluster_sort.h"
#include "sort/cut_planner.h"
#include "sort/parallel.h"
#include "sort/sort_context.h"

namespace thalweg {

/// One output file on its way: the rows [begin, end) of the curve.
struct FileTask {
  FilePlacement placement;
  int64_t begin = 0;
  int64_t end = 0;
  int64_t cube_begin = 0;
  int64_t cube_end = 0;
  double expected = 0;                  ///< encoded size, in the unit of the file's window
  std::vector<int64_t> row_group_cuts;  ///< inner rows at which a row group ends
  std::atomic<bool> cancelled{false};   ///< to be discarded: it will be cut again
  // Filled in by the thread that writes it:
  std::unique_ptr<SortedFileWriter> writer;
  SortedFile written;
  bool finished = false;
};

/// Decides, along the curve, which rows the next file gets. Every finished file corrects the
/// estimate of encoded bytes per payload byte; a file that missed its window is cut again, with
/// those after it in its cube that depend on it; where that is the first file of a cube, the cube's
/// end is decided again, too. The last files of a cube stay open until all of them fit.
class FileScheduler {
 public:
  /// `settled(row)`: the files before `row` are final.
  FileScheduler(SortContext& context, std::vector<CurveBin> bins, int columns,
                int64_t encoded_bytes, SharedStatus& shared, std::function<void(int64_t)> settled);

  /// The next file to write, null when everything is final. Waits for files in flight that may have
  /// to be cut again.
  arrow::Result<std::shared_ptr<FileTask>> Next();
  /// The task's file is finished and its writer closed, or (cancelled) it was discarded.
  arrow::Status Done(const std::shared_ptr<FileTask>& task);
  /// The task could not be written, or another failed meanwhile.
  void Failed(FileTask& task);
  /// Wakes waiting threads after a failure.
  void Wake() { changed_.notify_all(); }

  /// After a success: all files in curve order, with their counters.
  void Finish(ClusterSortResult* result);
  /// After a failure, once no thread writes any more: discards all files.
  void DiscardAll();

 private:
  using Task = std::shared_ptr<FileTask>;
  CutWindow Window(double margin) const;
  void BeginCube();
  Task MakeTask();
  int64_t Size(const FileTask& task) const;
  bool Fits(const FileTask& task) const;
  bool CubeEndFits(size_t index) const;
  void Correct(const FileTask& task);
  arrow::Status Settle();
  arrow::Status CutAgain(size_t index);

  SortContext& context_;
  const ClusterSortOptions& options_;
  const bool by_rows_;
  CutPlanner by_bytes_;
  const CutPlanner* by_size_;  // by rows where files are limited by rows
  std::unique_ptr<CutPlanner> by_rows_planner_;
  SharedStatus& shared_;
  const std::function<void(int64_t)> settled_;
  double low_, high_, target_;  // of a file, encoded bytes or rows
  double ratio_;                // encoded bytes per payload byte
  double deviation_;            // recent relative error of expected sizes
  bool measured_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> open_;  // in curve order: in flight, or finished and not final
  std::vector<Task> final_;
  int64_t next_row_ = 0;
  int cube_ = -1;
  int next_file_ = 0;
  int64_t cube_begin_ = 0;
  int64_t cube_end_ = 0;
  int in_flight_ = 0;
  int cancelled_ = 0;       // cancelled and not yet given back
  int tries_ = 0;           // at the current place
  int64_t tries_row_ = -1;  // the furthest place that was cut again
  int64_t discarded_ = 0;
  int64_t outside_ = 0;
};

}  // namespace thalweg
