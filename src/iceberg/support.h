#pragma once

#include <arrow/status.h>

#include "iceberg/commit.h"
#include "iceberg/metadata.h"

namespace thalweg::iceberg {

/// One line on why a table cannot be rewritten or appended to by this version, or OK: format
/// versions other than 2 and 3, encryption, partitions (the default spec, or the spec of a live
/// manifest), data files other than Parquet or listed twice, delete files other than Parquet and
/// deletion vectors. Checked before anything is written, and again against the new parent at every
/// commit attempt.
arrow::Status CheckSupported(const TableMetadata& metadata, const SnapshotFiles& files);

/// One line on the first of the table's properties that is malformed, of those that decide how
/// files are read and written and how commits are made, or OK. Checked before any work begins.
arrow::Status CheckProperties(const TableMetadata& metadata);

}  // namespace thalweg::iceberg
