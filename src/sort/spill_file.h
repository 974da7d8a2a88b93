#pragma once

#include <arrow/record_batch.h>
#include <arrow/result.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace thalweg {

/// Where one batch stands in a spill file.
struct SpillExtent {
  int64_t offset = 0;
  int64_t bytes = 0;
};

/// Batches on disk as Arrow IPC (lz4): one file in the spill folder, unlinked at once, so that
/// nothing outlives the process. Extents that were consumed give their disk space back.
/// Thread-safe.
class SpillFile {
 public:
  /// `dir` empty: the system's temporary folder. `max_bytes` < 0: no limit on the bytes at once.
  static arrow::Result<std::shared_ptr<SpillFile>> Make(const std::string& dir, int64_t max_bytes);
  ~SpillFile();

  /// A full disk and the limit are errors that name the folder and the option.
  arrow::Result<SpillExtent> Write(const arrow::RecordBatch& batch);
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> Read(
      const SpillExtent& extent, const std::shared_ptr<arrow::Schema>& schema) const;
  void Release(const SpillExtent& extent);

  int64_t written_bytes() const { return written_; }  ///< over the whole life
  int64_t peak_bytes() const { return peak_; }        ///< most at once

 private:
  SpillFile(int fd, std::string dir, int64_t max_bytes)
      : fd_(fd), dir_(std::move(dir)), max_bytes_(max_bytes) {}
  const int fd_;
  const std::string dir_;
  const int64_t max_bytes_;
  std::atomic<int64_t> end_{0};
  std::atomic<int64_t> held_{0};
  std::atomic<int64_t> written_{0};
  std::atomic<int64_t> peak_{0};
};

}  // namespace thalweg
