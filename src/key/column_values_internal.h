#pragma once

#include <arrow/array.h>
#include <arrow/status.h>

#include <cstdint>
#include <string_view>

#include "key/encoded_value_internal.h"
#include "key/key_type.h"
#include "util/status.h"

namespace thalweg {

/// An error unless values of this Arrow type (or dictionary of it) are what `type` describes.
arrow::Status CheckKeyType(const KeyType& type, const arrow::DataType& arrow_type);

/// Where the value of a row stands: the array itself, or the dictionary of a dictionary array.
/// `row` is -1 for null.
struct ResolvedRow {
  const arrow::Array* values;
  int64_t row;
};
ResolvedRow ResolveRow(const arrow::Array& values, int64_t row);

/// The mapped values of `n` rows of a plain array of a fixed-width type of at most 64 bits. What
/// null rows give is arbitrary.
void MapValues(const KeyType& type, const arrow::Array& values, int64_t begin, int64_t n,
               uint64_t* out);
/// The mapped value of one row, of any fixed-width type.
MappedValue MappedAt(const KeyType& type, const arrow::Array& values, int64_t row);
/// The text of one row of a string, large string or string view array.
std::string_view TextAt(const arrow::Array& values, int64_t row);

/// Calls visit(row, dictionary position) for every row of a dictionary array whose index is not
/// null.
template <typename Visit>
void VisitDictionaryIndices(const arrow::DictionaryArray& values, Visit visit) {
  auto run = [&]<typename Index>(Index) {
    const Index* indices = values.indices()->data()->GetValues<Index>(1);
    if (values.indices()->null_count() == 0) {
      for (int64_t row = 0; row < values.length(); ++row)
        visit(row, static_cast<int64_t>(indices[row]));
    } else {
      for (int64_t row = 0; row < values.length(); ++row) {
        if (values.indices()->IsValid(row)) visit(row, static_cast<int64_t>(indices[row]));
      }
    }
  };
  switch (values.indices()->type_id()) {
    case arrow::Type::INT8:
      return run(int8_t{});
    case arrow::Type::UINT8:
      return run(uint8_t{});
    case arrow::Type::INT16:
      return run(int16_t{});
    case arrow::Type::UINT16:
      return run(uint16_t{});
    case arrow::Type::INT32:
      return run(int32_t{});
    case arrow::Type::UINT32:
      return run(uint32_t{});
    case arrow::Type::INT64:
      return run(int64_t{});
    default:
      return run(uint64_t{});
  }
}

}  // namespace thalweg
