#include "report/page.h"

#include <fmt/format.h>

#include <algorithm>

#include "layout/depth.h"
#include "layout/plan_json.h"
#include "report/axis.h"
#include "report/boxes.h"
#include "report/histogram.h"
#include "report/history.h"
#include "report/html.h"
#include "report/style.h"
#include "util/units.h"
#include "util/version.h"

namespace thalweg::report {
namespace {

/// A key as the page draws it.
struct Key {
  KeyDistribution distribution;
  std::vector<RankInterval> intervals;  ///< of the units
};

/// The report's parts, over what several of them need.
class Page {
 public:
  explicit Page(const ReportInput& input)
      : input_(input),
        unit_(input.now.unit_name),
        units_(static_cast<int64_t>(input.now.units.size())),
        health_(MeasureLayout(input.now)),
        status_(StatusJson(input.now, input.declared ? &*input.declared : nullptr, health_)) {
    if (input.before) before_ = MeasureLayout(*input.before);
    for (size_t k = 0; k < input.now.columns.size(); ++k) {
      Key key;
      key.distribution = KeyDistribution::Make(input.now, static_cast<int>(k), &key.intervals);
      keys_.push_back(std::move(key));
    }
  }

  std::string Whole() const;

 private:
  std::string Header() const;
  std::string Lead() const;
  std::string Boxes() const;
  std::string Histograms() const;
  std::string Health() const;

  std::vector<Tick> TicksOf(int column, int parts) const {
    const auto at = static_cast<size_t>(column);
    return Ticks(input_.now, column, *input_.types[at], keys_[at].distribution, parts);
  }
  Panel Now() const;
  Panel Before() const;
  Panel After() const;

