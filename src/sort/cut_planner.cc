#include "sort/cut_planner.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace thalweg {
namespace {

constexpr int kGrainsPerTarget = 64;
constexpr double kHorizon = 64;  // pieces looked ahead
constexpr double kSizePenalty =
    0.05;  // of a piece's box, at a deviation of the whole target: decides ties

}  // namespace

CutWindow FileWindow(double stated, bool hard_cap) {
  const double low = stated * (hard_cap ? 0.67 : 0.8), high = stated * (hard_cap ? 1.0 : 1.2);
  return {(low + high) / 2, low, high};
}

CutPlanner::CutPlanner(std::vector<CurveBin> bins, int columns, Unit unit)
    : bins_(std::move(bins)), columns_(columns), unit_(unit), known_(bins_.size()) {
  first_row_.push_back(0);
  first_payload_.push_back(0);
  for (const CurveBin& bin : bins_) {
    first_row_.push_back(first_row_.back() + bin.rows);
    first_payload_.push_back(first_payload_.back() + static_cast<double>(bin.weight));
  }
  SumSizes();
}

void CutPlanner::SumSizes() {
  first_size_.assign(1, 0);
  for (size_t i = 0; i < bins_.size(); ++i) {
    const double size = unit_ == Unit::kRows
                            ? static_cast<double>(bins_[i].rows)
                            : known_[i].bytes + (1 - known_[i].share) *
                                                    static_cast<double>(bins_[i].weight) * ratio_;
    first_size_.push_back(first_size_.back() + size);
  }
}

void CutPlanner::SetRatio(double ratio) {
  ratio_ = ratio;
  SumSizes();
}

void CutPlanner::Learn(int64_t begin, int64_t end, double bytes) {
  const double payload = Payload(begin, end);
  if (payload <= 0) return;
  for (size_t i = BinOfRow(begin); i < bins_.size() && first_row_[i] < end; ++i) {
    const int64_t rows = std::min(end, first_row_[i + 1]) - std::max(begin, first_row_[i]);
    if (rows <= 0) continue;
    const double share = static_cast<double>(rows) / static_cast<double>(bins_[i].rows);
    const double of_bin = bytes / payload * share * static_cast<double>(bins_[i].weight);
    // What was known before stays as far as it is about other rows.
    const double before = known_[i].share <= 0 ? 0 : std::min(1.0, (1 - share) / known_[i].share);
    known_[i].bytes = known_[i].bytes * before + of_bin;
    known_[i].share = known_[i].share * before + share;
  }
  SumSizes();
}

size_t CutPlanner::BinOfRow(int64_t row) const {
  auto after = std::upper_bound(first_row_.begin(), first_row_.end(), row);
  return std::min<size_t>(after - first_row_.begin() - 1, bins_.size() - 1);
}

double CutPlanner::Before(const std::vector<double>& sums, const std::vector<int64_t>& first_row,
                          int64_t row) {
  if (row >= first_row.back()) return sums.back();
  const size_t bin =
      std::upper_bound(first_row.begin(), first_row.end(), row) - first_row.begin() - 1;
  const double share = static_cast<double>(row - first_row[bin]) /
                       static_cast<double>(first_row[bin + 1] - first_row[bin]);
  return sums[bin] + share * (sums[bin + 1] - sums[bin]);
}

int64_t CutPlanner::RowAtSize(double size) const {
  auto after = std::upper_bound(first_size_.begin(), first_size_.end(), size);
  const auto bin = std::min<size_t>(after - first_size_.begin() - 1, bins_.size() - 1);
  const double of_bin = first_size_[bin + 1] - first_size_[bin];
  const double share = of_bin > 0 ? (size - first_size_[bin]) / of_bin : 0;
  return first_row_[bin] +
         std::llround(std::clamp(share, 0.0, 1.0) * static_cast<double>(bins_[bin].rows));
}

double CutPlanner::Size(int64_t begin, int64_t end) const {
  return SizeBefore(end) - SizeBefore(begin);
}

double CutPlanner::Payload(int64_t begin, int64_t end) const {
  return Before(first_payload_, first_row_, end) - Before(first_payload_, first_row_, begin);
}

bool CutPlanner::Feasible(double size, const CutWindow& window) {
  const double pieces = std::ceil(size / window.high - 1e-9);
  return pieces * window.low <= size * (1 + 1e-9);
}

