#pragma once

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/result.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "key/key_type.h"

namespace thalweg {

/// The model of one column: its retained values in ascending order, duplicates included (step 4),
/// or a fixed domain (no samples: the coordinate is the top bits of the mapped value). Immutable
/// and thread-safe.
class ColumnModel {
 public:
  /// `sorted`: encoded values in ascending order.
  static arrow::Result<ColumnModel> Make(KeyType type, std::vector<std::string> sorted);
  /// Coordinates are the top `bits` bits of the fixed-width value. An error for strings.
  static arrow::Result<ColumnModel> FixedDomain(KeyType type);

  ColumnModel(ColumnModel&&) noexcept;
  ColumnModel& operator=(ColumnModel&&) noexcept;
  ~ColumnModel();

  const KeyType& type() const;
  int64_t size() const;
  bool fixed_domain() const;
  /// The i-th value in ascending order, encoded.
  std::string value(int64_t i) const;

  /// Coordinates of `bits` (1..32) bits for all rows (step 5); null gives 2^bits - 1. `values` may
  /// be a dictionary array. `out` has room for values.length() entries. Uses the fastest kernel of
  /// this processor.
  arrow::Status Coordinates(const arrow::Array& values, int bits, uint32_t* out) const;
  /// The coordinate of one encoded value.
  uint32_t Coordinate(std::string_view encoded, int bits) const;

  /// Serialised form (stable, versioned, bounds-checked on reading): what envelopes carry.
  arrow::Result<std::string> Serialize() const;
  static arrow::Result<ColumnModel> Deserialize(std::string_view bytes);

 private:
  struct Impl;
  explicit ColumnModel(std::unique_ptr<const Impl> impl);
  std::unique_ptr<const Impl> impl_;
};

}  // namespace thalweg
