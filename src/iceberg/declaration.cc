#include "iceberg/declaration.h"

#include <cctype>
#include <set>

#include "iceberg/bounds.h"
#include "spec/column_count.h"
#include "spec/property_names.h"
#include "util/edit_distance.h"
#include "util/number.h"
#include "util/status.h"

namespace thalweg::iceberg {
namespace {

constexpr const char* kDeclarationKeys[] = {
    property::kColumns,     property::kTargetCubeSize, property::kMinCubeSize, property::kCurve,
    property::kBitsPerDim,  property::kAlgorithm,      property::kTheta,       property::kPolicy,
    property::kAllowSingle, property::kFieldIds};

std::string_view Trim(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())))
    text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())))
    text.remove_suffix(1);
  return text;
}

std::vector<std::string> SplitNames(std::string_view text) {
  std::vector<std::string> names;
  while (true) {
    const auto comma = text.find(',');
    names.emplace_back(Trim(text.substr(0, comma)));
    if (comma == std::string_view::npos) return names;
    text.remove_prefix(comma + 1);
  }
}

template <typename Number>
arrow::Result<Number> NumberProperty(const std::string& key, const std::string& text,
                                     const char* kind) {
  const auto number = ParseNumber<Number>(Trim(text));
  if (!number) return Invalid("table property {} is \"{}\", which is not {}", key, text, kind);
  return *number;
}

std::string FieldIdsText(const std::vector<ClusteringColumn>& columns) {
  std::string text;
  for (const auto& column : columns)
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", column.name, column.field_id);
  return text;
}

arrow::Status CheckColumnTypes(const Schema& schema, const ClusteringSpec& spec) {
  for (const auto& column : spec.columns) {
    const Field* field = schema.FindById(column.field_id);
    if (field == nullptr)
      return Invalid("clustering column \"{}\" is not in the current schema", column.name);
    auto type = KeyTypeOf(*field->type, spec.algorithm);
    if (!type.ok()) {
      return Usage("clustering column \"{}\" cannot be a key: {}", column.name,
                   type.status().message());
    }
  }
  return arrow::Status::OK();
}

arrow::Result<std::vector<ClusteringColumn>> ResolveDeclared(const TableMetadata& metadata,
                                                             const std::string& value,
                                                             std::vector<std::string>* notes) {
  ARROW_ASSIGN_OR_RAISE(const Schema current, metadata.CurrentSchema());
  ARROW_ASSIGN_OR_RAISE(const auto schemas, metadata.Schemas());
  const auto declared_ids = DeclaredFieldIds(metadata);
  std::vector<ClusteringColumn> columns;
  for (const std::string& name : SplitNames(value)) {
    if (name.empty())
      return Invalid("table property {} is \"{}\": an empty column name", property::kColumns,
                     value);
    if (const Field* field = current.FindTopLevel(name)) {
      if (auto it = declared_ids.find(name); it != declared_ids.end() && it->second != field->id) {
        return Invalid(
            "clustering column \"{}\" was declared as field {}, the schema now has field {} of "
            "that name; declare "
            "again with `thalweg set`",
            name, it->second, field->id);
      }
      columns.push_back({name, field->id});
      continue;
    }
    // Not a current name: the newest older schema that has it tells which field is meant.
    const Field* old_field = nullptr;
    for (auto schema = schemas.rbegin(); schema != schemas.rend() && old_field == nullptr;
         ++schema) {
      old_field = schema->FindTopLevel(name);
    }
    if (old_field == nullptr) {
      return Invalid(
          "clustering column \"{}\" (table property {}) is no top-level column of any schema of "
          "the table; "
          "declare again with `thalweg set`",
          name, property::kColumns);
    }
    const Field* renamed = current.FindById(old_field->id);
    if (renamed == nullptr || current.TopLevelPosition(old_field->id) < 0) {
      return Invalid(
          "clustering column \"{}\" was dropped from the schema; declare again with `thalweg set`, "
          "or "
          "`thalweg clear`",
          name);
    }
    notes->push_back(fmt::format(
        "clustering column \"{}\" was renamed to \"{}\"; `thalweg set` mends the table property",
        name, renamed->name));
    columns.push_back({renamed->name, renamed->id});
  }
  return columns;
}

