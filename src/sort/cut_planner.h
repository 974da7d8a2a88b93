#pragma once

#include <cstdint>
#include <vector>

#include "sort/curve_profile.h"

namespace thalweg {

/// Sizes that a piece may have, in encoded bytes or rows.
struct CutWindow {
  double target = 0;
  double low = 0;
  double high = 0;
};

/// Of files with a stated size: 0.8 to 1.2 of it, or 0.67 to 1.0 where it is a hard cap.
CutWindow FileWindow(double stated, bool hard_cap);

/// Chooses where the curve is cut into cubes, files and row groups. Among all cuts that keep every
/// piece in its window it takes those whose pieces have the smallest boxes: the fewest pieces that
/// an equality opens, relative to their number. Those are the cuts at the borders of large curve
/// cells. Cuts are numbers of rows from the start of the curve; a bin that is heavy for a piece is
/// cut inside, by rows.
class CutPlanner {
 public:
  enum class Unit { kBytes, kRows };
  /// Sizes are rows, or encoded bytes: payload bytes times SetRatio's ratio, except where Learn
  /// said better.
  CutPlanner(std::vector<CurveBin> bins, int columns, Unit unit);

  /// Encoded bytes per payload byte.
  void SetRatio(double ratio);
  /// The rows [begin, end) came to `bytes` when they were encoded.
  void Learn(int64_t begin, int64_t end, double bytes);

  int64_t rows() const { return first_row_.back(); }
  /// Size of the rows [begin, end); inside a bin all rows are alike.
  double Size(int64_t begin, int64_t end) const;
  /// Payload bytes of them.
  double Payload(int64_t begin, int64_t end) const;

  /// Whether some number of pieces, each within the window, makes up `size`.
  static bool Feasible(double size, const CutWindow& window);

  /// The end of the first piece of [begin, end): within windows[0], the pieces after it within
  /// windows[1]; when that cannot be, within windows[1] and windows[2], and so on, the last one
  /// standing for all that follow. When none can be: all of it where it is at most `high`, or where
  /// it lies between one piece and two and `may_exceed`; otherwise an even share.
  int64_t NextCut(int64_t begin, int64_t end, const std::vector<CutWindow>& windows,
                  bool may_exceed) const;

  /// All inner cuts of [begin, end), ascending.
  std::vector<int64_t> Cuts(int64_t begin, int64_t end, const CutWindow& window,
                            bool may_exceed) const;

 private:
  /// The cuts that NextCut's rules give for the first pieces of [begin, end), at least one.
  std::vector<int64_t> NextCuts(int64_t begin, int64_t end, const std::vector<CutWindow>& windows,
                                bool may_exceed) const;
  /// Cut candidates of [begin, end), at most about 64 per target, and the boxes between them.
  struct Candidates {
    std::vector<int64_t> row;
    std::vector<double> size;  // cumulative, from 0
    std::vector<RankBox> box;  // of the stretch that ends at the candidate
  };
  Candidates MakeCandidates(int64_t begin, int64_t end, double grain) const;
  /// The cuts up to the end or, past the horizon, to where it no longer weighs; empty: not
  /// feasible.
  std::vector<int64_t> Best(const Candidates& candidates, bool to_end, const CutWindow& first,
                            const CutWindow& rest) const;
  size_t BinOfRow(int64_t row) const;
  static double Before(const std::vector<double>& sums, const std::vector<int64_t>& first_row,
                       int64_t row);
  double SizeBefore(int64_t row) const { return Before(first_size_, first_row_, row); }
  int64_t RowAtSize(double size) const;
  void SumSizes();

  std::vector<CurveBin> bins_;
  int columns_;
  Unit unit_;
  double ratio_ = 1;
  struct Known {
    double share = 0;  // of the bin's rows
    double bytes = 0;
  };
  std::vector<Known> known_;
  std::vector<int64_t> first_row_;  // of each bin, and the total
  std::vector<double> first_payload_;
  std::vector<double> first_size_;
};

}  // namespace thalweg
