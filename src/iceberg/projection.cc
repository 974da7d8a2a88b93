#include "iceberg/projection.h"

#include <arrow/array/util.h>
#include <arrow/compute/api.h>
#include <arrow/extension_type.h>
#include <arrow/util/bitmap_ops.h>
#include <arrow/util/byte_size.h>
#include <arrow/util/key_value_metadata.h>
#include <fmt/format.h>
#include <parquet/arrow/schema.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "iceberg/default_value.h"
#include "iceberg/parquet_schema.h"
#include "util/status.h"

namespace thalweg::iceberg {

namespace {

using parquet::LogicalType;
using parquet::arrow::SchemaField;

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
    case TypeKind::kGeometry:
    case TypeKind::kGeography: {
      if (physical != parquet::Type::BYTE_ARRAY) return false;
      auto annotation = GeoLogicalType(type);
      return bare || (annotation.ok() && (*annotation)->Equals(logical));
    }
    default:
      return false;
  }
}

/// Whether values of a Parquet leaf are values of the type, or of one that was promoted to it.
bool Readable(const Type& type, const parquet::ColumnDescriptor& leaf) {
  if (SameType(type, leaf)) return true;
  Type before;
  switch (type.kind) {
    case TypeKind::kLong:
      before.kind = TypeKind::kInt;
      return SameType(before, leaf);
    case TypeKind::kDouble:
      before.kind = TypeKind::kFloat;
      return SameType(before, leaf);
    case TypeKind::kTimestamp:
    case TypeKind::kTimestampNs:
      before.kind = TypeKind::kDate;
      return SameType(before, leaf);
    case TypeKind::kDecimal: {
      if (!leaf.logical_type()->is_decimal()) return false;
      const auto& decimal = static_cast<const parquet::DecimalLogicalType&>(*leaf.logical_type());
      return decimal.precision() <= type.precision && decimal.scale() == type.scale;
    }
    default:
      return false;
  }
}

/// A field of the file with the id that it has there or that the name mapping gives it.
struct FileField {
  std::optional<int32_t> id;
  const SchemaField* have = nullptr;
  std::vector<FileField> children;  ///< of a struct, {element} of a list, {key, value} of a map
};

bool IsMap(const SchemaField& field) {
  return !field.is_leaf() && field.field->type()->id() == arrow::Type::MAP &&
         field.children.size() == 1 && field.children[0].children.size() == 2;
}
bool IsList(const SchemaField& field) {
  return !field.is_leaf() && field.field->type()->id() == arrow::Type::LIST &&
         field.children.size() == 1;
}
bool IsStruct(const SchemaField& field) {
  return !field.is_leaf() && field.field->type()->id() == arrow::Type::STRUCT;
}

bool HasIds(const std::vector<SchemaField>& fields) {
  for (const auto& field : fields) {
    if (FieldIdOf(*field.field) || HasIds(field.children)) return true;
  }
  return false;
}

/// `names` null: by the file's own ids.
FileField Identify(const SchemaField& have, const std::string& name,
                   const std::vector<NameMapping::Entry>* names) {
  FileField field;
  field.have = &have;
  const std::vector<NameMapping::Entry>* inner = nullptr;
  if (names == nullptr) {
    field.id = FieldIdOf(*have.field);
  } else {
    static const std::vector<NameMapping::Entry> kNone;
    const NameMapping::Entry* entry = NameMapping::Find(*names, name);
    if (entry) field.id = entry->field_id;
    inner = entry ? &entry->fields : &kNone;
  }
  if (IsMap(have)) {
    field.children.push_back(Identify(have.children[0].children[0], "key", inner));
    field.children.push_back(Identify(have.children[0].children[1], "value", inner));
  } else if (IsList(have)) {
    field.children.push_back(Identify(have.children[0], "element", inner));
  } else if (IsStruct(have)) {
    for (const auto& child : have.children) {
      field.children.push_back(Identify(child, child.field->name(), inner));
    }
  }
  return field;
}

void CountIds(const std::vector<FileField>& fields, std::map<int, int>* counts) {
  for (const auto& field : fields) {
    if (field.id) ++(*counts)[*field.id];
    CountIds(field.children, counts);
  }
}

/// A leaf that tells where a group is NULL: one outside of lists where there is any.
int AnyLeaf(const SchemaField& field) {
  if (field.is_leaf()) return field.column_index;
  int repeated = -1;
  for (const auto& child : field.children) {
    const int leaf = AnyLeaf(child);
    if (leaf < 0) continue;
    if (child.level_info.rep_level == field.level_info.rep_level) return leaf;
    if (repeated < 0) repeated = leaf;
  }
  return repeated;
}

