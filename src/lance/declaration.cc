#include "lance/declaration.h"

#include <algorithm>

#include "key/key_type.h"
#include "lance/property_names.h"
#include "spec/column_count.h"
#include "util/edit_distance.h"
#include "util/json.h"
#include "util/number.h"
#include "util/status.h"

namespace thalweg::lance {
namespace {

constexpr const char* kKeys[] = {property::kColumns, property::kCurve, property::kVersion,
                                 property::kBitsPerDim, property::kAlgorithm};
constexpr const char* kSettings[] = {property::kPolicy, property::kTheta};
constexpr char kMend[] = "declare again with `thalweg set`, or drop it with `thalweg clear`";

bool InNamespace(std::string_view key) { return key.starts_with(property::kNamespace); }

/// All five keys of the namespace and no other.
arrow::Status CheckKeys(const Properties& config) {
  std::string missing;
  for (const char* key : kKeys) {
    if (!config.contains(key)) missing += (missing.empty() ? "" : ", ") + std::string(key);
  }
  if (!missing.empty()) {
    return Invalid("the declaration of clustering columns is incomplete ({} missing): {}", missing,
                   kMend);
  }
  for (const auto& [key, value] : config) {
    if (InNamespace(key) && std::find(std::begin(kKeys), std::end(kKeys), key) == std::end(kKeys)) {
      return Invalid("config key {} is not known to this version: {}", key, kMend);
    }
  }
  return arrow::Status::OK();
}

arrow::Status Malformed(const char* key, const std::string& value, std::string_view wanted) {
  return Invalid("config {} is \"{}\", not {}: {}", key, value.substr(0, 80), wanted, kMend);
}

arrow::Result<std::vector<std::string>> ParseColumns(const std::string& text) {
  auto json = ParseJson(text, property::kColumns);
  std::vector<std::string> names;
  bool good = json.ok() && json->is_array() && !json->empty() && json->size() <= 4;
  if (good) {
    for (const Json& name : *json) {
      good = good && name.is_string();
      if (good) names.push_back(name.get<std::string>());
    }
  }
  if (!good) return Malformed(property::kColumns, text, "a JSON array of one to four names");
  return names;
}

/// The number of bits, 0 when the text is none.
int ParseBits(const std::string& text) {
  const auto bits = ParseCount(text);
  return bits && *bits >= 1 && *bits <= 32 ? static_cast<int>(*bits) : 0;
}

/// Thalweg's own settings; a malformed one is left at its default and is the error.
arrow::Status ReadSettings(const Properties& config, ClusteringSpec* spec) {
  arrow::Status first;
  if (auto it = config.find(property::kPolicy); it != config.end()) {
    auto policy = ParsePolicy(it->second);
    if (policy.ok()) {
      spec->policy = *policy;
    } else {
      first = Malformed(property::kPolicy, it->second, "size or overlap");
    }
  }
  if (auto it = config.find(property::kTheta); it != config.end()) {
    const auto theta = ParseNumber<double>(it->second);
    if (theta && *theta > 0 && *theta < 1) {
      spec->theta = *theta;
    } else {
      first = Malformed(property::kTheta, it->second, "a number between 0 and 1");
    }
  }
  return first;
}

arrow::Status CheckColumnType(const arrow::Schema& schema, const ClusteringColumn& column,
                              Algorithm algorithm) {
  const auto field = schema.GetFieldByName(column.name);
  if (field == nullptr)
    return Invalid("clustering column \"{}\" is not in the schema", column.name);
  auto type = KeyTypeOf(*field->type(), algorithm);
  if (type.ok()) return arrow::Status::OK();
  return Usage("clustering column \"{}\" cannot be a key: {}", column.name,
               type.status().message());
}

arrow::Result<ClusteringSpec> ReadSpec(const Description& description, const arrow::Schema& schema,
                                       ClusteringSpec spec) {
  const Properties& config = description.config;
  ARROW_RETURN_NOT_OK(CheckKeys(config));
  ARROW_ASSIGN_OR_RAISE(const auto names, ParseColumns(config.at(property::kColumns)));
  const std::string& curve = config.at(property::kCurve);
  if (curve == ToString(Curve::kHilbert)) {
    spec.curve = Curve::kHilbert;
  } else if (curve == ToString(Curve::kZOrder)) {
    spec.curve = Curve::kZOrder;
  } else {
    return Malformed(property::kCurve, curve, "hilbert or zorder");
  }
  const std::string& algorithm = config.at(property::kAlgorithm);
  if (algorithm == ToString(Algorithm::kQuantileRankV1)) {
    spec.algorithm = Algorithm::kQuantileRankV1;
  } else if (algorithm == ToString(Algorithm::kTypedQuantileRankV1)) {
    spec.algorithm = Algorithm::kTypedQuantileRankV1;
  } else {
    return Malformed(property::kAlgorithm, algorithm, "quantile-rank-v1 or typed-quantile-rank-v1");
  }
  spec.bits_per_dim = ParseBits(config.at(property::kBitsPerDim));
  if (spec.bits_per_dim == 0) {
    return Malformed(property::kBitsPerDim, config.at(property::kBitsPerDim),
                     "a number of bits from 1 to 32");
  }
  spec.version = DeclaredVersion(config);
  if (spec.version == 0) {
    return Malformed(property::kVersion, config.at(property::kVersion), "a number above 0");
  }
  for (const auto& name : names) {
    auto column = ResolveTopLevelColumn(description, name);
    if (!column.ok()) {
      return Invalid("a clustering column is not in the schema: {}: {}", column.status().message(),
                     kMend);
    }
    spec.columns.push_back(*std::move(column));
  }
  ARROW_RETURN_NOT_OK(spec.Validate());
  for (const auto& column : spec.columns) {
    auto type = CheckColumnType(schema, column, spec.algorithm);
    if (!type.ok()) return Invalid("{}: {}", type.message(), kMend);
  }
  return spec;
}

bool SameOrder(const ClusteringSpec& a, const ClusteringSpec& b) {
  return a.columns == b.columns && a.curve == b.curve && a.bits_per_dim == b.bits_per_dim &&
         a.algorithm == b.algorithm;
}

arrow::Status CheckNoCubes(const ClusteringSpec& spec) {
  const ClusteringSpec defaults;
  const bool whole = spec.target_cube_bytes == kWholeRunBytes && spec.min_cube_bytes == 1;
  if (whole || (spec.target_cube_bytes == defaults.target_cube_bytes &&
                spec.min_cube_bytes == defaults.min_cube_bytes)) {
    return arrow::Status::OK();
  }
  return Usage(
      "cube sizes are a setting of Iceberg tables; the size of Lance fragments is set by "
      "--target-rows-per-fragment or the dataset's config {}",
      property::kTargetRows);
}

/// The version that the declaration gets.
arrow::Result<int64_t> NextVersion(const std::optional<ClusteringSpec>& declared, bool same,
                                   std::optional<int64_t> wanted, int64_t highest) {
  if (wanted && *wanted <= 0) return Usage("--version {}: it must be above 0", *wanted);
  if (same && (!wanted || *wanted == declared->version)) return declared->version;
  if (!wanted && highest == INT64_MAX) {
    return Usage("the version of the declaration cannot be raised above {}", highest);
  }
  const int64_t next = wanted.value_or(highest + 1);
  if (next <= highest) {
    return Usage(
        "--version {}: {} needs a version above {}, the highest that this dataset has seen "
        "(declared, or in the stamps of its fragments)",
        next, same ? "raising a declaration" : "another declaration", highest);
  }
  return next;
}

}  // namespace

int64_t DeclaredVersion(const Properties& config) {
  const auto found = config.find(property::kVersion);
  return found == config.end() ? 0 : ParseCount(found->second).value_or(0);
}

Declaration ReadDeclaration(const Description& description, const arrow::Schema& schema) {
  Declaration declaration;
  ClusteringSpec& settings = declaration.settings;
  settings.target_cube_bytes = kWholeRunBytes;
  settings.min_cube_bytes = 1;
  const auto& config = description.config;
  const arrow::Status own = ReadSettings(config, &settings);
  if (std::none_of(config.begin(), config.end(),
                   [](const auto& entry) { return InNamespace(entry.first); })) {
    return declaration;
  }
  auto spec = ReadSpec(description, schema, settings);
  if (!spec.ok() || !own.ok()) {
    declaration.problem = spec.ok() ? own.message() : spec.status().message();
    return declaration;
  }
  declaration.spec = *std::move(spec);
  settings = *declaration.spec;
  settings.columns.clear();
  return declaration;
}

arrow::Result<ConfigChange> DeclarationChange(const Description& description,
                                              const arrow::Schema& schema,
                                              const ClusteringSpec& spec,
                                              std::optional<int64_t> version, bool allow_single,
                                              int64_t highest_stamp) {
  ARROW_RETURN_NOT_OK(CheckColumnCount(spec.columns.size(), allow_single));
  ARROW_RETURN_NOT_OK(spec.Validate());
  ARROW_RETURN_NOT_OK(CheckNoCubes(spec));
  Json names = Json::array();
  for (const auto& column : spec.columns) {
    ARROW_RETURN_NOT_OK(CheckColumnType(schema, column, spec.algorithm));
    names.push_back(column.name);
  }
  const Properties& config = description.config;
  const auto declared = ReadDeclaration(description, schema).spec;
  const bool same = declared && SameOrder(*declared, spec);
  const int64_t highest = std::max(DeclaredVersion(config), highest_stamp);
  ARROW_ASSIGN_OR_RAISE(const int64_t next, NextVersion(declared, same, version, highest));

  ConfigChange change;
  for (const auto& [key, value] : config) {
    if (InNamespace(key)) change[key] = std::nullopt;
  }
  change[property::kColumns] = DumpJson(names);
  change[property::kCurve] = ToString(spec.curve);
  change[property::kVersion] = std::to_string(next);
  change[property::kBitsPerDim] = std::to_string(spec.bits_per_dim);
  change[property::kAlgorithm] = ToString(spec.algorithm);
  // Settings at their defaults are left out.
  const ClusteringSpec defaults;
  change[property::kPolicy] = std::nullopt;
  change[property::kTheta] = std::nullopt;
  if (spec.policy != defaults.policy) change[property::kPolicy] = ToString(spec.policy);
  if (spec.theta != defaults.theta) change[property::kTheta] = fmt::format("{}", spec.theta);
  std::erase_if(change, [&](const auto& item) {
    const auto found = config.find(item.first);
    if (!item.second) return found == config.end();
    if (found == config.end()) return false;
    // The names may be spelled with other blanks or escapes.
    return found->second == *item.second || (same && item.first == property::kColumns);
  });
  return change;
}

ConfigChange ClearingChange(const Properties& config) {
  ConfigChange change;
  for (const auto& [key, value] : config) {
    if (InNamespace(key) ||
        std::find(std::begin(kSettings), std::end(kSettings), key) != std::end(kSettings)) {
      change[key] = std::nullopt;
    }
  }
  return change;
}

arrow::Result<ClusteringColumn> ResolveTopLevelColumn(const Description& description,
                                                      const std::string& name) {
  for (const auto& field : description.fields) {
    if (field.name == name) return ClusteringColumn{name, field.id};
  }
  const std::string outer = name.substr(0, name.find('.'));
  std::vector<std::string> names;
  names.reserve(description.fields.size());
  for (const auto& field : description.fields) {
    if (outer.size() < name.size() && field.name == outer) {
      return Usage("column \"{}\" is nested; clustering columns are top-level columns", name);
    }
    names.push_back(field.name);
  }
  return Usage("no column \"{}\"; {}", name, NamesInstead(name, names, "dataset"));
}

}  // namespace thalweg::lance
