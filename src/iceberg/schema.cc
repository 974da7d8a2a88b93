#include "iceberg/schema.h"

#include <arrow/extension_type.h>
#include <arrow/util/key_value_metadata.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <utility>

#include "util/number.h"
#include "util/status.h"

namespace thalweg::iceberg {
namespace {

constexpr char kFieldIdKey[] = "PARQUET:field_id";

constexpr int kMaxDepth = 100;  // of nested types
// Of fixed[n]: every row takes n bytes of memory, NULLs too.
constexpr int32_t kMaxFixedLength = 1 << 20;

// Parameterless primitives, in the order of TypeKind where they have a place there.
constexpr std::pair<TypeKind, std::string_view> kSimple[] = {
    {TypeKind::kBoolean, "boolean"},
    {TypeKind::kInt, "int"},
    {TypeKind::kLong, "long"},
    {TypeKind::kFloat, "float"},
    {TypeKind::kDouble, "double"},
    {TypeKind::kDate, "date"},
    {TypeKind::kTime, "time"},
    {TypeKind::kTimestamp, "timestamp"},
    {TypeKind::kTimestampTz, "timestamptz"},
    {TypeKind::kTimestampNs, "timestamp_ns"},
    {TypeKind::kTimestampTzNs, "timestamptz_ns"},
    {TypeKind::kString, "string"},
    {TypeKind::kUuid, "uuid"},
    {TypeKind::kBinary, "binary"},
    {TypeKind::kUnknown, "unknown"},
    {TypeKind::kVariant, "variant"},
};

// The integers of "name(1, 2)" or "name[3]" between the given brackets; nullopt when `text` is not
// of that form.
std::optional<std::vector<int32_t>> Arguments(std::string_view text, std::string_view name,
                                              char open, char close) {
  if (text.substr(0, name.size()) != name) return std::nullopt;
  text.remove_prefix(name.size());
  if (text.size() < 2 || text.front() != open || text.back() != close) return std::nullopt;
  text = text.substr(1, text.size() - 2);
  std::vector<int32_t> numbers;
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    int32_t number = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc()) return std::nullopt;
    numbers.push_back(number);
    text.remove_prefix(end - text.data());
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    if (text.empty()) return numbers;
    if (text.front() != ',') return std::nullopt;
    text.remove_prefix(1);
  }
}

std::shared_ptr<Type> Simple(TypeKind kind) {
  auto type = std::make_shared<Type>();
  type->kind = kind;
  return type;
}

TypePtr Decimal(int32_t precision, int32_t scale) {
  auto type = Simple(TypeKind::kDecimal);
  type->precision = precision;
  type->scale = scale;
  return type;
}

TypePtr Fixed(int32_t length) {
  auto type = Simple(TypeKind::kFixed);
  type->length = length;
  return type;
}

arrow::Result<TypePtr> ParsePrimitive(const std::string& text) {
  for (const auto& [kind, name] : kSimple) {
    if (text == name) return Simple(kind);
  }
  if (auto numbers = Arguments(text, "decimal", '(', ')')) {
    if (numbers->size() != 2 || (*numbers)[0] < 1 || (*numbers)[0] > 38 || (*numbers)[1] < 0 ||
        (*numbers)[1] > (*numbers)[0]) {
      return Invalid("schema: bad type \"{}\"", text);
    }
    return Decimal((*numbers)[0], (*numbers)[1]);
  }
  if (auto numbers = Arguments(text, "fixed", '[', ']')) {
    if (numbers->size() != 1 || (*numbers)[0] < 0) return Invalid("schema: bad type \"{}\"", text);
    return Fixed((*numbers)[0]);
  }
  auto is = [&](std::string_view name) {
    const std::string_view view = text;
    return view == name || (view.starts_with(name) && view.substr(name.size()).starts_with('('));
  };
  auto verbatim = Simple(is("geometry")    ? TypeKind::kGeometry
                         : is("geography") ? TypeKind::kGeography
                                           : TypeKind::kOther);
  verbatim->text = text;
  return verbatim;
}

