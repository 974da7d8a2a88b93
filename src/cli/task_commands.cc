#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/report.h"
#include "cli/session.h"
#include "task/envelope.h"
#include "task/optimize.h"
#include "task/write.h"
#include "util/status.h"
#include "util/units.h"

namespace thalweg::cli {
namespace {

template <typename Envelope>
arrow::Result<std::vector<Envelope>> ReadEach(const std::vector<std::string>& paths,
                                              arrow::Result<Envelope> (*read)(const std::string&)) {
  std::vector<Envelope> envelopes;
  for (const auto& path : paths) {
    ARROW_ASSIGN_OR_RAISE(envelopes.emplace_back(), read(path));
  }
  return envelopes;
}

struct ExecuteFlags {
  std::string task;
  std::vector<std::string> rows;  ///< pieces
  std::string out;
  ExecuteOptions options;
  double orphan_age_seconds = 86400;
};

Json ResultJson(const ResultEnvelope& result, const std::string& out, bool done_before) {
  Json json = CommandJson("execute", result.task.table);
  json["outcome"] = done_before ? "nothing-to-do" : "executed";
  json["run_id"] = result.task.run_id;
  json["task"] = result.task.task;
  json["result"] = out;
  json["rows"] = result.rows;
  int64_t bytes = 0;
  for (const auto& unit : result.outputs) bytes += unit.bytes;
  json["output_units"] = result.outputs.size();
  json["output_bytes"] = bytes;
  json["spill_bytes"] = result.spilled_bytes;
  json["peak_memory_bytes"] = result.peak_memory_bytes;
  json["seconds"] = result.seconds;
  return json;
}

std::string ResultText(const ResultEnvelope& result, const ExecuteFlags& flags) {
  int64_t bytes = 0;
  for (const auto& unit : result.outputs) bytes += unit.bytes;
  return LabelledLines(
      {{"task", fmt::format("{} of run {}", result.task.task, result.task.run_id)},
       {"written", fmt::format("{}, {} ({})", Plural(result.rows, "row"),
                               Plural(static_cast<int64_t>(result.outputs.size()), "file"),
                               FormatBytes(bytes))},
       {"took", fmt::format("{}, spilled {} in {}", FormatDuration(result.seconds),
                            FormatBytes(result.spilled_bytes), SpillFolder(flags.options))},
       {"result", flags.out}});
}

/// The result that stands at --out, if it answers this task and its files are whole. Anything else
/// there is an error: it may name files that nobody else knows of.
arrow::Result<ResultEnvelope> EarlierResult(const Table& table, const TaskEnvelope& task,
                                            const std::string& out) {
  const auto advice = fmt::format(
      "{}: exists and is not the finished result of this task: name another file with --out, or "
      "delete it",
      out);
  auto result = ReadResult(out);
  if (!result.ok() || result->task.run_id != task.run_id ||
      result->task.selection_id != task.selection_id || result->task.task != task.task ||
      result->task.snapshot_id != task.snapshot_id) {
    return Invalid("{}", advice);
  }
  for (const auto& unit : result->outputs) {
    if (!table.CheckOutput(unit).ok()) return Invalid("{} (its file {} is gone)", advice, unit.id);
  }
  return result;
}

arrow::Status RunExecute(const Session& session, ExecuteFlags flags) {
  ARROW_ASSIGN_OR_RAISE(const TaskEnvelope task, ReadTask(flags.task));
  ARROW_ASSIGN_OR_RAISE(auto table, session.OpenForWriting(task.table));
  std::error_code error;
  if (std::filesystem::exists(flags.out, error)) {
    ARROW_ASSIGN_OR_RAISE(const auto result, EarlierResult(*table, task, flags.out));
    return session.Print(
        ResultJson(result, flags.out, true),
        fmt::format("nothing to do: {} holds the result of this task already\n", flags.out));
  }
  std::unique_ptr<RowSource> given;
  if (session.host_rows() != nullptr || !flags.rows.empty()) {
    ARROW_ASSIGN_OR_RAISE(given, session.OpenRows(flags.rows, nullptr));
  }
  arrow::Result<ResultEnvelope> result = arrow::Status::Invalid("");
  {
    const WorkScope work(session, &flags.options);
    result = ExecuteTaskForCommit(*table, task, flags.options, flags.orphan_age_seconds,
                                  std::move(given));
  }
  ARROW_RETURN_NOT_OK(result.status());
  if (auto written = WriteResult(*result, flags.out); !written.ok()) {
    DiscardOutputs(*table, {*result});
    return written;
  }
  return session.Print(ResultJson(*result, flags.out, false), ResultText(*result, flags));
}

struct DiscardFlags {
  std::string table;
  std::vector<std::string> results;
};

arrow::Status RunDiscard(const Session& session, const DiscardFlags& flags) {
  ARROW_ASSIGN_OR_RAISE(auto table, session.OpenForWriting(flags.table));
  ARROW_ASSIGN_OR_RAISE(const auto results, ReadEach(flags.results, ReadResult));
  ARROW_ASSIGN_OR_RAISE(const DiscardReport report, DiscardResults(*table, results));
  Json json = CommandJson("discard", table->name());
  json["outcome"] = report.files > 0 ? "discarded" : "nothing-to-do";
  if (report.files == 0) {
    json["reason"] = report.committed > 0 ? "the files are committed" : "the files are gone";
  }
  json["files_deleted"] = report.files;
  json["bytes_deleted"] = report.bytes;
  json["files_committed"] = report.committed;
  return session.Print(
      json,
      fmt::format("deleted {} ({}){}\n", Plural(report.files, "file"), FormatBytes(report.bytes),
                  report.committed > 0
                      ? fmt::format("; {} committed and stay", FormatCount(report.committed))
                      : ""));
}

struct CommitFlags {
  std::string table;
  std::vector<std::string> results;
  std::vector<std::string> scans;
  ExecuteOptions options;
};

arrow::Status RunCommit(const Session& session, CommitFlags flags) {
  ARROW_ASSIGN_OR_RAISE(auto table, session.OpenForWriting(flags.table));
  ARROW_ASSIGN_OR_RAISE(const auto results, ReadEach(flags.results, ReadResult));
  ARROW_ASSIGN_OR_RAISE(const auto scans, ReadEach(flags.scans, ReadScanReport));
  arrow::Result<OptimizeReport> report = arrow::Status::Invalid("");
  {
    const WorkScope work(session, &flags.options);
    report = CommitResults(*table, results, flags.options, scans);
  }
  ARROW_RETURN_NOT_OK(report.status());
  const std::string spill_dir = SpillFolder(flags.options);
  return session.Print(ReportJson("commit", table->name(), *report, spill_dir),
                       ReportText(*report, spill_dir));
}

}  // namespace

void AddTaskCommands(CLI::App& app, Session& session) {
  auto execute = std::make_shared<ExecuteFlags>();
  CLI::App* command =
      AddCommand(app, "execute", "Sort and write the rows of one task of plan --tasks-out.",
                 "  thalweg plan ./events --tasks-out tasks --max-task-bytes 20GiB\n"
                 "  thalweg execute tasks/task-00000.json --out results/result-00000.json\n"
                 "  thalweg commit ./events results/*.json");
  command->add_option("TASK", execute->task, "task envelope (JSON)")->required()->option_text(" ");
  command->add_option("--out", execute->out, "where the result envelope goes")
      ->required()
      ->option_text("RESULT");
  command
      ->add_option("--rows", execute->rows,
                   "sort these pieces of thalweg scatter, all of the task's slice, instead of "
                   "reading the table")
      ->option_text("PIECE…");
  AddDuration(
      command, "--orphan-age", &execute->orphan_age_seconds,
      "how long the files wait for their commit before they may be reclaimed (default: 24h)");
  AddExecuteOptions(command, &execute->options, /*verify=*/true);
  command->callback([&session, execute] {
    session.action = [&session, execute] { return RunExecute(session, *execute); };
  });

  auto commit = std::make_shared<CommitFlags>();
  command = AddCommand(app, "commit",
                       "Check the results of executed tasks and commit them as one change.",
                       "  thalweg commit prod.web.events results/*.json");
  AddTable(command, &commit->table);
  command->add_option("RESULT", commit->results, "result envelopes (JSON), all slices of a run")
      ->required()
      ->option_text(" ");
  command
      ->add_option("--scan", commit->scans,
                   "scan reports of thalweg scatter, where the rows of the results came from it")
      ->option_text("SCAN…");
  AddVerify(command, &commit->options.verify,
            "counts accepts results that were executed without digests (default: digest)");
  AddBytes(command, "--memory", &commit->options.memory_bytes,
           "memory for the addresses that indexes of a Lance dataset follow (default: a quarter of "
           "the machine's)");
  command->callback([&session, commit] {
    session.action = [&session, commit] { return RunCommit(session, *commit); };
  });

  auto discard = std::make_shared<DiscardFlags>();
  command =
      AddCommand(app, "discard", "Delete the files of executed tasks that will not be committed.",
                 "  thalweg discard prod.web.events results/*.json");
  AddTable(command, &discard->table);
  command->add_option("RESULT", discard->results, "result envelopes (JSON)")
      ->required()
      ->option_text(" ");
  command->callback([&session, discard] {
    session.action = [&session, discard] { return RunDiscard(session, *discard); };
  });
}

}  // namespace thalweg::cli
