#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "sort/gather.h"
#include "sort/key_rows.h"
#include "util/memory.h"

namespace thalweg {

/// The rows of one partition, in curve order and ready to be gathered.
struct LoadedRows {
  std::shared_ptr<const RowGatherer> gatherer;
  std::shared_ptr<const KeyRows> rows;
  int64_t begin = 0;  ///< where the partition begins in `rows`
  Reservation held;
};

/// All rows of a sort, in partitions along the curve; rows are numbered in curve order. Load is
/// thread-safe.
class SortedRows {
 public:
  virtual ~SortedRows() = default;
  int partitions() const { return static_cast<int>(first_row_.size()) - 1; }
  /// The number of the partition's first row; of `partitions()`: the number of all rows.
  int64_t first_row(int partition) const { return first_row_[partition]; }
  int64_t rows() const { return first_row_.back(); }
  int PartitionOf(int64_t row) const;

  virtual arrow::Result<std::shared_ptr<const LoadedRows>> Load(int partition) = 0;
  /// Rows before `row` are never loaded again.
  virtual void ReleaseBefore(int64_t row) = 0;

 protected:
  std::vector<int64_t> first_row_{0};
};

}  // namespace thalweg
