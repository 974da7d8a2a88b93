#include "layout/region_density.h"

#include <algorithm>
#include <cmath>

namespace thalweg {

RegionDensity::RegionDensity(int keys) : n_(keys), bins_(0) {}

void RegionDensity::Reset(const RankBoxOf& whole, size_t boxes) {
  static constexpr int kBins[] = {kMostBins, 16, 8, 5}, kFewBins[] = {16, 8, 5, 4};
  constexpr size_t kFewBoxes = 6;
  const int keys = std::clamp(n_, 1, kMostKeys);
  bins_ = boxes <= kFewBoxes ? kFewBins[keys - 1] : kBins[keys - 1];
  size_t all = 1;
  for (int k = 0; k < n_; ++k) all *= static_cast<size_t>(bins_);
  whole_ = whole;
  total_ = 0;
  mass_.assign(all, 0.0);
}

double RegionDensity::Root(double value) const {
  return n_ == 1 ? value : n_ == 2 ? std::sqrt(value) : std::pow(value, 1.0 / n_);
}

void RegionDensity::Add(const RankBoxOf& box, double mass) {
  Spread spread;
  for (int k = 0; k < n_; ++k) {
    spread.first[k] = spread.last[k] = 0;
    spread.share[k][0] = 1;
    const double width = whole_.width(k), begin = box.below[k] - whole_.below[k];
    if (!box.holds[k] || !(width > 0)) continue;
    const double from = begin / width * bins_, to = from + box.width(k) / width * bins_;
    const int first = std::clamp(static_cast<int>(from), 0, bins_ - 1);
    const int last = std::clamp(static_cast<int>(std::ceil(to)) - 1, first, bins_ - 1);
    for (int b = first; b <= last; ++b) {
      const double in = std::min<double>(to, b + 1) - std::max<double>(from, b);
      spread.share[k][b - first] = to > from ? std::max(0.0, in) / (to - from) : 1;
    }
    spread.first[k] = first;
    spread.last[k] = last;
  }
  AddOver(spread, 0, 0, mass);
  total_ += mass;
}

std::array<double, kMostKeys> RegionDensity::Extents() const {
  std::array<std::array<double, kMostBins>, kMostKeys> along{}, roots{};
  const auto bins = static_cast<size_t>(bins_);
  std::array<size_t, kMostKeys> place{};  // of a bin, counted up along with it: no division
  auto next = [&] {
    for (int k = n_ - 1; k >= 0; --k) {
      if (++place[k] < bins) return;
      place[k] = 0;
    }
  };
  for (size_t at = 0; at < mass_.size(); ++at, next()) {
    if (!(mass_[at] > 0)) continue;
    const double p = mass_[at] / total_;
    for (int k = 0; k < n_; ++k) along[k][place[k]] += p;
  }
  std::array<double, kMostKeys> width{}, extents{};
  for (int k = 0; k < n_; ++k) {
    width[k] = whole_.width(k);
    for (size_t b = 0; b < bins; ++b) roots[k][b] = Root(along[k][b]);
  }
  for (size_t at = 0; at < mass_.size(); ++at, next()) {
    if (!(mass_[at] > 0)) continue;
    const double p = mass_[at] / total_;
    double units = p / Root(p);
    for (int k = n_ - 1; k >= 0; --k) units *= roots[k][place[k]];
    for (int k = 0; k < n_; ++k) extents[k] += units * width[k] / bins_ / along[k][place[k]];
  }
  return extents;
}

void RegionDensity::AddOver(const Spread& spread, int k, size_t at, double mass) {
  for (int b = spread.first[k]; b <= spread.last[k]; ++b) {
    const size_t bin = at * static_cast<size_t>(bins_) + static_cast<size_t>(b);
    const double share = mass * spread.share[k][b - spread.first[k]];
    if (k + 1 < n_) {
      AddOver(spread, k + 1, bin, share);
    } else {
      mass_[bin] += share;
    }
  }
}

}  // namespace thalweg
