#pragma once

#include <arrow/result.h>
#include <arrow/scalar.h>
#include <arrow/type.h>

#include <memory>
#include <string>

#include "iceberg/schema.h"

namespace thalweg::iceberg {

/// The value that rows of files without the field have (v3): its initial default, in the format's
/// JSON single-value form, as a scalar of `type` (what Schema::ToArrow() makes of the field). NULL
/// when the field has none. An error names the column, `path`.
arrow::Result<std::shared_ptr<arrow::Scalar>> InitialDefault(
    const Field& field, const std::shared_ptr<arrow::DataType>& type, const std::string& path);

/// The same of the write default: what new rows have where their source lacks the field.
arrow::Result<std::shared_ptr<arrow::Scalar>> WriteDefault(
    const Field& field, const std::shared_ptr<arrow::DataType>& type, const std::string& path);

}  // namespace thalweg::iceberg
