#include "report/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/html.h"
#include "util/units.h"

namespace thalweg::report {
namespace {

std::string Bar(std::string_view classes, double value, double most) {
  const double share = most > 0 ? std::clamp(value / most, 0.0, 1.0) : 0;
  return fmt::format(
      "<svg class=\"bar {}\" viewBox=\"0 0 100 6\" preserveAspectRatio=\"none\" "
      "aria-hidden=\"true\"><rect width=\"{:.1f}\" height=\"6\"/></svg>",
      classes, share * 100);
}

std::string Amount(int64_t units, int64_t bytes, const std::string& unit_name) {
  return Plural(units, unit_name) + ", " + Bytes(bytes);
}

}  // namespace

std::string HistoryTable(const std::vector<HistoryEntry>& history, const std::string& unit_name) {
  if (history.empty()) return Element("p", "", "No run of thalweg has written this table yet.");
  std::vector<const HistoryEntry*> runs;
  runs.reserve(history.size());
  for (const auto& entry : history) runs.push_back(&entry);
  std::stable_sort(runs.begin(), runs.end(), [](const auto* a, const auto* b) {
    return a->run.committed_millis < b->run.committed_millis;
  });
  std::reverse(runs.begin(), runs.end());
  const size_t left_out = runs.size() - std::min(runs.size(), kMostRuns);
  runs.resize(runs.size() - left_out);

  int64_t most_bytes = 0;
  double deepest = 0;
  for (const auto* entry : runs) {
    most_bytes = std::max({most_bytes, entry->run.source_bytes, entry->run.output_bytes});
    deepest = std::max({deepest, entry->run.depth_before, entry->run.achieved_depth});
  }
  const auto most = static_cast<double>(most_bytes);
  std::string body;
  for (const auto* entry : runs) {
    const RunRecord& run = entry->run;
    std::string row =
        fmt::format("<th scope=\"row\">{}<br><small title=\"run {}\">{}</small></th>",
                    FormatTime(run.committed_millis), Escape(run.run_id), Name(run.run_id));
    row += fmt::format("<td class=\"text\">{}</td><td>{}</td>", Escape(entry->operation),
                       Count(run.rows));
    row += fmt::format("<td>{}{}</td>", Amount(run.source_units, run.source_bytes, unit_name),
                       Bar("read", static_cast<double>(run.source_bytes), most));
    row += fmt::format("<td>{}{}</td>", Amount(run.output_units, run.output_bytes, unit_name),
                       Bar("written", static_cast<double>(run.output_bytes), most));
    row += fmt::format("<td>{}{}</td><td>{}</td><td>{}{}</td>", Depth(run.depth_before),
                       run.depth_before < 0 ? "" : Bar("before", run.depth_before, deepest),
                       Depth(run.predicted_depth), Depth(run.achieved_depth),
                       run.achieved_depth < 0 ? "" : Bar("achieved", run.achieved_depth, deepest));
    body += Element("tr", "", row);
  }
  const std::string head = fmt::format(
      "<th scope=\"col\">committed (UTC), run</th><th scope=\"col\" class=\"text\">did</th>"
      "<th scope=\"col\">rows</th><th scope=\"col\">read</th><th scope=\"col\">written</th>"
      "<th scope=\"col\">depth before</th><th scope=\"col\">predicted</th>"
      "<th scope=\"col\">achieved</th>");
  std::string html =
      Element("p", "",
              fmt::format("Depth: {}s that an equality opens, mean over the keys of the run. "
                          "The bars of a kind are in one scale.",
                          unit_name)) +
      Element("div", "scroll",
              Element("table", "history",
                      Element("thead", "", Element("tr", "", head)) + Element("tbody", "", body)));
  if (left_out > 0) {
    html += Element("p", "",
                    fmt::format("{} not shown: see thalweg history.",
                                Plural(static_cast<int64_t>(left_out), "earlier run")));
  }
  return html;
}

}  // namespace thalweg::report
