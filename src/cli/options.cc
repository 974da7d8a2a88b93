#include "cli/options.h"

#include <cstdlib>

#include "table/run_tag.h"
#include "util/number.h"
#include "util/status.h"
#include "util/units.h"

namespace thalweg::cli {

arrow::Result<std::vector<std::string>> ParseColumnList(std::string_view text) {
  std::vector<std::string> names;
  size_t at = 0;
  auto skip_blanks = [&] {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\t')) ++at;
  };
  while (true) {
    std::string name;
    skip_blanks();
    if (at < text.size() && text[at] == '"') {
      for (++at;; ++at) {
        if (at == text.size()) return Usage("column list {}: a quote is not closed", text);
        if (text[at] == '"') {
          if (at + 1 == text.size() || text[at + 1] != '"') break;
          ++at;
        }
        name += text[at];
      }
      ++at;
      skip_blanks();
      if (at < text.size() && text[at] != ',') {
        return Usage("column list {}: expected a comma after \"{}\"", text, name);
      }
    } else {
      while (at < text.size() && text[at] != ',') name += text[at++];
      while (!name.empty() && (name.back() == ' ' || name.back() == '\t')) name.pop_back();
    }
    if (name.empty()) return Usage("column list \"{}\" has an empty name: write a,b", text);
    names.push_back(std::move(name));
    if (at == text.size()) return names;
    ++at;  // the comma
  }
}

arrow::Result<int64_t> ParseWhole(std::string_view text) {
  const auto count = ParseCount(text);
  if (!count) return Usage("\"{}\" is no count: use a whole number from 0", text);
  return *count;
}

void AddTable(CLI::App* command, std::string* table) {
  command->add_option("TABLE", *table, "a path, or CATALOG.NAMESPACE.TABLE")
      ->required()
      ->option_text(" ");
}

CLI::Option* AddBytes(CLI::App* command, const std::string& name, int64_t* target,
                      const std::string& help) {
  return AddParsed<int64_t>(command, name, target, "SIZE", ParseBytes, help);
}

CLI::Option* AddDuration(CLI::App* command, const std::string& name, double* seconds,
                         const std::string& help) {
  return AddParsed<double>(command, name, seconds, "DURATION", ParseDuration, help);
}

CLI::Option* AddCount(CLI::App* command, const std::string& name, int64_t* target,
                      const std::string& help) {
  return AddParsed<int64_t>(command, name, target, "N", ParseWhole, help);
}

arrow::Result<bool> ParseSortScope(std::string_view text) {
  if (text == "table" || text == "group") return text == "group";
  return Usage("\"{}\" is no scope of a sort: use table or group", text);
}

CLI::Option* AddVerify(CLI::App* command, Verify* verify, const std::string& help) {
  return AddParsed<Verify>(command, "--verify", verify, "counts|digest|full", ParseVerify, help);
}

void AddExecuteOptions(CLI::App* command, ExecuteOptions* options, bool verify) {
  const char* group = "Resources";
  AddBytes(command, "--memory", &options->memory_bytes,
           "memory that the process may hold (default: a quarter of the machine's)")
      ->group(group);
  command
      ->add_option("--spill-dir", options->spill_dir,
                   "folder for what does not fit into memory (default: $TMPDIR or /tmp)")
      ->check(CLI::ExistingDirectory)
      ->option_text("DIR")
      ->group(group);
  AddBytes(command, "--max-spill-bytes", &options->max_spill_bytes,
           "give up rather than spill more than this (default: no limit)")
      ->group(group);
  command
      ->add_option("--threads", options->threads, "threads (default: all that the process may use)")
      ->check(CLI::Range(1, 1024))
      ->option_text("N")
      ->group(group);
  if (verify) {
    AddVerify(command, &options->verify,
              "how the written rows are compared with the read ones (default: digest)")
        ->group(group);
  }
}

std::string SpillFolder(const ExecuteOptions& options) {
  if (!options.spill_dir.empty()) return options.spill_dir;
  const char* folder = std::getenv("TMPDIR");
  return folder == nullptr || *folder == '\0' ? "/tmp" : folder;
}

void AddTargetRows(CLI::App* command, int64_t* rows) {
  command
      ->add_option(
          "--target-rows-per-fragment,--target-rows-per-file", *rows,
          "largest number of rows of a written fragment or file, before the size (default: "
          "the table's)")
      ->check(CLI::PositiveNumber)
      ->option_text("N");
}

void AddPlanOptions(CLI::App* command, PlanFlags* flags) {
  const char* budgets = "Budgets (hard limits on what one command reads; none by default)";
  for (const char* name : {"--max-source-files", "--max-source-fragments"}) {
    AddCount(command, name, &flags->plan.budgets.max_units, "files or fragments")->group(budgets);
  }
  AddCount(command, "--max-source-rows", &flags->plan.budgets.max_rows, "rows")->group(budgets);
  AddBytes(command, "--max-source-bytes", &flags->plan.budgets.max_bytes, "bytes as stored")
      ->group(budgets);
  command->add_flag("--full", flags->plan.full,
                    "rewrite everything, also what is healthy or clustered by other columns");
  AddParsed(command, "--policy", &flags->plan.policy, "size|overlap", ParsePolicy,
            "what to rewrite (default: the table's, else size)");
  command
      ->add_option("--theta", flags->plan.theta,
                   "policy overlap: a region is rewritten when that cuts the files that are "
                   "avoidably opened there by this share (default: the table's, else 0.42)")
      ->option_text("SHARE");
  AddBytes(command, "--target-file-size", &flags->target_file_bytes,
           "size of written files (default: the table's write.target-file-size-bytes)")
      ->check([](const std::string& text) {
        auto bytes = ParseBytes(text);
        return bytes.ok() && *bytes == 0 ? std::string("must be above 0") : std::string();
      });
  AddTargetRows(command, &flags->target_file_rows);
  AddBytes(command, "--max-task-bytes", &flags->plan.max_task_bytes,
           "split a larger selection into tasks along the curve (default: never)");
  AddParsed<bool>(
      command, "--sort-scope", &flags->plan.sort_per_stretch, "table|group", ParseSortScope,
      "table (default): one sort of all that is selected; group: one for each stretch of "
      "neighbouring fragments that reaches the target (Lance)");
  command->add_flag("--no-index-update{false}", flags->update_indexes,
                    "sort fragments that indexes cover differently apart, rather than bring the "
                    "indexes up to date first (Lance)");
  command
      ->add_option(
          "--run-id", flags->run_id,
          "name of this run; repeating a command with the same name is safe (default: a new UUID)")
      ->option_text("ID");
}

arrow::Status PlanFlags::Check() const {
  if (plan.theta && !(*plan.theta > 0 && *plan.theta < 1)) {
    return Usage("--theta {} is not between 0 and 1", *plan.theta);
  }
  if (!run_id.empty()) ARROW_RETURN_NOT_OK(CheckRunId(run_id));
  return arrow::Status::OK();
}

}  // namespace thalweg::cli
