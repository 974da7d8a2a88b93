#include "iceberg/avro_partition.h"

#include <set>
#include <string>

#include "iceberg/avro_schema.h"
#include "util/status.h"

namespace thalweg::iceberg {
namespace {

bool Letter(unsigned char c) { return (c | 0x20) >= 'a' && (c | 0x20) <= 'z'; }
bool Digit(unsigned char c) { return c >= '0' && c <= '9'; }

// As the reference implementation escapes names (AvroSchemaUtil.sanitize): by UTF-16 unit, but only
// ASCII counts as letter here.
std::string AvroName(std::string_view name) {
  std::string out;
  auto escape = [&](uint32_t unit) { out += fmt::format("_x{:X}", unit); };
  for (size_t i = 0; i < name.size(); ++i) {
    const uint8_t c = static_cast<uint8_t>(name[i]);
    if (Letter(c) || c == '_' || (Digit(c) && i > 0)) {
      out.push_back(name[i]);
    } else if (Digit(c)) {
      out += fmt::format("_{}", name[i]);
    } else if (c < 0x80) {
      escape(c);
    } else {
      size_t more = c >= 0xF0 ? 3 : c >= 0xE0 ? 2 : 1;
      uint32_t point = c & (0x3F >> more);
      for (; more > 0 && i + 1 < name.size(); --more) {
        point = point << 6 | (static_cast<uint8_t>(name[++i]) & 0x3F);
      }
      if (point < 0x10000) {
        escape(point);
      } else {
        escape(0xD800 + ((point - 0x10000) >> 10));
        escape(0xDC00 + ((point - 0x10000) & 0x3FF));
      }
    }
  }
  return out.empty() ? "_" : out;
}

int DecimalBytes(int precision) {
  // Smallest n with 2^(8n-1) > 10^precision - 1.
  double bits = precision * 3.3219280948873626 + 1;
  return static_cast<int>((bits + 7.999999) / 8);
}

// Named types are defined once and referred to by name afterwards.
Json FixedType(const std::string& name, int size, const Json& attributes,
               std::set<std::string>* named) {
  if (!named->insert(name).second) return name;
  Json type{{"type", "fixed"}, {"name", name}, {"size", size}};
  type.update(attributes);
  return type;
}

Json AvroTypeOf(const Type& type, std::set<std::string>* named) {
  auto logical = [](const char* base, const char* name) {
    return Json{{"type", base}, {"logicalType", name}};
  };
  auto timestamp = [&](const char* name, bool utc) {
    Json json = logical("long", name);
    json["adjust-to-utc"] = utc;
    return json;
  };
  switch (type.kind) {
    case TypeKind::kBoolean:
    case TypeKind::kInt:
    case TypeKind::kLong:
    case TypeKind::kFloat:
    case TypeKind::kDouble:
    case TypeKind::kString:
      return type.ToString();
    case TypeKind::kBinary:
      return "bytes";
    case TypeKind::kDate:
      return logical("int", "date");
    case TypeKind::kTime:
      return logical("long", "time-micros");
    case TypeKind::kTimestamp:
      return timestamp("timestamp-micros", false);
    case TypeKind::kTimestampTz:
      return timestamp("timestamp-micros", true);
    case TypeKind::kTimestampNs:
      return timestamp("timestamp-nanos", false);
    case TypeKind::kTimestampTzNs:
      return timestamp("timestamp-nanos", true);
    case TypeKind::kUuid:
      return FixedType("uuid_fixed", 16, Json{{"logicalType", "uuid"}}, named);
    case TypeKind::kFixed:
      return FixedType(fmt::format("fixed_{}", type.length), type.length, Json::object(), named);
    case TypeKind::kDecimal:
      return FixedType(
          fmt::format("decimal_{}_{}", type.precision, type.scale), DecimalBytes(type.precision),
          Json{{"logicalType", "decimal"}, {"precision", type.precision}, {"scale", type.scale}},
          named);
    default:
      return "int";  // never read: the value is null
  }
}

}  // namespace

arrow::Result<Json> VoidPartitionFields(const Json& spec_fields, const Schema& schema) {
  if (!spec_fields.is_array()) return Invalid("partition spec: not an array of fields");
  Json fields = Json::array();
  std::set<std::string> named;
  int32_t next_id = 1000;  // of specs written before fields had ids
  for (const Json& item : spec_fields) {
    ARROW_ASSIGN_OR_RAISE(std::string transform, GetString(item, "transform", "partition spec"));
    ARROW_ASSIGN_OR_RAISE(std::string name, GetString(item, "name", "partition spec"));
    if (transform != "void") {
      return Invalid(
          "partition spec: field \"{}\" partitions by {}; only unpartitioned manifests are written",
          name, transform);
    }
    ARROW_ASSIGN_OR_RAISE(int64_t source, GetInt64(item, "source-id", "partition spec"));
    ARROW_ASSIGN_OR_RAISE(auto id, FindInt64(item, "field-id", "partition spec"));
    const Field* column = source >= 0 && source <= INT32_MAX
                              ? schema.FindById(static_cast<int32_t>(source))
                              : nullptr;
    // A dropped source column leaves the type open.
    Json type = column ? AvroTypeOf(*column->type, &named) : Json("int");
    std::string avro_name = AvroName(name);
    Json field = AvroOptionalFieldJson(static_cast<int32_t>(id.value_or(next_id)), avro_name,
                                       std::move(type));
    if (avro_name != name) field["iceberg-field-name"] = name;
    fields.push_back(std::move(field));
    ++next_id;
  }
  return fields;
}

}  // namespace thalweg::iceberg
