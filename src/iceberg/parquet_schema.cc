#include "iceberg/parquet_schema.h"

#include <arrow/compute/api.h>
#include <arrow/extension_type.h>
#include <arrow/util/key_value_metadata.h>
#include <fmt/format.h>
#include <parquet/arrow/schema.h>

#include <map>
#include <utility>

namespace thalweg::iceberg {

namespace {

using parquet::LogicalType;

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

using Annotations = std::map<int32_t, std::shared_ptr<const LogicalType>>;  // by field id

parquet::schema::NodePtr Annotate(const parquet::schema::NodePtr& node,
                                  const Annotations& annotations) {
  const auto found = annotations.find(node->field_id());
  if (node->is_primitive()) {
    if (found == annotations.end()) return node;
    const auto& leaf = static_cast<const parquet::schema::PrimitiveNode&>(*node);
    return parquet::schema::PrimitiveNode::Make(leaf.name(), leaf.repetition(), found->second,
                                                leaf.physical_type(), leaf.type_length(),
                                                leaf.field_id());
  }
  const auto& group = static_cast<const parquet::schema::GroupNode&>(*node);
  parquet::schema::NodeVector children;
  for (int i = 0; i < group.field_count(); ++i) {
    children.push_back(Annotate(group.field(i), annotations));
  }
  std::shared_ptr<const LogicalType> logical;
  if (found != annotations.end()) {
    logical = found->second;
  } else if (group.logical_type()->is_nested()) {  // "none" is no annotation of groups
    logical = group.logical_type();
  }
  return parquet::schema::GroupNode::Make(group.name(), group.repetition(), children, logical,
                                          group.field_id());
}

/// Some field of the type, at any level, is required.
bool HasRequired(const arrow::DataType& type) {
  for (const auto& field : type.fields()) {
    if (!field->nullable() || HasRequired(*field->type())) return true;
  }
  return false;
}

arrow::Result<Field> StoredField(const Field& field, const std::string& path) {
  Field stored = field;
  if (field.type->fields.empty()) return stored;
  auto type = std::make_shared<Type>(*field.type);
  type->fields.clear();
  for (const Field& inner : field.type->fields) {
    const std::string inner_path = path + "." + inner.name;
    if (inner.type->kind == TypeKind::kUnknown) {
      if (field.type->kind == TypeKind::kStruct) continue;
      return Invalid("column \"{}\" has type unknown, which lists and maps cannot store",
                     inner_path);
    }
    ARROW_ASSIGN_OR_RAISE(auto kept, StoredField(inner, inner_path));
    type->fields.push_back(std::move(kept));
  }
  if (type->fields.empty()) {
    return Invalid("column \"{}\" is a struct of fields of type unknown, which cannot be stored",
                   path);
  }
  stored.type = std::move(type);
  return stored;
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

arrow::Status CheckRequired(const arrow::Field& field, const arrow::Array& array,
                            const std::string& path) {
  if (!field.nullable() && array.null_count() > 0) {
    return Invalid("column \"{}\" is required in the table's schema and has nulls", path);
  }
  const arrow::DataType& type = *array.type();
  if (array.length() == 0 || !HasRequired(type)) return arrow::Status::OK();
  if (type.id() == arrow::Type::STRUCT) {
    std::shared_ptr<arrow::Array> valid;
    if (array.null_count() > 0) {
      ARROW_ASSIGN_OR_RAISE(auto kept, arrow::compute::DropNull(arrow::MakeArray(array.data())));
      valid = kept.make_array();
    }
    const auto& structs = static_cast<const arrow::StructArray&>(valid ? *valid : array);
    for (int i = 0; i < structs.num_fields(); ++i) {
      const arrow::Field& inner = *type.field(i);
      ARROW_RETURN_NOT_OK(CheckRequired(inner, *structs.field(i), path + "." + inner.name()));
    }
  } else if (type.id() == arrow::Type::LIST) {
    ARROW_ASSIGN_OR_RAISE(auto elements, static_cast<const arrow::ListArray&>(array).Flatten());
    return CheckRequired(*type.field(0), *elements, path + ".element");
  } else if (type.id() == arrow::Type::MAP) {
    ARROW_ASSIGN_OR_RAISE(auto entries, static_cast<const arrow::MapArray&>(array).Flatten());
    return CheckRequired(*type.field(0), *entries, path);
  }
  return arrow::Status::OK();
}

arrow::Result<Schema> StoredSchema(const Schema& schema) {
  Schema stored = schema;
  stored.fields.clear();
  for (const Field& field : schema.fields) {
    if (field.type->kind == TypeKind::kUnknown) continue;
    ARROW_ASSIGN_OR_RAISE(auto kept, StoredField(field, field.name));
    stored.fields.push_back(std::move(kept));
  }
  if (stored.fields.empty() && !schema.fields.empty()) {
    return Invalid("all columns have type unknown, which data files cannot store");
  }
  return stored;
}

arrow::Result<std::shared_ptr<const LogicalType>> GeoLogicalType(const Type& type) {
  const bool geography = type.kind == TypeKind::kGeography;
  std::string_view rest = type.text;
  rest.remove_prefix(geography ? 9 : 8);  // the type's name
  std::string_view crs;
  std::string_view algorithm;
  if (!rest.empty()) {
    if (rest.front() != '(' || rest.back() != ')') return Invalid("bad type \"{}\"", type.text);
    crs = rest.substr(1, rest.size() - 2);
    const size_t comma = geography ? crs.rfind(',') : std::string_view::npos;
    if (comma != std::string_view::npos) {
      algorithm = crs.substr(comma + 1);
      crs = crs.substr(0, comma);
      while (algorithm.starts_with(' ')) algorithm.remove_prefix(1);
    }
  }
  if (crs == "OGC:CRS84") crs = "";  // the default of both formats
  if (!geography) return LogicalType::Geometry(std::string(crs));
  using Algorithm = LogicalType::EdgeInterpolationAlgorithm;
  const std::pair<std::string_view, Algorithm> algorithms[] = {
      {"", Algorithm::SPHERICAL},        {"spherical", Algorithm::SPHERICAL},
      {"vincenty", Algorithm::VINCENTY}, {"thomas", Algorithm::THOMAS},
      {"andoyer", Algorithm::ANDOYER},   {"karney", Algorithm::KARNEY}};
  for (const auto& [name, value] : algorithms) {
    if (algorithm == name) return LogicalType::Geography(std::string(crs), value);
  }
  return Invalid("type \"{}\" has an edge algorithm that is not known", type.text);
}

arrow::Result<std::shared_ptr<parquet::schema::GroupNode>> MakeParquetSchema(
    const Schema& schema, const arrow::Schema& arrow_schema,
    const parquet::WriterProperties& properties,
    const parquet::ArrowWriterProperties& arrow_properties) {
  std::shared_ptr<parquet::SchemaDescriptor> descriptor;
  ARROW_RETURN_NOT_OK(
      parquet::arrow::ToParquetSchema(&arrow_schema, properties, arrow_properties, &descriptor));
  parquet::schema::NodePtr root = descriptor->schema_root();
  Annotations annotations;
  for (const auto& leaf : schema.Leaves()) {
    const Field& field = *leaf.field;
    switch (field.type->kind) {
      case TypeKind::kUuid:
        annotations[field.id] = LogicalType::UUID();
        break;
      case TypeKind::kVariant:
        annotations[field.id] = LogicalType::Variant();
        break;
      case TypeKind::kGeometry:
      case TypeKind::kGeography: {
        ARROW_ASSIGN_OR_RAISE(annotations[field.id], GeoLogicalType(*field.type));
        break;
      }
      default:
        break;
    }
  }
  if (!annotations.empty()) root = Annotate(root, annotations);
  return std::static_pointer_cast<parquet::schema::GroupNode>(root);
}

}  // namespace thalweg::iceberg
