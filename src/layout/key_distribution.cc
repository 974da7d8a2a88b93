#include "layout/key_distribution.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "sort/key_sort.h"

namespace thalweg {
namespace {

using uint128 = unsigned __int128;

/// While so much of a run's rows is live its quantiles stand for them as they are.
constexpr double kIntact = 0.98;
constexpr double kLargestFloat = std::numeric_limits<double>::max() / 4;

bool IsDiscrete(const KeyType& type) {
  return type.fixed_width() && type.kind != KeyType::Kind::kFloat;
}

/// Up to `count` bytes from `offset` on as a big-endian number, padded with zeros.
template <typename Number>
Number BigEndian(std::string_view bytes, size_t offset, size_t count) {
  Number number = 0;
  for (size_t i = 0; i < count; ++i) {
    number <<= 8;
    if (offset + i < bytes.size()) number |= static_cast<uint8_t>(bytes[offset + i]);
  }
  return number;
}

/// The mapped value of a fixed-width encoded value: the bytes after the tag.
uint128 FixedValue(const KeyType& type, std::string_view encoded) {
  return BigEndian<uint128>(encoded, 1, static_cast<size_t>(type.bits / 8));
}

std::string EncodeFixed(const KeyType& type, uint128 value) {
  std::string encoded(static_cast<size_t>(type.encoded_width()), '\x01');
  for (size_t i = encoded.size() - 1; i > 0; --i) {
    encoded[i] = static_cast<char>(value & 0xff);
    value >>= 8;
  }
  return encoded;
}

uint128 LargestFixed(const KeyType& type) {
  return type.bits >= 128 ? ~uint128{0} : (uint128{1} << type.bits) - 1;
}

/// The number behind mapped float bits, infinities and NaN drawn in to finite ends.
double FloatOf(const KeyType& type, uint128 mapped) {
  double number;
  if (type.bits == 64) {
    const auto bits = static_cast<uint64_t>(mapped);
    const uint64_t sign = uint64_t{1} << 63;
    number = std::bit_cast<double>(bits & sign ? bits ^ sign : ~bits);
  } else if (type.bits == 32) {
    const auto bits = static_cast<uint32_t>(mapped);
    const uint32_t sign = uint32_t{1} << 31;
    number = std::bit_cast<float>(bits & sign ? bits ^ sign : ~bits);
  } else {
    return static_cast<double>(mapped);
  }
  if (std::isnan(number)) return std::signbit(number) ? -kLargestFloat : kLargestFloat;
  return std::clamp(number, -kLargestFloat, kLargestFloat);
}

size_t CommonPrefix(std::string_view a, std::string_view b) {
  const size_t limit = std::min(a.size(), b.size());
  size_t length = 0;
  while (length < limit && a[length] == b[length]) ++length;
  return length;
}

/// Where `value` lies between `lower` and `upper` (all distinct, ascending), 0 to 1.
double Fraction(const KeyType& type, std::string_view lower, std::string_view upper,
                std::string_view value) {
  double whole, part;
  if (!type.fixed_width()) {
    const size_t prefix = CommonPrefix(lower, upper);
    const auto from = BigEndian<uint64_t>(lower, prefix, 8);
    whole = static_cast<double>(BigEndian<uint64_t>(upper, prefix, 8) - from);
    part = static_cast<double>(BigEndian<uint64_t>(value, prefix, 8) - from);
  } else if (type.kind == KeyType::Kind::kFloat) {
    const double from = FloatOf(type, FixedValue(type, lower));
    whole = FloatOf(type, FixedValue(type, upper)) - from;
    part = FloatOf(type, FixedValue(type, value)) - from;
  } else {
    const uint128 from = FixedValue(type, lower);
    whole = static_cast<double>(FixedValue(type, upper) - from);
    part = static_cast<double>(FixedValue(type, value) - from);
  }
  return whole > 0 ? std::clamp(part / whole, 0.0, 1.0) : 0.5;
}

/// Adds numbers to ranges of leaves and yields the sum of each leaf. Only adds, so that large and
/// tiny densities do not cancel.
class RangeSums {
 public:
  explicit RangeSums(size_t leaves) : leaves_(leaves), nodes_(2 * leaves, 0.0) {}
  void Add(size_t from, size_t to, double value) {
    for (from += leaves_, to += leaves_; from < to; from >>= 1, to >>= 1) {
      if (from & 1) nodes_[from++] += value;
      if (to & 1) nodes_[--to] += value;
    }
  }
  /// The sums of the leaves; afterwards everything is zero again.
  template <typename Visit>
  void Drain(Visit visit) {
    for (size_t i = 1; i < leaves_; ++i) {
      nodes_[2 * i] += nodes_[i];
      nodes_[2 * i + 1] += nodes_[i];
    }
    for (size_t i = 0; i < leaves_; ++i) {
      if (nodes_[leaves_ + i] > 0) visit(i, nodes_[leaves_ + i]);
    }
    std::fill(nodes_.begin(), nodes_.end(), 0.0);
  }

