#pragma once

#include <arrow/record_batch.h>
#include <arrow/result.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace thalweg {

/// Row digest v1 (docs/row-digest.md): XXH3-128 over one byte string per row, summed modulo 2^128:
/// equal for equal multisets of rows in any order. The string holds, field by field in schema
/// order, a null/value tag and the little-endian value or an 8-byte length and the bytes; nested
/// types recursively; dictionary, view and large layouts as their values; floats bitwise. Not
/// thread-safe: one per thread, merged.
class RowDigest {
 public:
  /// Adds the rows of a batch. Unions are refused; every other type is taken.
  arrow::Status Update(const arrow::RecordBatch& batch);
  void Merge(const RowDigest& other) { sum_ += other.sum_; }
  /// 32 lower-case hex digits, the most significant first.
  std::string ToHex() const;
  /// The inverse of ToHex; anything else is an error.
  static arrow::Result<RowDigest> FromHex(std::string_view text);
  bool operator==(const RowDigest&) const = default;

 private:
  unsigned __int128 sum_ = 0;
};

/// The byte string of each row, as docs/row-digest.md defines it.
arrow::Result<std::vector<std::string>> CanonicalRows(const arrow::RecordBatch& batch);

}  // namespace thalweg
