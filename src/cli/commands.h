#pragma once

namespace CLI {
class App;
}

namespace thalweg::cli {

struct Session;

// Each adds its commands to the program; parsing one of them sets Session::action.
void AddDeclareCommands(CLI::App& app, Session& session);  ///< set, spec, clear
void AddWriteCommand(CLI::App& app, Session& session);     ///< write
void AddInspectCommands(CLI::App& app, Session& session);  ///< status, cubes, history
void AddReportCommand(CLI::App& app, Session& session);    ///< report
void AddRunCommands(CLI::App& app, Session& session);      ///< plan, optimize, clean
void AddShuffleCommands(CLI::App& app, Session& session);  ///< sample, fit, scatter
void AddTaskCommands(CLI::App& app, Session& session);     ///< execute, commit, discard

}  // namespace thalweg::cli
