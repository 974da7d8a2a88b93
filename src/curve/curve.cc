#include "curve/curve.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "curve/curve.cc"
#include <hwy/foreach_target.h>  // compiles this file once for each instruction set
#include <hwy/highway.h>

#ifndef THALWEG_CURVE_ONCE_
#define THALWEG_CURVE_ONCE_
namespace thalweg {
namespace {

// Points are worked on in blocks whose coordinates stay in the first-level cache.
constexpr int64_t kBlock = 512;

// How to spread the low bits of a word so that neighbours come `dims` apart: for each step s = 16,
// 8, 4, 2, 1 that the width needs, x = (x | x << s * (dims - 1)) & (groups of s bits, s * dims
// apart).
struct SpreadPlan {
  int steps = 0;
  int shift[5];
  uint64_t mask[5];
};

SpreadPlan MakeSpreadPlan(int dims, int bits) {
  SpreadPlan plan;
  if (dims == 1) return plan;
  for (int s = 16; s >= 1; s /= 2) {
    if (s >= bits) continue;
    uint64_t mask = 0;
    for (int at = 0; at < 64; at += s * dims) mask |= ((uint64_t{1} << s) - 1) << at;
    plan.shift[plan.steps] = s * (dims - 1);
    plan.mask[plan.steps++] = mask;
  }
  return plan;
}

}  // namespace
}  // namespace thalweg
#endif  // THALWEG_CURVE_ONCE_

HWY_BEFORE_NAMESPACE();
namespace thalweg {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Skilling's transform and the Gray decode of kGroups vectors of points side by side (the steps of
// one vector depend on each other, so several in flight keep the units busy). Within step q only
// bits below q change, so "bit q is set" of all axes is known at its start and the branches become
// masks.
template <int kDims, int kGroups, class D, class V = hn::Vec<D>>
HWY_INLINE void TransformVectors(D d, int bits, V x[kGroups][kDims]) {
  using T = hn::TFromD<D>;
  const hn::RebindToSigned<D> di;
  constexpr int kTop = sizeof(T) * 8 - 1;
  for (int bit = bits - 1; bit >= 1; --bit) {
    const V p = hn::Set(d, static_cast<T>((T{1} << bit) - 1));
    for (int g = 0; g < kGroups; ++g) {
      V set[kDims];
      for (int i = 0; i < kDims; ++i) {
        const V at_top = hn::ShiftLeftSame(x[g][i], kTop - bit);
        set[i] = hn::BitCast(d, hn::ShiftRight<kTop>(hn::BitCast(di, at_top)));
      }
      V x0 = hn::Xor(x[g][0], hn::And(set[0], p));
      for (int i = 1; i < kDims; ++i) {
        const V swap = hn::And(hn::Xor(x0, x[g][i]), hn::AndNot(set[i], p));
        x0 = hn::Xor(hn::Xor(x0, hn::And(set[i], p)), swap);
        x[g][i] = hn::Xor(x[g][i], swap);
      }
      x[g][0] = x0;
    }
  }
  for (int g = 0; g < kGroups; ++g) {
    for (int i = 1; i < kDims; ++i) x[g][i] = hn::Xor(x[g][i], x[g][i - 1]);
    // Bit j of t is the parity of the last axis above bit j.
    V t = hn::ShiftRight<1>(x[g][kDims - 1]);
    t = hn::Xor(t, hn::ShiftRight<1>(t));
    t = hn::Xor(t, hn::ShiftRight<2>(t));
    t = hn::Xor(t, hn::ShiftRight<4>(t));
    t = hn::Xor(t, hn::ShiftRight<8>(t));
    if constexpr (sizeof(T) == 4) t = hn::Xor(t, hn::ShiftRight<16>(t));
    for (int i = 0; i < kDims; ++i) x[g][i] = hn::Xor(x[g][i], t);
  }
}

// `n` is a multiple of 64, so that whole vectors can be used; `in` and `out` may be the same
// arrays.
template <int kDims>
HWY_INLINE void TransformBlock(const uint32_t* const* in, int bits, int64_t n,
                               uint32_t* const* out) {
  const hn::ScalableTag<uint32_t> d32;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d32));
  using V32 = hn::Vec<decltype(d32)>;
