#pragma once

#include <arrow/record_batch.h>
#include <arrow/result.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "iceberg/data_file.h"
#include "iceberg/parquet_writer.h"
#include "iceberg/schema.h"

namespace parquet {
class FileMetaData;
}

namespace thalweg::iceberg {

/// Bounds of a clustering column of strings or binaries reach this far beyond the common prefix of
/// its smallest and largest value, in code points (strings) or bytes, so that the two always
/// differ.
inline constexpr int kClusteringBoundLength = 16;
/// A clustering column whose values are all equal gets them whole up to this many code points or
/// bytes.
inline constexpr int kMaxEqualBoundLength = 1024;
/// The common prefix counts up to this many code points or bytes: bounds live in manifests, which
/// every reader loads.
inline constexpr int kMaxCommonPrefix = 16384;

/// Modes of all leaf fields outside of lists and maps, by the properties
/// write.metadata.metrics.default, .column.<name> (dotted path) and .max-inferred-column-defaults:
/// without a default of the user's own, fields beyond the limit (at each level the primitive fields
/// first) have mode none. A malformed value is an error that names the property; columns that do
/// not exist are passed over, as properties outlive dropped columns.
arrow::Result<std::map<int32_t, ParquetWriteOptions::MetricsMode>> MetricsModes(
    const std::map<std::string, std::string>& properties, const Schema& schema);

/// Gathers Iceberg metrics of one data file: NaN counts and bounds from the batches that are
/// written, sizes and counts from the footer. Bounds are single-value binary: numbers
/// little-endian, never NaN, a zero lower bound as -0.0 and a zero upper bound as +0.0; decimals
/// minimal big-endian two's complement; strings and binaries truncated by their mode. None inside
/// lists and maps, none where all values are null or NaN.
class MetricsCollector {
 public:
  MetricsCollector(const Schema& schema,
                   const std::map<int32_t, ParquetWriteOptions::MetricsMode>& modes,
                   const std::set<int32_t>& clustering_field_ids);
  ~MetricsCollector();

  /// A batch of exactly the types of Schema::ToArrow().
  arrow::Status Update(const arrow::RecordBatch& batch);
  /// Fills in record_count, column_sizes, counts, bounds, split_offsets and sort_order_id.
  arrow::Status Finish(const parquet::FileMetaData& metadata, DataFile* file) const;

 private:
  class Leaf;
  struct Node;
  arrow::Status UpdateNode(const Node& node, const arrow::Array& array);

  std::vector<std::unique_ptr<Leaf>> leaves_;
  std::vector<Node> nodes_;  ///< one per top-level field
  int columns_ = 0;          ///< leaf columns of the file
  std::map<int32_t, ParquetWriteOptions::MetricsMode> modes_;
  std::set<int32_t> clustering_;
};

}  // namespace thalweg::iceberg
