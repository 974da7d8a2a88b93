#pragma once

#include <hwy/aligned_allocator.h>

#include <cstdint>
#include <vector>

namespace thalweg {

/// Ranks in a sorted list of 64-bit numbers, by a static search tree: nodes of 16 numbers, each
/// compared with vector instructions at once, laid out level by level. Numbers whose range is below
/// 2^32 are kept as 32-bit ones. Immutable and thread-safe.
class RankTree {
 public:
  RankTree() = default;
  /// `sorted`: ascending, duplicates included, at most 2^31 numbers.
  explicit RankTree(const std::vector<uint64_t>& sorted);

  /// ranks[i] = max(count of numbers <= values[i], 1) - 1, and 0 in an empty tree. Chosen at run
  /// time among the instruction sets of this processor.
  void Ranks(const uint64_t* values, int64_t n, uint32_t* ranks) const;

  static constexpr int kNode = 16;

  /// What the kernels see. A number x is stored as x - base + 1 (narrow) or as it is (wide), with
  /// the top bit flipped so that signed comparison orders it; the first one of each level is the
  /// lowest possible instead, so that a node always holds a number that is not above the one looked
  /// for.
  struct View {
    static constexpr int kMaxLevels = 8;
    const void* level[kMaxLevels];  ///< from the root to the numbers themselves
    int levels = 0;
    bool narrow = false;
    uint32_t size = 0;
    uint64_t first = 0;
    uint64_t last = 0;
  };
  const View& view() const { return view_; }

 private:
  template <typename T>
  void Build(const std::vector<uint64_t>& sorted);

  hwy::AlignedFreeUniquePtr<uint8_t[]> storage_;
  View view_;
};

}  // namespace thalweg
