#pragma once

#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <arrow/util/cancel.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "table/table.h"
#include "task/execute.h"

namespace thalweg::cli {

/// What a program that runs commands inside itself (the Python package) puts in the place of a
/// terminal.
struct Host {
  /// Told how far a command is, from any thread; may be empty.
  std::function<void(const Progress&)> progress;
  arrow::StopToken stop = arrow::StopToken::Unstoppable();
  /// Opens the table of every command, whatever its name; empty: by its name.
  std::function<arrow::Result<std::unique_ptr<Table>>(const std::string& name)> open;
  /// What `write` writes and `execute` sorts, in the place of files.
  std::shared_ptr<arrow::RecordBatchReader> rows;
};

/// How a command failed.
struct CommandFailure {
  std::string kind;  ///< "usage", "table" (there is none to work on), "conflict", "unknown",
                     ///< "interrupted", "error"
  std::string message;
};

/// Runs one command, `words` as on the command line without the program's name. True: `result` is
/// the object that --json prints; false: `failure` tells why. Prints nothing, touches no signals.
/// Any number may run at once. Exceptions of the standard library are failures.
bool RunCommand(const std::vector<std::string>& words, const Host& host, std::string* result,
                CommandFailure* failure);

}  // namespace thalweg::cli