arrow::Result<int32_t> GetId(const Json& json, const char* key) {
  ARROW_ASSIGN_OR_RAISE(int64_t id, GetInt64(json, key, "schema"));
  if (id < 0 || id > INT32_MAX) return Invalid("schema: \"{}\" is {}", key, id);
  return static_cast<int32_t>(id);
}

arrow::Result<TypePtr> ParseType(const Json& json, int depth);

arrow::Result<std::vector<Field>> ParseFields(const Json& json, int depth) {
  ARROW_ASSIGN_OR_RAISE(const Json* list, GetArray(json, "fields", "schema"));
  std::vector<Field> fields;
  std::set<std::string_view> names;
  fields.reserve(list->size());
  for (const Json& item : *list) {
    Field field;
    ARROW_ASSIGN_OR_RAISE(field.id, GetId(item, "id"));
    ARROW_ASSIGN_OR_RAISE(field.name, GetString(item, "name", "schema"));
    ARROW_ASSIGN_OR_RAISE(field.required, GetBool(item, "required", "schema"));
    ARROW_ASSIGN_OR_RAISE(auto doc, FindString(item, "doc", "schema"));
    field.doc = doc.value_or("");
    auto type = item.find("type");
    if (type == item.end()) return Invalid("schema: field \"{}\" has no type", field.name);
    ARROW_ASSIGN_OR_RAISE(field.type, ParseType(*type, depth));
    if (auto it = item.find("initial-default"); it != item.end()) field.initial_default = *it;
    if (auto it = item.find("write-default"); it != item.end()) field.write_default = *it;
    fields.push_back(std::move(field));
    if (!names.insert(fields.back().name).second) {
      return Invalid("schema: two fields are called \"{}\"", fields.back().name);
    }
  }
  return fields;
}

// An element, key or value: stored as <prefix>-id, <prefix>-required (but for keys) and <prefix>.
arrow::Result<Field> ParseInner(const Json& json, const std::string& prefix, int depth) {
  Field field;
  field.name = prefix;
  ARROW_ASSIGN_OR_RAISE(field.id, GetId(json, (prefix + "-id").c_str()));
  field.required = true;
  if (prefix != "key") {
    ARROW_ASSIGN_OR_RAISE(field.required, GetBool(json, (prefix + "-required").c_str(), "schema"));
  }
  auto type = json.find(prefix);
  if (type == json.end()) return Invalid("schema: \"{}\" is missing", prefix);
  ARROW_ASSIGN_OR_RAISE(field.type, ParseType(*type, depth));
  return field;
}

arrow::Result<TypePtr> ParseType(const Json& json, int depth) {
  if (depth > kMaxDepth) return Invalid("schema: types nested deeper than {}", kMaxDepth);
  if (json.is_string()) return ParsePrimitive(json.get_ref<const std::string&>());
  ARROW_ASSIGN_OR_RAISE(std::string name, GetString(json, "type", "schema"));
  auto type = std::make_shared<Type>();
  if (name == "struct") {
    type->kind = TypeKind::kStruct;
    ARROW_ASSIGN_OR_RAISE(type->fields, ParseFields(json, depth + 1));
  } else if (name == "list") {
    type->kind = TypeKind::kList;
    ARROW_ASSIGN_OR_RAISE(auto element, ParseInner(json, "element", depth + 1));
    type->fields.push_back(std::move(element));
  } else if (name == "map") {
    type->kind = TypeKind::kMap;
    for (const char* part : {"key", "value"}) {
      ARROW_ASSIGN_OR_RAISE(auto inner, ParseInner(json, part, depth + 1));
      type->fields.push_back(std::move(inner));
    }
  } else {
    type->kind = TypeKind::kOther;
    type->text = DumpJson(json);
  }
  return type;
}

Json TypeToJson(const Type& type);

Json FieldsToJson(const std::vector<Field>& fields) {
  Json list = Json::array();
  for (const Field& field : fields) {
    Json item{{"id", field.id},
              {"name", field.name},
              {"required", field.required},
              {"type", TypeToJson(*field.type)}};
    if (!field.doc.empty()) item["doc"] = field.doc;
    if (!field.initial_default.is_null()) item["initial-default"] = field.initial_default;
    if (!field.write_default.is_null()) item["write-default"] = field.write_default;
    list.push_back(std::move(item));
  }
  return list;
}

