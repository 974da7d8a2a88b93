#pragma once

#include <arrow/record_batch.h>
#include <arrow/result.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace thalweg {

/// A sample of whole rows (of the key columns): those of smallest (priority, address), at most
/// 65,536 and fewer where the values are long, within 16 MiB. Mergeable like ColumnSample: the
/// result does not depend on how the rows were split.
class RowSample {
 public:
  explicit RowSample(const std::shared_ptr<arrow::Schema>& schema);

  /// Row i of `batch` has the address first_address + i, or addresses[i] where given.
  arrow::Status Add(const arrow::RecordBatch& batch, uint64_t first_address,
                    const uint64_t* addresses);
  arrow::Status Merge(RowSample other);
  /// The retained rows in (priority, address) order; dictionary columns decoded.
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> Finish();
  const std::shared_ptr<arrow::Schema>& schema() const { return schema_; }

  /// The widest row's bytes, then an Arrow IPC stream of the retained rows with their addresses in
  /// a last column.
  arrow::Result<std::string> Serialize();
  static arrow::Result<RowSample> Deserialize(std::string_view bytes);

 private:
  struct Candidate {
    uint64_t priority;
    uint64_t address;
    uint64_t row;  // see RowAddress, into chunks_
    bool operator<(const Candidate& other) const {
      return priority != other.priority ? priority < other.priority : address < other.address;
    }
  };
  int64_t Capacity() const;
  arrow::Status Prune();

  std::shared_ptr<arrow::Schema> schema_;  // without dictionaries
  int64_t widest_ = 0;                     // bytes of strings in the widest row seen, kept or not
  uint64_t threshold_;                     // candidates of a larger priority cannot be retained
  std::vector<Candidate> candidates_;
  std::vector<std::shared_ptr<arrow::RecordBatch>> chunks_;
};

/// The batch with its top-level dictionary columns decoded to their values.
arrow::Result<std::shared_ptr<arrow::RecordBatch>> DecodeDictionaries(
    const std::shared_ptr<arrow::RecordBatch>& batch);
/// The schema with dictionary types replaced by their value types, at the top level.
std::shared_ptr<arrow::Schema> WithoutDictionaries(const arrow::Schema& schema);

}  // namespace thalweg
