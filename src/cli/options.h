#pragma once

#include <arrow/result.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "layout/planner.h"
#include "task/execute.h"

namespace thalweg::cli {

/// Splits "a,b" at commas. Blanks around a name are dropped; a name that holds commas, quotes or
/// outer blanks is written in double quotes, with "" for a quote. Empty names and open quotes are
/// usage errors.
arrow::Result<std::vector<std::string>> ParseColumnList(std::string_view text);

/// A whole number from 0; anything else is a usage error.
arrow::Result<int64_t> ParseWhole(std::string_view text);

/// The TABLE argument.
void AddTable(CLI::App* command, std::string* table);
/// Options with a size ("512MiB"), a duration ("24h") and a number that is not negative. What
/// cannot be read is a usage error.
CLI::Option* AddBytes(CLI::App* command, const std::string& name, int64_t* target,
                      const std::string& help);
CLI::Option* AddDuration(CLI::App* command, const std::string& name, double* seconds,
                         const std::string& help);
CLI::Option* AddCount(CLI::App* command, const std::string& name, int64_t* target,
                      const std::string& help);
/// An option whose text `parse` turns into a value, for a T or an optional of it; its error is the
/// usage error.
template <typename T, typename Target>
CLI::Option* AddParsed(CLI::App* command, const std::string& name, Target* target, const char* type,
                       arrow::Result<T> (*parse)(std::string_view), const std::string& help) {
  const std::string shown = name.substr(0, name.find(','));
  auto read = [target, parse, shown](const std::string& text) {
    auto value = parse(text);
    if (!value.ok()) throw CLI::ValidationError(shown, value.status().message());
    *target = *std::move(value);
  };
  return command->add_option_function<std::string>(name, read, help)->option_text(type);
}

/// --target-rows-per-fragment.
void AddTargetRows(CLI::App* command, int64_t* rows);
CLI::Option* AddVerify(CLI::App* command, Verify* verify, const std::string& help);

/// --memory, --spill-dir, --max-spill-bytes, --threads, --verify.
void AddExecuteOptions(CLI::App* command, ExecuteOptions* options, bool verify);
/// Where spilled data goes: --spill-dir, else $TMPDIR, else /tmp.
std::string SpillFolder(const ExecuteOptions& options);

/// What decides a plan, shared by `plan` and `optimize`.
struct PlanFlags {
  PlanOptions plan;
  std::string run_id;
  int64_t target_file_bytes = -1;  ///< -1: the table's
  int64_t target_file_rows = -1;
  bool update_indexes = true;

  /// Refuses what does not go together.
  arrow::Status Check() const;
};
void AddPlanOptions(CLI::App* command, PlanFlags* flags);

}  // namespace thalweg::cli
