#include "iceberg/parquet_schema.h"

#include <arrow/compute/api.h>
#include <arrow/extension_type.h>
#include <arrow/util/key_value_metadata.h>
#include <fmt/format.h>
#include <parquet/arrow/schema.h>

#include <map>
#include <set>

#include "util/number.h"

namespace thalweg::iceberg {

namespace {

using parquet::LogicalType;
using parquet::arrow::SchemaField;

constexpr int kNoId = -1;

int FieldIdOf(const arrow::Field& field) {
  if (!field.HasMetadata()) return kNoId;
  int index = field.metadata()->FindKey("PARQUET:field_id");
  if (index < 0) return kNoId;
  return ParseNumber<int>(field.metadata()->value(index)).value_or(kNoId);
}

std::string DescribeLeaf(const parquet::ColumnDescriptor& leaf) {
  std::string text = parquet::TypeToString(leaf.physical_type(), leaf.type_length());
  if (leaf.logical_type() && !leaf.logical_type()->is_none()) {
    text += ' ';
    text += leaf.logical_type()->ToString();
  }
  return text;
}

/// Whether a Parquet leaf stores values of this Iceberg primitive.
bool SameType(const Type& type, const parquet::ColumnDescriptor& leaf) {
  const parquet::Type::type physical = leaf.physical_type();
  const LogicalType& logical = *leaf.logical_type();
  const bool bare = logical.is_none();
  auto integer = [&](int max_width, bool is_signed_only) {
    if (bare) return true;
    if (!logical.is_int()) return false;
    const auto& as_int = static_cast<const parquet::IntLogicalType&>(logical);
    if (as_int.is_signed()) return as_int.bit_width() <= max_width;
    return !is_signed_only && as_int.bit_width() < max_width;
  };
  auto timestamp = [&](bool utc, bool nanos) {
    if (physical == parquet::Type::INT96) return !nanos && bare;
    if (physical != parquet::Type::INT64 || !logical.is_timestamp()) return false;
    const auto& as_timestamp = static_cast<const parquet::TimestampLogicalType&>(logical);
    const auto unit = as_timestamp.time_unit();
    const bool unit_fits =
        nanos ? unit == LogicalType::TimeUnit::NANOS
              : unit == LogicalType::TimeUnit::MICROS || unit == LogicalType::TimeUnit::MILLIS;
    // The converted types of old writers do not say whether the time is local.
    return unit_fits &&
           (as_timestamp.is_from_converted_type() || as_timestamp.is_adjusted_to_utc() == utc);
  };
  switch (type.kind) {
    case TypeKind::kBoolean:
      return physical == parquet::Type::BOOLEAN;
    case TypeKind::kInt:
      return physical == parquet::Type::INT32 && integer(32, false);
    case TypeKind::kLong:
      return physical == parquet::Type::INT64 && integer(64, true);
    case TypeKind::kFloat:
      return physical == parquet::Type::FLOAT && bare;
    case TypeKind::kDouble:
      return physical == parquet::Type::DOUBLE && bare;
    case TypeKind::kDecimal: {
      if (!logical.is_decimal()) return false;
      const auto& decimal = static_cast<const parquet::DecimalLogicalType&>(logical);
      return decimal.precision() == type.precision && decimal.scale() == type.scale;
    }
    case TypeKind::kDate:
      return physical == parquet::Type::INT32 && logical.is_date();
    case TypeKind::kTime:
      return physical == parquet::Type::INT64 && logical.is_time() &&
             static_cast<const parquet::TimeLogicalType&>(logical).time_unit() ==
                 LogicalType::TimeUnit::MICROS;
    case TypeKind::kTimestamp:
      return timestamp(false, false);
    case TypeKind::kTimestampTz:
      return timestamp(true, false);
    case TypeKind::kTimestampNs:
      return timestamp(false, true);
    case TypeKind::kTimestampTzNs:
      return timestamp(true, true);
    case TypeKind::kString:
      return physical == parquet::Type::BYTE_ARRAY &&
             (logical.is_string() || logical.is_enum() || logical.is_JSON());
    case TypeKind::kUuid:
      return physical == parquet::Type::FIXED_LEN_BYTE_ARRAY && leaf.type_length() == 16 &&
             (bare || logical.is_UUID());
    case TypeKind::kFixed:
      return physical == parquet::Type::FIXED_LEN_BYTE_ARRAY && leaf.type_length() == type.length &&
             bare;
    case TypeKind::kBinary:
      return physical == parquet::Type::BYTE_ARRAY && (bare || logical.is_BSON());
    default:
      return false;
  }
}

class Matcher {
 public:
  Matcher(const parquet::SchemaDescriptor* descriptor, const std::string& location)
      : descriptor_(descriptor), location_(location) {}

