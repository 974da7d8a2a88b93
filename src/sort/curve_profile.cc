#include "sort/curve_profile.h"

#include <algorithm>
#include <map>

#include "sort/cluster_sort.h"

namespace thalweg {
namespace {

constexpr int64_t kHotCount = 8;  // a key sampled this often gets a bin of its own

int HighestBit(Key128 value) {
  const auto high = static_cast<uint64_t>(value >> 64);
  if (high != 0) return 127 - __builtin_clzll(high);
  return 63 - __builtin_clzll(static_cast<uint64_t>(value));
}

/// Distinct keys with their counts.
struct KeyCount {
  Key128 key;
  int64_t count;
};

std::vector<KeyCount> CountKeys(const std::vector<Key128>& sorted) {
  std::vector<KeyCount> counts;
  for (Key128 key : sorted) {
    if (counts.empty() || counts.back().key != key) counts.push_back({key, 0});
    ++counts.back().count;
  }
  return counts;
}

/// Rank boxes of the distinct sampled keys, each a box of one point.
std::vector<RankBox> PointBoxes(const std::vector<KeyCount>& keys, Curve curve, int bits,
                                int columns) {
  std::vector<uint32_t> coords(keys.size() * 4);
  int64_t total = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    CurveCoordinates(curve, keys[i].key, columns, bits, &coords[i * 4]);
    total += keys[i].count;
  }
  std::vector<RankBox> boxes(keys.size());
  std::vector<uint32_t> order(keys.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint32_t>(i);
  for (int k = 0; k < columns; ++k) {
    std::sort(order.begin(), order.end(),
              [&](uint32_t a, uint32_t b) { return coords[a * 4 + k] < coords[b * 4 + k]; });
    int64_t below = 0;
    for (size_t i = 0; i < order.size();) {
      size_t j = i;
      int64_t here = 0;
      for (; j < order.size() && coords[order[j] * 4 + k] == coords[order[i] * 4 + k]; ++j) {
        here += keys[order[j]].count;
      }
      for (; i < j; ++i) {
        boxes[order[i]].low[k] = static_cast<float>(below) / static_cast<float>(total);
        boxes[order[i]].high[k] = static_cast<float>(below + here) / static_cast<float>(total);
      }
      below += here;
    }
  }
  return boxes;
}

}  // namespace

Key128 CellBorder(Key128 a, Key128 b, int* level) {
  *level = HighestBit(a ^ b);
  return b >> *level << *level;
}

void CurveCoordinates(Curve curve, Key128 key, int columns, int bits, uint32_t* coords) {
  std::fill(coords, coords + columns, 0);
  for (int bit = 0; bit < bits; ++bit) {
    for (int k = 0; k < columns; ++k) {
      const int position = bit * columns + (columns - 1 - k);
      coords[k] |= static_cast<uint32_t>((key >> position) & 1) << bit;
    }
  }
  if (curve == Curve::kZOrder) return;
  // Gray encode, then undo the exchanges from the lowest bit up.
  uint32_t t = coords[columns - 1] >> 1;
  for (int k = columns - 1; k > 0; --k) coords[k] ^= coords[k - 1];
  coords[0] ^= t;
  for (int bit = 1; bit < bits; ++bit) {
    const uint32_t q = uint32_t{1} << bit;
    const uint32_t below = q - 1;
    for (int k = columns - 1; k >= 0; --k) {
      if (coords[k] & q) {
        coords[0] ^= below;
      } else {
        t = (coords[0] ^ coords[k]) & below;
        coords[0] ^= t;
        coords[k] ^= t;
      }
    }
  }
}

std::vector<CurveBin> MakeCurveBins(const std::vector<Key128>& row_sample, Curve curve,
                                    int bits_per_dim, int columns, Key128 begin, Key128 end) {
  const std::vector<KeyCount> keys = CountKeys(row_sample);
  const std::vector<RankBox> boxes = PointBoxes(keys, curve, bits_per_dim, columns);
  std::vector<CurveBin> bins;
  auto add = [&](Key128 border, int level) {
    if (end != 0 && border >= end) return;
    if (bins.empty() || border <= begin) {  // the first bin begins with the slice
      bins.resize(1);
      bins[0].begin = begin;
      bins[0].level = 128;
      bins[0].box = RankBox();
    } else if (bins.back().begin < border) {
      bins.emplace_back();
      bins.back().begin = border;
      bins.back().level = level;
    }
  };
  add(begin, 128);
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].key < begin) continue;
    if (end != 0 && keys[i].key >= end) break;
    int level = 0;
    if (i > 0) {
      const Key128 border = CellBorder(keys[i - 1].key, keys[i].key, &level);
      add(border, level);
    }
    const bool hot = keys[i].count >= kHotCount;
    if (hot && bins.back().begin != keys[i].key) add(keys[i].key, 0);
    bins.back().box.Add(boxes[i], columns);
    if (hot && keys[i].key + 1 != 0) add(keys[i].key + 1, 0);
  }
  return bins;
}

std::vector<Key128> EvenBorders(const std::vector<Key128>& sorted_keys, int parts) {
  std::vector<Key128> borders{0};
  const std::vector<KeyCount> keys = CountKeys(sorted_keys);
  const auto share = static_cast<double>(sorted_keys.size()) / std::max(parts, 1);
  double filled = 0;
  auto add = [&](Key128 border) {
    if (border > borders.back()) borders.push_back(border);
    filled = 0;
  };
  int level = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto count = static_cast<double>(keys[i].count);
    const bool alone = count >= share && count > 1;
    if (i > 0 && (alone || filled + count / 2 >= share)) {
      add(alone ? keys[i].key : CellBorder(keys[i - 1].key, keys[i].key, &level));
    }
    filled += count;
    if (alone && keys[i].key + 1 != 0) add(keys[i].key + 1);
  }
  return borders;
}

}  // namespace thalweg
