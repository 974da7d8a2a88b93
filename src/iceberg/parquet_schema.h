#pragma once

#include <arrow/array.h>
#include <arrow/result.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>
#include <parquet/schema.h>

#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "iceberg/schema.h"
#include "util/status.h"

namespace thalweg::iceberg {

/// The same values as an array of exactly `type`: dictionaries decoded, extension types unwrapped,
/// large and view layouts cast, nested field names and nullability replaced. Values are never
/// changed; a lossy cast is an error. Struct children are matched by position. A dictionary `type`
/// takes only dictionary arrays of the same index and value types.
arrow::Result<std::shared_ptr<arrow::Array>> ConformArray(
    const std::shared_ptr<arrow::Array>& array, const std::shared_ptr<arrow::DataType>& type);

/// Refuses nulls in a required field, at every level; a field of a NULL struct is not asked. One
/// line that names the column by its path.
arrow::Status CheckRequired(const arrow::Field& field, const arrow::Array& array,
                            const std::string& path);

/// The schema without the fields that data files do not store: those of type unknown. An error
/// names a column of which nothing would be left, or a list or map of unknowns.
arrow::Result<Schema> StoredSchema(const Schema& schema);

/// The Parquet schema of a data file; unlike Arrow's own conversion it annotates columns of type
/// uuid, variant, geometry and geography. `schema` is a stored one.
arrow::Result<std::shared_ptr<parquet::schema::GroupNode>> MakeParquetSchema(
    const Schema& schema, const arrow::Schema& arrow_schema,
    const parquet::WriterProperties& properties,
    const parquet::ArrowWriterProperties& arrow_properties);

/// The annotation of a geometry or geography column; an error when the type's parameters make none.
arrow::Result<std::shared_ptr<const parquet::LogicalType>> GeoLogicalType(const Type& type);

/// Text on one line.
std::string OneLine(std::string_view text);

/// Runs `body` (which returns an arrow::Status or Result), turning exceptions of the Parquet
/// library into a status, and prefixes any failure with `what` and the location. The failure's code
/// and detail are kept.
template <typename Body>
auto WithParquetErrors(std::string_view what, const std::string& location, Body&& body)
    -> decltype(body()) {
  auto describe = [&](std::string_view message) {
    return fmt::format("{} {}: {}", what, location, OneLine(message));
  };
  try {
    auto result = body();
    if (result.ok()) return result;
    const arrow::Status& status = [&]() -> const arrow::Status& {
      if constexpr (std::is_same_v<decltype(body()), arrow::Status>) {
        return result;
      } else {
        return result.status();
      }
    }();
    if (status.message().find(location) != std::string::npos) return result;
    return status.WithMessage(describe(status.message()));
  } catch (const std::bad_alloc&) {
    return arrow::Status::OutOfMemory(describe("out of memory"));
  } catch (const std::exception& e) {
    return arrow::Status::IOError(describe(e.what()));
  }
}

}  // namespace thalweg::iceberg
