#include "report/boxes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <queue>

#include "report/density.h"
#include "report/html.h"

namespace thalweg::report {
namespace {

constexpr int kSide = 1000;          // of a plot, in its own units
constexpr int kThinnest = 3;         // a side of no length is drawn this long
constexpr size_t kMostTitles = 400;  // units that can be pointed at, in one panel

struct Rect {
  int x, y, width, height;
  size_t unit;
  bool unknown;
};

bool IsDrawn(const std::vector<RankInterval>& box) {
  return std::none_of(box.begin(), box.end(), [](const auto& side) { return side.empty; });
}

bool IsUnknown(const std::vector<RankInterval>& box) {
  return std::any_of(box.begin(), box.end(), [](const auto& side) { return side.unknown; });
}

/// Start and length of an interval on an axis of kSide.
std::pair<int, int> Extent(const RankInterval& interval) {
  const int from = static_cast<int>(std::lround(std::clamp(interval.below, 0.0, 1.0) * kSide));
  const int to = static_cast<int>(std::lround(std::clamp(interval.upto, 0.0, 1.0) * kSide));
  const int length = std::max(kThinnest, to - from);
  return {std::min(from, kSide - length), length};
}

std::vector<Rect> Boxes(const Panel& panel) {
  std::vector<Rect> rects;
  for (size_t i = 0; i < panel.boxes.size(); ++i) {
    if (!IsDrawn(panel.boxes[i])) continue;
    const auto [x, width] = Extent(panel.boxes[i][0]);
    const auto [y, height] = Extent(panel.boxes[i][1]);
    rects.push_back({x, kSide - y - height, width, height, i, IsUnknown(panel.boxes[i])});
  }
  return rects;
}

/// Intervals in as few lanes as they fit in without overlapping, the lanes from the bottom up:
/// there are as many lanes as the most units that one rank is in.
std::vector<Rect> Lanes(const Panel& panel, int* lanes) {
  std::vector<size_t> order;
  for (size_t i = 0; i < panel.boxes.size(); ++i) {
    if (IsDrawn(panel.boxes[i])) order.push_back(i);
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return panel.boxes[a][0].below < panel.boxes[b][0].below;
  });
  using Lane = std::pair<double, int>;  // where it is free from
  std::priority_queue<Lane, std::vector<Lane>, std::greater<>> busy;
  std::vector<Rect> rects;
  *lanes = 0;
  for (const size_t i : order) {
    const RankInterval& interval = panel.boxes[i][0];
    int lane = *lanes;
    if (!busy.empty() && busy.top().first <= interval.below + 1e-12) {
      lane = busy.top().second;
      busy.pop();
    } else {
      ++*lanes;
    }
    busy.emplace(interval.upto, lane);
    const auto [x, width] = Extent(interval);
    rects.push_back({x, lane, width, 1, i, interval.unknown});
  }
  return rects;
}

/// Opacity of one box, so that the deepest panel is strong but not flat: the mean number of boxes
/// over one another gets four fifths.
double Opacity(const std::vector<Panel>& panels) {
  double deepest = 1;
  for (const Panel& panel : panels) {
    double overlap = 0;
    for (const auto& box : panel.boxes) {
      if (!IsDrawn(box)) continue;
      overlap += std::accumulate(box.begin(), box.end(), 1.0,
                                 [](double area, const auto& side) { return area * side.width(); });
    }
    deepest = std::max(deepest, overlap);
  }
  return std::clamp(1 - std::pow(0.2, 1 / deepest), 0.02, 0.3);
}

std::string RectsSvg(const std::vector<Rect>& rects, const Panel& panel, double opacity,
                     bool square) {
  const bool titled = rects.size() <= kMostTitles && panel.labels.size() == panel.boxes.size();
  std::string svg = fmt::format("<g class=\"boxes{}\" fill-opacity=\"{:.3f}\">",
                                rects.size() > 2000 ? " many" : "", opacity);
  for (Rect rect : rects) {
    if (rect.unknown) {
      // Off the frame, which it would coincide with.
      constexpr int kInset = 8;
      rect.x += kInset;
      rect.width -= std::min(rect.width - 1, 2 * kInset);
      if (square) {
        rect.y += kInset;
        rect.height -= std::min(rect.height - 1, 2 * kInset);
      }
    }
    fmt::format_to(std::back_inserter(svg), "<rect {}x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"",
                   rect.unknown ? "class=\"unknown\" " : "", rect.x, rect.y, rect.width,
                   rect.height);
    svg += titled ? "><title>" + Escape(panel.labels[rect.unit]) + "</title></rect>" : "/>";
  }
  return svg + "</g>";
}

std::string Svg(const std::string& label, int height, const std::string& content) {
  return fmt::format(
      "<svg role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\">"
      "{}</svg>\n",
      Escape(label), kSide, height, content);
}

/// What is not as the others, in words.
std::string Remarks(const Panel& panel, const std::string& unit_name) {
  const auto drawn = std::count_if(panel.boxes.begin(), panel.boxes.end(), IsDrawn);
  const auto unknown = std::count_if(panel.boxes.begin(), panel.boxes.end(), [](const auto& box) {
    return IsDrawn(box) && IsUnknown(box);
  });
  std::string remarks;
  if (const auto missing = static_cast<int64_t>(panel.boxes.size()) - drawn; missing > 0) {
    remarks +=
        fmt::format(" {} without a value of a key here: not drawn.", Plural(missing, unit_name));
  }
  if (unknown > 0) {
    remarks += fmt::format(" {} without statistics (dashed): opened by every query.",
                           Plural(unknown, unit_name));
  }
  return remarks;
}

std::string Figure(const Panel& panel, const std::vector<PlotAxis>& axes, const std::string& plot,
                   const std::string& unit_name) {
  const bool square = axes.size() > 1;
  std::string html = fmt::format("<figure id=\"{}\" class=\"{}\">\n", panel.id,
                                 !square                  ? "flat"
                                 : AreLong(axes[1].ticks) ? "square roomy"
                                                          : "square");
  html +=
      Element("figcaption", "",
              "<b>" + Escape(panel.title) + "</b>: " + panel.caption + Remarks(panel, unit_name));
  if (square) html += Element("div", "axis up", "↑ " + Name(axes[1].name));
  html += "<div class=\"plot\">\n";
  if (square) html += TicksBeside(axes[1].ticks);
  html += "<div class=\"frame\">" + plot + "</div>\n</div>\n";
  html += TicksBelow(axes[0].ticks, axes[0].name);
  return html + "</figure>\n";
}

}  // namespace