#if HWY_TARGET != HWY_SCALAR
  if (bits <= 16) {
    // Two vectors of 32-bit coordinates share one of 16-bit lanes: the first in the even lanes, the
    // second in the odd ones.
    const hn::ScalableTag<uint16_t> d16;
    using V16 = hn::Vec<decltype(d16)>;
    const V32 low = hn::Set(d32, 0xffff);
    for (int64_t at = 0; at < n; at += 4 * lanes) {
      V16 x[2][kDims];
      for (int g = 0; g < 2; ++g) {
        for (int i = 0; i < kDims; ++i) {
          const uint32_t* from = in[i] + at + 2 * g * lanes;
          x[g][i] = hn::BitCast(
              d16, hn::Or(hn::LoadU(d32, from), hn::ShiftLeft<16>(hn::LoadU(d32, from + lanes))));
        }
      }
      TransformVectors<kDims, 2>(d16, bits, x);
      for (int g = 0; g < 2; ++g) {
        for (int i = 0; i < kDims; ++i) {
          uint32_t* to = out[i] + at + 2 * g * lanes;
          const V32 both = hn::BitCast(d32, x[g][i]);
          hn::StoreU(hn::And(both, low), d32, to);
          hn::StoreU(hn::ShiftRight<16>(both), d32, to + lanes);
        }
      }
    }
    return;
  }
#endif
  for (int64_t at = 0; at < n; at += 2 * lanes) {
    V32 x[2][kDims];
    for (int g = 0; g < 2; ++g) {
      for (int i = 0; i < kDims; ++i) x[g][i] = hn::LoadU(d32, in[i] + at + g * lanes);
    }
    TransformVectors<kDims, 2>(d32, bits, x);
    for (int g = 0; g < 2; ++g) {
      for (int i = 0; i < kDims; ++i) hn::StoreU(x[g][i], d32, out[i] + at + g * lanes);
    }
  }
}

// Skilling's transform and the Gray decode of `n` points (a multiple of 64).
void Transform(const uint32_t* const* in, int dims, int bits, int64_t n, uint32_t* const* out) {
  switch (dims) {
    case 1:
      return TransformBlock<1>(in, bits, n, out);
    case 2:
      return TransformBlock<2>(in, bits, n, out);
    case 3:
      return TransformBlock<3>(in, bits, n, out);
    default:
      return TransformBlock<4>(in, bits, n, out);
  }
}

template <int kDims>
HWY_INLINE void InterleaveBlock(const SpreadPlan& plan, const uint32_t* const* in, int drop,
                                uint32_t keep, int64_t n, uint64_t* out) {
  const hn::ScalableTag<uint64_t> d64;
  const hn::Rebind<uint32_t, decltype(d64)> d32;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d64));
  using V = hn::Vec<decltype(d64)>;
  const V keep_mask = hn::Set(d64, keep);
  for (int64_t at = 0; at < n; at += lanes) {
    V x[kDims];
    for (int i = 0; i < kDims; ++i) {
      const V wide = hn::PromoteTo(d64, hn::LoadU(d32, in[i] + at));
      x[i] = hn::And(hn::ShiftRightSame(wide, drop), keep_mask);
    }
    for (int step = 0; step < plan.steps; ++step) {
      const V mask = hn::Set(d64, plan.mask[step]);
      for (int i = 0; i < kDims; ++i) {
        x[i] = hn::And(hn::Or(x[i], hn::ShiftLeftSame(x[i], plan.shift[step])), mask);
      }
    }
    V key = x[0];
    for (int i = 1; i < kDims; ++i) key = hn::Or(hn::ShiftLeft<1>(key), x[i]);
    hn::StoreU(key, d64, out + at);
  }
}

