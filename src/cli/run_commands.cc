#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/report.h"
#include "cli/session.h"
#include "layout/plan_json.h"
#include "task/envelope.h"
#include "task/optimize.h"
#include "task/run_intent.h"
#include "task/shuffle.h"
#include "util/status.h"
#include "util/units.h"
#include "util/uuid.h"

namespace thalweg::cli {
namespace {

struct RunFlags {
  std::string table;
  std::string columns;         ///< plan only: instead of the declared ones
  std::string tasks_out;       ///< plan only
  std::string selections_out;  ///< plan only
  PlanFlags plan;
  ExecuteOptions execute;
  double orphan_age_seconds = 86400;
};

// --- plan

/// The folder for envelopes: made when missing, refused when it holds those of another plan.
arrow::Status PrepareTaskFolder(const std::string& option, const std::string& folder,
                                const std::string& prefix) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error || !std::filesystem::is_directory(folder, error)) {
    return Invalid("{} {}: the folder cannot be made{}{}", option, folder, error ? ": " : "",
                   error ? error.message() : "");
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(prefix) && name.ends_with(".json")) {
      return Usage("{} {}: the folder holds {} of an earlier plan already; name another folder",
                   option, folder, name);
    }
  }
  if (error) return Invalid("{} {}: {}", option, folder, error.message());
  return arrow::Status::OK();
}

/// Where the envelopes of a plan went.
struct PlannedFiles {
  std::vector<std::string> tasks, selections;
};

arrow::Result<PlannedFiles> WritePlanned(const Session& session, Table& table,
                                         const ClusteringSpec& spec, const Layout& layout,
                                         const Plan& plan, const std::string& run_id,
                                         const OutputSizes& sizes, RunFlags* flags) {
  ARROW_RETURN_NOT_OK(table.CheckWritable());
  PrepareOptions prepare;
  prepare.run_id = run_id;
  prepare.target_file_bytes = sizes.target_file_bytes;
  prepare.target_file_rows = sizes.target_file_rows;
  prepare.target_row_group_bytes = sizes.target_row_group_bytes;
  PlannedFiles files;
  if (!flags->selections_out.empty()) {
    ARROW_RETURN_NOT_OK(PrepareTaskFolder("--selections-out", flags->selections_out, "selection-"));
    ARROW_ASSIGN_OR_RAISE(const auto selections,
                          PrepareSelections(table, spec, layout, plan, prepare));
    for (const auto& selection : selections) {
      files.selections.push_back(std::filesystem::path(flags->selections_out) /
                                 fmt::format("selection-{:05}.json", files.selections.size()));
      ARROW_RETURN_NOT_OK(WriteSelection(selection, files.selections.back()));
    }
    return files;
  }
  ARROW_RETURN_NOT_OK(PrepareTaskFolder("--tasks-out", flags->tasks_out, "task-"));
  const WorkScope work(session, &flags->execute);
  ARROW_ASSIGN_OR_RAISE(const auto tasks,
                        PrepareTasks(table, spec, layout, plan, prepare, flags->execute));
  ARROW_ASSIGN_OR_RAISE(files.tasks, WriteTasks(tasks, flags->tasks_out));
  return files;
}

