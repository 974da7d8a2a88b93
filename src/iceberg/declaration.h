#pragma once

#include <arrow/result.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "iceberg/metadata.h"
#include "spec/clustering_spec.h"
#include "table/table.h"

namespace thalweg::iceberg {

/// Reads the declaration from the table's properties. Columns are meant by field id: a name is
/// resolved in the current schema; if absent there, in the newest older schema that has it, then by
/// id (renamed: a note; dropped: a problem). Malformed values are problems too.
Declaration ReadDeclaration(const TableMetadata& metadata);

/// Checks that a spec can be declared on this table (Iceberg's rules: two to four columns, one with
/// `allow_single`; top-level, of a type that the algorithm takes) and gives the properties to set.
/// Column names are the current schema's. `pin_field_ids`: record which fields are meant even if
/// nothing else changes.
struct PropertyChange {
  std::map<std::string, std::string> set;
  std::vector<std::string> remove;
};
arrow::Result<PropertyChange> DeclarationProperties(const TableMetadata& metadata,
                                                    const ClusteringSpec& spec, bool allow_single,
                                                    bool pin_field_ids);

/// The field ids recorded with the declaration, by column name; empty where another engine
/// declared.
std::map<std::string, int32_t> DeclaredFieldIds(const TableMetadata& metadata);

/// The properties that hold a declaration, in this table.
std::vector<std::string> DeclaredPropertyKeys(const TableMetadata& metadata);

/// A top-level column of the current schema by name; an error that names similar ones, or says that
/// it is nested.
arrow::Result<ClusteringColumn> ResolveTopLevelColumn(const Schema& schema,
                                                      const std::string& name);

}  // namespace thalweg::iceberg
