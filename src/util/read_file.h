#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <string>

namespace thalweg {

/// The content of a regular file of at most `most` bytes; errors name it.
arrow::Result<std::string> ReadWholeFile(const std::string& path, int64_t most);

}  // namespace thalweg
