#include "layout/tiling.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace thalweg {
namespace {

/// So many boxes are enough to tell where a cut goes.
constexpr size_t kMostSampled = 4096;
/// Boxes beyond this number are thinned: a prediction needs no more.
constexpr size_t kMostBoxes = 2097152;

struct Part {
  RankBoxOf box;              // all of the rows lie in it
  std::vector<BoxMass> rows;  // those that do not fill the box
  double even = 0;            // mass spread evenly over the box
};

class Tiler {
 public:
  explicit Tiler(const std::vector<KeyDistribution>& keys)
      : keys_(keys), n_(static_cast<int>(keys.size())) {}

  std::vector<RankBoxOf> Run(std::vector<BoxMass> rows, int units) {
    Part part;
    bool first = true;
    for (const BoxMass& one : rows) {
      if (!(one.mass > 0)) continue;
      if (first) part.box = one.box;
      part.box.Add(one.box, n_);
      first = false;
    }
    if (first) return {};
    root_ = part.box;
    part.rows = std::move(rows);
    Settle(&part);
    out_.reserve(static_cast<size_t>(units));
    Split(std::move(part), units);
    return std::move(out_);
  }

 private:
  /// Rows that fill the whole box need no list.
  void Settle(Part* part) const {
    size_t kept = 0;
    for (BoxMass& one : part->rows) {
      if (!(one.mass > 0)) continue;
      bool fills = true;
      for (int k = 0; k < n_ && fills; ++k) {
        fills = one.box.width(k) >= 0.999 * part->box.width(k);
      }
      if (fills) {
        part->even += one.mass;
      } else {
        part->rows[kept++] = one;
      }
    }
    part->rows.resize(kept);
  }

  static double ShareBelow(const RankBoxOf& box, int key, double at) {
    if (!box.holds[key]) return 1;  // rows without a value go first
    const double width = box.width(key);
    if (width <= 0) return box.below[key] < at ? 1 : 0;
    return std::clamp((at - box.below[key]) / width, 0.0, 1.0);
  }

  double MassBelow(const Part& part, int key, double at) const {
    double mass = part.even * ShareBelow(part.box, key, at);
    for (const BoxMass& one : part.rows) mass += one.mass * ShareBelow(one.box, key, at);
    return mass;
  }

  /// The rank that this share of the mass is below; of very many boxes from a part of them.
  double FindCut(const Part& part, int key, double share) const {
    double low = part.box.below[key], high = part.box.upto[key];
    double before = 0;  // of what lies below all of the ranks that are still possible
    double sampled = 0;
    std::vector<const BoxMass*> across;
    const size_t stride = 1 + part.rows.size() / kMostSampled;
    across.reserve(part.rows.size() / stride + 1);
    for (size_t i = 0; i < part.rows.size(); i += stride) {
      across.push_back(&part.rows[i]);
      sampled += part.rows[i].mass;
    }
    const double even = part.even / static_cast<double>(stride);
    const double wanted = share * (even + sampled);
    for (int step = 0; step < 30 && high - low > 1e-12; ++step) {
      const double middle = (low + high) / 2;
      double mass = before + even * ShareBelow(part.box, key, middle);
      for (const BoxMass* one : across) mass += one->mass * ShareBelow(one->box, key, middle);
      const bool above = mass < wanted;
      (above ? low : high) = middle;
      // What the ranks that are left do not cut counts no more, or always.
      size_t kept = 0;
      for (const BoxMass* one : across) {
        if (ShareBelow(one->box, key, low) >= 1) {
          before += one->mass;
        } else if (ShareBelow(one->box, key, high) > 0) {
          across[kept++] = one;
        }
      }
      across.resize(kept);
    }
    return (low + high) / 2;
  }

  void Emit(const RankBoxOf& box) {
    RankBoxOf tile = box;
    for (int k = 0; k < n_; ++k) {
      if (!tile.holds[k]) continue;
      keys_[k].WidenToValues(&tile.below[k], &tile.upto[k]);
    }
    out_.push_back(tile);
  }

