#pragma once

#include <arrow/result.h>
#include <arrow/util/cancel.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "iceberg/deleted_positions.h"
#include "iceberg/file_io.h"
#include "iceberg/name_mapping.h"
#include "iceberg/schema.h"

namespace thalweg::iceberg {

struct EqualityDeleteOptions {
  int threads = 2;
  /// Memory for the table of deleted keys. What does not fit takes further passes over the data
  /// files' equality columns.
  int64_t table_bytes = int64_t{256} << 20;
  arrow::StopToken stop = arrow::StopToken::Unstoppable();
  /// For data files without field ids; delete files have them.
  std::shared_ptr<const NameMapping> name_mapping;
};

/// The columns that an equality delete file compares by.
struct EqualityColumns {
  /// The fields alone, within the structs that they lie in, all optional; columns are meant by
  /// field id.
  Schema projection;
  /// The way to each field, as EqualityHasher takes it; in the order of the ids.
  std::vector<std::vector<int>> ways;
  /// In the same order, of the schemas that were given; null within structs, where writers do not
  /// agree on what counts as null.
  std::vector<const Field*> fields;
};
/// Fields by id, in the type that the current schema gives them. One that it no longer has is taken
/// from the newest schema that does (`schemas`, oldest first). Refused with one line: no ids at
/// all, an id that no schema has, fields inside lists and maps, structs, lists and maps themselves.
arrow::Result<EqualityColumns> FindEqualityColumns(const std::vector<int32_t>& ids,
                                                   const Schema& current,
                                                   const std::vector<Schema>& schemas);

/// False when no row of the data file can equal a row of the delete file, as bounds and null counts
/// of the fields (null: any) tell. Sequence numbers are not looked at.
bool MayMeet(const DataFile& data, const DataFile& deletes,
             const std::vector<const Field*>& fields);

/// Applies equality deletes: adds to `positions` those rows of its data files whose values in the
/// columns of a younger delete file are those of one of its rows. `delete_files`: equality delete
/// files of any columns. Each delete file is read once; data files are read, these columns only,
/// once for every set of columns and pass.
arrow::Status ApplyEqualityDeletes(const std::shared_ptr<FileIO>& io, const Schema& current,
                                   const std::vector<Schema>& schemas,
                                   const std::vector<const LiveFile*>& delete_files,
                                   DeletedPositions* positions, MemoryAccount* memory,
                                   const EqualityDeleteOptions& options);

}  // namespace thalweg::iceberg
