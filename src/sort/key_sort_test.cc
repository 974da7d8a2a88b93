#include "sort/key_sort.h"

#include <gtest/gtest.h>

#include <hwy/targets.h>
#include <algorithm>
#include <random>
#include <vector>

namespace thalweg {
namespace {

// Inputs that quicksorts are known to fear, and plain random ones. `rows` are shuffled so that
// stability alone is not enough.
std::vector<uint64_t> Keys(int shape, int64_t n, std::mt19937_64& random) {
  std::vector<uint64_t> keys(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const auto u = static_cast<uint64_t>(i);
    keys[static_cast<size_t>(i)] = shape == 0   ? random()
                                   : shape == 1 ? 42                               // all equal
                                   : shape == 2 ? u                                // sorted
                                   : shape == 3 ? static_cast<uint64_t>(n) - u     // reversed
                                   : shape == 4 ? (random() % 2 ? 0 : UINT64_MAX)  // two values
                                   : shape == 5
                                       ? std::min(u, static_cast<uint64_t>(n) - u)  // organ pipe
                                   : shape == 6 ? (u % 1000 ? 7 : random())         // one hot value
                                                : random() % 100;  // many short runs
  }
  return keys;
}

template <typename Entry>
void CheckSort(const std::vector<Entry>& input) {
  auto want = input;
  std::sort(want.begin(), want.end(), [](const Entry& a, const Entry& b) {
    return a.key != b.key ? a.key < b.key : a.row < b.row;
  });
  auto got = input;
  SortKeyRows(got.data(), static_cast<int64_t>(got.size()));
  for (size_t i = 0; i < want.size(); ++i) {
    ASSERT_TRUE(got[i].key == want[i].key) << i;
    ASSERT_EQ(got[i].row, want[i].row) << i;
  }
}

TEST(KeySort, AgreesWithStdSortOnEveryTarget) {
  const int64_t all = hwy::SupportedTargets();
  for (int64_t rest = all; rest != 0; rest &= rest - 1) {
    // Newer instruction sets have lower bits: this leaves one set and the older ones, as real
    // processors have them.
    hwy::SetSupportedTargetsForTest(rest);
    std::mt19937_64 random(1);
    for (int64_t n : {0, 1, 2, 3, 17, 200, 3000, 20000}) {
      for (int shape = 0; shape < 8; ++shape) {
        const auto keys = Keys(shape, n, random);
        std::vector<uint64_t> rows(keys.size());
        for (size_t i = 0; i < rows.size(); ++i) rows[i] = i;
        std::shuffle(rows.begin(), rows.end(), random);
        std::vector<KeyRow64> narrow;
        std::vector<KeyRow128> wide, high, low;
        for (size_t i = 0; i < keys.size(); ++i) {
          const unsigned __int128 key = keys[i];
          narrow.push_back({rows[i], keys[i]});
          wide.push_back({key << 64 | keys[(i * 7) % keys.size()], rows[i]});
          high.push_back({key << 30 | 1, rows[i]});
          low.push_back({key, rows[i]});
        }
        SCOPED_TRACE(shape);
        CheckSort(narrow);
        CheckSort(wide);
        CheckSort(high);
        CheckSort(low);
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

// Keys that agree in their 64 highest bits are told apart by the rest.
TEST(KeySort, WideKeysWithEqualBeginnings) {
  std::mt19937_64 random(3);
  std::vector<KeyRow128> entries;
  for (uint64_t i = 0; i < 5000; ++i) {
    entries.push_back(
        {static_cast<unsigned __int128>(random() % 3 + (uint64_t{1} << 63)) << 64 | random() % 50,
         5000 - i});
  }
  CheckSort(entries);
}

}  // namespace
}  // namespace thalweg
