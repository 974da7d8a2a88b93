#pragma once

#include <arrow/result.h>

#include "iceberg/metadata.h"
#include "util/json.h"

namespace thalweg::iceberg {

/// The body of a commit to a REST catalog, without the table's name: what has to hold for the table
/// as the server has it ("requirements") and how it changes ("updates"), in the words of the REST
/// specification.
struct RestUpdate {
  Json requirements = Json::array();
  Json updates = Json::array();
  /// The id of the snapshot that it adds, nullopt for none.
  std::optional<int64_t> snapshot_id;
};

/// Whether the table has the snapshot that the update adds; false for one that adds none.
arrow::Result<bool> HoldsSnapshotOf(const RestUpdate& update, const TableMetadata& table);

/// The difference of two states of one table. What follows from the updates (sequence numbers,
/// logs, times, the current snapshot, next row id) is the server's to derive. Every commit requires
/// the table's UUID; one that touches snapshots or statistics also that main still is at the
/// snapshot of `base`. Properties have no requirement (the last writer wins), so that they cannot
/// change together with snapshots. A difference that this cannot express is an internal error.
arrow::Result<RestUpdate> MakeRestUpdate(const TableMetadata& base, const TableMetadata& updated);

}  // namespace thalweg::iceberg
