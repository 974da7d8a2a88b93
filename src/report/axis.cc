#include "report/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/html.h"
#include "report/value_text.h"

namespace thalweg::report {
namespace {

/// Bounds and quantiles of a column, ascending, each once.
std::vector<std::string> KnownValues(const Layout& layout, int column) {
  const auto at = static_cast<size_t>(column);
  std::vector<std::string> values;
  for (const Unit& unit : layout.units) {
    if (at >= unit.columns.size() || !unit.columns[at].usable) continue;
    if (unit.columns[at].lower) values.push_back(*unit.columns[at].lower);
    if (unit.columns[at].upper) values.push_back(*unit.columns[at].upper);
  }
  for (const RunRecord& run : layout.runs) {
    for (const ColumnQuantiles& quantiles : run.quantiles) {
      if (quantiles.field_id != layout.columns[at].field_id) continue;
      values.insert(values.end(), quantiles.quantiles.begin(), quantiles.quantiles.end());
    }
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

/// Ticks at the ends of a plot are aligned with its edges, so that they do not stick out.
std::string_view Place(double rank) { return rank < 0.15 ? " start" : rank > 0.85 ? " end" : ""; }

}  // namespace

bool AreLong(const std::vector<Tick>& ticks) {
  constexpr size_t kDate = 10;
  return std::any_of(ticks.begin(), ticks.end(),
                     [](const Tick& tick) { return tick.text.size() > kDate; });
}

std::vector<Tick> Ticks(const Layout& layout, int column, const arrow::DataType& type,
                        const KeyDistribution& distribution, int parts) {
  const auto values = KnownValues(layout, column);
  if (values.empty() || distribution.source() == "none") return {};
  auto rank_of = [&](const std::string& value) {
    return (distribution.Below(value) + distribution.UpTo(value)) / 2;
  };
  std::vector<std::string> chosen;
  std::vector<double> ranks;
  for (int part = 0; part <= parts; ++part) {
    const double wanted = static_cast<double>(part) / parts;
    auto after = std::partition_point(values.begin(), values.end(), [&](const std::string& value) {
      return rank_of(value) < wanted;
    });
    if (after == values.end() ||
        (after != values.begin() && wanted - rank_of(*(after - 1)) < rank_of(*after) - wanted)) {
      --after;
    }
    const double rank = rank_of(*after);
    // The ends come before what lies between them.
    while (part == parts && ranks.size() > 1 && rank - ranks.back() < 0.5 / parts) {
      ranks.pop_back();
      chosen.pop_back();
    }
    if (!ranks.empty() && rank - ranks.back() < 0.5 / parts) continue;
    ranks.push_back(rank);
    chosen.push_back(*after);
  }
  const auto texts = ShowValues(type, layout.types[static_cast<size_t>(column)], chosen);
  std::vector<Tick> ticks;
  for (size_t i = 0; i < texts.size(); ++i) {
    if (ticks.empty() || ticks.back().text != texts[i]) ticks.push_back({ranks[i], texts[i]});
  }
  return ticks;
}

std::string TicksBelow(const std::vector<Tick>& ticks, const std::string& name) {
  std::string html;
  for (const Tick& tick : ticks) {
    html += fmt::format("<span class=\"tick{}\" style=\"left:{:.2f}%\">{}</span>", Place(tick.rank),
                        tick.rank * 100, Name(tick.text));
  }
  return Element("div", AreLong(ticks) ? "below long" : "below", html) +
         Element("div", "axis", Name(name) + " →");
}

std::string TicksBeside(const std::vector<Tick>& ticks) {
  std::string html;
  for (const Tick& tick : ticks) {
    html += fmt::format("<span class=\"tick{}\" style=\"bottom:{:.2f}%\">{}</span>",
                        Place(tick.rank), tick.rank * 100, Name(tick.text));
  }
  return Element("div", "beside", html);
}

}  // namespace thalweg::report