 private:
  size_t leaves_;
  std::vector<double> nodes_;
};

/// A place on the axis of encoded values. Fixed-width kinds live in `head` alone; of strings it
/// holds the sixteen bytes after the prefix common to all, to compare quickly.
struct Position {
  uint128 head = 0;
  std::string_view text;
  bool operator==(const Position& other) const { return head == other.head && text == other.text; }
};

/// Mass spread evenly from one position to another, or a point when they are the same. Positions
/// are references into the axis.
struct Piece {
  uint32_t from;
  uint32_t to;
  double mass;
};

/// All positions that matter, and after Sort() the distinct ones ("knots") in order.
class Axis {
 public:
  explicit Axis(const KeyType& type) : type_(type), discrete_(IsDiscrete(type)) {}

  /// The lower end of a value; `text` must outlive the axis.
  uint32_t Lower(std::string_view text) { return Add(text, false); }
  /// The upper end: one past the value for discrete kinds.
  uint32_t Upper(std::string_view text) { return Add(text, discrete_); }

  void Sort() {
    knot_of_.resize(positions_.size());
    auto visit = [&](uint64_t at) {
      const Position& position = positions_[at];
      if (knots_.empty() || !(knots_.back() == position)) knots_.push_back(position);
      knot_of_[at] = static_cast<uint32_t>(knots_.size() - 1);
    };
    if (FitsInWords()) {
      std::vector<KeyRow64> order(positions_.size());
      for (size_t i = 0; i < order.size(); ++i) {
        order[i] = {i, static_cast<uint64_t>(positions_[i].head)};
      }
      SortKeyRows(order.data(), static_cast<int64_t>(order.size()));
      for (const KeyRow64& entry : order) visit(entry.row);
    } else {
      SortWide(visit);
    }
    positions_.clear();
    positions_.shrink_to_fit();
  }

  size_t size() const { return knots_.size(); }
  uint32_t knot(uint32_t reference) const { return knot_of_[reference]; }
  const Position& at(size_t knot) const { return knots_[knot]; }

  /// Distance between knots; strings by the eight bytes from `prefix` on (both knots share what is
  /// before).
  double Distance(size_t from, size_t to, size_t prefix) const {
    const Position &a = knots_[from], &b = knots_[to];
    if (!type_.fixed_width()) {
      const auto x = BigEndian<uint64_t>(a.text, prefix, 8),
                 y = BigEndian<uint64_t>(b.text, prefix, 8);
      return y > x ? static_cast<double>(y - x) : 0;
    }
    if (type_.kind == KeyType::Kind::kFloat) return FloatOf(type_, b.head) - FloatOf(type_, a.head);
    return static_cast<double>(b.head - a.head);
  }