arrow::Status RunPlan(const Session& session, RunFlags flags) {
  ARROW_RETURN_NOT_OK(flags.plan.Check());
  ARROW_ASSIGN_OR_RAISE(auto table, session.Open(flags.table));
  std::vector<std::string> notes;
  ClusteringSpec spec;
  if (flags.columns.empty()) {
    ARROW_ASSIGN_OR_RAISE(spec, RequireDeclaration(*table, &notes));
  } else {
    ARROW_ASSIGN_OR_RAISE(spec, SpecOfColumns(*table, flags.columns));
    ARROW_RETURN_NOT_OK(spec.Validate());
  }
  ARROW_ASSIGN_OR_RAISE(const auto inputs,
                        ResolvePlanInputs(*table, flags.plan.plan, flags.plan.target_file_bytes,
                                          flags.plan.target_file_rows));
  // Tasks that are to be executed need the indexes brought up to date now: nobody does it later.
  const bool dry_run = flags.tasks_out.empty() && flags.selections_out.empty();
  Layout layout;
  Plan plan;
  std::vector<std::string> done;
  for (bool planned = false; !planned;) {
    ARROW_ASSIGN_OR_RAISE(layout, table->DescribeLayout(spec.columns));
    ARROW_ASSIGN_OR_RAISE(plan, MakePlan(layout, spec, inputs.options));
    planned = true;
    if (!flags.plan.update_indexes || plan.selections.empty()) continue;
    if (!dry_run) ARROW_RETURN_NOT_OK(table->CheckWritable());
    ARROW_ASSIGN_OR_RAISE(const auto unified,
                          table->UnifyIndexes(SelectedUnits(layout, plan), dry_run));
    if (!unified.note.empty()) done.push_back(unified.note);
    planned = !unified.committed;  // otherwise the plan was made for the version before
  }
  AddNotes(notes, &layout.notes);
  plan.notes.insert(plan.notes.end(), done.begin(), done.end());

  const bool anything = !plan.selections.empty();
  std::string run_id = flags.plan.run_id;
  PlannedFiles files;
  if (anything && !dry_run) {
    if (run_id.empty()) run_id = NewUuid();
    ARROW_ASSIGN_OR_RAISE(
        files, WritePlanned(session, *table, spec, layout, plan, run_id, inputs.sizes, &flags));
  }

  Json json = CommandJson("plan", table->name());
  json["policy"] = ToString(flags.plan.plan.policy.value_or(spec.policy));
  json["run_id"] = run_id;
  json.update(PlanJson(layout, plan));
  // Known only after a run.
  for (const char* key : {"snapshot_after", "spill_bytes", "peak_memory_bytes"}) {
    json[key] = nullptr;
  }
  if (!flags.tasks_out.empty()) json["tasks"] = files.tasks;
  if (!flags.selections_out.empty()) json["selections"] = files.selections;
  std::string text = PlanText(layout, plan);
  const auto tell = [&](const std::vector<std::string>& written, const char* what,
                        const std::string& folder) {
    if (written.empty()) return;
    text += fmt::format("{} of run {} in {}\n", Plural(static_cast<int64_t>(written.size()), what),
                        run_id, folder);
  };
  tell(files.tasks, "task", flags.tasks_out);
  tell(files.selections, "selection", flags.selections_out);
  return session.Print(json, text);
}

// --- optimize

arrow::Status RunOptimize(const Session& session, const RunFlags& flags) {
  ARROW_RETURN_NOT_OK(flags.plan.Check());
  ARROW_ASSIGN_OR_RAISE(auto table, session.OpenForWriting(flags.table));
  std::vector<std::string> notes;
  ARROW_RETURN_NOT_OK(RequireDeclaration(*table, &notes).status());
  OptimizeOptions options;
  options.plan = flags.plan.plan;
  options.execute = flags.execute;
  options.run_id = flags.plan.run_id;
  options.target_file_bytes = flags.plan.target_file_bytes;
  options.target_file_rows = flags.plan.target_file_rows;
  options.update_indexes = flags.plan.update_indexes;
  options.orphan_age_seconds = flags.orphan_age_seconds;
  arrow::Result<OptimizeReport> report = arrow::Status::Invalid("");
  {
    const WorkScope work(session, &options.execute);
    report = Optimize(*table, options);
  }
  ARROW_RETURN_NOT_OK(report.status());
  AddNotes(notes, &report->notes);
  const std::string spill_dir = SpillFolder(options.execute);
  return session.Print(ReportJson("optimize", table->name(), *report, spill_dir),
                       ReportText(*report, spill_dir));
}

// --- clean

struct CleanFlags {
  std::string table;
  bool dry_run = false;
  double orphan_age_seconds = 86400;
};