Json TypeToJson(const Type& type) {
  switch (type.kind) {
    case TypeKind::kStruct:
      return Json{{"type", "struct"}, {"fields", FieldsToJson(type.fields)}};
    case TypeKind::kList: {
      const Field& element = type.fields[0];
      return Json{{"type", "list"},
                  {"element-id", element.id},
                  {"element", TypeToJson(*element.type)},
                  {"element-required", element.required}};
    }
    case TypeKind::kMap: {
      const Field &key = type.fields[0], &value = type.fields[1];
      return Json{{"type", "map"},
                  {"key-id", key.id},
                  {"key", TypeToJson(*key.type)},
                  {"value-id", value.id},
                  {"value", TypeToJson(*value.type)},
                  {"value-required", value.required}};
    }
    case TypeKind::kOther:
      if (!type.text.empty() && type.text.front() == '{') {
        if (auto json = ParseJson(type.text, "type"); json.ok()) return json.MoveValueUnsafe();
      }
      return type.text;
    default:
      return type.ToString();
  }
}

const Field* FindIn(const std::vector<Field>& fields, int32_t id) {
  for (const Field& field : fields) {
    if (field.id == id) return &field;
    if (const Field* found = FindIn(field.type->fields, id)) return found;
  }
  return nullptr;
}

template <typename Visit>
void VisitFields(const std::vector<Field>& fields, const Visit& visit) {
  for (const Field& field : fields) {
    visit(field);
    VisitFields(field.type->fields, visit);
  }
}

void CollectLeaves(const std::vector<Field>& fields, const std::string& prefix, bool in_repeated,
                   std::vector<Schema::Leaf>* leaves) {
  for (const Field& field : fields) {
    std::string path = prefix.empty() ? field.name : prefix + "." + field.name;
    bool repeats = field.type->kind == TypeKind::kList || field.type->kind == TypeKind::kMap;
    if (field.type->kind == TypeKind::kUnknown) continue;
    if (field.type->fields.empty() && field.type->kind != TypeKind::kStruct) {
      leaves->push_back({&field, path, in_repeated});
    } else {
      CollectLeaves(field.type->fields, path, in_repeated || repeats, leaves);
    }
  }
}

// ---- Arrow ----

arrow::Result<std::shared_ptr<arrow::DataType>> TypeToArrow(const Type& type,
                                                            const std::string& path);

arrow::Result<std::shared_ptr<arrow::Field>> FieldToArrow(const Field& field,
                                                          const std::string& prefix) {
  std::string path = prefix.empty() ? field.name : prefix + "." + field.name;
  ARROW_ASSIGN_OR_RAISE(auto type, TypeToArrow(*field.type, path));
  return arrow::field(field.name, type, !field.required,
                      arrow::key_value_metadata({kFieldIdKey}, {std::to_string(field.id)}));
}