class Matcher {
 public:
  Matcher(const parquet::SchemaDescriptor* descriptor, const std::string& location,
          std::map<int, int> ids_in_file)
      : descriptor_(descriptor), location_(location), ids_in_file_(std::move(ids_in_file)) {}

  /// The fields of a struct, or of the whole row. `children`: by position in `wanted`; where
  /// `columns` is given (the row), `leaves` are gathered per field instead.
  arrow::Status MatchFields(const std::vector<Field>& wanted,
                            const arrow::FieldVector& arrow_fields,
                            const std::vector<FileField>& have, const std::string& prefix,
                            std::vector<ParquetColumn>* columns) {
    std::map<int, int> position_of_id;
    for (size_t i = 0; i < have.size(); ++i) {
      if (have[i].id) position_of_id.emplace(*have[i].id, static_cast<int>(i));
    }
    for (size_t i = 0; i < wanted.size(); ++i) {
      const Field& want = wanted[i];
      const std::string path = prefix.empty() ? want.name : prefix + "." + want.name;
      ParquetColumn& column = columns->emplace_back();
      auto found = position_of_id.find(want.id);
      if (found == position_of_id.end()) {
        ARROW_RETURN_NOT_OK(Missing(want, *arrow_fields[i], path, &column));
        continue;
      }
      ARROW_RETURN_NOT_OK(Match(want, *arrow_fields[i], have[found->second], path, &column));
      column.projection.child = found->second;
      std::sort(column.leaves.begin(), column.leaves.end());
    }
    return arrow::Status::OK();
  }

 private:
  template <typename... Args>
  arrow::Status Refuse(const std::string& path, fmt::format_string<Args...> format,
                       Args&&... args) const {
    return Invalid("data file {}: column \"{}\" {}", location_, path,
                   fmt::format(format, std::forward<Args>(args)...));
  }

  arrow::Status NotInFile(const Field& want, const std::string& path) const {
    if (ids_in_file_.contains(want.id)) {
      return Refuse(path, "(field id {}) stands at another place in the file", want.id);
    }
    for (const Field& inner : want.type->fields) {
      ARROW_RETURN_NOT_OK(NotInFile(inner, path + "." + inner.name));
    }
    return arrow::Status::OK();
  }

  arrow::Status Missing(const Field& want, const arrow::Field& as, const std::string& path,
                        ParquetColumn* column) {
    // What is below a missing field is missing as well.
    ARROW_RETURN_NOT_OK(NotInFile(want, path));
    if (want.required && want.initial_default.is_null()) {
      return Refuse(path, "(field id {}) is required, missing in the file, and has no default",
                    want.id);
    }
    ARROW_ASSIGN_OR_RAISE(column->projection.constant, InitialDefault(want, as.type(), path));
    ARROW_ASSIGN_OR_RAISE(auto one, RepeatConstant(column->projection, 1));
    column->constant_bytes += arrow::util::TotalBufferSize(*one);
    return arrow::Status::OK();
  }

  arrow::Status Match(const Field& want, const arrow::Field& as, const FileField& file,
                      const std::string& path, ParquetColumn* column) {
    const SchemaField& have = *file.have;
    const Type& type = *want.type;
    if (file.id != want.id) {
      return Refuse(path, "has {} in the file and field id {} in the table's schema",
                    file.id ? fmt::format("field id {}", *file.id) : "no field id", want.id);
    }
    if (ids_in_file_[want.id] > 1) {
      return Refuse(path, "has field id {}, which stands at two columns of the file", want.id);
    }
    const parquet::ColumnDescriptor* leaf =
        have.is_leaf() ? descriptor_->Column(have.column_index) : nullptr;
    switch (type.kind) {
      case TypeKind::kStruct:
        if (!IsStruct(have)) break;
        return MatchStruct(type, as, file, path, column);
      case TypeKind::kList:
        if (!IsList(have)) break;
        return MatchInner(type, {as.type()->field(0)}, file, path, column);
      case TypeKind::kMap: {
        if (!IsMap(have)) break;
        const auto& map = static_cast<const arrow::MapType&>(*as.type());
        return MatchInner(type, {map.key_field(), map.item_field()}, file, path, column);
      }
      case TypeKind::kVariant:
        if (!IsStruct(have)) break;
        return MatchVariant(have, path, column);
      default:
        if (leaf == nullptr) break;
        // Stored as nothing but NULL: of type unknown when it was written.
        if (leaf->logical_type()->is_null() && !want.required) {
          column->projection.constant = arrow::MakeNullScalar(as.type());
          return arrow::Status::OK();
        }
        if (!Readable(type, *leaf)) break;
        column->leaves.push_back(have.column_index);
        return arrow::Status::OK();
    }
    return Refuse(path, "is {} in the file and {} in the table's schema",
                  leaf ? DescribeLeaf(*leaf) : OneLine(have.field->type()->ToString()),
                  type.ToString());
  }