CutPlanner::Candidates CutPlanner::MakeCandidates(int64_t begin, int64_t end, double grain) const {
  Candidates result;
  result.row.push_back(begin);
  result.size.push_back(0);
  result.box.emplace_back();
  const double start = SizeBefore(begin);
  // The best border of the current grain of size: only the one of the largest cell is kept.
  int64_t best_row = -1;
  int best_level = -1;
  int64_t best_grain = -1;
  RankBox until_best, after_best;
  auto keep = [&](int64_t row, const RankBox& box) {
    result.row.push_back(row);
    result.size.push_back(SizeBefore(row) - start);
    result.box.push_back(box);
  };
  auto flush = [&] {
    if (best_row < 0) return;
    keep(best_row, until_best);
    best_row = -1;
    best_level = -1;
  };
  auto offer = [&](int64_t row, int level) {
    if (row <= begin || row >= end) return;
    const auto cell = static_cast<int64_t>((SizeBefore(row) - start) / grain);
    if (cell != best_grain) {
      flush();
      best_grain = cell;
    }
    if (level > best_level) {
      if (best_row >= 0) {
        until_best.Add(after_best, columns_);
      } else {
        until_best = after_best;
      }
      after_best = RankBox();
      best_row = row;
      best_level = level;
    }
  };
  for (size_t bin = BinOfRow(begin); bin < bins_.size() && first_row_[bin] < end; ++bin) {
    if (bins_[bin].rows == 0 && bins_[bin].box.high[0] < 0) continue;
    offer(first_row_[bin], bins_[bin].level);
    const double of_bin = first_size_[bin + 1] - first_size_[bin];
    const int64_t pieces =
        std::min<int64_t>(bins_[bin].rows, static_cast<int64_t>(std::ceil(of_bin / grain)));
    for (int64_t piece = 1; piece < pieces; ++piece) {
      after_best.Add(bins_[bin].box, columns_);
      offer(first_row_[bin] + bins_[bin].rows * piece / pieces, 0);
    }
    after_best.Add(bins_[bin].box, columns_);
  }
  flush();
  keep(end, after_best);
  return result;
}

std::vector<int64_t> CutPlanner::Best(const Candidates& c, bool to_end, const CutWindow& first,
                                      const CutWindow& rest) const {
  const size_t n = c.row.size();
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<double> cost(n, inf);
  std::vector<size_t> next(n, 0);
  // What a piece more may cost in box width, so that neither fewer nor more pieces are preferred as
  // such: their boxes' sum grows with F^(1-1/N), of which this is the derivative.
  double widths = 0;
  int64_t pieces = 0;
  for (size_t i = 0; i + 1 < n; ++pieces) {
    RankBox box;
    const double start = c.size[i];
    while (i + 1 < n && c.size[i] - start < rest.target) box.Add(c.box[++i], columns_);
    widths += box.MeanWidth(columns_);
  }
  const double per_piece = widths / static_cast<double>(std::max<int64_t>(1, pieces));
  const double allowance = (1 - 1.0 / columns_) * per_piece;
  for (size_t i = n; i-- > 0;) {
    if (i == n - 1 && to_end) {
      cost[i] = 0;
      continue;
    }
    if (!to_end && c.size[i] > c.size[n - 1] - rest.target) {  // past the horizon
      cost[i] = (c.size[n - 1] - c.size[i]) / rest.target * per_piece / columns_;
      continue;
    }
    const CutWindow& window = i == 0 ? first : rest;
    RankBox box;
    for (size_t j = i + 1; j < n; ++j) {
      box.Add(c.box[j], columns_);
      const double piece = c.size[j] - c.size[i];
      if (piece > window.high * (1 + 1e-9)) break;
      if (piece < window.low * (1 - 1e-9) || cost[j] == inf) continue;
      const double off = piece / rest.target - 1;
      const double here =
          box.MeanWidth(columns_) - allowance + kSizePenalty * per_piece * off * off + cost[j];
      if (here < cost[i]) {
        cost[i] = here;
        next[i] = j;
      }
    }
  }
  std::vector<int64_t> cuts;
  const double until = to_end ? c.size[n - 1] : c.size[n - 1] / 2;
  // Nothing follows a border past the horizon, which may be the first one where rows are larger
  // than pieces.
  for (size_t i = 0; cost[0] < inf && i < n - 1 && (i == 0 || c.size[i] < until); i = next[i]) {
    if (next[i] == 0) break;
    cuts.push_back(c.row[next[i]]);
  }
  return cuts;
}

int64_t CutPlanner::NextCut(int64_t begin, int64_t end, const std::vector<CutWindow>& windows,
                            bool may_exceed) const {
  return NextCuts(begin, end, windows, may_exceed).front();
}

std::vector<int64_t> CutPlanner::NextCuts(int64_t begin, int64_t end,
                                          const std::vector<CutWindow>& windows,
                                          bool may_exceed) const {
  const double total = Size(begin, end);
  if (end - begin <= 1 || total <= 0) return {end};
  const CutWindow& widest = windows.back();
  const double start = SizeBefore(begin);
  const bool to_end = total <= kHorizon * widest.target;
  const int64_t until = to_end ? end : std::min(end, RowAtSize(start + kHorizon * widest.target));
  const Candidates candidates = MakeCandidates(begin, until, widest.target / kGrainsPerTarget);
  for (size_t i = 0; i < windows.size(); ++i) {
    std::vector<int64_t> cuts =
        Best(candidates, to_end, windows[i], windows[std::min(i + 1, windows.size() - 1)]);
    if (!cuts.empty()) return cuts;
  }
  if (total <= widest.high) return {end};
  const double pieces = std::ceil(total / widest.high);
  if (may_exceed && pieces == 2 && total < 2 * widest.low) return {end};
  return {std::clamp(RowAtSize(start + total / pieces), begin + 1, end)};
}

std::vector<int64_t> CutPlanner::Cuts(int64_t begin, int64_t end, const CutWindow& window,
                                      bool may_exceed) const {
  std::vector<int64_t> cuts;
  for (int64_t at = begin; at < end;) {
    for (int64_t cut : NextCuts(at, end, {window}, may_exceed)) {
      if (cut < end) cuts.push_back(cut);
      at = cut;
    }
  }
  return cuts;
}

}  // namespace thalweg