arrow::Result<std::shared_ptr<arrow::DataType>> TypeToArrow(const Type& type,
                                                            const std::string& path) {
  switch (type.kind) {
    case TypeKind::kBoolean:
      return arrow::boolean();
    case TypeKind::kInt:
      return arrow::int32();
    case TypeKind::kLong:
      return arrow::int64();
    case TypeKind::kFloat:
      return arrow::float32();
    case TypeKind::kDouble:
      return arrow::float64();
    case TypeKind::kDecimal:
      return arrow::decimal128(type.precision, type.scale);
    case TypeKind::kDate:
      return arrow::date32();
    case TypeKind::kTime:
      return arrow::time64(arrow::TimeUnit::MICRO);
    case TypeKind::kTimestamp:
      return arrow::timestamp(arrow::TimeUnit::MICRO);
    case TypeKind::kTimestampTz:
      return arrow::timestamp(arrow::TimeUnit::MICRO, "UTC");
    case TypeKind::kTimestampNs:
      return arrow::timestamp(arrow::TimeUnit::NANO);
    case TypeKind::kTimestampTzNs:
      return arrow::timestamp(arrow::TimeUnit::NANO, "UTC");
    case TypeKind::kString:
      return arrow::utf8();
    case TypeKind::kUuid:
      return arrow::fixed_size_binary(16);
    case TypeKind::kFixed:
      if (type.length > kMaxFixedLength) {
        return arrow::Status::NotImplemented("column \"", path, "\" has type ", type.ToString(),
                                             ", of more than ", kMaxFixedLength, " bytes");
      }
      return arrow::fixed_size_binary(type.length);
    case TypeKind::kBinary:
    case TypeKind::kGeometry:
    case TypeKind::kGeography:
      return arrow::binary();
    case TypeKind::kUnknown:
      return arrow::null();
    case TypeKind::kVariant:
      return arrow::struct_({arrow::field("metadata", arrow::binary(), /*nullable=*/false),
                             arrow::field("value", arrow::binary(), /*nullable=*/false)});
    case TypeKind::kStruct:
    case TypeKind::kList:
    case TypeKind::kMap: {
      arrow::FieldVector fields;
      for (const Field& field : type.fields) {
        ARROW_ASSIGN_OR_RAISE(auto inner, FieldToArrow(field, path));
        fields.push_back(std::move(inner));
      }
      if (type.kind == TypeKind::kStruct) return arrow::struct_(fields);
      if (type.kind == TypeKind::kList) return arrow::list(fields[0]);
      return std::make_shared<arrow::MapType>(fields[0], fields[1]);
    }
    case TypeKind::kOther:
      break;
  }
  return arrow::Status::NotImplemented("column \"", path, "\" has type ", type.text,
                                       ", which this version does not know");
}

class FromArrowConverter {
 public:
  // Ids in the order of the reference implementation: all fields of a struct first, then what is
  // inside each of them.
  arrow::Result<std::vector<Field>> Fields(const arrow::FieldVector& from,
                                           const std::string& prefix) {
    std::vector<Field> fields(from.size());
    std::set<std::string_view> names;
    for (size_t i = 0; i < from.size(); ++i) {
      fields[i].id = next_id_++;
      fields[i].name = from[i]->name();
      fields[i].required = !from[i]->nullable();
      if (!names.insert(from[i]->name()).second) {
        return Invalid("two columns are called \"{}{}\"", prefix, from[i]->name());
      }
    }
    for (size_t i = 0; i < from.size(); ++i) {
      ARROW_ASSIGN_OR_RAISE(fields[i].type, Convert(*from[i]->type(), prefix + from[i]->name()));
    }
    return fields;
  }

 private:
  // The elements of a list, or keys and values of a map.
  arrow::Result<TypePtr> Nested(TypeKind kind,
                                std::vector<std::pair<const char*, const arrow::Field*>> parts,
                                const std::string& path) {
    auto type = Simple(kind);
    for (const auto& [name, part] : parts) {
      Field& field = type->fields.emplace_back();
      field.id = next_id_++;
      field.name = name;
      field.required = !part->nullable() || field.name == "key";
    }
    for (size_t i = 0; i < parts.size(); ++i) {
      Field& field = type->fields[i];
      ARROW_ASSIGN_OR_RAISE(field.type, Convert(*parts[i].second->type(), path + "." + field.name));
    }
    return type;
  }

