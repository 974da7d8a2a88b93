#pragma once

#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <arrow/scalar.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "task/execute.h"
#include "task/optimize.h"

namespace thalweg {

struct WriteOptions {
  WriteMode mode = WriteMode::kAppend;
  ExecuteOptions execute;
  std::string run_id;              ///< "": a new UUID
  int64_t target_file_bytes = -1;  ///< -1: the table's
  int64_t target_file_rows = -1;   ///< -1: the table's
  /// Without a declaration: sorts the rows by this, and stamps nothing.
  std::optional<ClusteringSpec> sort_once;
  double orphan_age_seconds = 86400;
};

/// Writes a stream of rows into the table as one clustered run (by the table's declaration; without
/// one in the order in which the rows came, cut by size). `source` has the table's columns by name
/// in any order; missing columns have the table's write defaults, else null where they may, unknown
/// columns an error, types are cast where no value is changed. Idempotent by run id. The source may
/// be one-shot. No rows to append: "nothing-to-do". An overwrite of a table that has moved on
/// meanwhile is a conflict (kConflict). In the report `source_bytes` are the input's encoded bytes,
/// -1 when not known.
arrow::Result<OptimizeReport> WriteRows(Table& table, std::unique_ptr<RowSource> source,
                                        const WriteOptions& options);

/// Rows of local Parquet, CSV or Arrow IPC (file or stream) files, by their endings (.parquet;
/// .csv, .tsv; .arrow, .feather, .ipc; .arrows), as one source. For CSV a `schema` (the table's)
/// gives the types of the columns that it names; without it they are inferred. All files must have
/// equal columns. Errors name the file.
arrow::Result<std::unique_ptr<RowSource>> OpenInputFiles(
    const std::vector<std::string>& paths, const std::shared_ptr<arrow::Schema>& schema);

/// Rows of a reader, which can be read once.
std::unique_ptr<RowSource> RowsOfReader(std::shared_ptr<arrow::RecordBatchReader> reader);

/// The rows of `source` with the columns of `schema`, as WriteRows takes them. Columns that it
/// lacks have their value in `defaults` (by name, of the column's type), else NULL.
arrow::Result<std::unique_ptr<RowSource>> CastRows(
    std::unique_ptr<RowSource> source, const std::shared_ptr<arrow::Schema>& schema,
    const std::map<std::string, std::shared_ptr<arrow::Scalar>>& defaults = {});

}  // namespace thalweg
