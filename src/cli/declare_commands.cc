#include <algorithm>
#include <memory>
#include <optional>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/session.h"
#include "key/key_type.h"
#include "util/status.h"
#include "util/units.h"

namespace thalweg::cli {
namespace {

struct SetFlags {
  std::string table;
  std::string columns;
  std::optional<Curve> curve;
  std::optional<int> bits;
  std::optional<Algorithm> algorithm;
  std::optional<int64_t> version, target_cube_bytes, min_cube_bytes;
  std::optional<Policy> policy;
  std::optional<double> theta;
  bool allow_single = false;
};

/// The declaration that the command asks for: what it does not name stays as declared.
arrow::Result<ClusteringSpec> WantedSpec(const Table& table, const SetFlags& flags) {
  ARROW_ASSIGN_OR_RAISE(ClusteringSpec spec, SpecOfColumns(table, flags.columns, flags.algorithm));
  // Without a declaration a target alone moves the minimum along with it, as it does in the table's
  // properties.
  const auto declared = table.declaration();
  const bool minimum_follows =
      !(declared.ok() && declared->spec) && spec.min_cube_bytes == spec.target_cube_bytes / 2;
  spec.curve = flags.curve.value_or(spec.curve);
  spec.bits_per_dim = flags.bits.value_or(spec.bits_per_dim);
  spec.target_cube_bytes = flags.target_cube_bytes.value_or(spec.target_cube_bytes);
  if (flags.target_cube_bytes &&
      (minimum_follows || spec.min_cube_bytes > spec.target_cube_bytes)) {
    spec.min_cube_bytes = std::max<int64_t>(1, spec.target_cube_bytes / 2);
  }
  spec.min_cube_bytes = flags.min_cube_bytes.value_or(spec.min_cube_bytes);
  spec.policy = flags.policy.value_or(spec.policy);
  spec.theta = flags.theta.value_or(spec.theta);
  ARROW_RETURN_NOT_OK(spec.Validate());
  return spec;
}

arrow::Status RunSet(const Session& session, const SetFlags& flags) {
  ARROW_ASSIGN_OR_RAISE(auto table, session.OpenForWriting(flags.table));
  ARROW_ASSIGN_OR_RAISE(const ClusteringSpec spec, WantedSpec(*table, flags));
  ARROW_ASSIGN_OR_RAISE(const bool changed,
                        table->SetDeclaration(spec, flags.version, flags.allow_single));
  // As the table has it now: formats add to it (a version).
  ARROW_ASSIGN_OR_RAISE(const Declaration declared, table->declaration());
  const ClusteringSpec& shown = declared.spec ? *declared.spec : spec;
  std::vector<std::string> notes;
  Json json = CommandJson("set", table->name());
  json["outcome"] = changed ? "committed" : "nothing-to-do";
  if (!changed) json["reason"] = "this is declared already";
  json["spec"] = SpecJson(shown);
  json["notes"] = notes;
  std::string text = changed ? "declared for " + table->name() + "\n" + SpecText(shown)
                             : "nothing to do: this is declared already\n";
  return session.Print(json, text + NotesText(notes));
}

arrow::Status RunSpec(const Session& session, const std::string& name) {
  ARROW_ASSIGN_OR_RAISE(auto table, session.Open(name));
  ARROW_ASSIGN_OR_RAISE(Declaration declaration, table->declaration());
  if (!declaration.problem.empty()) {
    return Invalid("{}: {}", table->name(), declaration.problem);
  }
  std::vector<std::string> notes = std::move(declaration.notes);
  Json json = CommandJson("spec", table->name());
  std::string text;
  if (declaration.spec) {
    json["spec"] = SpecJson(*declaration.spec);
    text = SpecText(*declaration.spec);
  } else {
    json["spec"] = nullptr;
    text = "not declared\n";
    ARROW_ASSIGN_OR_RAISE(const auto cleared, ClearedNotes(*table));
    notes.insert(notes.end(), cleared.begin(), cleared.end());
  }
  json["notes"] = notes;
  return session.Print(json, text + NotesText(notes));
}

arrow::Status RunClear(const Session& session, const std::string& name) {
  // Also for tables that cannot be rewritten (any more).
  ARROW_ASSIGN_OR_RAISE(auto table, session.Open(name));
  ARROW_ASSIGN_OR_RAISE(const bool changed, table->ClearDeclaration());
  ARROW_ASSIGN_OR_RAISE(const auto notes, ClearedNotes(*table));
  Json json = CommandJson("clear", table->name());
  json["outcome"] = changed ? "committed" : "nothing-to-do";
  if (!changed) json["reason"] = "nothing is declared";
  json["notes"] = notes;
  const std::string text =
      changed ? "cleared: " + table->name() + " declares no clustering columns any more\n"
              : "nothing to do: nothing is declared\n";
  return session.Print(json, text + NotesText(notes));
}

void AddSet(CLI::App& app, Session& session) {
  CLI::App* command = AddCommand(
      app, "set", "Declare the clustering columns of a table (metadata only).",
      "  thalweg set prod.web.events --columns user_id,event_time\n"
      "  thalweg set ./events --columns user_id,event_time "
      "--target-cube-size 1GiB --min-cube-size 512MiB\n"
      "  thalweg set ./events --columns day --allow-single",
      "Options that are left out keep what is declared; an identical declaration changes nothing.");
  auto flags = std::make_shared<SetFlags>();
  AddTable(command, &flags->table);
  command
      ->add_option(
          "--columns", flags->columns,
          "two to four column names, most queried first; a name with a comma in double quotes")
      ->option_text("A,B");
  AddParsed(command, "--curve", &flags->curve, "hilbert|zorder", ParseCurve,
            "space-filling curve (default: hilbert)");
  command->add_option("--bits", flags->bits, "bits per column, 1 to 32 (default: 16)")
      ->option_text("N");
  AddParsed(command, "--algorithm", &flags->algorithm, "NAME", ParseAlgorithm,
            "typed-quantile-rank-v1 (default) or quantile-rank-v1");
  AddParsed(command, "--version", &flags->version, "N", ParseWhole,
            "number of the declaration (Lance only)");
  AddParsed(command, "--target-cube-size", &flags->target_cube_bytes, "SIZE", ParseBytes,
            "size of cubes (default: 10GiB)");
  AddParsed(command, "--min-cube-size", &flags->min_cube_bytes, "SIZE", ParseBytes,
            "smaller cubes are rewritten (default: 5GiB)");
  AddParsed(command, "--policy", &flags->policy, "size|overlap", ParsePolicy,
            "what optimize rewrites (default: size)");
  command->add_option("--theta", flags->theta, "threshold of the policy overlap (default: 0.42)")
      ->option_text("SHARE");
  command->add_flag("--allow-single", flags->allow_single, "accept one column");
  command->callback([&session, flags] {
    session.action = [&session, flags] { return RunSet(session, *flags); };
  });
}

}  // namespace

arrow::Result<std::vector<ClusteringColumn>> ResolveColumns(const Table& table,
                                                            const std::string& list) {
  ARROW_ASSIGN_OR_RAISE(const auto names, ParseColumnList(list));
  std::vector<ClusteringColumn> columns;
  columns.reserve(names.size());
  for (const auto& name : names) {
    ARROW_ASSIGN_OR_RAISE(columns.emplace_back(), table.ResolveColumn(name));
  }
  return columns;
}

arrow::Result<ClusteringSpec> SpecOfColumns(const Table& table, const std::string& columns,
                                            std::optional<Algorithm> algorithm) {
  ClusteringSpec spec;
  // A declaration that cannot be used is replaced, so its own failure does not matter here.
  const auto declared = table.declaration();
  if (declared.ok()) spec = declared->spec ? *declared->spec : declared->settings;
  if (!columns.empty()) {
    ARROW_ASSIGN_OR_RAISE(spec.columns, ResolveColumns(table, columns));
  } else if (spec.columns.empty()) {
    return Usage("{}: no clustering columns are declared yet; name them with --columns a,b",
                 table.name());
  }
  if (algorithm) {
    spec.algorithm = *algorithm;
  } else if (!(declared.ok() && declared->spec)) {
    if (spec.algorithm == Algorithm::kTypedQuantileRankV1) {
      ARROW_ASSIGN_OR_RAISE(spec.algorithm, table.DefaultAlgorithm(spec.columns));
    }
  } else {
    // The algorithm goes on, unless the new columns are of types that only the wider one takes.
    ARROW_ASSIGN_OR_RAISE(const auto schema, table.schema());
    for (const auto& column : spec.columns) {
      const auto field = schema->GetFieldByName(column.name);
      if (field != nullptr && !KeyTypeOf(*field->type(), spec.algorithm).ok()) {
        spec.algorithm = Algorithm::kTypedQuantileRankV1;
      }
    }
  }
  return spec;
}

void AddDeclareCommands(CLI::App& app, Session& session) {
  AddSet(app, session);

  auto table = std::make_shared<std::string>();
  CLI::App* spec = AddCommand(app, "spec", "Show what a table declares.",
                              "  thalweg spec prod.web.events\n  thalweg spec ./events --json");
  AddTable(spec, table.get());
  spec->callback([&session, table] {
    session.action = [&session, table] { return RunSpec(session, *table); };
  });

  CLI::App* clear = AddCommand(app, "clear", "Drop the declaration of a table (metadata only).",
                               "  thalweg clear prod.web.events",
                               "Files keep the stamps that say how they were clustered.");
  AddTable(clear, table.get());
  clear->callback([&session, table] {
    session.action = [&session, table] { return RunClear(session, *table); };
  });
}

}  // namespace thalweg::cli
