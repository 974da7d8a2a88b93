#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "sort/collector.h"
#include "sort/sort_context.h"
#include "sort/sorted_rows.h"
#include "sort/spill_file.h"

namespace thalweg {

/// Rows scattered to partitions along the curve, on disk.
class SpilledRows : public SortedRows {
 public:
  /// `load_bytes`: what one thread may load at once. `ranges`: the partitions.
  SpilledRows(SortContext& context, const KeyEncoder& encoder, std::vector<int> key_columns,
              std::shared_ptr<arrow::Schema> schema, std::shared_ptr<SpillFile> file,
              KeyRanges ranges, int64_t load_bytes);

  /// Moves what the collector holds to the partitions. Thread-safe.
  arrow::Status Scatter(Collector& collector);
  /// After the last Scatter: splits partitions that are too large to be loaded.
  arrow::Status Finish();

  arrow::Result<std::shared_ptr<const LoadedRows>> Load(int partition) override;
  void ReleaseBefore(int64_t row) override;

 private:
  struct Piece {
    int64_t rows = 0;
    int64_t bytes = 0;
    SpillExtent extent;
  };
  struct Partition {
    int64_t rows = 0;
    int64_t bytes = 0;
    bool sorted = false;  // all keys are equal
    std::vector<Piece> pieces;

    arrow::Status Add(const arrow::RecordBatch& batch, SpillExtent extent);
  };
  arrow::Status Split(Partition partition, std::vector<Partition>* out);
  arrow::Result<std::vector<Key128>> SplitBorders(const Partition& partition);

  SortContext& context_;
  const KeyEncoder& encoder_;
  const std::vector<int> key_columns_;
  const std::shared_ptr<arrow::Schema> schema_;
  const std::shared_ptr<SpillFile> file_;
  const KeyRanges ranges_;
  const int64_t load_bytes_;
  const int64_t piece_bytes_;
  std::mutex mutex_;
  std::vector<Partition> partitions_;
  int released_ = 0;
};

/// The most partitions that `held_bytes` are scattered to at once, so that the pieces stay large
/// against what describes them.
int MaxFanOut(int64_t held_bytes, int columns);

}  // namespace thalweg
