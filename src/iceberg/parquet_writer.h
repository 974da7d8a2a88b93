#pragma once

#include <arrow/record_batch.h>
#include <arrow/result.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "iceberg/data_file.h"
#include "iceberg/file_io.h"
#include "iceberg/schema.h"
#include "util/memory.h"

namespace thalweg::iceberg {

class ParquetEncodings;

/// How data files are written, from the table's write.* properties.
struct ParquetWriteOptions {
  /// write.parquet.compression-codec (zstd, gzip, snappy, lz4, uncompressed, brotli where Arrow has
  /// it), -level; row-group-size-bytes, page-size-bytes, dict-size-bytes, page-row-limit, bloom
  /// filters, and the metrics modes write.metadata.metrics.default / .column.<name> /
  /// .max-inferred-column-defaults. A malformed value is an error that names the property.
  static arrow::Result<ParquetWriteOptions> FromProperties(
      const std::map<std::string, std::string>& properties, const Schema& schema);
  std::string codec = "zstd";
  /// Unset: the codec's default; for zstd 3, or 1 for columns where 3 gains nothing.
  std::optional<int> codec_level;
  int64_t row_group_bytes = int64_t{128} << 20;
  int64_t page_bytes = int64_t{1} << 20;
  int64_t page_rows = 20000;
  int64_t dictionary_bytes = int64_t{2} << 20;

  /// Bloom filters by leaf field id: write.parquet.bloom-filter-enabled.column.<name>,
  /// bloom-filter-fpp.column.<name> and bloom-filter-max-bytes. Boolean columns have none.
  struct BloomFilter {
    double fpp = 0.01;
    int64_t max_bytes = int64_t{1} << 20;
  };
  std::map<int32_t, BloomFilter> bloom_filters;

  /// Metrics of a leaf field: none, counts, truncate(n) (n > 0) or full (n = -1).
  struct MetricsMode {
    enum class Kind { kNone, kCounts, kTruncate, kFull } kind = Kind::kTruncate;
    int length = 16;
  };
  /// Per leaf field id; leaves inside lists and maps have counts at most. A leaf that is not listed
  /// has truncate(16).
  std::map<int32_t, MetricsMode> metrics;
  /// Clustering columns always get bounds; strings with a truncation length chosen per file at
  /// which the two bounds differ.
  std::set<int32_t> clustering_field_ids;
  /// Encoding choices that the files of a table share (parquet_encoding.h). FromProperties gives
  /// equal schemas and properties the same ones within a process; null: each file finds its own.
  std::shared_ptr<ParquetEncodings> encodings;
  std::map<std::string, std::string> key_values;  ///< Parquet key-value metadata (stamps)
  MemoryAccount* memory = nullptr;
};

/// Writes one Parquet data file with field ids, page index, statistics, and gathers its Iceberg
/// metrics. Used by one thread. Batches must have the schema's columns in order; dictionary columns
/// stand for plain ones.
class ParquetFileWriter {
 public:
  static arrow::Result<std::unique_ptr<ParquetFileWriter>> Open(std::shared_ptr<FileIO> io,
                                                                const Schema& schema,
                                                                const std::string& location,
                                                                const ParquetWriteOptions& options);
  virtual ~ParquetFileWriter() = default;  // discards an unfinished file
  virtual arrow::Status Write(const arrow::RecordBatch& batch) = 0;
  virtual arrow::Status EndRowGroup() = 0;
  virtual int64_t bytes_estimate() const = 0;
  /// Closes, syncs, and re-reads the footer for the row count (an error when it differs from what
  /// was written).
  virtual arrow::Result<DataFile> Finish() = 0;
  virtual arrow::Status Discard() = 0;
};

/// JSON form of a data file, for descriptors and envelopes (bounds in hex), and back.
Json DataFileToJson(const DataFile& file);
arrow::Result<DataFile> DataFileFromJson(const Json& json);

}  // namespace thalweg::iceberg
