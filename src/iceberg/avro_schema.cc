#include "iceberg/avro_schema.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "util/status.h"

namespace thalweg::iceberg {
namespace {

constexpr std::array<std::string_view, 14> kNames = {
    "null",   "boolean", "int",  "long",  "float", "double", "bytes",
    "string", "record",  "enum", "array", "map",   "union",  "fixed"};
constexpr int64_t kSaturated = int64_t{1} << 40;

std::optional<AvroKind> Primitive(std::string_view name) {
  auto it = std::find(kNames.begin(), kNames.begin() + 8, name);
  if (it == kNames.begin() + 8) return std::nullopt;
  return static_cast<AvroKind>(it - kNames.begin());
}

int64_t PrimitiveMinSize(AvroKind kind) {
  switch (kind) {
    case AvroKind::kNull:
      return 0;
    case AvroKind::kFloat:
      return 4;
    case AvroKind::kDouble:
      return 8;
    default:
      return 1;
  }
}

}  // namespace

std::string_view ToString(AvroKind kind) { return kNames[static_cast<size_t>(kind)]; }

const AvroField* AvroType::FieldById(int32_t id) const {
  for (const AvroField& field : fields) {
    if (field.id == id) return &field;
  }
  return nullptr;
}

class AvroSchemaParser {
 public:
  explicit AvroSchemaParser(AvroSchema* schema) : schema_(schema) {}

  arrow::Result<const AvroType*> Parse(const Json& json, const std::string& space) {
    if (json.is_string()) return Named(json.get_ref<const std::string&>(), space);
    if (json.is_array()) return Union(json, space);
    if (!json.is_object()) return Invalid("Avro schema: a type is neither name, object nor union");
    auto type = json.find("type");
    if (type == json.end()) return Invalid("Avro schema: a type without \"type\"");
    if (!type->is_string()) return Parse(*type, space);
    const std::string& name = type->get_ref<const std::string&>();
    if (name == "record" || name == "error") return Record(json, space);
    if (name == "enum") return Enum(json, space);
    if (name == "fixed") return Fixed(json, space);
    if (name == "array") return Collection(json, AvroKind::kArray, "items", space);
    if (name == "map") return Collection(json, AvroKind::kMap, "values", space);
    return Named(name, space);
  }

 private:
  AvroType* New(AvroKind kind, int64_t min_size) {
    AvroType& node = schema_->nodes_.emplace_back();
    node.kind = kind;
    node.min_size = min_size;
    return &node;
  }

  arrow::Result<const AvroType*> Named(const std::string& name, const std::string& space) {
    if (auto kind = Primitive(name)) return New(*kind, PrimitiveMinSize(*kind));
    if (name.find('.') == std::string::npos && !space.empty()) {
      if (auto it = named_.find(space + "." + name); it != named_.end()) return it->second;
    }
    if (auto it = named_.find(name); it != named_.end()) return it->second;
    return Invalid("Avro schema: unknown type \"{}\"", name);
  }

  // Registers `node` and gives the namespace that holds inside it.
  arrow::Result<std::string> Register(const Json& json, const std::string& space,
                                      const AvroType* node) {
    ARROW_ASSIGN_OR_RAISE(std::string name, GetString(json, "name", "Avro schema"));
    ARROW_ASSIGN_OR_RAISE(auto given, FindString(json, "namespace", "Avro schema"));
    std::string inside = given.value_or(space);
    if (size_t dot = name.rfind('.'); dot != std::string::npos) {
      inside = name.substr(0, dot);
      name = name.substr(dot + 1);
    }
    std::string full = inside.empty() ? name : inside + "." + name;
    if (!named_.emplace(full, node).second) {
      return Invalid("Avro schema: type \"{}\" is defined twice", full);
    }
    return inside;
  }

