#pragma once

#include <string>

#include <arrow/result.h>

namespace thalweg {

/// Run ids are 1 to 64 of [A-Za-z0-9._-]; anything else is a usage error.
arrow::Status CheckRunId(const std::string& run_id);

/// What names of files carry for a run: the run id itself when it is a UUID in canonical form, else
/// a UUID made from its hash. Always 36 characters, so that names stay parseable for other engines.
std::string RunTag(const std::string& run_id);

}  // namespace thalweg
