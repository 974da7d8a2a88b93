#include "sort/key_sort.h"

#include <hwy/contrib/sort/vqsort.h>
#include <hwy/targets.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace thalweg {
namespace {

// As a 128-bit number of the library a KeyRow64 orders by key, then row. (The library's own pair
// type K64V64 compares the key alone and, in version 1.0.3, loses the values of keys that are all
// ones.)
static_assert(std::endian::native == std::endian::little);
static_assert(sizeof(KeyRow64) == sizeof(hwy::uint128_t) &&
              alignof(KeyRow64) == alignof(hwy::uint128_t));
static_assert(offsetof(KeyRow64, row) == offsetof(hwy::uint128_t, lo));
static_assert(offsetof(KeyRow64, key) == offsetof(hwy::uint128_t, hi));

template <typename Entry>
bool Precedes(const Entry& a, const Entry& b) {
  return a.key != b.key ? a.key < b.key : a.row < b.row;
}

// The library has no pair sort for processors without any of its vector instruction sets: it aborts
// there.
bool HasVectorSort() { return (hwy::SupportedTargets() & ~(HWY_SCALAR | HWY_EMU128)) != 0; }

}  // namespace

void SortKeyRows(KeyRow64* rows, int64_t n) {
  if (n < 2) return;
  if (!HasVectorSort()) {
    std::sort(rows, rows + n, Precedes<KeyRow64>);
    return;
  }
  hwy::Sorter sorter;
  sorter(reinterpret_cast<hwy::uint128_t*>(rows), static_cast<size_t>(n), hwy::SortAscending());
}

// Sorts the positions by the 64 highest bits that any key uses, then what those leave equal by the
// whole key.
void SortKeyRows(KeyRow128* rows, int64_t n) {
  if (n < 2) return;
  unsigned __int128 all = 0;
  for (int64_t i = 0; i < n; ++i) all |= rows[i].key;
  const int used = all >> 64 != 0 ? 128 - std::countl_zero(static_cast<uint64_t>(all >> 64)) : 64;
  std::vector<KeyRow64> order(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    order[static_cast<size_t>(i)] = {static_cast<uint64_t>(i),
                                     static_cast<uint64_t>(rows[i].key >> (used - 64))};
  }
  SortKeyRows(order.data(), n);
  std::vector<KeyRow128> sorted(static_cast<size_t>(n));
  for (size_t i = 0; i < sorted.size(); ++i) sorted[i] = rows[order[i].row];
  for (int64_t begin = 0; begin < n;) {
    const uint64_t key = order[static_cast<size_t>(begin)].key;
    int64_t end = begin + 1;
    while (end < n && order[static_cast<size_t>(end)].key == key) ++end;
    if (end - begin > 1)
      std::sort(sorted.begin() + begin, sorted.begin() + end, Precedes<KeyRow128>);
    begin = end;
  }
  std::copy(sorted.begin(), sorted.end(), rows);
}

}  // namespace thalweg
