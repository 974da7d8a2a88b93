#pragma once

#include <arrow/record_batch.h>
#include <arrow/result.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "sort/gather.h"
#include "sort/key_rows.h"
#include "sort/sorted_rows.h"
#include "util/memory.h"

namespace thalweg {

/// Batches with their keys, as one thread has read them. They either stay (everything fits) or are
/// flushed in partition order.
class Collector {
 public:
  Collector(std::shared_ptr<arrow::Schema> schema, MemoryAccount* memory)
      : schema_(std::move(schema)), memory_(memory), gatherer_(schema_) {}

  /// `weight`: payload bytes of the batch's heaviest row, see RowWeights.
  arrow::Status Add(std::shared_ptr<arrow::RecordBatch> batch, KeyVector keys,
                    int64_t heaviest_row);
  /// Bytes reserved: what the batches refer to, keys, and what sorting or flushing them will need.
  int64_t bytes() const { return bytes_; }
  int64_t rows() const { return rows_; }
  int64_t batches() const { return static_cast<int64_t>(keys_.size()); }
  int64_t heaviest_row() const { return heaviest_row_; }

  /// Hands the rows of each range on, in batches of about `piece_bytes` with the bytes that they
  /// hold, ranges ascending and rows in the order in which they were added; afterwards the
  /// collector is empty.
  using Piece = std::function<arrow::Status(int range, std::shared_ptr<arrow::RecordBatch>)>;
  arrow::Status Flush(const KeyRanges& ranges, int64_t piece_bytes, const Piece& piece);

  /// Everything, sorted; the collectors are empty afterwards.
  static arrow::Result<std::unique_ptr<SortedRows>> Sort(std::vector<Collector>& collectors,
                                                         const KeyRanges& ranges, bool wide,
                                                         int threads);

 private:
  void Clear();

  std::shared_ptr<arrow::Schema> schema_;
  MemoryAccount* memory_;
  RowGatherer gatherer_;
  std::vector<KeyVector> keys_;
  std::vector<Reservation> held_;
  int64_t bytes_ = 0;
  int64_t rows_ = 0;
  int64_t heaviest_row_ = 0;
};

/// The number of rows, of the `n` at `addresses`, that make a batch of about `max_bytes`;
/// `mean_row` is the mean row's size.
int64_t BatchRows(const RowGatherer& gatherer, const uint64_t* addresses, int64_t n,
                  int64_t max_bytes, int64_t mean_row, int64_t heaviest_row);

}  // namespace thalweg
