#pragma once

#include <cstdint>

namespace thalweg {

/// A 64-bit key with the row that it belongs to. Laid out as a 128-bit number with the
/// key above the row, which is how the vectorised sort takes it.
struct alignas(16) KeyRow64 {
  uint64_t row;
  uint64_t key;
};
struct KeyRow128 {
  unsigned __int128 key;
  uint64_t row;
};

/// Sorts by key; rows of equal keys come in ascending row order, so that the result is the same on
/// every machine.
void SortKeyRows(KeyRow64* rows, int64_t n);
void SortKeyRows(KeyRow128* rows, int64_t n);

}  // namespace thalweg
