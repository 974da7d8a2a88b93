#pragma once

#include <map>
#include <memory>
#include <string>

#include "iceberg/catalog.h"
#include "table/open.h"
#include "table/table.h"

namespace thalweg::iceberg {

/// Iceberg's implementation of Table on a store (one table of one catalog).
arrow::Result<std::unique_ptr<Table>> OpenIcebergTable(std::string name,
                                                       std::unique_ptr<TableStore> store);

/// How Iceberg takes part in opening tables: Hadoop-layout folders, metadata files, and names in
/// SQL catalogs. Catalog types that are not available yet are refused by name.
TableFormat IcebergFormat();

}  // namespace thalweg::iceberg
