#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "iceberg/schema.h"
#include "sort/row_source.h"

namespace thalweg::iceberg {

// Row lineage (format version 3): two optional long columns with reserved field ids that every row
// has, whether or not its data file stores them.
inline constexpr int32_t kRowIdFieldId = 2147483540;
inline constexpr int32_t kLastUpdatedFieldId = 2147483539;
inline constexpr char kRowIdName[] = "_row_id";
inline constexpr char kLastUpdatedName[] = "_last_updated_sequence_number";

/// The schema with the two columns at its end, unless they are there.
Schema WithRowLineage(const Schema& schema);

/// What the rows of one data file inherit.
struct LineageOfFile {
  std::optional<int64_t> first_row_id;  ///< of its manifest entry, after inheritance; absent: the
                                        ///< file's rows have no ids, its stored values stay
  int64_t data_sequence_number = 0;
  /// Rows whose identity the file does not store. Once stored it takes about four bytes of a row
  /// (measured with a million rows in random order, zstd), and about 1,200 of a file: they count in
  /// encoded_bytes(), by which outputs are cut.
  int64_t rows_without = 0;
};

/// Fills, in a source of rows with the two columns, NULL row ids with the file's first row id + the
/// row's position in its file, and NULL last updates with the file's data sequence number. Row
/// addresses must be (position of the file among `files`) << 32 | row position, as
/// ScanParquetFiles has them; `files` in the order of their paths. A source without the columns, or
/// an address beyond `files`, is an error. Deletes may be applied before or after.
arrow::Result<std::unique_ptr<RowSource>> InheritRowLineage(std::unique_ptr<RowSource> source,
                                                            std::vector<LineageOfFile> files);

}  // namespace thalweg::iceberg