// out = the bits [drop, drop + bits) of every coordinate, interleaved; `n` is a multiple of 64.
void Interleave(const uint32_t* const* in, int dims, int drop, int bits, int64_t n, uint64_t* out) {
  const SpreadPlan plan = MakeSpreadPlan(dims, bits);
  const auto keep = static_cast<uint32_t>((uint64_t{1} << bits) - 1);
  switch (dims) {
    case 1:
      return InterleaveBlock<1>(plan, in, drop, keep, n, out);
    case 2:
      return InterleaveBlock<2>(plan, in, drop, keep, n, out);
    case 3:
      return InterleaveBlock<3>(plan, in, drop, keep, n, out);
    default:
      return InterleaveBlock<4>(plan, in, drop, keep, n, out);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace thalweg
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace thalweg {

HWY_EXPORT(Transform);
HWY_EXPORT(Interleave);

namespace {

// Calls finish(first point, points, coordinates) for every block, the coordinates being transformed
// if the curve asks for it and readable up to the next multiple of 64 points.
template <typename Finish>
void ForEachBlock(Curve curve, const uint32_t* const* coords, int dims, int bits, int64_t n,
                  Finish finish) {
  alignas(64) uint32_t scratch[4][kBlock];
  uint32_t* const out[4] = {scratch[0], scratch[1], scratch[2], scratch[3]};
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t count = std::min(kBlock, n - at);
    const int64_t padded = (count + 63) / 64 * 64;
    const uint32_t* in[4] = {};
    for (int i = 0; i < dims; ++i) {
      in[i] = coords[i] + at;
      if (padded != count) {
        std::memcpy(scratch[i], in[i], static_cast<size_t>(count) * sizeof(uint32_t));
        std::fill(scratch[i] + count, scratch[i] + padded, 0u);
        in[i] = scratch[i];
      }
    }
    if (curve == Curve::kHilbert) {
      HWY_DYNAMIC_DISPATCH(Transform)(in, dims, bits, padded, out);
      std::copy(out, out + dims, in);
    }
    finish(at, count, padded, in);
  }
}

}  // namespace

void CurveKeys(Curve curve, const uint32_t* const* coords, int dims, int bits, int64_t n,
               uint64_t* out) {
  ForEachBlock(curve, coords, dims, bits, n,
               [&](int64_t at, int64_t count, int64_t padded, const uint32_t* const* in) {
                 if (count == padded) {
                   HWY_DYNAMIC_DISPATCH(Interleave)(in, dims, 0, bits, padded, out + at);
                   return;
                 }
                 alignas(64) uint64_t keys[kBlock];
                 HWY_DYNAMIC_DISPATCH(Interleave)(in, dims, 0, bits, padded, keys);
                 std::copy(keys, keys + count, out + at);
               });
}

void CurveKeys(Curve curve, const uint32_t* const* coords, int dims, int bits, int64_t n,
               unsigned __int128* out) {
  const int low_bits = std::min(bits, 64 / dims);
  const int high_bits = bits - low_bits;
  ForEachBlock(curve, coords, dims, bits, n,
               [&](int64_t at, int64_t count, int64_t padded, const uint32_t* const* in) {
                 alignas(64) uint64_t low[kBlock];
                 alignas(64) uint64_t high[kBlock];
                 HWY_DYNAMIC_DISPATCH(Interleave)(in, dims, 0, low_bits, padded, low);
                 if (high_bits == 0) {
                   std::copy(low, low + count, out + at);
                   return;
                 }
                 HWY_DYNAMIC_DISPATCH(Interleave)(in, dims, low_bits, high_bits, padded, high);
                 for (int64_t i = 0; i < count; ++i) {
                   out[at + i] =
                       static_cast<unsigned __int128>(high[i]) << (low_bits * dims) | low[i];
                 }
               });
}

unsigned __int128 CurveKeyReference(Curve curve, const uint32_t* coords, int dims, int bits) {
  uint32_t x[4] = {};
  std::copy(coords, coords + dims, x);
  if (curve == Curve::kHilbert) {
    for (uint32_t q = uint32_t{1} << (bits - 1); q > 1; q >>= 1) {
      const uint32_t p = q - 1;
      for (int i = 0; i < dims; ++i) {
        if (x[i] & q) {
          x[0] ^= p;
        } else {
          const uint32_t t = (x[0] ^ x[i]) & p;
          x[0] ^= t;
          x[i] ^= t;
        }
      }
    }
    for (int i = 1; i < dims; ++i) x[i] ^= x[i - 1];
    uint32_t t = 0;
    for (uint32_t q = uint32_t{1} << (bits - 1); q > 1; q >>= 1) {
      if (x[dims - 1] & q) t ^= q - 1;
    }
    for (int i = 0; i < dims; ++i) x[i] ^= t;
  }
  unsigned __int128 key = 0;
  for (int b = bits - 1; b >= 0; --b) {
    for (int i = 0; i < dims; ++i) key = key << 1 | (x[i] >> b & 1);
  }
  return key;
}

}  // namespace thalweg
#endif  // HWY_ONCE