/// Reads everything but the columns. A malformed value is left at its default and the first one
/// returned as the error.
arrow::Status ReadSettings(const TableMetadata& metadata, ClusteringSpec* spec) {
  const auto properties = metadata.properties();
  arrow::Status first;
  auto read = [&](const char* key, auto parse, auto* value) {
    auto it = properties.find(key);
    if (it == properties.end()) return false;
    auto parsed = parse(it->second);
    if (parsed.ok()) {
      *value = *parsed;
    } else if (first.ok()) {
      first = parsed.status();
    }
    return parsed.ok();
  };
  auto bytes = [](const char* key) {
    return [key](const std::string& text) {
      return NumberProperty<int64_t>(key, text, "a number of bytes");
    };
  };
  if (read(property::kTargetCubeSize, bytes(property::kTargetCubeSize), &spec->target_cube_bytes)) {
    // A target alone moves the default minimum along with it, at the same proportion.
    spec->min_cube_bytes = std::max<int64_t>(1, spec->target_cube_bytes / 2);
  }
  read(property::kMinCubeSize, bytes(property::kMinCubeSize), &spec->min_cube_bytes);
  read(
      property::kCurve, [](const std::string& text) { return ParseCurve(Trim(text)); },
      &spec->curve);
  read(
      property::kAlgorithm, [](const std::string& text) { return ParseAlgorithm(Trim(text)); },
      &spec->algorithm);
  read(
      property::kPolicy, [](const std::string& text) { return ParsePolicy(Trim(text)); },
      &spec->policy);
  read(
      property::kBitsPerDim,
      [](const std::string& text) {
        return NumberProperty<int>(property::kBitsPerDim, text, "a number of bits");
      },
      &spec->bits_per_dim);
  read(
      property::kTheta,
      [](const std::string& text) {
        return NumberProperty<double>(property::kTheta, text, "a number");
      },
      &spec->theta);
  return first;
}

arrow::Result<ClusteringSpec> ReadSpec(const TableMetadata& metadata,
                                       std::vector<std::string>* notes) {
  ClusteringSpec spec;
  ARROW_ASSIGN_OR_RAISE(
      spec.columns, ResolveDeclared(metadata, metadata.property(property::kColumns, ""), notes));
  ARROW_RETURN_NOT_OK(ReadSettings(metadata, &spec));
  ARROW_RETURN_NOT_OK(CheckColumnCount(spec.columns.size(),
                                       metadata.property(property::kAllowSingle, "") == "true"));
  ARROW_RETURN_NOT_OK(spec.Validate());
  ARROW_ASSIGN_OR_RAISE(const Schema schema, metadata.CurrentSchema());
  ARROW_RETURN_NOT_OK(CheckColumnTypes(schema, spec));
  return spec;
}

}  // namespace

std::map<std::string, int32_t> DeclaredFieldIds(const TableMetadata& metadata) {
  std::map<std::string, int32_t> ids;
  for (const std::string& pair : SplitNames(metadata.property(property::kFieldIds, ""))) {
    const auto equals = pair.rfind('=');
    if (equals == std::string::npos) continue;
    auto id = NumberProperty<int32_t>(property::kFieldIds, pair.substr(equals + 1), "a field id");
    if (id.ok()) ids[pair.substr(0, equals)] = *id;
  }
  return ids;
}

Declaration ReadDeclaration(const TableMetadata& metadata) {
  Declaration declaration;
  (void)ReadSettings(metadata, &declaration.settings);
  ClusteringSpec probe = declaration.settings;
  probe.columns = {{"a", 1}, {"b", 2}};
  if (!probe.Validate().ok()) declaration.settings = ClusteringSpec();
  if (!metadata.properties().contains(property::kColumns)) return declaration;
  auto spec = ReadSpec(metadata, &declaration.notes);
  if (spec.ok()) {
    declaration.spec = std::move(spec).ValueUnsafe();
  } else {
    declaration.problem = spec.status().message();
  }
  return declaration;
}

