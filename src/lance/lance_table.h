#pragma once

#include <arrow/result.h>

#include <memory>
#include <string>

#include "lance/bridge.h"
#include "table/open.h"
#include "table/table.h"

namespace thalweg::lance {

/// Opens the dataset at a path or object-store URI. `options`: storage options as Lance takes them.
arrow::Result<std::unique_ptr<Table>> OpenLanceTable(std::string name, std::string uri,
                                                     Properties options);

/// How Lance takes part in opening tables: paths and URIs that end in ".lance", and folders that
/// hold a dataset. To be registered before Iceberg, which takes every other path.
TableFormat LanceFormat();

}  // namespace thalweg::lance
