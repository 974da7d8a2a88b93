#pragma once

#include <cstdint>
#include <vector>

#include "key/key_encoder.h"
#include "sort/key_rows.h"

namespace thalweg {

struct FittedKeys;

/// A box in rank space: per key column the share of rows below its smallest and up to its largest
/// value. An equality query on column k, its value drawn from the rows, opens a file of this box
/// with the probability high[k] - low[k].
struct RankBox {
  float low[4] = {2, 2, 2, 2};
  float high[4] = {-1, -1, -1, -1};

  void Add(const RankBox& other, int columns) {
    for (int k = 0; k < columns; ++k) {
      low[k] = low[k] < other.low[k] ? low[k] : other.low[k];
      high[k] = high[k] > other.high[k] ? high[k] : other.high[k];
    }
  }
  /// The mean over the columns of high - low.
  double MeanWidth(int columns) const {
    double sum = 0;
    for (int k = 0; k < columns; ++k) sum += high[k] > low[k] ? high[k] - low[k] : 0;
    return sum / columns;
  }
};

/// A stretch of the curve: what the planner cuts by.
struct CurveBin {
  Key128 begin = 0;    ///< the smallest key that may be in it
  int level = 0;       ///< the highest bit in which keys on both sides of `begin` differ
  RankBox box;         ///< of the sampled rows in it
  int64_t rows = 0;    ///< filled in by the second pass, exactly
  int64_t weight = 0;  ///< uncompressed payload bytes of these rows
};

/// The bins of the curve from a sorted sample of row keys. Each lies between the borders of the
/// largest curve cells that separate neighbouring sampled keys; a key that is sampled often has a
/// bin of its own. Only keys in [begin, end) count
/// (`end` 0: no end).
std::vector<CurveBin> MakeCurveBins(const std::vector<Key128>& row_sample, Curve curve,
                                    int bits_per_dim, int columns, Key128 begin, Key128 end);

/// The coordinates of a curve key: the inverse of CurveKeys.
void CurveCoordinates(Curve curve, Key128 key, int columns, int bits, uint32_t* coords);

/// The border between neighbouring keys a < b at which the curve leaves the largest cell: b without
/// the bits below the highest one that differs. `level` is that bit.
Key128 CellBorder(Key128 a, Key128 b, int* level);

/// Borders that divide sorted keys into at most `parts` ranges of about equal rows, on cell
/// borders; a key that fills more than a part has a range of its own. The first border is 0.
std::vector<Key128> EvenBorders(const std::vector<Key128>& sorted_keys, int parts);

}  // namespace thalweg