  arrow::Status Match(const Field& want, const SchemaField& have, const std::string& path,
                      std::vector<int>* leaves) const {
    int id = FieldIdOf(*have.field);
    if (id != want.id) {
      return Invalid(
          "data file {}: column \"{}\" has {} in the file and field id {} in the table's schema "
          "(schema evolution is not supported yet)",
          location_, path, id == kNoId ? "no field id" : fmt::format("field id {}", id), want.id);
    }
    const Type& type = *want.type;
    switch (type.kind) {
      case TypeKind::kStruct:
        if (have.is_leaf() || have.field->type()->id() != arrow::Type::STRUCT) break;
        return MatchStruct(type, have, path, leaves);
      case TypeKind::kList:
        if (have.is_leaf() || have.field->type()->id() != arrow::Type::LIST ||
            have.children.size() != 1) {
          break;
        }
        return Match(type.fields[0], have.children[0], path + ".element", leaves);
      case TypeKind::kMap: {
        if (have.is_leaf() || have.field->type()->id() != arrow::Type::MAP ||
            have.children.size() != 1 || have.children[0].children.size() != 2) {
          break;
        }
        const SchemaField& entry = have.children[0];
        ARROW_RETURN_NOT_OK(Match(type.fields[0], entry.children[0], path + ".key", leaves));
        return Match(type.fields[1], entry.children[1], path + ".value", leaves);
      }
      default:
        if (!have.is_leaf()) break;
        if (!SameType(type, *descriptor_->Column(have.column_index))) break;
        leaves->push_back(have.column_index);
        return arrow::Status::OK();
    }
    std::string found = have.is_leaf() ? DescribeLeaf(*descriptor_->Column(have.column_index))
                                       : OneLine(have.field->type()->ToString());
    return Invalid(
        "data file {}: column \"{}\" is {} in the file and {} in the table's schema (schema "
        "evolution is not supported yet)",
        location_, path, found, type.ToString());
  }

 private:
  arrow::Status MatchStruct(const Type& type, const SchemaField& have, const std::string& path,
                            std::vector<int>* leaves) const {
    if (have.children.size() != type.fields.size()) {
      return Invalid(
          "data file {}: column \"{}\" has {} fields in the file and {} in the table's schema "
          "(schema evolution is not supported yet)",
          location_, path, have.children.size(), type.fields.size());
    }
    for (size_t i = 0; i < type.fields.size(); ++i) {
      ARROW_RETURN_NOT_OK(
          Match(type.fields[i], have.children[i], path + "." + type.fields[i].name, leaves));
    }
    return arrow::Status::OK();
  }

