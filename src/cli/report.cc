#include "cli/report.h"

#include <fmt/format.h>

#include "cli/output.h"
#include "util/units.h"

namespace thalweg::cli {
namespace {

std::string DepthText(const OptimizeReport& report) {
  std::string text;
  if (report.depth_before >= 0) text = fmt::format("{:.2f}", report.depth_before);
  if (report.depth_after >= 0) {
    text += fmt::format("{}{:.2f}", text.empty() ? "" : " → ", report.depth_after);
  }
  if (!text.empty() && report.predicted_depth >= 0) {
    text += fmt::format(" (predicted {:.2f})", report.predicted_depth);
  }
  return text.empty() ? text : text + " " + report.unit_name + "s opened by an equality";
}

std::string Amount(int64_t units, const std::string& unit, int64_t bytes) {
  return fmt::format("{} ({})", Plural(units, unit), FormatBytes(bytes));
}

}  // namespace

Json ReportJson(std::string_view command, const std::string& table, const OptimizeReport& report,
                const std::string& spill_dir) {
  Json json = CommandJson(command, table);
  json["policy"] = report.policy;
  json["outcome"] = report.outcome;
  json["reason"] = report.reason;
  json["run_id"] = report.run_id;
  json["snapshot_before"] = report.snapshot_before;
  json["snapshot_after"] = report.snapshot_after;
  json["rows"] = report.rows;
  json["source_units"] = report.source_units;
  json["source_bytes"] = report.source_bytes;
  json["output_units"] = report.output_units;
  json["output_bytes"] = report.output_bytes;
  json["spill_dir"] = spill_dir;
  json["spill_bytes"] = report.spill_bytes;
  json["peak_memory_bytes"] = report.peak_memory_bytes;
  json["depth_before"] = KnownDepth(report.depth_before);
  json["depth_after"] = KnownDepth(report.depth_after);
  json["predicted_depth"] = KnownDepth(report.predicted_depth);
  json["replans"] = report.replans;
  json["seconds"] = report.seconds;
  json["notes"] = report.notes;
  return json;
}

std::string ReportText(const OptimizeReport& report, const std::string& spill_dir) {
  if (report.outcome == "nothing-to-do") {
    return "nothing to do: " + report.reason + "\n" + NotesText(report.notes);
  }
  if (report.outcome == "already-committed") {
    return fmt::format("already committed: run {}, snapshot {}\n", report.run_id,
                       report.snapshot_after) +
           NotesText(report.notes);
  }
  const std::string output = Amount(report.output_units, report.unit_name, report.output_bytes);
  const std::string work =
      report.source_units > 0
          ? fmt::format("{} into {}",
                        Amount(report.source_units, report.unit_name, report.source_bytes), output)
          : output;
  std::string snapshots = report.snapshot_after;
  if (!report.snapshot_before.empty()) snapshots = report.snapshot_before + " → " + snapshots;
  std::string resources = FormatDuration(report.seconds);
  if (report.peak_memory_bytes > 0) {
    resources += fmt::format(", peak memory {}", FormatBytes(report.peak_memory_bytes));
  }
  resources += fmt::format(", spilled {} in {}", FormatBytes(report.spill_bytes), spill_dir);
  return LabelledLines(
             {{"run", report.run_id},
              {"snapshot", snapshots},
              {report.source_units > 0 ? "rewritten" : "written",
               fmt::format("{}, {}", Plural(report.rows, "row"), work)},
              {"depth", DepthText(report)},
              {"conflicts",
               report.replans > 0 ? fmt::format("planned again {} times", report.replans) : ""},
              {"took", resources}}) +
         NotesText(report.notes);
}

}  // namespace thalweg::cli