  /// Decoded groups have only those children of which leaves are decoded, in the file's order.
  static void NumberChildren(std::vector<ParquetColumn>* columns, ParquetColumn* parent) {
    std::set<int> decoded;
    for (const auto& column : *columns) {
      if (!column.projection.constant) decoded.insert(column.projection.child);
    }
    for (auto& column : *columns) {
      column.projection.child = static_cast<int>(
          std::distance(decoded.begin(), decoded.lower_bound(column.projection.child)));
      parent->leaves.insert(parent->leaves.end(), column.leaves.begin(), column.leaves.end());
      parent->constant_bytes += column.constant_bytes;
      parent->projection.children.push_back(std::move(column.projection));
    }
  }

  arrow::Status MatchStruct(const Type& type, const arrow::Field& as, const FileField& file,
                            const std::string& path, ParquetColumn* column) {
    std::vector<ParquetColumn> fields;
    ARROW_RETURN_NOT_OK(
        MatchFields(type.fields, as.type()->fields(), file.children, path, &fields));
    NumberChildren(&fields, column);
    if (!column->leaves.empty()) return arrow::Status::OK();
    const int leaf = AnyLeaf(*file.have);
    if (leaf < 0) return Refuse(path, "is a group without columns in the file");
    column->leaves.push_back(leaf);
    return arrow::Status::OK();
  }

  arrow::Status MatchInner(const Type& type, const arrow::FieldVector& as, const FileField& file,
                           const std::string& path, ParquetColumn* column) {
    for (size_t i = 0; i < type.fields.size(); ++i) {
      ParquetColumn inner;
      ARROW_RETURN_NOT_OK(Match(type.fields[i], *as[i], file.children[i],
                                path + "." + type.fields[i].name, &inner));
      if (inner.projection.constant) {
        return Refuse(path + "." + type.fields[i].name, "is not stored in the file");
      }
      inner.projection.child = static_cast<int>(i);
      column->leaves.insert(column->leaves.end(), inner.leaves.begin(), inner.leaves.end());
      column->constant_bytes += inner.constant_bytes;
      column->projection.children.push_back(std::move(inner.projection));
    }
    return arrow::Status::OK();
  }

  /// The two binaries have no field ids: they are told by their names.
  arrow::Status MatchVariant(const SchemaField& have, const std::string& path,
                             ParquetColumn* column) {
    for (const char* part : {"metadata", "value"}) {
      FieldProjection projection;
      projection.child = -1;
      for (size_t i = 0; i < have.children.size(); ++i) {
        const SchemaField& child = have.children[i];
        if (child.field->name() != part || !child.is_leaf()) continue;
        const auto& leaf = *descriptor_->Column(child.column_index);
        if (leaf.physical_type() != parquet::Type::BYTE_ARRAY || !leaf.logical_type()->is_none() ||
            projection.child >= 0) {
          continue;
        }
        projection.child = static_cast<int>(i);
        column->leaves.push_back(child.column_index);
      }
      if (projection.child < 0 || have.children.size() != 2) {
        return Refuse(path,
                      "is a variant that is stored as {}: only variants of the two binaries "
                      "metadata and value can be read, none that are shredded",
                      OneLine(have.field->type()->ToString()));
      }
      column->projection.children.push_back(std::move(projection));
    }
    return arrow::Status::OK();
  }

  const parquet::SchemaDescriptor* descriptor_;
  const std::string& location_;
  std::map<int, int> ids_in_file_;
};

arrow::Result<std::shared_ptr<arrow::Array>> ProjectStruct(
    const FieldProjection& projection, const arrow::StructArray& array,
    const std::shared_ptr<arrow::DataType>& type) {
  arrow::ArrayVector children;
  for (size_t i = 0; i < projection.children.size(); ++i) {
    const FieldProjection& child = projection.children[i];
    if (child.constant) {
      ARROW_ASSIGN_OR_RAISE(auto constant, RepeatConstant(child, array.length()));
      children.push_back(std::move(constant));
      continue;
    }
    if (child.child >= array.num_fields()) {
      return arrow::Status::Invalid("a group of ", array.num_fields(), " columns was decoded");
    }
    ARROW_ASSIGN_OR_RAISE(auto projected, ProjectArray(child, array.field(child.child),
                                                       type->field(static_cast<int>(i))->type()));
    children.push_back(std::move(projected));
  }
  std::shared_ptr<arrow::Buffer> validity;
  if (array.null_count() > 0) {
    validity = array.null_bitmap();
    if (array.offset() != 0) {
      ARROW_ASSIGN_OR_RAISE(validity, arrow::internal::CopyBitmap(arrow::default_memory_pool(),
                                                                  array.null_bitmap_data(),
                                                                  array.offset(), array.length()));
    }
  }
  return std::make_shared<arrow::StructArray>(type, array.length(), std::move(children),
                                              std::move(validity), array.null_count());
}

}  // namespace