 private:
  uint32_t Add(std::string_view text, bool next) {
    Position position;
    if (type_.fixed_width()) {
      position.head = FixedValue(type_, text);
      if (next && position.head != ~uint128{0}) ++position.head;
    } else {
      position.text = text;
    }
    positions_.push_back(position);
    return static_cast<uint32_t>(positions_.size() - 1);
  }

  bool FitsInWords() const {
    return type_.fixed_width() &&
           std::none_of(positions_.begin(), positions_.end(),
                        [](const Position& position) { return position.head >> 64 != 0; });
  }

  template <typename Visit>
  void SortWide(Visit visit) {
    if (!type_.fixed_width()) SetHeads();
    struct Entry {
      uint128 head;
      uint32_t position;
    };
    std::vector<Entry> order(positions_.size());
    for (uint32_t i = 0; i < order.size(); ++i) order[i] = {positions_[i].head, i};
    std::sort(order.begin(), order.end(), [&](const Entry& a, const Entry& b) {
      if (a.head != b.head) return a.head < b.head;
      return positions_[a.position].text < positions_[b.position].text;
    });
    for (const Entry& entry : order) visit(entry.position);
  }

  void SetHeads() {
    if (positions_.empty()) return;
    size_t prefix = positions_[0].text.size();
    for (const Position& position : positions_) {
      prefix = CommonPrefix(positions_[0].text.substr(0, prefix), position.text);
    }
    for (Position& position : positions_)
      position.head = BigEndian<uint128>(position.text, prefix, 16);
  }

  KeyType type_;
  bool discrete_;
  std::vector<Position> positions_;
  std::vector<uint32_t> knot_of_;
  std::vector<Position> knots_;
};

/// Mass above one value and up to another, or at one.
struct Part {
  std::string_view from, to;
  double mass;
};

/// The steps of a run's quantiles with the masses of its repeated values taken out and set as
/// points of their own.
struct RunParts {
  std::vector<Part> steps;   ///< ascending
  std::vector<Part> points;  ///< as the run recorded them
};

/// `stride`: every so many quantiles are taken.
RunParts PartsOf(const ColumnQuantiles& model, size_t stride) {
  RunParts run;
  const auto& quantiles = model.quantiles;
  std::vector<Part>& parts = run.steps;
  if (quantiles.size() == 1) parts.push_back({quantiles[0], quantiles[0], 1.0});
  const double step = 1.0 / std::max<double>(1, static_cast<double>(quantiles.size()) - 1);
  for (size_t from = 0; from + 1 < quantiles.size(); from += stride) {
    const size_t to = std::min(from + stride, quantiles.size() - 1);
    parts.push_back({quantiles[from], quantiles[to], step * static_cast<double>(to - from)});
  }
  std::vector<Part>& points = run.points;
  for (const auto& repeated : model.repeated) {
    if (!(repeated.mass > 0) || repeated.mass > 1) continue;
    points.push_back({repeated.value, repeated.value, repeated.mass});
    // First what is that value alone, then evenly from the steps beside it.
    double left = repeated.mass;
    auto first = std::lower_bound(parts.begin(), parts.end(), points.back().from,
                                  [](const Part& part, std::string_view v) { return part.to < v; });
    auto last = first;
    double beside = 0;
    for (; last != parts.end() && last->from <= points.back().from; ++last) {
      if (last->from == last->to) {
        left -= last->mass;
        last->mass = 0;
      } else {
        beside += last->mass;
      }
    }
    if (left <= 0 || beside <= 0) continue;
    const double keep = std::max(0.0, 1 - left / beside);
    for (auto part = first; part != last; ++part) part->mass *= keep;
  }
  return run;
}

double TotalOf(const RunParts& run) {
  double total = 0;
  for (const auto* parts : {&run.steps, &run.points}) {
    for (const Part& part : *parts) total += part.mass;
  }
  return total;
}

/// Adds the parts with masses that sum to `weight`.
void AddParts(const RunParts& run, double weight, Axis* axis, std::vector<Piece>* pieces) {
  const double total = TotalOf(run);
  if (!(total > 0)) return;
  for (const auto* parts : {&run.steps, &run.points}) {
    for (const Part& part : *parts) {
      if (part.mass <= 0) continue;
      // A step holds what is above its first value, except the first step and steps of one value.
      const bool open = &part != run.steps.data() && part.from < part.to;
      pieces->push_back({open ? axis->Upper(part.from) : axis->Lower(part.from),
                         axis->Upper(part.to), weight * part.mass / total});
    }
  }
}

/// What is left of a run of which rows are gone, by deletion or because they were sorted anew: the
/// rows of each unit lie between its bounds as those of the run did.
class Remainder {
 public:
  Remainder(const KeyType& type, RunParts run)
      : type_(type), run_(std::move(run)), step_(run_.steps.size()), point_(run_.points.size()) {
    std::sort(run_.points.begin(), run_.points.end(),
              [](const Part& a, const Part& b) { return a.from < b.from; });
    for (auto [parts, shares] :
         {std::pair(&run_.steps, &step_), std::pair(&run_.points, &point_)}) {
      for (size_t i = 0; i < parts->size(); ++i) {
        shares->before[i + 1] = shares->before[i] + (*parts)[i].mass;
      }
    }
  }

