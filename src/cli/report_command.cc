#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/session.h"
#include "layout/planner.h"
#include "report/page.h"
#include "task/optimize.h"
#include "util/status.h"
#include "util/units.h"
#include "util/write_file.h"

namespace thalweg::cli {
namespace {

struct ReportFlags {
  std::string table;
  std::string out;
  std::string columns;
};

/// The keys to measure and which of them are drawn: the declared ones and the first two of them, or
/// those that the user chose. Chosen ones that are all declared are drawn out of the declared.
arrow::Status ChooseColumns(const Table& table, const ReportFlags& flags,
                            const Declaration& declaration, std::vector<ClusteringColumn>* columns,
                            std::vector<int>* axes) {
  if (declaration.spec) *columns = declaration.spec->columns;
  std::vector<ClusteringColumn> chosen;
  if (!flags.columns.empty()) {
    ARROW_ASSIGN_OR_RAISE(chosen, ResolveColumns(table, flags.columns));
    if (chosen.size() > 2) {
      return Usage("--columns {}: a report draws one or two columns", flags.columns);
    }
    if (chosen.size() == 2 && chosen[0] == chosen[1]) {
      return Usage("--columns {}: the same column twice", flags.columns);
    }
  } else if (columns->empty()) {
    const std::string why =
        declaration.problem.empty() ? "no clustering columns are declared" : declaration.problem;
    return Usage("{}: {}; choose what to draw with --columns a,b", table.name(), why);
  }
  auto position = [&](const ClusteringColumn& column) {
    return std::find(columns->begin(), columns->end(), column) - columns->begin();
  };
  const bool all_declared = std::all_of(chosen.begin(), chosen.end(), [&](const auto& column) {
    return static_cast<size_t>(position(column)) < columns->size();
  });
  if (!all_declared) *columns = chosen;
  if (chosen.empty())
    chosen.assign(columns->begin(), columns->begin() + std::min<size_t>(2, columns->size()));
  for (const auto& column : chosen) axes->push_back(static_cast<int>(position(column)));
  return arrow::Status::OK();
}

/// The layout before the newest run, or why it is not to be had.
arrow::Status AddBefore(const Table& table, report::ReportInput* input) {
  const auto newest = std::max_element(
      input->history.begin(), input->history.end(),
      [](const auto& a, const auto& b) { return a.run.committed_millis < b.run.committed_millis; });
  if (newest == input->history.end()) return arrow::Status::OK();
  if (newest->snapshot_before.empty()) {
    if (newest->run.source_units > 0) {
      input->before_missing = "The snapshot before the last run is gone, and its layout with it.";
    }
    return arrow::Status::OK();
  }
  auto before = table.DescribeLayoutAt(newest->snapshot_before, input->now.columns);
  if (!before.ok()) {
    if (before.status().IsCancelled()) return before.status();
    input->before_missing =
        "The layout before the last run cannot be read: " + OneLine(before.status());
  } else if (!*before) {
    input->before_missing =
        fmt::format("The snapshot before the last run ({}) is gone, and its layout with it.",
                    newest->snapshot_before);
  } else {
    input->before = **std::move(before);
  }
  return arrow::Status::OK();
}

/// What an optimize now is predicted to leave: the units that its plan does not touch, and those
/// that it writes. Planning goes by the table's policy, sizes and budgets.
arrow::Status PredictAfter(const Table& table, const ClusteringSpec& spec,
                           report::ReportInput* input) {
  ARROW_RETURN_NOT_OK(MarkWhatOverlaps(table, spec, &input->now));
  ARROW_ASSIGN_OR_RAISE(const auto inputs, ResolvePlanInputs(table, {}, -1, -1));
  ARROW_ASSIGN_OR_RAISE(const Plan plan, MakePlan(input->now, spec, inputs.options));
  if (plan.selections.empty()) {
    input->after_missing = fmt::format("An optimize now would do nothing: {}.", plan.reason);
    return arrow::Status::OK();
  }
  const std::vector<char> rewritten = SelectedMask(input->now, plan);
  const auto intervals = RankIntervals(input->now);
  for (size_t unit = 0; unit < rewritten.size(); ++unit) {
    if (rewritten[unit]) continue;
    auto& box = input->after.emplace_back();
    for (const auto& key : intervals) box.push_back(key[unit]);
  }
  for (const RankBoxOf& predicted : plan.predicted_boxes) {
    auto& box = input->after.emplace_back();
    for (size_t k = 0; k < spec.columns.size(); ++k) {
      box.push_back(
          {.below = predicted.below[k], .upto = predicted.upto[k], .empty = !predicted.holds[k]});
    }
  }
  // What earlier predictions missed is allowed for in the depth, up to all units there are.
  input->after_depth = std::min(plan.depth_after, static_cast<double>(input->after.size()));
  return arrow::Status::OK();
}

arrow::Status RunReport(const Session& session, const ReportFlags& flags) {
  ARROW_ASSIGN_OR_RAISE(auto table, session.Open(flags.table));
  report::ReportInput input;
  input.table = table->name();
  input.format = table->format();
  input.location = table->location();
  input.created_millis = std::chrono::duration_cast<std::chrono::milliseconds>(
                             std::chrono::system_clock::now().time_since_epoch())
                             .count();
  ARROW_ASSIGN_OR_RAISE(const Declaration declaration, table->declaration());
  input.declared = declaration.spec;
  std::vector<ClusteringColumn> columns;
  ARROW_RETURN_NOT_OK(ChooseColumns(*table, flags, declaration, &columns, &input.axes));
  ARROW_ASSIGN_OR_RAISE(const auto schema, table->schema());
  for (const auto& column : columns) {
    input.types.push_back(schema->GetFieldByName(column.name)->type());
  }
  ARROW_ASSIGN_OR_RAISE(input.now, table->DescribeLayout(columns));
  std::vector<std::string> notes = declaration.notes;
  if (!declaration.problem.empty()) notes.push_back(declaration.problem);
  if (!declaration.spec && declaration.problem.empty()) {
    for (auto& note : ClearedNotes(input.now)) notes.push_back(std::move(note));
  }
  AddNotes(notes, &input.now.notes);
  ARROW_ASSIGN_OR_RAISE(input.history, table->History());
  ARROW_RETURN_NOT_OK(AddBefore(*table, &input));
  if (declaration.spec && columns == declaration.spec->columns) {
    // Looking at a table must work where planning does not.
    const auto predicted = PredictAfter(*table, *declaration.spec, &input);
    if (!predicted.ok()) {
      input.after_missing = "What an optimize would do cannot be planned: " + OneLine(predicted);
    }
  }

  const std::string page = report::ReportPage(input);
  ARROW_RETURN_NOT_OK(WriteWholeFile(flags.out, page, /*replace=*/true));
  Json json = CommandJson("report", table->name());
  json["out"] = flags.out;
  json["bytes"] = page.size();
  return session.Print(json, fmt::format("wrote {} ({})\n", flags.out,
                                         FormatBytes(static_cast<int64_t>(page.size()))));
}

}  // namespace

void AddReportCommand(CLI::App& app, Session& session) {
  auto flags = std::make_shared<ReportFlags>();
  CLI::App* command = AddCommand(
      app, "report",
      "Write a page that shows where a table's files lie, for a browser or a printer.",
      "  thalweg report prod.web.events --out layout.html\n"
      "  thalweg report ./events --out layout.html --columns country,event_time",
      "The page is one HTML file that loads nothing from anywhere: the files as boxes over two\n"
      "keys, before the last run, now and as predicted after the next one, depth along each key,\n"
      "health, and the history of runs.");
  AddTable(command, &flags->table);
  command->add_option("--out", flags->out, "the page; a file of that name is replaced")
      ->required()
      ->option_text("FILE");
  command
      ->add_option("--columns", flags->columns,
                   "draw over these one or two columns (default: the first two declared); measured "
                   "instead of the declared ones unless they are among them")
      ->option_text("A,B");
  command->callback([&session, flags] {
    session.action = [&session, flags] { return RunReport(session, *flags); };
  });
}

}  // namespace thalweg::cli
