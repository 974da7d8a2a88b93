#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <roaring/roaring.hh>
#include <string>
#include <string_view>

#include "iceberg/data_file.h"
#include "iceberg/file_io.h"
#include "util/memory.h"

namespace thalweg::iceberg {

/// Deletion vectors of format version 3 (Puffin specification, blob type "deletion-vector-v1"): a
/// 4-byte big-endian length of magic and bitmap, the magic D1 D3 39 64, a bitmap of positions in
/// Roaring's portable 64-bit form, and a big-endian CRC-32 of magic and bitmap. Bitmaps are checked
/// down to each container before they are used: sorted keys and values, cardinalities that are
/// true, no bytes left over.

/// The positions of a blob. `rows` of the data file bound them (at most 2^32), `cardinality` is the
/// number that the manifest tells. `what` names the blob in errors.
arrow::Result<Roaring> ParseDeletionVector(std::string_view blob, int64_t rows, int64_t cardinality,
                                           const std::string& what);

/// The bitmap alone, without length, magic and checksum.
arrow::Result<Roaring> ParsePositionBitmap(std::string_view bitmap, int64_t rows,
                                           const std::string& what);

/// Reads the blob that a delete file of format PUFFIN points to (content_offset,
/// content_size_in_bytes), and nothing else of the file: its footer says the same again. The blob
/// is reserved on `memory` (may be null) meanwhile.
arrow::Result<Roaring> ReadDeletionVector(const FileIO& io, const DataFile& vector, int64_t rows,
                                          MemoryAccount* memory);

}  // namespace thalweg::iceberg