  arrow::Result<const AvroType*> Record(const Json& json, const std::string& space) {
    AvroType* node = New(AvroKind::kRecord, 1);  // a value inside itself: not empty
    ARROW_ASSIGN_OR_RAISE(std::string inside, Register(json, space, node));
    ARROW_ASSIGN_OR_RAISE(const Json* fields, GetArray(json, "fields", "Avro schema"));
    int64_t min_size = 0;
    std::set<std::string> names;
    std::set<int32_t> ids;
    for (const Json& item : *fields) {
      AvroField field;
      ARROW_ASSIGN_OR_RAISE(field.name, GetString(item, "name", "Avro schema"));
      ARROW_ASSIGN_OR_RAISE(auto id, FindInt64(item, "field-id", "Avro schema"));
      if (id) {
        if (*id < 0 || *id > INT32_MAX) {
          return Invalid("Avro schema: field \"{}\" has field-id {}", field.name, *id);
        }
        field.id = static_cast<int32_t>(*id);
      }
      auto type = item.find("type");
      if (type == item.end()) return Invalid("Avro schema: field \"{}\" has no type", field.name);
      ARROW_ASSIGN_OR_RAISE(field.type, Parse(*type, inside));
      if (!names.insert(field.name).second || (field.id >= 0 && !ids.insert(field.id).second)) {
        return Invalid("Avro schema: field \"{}\" (id {}) is there twice", field.name, field.id);
      }
      min_size = std::min(kSaturated, min_size + field.type->min_size);
      node->fields.push_back(std::move(field));
    }
    node->min_size = min_size;
    return node;
  }

  arrow::Result<const AvroType*> Enum(const Json& json, const std::string& space) {
    AvroType* node = New(AvroKind::kEnum, 1);
    ARROW_RETURN_NOT_OK(Register(json, space, node));
    return node;
  }

  arrow::Result<const AvroType*> Fixed(const Json& json, const std::string& space) {
    ARROW_ASSIGN_OR_RAISE(int64_t size, GetInt64(json, "size", "Avro schema"));
    if (size < 0) return Invalid("Avro schema: fixed of {} bytes", size);
    AvroType* node = New(AvroKind::kFixed, std::min(kSaturated, size));
    node->size = size;
    ARROW_RETURN_NOT_OK(Register(json, space, node));
    return node;
  }

  arrow::Result<const AvroType*> Collection(const Json& json, AvroKind kind, const char* key,
                                            const std::string& space) {
    auto items = json.find(key);
    if (items == json.end()) return Invalid("Avro schema: {} without \"{}\"", ToString(kind), key);
    AvroType* node = New(kind, 1);
    ARROW_ASSIGN_OR_RAISE(node->items, Parse(*items, space));
    return node;
  }

  arrow::Result<const AvroType*> Union(const Json& json, const std::string& space) {
    if (json.empty()) return Invalid("Avro schema: a union without branches");
    AvroType* node = New(AvroKind::kUnion, 1);
    for (const Json& item : json) {
      ARROW_ASSIGN_OR_RAISE(const AvroType* branch, Parse(item, space));
      if (branch->kind == AvroKind::kUnion) return Invalid("Avro schema: a union in a union");
      node->branches.push_back(branch);
    }
    return node;
  }

  AvroSchema* schema_;
  std::map<std::string, const AvroType*> named_;
};

arrow::Result<AvroSchema> AvroSchema::Parse(std::string_view json) {
  ARROW_ASSIGN_OR_RAISE(Json parsed, ParseJson(json, "Avro schema"));
  AvroSchema schema;
  ARROW_ASSIGN_OR_RAISE(schema.root_, AvroSchemaParser(&schema).Parse(parsed, ""));
  return schema;
}

Json AvroRecordJson(std::string_view name, Json fields) {
  return Json{{"type", "record"}, {"name", name}, {"fields", std::move(fields)}};
}

Json AvroFieldJson(int32_t id, std::string_view name, Json type) {
  return Json{{"name", name}, {"type", std::move(type)}, {"field-id", id}};
}

Json AvroOptionalFieldJson(int32_t id, std::string_view name, Json type) {
  return Json{{"name", name},
              {"type", Json::array({"null", std::move(type)})},
              {"default", nullptr},
              {"field-id", id}};
}

Json AvroListJson(int32_t element_id, Json element) {
  return Json{{"type", "array"}, {"items", std::move(element)}, {"element-id", element_id}};
}

Json AvroIntMapJson(int32_t key_id, int32_t value_id, Json value) {
  Json fields = Json::array();
  fields.push_back(AvroFieldJson(key_id, "key", "int"));
  fields.push_back(AvroFieldJson(value_id, "value", std::move(value)));
  return Json{{"type", "array"},
              {"items", AvroRecordJson(fmt::format("k{}_v{}", key_id, value_id), fields)},
              {"logicalType", "map"}};
}

}  // namespace thalweg::iceberg
