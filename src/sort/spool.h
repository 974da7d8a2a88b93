#pragma once

#include <memory>

#include "sort/row_source.h"
#include "sort/spill_file.h"

namespace thalweg {

/// The spill file behind a source that SpoolStream made, so that its sort spills into the same and
/// counts against one limit; null for other sources.
std::shared_ptr<SpillFile> SpillOf(RowSource& source);

/// From now on each batch of such a source is given up once it was read with all columns. No effect
/// on other sources.
void ReleaseAsRead(RowSource& source);

}  // namespace thalweg
