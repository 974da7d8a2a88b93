#pragma once

#include <arrow/result.h>
#include <arrow/util/cancel.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "iceberg/data_file.h"
#include "iceberg/file_io.h"
#include "iceberg/name_mapping.h"
#include "iceberg/schema.h"
#include "sort/row_source.h"
#include "util/memory.h"

namespace thalweg::iceberg {

/// The rows of Parquet data files in the current schema, whatever schemas they were written in
/// (MatchColumns in projection.h says how): columns that a file does not have are NULL or their
/// initial defaults. Parts are row-group ranges of the files, so that two threads read one large
/// file side by side. Refused, naming file and column, before rows flow: a field whose type cannot
/// become the schema's; a required field that is missing; rows in the footer other than the
/// manifest's record_count; a file that is truncated or no Parquet. While rows flow: a NULL in a
/// required field. Row addresses: (position of the file among `files` sorted by path) << 32 | row
/// position in the file. Streams decode on the calling thread, batch by batch within a row group; a
/// stream reserves its buffers and the batch that it gave last on `memory` (which may be null). A
/// holder that keeps batches longer reserves them itself.
struct ScanOptions {
  /// Top-level string and binary columns that are dictionary-encoded throughout all files come as
  /// dictionary(int32, value type); schema() says which. Off: every column has the plain type of
  /// Schema::ToArrow().
  bool dictionaries = false;
  int64_t max_batch_rows = 64 * 1024;
  /// Batches of wide rows are cut smaller, to about this size.
  int64_t max_batch_bytes = int64_t{32} << 20;
  /// What the columns of files without field ids are; null: such files are refused.
  std::shared_ptr<const NameMapping> name_mapping;
  /// Looked at while the files are opened.
  arrow::StopToken stop = arrow::StopToken::Unstoppable();
};
arrow::Result<std::unique_ptr<RowSource>> ScanParquetFiles(std::shared_ptr<FileIO> io,
                                                           const Schema& schema,
                                                           std::vector<DataFile> files,
                                                           MemoryAccount* memory,
                                                           const ScanOptions& options = {});

/// Footer facts of one file.
struct ParquetFooter {
  int64_t rows = 0;
  std::map<std::string, std::string> key_values;
};
arrow::Result<ParquetFooter> ReadParquetFooter(const FileIO& io, const std::string& location);

}  // namespace thalweg::iceberg
