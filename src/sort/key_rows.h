#pragma once

#include <arrow/record_batch.h>
#include <arrow/result.h>

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "key/key_encoder.h"
#include "sort/key_sort.h"

namespace thalweg {

/// A row among several batches: batch number and row in it.
constexpr uint64_t RowAddress(uint64_t batch, uint64_t row) { return batch << 32 | row; }
constexpr uint32_t AddressBatch(uint64_t address) { return static_cast<uint32_t>(address >> 32); }
constexpr uint32_t AddressRow(uint64_t address) { return static_cast<uint32_t>(address); }

/// The curve keys of one batch: 64 bits wide, or 128 where the encoder is wide.
class KeyVector {
 public:
  static arrow::Result<KeyVector> Encode(const KeyEncoder& encoder, const arrow::RecordBatch& batch,
                                         const std::vector<int>& key_columns);
  int64_t size() const;
  Key128 operator[](int64_t i) const;
  int64_t bytes() const;
  /// The rows whose key is in [begin, end), `end` 0 meaning no end.
  std::vector<uint64_t> RowsInRange(Key128 begin, Key128 end) const;
  /// Keeps the given rows only.
  void Select(const std::vector<uint64_t>& rows);

  const std::variant<std::vector<Key64>, std::vector<Key128>>& keys() const { return keys_; }

 private:
  std::variant<std::vector<Key64>, std::vector<Key128>> keys_;
};

/// Ascending border keys that divide the curve into ranges: range i holds border(i) <= key <
/// border(i + 1). The first border is taken as the lowest key there is. Lookup goes through an
/// index over the leading bits.
class KeyRanges {
 public:
  KeyRanges() = default;
  /// `borders`: ascending, distinct, not empty.
  KeyRanges(std::vector<Key128> borders, int key_bits);

  int size() const { return static_cast<int>(borders_.size()); }
  Key128 border(int range) const { return borders_[range]; }
  /// The range of every key.
  void Find(const KeyVector& keys, uint32_t* out) const;

 private:
  std::vector<Key128> borders_;
  std::vector<Key64> narrow_borders_;
  int shift_ = 0;
  std::vector<uint32_t>
      starts_;  // of leading bits c: the number of borders with smaller leading bits
};

/// Pairs of key and row, 64 or 128 bits wide.
class KeyRows {
 public:
  explicit KeyRows(bool wide = false);
  static int64_t BytesPerRow(bool wide) { return wide ? sizeof(KeyRow128) : sizeof(KeyRow64); }

  void Resize(int64_t rows);
  void Reserve(int64_t rows);
  int64_t size() const;
  Key128 key(int64_t i) const;
  uint64_t row(int64_t i) const;
  /// Appends row i of `keys` as (key, RowAddress(batch, i)).
  void Append(const KeyVector& keys, uint32_t batch);
  /// Writes row i of `keys` to position cursors[ranges[i]]++.
  void Place(const KeyVector& keys, uint32_t batch, const uint32_t* ranges, int64_t* cursors);
  void Sort(int64_t begin, int64_t end);
  bool AllEqual() const;
  /// The rows [begin, end), in order.
  void CopyRows(int64_t begin, int64_t end, uint64_t* out) const;

 private:
  std::variant<std::vector<KeyRow64>, std::vector<KeyRow128>> rows_;
};

}  // namespace thalweg
