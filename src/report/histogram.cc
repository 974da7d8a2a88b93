#include "report/histogram.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "report/html.h"
#include "util/units.h"

namespace thalweg::report {
namespace {

constexpr int kWidth = 640, kHeight = 200;

std::string Line(std::string_view classes, double depth, double top) {
  const long y = kHeight - std::lround(depth / top * kHeight);
  return fmt::format("<line class=\"{}\" x1=\"0\" x2=\"{}\" y1=\"{}\" y2=\"{}\"/>", classes, kWidth,
                     y, y);
}

std::string Facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string html;
  for (const auto& [name, value] : facts) {
    html += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>", name, value);
  }
  return Element("dl", "facts", html);
}

}  // namespace

std::string DepthHistogram(const KeyHealth& key, const std::vector<Tick>& ticks, int64_t units,
                           const KeyHealth* before, const std::string& unit_name) {
  std::string html = Element("h3", "", Name(key.name));
  std::vector<std::pair<std::string, std::string>> facts = {
      {"<i class=\"key mean\"></i>mean", Number(key.depth_mean)},
      {"95 % open at most", Number(key.depth_p95)},
      {"most", Number(key.depth_max)},
      {"<i class=\"key ideal\"></i>perfect sort", Number(key.ideal)},
      {"efficiency", Percent(key.efficiency)}};
  if (before != nullptr) facts.push_back({"mean before the last run", Number(before->depth_mean)});
  html += Facts(facts);

  double top = std::max({1.0, key.depth_mean, key.ideal});
  for (const int64_t depth : key.histogram) top = std::max(top, static_cast<double>(depth));
  std::string svg = fmt::format(
      "<svg role=\"img\" aria-label=\"{}s opened by an equality, along the ranks of {}\" "
      "viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\"><g class=\"bars\">",
      unit_name, Escape(key.name), kWidth, kHeight);
  const auto steps = static_cast<int>(key.histogram.size());
  for (int step = 0; step < steps; ++step) {
    const int left = step * kWidth / steps, right = (step + 1) * kWidth / steps;
    const auto depth = key.histogram[static_cast<size_t>(step)];
    const long height = std::lround(static_cast<double>(depth) / top * kHeight);
    svg += fmt::format(
        "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{} of {}</title></rect>", left,
        kHeight - height, right - left, height, FormatCount(depth), FormatCount(units));
  }
  svg += "</g>" + Line("mean", key.depth_mean, top) + Line("ideal", key.ideal, top) + "</svg>";
  const std::vector<Tick> depths = {{0, "0"}, {1, FormatNumber(top)}};
  html += "<div class=\"plot\">\n" + TicksBeside(depths) + "<div class=\"frame\">" + svg +
          "</div>\n</div>\n" + TicksBelow(ticks, key.name);
  return Element("div", "histogram", html);
}

std::string KeyTable(const LayoutHealth& health, const std::string& unit_name) {
  const std::string units = unit_name + "s";
  struct Figure {
    std::string what;
    std::function<std::string(const KeyHealth&)> of_key;
    std::string of_all;
  };
  const std::vector<Figure> figures = {
      {units + " opened by an equality, mean (depth)",
       [](const KeyHealth& key) { return Number(key.depth_mean); }, Number(health.depth)},
      {"at most, for 95 % of the rows’ values",
       [](const KeyHealth& key) { return Number(key.depth_p95); }, ""},
      {"the most", [](const KeyHealth& key) { return Number(key.depth_max); }, ""},
      {"after one perfect sort of the table (ideal)",
       [](const KeyHealth& key) { return Number(key.ideal); }, Number(health.ideal)},
      {"share of the ideal due to repeated values, whatever the layout",
       [](const KeyHealth& key) { return Percent(key.unavoidable); }, ""},
      {"efficiency: ideal by depth", [](const KeyHealth& key) { return Percent(key.efficiency); },
       Percent(health.efficiency)},
      {"rows in the opened " + units, [](const KeyHealth& key) { return Percent(key.rows_share); },
       ""},
      {units + " opened by a range over 1 % of the ranks",
       [](const KeyHealth& key) { return Number(key.box1_files); }, Number(health.box1_files)},
      {"rows in them", [](const KeyHealth& key) { return Percent(key.box1_rows); },
       Percent(health.box1_rows)},
      {units + " opened by a range over 10 % of the ranks",
       [](const KeyHealth& key) { return Number(key.box10_files); }, Number(health.box10_files)},
      {"rows in them", [](const KeyHealth& key) { return Percent(key.box10_rows); },
       Percent(health.box10_rows)},
      {"rows without a value (null)", [](const KeyHealth& key) { return Percent(key.null_share); },
       ""},
      {units + " opened by IS NULL",
       [](const KeyHealth& key) { return Count(std::llround(key.null_units)); }, ""},
      {units + " without usable statistics, opened by every query",
       [](const KeyHealth& key) { return Count(key.unknown_units); }, ""},
      {units + " of one value", [](const KeyHealth& key) { return Count(key.constant_units); }, ""},
      {"what the ranks are known from",
       [](const KeyHealth& key) { return Escape(key.distribution); }, ""},
  };
  std::string head = "<th></th>";
  for (const KeyHealth& key : health.keys) head += "<th scope=\"col\">" + Name(key.name) + "</th>";
  const bool several = health.keys.size() > 1;
  if (several) head += "<th scope=\"col\">all keys</th>";
  std::string body;
  for (const Figure& figure : figures) {
    std::string row = "<th scope=\"row\">" + figure.what + "</th>";
    for (const KeyHealth& key : health.keys) row += "<td>" + figure.of_key(key) + "</td>";
    if (several) row += "<td>" + figure.of_all + "</td>";
    body += Element("tr", "", row);
  }
  return Element(
      "div", "scroll",
      Element("table", "figures",
              Element("thead", "", Element("tr", "", head)) + Element("tbody", "", body)));
}

}  // namespace thalweg::report
