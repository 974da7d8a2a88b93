#pragma once

#include <cstdint>

#include "spec/clustering_spec.h"

namespace thalweg {

/// Curve keys of `n` points. `coords[k]` is the array of the k-th coordinate of every point, each
/// below 2^bits; 1 <= dims <= 4, 1 <= bits <= 32. Keys are right-aligned numbers of bits * dims
/// bits (step 6 of typed-quantile-rank-v1: Skilling's transform in place, Gray decode, interleave
/// from the top bit, field 0 first; Z-order interleaves alone). The 64-bit form needs bits * dims
/// <= 64. Both choose the fastest kernel of this processor at run time.
void CurveKeys(Curve curve, const uint32_t* const* coords, int dims, int bits, int64_t n,
               uint64_t* out);
void CurveKeys(Curve curve, const uint32_t* const* coords, int dims, int bits, int64_t n,
               unsigned __int128* out);

/// The scalar reference, written as the text says it; the kernels are tested against it.
unsigned __int128 CurveKeyReference(Curve curve, const uint32_t* coords, int dims, int bits);

}  // namespace thalweg