arrow::Result<std::vector<ParquetColumn>> MatchColumns(const parquet::FileMetaData& metadata,
                                                       const Schema& schema,
                                                       const arrow::Schema& arrow_schema,
                                                       const NameMapping* mapping,
                                                       const std::string& location) {
  parquet::arrow::SchemaManifest manifest;
  // Without the file's key-value metadata: a stored Arrow schema does not decide what the types
  // are.
  ARROW_RETURN_NOT_OK(parquet::arrow::SchemaManifest::Make(
      metadata.schema(), nullptr, parquet::ArrowReaderProperties(), &manifest));
  const std::vector<NameMapping::Entry>* names = nullptr;
  if (!HasIds(manifest.schema_fields) && !manifest.schema_fields.empty()) {
    if (mapping == nullptr) {
      return Invalid(
          "data file {}: its columns have no field ids, and the table has no name mapping "
          "(property schema.name-mapping.default)",
          location);
    }
    names = &mapping->fields();
  }
  std::vector<FileField> have;
  have.reserve(manifest.schema_fields.size());
  for (const auto& field : manifest.schema_fields) {
    have.push_back(Identify(field, field.field->name(), names));
  }
  std::map<int, int> ids;
  CountIds(have, &ids);
  std::vector<ParquetColumn> columns;
  Matcher matcher(metadata.schema(), location, std::move(ids));
  ARROW_RETURN_NOT_OK(
      matcher.MatchFields(schema.fields, arrow_schema.fields(), have, "", &columns));
  return columns;
}

FieldProjection ProjectionOnto(const std::vector<Field>& fields, const std::vector<Field>& from) {
  FieldProjection projection;
  for (const Field& field : fields) {
    const auto found = std::find_if(from.begin(), from.end(),
                                    [&](const Field& other) { return other.id == field.id; });
    FieldProjection child = ProjectionOnto(field.type->fields, found->type->fields);
    child.child = static_cast<int>(std::distance(from.begin(), found));
    projection.children.push_back(std::move(child));
  }
  return projection;
}

arrow::Result<std::shared_ptr<arrow::Array>> ProjectArray(
    const FieldProjection& projection, const std::shared_ptr<arrow::Array>& array,
    const std::shared_ptr<arrow::DataType>& type) {
  const arrow::DataType& from = *array->type();
  if (projection.constant) return RepeatConstant(projection, array->length());
  if (projection.children.empty()) return ConformArray(array, type);
  if (from.id() == arrow::Type::EXTENSION) {
    return ProjectArray(projection, static_cast<const arrow::ExtensionArray&>(*array).storage(),
                        type);
  }
  if (type->id() == arrow::Type::STRUCT && from.id() == arrow::Type::STRUCT) {
    return ProjectStruct(projection, static_cast<const arrow::StructArray&>(*array), type);
  }
  const bool list = type->id() == arrow::Type::LIST;
  if (list && from.id() != arrow::Type::LIST &&
      (arrow::is_list_like(from.id()) || arrow::is_list_view(from.id())) &&
      from.id() != arrow::Type::MAP) {
    ARROW_ASSIGN_OR_RAISE(auto plain, arrow::compute::Cast(*array, arrow::list(from.field(0))));
    return ProjectArray(projection, plain, type);
  }
  if (from.id() != type->id() || (!list && type->id() != arrow::Type::MAP)) {
    return arrow::Status::TypeError("expected ", type->ToString(), ", got ", from.ToString());
  }
  auto data = array->data()->Copy();
  data->type = type;
  const auto inner = arrow::MakeArray(data->child_data[0]);
  const auto& inner_type = type->field(0)->type();
  std::shared_ptr<arrow::Array> projected;
  if (list) {
    ARROW_ASSIGN_OR_RAISE(projected, ProjectArray(projection.children[0], inner, inner_type));
  } else {
    ARROW_ASSIGN_OR_RAISE(
        projected,
        ProjectStruct(projection, static_cast<const arrow::StructArray&>(*inner), inner_type));
  }
  data->child_data[0] = projected->data();
  return arrow::MakeArray(data);
}

arrow::Result<std::shared_ptr<arrow::Array>> RepeatConstant(const FieldProjection& projection,
                                                            int64_t length) {
  const arrow::Scalar& value = *projection.constant;
  if (!value.is_valid) return arrow::MakeArrayOfNull(value.type, length);
  return arrow::MakeArrayFromScalar(value, length);
}

}  // namespace thalweg::iceberg
