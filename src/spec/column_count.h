#pragma once

#include <arrow/status.h>

#include <cstddef>

namespace thalweg {

/// Two to four clustering columns, or one where `allow_single`; a usage error otherwise.
arrow::Status CheckColumnCount(size_t count, bool allow_single);

}  // namespace thalweg
