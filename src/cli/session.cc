#include "cli/session.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "cli/output.h"
#include "cli/progress.h"
#include "table/open.h"
#include "task/optimize.h"
#include "task/write.h"
#include "util/status.h"

namespace thalweg::cli {

arrow::Result<std::map<std::string, std::string>> Session::CatalogOverrides() const {
  std::map<std::string, std::string> overrides;
  for (const auto& text : catalog_properties) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Usage("--catalog-property \"{}\": write key=value", text);
    }
    overrides[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return overrides;
}

arrow::Result<std::unique_ptr<Table>> Session::Open(const std::string& table) const {
  std::unique_ptr<Table> opened;
  if (host != nullptr && host->open) {
    ARROW_ASSIGN_OR_RAISE(opened, host->open(table));
  } else {
    ARROW_ASSIGN_OR_RAISE(auto overrides, CatalogOverrides());
    ARROW_ASSIGN_OR_RAISE(opened, OpenTable(table, overrides));
  }
  has_table = true;
  return opened;
}

arrow::Result<std::unique_ptr<Table>> Session::OpenForWriting(const std::string& table) const {
  ARROW_ASSIGN_OR_RAISE(auto opened, Open(table));
  has_table = false;
  ARROW_RETURN_NOT_OK(opened->CheckWritable());
  has_table = true;
  return opened;
}

arrow::Result<std::unique_ptr<RowSource>> Session::OpenRows(
    const std::vector<std::string>& files, const std::shared_ptr<arrow::Schema>& schema) const {
  if (host_rows() != nullptr) return RowsOfReader(host->rows);
  return OpenInputFiles(files, schema);
}

arrow::Status Session::Print(const Json& object, const std::string& text) const {
  if (host != nullptr) {
    result = DumpJson(object);
    return arrow::Status::OK();
  }
  const std::string out = json ? DumpJson(object) + "\n" : quiet ? "" : text;
  if (!WriteOut(out)) {
    return Invalid("standard output cannot be written; what was asked for was done");
  }
  return arrow::Status::OK();
}

WorkScope::WorkScope(const Session& session, ExecuteOptions* options) {
  if (session.host != nullptr) {
    options->stop = session.host->stop;
    options->progress = session.host->progress;
    return;
  }
  interrupt_.emplace();
  bar_.emplace(!session.quiet && StderrIsTerminal());
  options->stop = interrupt_->token();
  options->progress = bar_->callback();
}

CLI::App* AddCommand(CLI::App& app, const std::string& name, const std::string& description,
                     const std::string& examples, const std::string& remarks) {
  CLI::App* command = app.add_subcommand(name, description);
  command->footer((remarks.empty() ? "" : remarks + "\n\n") + "Examples:\n" + examples);
  return command;
}

void AddGeneralOptions(CLI::App* command, Session& session) {
  const char* group = "General";
  command->add_flag("--json", session.json, "print one JSON object on standard output")
      ->group(group);
  command->add_flag("--quiet", session.quiet, "print nothing but errors")->group(group);
  command
      ->add_option("--catalog-property", session.catalog_properties,
                   "a property of the catalog, before environment and .pyiceberg.yaml; repeatable")
      ->option_text("KEY=VALUE")
      ->allow_extra_args(false)
      ->group(group);
  command->set_help_flag("-h,--help", "print this help")->group(group);
}

arrow::Status MarkWhatOverlaps(const Table& table, const ClusteringSpec& spec, Layout* layout) {
  ARROW_ASSIGN_OR_RAISE(const auto inputs, ResolvePlanInputs(table, {}, -1, -1));
  PlanOptions options = inputs.options;
  options.policy = Policy::kOverlap;
  options.budgets = {};
  ARROW_ASSIGN_OR_RAISE(const Plan plan, MakePlan(*layout, spec, options));
  MarkOverlapping(plan, layout);
  return arrow::Status::OK();
}

std::vector<std::string> ClearedNotes(const Layout& layout) {
  const int64_t stamped = std::count_if(layout.units.begin(), layout.units.end(),
                                        [](const Unit& unit) { return unit.stamp.has_value(); });
  std::vector<std::string> notes;
  if (stamped > 0) {
    notes.push_back(
        fmt::format("the declaration was cleared; {} still clustered by an earlier one {}",
                    Plural(stamped, layout.unit_name), stamped == 1 ? "remains" : "remain"));
  }
  return notes;
}

arrow::Result<std::vector<std::string>> ClearedNotes(const Table& table) {
  ARROW_ASSIGN_OR_RAISE(const Layout layout, table.DescribeLayout({}));
  return ClearedNotes(layout);
}

arrow::Result<ClusteringSpec> RequireDeclaration(const Table& table,
                                                 std::vector<std::string>* notes) {
  ARROW_ASSIGN_OR_RAISE(Declaration declaration, table.declaration());
  notes->insert(notes->end(), declaration.notes.begin(), declaration.notes.end());
  if (!declaration.problem.empty()) return Invalid("{}: {}", table.name(), declaration.problem);
  if (!declaration.spec) {
    ARROW_ASSIGN_OR_RAISE(const auto cleared, ClearedNotes(table));
    return Usage(
        "{}: no clustering columns are declared{}; declare them with: thalweg set {} --columns a,b",
        table.name(), cleared.empty() ? "" : " (" + cleared.front() + ")", table.name());
  }
  return *std::move(declaration.spec);
}

}  // namespace thalweg::cli
