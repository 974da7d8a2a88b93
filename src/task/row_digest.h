#pragma once

#include <arrow/record_batch.h>
#include <arrow/result.h>

#include <cstdint>
#include <string>

namespace thalweg {

/// Row digest v1 (docs/format-notes.md): XXH3-128 over one byte string per row, summed modulo 2^128: equal for equal multisets of rows in any
/// order. The string holds, field by field in schema order, a null/value tag and the little-endian value or an 8-byte length and the bytes;
/// nested types recursively; dictionary, view and large layouts as their values; floats bitwise.
class RowDigest {
 public:
  arrow::Status Update(const arrow::RecordBatch& batch);
  void Merge(const RowDigest& other) { sum_ += other.sum_; }
  std::string ToHex() const;
  bool operator==(const RowDigest&) const = default;

 private:
  unsigned __int128 sum_ = 0;
};

}  // namespace thalweg