  /// Rows of a unit, between its bounds, of which a missing one is open. False: the run had nothing
  /// there.
  bool Add(const std::string* lower, const std::string* upper, double rows) {
    const auto [first, last] = Between(run_.steps, lower, upper);
    const auto [first_point, last_point] = Between(run_.points, lower, upper);
    double mass = point_.before[last_point] - point_.before[first_point];
    // Of the steps at the ends a part, of those in between all.
    double at_first = 0, at_last = 0;
    if (first < last) {
      at_first = Covered(run_.steps[first], lower, upper);
      mass += at_first * run_.steps[first].mass;
    }
    if (first + 1 < last) {
      at_last = Covered(run_.steps[last - 1], lower, upper);
      mass += at_last * run_.steps[last - 1].mass;
      mass += step_.before[last - 1] - step_.before[first + 1];
    }
    if (!(mass > 1e-9)) return false;
    const double each = rows / mass;
    point_.Add(first_point, last_point, each);
    if (first < last) step_.Add(first, first + 1, each * at_first);
    if (first + 1 < last) {
      step_.Add(last - 1, last, each * at_last);
      step_.Add(first + 1, last - 1, each);
    }
    return true;
  }

  /// The parts with the masses of what is left.
  RunParts Parts() && {
    for (auto [parts, shares] :
         {std::pair(&run_.steps, &step_), std::pair(&run_.points, &point_)}) {
      double share = 0;
      for (size_t i = 0; i < parts->size(); ++i) {
        share += shares->change[i];
        (*parts)[i].mass *= std::max(0.0, share);
      }
    }
    return std::move(run_);
  }

 private:
  struct Shares {
    explicit Shares(size_t parts) : before(parts + 1, 0.0), change(parts + 1, 0.0) {}
    void Add(size_t first, size_t last, double share) {
      change[first] += share;
      change[last] -= share;
    }
    std::vector<double> before;  ///< mass of the parts before one
    std::vector<double> change;  ///< of the share that is left of a part, from the one before
  };

  static std::pair<size_t, size_t> Between(const std::vector<Part>& parts, const std::string* lower,
                                           const std::string* upper) {
    auto first = parts.begin(), last = parts.end();
    if (lower) {
      first = std::lower_bound(parts.begin(), parts.end(), std::string_view(*lower),
                               [](const Part& part, std::string_view v) { return part.to < v; });
    }
    if (upper) {
      last = std::upper_bound(first, parts.end(), std::string_view(*upper),
                              [](std::string_view v, const Part& part) { return v < part.from; });
    }
    return {static_cast<size_t>(first - parts.begin()), static_cast<size_t>(last - parts.begin())};
  }

