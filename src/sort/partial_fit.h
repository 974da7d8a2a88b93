#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "key/sample.h"
#include "sort/cluster_sort.h"
#include "sort/row_sample.h"

namespace thalweg {

/// What the first pass has seen of some of the rows: samples of each key column and of whole rows,
/// drawn by row addresses. Mergeable: the result does not depend on how the rows were split, so
/// that parts of a selection can be sampled by different threads, processes and machines. Not
/// thread-safe.
class PartialFit {
 public:
  /// `schema`: of the key columns alone, in declared order; `key_columns`: their positions in the
  /// source's schema, which go into the sampling priorities.
  static arrow::Result<PartialFit> Make(const arrow::Schema& schema, std::vector<int> key_columns,
                                        Algorithm algorithm);

  /// Rows of the key columns.
  arrow::Status Add(const RowBatch& rows);
  arrow::Status Merge(PartialFit other);
  int64_t rows() const { return row_count_; }
  arrow::Result<FittedKeys> Finish(Curve curve, int bits_per_dim);

  /// "THWSAM01", then counts, the columns' candidates and the sampled rows as an Arrow IPC stream.
  /// At most some 40 MiB.
  arrow::Result<std::string> Serialize();
  /// Bounds-checked; columns of other types or positions than those given are an error.
  static arrow::Result<PartialFit> Deserialize(std::string_view bytes, Algorithm algorithm);

 private:
  PartialFit(const std::shared_ptr<arrow::Schema>& schema, std::vector<int> key_columns)
      : schema_(schema), key_columns_(std::move(key_columns)), row_sample_(schema) {}

  std::shared_ptr<arrow::Schema> schema_;  // without dictionaries
  std::vector<int> key_columns_;
  std::vector<KeyType> types_;
  std::vector<ColumnSample> columns_;
  RowSample row_sample_;
  int64_t row_count_ = 0;
  int64_t nulls_[4] = {0, 0, 0, 0};
};

/// Reads the key columns of all parts of a source.
arrow::Result<PartialFit> SampleRows(RowSource& source, const std::vector<int>& key_columns,
                                     Algorithm algorithm, const ClusterSortOptions& options);

}  // namespace thalweg
