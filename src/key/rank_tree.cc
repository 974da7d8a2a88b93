#include <algorithm>
#include <limits>

#include "key/rank_tree_internal.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "key/rank_tree.cc"
#include <hwy/foreach_target.h>  // compiles this file once for each instruction set
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace thalweg {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// How many numbers of a node are above `value`.
template <typename T>
HWY_INLINE size_t CountAbove(const T* HWY_RESTRICT node, T value) {
  const hn::CappedTag<T, RankTree::kNode> d;
  const auto v = hn::Set(d, value);
  size_t above = 0;
  HWY_UNROLL(8)
  for (size_t at = 0; at < RankTree::kNode; at += hn::Lanes(d)) {
    above += hn::CountTrue(d, hn::Gt(hn::LoadU(d, node + at), v));
  }
  return above;
}

template <typename T>
HWY_INLINE void TreeRanks(const RankTree::View& view, const uint64_t* HWY_RESTRICT values,
                          int64_t n, uint32_t* HWY_RESTRICT ranks) {
  using U = hwy::MakeUnsigned<T>;
  constexpr U kTop = U{1} << (sizeof(T) * 8 - 1);
  // The lookups of a group go down the tree side by side: the loads of one do not wait for those of
  // another.
  constexpr int kGroup = 16;
  for (int64_t begin = 0; begin < n; begin += kGroup) {
    const int count = static_cast<int>(std::min<int64_t>(kGroup, n - begin));
    T value[kGroup];
    uint32_t at[kGroup] = {};
    for (int i = 0; i < count; ++i) {
      const uint64_t v = values[begin + i];
      const bool inside = v >= view.first && v < view.last;
      const U stored = sizeof(T) == 4 ? static_cast<U>(v - view.first + 1) : static_cast<U>(v);
      value[i] = static_cast<T>((inside ? stored : U{0}) ^ kTop);
    }
    for (int level = 0; level < view.levels; ++level) {
      const T* numbers = static_cast<const T*>(view.level[level]);
      for (int i = 0; i < count; ++i) {
        const size_t node = size_t{at[i]} * RankTree::kNode;
        at[i] = static_cast<uint32_t>(node + RankTree::kNode - 1 -
                                      CountAbove(numbers + node, value[i]));
      }
    }
    for (int i = 0; i < count; ++i) {
      ranks[begin + i] = values[begin + i] >= view.last ? view.size - 1 : at[i];
    }
  }
}

void Ranks(const RankTree::View& view, const uint64_t* values, int64_t n, uint32_t* ranks) {
  if (view.narrow) {
    TreeRanks<int32_t>(view, values, n, ranks);
  } else {
    TreeRanks<int64_t>(view, values, n, ranks);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace thalweg
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thalweg {

HWY_EXPORT(Ranks);

template <typename T>
void RankTree::Build(const std::vector<uint64_t>& sorted) {
  using U = std::make_unsigned_t<T>;
  constexpr U kTop = U{1} << (sizeof(T) * 8 - 1);
  auto padded = [](size_t n) { return (n + kNode - 1) / kNode * kNode; };
  size_t sizes[View::kMaxLevels];  // from the numbers up to the root
  size_t total = 0;
  for (size_t n = sorted.size();; n = padded(n) / kNode) {
    sizes[view_.levels++] = n;
    total += padded(n);
    if (n <= kNode) break;
  }
  storage_ = hwy::AllocateAligned<uint8_t>(total * sizeof(T));
  T* to = reinterpret_cast<T*>(storage_.get());
  const T* below = nullptr;
  for (int height = 0; height < view_.levels; ++height) {
    const size_t n = sizes[height];
    for (size_t i = 0; i < n; ++i) {
      to[i] = height > 0       ? below[i * kNode]
              : sizeof(T) == 4 ? static_cast<T>(static_cast<U>(sorted[i] - sorted[0] + 1) ^ kTop)
                               : static_cast<T>(static_cast<U>(sorted[i]) ^ kTop);
    }
    to[0] = std::numeric_limits<T>::min();
    std::fill(to + n, to + padded(n), std::numeric_limits<T>::max());
    view_.level[view_.levels - 1 - height] = to;
    below = to;
    to += padded(n);
  }
}

RankTree::RankTree(const std::vector<uint64_t>& sorted) {
  if (sorted.empty()) return;
  view_.size = static_cast<uint32_t>(sorted.size());
  view_.first = sorted.front();
  view_.last = sorted.back();
  view_.narrow = view_.last - view_.first < UINT32_MAX - 1;
  if (view_.narrow) {
    Build<int32_t>(sorted);
  } else {
    Build<int64_t>(sorted);
  }
}

void RankTree::Ranks(const uint64_t* values, int64_t n, uint32_t* ranks) const {
  if (view_.size == 0) {
    std::fill(ranks, ranks + n, 0u);
    return;
  }
  HWY_DYNAMIC_DISPATCH(Ranks)(view_, values, n, ranks);
}

}  // namespace thalweg
#endif  // HWY_ONCE
