#pragma once

#include <arrow/result.h>
#include <arrow/util/cancel.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "iceberg/deleted_positions.h"
#include "iceberg/file_io.h"

namespace thalweg::iceberg {

/// Reads a position delete file (Parquet; fields 2147483546 path and 2147483545 position, found by
/// field id, anything else is left unread) and adds the positions of those data files for which
/// `wanted` (by number in `positions`) is set and which are not younger than the delete file. Row
/// groups whose path statistics exclude all of these are skipped; columns are streamed. Positions
/// that the data file does not have, and nulls, are errors.
arrow::Status ReadPositionDeletes(const FileIO& io, const LiveFile& delete_file,
                                  const std::vector<bool>& wanted, DeletedPositions* positions,
                                  MemoryAccount* memory, const arrow::StopToken& stop);

}  // namespace thalweg::iceberg
