#include "lance/description.h"

#include <algorithm>

#include "util/number.h"
#include "util/status.h"

namespace thalweg::lance {
namespace {

constexpr char kWhat[] = "the description of the dataset";

arrow::Result<uint64_t> ToUnsigned(const Json& json, const char* name) {
  if (json.is_number_unsigned()) return json.get<uint64_t>();
  if (json.is_number_integer() && json.get<int64_t>() >= 0) return json.get<uint64_t>();
  return Invalid("{}: \"{}\" is not a number", kWhat, name);
}

arrow::Result<std::vector<int32_t>> FieldIds(const Json& json) {
  std::vector<int32_t> ids;
  ARROW_ASSIGN_OR_RAISE(const Json* list, GetArray(json, "fields", kWhat));
  for (const Json& id : *list) {
    if (!id.is_number_integer()) return Invalid("{}: a field id is not a number", kWhat);
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

arrow::Result<DataFile> ParseFile(const Json& json) {
  DataFile file;
  ARROW_ASSIGN_OR_RAISE(file.path, GetString(json, "path", kWhat));
  ARROW_ASSIGN_OR_RAISE(file.field_ids, FieldIds(json));
  ARROW_ASSIGN_OR_RAISE(auto bytes, FindInt64(json, "bytes", kWhat));
  file.bytes = bytes.value_or(-1);
  return file;
}

arrow::Result<Properties> Strings(const Json& json, const char* key) {
  Properties strings;
  ARROW_ASSIGN_OR_RAISE(const Json* object, GetObject(json, key, kWhat));
  for (const auto& [name, value] : object->items()) {
    if (!value.is_string()) return Invalid("{}: \"{}\" of \"{}\" is no text", kWhat, name, key);
    strings[name] = value.get<std::string>();
  }
  return strings;
}

arrow::Result<IndexSegment> ParseIndex(const Json& json) {
  IndexSegment index;
  ARROW_ASSIGN_OR_RAISE(index.name, GetString(json, "name", kWhat));
  ARROW_ASSIGN_OR_RAISE(index.uuid, GetString(json, "uuid", kWhat));
  ARROW_ASSIGN_OR_RAISE(index.type, GetString(json, "type", kWhat));
  ARROW_ASSIGN_OR_RAISE(index.field_ids, FieldIds(json));
  ARROW_ASSIGN_OR_RAISE(index.system, GetBool(json, "system", kWhat));
  ARROW_ASSIGN_OR_RAISE(index.remappable, GetBool(json, "remappable", kWhat));
  ARROW_ASSIGN_OR_RAISE(index.usable, GetBool(json, "usable", kWhat));
  if (const auto list = json.find("fragments"); list != json.end() && list->is_array()) {
    index.fragments.emplace();
    for (const Json& id : *list) {
      ARROW_ASSIGN_OR_RAISE(index.fragments->emplace_back(), ToUnsigned(id, "fragments"));
    }
  }
  return index;
}

}  // namespace

int64_t Fragment::bytes() const {
  int64_t bytes = 0;
  for (const auto* list : {&files, &overlays}) {
    for (const auto& file : *list) bytes += std::max<int64_t>(0, file.bytes);
  }
  return bytes;
}

const Fragment* Description::FindFragment(uint64_t id) const {
  // Ascending as a rule.
  auto at =
      std::lower_bound(fragments.begin(), fragments.end(), id,
                       [](const Fragment& fragment, uint64_t id) { return fragment.id < id; });
  if (at != fragments.end() && at->id == id) return &*at;
  at = std::find_if(fragments.begin(), fragments.end(),
                    [&](const Fragment& fragment) { return fragment.id == id; });
  return at == fragments.end() ? nullptr : &*at;
}

bool Description::has_blobs() const {
  return std::any_of(fields.begin(), fields.end(), [](const Field& field) { return field.blob; });
}

arrow::Result<std::optional<int64_t>> Description::PositiveConfig(const char* key) const {
  const auto found = config.find(key);
  if (found == config.end()) return std::nullopt;
  const auto value = ParseCount(found->second);
  if (!value || *value == 0) {
    return Invalid("the dataset's config {} is \"{}\", not a positive number", key, found->second);
  }
  return value;
}

arrow::Result<Fragment> ParseFragment(const Json& json) {
  Fragment fragment;
  if (!json.is_object() || !json.contains("id")) return Invalid("{}: a fragment has no id", kWhat);
  ARROW_ASSIGN_OR_RAISE(fragment.id, ToUnsigned(json["id"], "id"));
  ARROW_ASSIGN_OR_RAISE(fragment.physical_rows, GetCount(json, "physical_rows", kWhat));
  ARROW_ASSIGN_OR_RAISE(fragment.deleted_rows, GetCount(json, "deleted_rows", kWhat));
  if (fragment.deleted_rows > fragment.physical_rows) {
    return Invalid("{}: fragment {} has more deleted rows ({}) than rows ({})", kWhat, fragment.id,
                   fragment.deleted_rows, fragment.physical_rows);
  }
  ARROW_ASSIGN_OR_RAISE(const Json* files, GetArray(json, "files", kWhat));
  for (const Json& file : *files) {
    ARROW_ASSIGN_OR_RAISE(fragment.files.emplace_back(), ParseFile(file));
  }
  ARROW_ASSIGN_OR_RAISE(const Json* overlays, GetArray(json, "overlays", kWhat));
  for (const Json& overlay : *overlays) {
    ARROW_ASSIGN_OR_RAISE(fragment.overlays.emplace_back(), ParseFile(overlay));
  }
  fragment.json = json;
  return fragment;
}

arrow::Result<Description> ParseDescription(const Json& json) {
  Description description;
  if (!json.is_object() || !json.contains("version")) {
    return Invalid("{}: it has no version", kWhat);
  }
  ARROW_ASSIGN_OR_RAISE(description.version, ToUnsigned(json["version"], "version"));
  ARROW_ASSIGN_OR_RAISE(description.storage_version, GetString(json, "storage_version", kWhat));
  ARROW_ASSIGN_OR_RAISE(description.stable_row_ids, GetBool(json, "stable_row_ids", kWhat));
  ARROW_ASSIGN_OR_RAISE(auto unwritable, FindString(json, "unwritable", kWhat));
  description.unwritable = unwritable.value_or("");
  ARROW_ASSIGN_OR_RAISE(description.config, Strings(json, "config"));
  ARROW_ASSIGN_OR_RAISE(description.table_metadata, Strings(json, "table_metadata"));
  ARROW_ASSIGN_OR_RAISE(const Json* fields, GetArray(json, "fields", kWhat));
  for (const Json& entry : *fields) {
    Field field;
    ARROW_ASSIGN_OR_RAISE(const int64_t id, GetCount(entry, "id", kWhat));
    if (id > INT32_MAX) return Invalid("{}: field id {} is too large", kWhat, id);
    field.id = static_cast<int32_t>(id);
    ARROW_ASSIGN_OR_RAISE(field.name, GetString(entry, "name", kWhat));
    ARROW_ASSIGN_OR_RAISE(field.blob, GetBool(entry, "blob", kWhat));
    description.fields.push_back(std::move(field));
  }
  ARROW_ASSIGN_OR_RAISE(const Json* fragments, GetArray(json, "fragments", kWhat));
  description.fragments.reserve(fragments->size());
  for (const Json& fragment : *fragments) {
    ARROW_ASSIGN_OR_RAISE(description.fragments.emplace_back(), ParseFragment(fragment));
  }
  ARROW_ASSIGN_OR_RAISE(const Json* indices, GetArray(json, "indices", kWhat));
  for (const Json& index : *indices) {
    ARROW_ASSIGN_OR_RAISE(description.indices.emplace_back(), ParseIndex(index));
  }
  return description;
}

arrow::Result<std::shared_ptr<const Version>> ReadVersion(std::shared_ptr<const Dataset> dataset) {
  auto version = std::make_shared<Version>();
  version->dataset = std::move(dataset);
  ARROW_ASSIGN_OR_RAISE(const Json json, version->dataset->Describe());
  ARROW_ASSIGN_OR_RAISE(version->description, ParseDescription(json));
  ARROW_ASSIGN_OR_RAISE(version->schema, version->dataset->Schema());
  const auto& fields = version->description.fields;
  bool alike = fields.size() == static_cast<size_t>(version->schema->num_fields());
  for (size_t i = 0; alike && i < fields.size(); ++i) {
    alike = version->schema->field(static_cast<int>(i))->name() == fields[i].name;
  }
  if (!alike) return Invalid("{}: its fields are not those of its schema", kWhat);
  return version;
}

arrow::Result<std::shared_ptr<const Version>> LoadVersion(const std::string& uri,
                                                          const Properties& options,
                                                          uint64_t version) {
  ARROW_ASSIGN_OR_RAISE(auto dataset, Dataset::Open(uri, options, version));
  return ReadVersion(std::move(dataset));
}

}  // namespace thalweg::lance
