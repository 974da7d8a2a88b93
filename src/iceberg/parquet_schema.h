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

/// Where a top-level field of the table's schema lies in one Parquet file.
struct ParquetColumn {
  int position = 0;         ///< among the file's top-level fields
  std::vector<int> leaves;  ///< Parquet leaf column indices, depth first
};

/// Finds every top-level field of `schema` in the file by field id and checks that ids and types
/// agree all the way down: names do not matter, physical variants of one Iceberg type (INT32, INT64
/// or byte-array decimals; millisecond or INT96 timestamps for microseconds) are the same type,
/// required and optional are not told apart. One line naming file and field otherwise.
arrow::Result<std::vector<ParquetColumn>> MatchColumns(const parquet::FileMetaData& metadata,
                                                       const Schema& schema,
                                                       const std::string& location);

/// The same values as an array of exactly `type`: dictionaries decoded, extension types unwrapped,
/// large and view layouts cast, nested field names and nullability replaced. Values are never
/// changed; a lossy cast is an error. Struct children are matched by position. A dictionary `type`
/// takes only dictionary arrays of the same index and value types.
arrow::Result<std::shared_ptr<arrow::Array>> ConformArray(
    const std::shared_ptr<arrow::Array>& array, const std::shared_ptr<arrow::DataType>& type);

/// The Parquet schema of a data file; unlike Arrow's own conversion it annotates uuid columns.
arrow::Result<std::shared_ptr<parquet::schema::GroupNode>> MakeParquetSchema(
    const Schema& schema, const arrow::Schema& arrow_schema,
    const parquet::WriterProperties& properties,
    const parquet::ArrowWriterProperties& arrow_properties);

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