  double Covered(const Part& step, const std::string* lower, const std::string* upper) const {
    if (step.from == step.to) return 1;
    const double from =
        lower && *lower > step.from ? Fraction(type_, step.from, step.to, *lower) : 0;
    const double to = upper && *upper < step.to ? Fraction(type_, step.from, step.to, *upper) : 1;
    return std::max(0.0, to - from);
  }

  const KeyType& type_;
  RunParts run_;
  Shares step_, point_;
};

/// Spreads the pieces over the knots: the mass at each knot, and between it and the next one.
void Spread(const Axis& axis, const KeyType& type, const std::vector<Piece>& pieces,
            std::vector<double>* points, std::vector<double>* spans) {
  points->assign(axis.size(), 0);
  spans->assign(axis.size(), 0);
  if (axis.size() < 2) {
    for (const Piece& piece : pieces) (*points)[0] += piece.mass;
    return;
  }
  // Strings are measured from the prefix that the two ends share, rounded down to keep the number
  // of passes small.
  std::map<size_t, std::vector<const Piece*>> by_prefix;
  for (const Piece& piece : pieces) {
    const uint32_t from = axis.knot(piece.from), to = axis.knot(piece.to);
    if (from == to) {
      (*points)[from] += piece.mass;
      continue;
    }
    size_t prefix = 0;
    if (!type.fixed_width()) {
      prefix = std::min<size_t>(CommonPrefix(axis.at(from).text, axis.at(to).text), 252) / 4 * 4;
    }
    by_prefix[prefix].push_back(&piece);
  }
  RangeSums densities(axis.size() - 1), shares(axis.size() - 1);
  for (const auto& [prefix, group] : by_prefix) {
    for (const Piece* piece : group) {
      const uint32_t from = axis.knot(piece->from), to = axis.knot(piece->to);
      const double distance = axis.Distance(from, to, prefix);
      if (distance > 0 && std::isfinite(piece->mass / distance)) {
        densities.Add(from, to, piece->mass / distance);
      } else {  // ends that differ after the bytes looked at
        shares.Add(from, to, piece->mass / (to - from));
      }
    }
    densities.Drain([&, prefix = prefix](size_t i, double density) {
      (*spans)[i] += density * axis.Distance(i, i + 1, prefix);
    });
  }
  shares.Drain([&](size_t i, double mass) { (*spans)[i] += mass; });
}

enum class Knowledge { kNothing, kUnknown, kBounds };

Knowledge Know(const Unit& unit, const UnitColumn& column) {
  if (unit.rows == 0 || (column.null_count >= 0 && column.null_count >= unit.rows)) {
    return Knowledge::kNothing;
  }
  if (!column.usable || (!column.lower && !column.upper)) return Knowledge::kUnknown;
  if (column.lower && column.upper && *column.upper < *column.lower) return Knowledge::kUnknown;
  return Knowledge::kBounds;
}

}  // namespace

KeyDistribution KeyDistribution::Make(const Layout& layout, int column,
                                      std::vector<RankInterval>* intervals) {
  constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
  KeyDistribution distribution;
  const auto at = static_cast<size_t>(column);
  if (at < layout.types.size()) distribution.type_ = layout.types[at];
  const KeyType& type = distribution.type_;
  const int32_t field_id = at < layout.columns.size() ? layout.columns[at].field_id : -1;

  struct Weighed {
    const ColumnQuantiles* model;
    double written;   // rows, null ones too; 0: not known
    double live = 0;  // of these
    double rows = 0;  // live ones that are not null
    std::optional<Remainder> left;
  };
  std::unordered_map<std::string_view, Weighed> runs;
  for (const RunRecord& run : layout.runs) {
    for (const ColumnQuantiles& quantiles : run.quantiles) {
      if (quantiles.field_id == field_id && !quantiles.quantiles.empty()) {
        runs.emplace(run.run_id, Weighed{&quantiles, static_cast<double>(run.rows), 0, 0, {}});
      }
    }
  }

  Axis axis(type);
  std::vector<Piece> pieces;
  struct Ends {
    uint32_t lower = std::numeric_limits<uint32_t>::max();
    uint32_t upper = std::numeric_limits<uint32_t>::max();
    Knowledge knowledge = Knowledge::kUnknown;
  };
  std::vector<Ends> ends(layout.units.size());
  std::vector<double> unit_rows(layout.units.size(), 0.0);  // that are not null
  static const UnitColumn kNoStatistics{
      .lower = {}, .upper = {}, .null_count = -1, .usable = false};
  double all_rows = 0, all_nulls = 0;
  bool from_bounds = false;
  for (size_t i = 0; i < layout.units.size(); ++i) {
    const Unit& unit = layout.units[i];
    const UnitColumn& statistics = at < unit.columns.size() ? unit.columns[at] : kNoStatistics;
    ends[i].knowledge = Know(unit, statistics);
    const auto rows = static_cast<double>(unit.rows);
    const auto run = unit.stamp ? runs.find(unit.stamp->run_id) : runs.end();
    double nulls = static_cast<double>(std::clamp<int64_t>(statistics.null_count, 0, unit.rows));
    if (statistics.null_count < 0 && run != runs.end()) {
      nulls = rows * std::clamp(run->second.model->null_share, 0.0, 1.0);
    }
    all_rows += rows;
    all_nulls += nulls;
    if (ends[i].knowledge == Knowledge::kBounds) {
      if (statistics.lower) ends[i].lower = axis.Lower(*statistics.lower);
      if (statistics.upper) ends[i].upper = axis.Upper(*statistics.upper);
    }
    if (run != runs.end()) run->second.live += rows;
    if (rows <= nulls) continue;
    unit_rows[i] = rows - nulls;
    if (run != runs.end()) {
      run->second.rows += rows - nulls;
    } else if (ends[i].lower != kNone && ends[i].upper != kNone) {
      pieces.push_back({ends[i].lower, ends[i].upper, rows - nulls});
      from_bounds = true;
    }
  }
  // With very many live runs fewer of each one's quantiles do: the whole keeps about 65,536 steps.
  const size_t stride = 1 + runs.size() * 256 / 65536;
  bool from_runs = false, refitted = false;
  for (auto& [id, run] : runs) {
    if (run.live >= kIntact * run.written) continue;
    run.left.emplace(type, PartsOf(*run.model, stride));
    refitted = true;
  }
  for (size_t i = 0; refitted && i < layout.units.size(); ++i) {
    const Unit& unit = layout.units[i];
    const auto run = unit.stamp ? runs.find(unit.stamp->run_id) : runs.end();
    if (run == runs.end() || !run->second.left || !(unit_rows[i] > 0)) continue;
    const UnitColumn* known = ends[i].knowledge == Knowledge::kBounds ? &unit.columns[at] : nullptr;
    const std::string* lower = known && known->lower ? &*known->lower : nullptr;
    const std::string* upper = known && known->upper ? &*known->upper : nullptr;
    if (run->second.left->Add(lower, upper, unit_rows[i])) continue;
    if (ends[i].lower != kNone && ends[i].upper != kNone) {
      pieces.push_back({ends[i].lower, ends[i].upper, unit_rows[i]});
      from_bounds = true;
    }
  }
  for (const RunRecord& record : layout.runs) {  // in the order of the layout: deterministic sums
    auto run = runs.find(record.run_id);
    if (run == runs.end() || run->second.rows <= 0) continue;
    if (auto& left = run->second.left) {
      const RunParts parts = std::move(*left).Parts();
      AddParts(parts, TotalOf(parts), &axis, &pieces);
    } else {
      AddParts(PartsOf(*run->second.model, stride), run->second.rows, &axis, &pieces);
    }
    run->second.rows = 0;
    from_runs = true;
  }
  axis.Sort();

  std::vector<double> points, spans;
  if (axis.size() > 0) Spread(axis, type, pieces, &points, &spans);
  double total = 0;
  for (size_t i = 0; i < axis.size(); ++i) total += points[i] + spans[i];

  const bool known = total > 0;
  // At each knot; squares_to includes the knot's own point.
  std::vector<double> below(axis.size()), upto(axis.size()), squares_below(axis.size()),
      squares_to(axis.size());
  const bool discrete = IsDiscrete(type);
  if (known) {
    distribution.steps_.reserve(axis.size());
    double sum = 0, squares = 0;
    for (size_t i = 0; i < axis.size(); ++i) {
      below[i] = std::min(1.0, sum / total);
      const double point = points[i] / total, span = spans[i] / total;
      upto[i] = points[i] > 0 ? std::min(1.0, (sum + points[i]) / total) : below[i];
      std::string value = type.fixed_width()
                              ? EncodeFixed(type, std::min(axis.at(i).head, LargestFixed(type)))
                              : std::string(axis.at(i).text);
      distribution.steps_.push_back({std::move(value), below[i], upto[i], squares});
      sum += points[i] + spans[i];
      squares_below[i] = squares;
      squares += point * point;
      squares_to[i] = squares;
      if (discrete && span > 0) squares += span * span / std::max(1.0, axis.Distance(i, i + 1, 0));
    }
    distribution.repeated_square_sum_ = std::min(1.0, squares);
    const std::string of_runs = refitted ? "refitted runs" : "runs";
    distribution.source_ = !from_runs ? "bounds" : from_bounds ? of_runs + " and bounds" : of_runs;
  }
  distribution.null_share_ = all_rows > 0 ? std::clamp(all_nulls / all_rows, 0.0, 1.0) : 0;

  if (intervals) {
    intervals->assign(layout.units.size(), {});
    for (size_t i = 0; i < layout.units.size(); ++i) {
      RankInterval& interval = (*intervals)[i];
      interval.empty = ends[i].knowledge == Knowledge::kNothing;
      interval.unknown = ends[i].knowledge == Knowledge::kUnknown;
      if (interval.empty) continue;
      interval.upto = 1;
      if (!known) continue;
      double squares_before = 0;
      interval.repeated_squares = distribution.repeated_square_sum_;
      if (ends[i].lower != kNone) {
        interval.below = below[axis.knot(ends[i].lower)];
        squares_before = squares_below[axis.knot(ends[i].lower)];
      }
      if (ends[i].upper != kNone) {
        interval.upto = upto[axis.knot(ends[i].upper)];
        interval.repeated_squares = discrete ? squares_below[axis.knot(ends[i].upper)]
                                             : squares_to[axis.knot(ends[i].upper)];
      }
      interval.repeated_squares = std::max(0.0, interval.repeated_squares - squares_before);
    }
  }
  return distribution;
}

double KeyDistribution::At(std::string_view value, bool inclusive) const {
  std::string next;
  if (inclusive && IsDiscrete(type_)) {
    const uint128 mapped = FixedValue(type_, value);
    if (mapped >= LargestFixed(type_)) return 1;
    next = EncodeFixed(type_, mapped + 1);
    value = next;
    inclusive = false;
  }
  auto above =
      std::lower_bound(steps_.begin(), steps_.end(), value,
                       [](const Step& step, std::string_view v) { return step.value < v; });
  if (above == steps_.end()) return 1;
  if (above->value == value) return inclusive ? above->upto : above->below;
  if (above == steps_.begin()) return 0;
  const Step& step = *(above - 1);
  return step.upto + (above->below - step.upto) * Fraction(type_, step.value, above->value, value);
}

double KeyDistribution::Below(std::string_view value) const {
  return steps_.empty() ? 0 : At(value, false);
}

double KeyDistribution::UpTo(std::string_view value) const {
  return steps_.empty() ? 1 : At(value, true);
}

double KeyDistribution::Mass(const std::string* lower, const std::string* upper) const {
  return std::clamp((upper ? UpTo(*upper) : 1) - (lower ? Below(*lower) : 0), 0.0, 1.0);
}

void KeyDistribution::ValueAt(double rank, bool after, double* below, double* upto) const {
  *below = *upto = rank;
  auto next = after ? std::upper_bound(steps_.begin(), steps_.end(), rank,
                                       [](double r, const Step& step) { return r < step.below; })
                    : std::lower_bound(steps_.begin(), steps_.end(), rank,
                                       [](const Step& step, double r) { return step.below < r; });
  if (next == steps_.begin()) return;
  const Step& step = *(next - 1);
  if (after ? rank < step.upto : rank <= step.upto) {
    if (step.upto <= step.below) return;
    *below = step.below;
    *upto = step.upto;
    return;
  }
  if (!IsDiscrete(type_)) return;
  // Evenly spread over the values from this step's on.
  const double end = next == steps_.end() ? 1 : next->below;
  const double span = end - step.upto;
  const double values =
      next == steps_.end()
          ? 1
          : static_cast<double>(FixedValue(type_, next->value) - FixedValue(type_, step.value));
  if (!(span > 0) || !(values >= 1)) return;
  const double mass = span / values;
  const double place = (rank - step.upto) / mass;
  // A rank on the border between two values belongs to the one asked for.
  double at = after ? std::floor(place + 1e-9) : std::ceil(place - 1e-9) - 1;
  at = std::clamp(at, 0.0, values - 1);
  *below = step.upto + at * mass;
  *upto = step.upto + (at + 1) * mass;
}

void KeyDistribution::WidenToValues(double* below, double* upto) const {
  double first, ignored, last;
  ValueAt(*below, /*after=*/true, &first, &ignored);
  ValueAt(*upto, /*after=*/false, &ignored, &last);
  *below = std::min(*below, first);
  *upto = std::max(*upto, last);
}

bool KeyDistribution::HoldsSeveralValues(double below, double upto) const {
  double first, last;
  ValueAt(below, /*after=*/true, &first, &last);
  return upto > (last > first ? last : below) + 1e-12;
}

std::vector<KeyDistribution::ValueRanks> KeyDistribution::ValuesOfMass(double least) const {
  std::vector<ValueRanks> values;
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Step& step = steps_[i];
    if (step.upto - step.below >= least) values.push_back({step.below, step.upto});
    if (!IsDiscrete(type_) || i + 1 == steps_.size()) continue;
    // Evenly spread over the values from this step's on.
    const double span = steps_[i + 1].below - step.upto;
    const auto count =
        static_cast<double>(FixedValue(type_, steps_[i + 1].value) - FixedValue(type_, step.value));
    const double mass = span / std::max(1.0, count);
    for (double at = 0; mass >= least && at < count; ++at) {
      values.push_back({step.upto + at * mass, step.upto + (at + 1) * mass});
    }
  }
  return values;
}

double KeyDistribution::RepeatedSquareSum(double below, double upto) const {
  // Sum over the values whose ranks end at or before `rank`.
  auto sum_to = [&](double rank) -> double {
    auto after = std::upper_bound(steps_.begin(), steps_.end(), rank,
                                  [](double r, const Step& step) { return r < step.below; });
    if (after == steps_.begin()) return 0;
    const Step& step = *(after - 1);
    const double point = step.upto - step.below;
    return step.squares + (point > 0 && step.upto <= rank ? point * point : 0);
  };
  if (upto >= 1) return std::max(0.0, repeated_square_sum_ - (below > 0 ? sum_to(below) : 0));
  return std::max(0.0, sum_to(upto) - (below > 0 ? sum_to(below) : 0));
}

std::vector<std::vector<RankInterval>> RankIntervals(const Layout& layout) {
  std::vector<std::vector<RankInterval>> intervals(layout.columns.size());
  for (size_t k = 0; k < intervals.size(); ++k) {
    KeyDistribution::Make(layout, static_cast<int>(k), &intervals[k]);
  }
  return intervals;
}

}  // namespace thalweg