  void Split(Part part, int units) {
    // The extents of what is in it.
    if (part.even <= 0 && !part.rows.empty()) {
      RankBoxOf box = part.rows.front().box;
      for (const BoxMass& one : part.rows) box.Add(one.box, n_);
      part.box = box;
      Settle(&part);
    }
    if (units <= 1) return Emit(part.box);
    int key = -1;
    double widest = 0;
    for (int k = 0; k < n_; ++k) {
      const double whole = root_.width(k);
      if (!(whole > 0)) continue;
      const double relative = part.box.width(k) / whole;
      if (relative > widest && keys_[k].HoldsSeveralValues(part.box.below[k], part.box.upto[k])) {
        widest = relative;
        key = k;
      }
    }
    if (key < 0) {
      for (int i = 0; i < units; ++i) Emit(part.box);
      return;
    }
    double total = part.even;
    for (const BoxMass& one : part.rows) total += one.mass;
    int left = units / 2;
    double at = FindCut(part, key, static_cast<double>(left) / units);
    // At the border of a value where one is near.
    double first = at, last = at;
    keys_[key].WidenToValues(&first, &last);
    if (last > first) {
      for (double border : {first, last}) {
        if (border <= part.box.below[key] || border >= part.box.upto[key]) continue;
        const int there = static_cast<int>(
            std::lround(units * MassBelow(part, key, border) / std::max(total, 1e-300)));
        if (there < 1 || there >= units) continue;
        if (std::abs(there - left) * 4 > units) continue;  // too uneven
        at = border;
        left = there;
        break;
      }
    }
    Part below, above;
    Divide(part, key, at, &below, &above);
    part = Part();
    Split(std::move(below), left);
    Split(std::move(above), units - left);
  }

  void Divide(const Part& part, int key, double at, Part* below, Part* above) const {
    below->box = above->box = part.box;
    below->box.upto[key] = above->box.below[key] = at;
    const double width = part.box.width(key);
    const double share = width > 0 ? std::clamp((at - part.box.below[key]) / width, 0.0, 1.0) : 0.5;
    below->rows.reserve(part.rows.size() / 2 + 16);
    above->rows.reserve(part.rows.size() / 2 + 16);
    below->even = part.even * share;
    above->even = part.even - below->even;
    for (const BoxMass& one : part.rows) {
      if (!one.box.holds[key] || one.box.upto[key] <= at) {
        below->rows.push_back(one);
      } else if (one.box.below[key] >= at) {
        above->rows.push_back(one);
      } else {
        BoxMass lower = one, upper = one;
        const double part_below = (at - one.box.below[key]) / one.box.width(key);
        lower.mass *= part_below;
        upper.mass -= lower.mass;
        lower.box.upto[key] = upper.box.below[key] = at;
        below->rows.push_back(lower);
        above->rows.push_back(upper);
      }
    }
    Settle(below);
    Settle(above);
  }

  const std::vector<KeyDistribution>& keys_;
  int n_;
  RankBoxOf root_;
  std::vector<RankBoxOf> out_;
};

}  // namespace

void RankBoxOf::Add(const RankBoxOf& other, int keys) {
  for (int k = 0; k < keys; ++k) {
    if (!other.holds[k]) continue;
    below[k] = holds[k] ? std::min(below[k], other.below[k]) : other.below[k];
    upto[k] = holds[k] ? std::max(upto[k], other.upto[k]) : other.upto[k];
    holds[k] = true;
  }
}

std::vector<RankBoxOf> TileSort(const std::vector<BoxMass>& rows, int units,
                                const std::vector<KeyDistribution>& keys) {
  if (units <= 0 || keys.empty()) return {};
  std::vector<BoxMass> used;
  const size_t stride = (rows.size() + kMostBoxes - 1) / kMostBoxes;
  for (size_t i = 0; i < rows.size(); i += std::max<size_t>(1, stride)) {
    used.push_back(rows[i]);
    for (size_t j = i + 1; j < std::min(rows.size(), i + stride); ++j) {
      used.back().mass += rows[j].mass;
    }
  }
  return Tiler(keys).Run(std::move(used), units);
}

}  // namespace thalweg
