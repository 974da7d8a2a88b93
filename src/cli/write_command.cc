#include <memory>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/report.h"
#include "cli/session.h"
#include "key/key_type.h"
#include "table/open.h"
#include "table/run_tag.h"
#include "task/write.h"
#include "util/status.h"

namespace thalweg::cli {
namespace {

struct WriteFlags {
  std::string table;
  std::vector<std::string> files;
  std::string mode = "append";
  std::string cluster_by;
  std::string format_version;
  bool allow_single = false;
  WriteOptions options;
};

/// Refuses, before anything is created, columns that the new table could not declare.
arrow::Status CheckClusterColumns(const std::vector<std::string>& names,
                                  const arrow::Schema& schema) {
  if (names.empty()) return arrow::Status::OK();
  for (const auto& name : names) {
    const auto field = schema.GetFieldByName(name);
    if (field == nullptr) {
      return Usage("--cluster-by: the files have no column \"{}\" (or several); they have: {}",
                   name, fmt::join(schema.field_names(), ", "));
    }
    auto type = KeyTypeOf(*field->type(), Algorithm::kTypedQuantileRankV1);
    if (!type.ok()) return Usage("--cluster-by: column \"{}\": {}", name, type.status().message());
  }
  ClusteringSpec spec;
  for (const auto& name : names) spec.columns.push_back({name, -1});
  return spec.Validate();
}

/// The new table, empty; or the one that an earlier attempt of this very run has made.
arrow::Result<std::unique_ptr<Table>> CreateFor(const Session& session, const WriteFlags& flags,
                                                const std::vector<std::string>& cluster_by) {
  std::shared_ptr<arrow::Schema> schema;
  if (const auto* rows = session.host_rows()) {
    schema = rows->schema();
  } else {
    ARROW_ASSIGN_OR_RAISE(auto input, OpenInputFiles(flags.files, nullptr));
    schema = input->schema();
  }
  ARROW_RETURN_NOT_OK(CheckClusterColumns(cluster_by, *schema));
  ARROW_ASSIGN_OR_RAISE(auto overrides, session.CatalogOverrides());
  std::map<std::string, std::string> properties;
  if (!flags.format_version.empty()) properties["format-version"] = flags.format_version;
  auto created = CreateTable(flags.table, overrides, *schema, properties);
  session.has_table = created.ok();
  if (created.ok() || !created.status().IsAlreadyExists()) return created;
  if (!flags.options.run_id.empty()) {
    ARROW_ASSIGN_OR_RAISE(auto table, session.OpenForWriting(flags.table));
    ARROW_ASSIGN_OR_RAISE(const auto committed, table->FindRun(flags.options.run_id));
    if (committed || table->snapshot_id().empty()) return table;
  }
  return Usage("{}: the table exists already; use --mode append or --mode overwrite", flags.table);
}

/// --cluster-by where nothing is declared: declares it, or sorts by it once, as the format has it;
/// refuses it where something else is declared.
arrow::Status TakeColumns(Table& table, const std::vector<std::string>& names, bool allow_single,
                          WriteOptions* options, std::vector<std::string>* notes) {
  ARROW_ASSIGN_OR_RAISE(const Declaration declaration, table.declaration());
  if (!declaration.problem.empty()) return Invalid("{}: {}", table.name(), declaration.problem);
  if (names.empty()) return arrow::Status::OK();
  ClusteringSpec spec;
  for (const auto& name : names) {
    ARROW_ASSIGN_OR_RAISE(spec.columns.emplace_back(), table.ResolveColumn(name));
  }
  if (declaration.spec) {
    if (declaration.spec->columns == spec.columns) return arrow::Status::OK();
    return Usage(
        "{}: the table declares {}, not {}: leave --cluster-by out, or declare anew with: thalweg "
        "set {} --columns …",
        table.name(), JoinNames(declaration.spec->columns), JoinNames(spec.columns), table.name());
  }
  ARROW_RETURN_NOT_OK(spec.Validate());
  if (table.sorts_undeclared()) {
    options->sort_once = spec;
    notes->push_back("sorted once by " + JoinNames(spec.columns) +
                     ", which is not declared: declare it with `thalweg set`");
    return arrow::Status::OK();
  }
  ARROW_RETURN_NOT_OK(table.SetDeclaration(spec, std::nullopt, allow_single).status());
  notes->push_back("declared the clustering columns " + JoinNames(spec.columns));
  return arrow::Status::OK();
}

/// A failure after the table was made says that it is there.
arrow::Status WithEmptyTable(const arrow::Status& status) {
  const FailureKind kind = KindOf(status);
  if (status.IsCancelled() || kind == FailureKind::kUnknown) return status;
  return Failure(kind, OneLine(status) +
                           "; the new table is there, without rows: continue with --mode append");
}

arrow::Status RunWrite(Session& session, WriteFlags flags) {
  WriteOptions& options = flags.options;
  if (!options.run_id.empty()) ARROW_RETURN_NOT_OK(CheckRunId(options.run_id));
  std::vector<std::string> cluster_by;
  if (!flags.cluster_by.empty()) {
    ARROW_ASSIGN_OR_RAISE(cluster_by, ParseColumnList(flags.cluster_by));
    if (cluster_by.size() == 1 && !flags.allow_single) {
      return Usage("--cluster-by names one column: name two to four, or add --allow-single");
    }
  }
  if (!flags.format_version.empty() && flags.mode != "create") {
    return Usage("--format-version is for new tables: it goes with --mode create");
  }
  std::unique_ptr<Table> table;
  if (flags.mode == "create") {
    ARROW_ASSIGN_OR_RAISE(table, CreateFor(session, flags, cluster_by));
    session.left_behind = "the new table is empty";
  } else {
    ARROW_ASSIGN_OR_RAISE(table, session.OpenForWriting(flags.table));
  }
  std::vector<std::string> notes;
  ARROW_RETURN_NOT_OK(TakeColumns(*table, cluster_by, flags.allow_single, &options, &notes));
  ARROW_ASSIGN_OR_RAISE(const auto schema, table->schema());
  ARROW_ASSIGN_OR_RAISE(auto input, session.OpenRows(flags.files, schema));
  options.mode = flags.mode == "overwrite" ? WriteMode::kOverwrite : WriteMode::kAppend;

  arrow::Result<OptimizeReport> report = arrow::Status::Invalid("");
  {
    const WorkScope work(session, &options.execute);
    report = WriteRows(*table, std::move(input), options);
  }
  if (!report.ok())
    return flags.mode == "create" ? WithEmptyTable(report.status()) : report.status();
  AddNotes(notes, &report->notes);
  const std::string spill_dir = SpillFolder(options.execute);
  return session.Print(ReportJson("write", table->name(), *report, spill_dir),
                       ReportText(*report, spill_dir));
}

}  // namespace

void AddWriteCommand(CLI::App& app, Session& session) {
  CLI::App* command = AddCommand(
      app, "write",
      "Write Parquet, CSV or Arrow files into a table, clustered by what it declares.",
      "  thalweg write prod.web.events today.parquet\n"
      "  thalweg write ./events 2026-*.parquet --mode create --cluster-by user_id,event_time\n"
      "  thalweg write ./events all.csv --mode overwrite --run-id nightly-2026-11-30");
  auto flags = std::make_shared<WriteFlags>();
  AddTable(command, &flags->table);
  command->add_option("FILE", flags->files, "files of equal schemas, by their endings")
      ->required(session.host_rows() == nullptr)
      ->option_text(" ");
  command
      ->add_option("--mode", flags->mode,
                   "append (default); create: make the table, on a path ending in .lance a Lance "
                   "dataset, on "
                   "another in Hadoop layout; overwrite: "
                   "replace all rows")
      ->check(CLI::IsMember({"append", "create", "overwrite"}))
      ->option_text("append|create|overwrite");
  command
      ->add_option(
          "--cluster-by", flags->cluster_by,
          "clustering columns where the table declares none: declared (Iceberg), or for the "
          "sort of this write alone (Lance)")
      ->option_text("A,B");
  command
      ->add_option("--format-version", flags->format_version,
                   "of the Iceberg table that --mode create makes (default: 2)")
      ->check(CLI::IsMember({"2", "3"}))
      ->option_text("2|3");
  command->add_flag("--allow-single", flags->allow_single, "accept one clustering column");
  AddBytes(command, "--target-file-size", &flags->options.target_file_bytes,
           "size of written files (default: the table's write.target-file-size-bytes)");
  AddTargetRows(command, &flags->options.target_file_rows);
  command
      ->add_option(
          "--run-id", flags->options.run_id,
          "name of this run; repeating a command with the same name is safe (default: a new UUID)")
      ->option_text("ID");
  AddExecuteOptions(command, &flags->options.execute, /*verify=*/true);
  command->callback([&session, flags] {
    session.action = [&session, flags] { return RunWrite(session, *flags); };
  });
}

}  // namespace thalweg::cli
