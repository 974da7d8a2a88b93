#pragma once

#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <parquet/properties.h>
#include <parquet/schema.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace thalweg::iceberg {

/// How one leaf column is encoded and compressed.
struct ColumnEncoding {
  bool dictionary = true;
  std::optional<int> level;  ///< of the codec; nullopt: the file's
};

/// Choices for all leaf columns, by dotted Parquet path.
struct EncodingPlan {
  std::map<std::string, ColumnEncoding> columns;
  double ratio = 0.5;  ///< stored bytes per encoded byte, measured on the sample
};

/// The choices that the files of one table share, so that not every file pays for finding them.
/// Thread-safe.
class ParquetEncodings {
 public:
  /// The plan for the next file; nullopt when a sample is to be taken (at first, and again every so
  /// many files).
  std::optional<EncodingPlan> Next();
  void Put(EncodingPlan plan);

 private:
  std::mutex mutex_;
  std::optional<EncodingPlan> plan_;
  int files_ = 0;
};

/// Encodes a sample of the batch in each of the ways and keeps, per column, what is smallest:
/// dictionaries only where they pay once they have grown to a row group's size, and, with
/// `choose_level`, zstd level 1 where level 3 gains less than a hundredth. nullopt when the batch
/// is too small to tell. `base` has the codec and level that apply otherwise.
arrow::Result<std::optional<EncodingPlan>> PlanEncodings(
    const arrow::RecordBatch& batch, const std::shared_ptr<parquet::schema::GroupNode>& root,
    const parquet::WriterProperties& base, bool choose_level);

}  // namespace thalweg::iceberg
