#pragma once

#include <string>
#include <string_view>

#include <arrow/result.h>

namespace thalweg {

/// Run ids are 1 to 64 of [A-Za-z0-9._-]; anything else is a usage error.
arrow::Status CheckRunId(const std::string& run_id);

/// What names of files carry for a run. Without a scope the run id itself when it is a UUID in
/// canonical form, else a UUID made from its hash; with a scope (a table's UUID) always a UUID made
/// from both: tables may share folders, and runs of different tables one id. Always 36 characters,
/// so that names stay parseable for other engines.
std::string RunTag(const std::string& run_id, const std::string& scope = "");

/// The name of a run intent: "thalweg-run-<tag of the run>-<attempt>.json".
std::string RunFileName(const std::string& run_tag, const std::string& attempt);

/// The tag of the run in the name of an intent, or of one that was being written when its writer
/// died ("<name of an intent>[.<anything>].tmp"); "" when it is neither.
std::string RunTagOfRunFile(std::string_view name);

/// Whether a name is an intent's, or looks like one: never that of a file that a run wrote.
bool LooksLikeRunFile(std::string_view name);

}  // namespace thalweg
