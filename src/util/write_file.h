#pragma once

#include <arrow/status.h>

#include <string>
#include <string_view>

namespace thalweg {

/// Writes a new local file and syncs it. With `replace` the text goes to a temporary file beside
/// it, which then takes the name at once, whatever had it; without, a file that is there is an
/// error. What is half written is deleted.
arrow::Status WriteWholeFile(const std::string& path, std::string_view text, bool replace);

}  // namespace thalweg
