#include "layout/tiling.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace thalweg {
namespace {

/// So many boxes are enough to tell where a cut goes.
constexpr size_t kMostSampled = 4096;
/// More boxes are gathered first.
constexpr size_t kMostBoxes = 131072;

struct Part {
  RankBoxOf box;              // all of the rows lie in it
  std::vector<BoxMass> rows;  // those that do not fill the box
  double even = 0;            // mass spread evenly over the box
};

class Tiler {
 public:
  explicit Tiler(const std::vector<KeyDistribution>& keys)
      : keys_(keys), n_(static_cast<int>(keys.size())) {
    for (const auto& key : keys) largest_.push_back(std::sqrt(key.repeated_square_sum()));
  }

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

  /// No value is so frequent that it shows in a box of this width: its mass is at most the root of
  /// the sum of all squares.
  bool Continuous(int key, const RankBoxOf& box) const {
    return largest_[key] < 0.001 * box.width(key);
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
    if (part.rows.empty()) return low + share * (high - low);
    double before = 0;  // of what lies below all of the ranks that are still possible
    double sampled = 0;
    struct Span {
      double from, to, mass, density;
      double Below(double at) const {
        return at >= to ? mass : at > from ? (at - from) * density : 0;
      }
    };
    std::vector<Span> across;
    const size_t stride = 1 + part.rows.size() / kMostSampled;
    across.reserve(part.rows.size() / stride + 1);
    for (size_t i = 0; i < part.rows.size(); i += stride) {
      const BoxMass& one = part.rows[i];
      sampled += one.mass;
      if (!one.box.holds[key]) {  // rows without a value go first
        before += one.mass;
        continue;
      }
      const double width = one.box.width(key);
      // A single rank lies above a cut at it.
      across.push_back({one.box.below[key],
                        width > 0 ? one.box.upto[key] : std::nextafter(one.box.below[key], 2),
                        one.mass, width > 0 ? one.mass / width : 0});
    }
    const double even = part.even / static_cast<double>(stride);
    const double wanted = share * (even + sampled);
    const double width = high - low;
    while (!across.empty() && high - low > 1e-4 * width) {
      const double middle = (low + high) / 2;
      double mass = before + even * ShareBelow(part.box, key, middle);
      for (const Span& one : across) mass += one.Below(middle);
      const bool above = mass < wanted;
      (above ? low : high) = middle;
      // What the ranks that are left do not cut counts no more, or always.
      size_t kept = 0;
      for (const Span& one : across) {
        if (one.to <= low) {
          before += one.mass;
        } else if (one.from < high) {
          across[kept++] = one;
        }
      }
      across.resize(kept);
    }
    if (across.empty() && even > 0) {  // what is left is spread evenly
      return std::clamp(part.box.below[key] + (wanted - before) / even * width, low, high);
    }
    return (low + high) / 2;
  }

  void Emit(const RankBoxOf& box) {
    RankBoxOf tile = box;
    for (int k = 0; k < n_; ++k) {
      if (!tile.holds[k] || Continuous(k, tile)) continue;
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
      if (relative > widest && (Continuous(k, part.box) ||
                                keys_[k].HoldsSeveralValues(part.box.below[k], part.box.upto[k]))) {
        widest = relative;
        key = k;
      }
    }
    if (key < 0) {
      for (int i = 0; i < units; ++i) Emit(part.box);
      return;
    }
    int left = units / 2;
    double at = FindCut(part, key, static_cast<double>(left) / units);
    // At the border of a value where it is one that matters.
    double first = at, last = at;
    if (!Continuous(key, part.box)) keys_[key].WidenToValues(&first, &last);
    if (last - first > 0.001 * part.box.width(key)) {
      double total = part.even;
      for (const BoxMass& one : part.rows) total += one.mass;
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
    below->even = part.even * share;
    above->even = part.even - below->even;
    if (part.rows.empty()) return;
    below->rows.reserve(part.rows.size() / 2 + 16);
    above->rows.reserve(part.rows.size() / 2 + 16);
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
  std::vector<double> largest_;  // by key: no value has more mass
  RankBoxOf root_;
  std::vector<RankBoxOf> out_;
};

/// The boxes with those that are smaller than a cell of a grid gathered by cell.
std::vector<BoxMass> Gather(const std::vector<BoxMass>& rows, int keys) {
  constexpr int kCells[] = {65536, 256, 40, 16};
  const int cells = kCells[keys - 1];
  size_t all = 1;
  for (int k = 0; k < keys; ++k) all *= static_cast<size_t>(cells);
  std::vector<double> mass(all, 0);
  std::vector<BoxMass> gathered;
  for (const BoxMass& one : rows) {
    size_t at = 0;
    bool small = true;
    for (int k = 0; k < keys && small; ++k) {
      small = one.box.holds[k] && one.box.width(k) * cells <= 1;
      const double middle = (one.box.below[k] + one.box.upto[k]) / 2;
      at = at * static_cast<size_t>(cells) +
           static_cast<size_t>(std::clamp(static_cast<int>(middle * cells), 0, cells - 1));
    }
    if (small) {
      mass[at] += one.mass;
    } else {
      gathered.push_back(one);
    }
  }
  for (size_t at = 0; at < all; ++at) {
    if (!(mass[at] > 0)) continue;
    BoxMass cell;
    cell.mass = mass[at];
    size_t rest = at;
    for (int k = keys - 1; k >= 0; --k, rest /= static_cast<size_t>(cells)) {
      cell.box.below[k] = static_cast<double>(rest % static_cast<size_t>(cells)) / cells;
      cell.box.upto[k] = cell.box.below[k] + 1.0 / cells;
      cell.box.holds[k] = true;
    }
    gathered.push_back(cell);
  }
  return gathered;
}

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
  const int n = static_cast<int>(keys.size());
  return Tiler(keys).Run(rows.size() > kMostBoxes ? Gather(rows, n) : rows, units);
}

}  // namespace thalweg
