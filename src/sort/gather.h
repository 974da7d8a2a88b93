#pragma once

#include <arrow/record_batch.h>
#include <arrow/result.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace thalweg {

/// Takes rows, by address (see RowAddress), out of a set of batches of one schema. Fixed-width,
/// boolean, string and binary columns have kernels of their own; other types go through
/// arrow::compute::Take. Thread-safe once all batches are added.
class RowGatherer {
 public:
  explicit RowGatherer(std::shared_ptr<arrow::Schema> schema);
  ~RowGatherer();
  RowGatherer(RowGatherer&&) noexcept;
  RowGatherer& operator=(RowGatherer&&) noexcept;

  /// Adds a batch and returns its number. The schema is checked by the number of columns and their
  /// types.
  arrow::Result<uint32_t> Add(std::shared_ptr<arrow::RecordBatch> batch);
  const std::shared_ptr<arrow::Schema>& schema() const;
  const std::vector<std::shared_ptr<arrow::RecordBatch>>& batches() const;

  /// How many of the `n` rows, from the first on, hold at most `max_bytes` of strings and binaries;
  /// at least 1.
  int64_t RowsWithin(const uint64_t* addresses, int64_t n, int64_t max_bytes) const;

  /// The `n` rows, in the given order. CapacityError when a column with 32-bit offsets would exceed
  /// 2 GiB.
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> Gather(const uint64_t* addresses,
                                                            int64_t n) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Uncompressed payload bytes of the rows of one batch: exact for fixed-width, string and binary
/// columns, the batch's mean for nested ones. A measure of how rows compare, not of what is held in
/// memory.
arrow::Result<std::vector<int64_t>> RowWeights(const arrow::RecordBatch& batch);

/// Bytes that the rows of this batch refer to.
int64_t ReferencedBytes(const arrow::RecordBatch& batch);

}  // namespace thalweg