arrow::Result<PropertyChange> DeclarationProperties(const TableMetadata& metadata,
                                                    const ClusteringSpec& spec, bool allow_single,
                                                    bool pin_field_ids) {
  ARROW_RETURN_NOT_OK(CheckColumnCount(spec.columns.size(), allow_single));
  ARROW_RETURN_NOT_OK(spec.Validate());
  ARROW_ASSIGN_OR_RAISE(const Schema schema, metadata.CurrentSchema());
  ARROW_RETURN_NOT_OK(CheckColumnTypes(schema, spec));
  const auto properties = metadata.properties();

  PropertyChange change;
  std::string names;
  for (const auto& column : spec.columns) {
    if (column.name.find(',') != std::string::npos) {
      return Usage("column \"{}\": a name with a comma cannot be declared in {}", column.name,
                   property::kColumns);
    }
    // Readers of the property drop them.
    if (Trim(column.name) != column.name) {
      return Usage("column \"{}\": a name with blanks around it cannot be declared in {}",
                   column.name, property::kColumns);
    }
    names += (names.empty() ? "" : ",") + column.name;
  }
  change.set[property::kColumns] = names;
  change.set[property::kTargetCubeSize] = std::to_string(spec.target_cube_bytes);
  change.set[property::kMinCubeSize] = std::to_string(spec.min_cube_bytes);
  // Values at their defaults are left out (or taken away), so that the table says what was chosen.
  const ClusteringSpec defaults;
  auto choose = [&](const char* key, bool is_default, std::string value) {
    if (!is_default) {
      change.set[key] = std::move(value);
    } else if (properties.contains(key)) {
      change.remove.emplace_back(key);
    }
  };
  choose(property::kCurve, spec.curve == defaults.curve, std::string(ToString(spec.curve)));
  choose(property::kBitsPerDim, spec.bits_per_dim == defaults.bits_per_dim,
         std::to_string(spec.bits_per_dim));
  choose(property::kAlgorithm, spec.algorithm == defaults.algorithm,
         std::string(ToString(spec.algorithm)));
  choose(property::kPolicy, spec.policy == defaults.policy, std::string(ToString(spec.policy)));
  choose(property::kTheta, spec.theta == defaults.theta, fmt::format("{}", spec.theta));
  choose(property::kAllowSingle, spec.columns.size() > 1, "true");

  // Other engines append too, and write bounds only for the first columns of a wide table, or none,
  // as these properties say.
  const std::string mode = metadata.property("write.metadata.metrics.default", "truncate(16)");
  ARROW_ASSIGN_OR_RAISE(
      const int64_t limit,
      metadata.IntProperty("write.metadata.metrics.max-inferred-column-defaults", 100));
  const auto leaves = schema.Leaves();
  for (const auto& column : spec.columns) {
    const std::string key = "write.metadata.metrics.column." + column.name;
    int64_t position = 0;
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (leaves[i].field->id == column.field_id) position = static_cast<int64_t>(i);
    }
    const bool bounded = mode.starts_with("truncate") || mode == "full";
    if (!properties.contains(key) && (!bounded || position >= limit))
      change.set[key] = "truncate(16)";
  }

  std::erase_if(change.set, [&](const auto& item) {
    auto it = properties.find(item.first);
    return it != properties.end() && it->second == item.second;
  });
  // An identical declaration commits nothing: the field ids come along with other changes, or where
  // they settle a doubt.
  const std::string ids = FieldIdsText(spec.columns);
  const bool changed = !change.set.empty() || !change.remove.empty() || pin_field_ids ||
                       properties.contains(property::kFieldIds);
  if (changed && metadata.property(property::kFieldIds, "") != ids)
    change.set[property::kFieldIds] = ids;
  return change;
}

std::vector<std::string> DeclaredPropertyKeys(const TableMetadata& metadata) {
  const auto properties = metadata.properties();
  std::vector<std::string> keys;
  for (const char* key : kDeclarationKeys) {
    if (properties.contains(key)) keys.emplace_back(key);
  }
  return keys;
}

arrow::Result<ClusteringColumn> ResolveTopLevelColumn(const Schema& schema,
                                                      const std::string& name) {
  if (const Field* field = schema.FindTopLevel(name)) return ClusteringColumn{name, field->id};
  if (const auto dot = name.find('.');
      dot != std::string::npos && schema.FindTopLevel(name.substr(0, dot)) != nullptr) {
    return Usage("column \"{}\" is nested; clustering columns are top-level columns", name);
  }
  std::vector<std::string> names;
  names.reserve(schema.fields.size());
  for (const auto& field : schema.fields) names.push_back(field.name);
  return Usage("no column \"{}\"; {}", name, NamesInstead(name, names, "table"));
}

}  // namespace thalweg::iceberg
