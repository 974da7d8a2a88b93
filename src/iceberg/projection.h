#pragma once

#include <arrow/array.h>
#include <arrow/result.h>
#include <arrow/scalar.h>
#include <arrow/type.h>
#include <parquet/metadata.h>

#include <memory>
#include <string>
#include <vector>

#include "iceberg/name_mapping.h"
#include "iceberg/schema.h"

namespace thalweg::iceberg {

/// How the values of one field of a schema come out of an array that was made by another one.
struct FieldProjection {
  /// Set: the other schema does not have the field; each of its values is this one.
  std::shared_ptr<arrow::Scalar> constant;
  int child = 0;  ///< the field's position among the children of the array of its parent
  std::vector<FieldProjection> children;  ///< of nested fields: by position in the schema
};

/// Where a top-level field of the table's schema lies in one Parquet file.
struct ParquetColumn {
  FieldProjection projection;
  /// Parquet leaf columns to decode, ascending; none when the file does not have the field.
  std::vector<int> leaves;
  int64_t constant_bytes = 0;  ///< of one value of everything that the file does not have
};

/// Finds the fields of `schema` in a file (the format's "Column Projection"): by field id at every
/// level, or, in a file without any ids, by `mapping` (null: such a file is refused). Names and
/// order do not matter; physical variants of one type (INT32, INT64 or byte-array decimals;
/// millisecond or INT96 timestamps for microseconds) are the same type; the format's promotions
/// (int to long, float to double, more digits of decimals, date to timestamp and timestamp_ns) are
/// followed. A field that the file does not have is its initial default or NULL. Refused, in one
/// line that names file and column: another type; a required field that is missing and has no
/// default; an id that stands twice or at another place of the file; a shredded variant.
/// `arrow_schema` is schema.ToArrow().
arrow::Result<std::vector<ParquetColumn>> MatchColumns(const parquet::FileMetaData& metadata,
                                                       const Schema& schema,
                                                       const arrow::Schema& arrow_schema,
                                                       const NameMapping* mapping,
                                                       const std::string& location);

/// The projection of the fields of a schema onto the same ones of a schema that has more of them
/// (StoredSchema).
FieldProjection ProjectionOnto(const std::vector<Field>& fields, const std::vector<Field>& from);

/// The projected array, of exactly `type`; values are converted as ConformArray does.
arrow::Result<std::shared_ptr<arrow::Array>> ProjectArray(
    const FieldProjection& projection, const std::shared_ptr<arrow::Array>& array,
    const std::shared_ptr<arrow::DataType>& type);

/// The constant of a projection, `length` times.
arrow::Result<std::shared_ptr<arrow::Array>> RepeatConstant(const FieldProjection& projection,
                                                            int64_t length);

}  // namespace thalweg::iceberg
