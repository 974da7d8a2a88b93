#pragma once

#include <arrow/record_batch.h>
#include <arrow/result.h>

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sort/cluster_sort.h"
#include "table/table.h"
#include "task/execute.h"
#include "task/row_digest.h"

namespace thalweg {

/// The digest of the first `rows` rows of a written file, read back; an error when it has fewer.
arrow::Result<RowDigest> DigestOfUnit(const Table& table, const OutputUnit& unit, int64_t rows);

/// Makes the output files of one task and keeps account of them: what was read, what the file
/// writers received, and what the written files hold, as --verify asks. Thread-safe; outlives the
/// writers that it makes.
class OutputCollector {
 public:
  OutputCollector(const Table& table, OutputContext context, Verify verify)
      : table_(table), context_(std::move(context)), verify_(verify) {}

  /// For ClusterSortOptions::input_observer.
  arrow::Status ObserveInput(const arrow::RecordBatch& batch);
  /// A writer whose file is counted once it is finished, and no longer once it is discarded.
  /// Finishing compares the file with what its writer received: the row count in the footer, with
  /// kDigest also the rows of the first row group, with kFull all rows.
  arrow::Result<std::unique_ptr<SortedFileWriter>> NewFile(const FilePlacement& placement);

  /// The finished files in the order of their placements. An error when rows or digest differ from
  /// the input's, or from `expected_rows` (-1: not known).
  arrow::Result<std::vector<OutputUnit>> Outputs(int64_t expected_rows) const;
  /// Every finished file, in the order of their placements.
  std::vector<OutputUnit> Finished() const;
  /// Deletes them; for files that were never offered to a commit.
  void DiscardAll();

  int64_t input_rows() const { return input_rows_; }
  std::string InputDigest() const;   ///< hex; "" with kCounts
  std::string OutputDigest() const;  ///< hex; "" with kCounts

 private:
  class Writer;
  struct File {
    OutputUnit unit;
    RowDigest digest;
  };

  bool digests() const { return verify_ != Verify::kCounts; }
  std::string CubeId(int cube);

  const Table& table_;
  const OutputContext context_;
  const Verify verify_;
  mutable std::mutex mutex_;
  int next_number_ = 0;
  std::map<int, std::string> cube_ids_;  // by running number
  std::map<int, File> files_;            // by FilePlacement::file
  int64_t input_rows_ = 0;
  RowDigest input_digest_;
};

}  // namespace thalweg
