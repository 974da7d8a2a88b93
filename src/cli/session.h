#pragma once

#include <arrow/result.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/host.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "table/table.h"
#include "util/json.h"

namespace CLI {
class App;
}

namespace thalweg::cli {

/// What all commands share: the global options, opening tables, and the one place where results are
/// printed.
struct Session {
  /// The program that the command runs in; nullptr: a terminal.
  const Host* host = nullptr;
  bool json = false;
  bool quiet = false;
  std::vector<std::string> catalog_properties;  ///< "key=value"
  /// What an interruption leaves, for its message.
  std::string left_behind = "nothing was changed";
  /// The command that was asked for; set while the command line is parsed.
  std::function<arrow::Status()> action;

  arrow::Result<std::map<std::string, std::string>> CatalogOverrides() const;
  arrow::Result<std::unique_ptr<Table>> Open(const std::string& table) const;
  /// The same, for commands that will write: CheckWritable() included.
  arrow::Result<std::unique_ptr<Table>> OpenForWriting(const std::string& table) const;
  /// The rows that the host hands over, nullptr when they are in files.
  arrow::RecordBatchReader* host_rows() const {
    return host == nullptr ? nullptr : host->rows.get();
  }
  /// Those rows, or those of the files (see OpenInputFiles).
  arrow::Result<std::unique_ptr<RowSource>> OpenRows(
      const std::vector<std::string>& files, const std::shared_ptr<arrow::Schema>& schema) const;

  /// Gives the result: to the host, or prints `object` with --json, else `text` (nothing with
  /// --quiet).
  arrow::Status Print(const Json& object, const std::string& text) const;

  /// The result that the host is to have.
  mutable std::string result;
  /// True once the command had its table, fit for what was to be done.
  mutable bool has_table = false;
};

/// While it lives a command can be asked to stop and tells how far it is: by signals and with a bar
/// on the terminal, or as its host wants it. `options` are made to go by it.
class WorkScope {
 public:
  WorkScope(const Session& session, ExecuteOptions* options);

 private:
  std::optional<InterruptScope> interrupt_;
  std::optional<ProgressBar> bar_;
};

/// A subcommand with its examples, and remarks before them in its help.
CLI::App* AddCommand(CLI::App& app, const std::string& name, const std::string& description,
                     const std::string& examples, const std::string& remarks = "");
/// The options that the program and every command have.
void AddGeneralOptions(CLI::App* command, Session& session);

/// The table's usable declaration; a usage error that says what to do when nothing is declared, an
/// error with the problem when the declaration cannot be used.
arrow::Result<ClusteringSpec> RequireDeclaration(const Table& table,
                                                 std::vector<std::string>* notes);

/// The columns of a list as users write it ("a,b").
arrow::Result<std::vector<ClusteringColumn>> ResolveColumns(const Table& table,
                                                            const std::string& list);
/// What the table declares, or would, with these columns instead (a list as users write it; "": the
/// declared ones), and by this algorithm instead of the one that suits them. Not validated.
arrow::Result<ClusteringSpec> SpecOfColumns(const Table& table, const std::string& columns,
                                            std::optional<Algorithm> algorithm = {});

/// Sets Cube::overlapping of the cubes that the policy overlap would rewrite, whatever the table's
/// policy and budgets.
arrow::Status MarkWhatOverlaps(const Table& table, const ClusteringSpec& spec, Layout* layout);

/// Notes for a table without a declaration that holds files clustered earlier.
std::vector<std::string> ClearedNotes(const Layout& layout);
arrow::Result<std::vector<std::string>> ClearedNotes(const Table& table);

}  // namespace thalweg::cli
