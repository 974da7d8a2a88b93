#pragma once

#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <xxhash.h>

#include <cstdint>
#include <vector>

namespace thalweg::iceberg {

/// Turns the values of some columns of a row into a 128-bit hash, equal for rows that equality
/// deletes take as equal: NULL equals NULL, every NaN equals every other, -0.0 and 0.0 differ (as
/// Java's Float.compare has it), all else by value. The seed makes collisions unforeseeable; at 128
/// bits they are not to be reckoned with.
class EqualityHasher {
 public:
  /// `columns`: for each column the way to it, a top-level position and then positions within
  /// structs, whose nulls count as nulls of the column.
  EqualityHasher(std::vector<std::vector<int>> columns, uint64_t seed)
      : columns_(std::move(columns)), seed_(seed) {}

  /// One hash per row; never {0, 0}. Columns are of the Arrow types of Iceberg's primitives.
  arrow::Status Hash(const arrow::RecordBatch& batch, std::vector<XXH128_hash_t>* hashes) const;

 private:
  const std::vector<std::vector<int>> columns_;
  const uint64_t seed_;
};

/// The deleted keys of one pass, each with the youngest delete that names it (a rank, from 1 on).
/// Open addressing with linear probing; the capacity is fixed. Finding is thread-safe.
class EqualityTable {
 public:
  /// Room for `keys` keys, or for as many as `max_bytes` allow (at least one).
  EqualityTable(int64_t keys, int64_t max_bytes);

  /// How many keys fit.
  int64_t limit() const { return limit_; }
  int64_t size() const { return size_; }
  bool full() const { return size_ >= limit_; }
  int64_t bytes() const;
  void Clear();

  /// Raises the key's rank; the table is not full.
  void Put(XXH128_hash_t key, uint32_t rank);
  /// Positions i of `keys` whose rank is above `least`.
  void FindAbove(const std::vector<XXH128_hash_t>& keys, uint32_t least,
                 std::vector<uint32_t>* found) const;

  /// How many keys fit into so many bytes; at least one.
  static int64_t Limit(int64_t max_bytes);

 private:
  size_t Slot(XXH128_hash_t key) const;

  int64_t limit_ = 0;
  int64_t size_ = 0;
  std::vector<XXH128_hash_t> keys_;  ///< {0, 0}: empty
  std::vector<uint32_t> ranks_;
};

}  // namespace thalweg::iceberg