arrow::Status RunClean(const Session& session, const CleanFlags& flags) {
  ARROW_ASSIGN_OR_RAISE(
      auto table, flags.dry_run ? session.Open(flags.table) : session.OpenForWriting(flags.table));
  ARROW_ASSIGN_OR_RAISE(const CleanReport report,
                        CleanDeadRuns(*table, flags.orphan_age_seconds, flags.dry_run));
  Json json = CommandJson("clean", table->name());
  json["outcome"] = report.runs.empty() ? "nothing-to-do" : flags.dry_run ? "planned" : "cleaned";
  if (report.runs.empty()) json["reason"] = "no run has left anything";
  json["dry_run"] = flags.dry_run;
  json["runs"] = Json::array();
  TextTable runs({"run", "state", ">files", ">size"});
  for (const auto& run : report.runs) {
    json["runs"].push_back(
        {{"run_id", run.run_id}, {"state", run.state}, {"files", run.files}, {"bytes", run.bytes}});
    runs.Add({run.run_id, run.state, FormatCount(run.files), FormatBytes(run.bytes)});
  }
  json["files_deleted"] = report.files_deleted;
  json["bytes_deleted"] = report.bytes_deleted;
  std::string text = "nothing to do: no run has left anything\n";
  if (!report.runs.empty()) {
    text = runs.ToString() + fmt::format("{} {} ({})\n", flags.dry_run ? "would delete" : "deleted",
                                         Plural(report.files_deleted, "file"),
                                         FormatBytes(report.bytes_deleted));
  }
  return session.Print(json, text);
}

}  // namespace

void AddRunCommands(CLI::App& app, Session& session) {
  auto plan = std::make_shared<RunFlags>();
  CLI::App* command = AddCommand(
      app, "plan", "Show what optimize would rewrite, and what it would gain. Changes nothing.",
      "  thalweg plan prod.web.events\n"
      "  thalweg plan ./events --max-source-bytes 100GB --json\n"
      "  thalweg plan ./events --columns country,event_time   # as if these were declared\n"
      "  thalweg plan ./events --tasks-out tasks --max-task-bytes 20GiB");
  AddTable(command, &plan->table);
  command
      ->add_option("--columns", plan->columns,
                   "plan as if these were declared instead: what it would take and give")
      ->option_text("A,B");
  AddPlanOptions(command, &plan->plan);
  command
      ->add_option("--tasks-out", plan->tasks_out,
                   "write the tasks as task-00000.json … into this folder, for thalweg execute")
      ->option_text("DIR")
      ->excludes("--columns");
  command
      ->add_option("--selections-out", plan->selections_out,
                   "write the selections as selection-00000.json … into this folder, without a key "
                   "model, for thalweg sample")
      ->option_text("DIR")
      ->excludes("--tasks-out")
      ->excludes("--columns");
  AddExecuteOptions(command, &plan->execute, /*verify=*/false);
  command->callback(
      [&session, plan] { session.action = [&session, plan] { return RunPlan(session, *plan); }; });

  auto optimize = std::make_shared<RunFlags>();
  command = AddCommand(
      app, "optimize",
      "Rewrite what is worth rewriting: plan, sort, verify and commit as one change.",
      "  thalweg optimize prod.web.events\n"
      "  thalweg optimize ./events --full --memory 8GiB --spill-dir /fast/tmp\n"
      "  thalweg optimize ./events --max-source-bytes 100GB --run-id nightly-2026-11-30");
  AddTable(command, &optimize->table);
  AddPlanOptions(command, &optimize->plan);
  AddDuration(command, "--orphan-age", &optimize->orphan_age_seconds,
              "leftovers of runs not heard of for this long are reclaimed (default: 24h)");
  AddExecuteOptions(command, &optimize->execute, /*verify=*/true);
  command->callback([&session, optimize] {
    session.action = [&session, optimize] { return RunOptimize(session, *optimize); };
  });

  auto clean = std::make_shared<CleanFlags>();
  command = AddCommand(app, "clean", "Delete the files that runs left which died.",
                       "  thalweg clean prod.web.events --dry-run\n"
                       "  thalweg clean prod.web.events --orphan-age 6h");
  AddTable(command, &clean->table);
  command->add_flag("--dry-run", clean->dry_run, "only say what would be deleted");
  AddDuration(command, "--orphan-age", &clean->orphan_age_seconds,
              "runs not heard of for this long count as dead (default: 24h)");
  command->callback([&session, clean] {
    session.action = [&session, clean] { return RunClean(session, *clean); };
  });
}

}  // namespace thalweg::cli