  arrow::Result<TypePtr> Convert(const arrow::DataType& type, const std::string& path) {
    switch (type.id()) {
      case arrow::Type::BOOL:
        return Simple(TypeKind::kBoolean);
      case arrow::Type::INT8:
      case arrow::Type::INT16:
      case arrow::Type::INT32:
      case arrow::Type::UINT8:
      case arrow::Type::UINT16:
        return Simple(TypeKind::kInt);
      case arrow::Type::INT64:
      case arrow::Type::UINT32:
        return Simple(TypeKind::kLong);
      case arrow::Type::HALF_FLOAT:
      case arrow::Type::FLOAT:
        return Simple(TypeKind::kFloat);
      case arrow::Type::DOUBLE:
        return Simple(TypeKind::kDouble);
      case arrow::Type::DECIMAL32:
      case arrow::Type::DECIMAL64:
      case arrow::Type::DECIMAL128:
      case arrow::Type::DECIMAL256: {
        const auto& decimal = static_cast<const arrow::DecimalType&>(type);
        if (decimal.precision() > 38 || decimal.scale() < 0 ||
            decimal.scale() > decimal.precision()) {
          break;
        }
        return Decimal(decimal.precision(), decimal.scale());
      }
      case arrow::Type::DATE32:
      case arrow::Type::DATE64:
        return Simple(TypeKind::kDate);
      case arrow::Type::TIME32:
        return Simple(TypeKind::kTime);
      case arrow::Type::TIME64:
        if (static_cast<const arrow::Time64Type&>(type).unit() != arrow::TimeUnit::MICRO) break;
        return Simple(TypeKind::kTime);
      case arrow::Type::TIMESTAMP: {
        const auto& timestamp = static_cast<const arrow::TimestampType&>(type);
        bool zoned = !timestamp.timezone().empty();
        if (timestamp.unit() == arrow::TimeUnit::NANO) {
          return Simple(zoned ? TypeKind::kTimestampTzNs : TypeKind::kTimestampNs);
        }
        return Simple(zoned ? TypeKind::kTimestampTz : TypeKind::kTimestamp);
      }
      case arrow::Type::STRING:
      case arrow::Type::LARGE_STRING:
      case arrow::Type::STRING_VIEW:
        return Simple(TypeKind::kString);
      case arrow::Type::BINARY:
      case arrow::Type::LARGE_BINARY:
      case arrow::Type::BINARY_VIEW:
        return Simple(TypeKind::kBinary);
      case arrow::Type::FIXED_SIZE_BINARY:
        return Fixed(static_cast<const arrow::FixedSizeBinaryType&>(type).byte_width());
      case arrow::Type::DICTIONARY:
        return Convert(*static_cast<const arrow::DictionaryType&>(type).value_type(), path);
      case arrow::Type::EXTENSION: {
        const auto& extension = static_cast<const arrow::ExtensionType&>(type);
        if (extension.extension_name() == "arrow.uuid") return Simple(TypeKind::kUuid);
        break;
      }
      case arrow::Type::STRUCT: {
        auto result = Simple(TypeKind::kStruct);
        ARROW_ASSIGN_OR_RAISE(result->fields, Fields(type.fields(), path + "."));
        return result;
      }
      case arrow::Type::LIST:
      case arrow::Type::LARGE_LIST:
      case arrow::Type::LIST_VIEW:
      case arrow::Type::LARGE_LIST_VIEW:
      case arrow::Type::FIXED_SIZE_LIST:
        return Nested(TypeKind::kList, {{"element", type.field(0).get()}}, path);
      case arrow::Type::MAP: {
        const auto& map = static_cast<const arrow::MapType&>(type);
        return Nested(TypeKind::kMap,
                      {{"key", map.key_field().get()}, {"value", map.item_field().get()}}, path);
      }
      default:
        break;
    }
    return arrow::Status::NotImplemented("column \"", path, "\" has type ", type.ToString(),
                                         ", which Iceberg does not have");
  }

  int32_t next_id_ = 1;
};

}  // namespace

std::string Type::ToString() const {
  for (const auto& [simple, name] : kSimple) {
    if (kind == simple) return std::string(name);
  }
  switch (kind) {
    case TypeKind::kDecimal:
      return fmt::format("decimal({}, {})", precision, scale);
    case TypeKind::kFixed:
      return fmt::format("fixed[{}]", length);
    case TypeKind::kList:
      return fmt::format("list<{}>", fields[0].type->ToString());
    case TypeKind::kMap:
      return fmt::format("map<{}, {}>", fields[0].type->ToString(), fields[1].type->ToString());
    case TypeKind::kStruct: {
      std::string inner;
      for (const Field& field : fields) {
        if (!inner.empty()) inner += ", ";
        inner += field.name + ": " + field.type->ToString();
      }
      return "struct<" + inner + ">";
    }
    default:
      return text;
  }
}

