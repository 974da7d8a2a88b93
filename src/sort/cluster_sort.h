#pragma once

#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <arrow/util/cancel.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "key/key_encoder.h"
#include "sort/row_source.h"
#include "spec/clustering_spec.h"
#include "util/memory.h"

namespace thalweg {

/// What the first pass over the key columns gives: the key encoder (one model per column), and a
/// sample of the rows' keys in ascending order from which splitters are taken.
struct FittedKeys {
  KeyEncoder encoder;
  std::vector<Key128>
      row_sample;    ///< sorted keys of at most 65,536 rows (those of smallest row priority)
  int64_t rows = 0;  ///< live rows seen
  int64_t null_rows_per_column[4] = {0, 0, 0, 0};
};

/// Where one output file belongs. Files come in curve order within a cube, cubes in curve order.
struct FilePlacement {
  int cube = 0;  ///< 0, 1, … along the curve
  int file = 0;  ///< running number over the whole sort
};

/// Receives the rows of one output file, sorted. Used by one thread at a time.
class SortedFileWriter {
 public:
  virtual ~SortedFileWriter() = default;
  virtual arrow::Status Write(const arrow::RecordBatch& batch) = 0;
  /// Ends the current row group after the rows written so far; the next Write begins another one.
  virtual arrow::Status EndRowGroup() = 0;
  /// Encoded bytes so far, an estimate while the file is open.
  virtual int64_t bytes_estimate() const = 0;
  /// Closes the file: its size in encoded bytes.
  virtual arrow::Result<int64_t> Finish() = 0;
  /// Throws away everything written, finished or not: the file is cut again elsewhere (or the run
  /// has failed).
  virtual arrow::Status Discard() = 0;
};

/// Makes the writers of the output files. Thread-safe: several files are open at once.
using SortedFileFactory =
    std::function<arrow::Result<std::unique_ptr<SortedFileWriter>>(const FilePlacement&)>;

struct ClusterSortProgress {
  enum class Stage { kFit, kScatter, kGather };
  Stage stage;
  int64_t rows_done;
  int64_t rows_total;  ///< -1 when not known
};

struct ClusterSortOptions {
  /// Bounds what this sort holds; shared with readers and writers of the same run.
  MemoryAccount* memory = nullptr;
  /// Folder for spill files (unlinked right after opening). Empty: the system's temporary folder.
  std::string spill_dir;
  /// Bytes that may be spilled at once; more is an error that names the option. -1: no limit.
  int64_t max_spill_bytes = -1;
  int threads = 2;
  int64_t target_file_bytes = int64_t{512} << 20;
  /// A file never exceeds the target (window 0.67 to 1.0) instead of the usual 0.8 to 1.2.
  bool hard_file_cap = false;
  /// Rows per file instead of bytes where > 0 (with hard_file_cap as said).
  int64_t target_file_rows = -1;
  int64_t target_row_group_bytes = int64_t{128} << 20;
  int64_t target_cube_bytes = int64_t{10} << 30;
  int64_t min_cube_bytes = int64_t{5} << 30;
  /// Only rows with key_begin <= key < key_end are kept (slices); key_end nullopt: to the end.
  Key128 key_begin = 0;
  std::optional<Key128> key_end;
  /// Sees every kept row once, decoded, in the form in which it was read (before the sort touches
  /// it). Called from several threads.
  std::function<arrow::Status(const arrow::RecordBatch&)> input_observer;
  std::function<void(const ClusterSortProgress&)> progress;
  arrow::StopToken stop = arrow::StopToken::Unstoppable();
};

struct SortedFile {
  FilePlacement placement;
  int64_t rows = 0;
  int64_t bytes = 0;
  Key128 first_key = 0;  ///< smallest and largest key of the file's rows
  Key128 last_key = 0;
};

struct ClusterSortResult {
  std::vector<SortedFile> files;  ///< in curve order; the writers were finished in any order
  int cubes = 0;
  int64_t rows = 0;
  int64_t spilled_bytes = 0;
  int64_t peak_spill_bytes = 0;
  int64_t discarded_files = 0;  ///< written once and cut again, because they missed their window
  int64_t files_outside_window =
      0;  ///< kept although outside: a cube's only one, or after several tries
};

/// The first pass: reads the key columns (positions in source.schema(), in declared order) and fits
/// models and row sample. The position of a key column in source.schema() is also the one that goes
/// into its sampling priorities.
arrow::Result<FittedKeys> FitKeys(RowSource& source, const std::vector<int>& key_columns,
                                  Curve curve, int bits_per_dim, Algorithm algorithm,
                                  const ClusterSortOptions& options);

/// Splits the fitted row sample into `parts` slices of about equal rows: the parts - 1 ascending
/// border keys (fewer when keys repeat too much).
std::vector<Key128> SliceBorders(const FittedKeys& fitted, int parts);

/// Scatter and gather: sorts the source along the curve, cuts it into cubes and files, and hands
/// each file's rows on. On failure every writer that was made has been told to Discard. Batches
/// have the source's schema, except that the indices of top-level dictionary columns are int32.
arrow::Result<ClusterSortResult> SortIntoFiles(RowSource& source,
                                               const std::vector<int>& key_columns,
                                               const FittedKeys& fitted,
                                               const SortedFileFactory& factory,
                                               const ClusterSortOptions& options);

/// Reads a one-shot stream into memory, and past the budget into a spill file, so that it can be
/// read more than once.
arrow::Result<std::unique_ptr<RowSource>> SpoolStream(std::unique_ptr<RowSource> one_shot,
                                                      const ClusterSortOptions& options);

}  // namespace thalweg
