#include <algorithm>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/session.h"
#include "layout/depth.h"
#include "layout/key_distribution.h"
#include "layout/plan_json.h"
#include "util/status.h"
#include "util/units.h"

namespace thalweg::cli {
namespace {

/// The declaration with its notes; one that cannot be used is a note too, as looking at a table
/// must work nevertheless. `cleared`: nothing is declared.
arrow::Result<std::optional<ClusteringSpec>> LookAtDeclaration(const Table& table, bool* cleared,
                                                               std::vector<std::string>* notes) {
  ARROW_ASSIGN_OR_RAISE(Declaration declaration, table.declaration());
  notes->insert(notes->end(), declaration.notes.begin(), declaration.notes.end());
  if (!declaration.problem.empty()) notes->push_back(declaration.problem);
  *cleared = !declaration.spec && declaration.problem.empty();
  return std::move(declaration.spec);
}

const ClusteringSpec* PointerTo(const std::optional<ClusteringSpec>& spec) {
  return spec ? &*spec : nullptr;
}

// --- status

struct StatusFlags {
  std::string table;
  std::string columns;
  bool boxes = false;
};

/// Each unit and where its values lie in the ranks of each key: [from, to] in [0, 1], null where it
/// has no value.
Json BoxesJson(const Layout& layout) {
  const auto intervals = RankIntervals(layout);
  Json boxes = Json::array();
  for (size_t unit = 0; unit < layout.units.size(); ++unit) {
    Json ranks = Json::array();
    for (const auto& key : intervals) {
      const RankInterval& interval = key[unit];
      ranks.push_back(interval.empty ? Json() : Json{interval.below, interval.upto});
    }
    const Unit& described = layout.units[unit];
    boxes.push_back({{"unit", described.id},
                     {"rows", described.rows},
                     {"bytes", described.bytes},
                     {"ranks", std::move(ranks)}});
  }
  return boxes;
}

arrow::Status RunStatus(const Session& session, const StatusFlags& flags) {
  ARROW_ASSIGN_OR_RAISE(auto table, session.Open(flags.table));
  std::vector<std::string> notes;
  bool cleared = false;
  ARROW_ASSIGN_OR_RAISE(const auto declared, LookAtDeclaration(*table, &cleared, &notes));
  std::vector<ClusteringColumn> columns;
  if (!flags.columns.empty()) {
    ARROW_ASSIGN_OR_RAISE(columns, ResolveColumns(*table, flags.columns));
    for (auto column = columns.begin(); column != columns.end(); ++column) {
      if (std::find(columns.begin(), column, *column) != column) {
        return Usage("--columns {}: column {} twice", flags.columns, column->name);
      }
    }
  } else if (declared) {
    columns = declared->columns;
  }
  ARROW_ASSIGN_OR_RAISE(Layout layout, table->DescribeLayout(columns));
  if (cleared) {
    for (auto& note : ClearedNotes(layout)) notes.push_back(std::move(note));
  }
  if (columns.empty()) {
    notes.push_back("no keys to measure: see how the table serves any columns with --columns a,b");
  }
  AddNotes(notes, &layout.notes);
  if (declared && columns == declared->columns) {
    ARROW_RETURN_NOT_OK(MarkWhatOverlaps(*table, *declared, &layout));
  }
  const LayoutHealth health = MeasureLayout(layout);
  Json json = CommandJson("status", table->name());
  json["declared"] = declared ? SpecJson(*declared) : Json();
  json.update(StatusJson(layout, PointerTo(declared), health));
  if (flags.boxes) json["boxes"] = BoxesJson(layout);
  return session.Print(json, table->name() + "\n" +
                                 StatusText(layout, PointerTo(declared), health,
                                            /*unusable=*/!declared && !cleared));
}

// --- cubes

struct CubesFlags {
  std::string table;
  bool rebuild = false;
};

arrow::Status RunCubes(const Session& session, const CubesFlags& flags) {
  ARROW_ASSIGN_OR_RAISE(
      auto table, flags.rebuild ? session.OpenForWriting(flags.table) : session.Open(flags.table));
  std::vector<std::string> notes;
  Json json = CommandJson("cubes", table->name());
  if (flags.rebuild) {
    ARROW_ASSIGN_OR_RAISE(const bool changed, table->RebuildCubes());
    ARROW_RETURN_NOT_OK(table->Refresh());
    json["outcome"] = changed ? "committed" : "nothing-to-do";
    json["reason"] = changed ? "" : "the stored cube table was right already";
    notes.push_back(changed ? "the cube table was made anew from the files and stored"
                            : "nothing to do: the stored cube table was right already");
  }
  bool cleared = false;
  ARROW_ASSIGN_OR_RAISE(const auto declared, LookAtDeclaration(*table, &cleared, &notes));
  ARROW_ASSIGN_OR_RAISE(
      Layout layout,
      table->DescribeLayout(declared ? declared->columns : std::vector<ClusteringColumn>{}));
  if (cleared) {
    for (auto& note : ClearedNotes(layout)) notes.push_back(std::move(note));
  }
  AddNotes(notes, &layout.notes);
  if (declared) ARROW_RETURN_NOT_OK(MarkWhatOverlaps(*table, *declared, &layout));
  json.update(CubesJson(layout, PointerTo(declared)));
  return session.Print(json, CubesText(layout, PointerTo(declared)));
}

// --- history

std::string DepthText(double depth) { return depth < 0 ? "-" : fmt::format("{:.2f}", depth); }

arrow::Status RunHistory(const Session& session, const std::string& name) {
  ARROW_ASSIGN_OR_RAISE(auto table, session.Open(name));
  ARROW_ASSIGN_OR_RAISE(const auto entries, table->History());
  Json json = CommandJson("history", table->name());
  json["runs"] = Json::array();
  TextTable runs({"committed (UTC)", "snapshot", "run", "did", ">rows", ">read", ">size",
                  ">written", ">size", ">depth before", ">predicted", ">achieved"});
  for (const auto& entry : entries) {
    const RunRecord& run = entry.run;
    json["runs"].push_back({{"run_id", run.run_id},
                            {"snapshot_id", run.snapshot_id},
                            {"operation", entry.operation},
                            {"committed_millis", run.committed_millis},
                            {"spec_id", run.spec_id},
                            {"rows", run.rows},
                            {"source_units", run.source_units},
                            {"source_bytes", run.source_bytes},
                            {"output_units", run.output_units},
                            {"output_bytes", run.output_bytes},
                            {"depth_before", KnownDepth(run.depth_before)},
                            {"predicted_depth", KnownDepth(run.predicted_depth)},
                            {"achieved_depth", KnownDepth(run.achieved_depth)}});
    runs.Add({FormatTime(run.committed_millis), run.snapshot_id, run.run_id, entry.operation,
              FormatCount(run.rows), FormatCount(run.source_units), FormatBytes(run.source_bytes),
              FormatCount(run.output_units), FormatBytes(run.output_bytes),
              DepthText(run.depth_before), DepthText(run.predicted_depth),
              DepthText(run.achieved_depth)});
  }
  return session.Print(json, entries.empty() ? "no runs yet\n" : runs.ToString());
}

}  // namespace

void AddInspectCommands(CLI::App& app, Session& session) {
  auto status = std::make_shared<StatusFlags>();
  CLI::App* command = AddCommand(
      app, "status", "Show how well a table is clustered: files and rows that queries open.",
      "  thalweg status prod.web.events\n"
      "  thalweg status ./events --columns country,event_time   # keys that are not declared\n"
      "  thalweg status ./events --json");
  AddTable(command, &status->table);
  command
      ->add_option("--columns", status->columns,
                   "measure these columns instead of the declared ones")
      ->option_text("A,B");
  command->add_flag("--boxes", status->boxes,
                    "with --json: also every file and the ranks that it spans on each key");
  command->callback([&session, status] {
    session.action = [&session, status] { return RunStatus(session, *status); };
  });

  auto cubes = std::make_shared<CubesFlags>();
  command = AddCommand(app, "cubes",
                       "List the cubes of a table: run, files, rows, bytes, columns, health.",
                       "  thalweg cubes prod.web.events\n  thalweg cubes ./events --rebuild");
  AddTable(command, &cubes->table);
  command->add_flag("--rebuild", cubes->rebuild,
                    "make the stored cube table anew from what the files themselves say");
  command->callback([&session, cubes] {
    session.action = [&session, cubes] { return RunCubes(session, *cubes); };
  });

  auto table = std::make_shared<std::string>();
  command =
      AddCommand(app, "history", "List the runs that wrote this table, and what they achieved.",
                 "  thalweg history prod.web.events\n  thalweg history ./events --json");
  AddTable(command, table.get());
  command->callback([&session, table] {
    session.action = [&session, table] { return RunHistory(session, *table); };
  });
}

}  // namespace thalweg::cli