  const parquet::SchemaDescriptor* descriptor_;
  const std::string& location_;
};

/// The child array of a nested array, its type replaced all the way down.
arrow::Result<std::shared_ptr<arrow::ArrayData>> ConformChild(
    const std::shared_ptr<arrow::ArrayData>& child, const std::shared_ptr<arrow::DataType>& type) {
  ARROW_ASSIGN_OR_RAISE(auto conformed, ConformArray(arrow::MakeArray(child), type));
  return conformed->data();
}

bool SameDictionary(const arrow::DataType& a, const arrow::DataType& b) {
  const auto& left = static_cast<const arrow::DictionaryType&>(a);
  const auto& right = static_cast<const arrow::DictionaryType&>(b);
  return left.index_type()->Equals(right.index_type()) &&
         left.value_type()->Equals(right.value_type());
}

parquet::schema::NodePtr AnnotateUuids(const parquet::schema::NodePtr& node,
                                       const std::set<int>& uuid_ids) {
  if (node->is_primitive()) {
    if (!uuid_ids.contains(node->field_id())) return node;
    const auto& leaf = static_cast<const parquet::schema::PrimitiveNode&>(*node);
    return parquet::schema::PrimitiveNode::Make(leaf.name(), leaf.repetition(), LogicalType::UUID(),
                                                leaf.physical_type(), leaf.type_length(),
                                                leaf.field_id());
  }
  const auto& group = static_cast<const parquet::schema::GroupNode&>(*node);
  parquet::schema::NodeVector children;
  for (int i = 0; i < group.field_count(); ++i) {
    children.push_back(AnnotateUuids(group.field(i), uuid_ids));
  }
  const bool annotated = group.logical_type()->is_nested();  // "none" is no annotation of groups
  return parquet::schema::GroupNode::Make(group.name(), group.repetition(), children,
                                          annotated ? group.logical_type() : nullptr,
                                          group.field_id());
}

}  // namespace

std::string OneLine(std::string_view text) {
  std::string line;
  for (char c : text) {
    bool space = c == '\n' || c == '\r' || c == '\t' || c == ' ';
    if (!space) {
      line += c;
    } else if (!line.empty() && line.back() != ' ') {
      line += ' ';
    }
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line;
}

arrow::Result<std::vector<ParquetColumn>> MatchColumns(const parquet::FileMetaData& metadata,
                                                       const Schema& schema,
                                                       const std::string& location) {
  parquet::arrow::SchemaManifest manifest;
  // Without the file's key-value metadata: a stored Arrow schema does not decide what the types
  // are.
  ARROW_RETURN_NOT_OK(parquet::arrow::SchemaManifest::Make(
      metadata.schema(), nullptr, parquet::ArrowReaderProperties(), &manifest));

  std::map<int, int> position_of_id;
  for (size_t i = 0; i < manifest.schema_fields.size(); ++i) {
    const arrow::Field& field = *manifest.schema_fields[i].field;
    int id = FieldIdOf(field);
    if (id == kNoId) continue;
    if (!position_of_id.emplace(id, static_cast<int>(i)).second) {
      return Invalid("data file {}: field id {} stands at two columns, one of them \"{}\"",
                     location, id, field.name());
    }
  }
  if (position_of_id.empty() && !manifest.schema_fields.empty()) {
    return Invalid(
        "data file {}: its columns have no field ids (reading by name mapping is not supported "
        "yet)",
        location);
  }
  Matcher matcher(metadata.schema(), location);
  std::vector<ParquetColumn> columns;
  std::set<int> used;
  for (const Field& want : schema.fields) {
    auto it = position_of_id.find(want.id);
    if (it == position_of_id.end()) {
      for (const auto& have : manifest.schema_fields) {
        // A column of that name with another id gets the message that says both.
        if (have.field->name() == want.name) {
          std::vector<int> unused;
          ARROW_RETURN_NOT_OK(matcher.Match(want, have, want.name, &unused));
        }
      }
      return Invalid(
          "data file {}: column \"{}\" (field id {}) is missing in the file (schema evolution is "
          "not "
          "supported yet)",
          location, want.name, want.id);
    }
    ParquetColumn column;
    column.position = it->second;
    used.insert(it->second);
    ARROW_RETURN_NOT_OK(
        matcher.Match(want, manifest.schema_fields[it->second], want.name, &column.leaves));
    columns.push_back(std::move(column));
  }
  for (size_t i = 0; i < manifest.schema_fields.size(); ++i) {
    if (used.contains(static_cast<int>(i))) continue;
    const arrow::Field& field = *manifest.schema_fields[i].field;
    int id = FieldIdOf(field);
    return Invalid(
        "data file {}: column \"{}\" ({}) is not in the table's schema (schema evolution is not "
        "supported yet)",
        location, field.name(), id == kNoId ? "no field id" : fmt::format("field id {}", id));
  }
  return columns;
}

arrow::Result<std::shared_ptr<arrow::Array>> ConformArray(
    const std::shared_ptr<arrow::Array>& array, const std::shared_ptr<arrow::DataType>& type) {
  const arrow::DataType& from = *array->type();
  if (from.Equals(*type)) return array;
  if (from.id() == arrow::Type::EXTENSION) {
    return ConformArray(static_cast<const arrow::ExtensionArray&>(*array).storage(), type);
  }
  if (from.id() == arrow::Type::DICTIONARY) {
    if (type->id() == arrow::Type::DICTIONARY) {
      if (SameDictionary(from, *type)) return array;
      return arrow::Status::TypeError("expected ", type->ToString(), ", got ", from.ToString());
    }
    const auto& value_type = static_cast<const arrow::DictionaryType&>(from).value_type();
    ARROW_ASSIGN_OR_RAISE(auto plain, arrow::compute::Cast(*array, value_type));
    return ConformArray(plain, type);
  }
  switch (type->id()) {
    case arrow::Type::STRUCT: {
      if (from.id() != arrow::Type::STRUCT || from.num_fields() != type->num_fields()) break;
      auto data = array->data()->Copy();
      data->type = type;
      for (int i = 0; i < type->num_fields(); ++i) {
        ARROW_ASSIGN_OR_RAISE(data->child_data[i],
                              ConformChild(data->child_data[i], type->field(i)->type()));
      }
      return arrow::MakeArray(data);
    }
    case arrow::Type::LIST: {
      if (from.id() != arrow::Type::LIST) {
        if (!arrow::is_list_like(from.id()) && !arrow::is_list_view(from.id())) break;
        ARROW_ASSIGN_OR_RAISE(auto plain,
                              arrow::compute::Cast(*array, arrow::list(from.field(0)->type())));
        return ConformArray(plain, type);
      }
      auto data = array->data()->Copy();
      data->type = type;
      ARROW_ASSIGN_OR_RAISE(data->child_data[0],
                            ConformChild(data->child_data[0], type->field(0)->type()));
      return arrow::MakeArray(data);
    }
    case arrow::Type::MAP: {
      if (from.id() != arrow::Type::MAP) break;
      auto data = array->data()->Copy();
      data->type = type;
      ARROW_ASSIGN_OR_RAISE(data->child_data[0],
                            ConformChild(data->child_data[0], type->field(0)->type()));
      return arrow::MakeArray(data);
    }
    default:
      if (arrow::is_nested(from.id())) break;
      return arrow::compute::Cast(*array, type);
  }
  return arrow::Status::TypeError("expected ", type->ToString(), ", got ", from.ToString());
}

arrow::Result<std::shared_ptr<parquet::schema::GroupNode>> MakeParquetSchema(
    const Schema& schema, const arrow::Schema& arrow_schema,
    const parquet::WriterProperties& properties,
    const parquet::ArrowWriterProperties& arrow_properties) {
  std::shared_ptr<parquet::SchemaDescriptor> descriptor;
  ARROW_RETURN_NOT_OK(
      parquet::arrow::ToParquetSchema(&arrow_schema, properties, arrow_properties, &descriptor));
  parquet::schema::NodePtr root = descriptor->schema_root();
  std::set<int> uuid_ids;
  for (const auto& leaf : schema.Leaves()) {
    if (leaf.field->type->kind == TypeKind::kUuid) uuid_ids.insert(leaf.field->id);
  }
  if (!uuid_ids.empty()) root = AnnotateUuids(root, uuid_ids);
  return std::static_pointer_cast<parquet::schema::GroupNode>(root);
}

}  // namespace thalweg::iceberg
