#include "cli/cli.h"

#include <arrow/compute/initialize.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <new>
#include <string_view>

#include "cli/commands.h"
#include "cli/output.h"
#include "cli/session.h"
#include "cli/signals.h"
#include "iceberg/iceberg_table.h"
#include "iceberg/s3_file_io.h"
#include "lance/lance_table.h"
#include "table/open.h"
#include "util/interrupt.h"
#include "util/status.h"
#include "util/version.h"

namespace thalweg::cli {
namespace {

constexpr int kInterrupted = 130;

constexpr char kFooter[] =
    "Examples:\n"
    "  thalweg set prod.web.events --columns user_id,event_time\n"
    "  thalweg status prod.web.events\n"
    "  thalweg optimize prod.web.events\n\n"
    "TABLE is a path if it contains / or ://, ends in .lance, or exists; else "
    "CATALOG.NAMESPACE.TABLE, with catalogs\n"
    "configured as for PyIceberg (.pyiceberg.yaml, PYICEBERG_CATALOG__NAME__KEY, "
    "--catalog-property).\n"
    "Sizes: KB MB GB are powers of 1000, KiB MiB GiB of 1024, bare numbers bytes.\n"
    "Exit codes: 0 done or nothing to do, 1 error, 2 usage, 3 conflict, 4 outcome unknown, 130 "
    "interrupted.\n"
    "thalweg COMMAND --help says more.";

/// CLI11's, without its doubled blank lines.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    return CLI::detail::find_and_replace(Formatter::make_help(app, name, mode), "\n\n\n", "\n\n");
  }
};

int ExitCode(const arrow::Status& status) {
  switch (KindOf(status)) {
    case FailureKind::kUsage:
      return 2;
    case FailureKind::kConflict:
      return 3;
    case FailureKind::kUnknown:
      return 4;
    case FailureKind::kError:
      break;
  }
  return 1;
}

void PrintError(bool json, std::string_view kind, const std::string& message) {
  std::fprintf(stderr, "thalweg: %s\n", message.c_str());
  if (json) WriteOut(DumpJson(ErrorJson(kind, message)) + "\n");
}

/// A failure after work was asked to stop is the interruption, whatever a stage on the way has made
/// of it.
bool IsInterruption(const arrow::Status& status, bool stop_requested) {
  return status.IsCancelled() || (stop_requested && KindOf(status) == FailureKind::kError);
}

int Report(const Session& session, const arrow::Status& status) {
  if (status.ok()) return 0;
  if (IsInterruption(status, WasInterrupted())) {
    PrintError(session.json, "error", "interrupted; " + session.left_behind);
    return kInterrupted;
  }
  PrintError(session.json, KindName(status), OneLine(status));
  return ExitCode(status);
}

/// What the parser says, with the next step, as one line.
std::string UsageMessage(const CLI::App& app, const CLI::ParseError& error) {
  std::string command = "thalweg";
  for (const CLI::App* used : app.get_subcommands()) command += " " + used->get_name();
  std::string message = OneLine(arrow::Status::Invalid(error.what()));
  while (!message.empty() && message.back() == '.') message.pop_back();
  return fmt::format("{}; see {} --help", message, command);
}

/// A first word that is no command: said as such, rather than as an unexpected argument.
std::string UnknownCommand(const CLI::App& app, int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with("-")) {
      if (word == "--catalog-property") ++i;
      continue;
    }
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands({})) {
      if (command->get_name() == word) return "";
      names.push_back(command->get_name());
    }
    return fmt::format("unknown command \"{}\"; the commands are: {}", word,
                       fmt::join(names, ", "));
  }
  return "";
}

/// The program with all its commands; parsing fills the session.
std::unique_ptr<CLI::App> MakeApp(Session& session) {
  auto app = std::make_unique<CLI::App>("Liquid clustering for lake tables.", "thalweg");
  app->require_subcommand(1);
  app->set_version_flag("--version", fmt::format("thalweg {}", kVersion));
  auto formatter = std::make_shared<HelpFormatter>();
  formatter->column_width(34);
  formatter->label("SUBCOMMAND", "COMMAND");
  app->formatter(formatter);
  app->footer(kFooter);
  AddDeclareCommands(*app, session);
  AddWriteCommand(*app, session);
  AddInspectCommands(*app, session);
  AddReportCommand(*app, session);
  AddRunCommands(*app, session);
  AddTaskCommands(*app, session);
  AddShuffleCommands(*app, session);
  AddGeneralOptions(app.get(), session);
  for (CLI::App* command : app->get_subcommands({})) {
    command->group("Commands");
    AddGeneralOptions(command, session);
  }
  return app;
}

int Run(int argc, const char* const* argv, Session& session) {
  const auto app = MakeApp(session);
  // A usage error comes before the flags are read.
  const bool json = std::any_of(
      argv, argv + argc, [](const char* word) { return std::string_view(word) == "--json"; });
  if (const std::string message = UnknownCommand(*app, argc, argv); !message.empty()) {
    PrintError(json, "usage", message);
    return 2;
  }
  try {
    app->parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app->exit(success);  // --help, --version
  } catch (const CLI::ParseError& error) {
    PrintError(json, "usage", UsageMessage(*app, error));
    return 2;
  }
  return Report(session, session.action());
}

/// Once in a process.
arrow::Status Prepare() {
  static const arrow::Status prepared = [] {
    ARROW_RETURN_NOT_OK(arrow::compute::Initialize());
    RegisterTableFormat(lance::LanceFormat());
    RegisterTableFormat(iceberg::IcebergFormat());
    return arrow::Status::OK();
  }();
  return prepared;
}

/// Does the work; what it throws is a failure.
template <typename Work>
arrow::Status Guarded(Work work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return Invalid("out of memory; lower --memory or --threads");
  } catch (const std::exception& error) {
    return Invalid("unexpected failure: {}", error.what());
  }
}

/// Ends what file systems keep in the background, last of all.
struct FinalizeAtEnd {
  ~FinalizeAtEnd() { iceberg::FinalizeS3(); }
};

}  // namespace

int Main(int argc, const char* const* argv) {
  // A reader that goes away must not end a run half-way.
  std::signal(SIGPIPE, SIG_IGN);
  const FinalizeAtEnd finalize;
  Session session;
  int code = 0;
  const auto status = Guarded([&]() -> arrow::Status {
    ARROW_RETURN_NOT_OK(Prepare());
    code = Run(argc, argv, session);
    return arrow::Status::OK();
  });
  return status.ok() ? code : Report(session, status);
}

bool RunCommand(const std::vector<std::string>& words, const Host& host, std::string* result,
                CommandFailure* failure) {
  const InterruptibleBy interruptible(host.stop);
  Session session;
  session.host = &host;
  const auto status = Guarded([&]() -> arrow::Status {
    ARROW_RETURN_NOT_OK(Prepare());
    const auto app = MakeApp(session);
    try {
      app->parse(std::vector<std::string>(words.rbegin(), words.rend()));
    } catch (const CLI::ParseError& error) {
      return Usage("{}", UsageMessage(*app, error));
    }
    return session.action();
  });
  if (status.ok()) {
    *result = std::move(session.result);
    return true;
  }
  const bool plain = KindOf(status) == FailureKind::kError;
  if (IsInterruption(status, host.stop.IsStopRequested())) {
    *failure = {"interrupted", "interrupted; " + session.left_behind};
  } else {
    *failure = {plain && !session.has_table ? "table" : std::string(KindName(status)),
                OneLine(status)};
  }
  return false;
}

}  // namespace thalweg::cli
