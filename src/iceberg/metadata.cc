#include "iceberg/metadata.h"

#include <set>

#include "util/number.h"
#include "util/status.h"
#include "util/text.h"
#include "util/uuid.h"

namespace thalweg::iceberg {
namespace {

constexpr int kHighestKnownVersion = 4;
/// Partition field ids start at 1000; the last one assigned in a table without any is 999.
constexpr int kLastPartitionIdOfNone = 999;

/// The member if it is there and not null.
const Json* Find(const Json& object, const char* key) {
  auto it = object.find(key);
  return it == object.end() || it->is_null() ? nullptr : &*it;
}

/// The member as an array, made when it is missing or null. Parse() has checked the types.
Json& ArrayAt(Json& object, const char* key) {
  Json& value = object[key];
  if (!value.is_array()) value = Json::array();
  return value;
}

Json& ObjectAt(Json& object, const char* key) {
  Json& value = object[key];
  if (!value.is_object()) value = Json::object();
  return value;
}

int64_t IntOr(const Json& object, const char* key, int64_t fallback) {
  const Json* value = Find(object, key);
  return value ? value->get<int64_t>() : fallback;
}

/// Of a property or summary value; the format knows strings only, other writers are less strict.
std::string TextOf(const Json& value) {
  return value.is_string() ? value.get<std::string>() : DumpJson(value);
}

std::map<std::string, std::string> StringMap(const Json* object) {
  std::map<std::string, std::string> map;
  if (object == nullptr || !object->is_object()) return map;
  for (const auto& [key, value] : object->items()) {
    if (!value.is_null()) map[key] = TextOf(value);
  }
  return map;
}

arrow::Status CheckInt(const Json& document, const char* key, int64_t low, int64_t high,
                       const std::string& what) {
  ARROW_ASSIGN_OR_RAISE(auto value, FindInt64(document, key, what));
  if (value && (*value < low || *value > high)) {
    return Invalid("{}: \"{}\" is out of range: {}", what, key, *value);
  }
  return arrow::Status::OK();
}

arrow::Status CheckKind(const Json& document, const char* key, Json::value_t kind,
                        const std::string& what) {
  const Json* value = Find(document, key);
  if (value != nullptr && value->type() != kind) {
    return Invalid("{}: \"{}\" is not {}", what, key,
                   kind == Json::value_t::array ? "an array" : "an object");
  }
  return arrow::Status::OK();
}

arrow::Result<Snapshot> SnapshotFromJson(const Json& json, const std::string& what) {
  Snapshot snapshot;
  ARROW_ASSIGN_OR_RAISE(snapshot.snapshot_id, GetInt64(json, "snapshot-id", what));
  ARROW_ASSIGN_OR_RAISE(snapshot.parent_snapshot_id, FindInt64(json, "parent-snapshot-id", what));
  ARROW_ASSIGN_OR_RAISE(auto sequence_number, FindInt64(json, "sequence-number", what));
  snapshot.sequence_number = sequence_number.value_or(0);
  ARROW_ASSIGN_OR_RAISE(snapshot.timestamp_ms, GetInt64(json, "timestamp-ms", what));
  // Version 1 snapshots may list their manifests inline instead.
  ARROW_ASSIGN_OR_RAISE(auto manifest_list, FindString(json, "manifest-list", what));
  snapshot.manifest_list = manifest_list.value_or("");
  ARROW_RETURN_NOT_OK(CheckKind(json, "summary", Json::value_t::object, what));
  snapshot.summary = StringMap(Find(json, "summary"));
  ARROW_RETURN_NOT_OK(CheckInt(json, "schema-id", INT32_MIN, INT32_MAX, what));
  ARROW_ASSIGN_OR_RAISE(auto schema_id, FindInt64(json, "schema-id", what));
  if (schema_id) snapshot.schema_id = static_cast<int32_t>(*schema_id);
  for (const char* key : {"first-row-id", "added-rows"}) {
    ARROW_RETURN_NOT_OK(CheckInt(json, key, 0, INT64_MAX, what));
  }
  ARROW_ASSIGN_OR_RAISE(snapshot.first_row_id, FindInt64(json, "first-row-id", what));
  ARROW_ASSIGN_OR_RAISE(snapshot.added_rows, FindInt64(json, "added-rows", what));
  ARROW_ASSIGN_OR_RAISE(auto key_id, FindString(json, "key-id", what));
  snapshot.key_id = key_id.value_or("");
  return snapshot;
}

Json SnapshotToJson(const Snapshot& snapshot) {
  Json json = Json::object();
  json["snapshot-id"] = snapshot.snapshot_id;
  if (snapshot.parent_snapshot_id) json["parent-snapshot-id"] = *snapshot.parent_snapshot_id;
  json["sequence-number"] = snapshot.sequence_number;
  json["timestamp-ms"] = snapshot.timestamp_ms;
  Json summary = Json::object();
  summary["operation"] = snapshot.operation();
  for (const auto& [key, value] : snapshot.summary) summary[key] = value;
  json["summary"] = std::move(summary);
  json["manifest-list"] = snapshot.manifest_list;
  if (snapshot.schema_id) json["schema-id"] = *snapshot.schema_id;
  if (snapshot.first_row_id) json["first-row-id"] = *snapshot.first_row_id;
  if (snapshot.added_rows) json["added-rows"] = *snapshot.added_rows;
  return json;
}

/// For errors of the accessors: the table, as the document itself names it.
std::string NameOf(const Json& document) {
  const Json* location = Find(document, "location");
  return "metadata of table " + (location ? TextOf(*location) : "?");
}

/// The schemas' JSON, oldest first; version 1 documents may have a single "schema".
std::vector<const Json*> SchemaDocuments(const Json& document) {
  std::vector<const Json*> schemas;
  if (const Json* list = Find(document, "schemas")) {
    for (const Json& schema : *list) schemas.push_back(&schema);
  } else if (const Json* schema = Find(document, "schema")) {
    schemas.push_back(schema);
  }
  return schemas;
}

arrow::Result<const Json*> SchemaDocument(const Json& document, int32_t schema_id) {
  const auto schemas = SchemaDocuments(document);
  for (const Json* schema : schemas) {
    if (schema->is_object() && schema->contains("schema-id") &&
        (*schema)["schema-id"] == schema_id) {
      return schema;
    }
  }
  if (Find(document, "schemas") == nullptr && !schemas.empty()) return schemas[0];
  return Invalid("{}: there is no schema {}", NameOf(document), schema_id);
}

void Touch(Json& document, int64_t at_least = 0) {
  const int64_t before = IntOr(document, "last-updated-ms", 0);
  document["last-updated-ms"] = std::max({NowMillis(), before, at_least});
}

}  // namespace

std::string Snapshot::operation() const {
  auto it = summary.find("operation");
  return it == summary.end() ? "" : it->second;
}

bool PartitionSpec::unpartitioned() const {
  return std::all_of(fields.begin(), fields.end(), [](const Json& field) {
    return field.is_object() && field.contains("transform") && field["transform"] == "void";
  });
}

arrow::Result<TableMetadata> TableMetadata::Parse(std::string_view text,
                                                  const std::string& location) {
  ARROW_ASSIGN_OR_RAISE(Json json, ParseJson(text, location));
  return FromJson(std::move(json), location);
}

arrow::Result<TableMetadata> TableMetadata::FromJson(Json document, const std::string& location) {
  TableMetadata metadata;
  metadata.json_ = std::move(document);
  const Json& json = metadata.json_;
  if (!json.is_object()) return Invalid("{}: not table metadata (no JSON object)", location);
  ARROW_ASSIGN_OR_RAISE(const int64_t version, GetInt64(json, "format-version", location));
  if (version < 1 || version > kHighestKnownVersion) {
    return Invalid("{}: format version {} is not known (1 to {} are)", location, version,
                   kHighestKnownVersion);
  }
  ARROW_RETURN_NOT_OK(GetString(json, "location", location).status());
  // Version 1 tables may be without.
  if (version > 1) ARROW_RETURN_NOT_OK(GetString(json, "table-uuid", location).status());
  ARROW_RETURN_NOT_OK(FindString(json, "table-uuid", location).status());
  for (const char* key : {"last-sequence-number", "last-updated-ms", "current-snapshot-id"}) {
    ARROW_RETURN_NOT_OK(CheckInt(json, key, INT64_MIN, INT64_MAX, location));
  }
  ARROW_RETURN_NOT_OK(CheckInt(json, "next-row-id", 0, INT64_MAX, location));
  for (const char* key : {"current-schema-id", "default-spec-id"}) {
    ARROW_RETURN_NOT_OK(CheckInt(json, key, INT32_MIN, INT32_MAX, location));
  }
  for (const char* key : {"schemas", "partition-specs", "partition-spec", "snapshots",
                          "snapshot-log", "metadata-log", "statistics"}) {
    ARROW_RETURN_NOT_OK(CheckKind(json, key, Json::value_t::array, location));
  }
  for (const char* key : {"schema", "properties", "refs"}) {
    ARROW_RETURN_NOT_OK(CheckKind(json, key, Json::value_t::object, location));
  }
  if (SchemaDocuments(json).empty()) return Invalid("{}: the table has no schema", location);
  if (const Json* snapshots = Find(json, "snapshots")) {
    for (const Json& snapshot : *snapshots) {
      ARROW_RETURN_NOT_OK(SnapshotFromJson(snapshot, location).status());
    }
  }
  if (const Json* refs = Find(json, "refs")) {
    for (const Json& ref : *refs) {
      ARROW_RETURN_NOT_OK(GetInt64(ref, "snapshot-id", location).status());
    }
  }
  if (auto current = metadata.current_snapshot_id()) {
    ARROW_ASSIGN_OR_RAISE(auto snapshot, metadata.FindSnapshot(*current));
    if (!snapshot) return Invalid("{}: the current snapshot {} is missing", location, *current);
  }
  return metadata;
}

arrow::Result<TableMetadata> TableMetadata::Create(
    const Schema& schema, const std::string& location,
    const std::map<std::string, std::string>& properties, int format_version) {
  TableMetadata metadata;
  Json& json = metadata.json_;
  json = Json::object();
  json["format-version"] = format_version;
  json["table-uuid"] = NewUuid();
  json["location"] = location;
  json["last-sequence-number"] = 0;
  json["last-updated-ms"] = NowMillis();
  json["last-column-id"] = schema.HighestFieldId();
  json["current-schema-id"] = schema.schema_id;
  json["schemas"] = Json::array({schema.ToJson()});
  json["default-spec-id"] = 0;
  json["partition-specs"] = Json::array({Json{{"spec-id", 0}, {"fields", Json::array()}}});
  json["last-partition-id"] = kLastPartitionIdOfNone;
  json["default-sort-order-id"] = 0;
  json["sort-orders"] = Json::array({Json{{"order-id", 0}, {"fields", Json::array()}}});
  json["properties"] = Json::object();
  for (const auto& [key, value] : properties) json["properties"][key] = value;
  if (format_version >= 3) json["next-row-id"] = 0;
  json["current-snapshot-id"] = -1;
  json["refs"] = Json::object();
  for (const char* key :
       {"snapshots", "statistics", "partition-statistics", "snapshot-log", "metadata-log"}) {
    json[key] = Json::array();
  }
  return metadata;
}

std::string TableMetadata::ToText() const { return DumpJson(json_); }

int TableMetadata::format_version() const {
  return static_cast<int>(IntOr(json_, "format-version", 1));
}
std::string TableMetadata::table_uuid() const {
  const Json* uuid = Find(json_, "table-uuid");
  return uuid ? uuid->get<std::string>() : "";
}
std::string TableMetadata::location() const {
  const Json* location = Find(json_, "location");
  return location ? location->get<std::string>() : "";
}
int64_t TableMetadata::last_sequence_number() const {
  return IntOr(json_, "last-sequence-number", 0);
}
int64_t TableMetadata::last_updated_ms() const { return IntOr(json_, "last-updated-ms", 0); }
int64_t TableMetadata::next_row_id() const { return IntOr(json_, "next-row-id", 0); }
int32_t TableMetadata::current_schema_id() const {
  return static_cast<int32_t>(IntOr(json_, "current-schema-id", 0));
}
int32_t TableMetadata::default_spec_id() const {
  return static_cast<int32_t>(IntOr(json_, "default-spec-id", 0));
}

arrow::Result<Schema> TableMetadata::CurrentSchema() const {
  return SchemaById(current_schema_id());
}

arrow::Result<Schema> TableMetadata::SchemaById(int32_t schema_id) const {
  ARROW_ASSIGN_OR_RAISE(const Json* schema, SchemaDocument(json_, schema_id));
  return Schema::FromJson(*schema);
}

arrow::Result<std::vector<Schema>> TableMetadata::Schemas() const {
  std::vector<Schema> schemas;
  for (const Json* document : SchemaDocuments(json_)) {
    ARROW_ASSIGN_OR_RAISE(auto schema, Schema::FromJson(*document));
    schemas.push_back(std::move(schema));
  }
  return schemas;
}

std::string TableMetadata::CurrentSchemaText() const {
  auto schema = SchemaDocument(json_, current_schema_id());
  return schema.ok() ? DumpJson(**schema) : "";
}

arrow::Result<std::vector<PartitionSpec>> TableMetadata::PartitionSpecs() const {
  std::vector<PartitionSpec> specs;
  const std::string what = NameOf(json_);
  if (const Json* list = Find(json_, "partition-specs")) {
    for (const Json& json : *list) {
      PartitionSpec spec;
      ARROW_RETURN_NOT_OK(CheckInt(json, "spec-id", 0, INT32_MAX, what));
      ARROW_ASSIGN_OR_RAISE(const int64_t spec_id, GetInt64(json, "spec-id", what));
      spec.spec_id = static_cast<int32_t>(spec_id);
      ARROW_ASSIGN_OR_RAISE(const Json* fields, GetArray(json, "fields", what));
      spec.fields = *fields;
      specs.push_back(std::move(spec));
    }
  } else if (const Json* fields = Find(json_, "partition-spec")) {
    specs.push_back({0, *fields});
  } else {
    specs.push_back({0, Json::array()});
  }
  return specs;
}

std::map<std::string, std::string> TableMetadata::properties() const {
  return StringMap(Find(json_, "properties"));
}

std::string TableMetadata::property(const std::string& key, const std::string& fallback) const {
  const Json* properties = Find(json_, "properties");
  const Json* value = properties ? Find(*properties, key.c_str()) : nullptr;
  return value ? TextOf(*value) : fallback;
}

arrow::Result<int64_t> TableMetadata::IntProperty(const std::string& key, int64_t fallback) const {
  const std::string text = property(key, "");
  if (text.empty()) return fallback;
  const auto value = ParseNumber<int64_t>(text);
  if (!value) return Invalid("table property {}: \"{}\" is not an integer", key, text);
  return *value;
}

arrow::Result<bool> TableMetadata::BoolProperty(const std::string& key, bool fallback) const {
  const std::string text = Lower(property(key, ""));
  if (text.empty()) return fallback;
  if (text == "true") return true;
  if (text == "false") return false;
  return Invalid("table property {}: \"{}\" is neither true nor false", key, text);
}

std::optional<int64_t> TableMetadata::current_snapshot_id() const {
  const int64_t id = IntOr(json_, "current-snapshot-id", -1);
  return id == -1 ? std::nullopt : std::optional<int64_t>(id);
}

arrow::Result<std::vector<Snapshot>> TableMetadata::Snapshots() const {
  std::vector<Snapshot> snapshots;
  if (const Json* list = Find(json_, "snapshots")) {
    const std::string what = NameOf(json_);
    for (const Json& json : *list) {
      ARROW_ASSIGN_OR_RAISE(auto snapshot, SnapshotFromJson(json, what));
      snapshots.push_back(std::move(snapshot));
    }
  }
  return snapshots;
}

arrow::Result<std::optional<Snapshot>> TableMetadata::FindSnapshot(int64_t snapshot_id) const {
  if (const Json* list = Find(json_, "snapshots")) {
    for (const Json& json : *list) {
      if (IntOr(json, "snapshot-id", 0) != snapshot_id) continue;
      ARROW_ASSIGN_OR_RAISE(auto snapshot, SnapshotFromJson(json, NameOf(json_)));
      return std::optional<Snapshot>(std::move(snapshot));
    }
  }
  return std::nullopt;
}

arrow::Result<std::map<std::string, int64_t>> TableMetadata::Refs() const {
  std::map<std::string, int64_t> refs;
  if (const Json* object = Find(json_, "refs")) {
    for (const auto& [name, ref] : object->items()) {
      ARROW_ASSIGN_OR_RAISE(refs[name], GetInt64(ref, "snapshot-id", NameOf(json_)));
    }
  }
  if (auto current = current_snapshot_id()) refs.emplace("main", *current);
  return refs;
}

arrow::Result<std::vector<StatisticsFile>> TableMetadata::Statistics() const {
  std::vector<StatisticsFile> files;
  const Json* list = Find(json_, "statistics");
  if (list == nullptr) return files;
  const std::string what = NameOf(json_) + ", statistics";
  for (const Json& json : *list) {
    StatisticsFile file;
    ARROW_ASSIGN_OR_RAISE(file.snapshot_id, GetInt64(json, "snapshot-id", what));
    ARROW_ASSIGN_OR_RAISE(file.statistics_path, GetString(json, "statistics-path", what));
    ARROW_ASSIGN_OR_RAISE(file.file_size_in_bytes, GetInt64(json, "file-size-in-bytes", what));
    ARROW_ASSIGN_OR_RAISE(file.file_footer_size_in_bytes,
                          GetInt64(json, "file-footer-size-in-bytes", what));
    ARROW_RETURN_NOT_OK(CheckKind(json, "blob-metadata", Json::value_t::array, what));
    if (const Json* blobs = Find(json, "blob-metadata")) file.blob_metadata = *blobs;
    files.push_back(std::move(file));
  }
  return files;
}

void TableMetadata::SetProperties(const std::map<std::string, std::string>& properties) {
  Json& object = ObjectAt(json_, "properties");
  for (const auto& [key, value] : properties) object[key] = value;
  Touch(json_);
}

void TableMetadata::RemoveProperties(const std::vector<std::string>& keys) {
  Json& object = ObjectAt(json_, "properties");
  for (const auto& key : keys) object.erase(key);
  Touch(json_);
}

void TableMetadata::AddSnapshot(const Snapshot& snapshot) {
  ArrayAt(json_, "snapshots").push_back(SnapshotToJson(snapshot));
  json_["current-snapshot-id"] = snapshot.snapshot_id;
  // The branch keeps its retention settings.
  Json& main = ObjectAt(ObjectAt(json_, "refs"), "main");
  main["snapshot-id"] = snapshot.snapshot_id;
  main["type"] = "branch";
  Touch(json_, snapshot.timestamp_ms);
  Json entry = Json::object();
  entry["timestamp-ms"] = snapshot.timestamp_ms;
  entry["snapshot-id"] = snapshot.snapshot_id;
  ArrayAt(json_, "snapshot-log").push_back(std::move(entry));
  json_["last-sequence-number"] = std::max(last_sequence_number(), snapshot.sequence_number);
  if (snapshot.first_row_id && snapshot.added_rows) {
    int64_t next = 0;  // of numbers that this program gave: they fit
    if (!__builtin_add_overflow(*snapshot.first_row_id, *snapshot.added_rows, &next)) {
      json_["next-row-id"] = std::max(next_row_id(), next);
    }
  }
}

void TableMetadata::SetStatistics(const StatisticsFile& statistics) {
  Json entry = Json::object();
  entry["snapshot-id"] = statistics.snapshot_id;
  entry["statistics-path"] = statistics.statistics_path;
  entry["file-size-in-bytes"] = statistics.file_size_in_bytes;
  entry["file-footer-size-in-bytes"] = statistics.file_footer_size_in_bytes;
  entry["blob-metadata"] = statistics.blob_metadata;
  Json& list = ArrayAt(json_, "statistics");
  Json kept = Json::array();
  for (Json& other : list) {
    const bool replaced = other.is_object() && other.contains("snapshot-id") &&
                          other["snapshot-id"] == statistics.snapshot_id;
    if (!replaced) kept.push_back(std::move(other));
  }
  kept.push_back(std::move(entry));
  list = std::move(kept);
  Touch(json_);
}

std::vector<std::string> TableMetadata::AppendMetadataLog(const std::string& previous_location,
                                                          int64_t timestamp_ms) {
  constexpr int64_t kDefaultPreviousVersions = 100;
  const int64_t most = std::max<int64_t>(
      1, IntProperty("write.metadata.previous-versions-max", kDefaultPreviousVersions)
             .ValueOr(kDefaultPreviousVersions));
  Json& log = ArrayAt(json_, "metadata-log");
  Json entry = Json::object();
  entry["timestamp-ms"] = timestamp_ms;
  entry["metadata-file"] = previous_location;
  log.push_back(std::move(entry));
  std::vector<std::string> dropped;
  const auto excess = static_cast<int64_t>(log.size()) - most;
  for (int64_t i = 0; i < excess; ++i) {
    const Json& old = log[static_cast<size_t>(i)];
    if (old.is_object() && old.contains("metadata-file") && old["metadata-file"].is_string()) {
      dropped.push_back(old["metadata-file"].get<std::string>());
    }
  }
  if (excess > 0) log.erase(log.begin(), log.begin() + excess);
  return dropped;
}

}  // namespace thalweg::iceberg