bool Type::Equals(const Type& other, bool check_ids) const {
  if (kind != other.kind || precision != other.precision || scale != other.scale ||
      length != other.length || text != other.text || fields.size() != other.fields.size()) {
    return false;
  }
  for (size_t i = 0; i < fields.size(); ++i) {
    const Field &a = fields[i], &b = other.fields[i];
    if ((check_ids && a.id != b.id) || a.name != b.name || a.required != b.required ||
        !a.type->Equals(*b.type, check_ids)) {
      return false;
    }
  }
  return true;
}

arrow::Result<Schema> Schema::FromJson(const Json& json) {
  Schema schema;
  ARROW_ASSIGN_OR_RAISE(auto id, FindInt64(json, "schema-id", "schema"));
  if (id && (*id < 0 || *id > INT32_MAX)) return Invalid("schema: \"schema-id\" is {}", *id);
  schema.schema_id = static_cast<int32_t>(id.value_or(0));
  ARROW_ASSIGN_OR_RAISE(schema.fields, ParseFields(json, 1));
  std::set<int32_t> ids;
  int32_t twice = -1;
  VisitFields(schema.fields, [&](const Field& field) {
    if (!ids.insert(field.id).second) twice = field.id;
  });
  if (twice >= 0) return Invalid("schema: field id {} is there twice", twice);
  if (auto it = json.find("identifier-field-ids"); it != json.end() && !it->is_null()) {
    if (!it->is_array()) return Invalid("schema: \"identifier-field-ids\" is not an array");
    for (const Json& item : *it) {
      int64_t field_id = item.is_number_integer() ? item.get<int64_t>() : -1;
      if (field_id < 0 || field_id > INT32_MAX || !ids.contains(static_cast<int32_t>(field_id))) {
        return Invalid("schema: \"identifier-field-ids\" names {}, which is no field",
                       DumpJson(item));
      }
      schema.identifier_field_ids.push_back(static_cast<int32_t>(field_id));
    }
  }
  return schema;
}

Json Schema::ToJson() const {
  Json json{{"type", "struct"}, {"schema-id", schema_id}};
  if (!identifier_field_ids.empty()) json["identifier-field-ids"] = identifier_field_ids;
  json["fields"] = FieldsToJson(fields);
  return json;
}

arrow::Result<Schema> Schema::FromArrow(const arrow::Schema& from) {
  Schema schema;
  ARROW_ASSIGN_OR_RAISE(schema.fields, FromArrowConverter().Fields(from.fields(), ""));
  return schema;
}

const Field* Schema::FindTopLevel(std::string_view name) const {
  for (const Field& field : fields) {
    if (field.name == name) return &field;
  }
  return nullptr;
}

const Field* Schema::FindById(int32_t id) const { return FindIn(fields, id); }

int Schema::TopLevelPosition(int32_t id) const {
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].id == id) return static_cast<int>(i);
  }
  return -1;
}

int32_t Schema::HighestFieldId() const {
  int32_t highest = 0;
  VisitFields(fields, [&](const Field& field) { highest = std::max(highest, field.id); });
  return highest;
}

std::vector<Schema::Leaf> Schema::Leaves() const {
  std::vector<Leaf> leaves;
  CollectLeaves(fields, "", false, &leaves);
  return leaves;
}

arrow::Result<std::shared_ptr<arrow::Schema>> Schema::ToArrow() const {
  arrow::FieldVector result;
  for (const Field& field : fields) {
    ARROW_ASSIGN_OR_RAISE(auto converted, FieldToArrow(field, ""));
    result.push_back(std::move(converted));
  }
  return arrow::schema(std::move(result));
}

std::optional<int32_t> FieldIdOf(const arrow::Field& field) {
  const int index = field.HasMetadata() ? field.metadata()->FindKey(kFieldIdKey) : -1;
  return index < 0 ? std::nullopt : ParseNumber<int32_t>(field.metadata()->value(index));
}

}  // namespace thalweg::iceberg
