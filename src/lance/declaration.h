#pragma once

#include <arrow/result.h>

#include <map>
#include <optional>
#include <string>

#include "lance/description.h"
#include "spec/clustering_spec.h"
#include "table/table.h"

namespace thalweg::lance {

/// Cubes are Iceberg's; here a run is one group, however large. These stand in every spec.
inline constexpr int64_t kWholeRunBytes = INT64_MAX / 4;

/// Reads the declaration from the dataset's config. The keys lance.clustering.* are all there and
/// valid, or none; anything else is a problem, and so is a column that the schema has not (any
/// more) at its top level or in another type. `schema` has the fields of the description.
Declaration ReadDeclaration(const Description& description, const arrow::Schema& schema);

/// The version that the config holds, 0 when there is none that can be read.
int64_t DeclaredVersion(const Properties& config);

/// Changes of config keys; nullopt takes a key away.
using ConfigChange = std::map<std::string, std::optional<std::string>>;

/// What declaring `spec` changes: empty for what is declared already. Another order (columns,
/// curve, bits, algorithm) takes a version above every one seen, declared or in a stamp
/// (`highest_stamp`, 0: none): the next one, or `version`. `version` may also raise an unchanged
/// declaration. `spec.version` is not looked at.
arrow::Result<ConfigChange> DeclarationChange(const Description& description,
                                              const arrow::Schema& schema,
                                              const ClusteringSpec& spec,
                                              std::optional<int64_t> version, bool allow_single,
                                              int64_t highest_stamp);

/// Takes the declaration and its settings away.
ConfigChange ClearingChange(const Properties& config);

/// A top-level column by name; an error that names similar ones, or says that it is nested.
arrow::Result<ClusteringColumn> ResolveTopLevelColumn(const Description& description,
                                                      const std::string& name);

}  // namespace thalweg::lance
