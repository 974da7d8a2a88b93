#pragma once

#include <arrow/result.h>

#include "iceberg/schema.h"
#include "util/json.h"

namespace thalweg::iceberg {

/// The Avro fields of the partition record of an unpartitioned spec: none, or one optional field of
/// the source column's type for each "void" field, whose value is always null. `spec_fields` is the
/// array of partition fields, `schema` the table's. A spec with another transform is an error.
/// Names that Avro does not allow are escaped as the reference implementation does it, the original
/// kept as "iceberg-field-name".
arrow::Result<Json> VoidPartitionFields(const Json& spec_fields, const Schema& schema);

}  // namespace thalweg::iceberg
