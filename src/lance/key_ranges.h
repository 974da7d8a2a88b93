#pragma once

#include <arrow/record_batch.h>
#include <arrow/result.h>

#include <vector>

#include "key/key_type.h"
#include "layout/unit.h"
#include "spec/clustering_spec.h"
#include "util/json.h"

namespace thalweg::lance {

/// Key ranges of the rows of a file while it is written: what its zone maps are going to say,
/// before there are any. NaN is left out.
class KeyRanges {
 public:
  KeyRanges(const arrow::Schema& schema, const ClusteringSpec& spec);
  arrow::Status Update(const arrow::RecordBatch& batch);
  /// One object a key column; long strings are left out.
  Json ToJson() const;

 private:
  struct Key {
    int column;  ///< position in the schema
    int32_t field_id;
    KeyType type;
    UnitColumn range;
  };
  std::vector<Key> keys_;
};

/// The ranges of these columns; not usable where they are missing or malformed.
std::vector<UnitColumn> ParseKeyRanges(const Json& json,
                                       const std::vector<ClusteringColumn>& columns);

}  // namespace thalweg::lance