std::string BoxPanels(const std::vector<PlotAxis>& axes, const std::vector<Panel>& panels,
                      const std::string& unit_name) {
  const bool dense = std::any_of(panels.begin(), panels.end(), [](const Panel& panel) {
    return panel.boxes.size() > kMostBoxes;
  });
  std::string html = "<div class=\"panels\">\n";
  auto label = [&](const Panel& panel) {
    return fmt::format("{}: {} {}s over {}{}", panel.title, panel.boxes.size(), unit_name,
                       axes[0].name, axes.size() > 1 ? " and " + axes[1].name : "");
  };
  std::string legend;
  if (dense) {
    std::vector<DensityGrid> grids;
    double most = 0;
    for (const Panel& panel : panels) {
      grids.push_back(MakeDensity(panel.boxes, static_cast<int>(axes.size())));
      most = std::max(most, grids.back().most());
    }
    for (size_t i = 0; i < panels.size(); ++i) {
      html += Figure(panels[i], axes,
                     Svg(label(panels[i]), kSide, DensitySvg(grids[i], most, kSide)), unit_name);
    }
    legend = DensityLegend(most, unit_name);
  } else if (axes.size() > 1) {
    const double opacity = Opacity(panels);
    for (const Panel& panel : panels) {
      const std::string plot =
          Svg(label(panel), kSide, RectsSvg(Boxes(panel), panel, opacity, /*square=*/true));
      html += Figure(panel, axes, plot, unit_name);
    }
  } else {
    std::vector<std::vector<Rect>> rects;
    int most = 1;
    for (const Panel& panel : panels) {
      int lanes = 0;
      rects.push_back(Lanes(panel, &lanes));
      most = std::max(most, lanes);
    }
    // All panels in one scale: the deepest fills its height.
    for (size_t i = 0; i < panels.size(); ++i) {
      const int lane = std::clamp(kSide / most, 1, 80);
      const int height = std::max(kSide, lane * most);
      for (Rect& rect : rects[i]) {
        rect.y = height - (rect.y + 1) * lane;
        rect.height = lane > 8 ? lane - 2 : lane;
      }
      html += Figure(
          panels[i], axes,
          Svg(label(panels[i]), height, RectsSvg(rects[i], panels[i], 0.35, /*square=*/false)),
          unit_name);
    }
  }
  return html + "</div>\n" + legend;
}

}  // namespace thalweg::report