  const ReportInput& input_;
  const std::string unit_;  ///< "file", "fragment"
  const int64_t units_;
  const LayoutHealth health_;
  const Json status_;
  std::optional<LayoutHealth> before_;
  std::vector<Key> keys_;
};

/// With a capital letter.
std::string Capital(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z')
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

std::string JoinNames(const std::vector<ClusteringColumn>& columns) {
  std::string names;
  for (const auto& column : columns) names += (names.empty() ? "" : ", ") + Name(column.name);
  return names;
}

std::string SpecLine(const std::optional<ClusteringSpec>& spec) {
  if (!spec) return "nothing declared";
  return fmt::format("clustered by {} ({} curve, {} bits)", JoinNames(spec->columns),
                     ToString(spec->curve), spec->bits_per_dim);
}

std::string Page::Header() const {
  std::string facts;
  auto add = [&](std::string_view what, const std::string& value) {
    facts += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", what, value);
  };
  add(unit_ + "s", Count(status_["units"].get<int64_t>()));
  add("rows", Count(status_["rows"].get<int64_t>()));
  add("size", Bytes(status_["bytes"].get<int64_t>()));
  if (units_ > 0) {
    add("opened by an equality", Number(health_.depth));
    add("after a perfect sort", Number(health_.ideal));
    add("efficiency", Percent(health_.efficiency));
  }
  return Element("h1", "", Name(input_.table)) +
         Element("p", "soft",
                 fmt::format("{} table, {}. {}, snapshot {}, looked at {} UTC.",
                             Escape(Capital(input_.format)), SpecLine(input_.declared),
                             Name(input_.location),
                             input_.now.snapshot_id.empty() ? "none" : Name(input_.now.snapshot_id),
                             FormatTime(input_.created_millis))) +
         Lead() + Element("dl", "facts tiles", facts);
}

std::string Page::Lead() const {
  if (units_ == 0) {
    return Element("p", "lead", fmt::format("The table is empty: it has no {}s.", unit_));
  }
  std::string text = fmt::format("A query for one value of {} opens <b>{} of {}</b>{}",
                                 health_.keys.size() > 1 ? "a key" : Name(health_.keys[0].name),
                                 Number(health_.depth), Plural(units_, unit_),
                                 health_.keys.size() > 1 ? ", on average over the keys" : "");
  text += health_.depth > health_.ideal
              ? fmt::format("; a perfect sort of the table would open <b>{}</b>.",
                            Number(health_.ideal))
              : fmt::format(", no more than the {} that are expected of a perfect sort.",
                            Number(health_.ideal));
  return Element("p", "lead", text);
}

/// "part-1.parquet: 1,234 rows, 2.1 MiB".
std::string LabelOf(const Unit& unit, const std::string& unit_name) {
  return fmt::format("{} {}: {} rows, {}", unit_name, unit.id.substr(unit.id.rfind('/') + 1),
                     FormatCount(unit.rows), FormatBytes(unit.bytes));
}

std::string Opens(double depth, int64_t units, const std::string& unit) {
  return fmt::format("an equality opens {} of {}.", Number(depth), Plural(units, unit));
}

Panel Page::Now() const {
  Panel panel{"now", "Now", Opens(health_.depth, units_, unit_), {}, {}};
  for (size_t i = 0; i < input_.now.units.size(); ++i) {
    auto& box = panel.boxes.emplace_back();
    for (const int axis : input_.axes) box.push_back(keys_[static_cast<size_t>(axis)].intervals[i]);
    panel.labels.push_back(LabelOf(input_.now.units[i], unit_));
  }
  return panel;
}

/// In the ranks of the present, so that all panels have the same axes.
Panel Page::Before() const {
  const Layout& layout = *input_.before;
  const auto units = static_cast<int64_t>(layout.units.size());
  Panel panel{"before", "Before the last run", Opens(before_->depth, units, unit_), {}, {}};
  panel.boxes.resize(layout.units.size());
  for (const int axis : input_.axes) {
    const auto at = static_cast<size_t>(axis);
    const KeyDistribution& now = keys_[at].distribution;
    std::vector<RankInterval> intervals;
    KeyDistribution::Make(layout, axis, &intervals);
    for (size_t i = 0; i < intervals.size(); ++i) {
      RankInterval interval = intervals[i];
      if (!interval.empty && !interval.unknown && now.source() != "none") {
        const UnitColumn& column = layout.units[i].columns[at];
        interval.below = column.lower ? now.Below(*column.lower) : 0;
        interval.upto = column.upper ? now.UpTo(*column.upper) : 1;
      }
      panel.boxes[i].push_back(interval);
    }
  }
  for (const Unit& unit : layout.units) panel.labels.push_back(LabelOf(unit, unit_));
  return panel;
}

Panel Page::After() const {
  const auto units = static_cast<int64_t>(input_.after.size());
  Panel panel{"after", "After the next optimize (predicted)", "", {}, {}};
  panel.caption =
      input_.after_depth < 0 ? Plural(units, unit_) + "." : Opens(input_.after_depth, units, unit_);
  for (const auto& unit : input_.after) {
    auto& box = panel.boxes.emplace_back();
    for (const int axis : input_.axes) box.push_back(unit[static_cast<size_t>(axis)]);
  }
  return panel;
}

std::string Page::Boxes() const {
  std::vector<PlotAxis> axes;
  for (size_t i = 0; i < input_.axes.size(); ++i) {
    const int axis = input_.axes[i];
    axes.push_back(
        {input_.now.columns[static_cast<size_t>(axis)].name, TicksOf(axis, i == 0 ? 2 : 4)});
  }
  std::vector<Panel> panels;
  const bool before = input_.before && !input_.before->units.empty();
  if (before) panels.push_back(Before());
  panels.push_back(Now());
  if (!input_.after.empty()) panels.push_back(After());
  std::string html = Element("h2", "", fmt::format("Where the {}s lie", unit_));
  html += Element(
      "p", "",
      axes.size() > 1
          ? fmt::format("Each box is one {0}: it spans the values of {1} and {2} that the {0} may "
                        "hold. A query "
                        "for one value of {1} is a vertical line and opens every box that it "
                        "crosses; one for a "
                        "value of {2} is a horizontal line. Many narrow boxes side by side are "
                        "good, wide ones "
                        "over one another are bad: the stronger the colour, the more overlap.",
                        unit_, Name(axes[0].name), Name(axes[1].name))
          : fmt::format("Each bar is one {0}: it spans the values of {1} that the {0} may hold. A "
                        "query for one value of {1} is a vertical line and opens every bar that it "
                        "crosses.",
                        unit_, Name(axes[0].name)));
  html +=
      Element("p", "soft",
              "The axes are ranks, not values: every stretch of an axis holds as many rows as any "
              "other of its length. The labels are the values at these ranks.");
  html += BoxPanels(axes, panels, unit_);
  if (!before && !input_.before_missing.empty()) {
    html += Element("p", "soft", Escape(input_.before_missing));
  }
  if (input_.after.empty() && !input_.after_missing.empty()) {
    html += Element("p", "soft", Escape(input_.after_missing));
  }
  return Element("section", "", html);
}

std::string Page::Histograms() const {
  std::string plots;
  for (size_t k = 0; k < health_.keys.size(); ++k) {
    plots += DepthHistogram(health_.keys[k], TicksOf(static_cast<int>(k), 2), units_,
                            before_ && !input_.before->units.empty() ? &before_->keys[k] : nullptr,
                            unit_);
  }
  return Element(
      "section", "",
      Element("h2", "", fmt::format("{}s opened, along each key", Capital(unit_))) +
          Element(
              "p", "",
              fmt::format("How many {0}s a query for one value opens, in 32 equal steps from the "
                          "lowest values to the highest. The solid line is the mean, the dashed "
                          "one what a perfect sort of the whole table would come to.",
                          unit_)) +
          Element("div", "histograms", plots) + KeyTable(health_, unit_));
}

std::string Page::Health() const {
  const Json& health = status_["health"];
  std::string body;
  auto add = [&](const std::string& what, const std::string& value, const std::string& meaning) {
    body += Element("tr", "",
                    "<th scope=\"row\">" + what + "</th><td>" + value + "</td><td class=\"text\">" +
                        meaning + "</td>");
  };
  const std::string cubes = input_.now.cube_name + "s";
  add(cubes, Count(health["cubes"].get<int64_t>()), "what runs sorted, in pieces of a wanted size");
  struct State {
    const char* name;  // in the status
    std::string what, meaning;
  };
  const State states[] = {
      {"healthy", "healthy " + cubes, "sorted by the declared columns, of the wanted size"},
      {"partial", "partial " + cubes, "too small: sorted again together with others"},
      {"column_mismatch", cubes + " of other columns", "sorted by other columns than the declared"},
      {"oversized", "oversized " + cubes, "too large: to be cut again"},
      {"stale", "stale " + cubes, "sorted by an earlier declaration"},
      {"other_spec", cubes + " of another order",
       "of the declared columns, along another curve or in another order"}};
  for (const State& state : states) {
    if (health.contains(state.name)) {
      add(state.what, Count(health[state.name].get<int64_t>()), state.meaning);
    }
  }
  // Of other keys it is not known what overlaps where.
  if (input_.declared && input_.declared->columns == input_.now.columns) {
    add("overlapping " + cubes, Count(health["overlapping"].get<int64_t>()),
        "in part sorted again by the policy overlap, whatever their size");
  }
  add("unclustered " + unit_ + "s", Count(health["unclustered_units"].get<int64_t>()),
      fmt::format("not sorted yet, or by others: {}, {}",
                  Plural(health["unclustered_rows"].get<int64_t>(), "row"),
                  Bytes(health["unclustered_bytes"].get<int64_t>())));
  for (const KeyHealth& key : health_.keys) {
    if (key.unknown_units > 0) {
      add(fmt::format("{}s without statistics of {}", unit_, Name(key.name)),
          Count(key.unknown_units), "opened by every query");
    }
    if (key.constant_units > 0) {
      add(fmt::format("{}s with one value of {}", unit_, Name(key.name)), Count(key.constant_units),
          "opened by queries for that value only");
    }
  }
  std::string html =
      Element("h2", "", "Health") +
      Element("div", "scroll", Element("table", "health", Element("tbody", "", body)));
  if (!input_.now.notes.empty()) {
    std::string notes;
    for (const auto& note : input_.now.notes) notes += Element("li", "", Escape(note));
    html += Element("h3", "", "Notes") + Element("ul", "", notes);
  }
  return Element("section", "", html);
}

std::string Page::Whole() const {
  std::string body = Element("header", "", Header());
  if (units_ > 0) body += Boxes() + Histograms();
  body += Health();
  body += Element("section", "",
                  Element("h2", "", "History of runs") + HistoryTable(input_.history, unit_));
  body += Element("footer", "soft",
                  fmt::format("Made by thalweg {}, from the table’s metadata alone.", kVersion));
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\">\n<meta name=\"viewport\" content=\"width=device-width, "
      "initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<title>{}: layout</title>\n<style>{}</style>\n</head>\n<body>\n<main>\n{}</main>\n"
      "</body>\n</html>\n",
      Escape(input_.table), kStyle, body);
}

}  // namespace

std::string ReportPage(const ReportInput& input) { return Page(input).Whole(); }

}  // namespace thalweg::report
