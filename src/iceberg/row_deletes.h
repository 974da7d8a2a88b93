#pragma once

#include <arrow/result.h>
#include <arrow/util/cancel.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "iceberg/commit.h"
#include "iceberg/deleted_positions.h"
#include "iceberg/file_io.h"
#include "iceberg/metadata.h"
#include "sort/row_source.h"
#include "util/memory.h"

namespace thalweg::iceberg {

struct RowDeleteOptions {
  int threads = 2;
  /// Memory for the table of equality-deleted keys; 0: half of what the account has left, at least
  /// 16 MiB (256 MiB without an account).
  int64_t table_bytes = 0;
  arrow::StopToken stop = arrow::StopToken::Unstoppable();
};

/// Resolves every row-level delete of a snapshot that applies to some of its data files into the
/// positions of deleted rows: deletion vectors, position deletes (Parquet), equality deletes
/// (Parquet). `delete_files`: all live ones of the snapshot. Files of unpartitioned specs only
/// (CheckSupported). Delete files that cannot apply to the data files are not read. Memory is
/// reserved on `memory` (may be null), for the positions as long as they live.
arrow::Result<std::shared_ptr<const DeletedPositions>> LoadRowDeletes(
    const std::shared_ptr<FileIO>& io, const TableMetadata& metadata,
    std::vector<LiveFile> data_files, const std::vector<LiveFile>& delete_files,
    MemoryAccount* memory, const RowDeleteOptions& options = {});

/// `source` (of ScanParquetFiles() over the same data files) without the deleted rows. Its batches
/// have `addresses` where rows are missing; batches without deleted rows are handed on as they are,
/// batches without others skipped. num_rows() is exact.
std::unique_ptr<RowSource> FilterDeletedRows(std::unique_ptr<RowSource> source,
                                             std::shared_ptr<const DeletedPositions> deleted,
                                             MemoryAccount* memory);

}  // namespace thalweg::iceberg
