#pragma once

#include <arrow/result.h>

#include <string>
#include <vector>

#include "task/execute.h"
#include "task/optimize.h"

namespace thalweg {

struct WriteOptions {
  WriteMode mode = WriteMode::kAppend;
  ExecuteOptions execute;
  std::string run_id;
  int64_t target_file_bytes = -1;
};

/// Writes a stream of rows into the table as one clustered run (by the table's declaration; without one in the order in which the rows
/// came). `source` has the table's columns by name in any order; missing nullable columns are null, unknown columns an error, types are
/// cast where no value is changed. Idempotent by run id. The source may be one-shot.
arrow::Result<OptimizeReport> WriteRows(Table& table, std::unique_ptr<RowSource> source, const WriteOptions& options);

/// Rows of local Parquet, CSV or Arrow IPC (file or stream) files, by their endings, as one source. For CSV a `schema` (the table's) gives
/// the types; without it they are inferred. All files must have equal schemas.
arrow::Result<std::unique_ptr<RowSource>> OpenInputFiles(const std::vector<std::string>& paths,
                                                         const std::shared_ptr<arrow::Schema>& schema);

}  // namespace thalweg
