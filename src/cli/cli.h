#pragma once

namespace thalweg::cli {

/// The program `thalweg`: parses the command line, runs one command, prints its result or error.
/// Gives the exit code: 0 done or nothing to do, 1 error, 2 usage, 3 conflict after all retries, 4
/// outcome unknown, 130 interrupted.
int Main(int argc, const char* const* argv);

}  // namespace thalweg::cli
