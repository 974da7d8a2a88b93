#pragma once

#include <arrow/array.h>
#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <arrow/type.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace thalweg {

/// A batch of live rows with their addresses (what sampling draws by; step 2 of
/// typed-quantile-rank-v1).
struct RowBatch {
  std::shared_ptr<arrow::RecordBatch> batch;
  /// Address of row 0; row i has first_address + i, unless `addresses` is there (rows are missing:
  /// deletes were applied).
  uint64_t first_address = 0;
  std::shared_ptr<arrow::UInt64Array> addresses;
};

/// A stream of the rows of one part. Used by one thread at a time.
class RowStream {
 public:
  virtual ~RowStream() = default;
  /// nullopt at the end.
  virtual arrow::Result<std::optional<RowBatch>> Next() = 0;
};

/// The rows of one selection, in parts that can be read side by side (an Iceberg data file or some
/// of its row groups, a Lance fragment). Thread-safe: several parts may be open at once.
class RowSource {
 public:
  virtual ~RowSource() = default;
  virtual const std::shared_ptr<arrow::Schema>& schema() const = 0;
  virtual int num_parts() const = 0;
  /// Live rows of all parts as the table's metadata tells, -1 when not known before reading (a
  /// one-shot stream).
  virtual int64_t num_rows() const = 0;
  /// Encoded bytes of all parts as stored, -1 when not known.
  virtual int64_t encoded_bytes() const = 0;
  /// `columns`: top-level positions in schema(), in the order in which the batches shall have them.
  /// A source that is not rereadable gives each part once, with all columns.
  virtual arrow::Result<std::unique_ptr<RowStream>> OpenPart(int part,
                                                             const std::vector<int>& columns) = 0;
  virtual bool rereadable() const { return true; }
  /// What messages call a part: the file that it comes from. "" when there is nothing to say.
  virtual std::string part_name(int part) const { return ""; }
};

}  // namespace thalweg
