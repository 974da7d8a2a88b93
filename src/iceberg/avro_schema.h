#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "util/json.h"

namespace thalweg::iceberg {

enum class AvroKind {
  kNull,
  kBoolean,
  kInt,
  kLong,
  kFloat,
  kDouble,
  kBytes,
  kString,
  kRecord,
  kEnum,
  kArray,
  kMap,
  kUnion,
  kFixed,
};
std::string_view ToString(AvroKind kind);  // "null", "record", …

struct AvroType;

struct AvroField {
  int32_t id = -1;  ///< "field-id"; -1 when absent
  std::string name;
  const AvroType* type = nullptr;
};

/// A node of a writer's schema. Logical types are ignored: they do not change the encoding.
struct AvroType {
  AvroKind kind = AvroKind::kNull;
  std::vector<AvroField> fields;          ///< record
  std::vector<const AvroType*> branches;  ///< union
  const AvroType* items = nullptr;        ///< array: elements, map: values
  int64_t size = 0;                       ///< fixed
  /// The least number of bytes of a value, saturated. Zero only for types whose every value takes
  /// no byte at all.
  int64_t min_size = 0;

  /// The record's field of this field-id, or nullptr.
  const AvroField* FieldById(int32_t id) const;
};

/// A parsed Avro schema. The nodes stay where they are when it is moved.
class AvroSchema {
 public:
  /// Named types may be referred to (recursively too), with or without namespace.
  static arrow::Result<AvroSchema> Parse(std::string_view json);

  AvroSchema(AvroSchema&&) = default;
  AvroSchema& operator=(AvroSchema&&) = default;

  const AvroType& root() const { return *root_; }

 private:
  friend class AvroSchemaParser;
  AvroSchema() = default;
  std::deque<AvroType> nodes_;
  const AvroType* root_ = nullptr;
};

/// The pieces of the schemas that Iceberg's metadata files are written with. Primitive types are
/// bare strings.
Json AvroRecordJson(std::string_view name, Json fields);
Json AvroFieldJson(int32_t id, std::string_view name, Json type);
/// ["null", type] with default null.
Json AvroOptionalFieldJson(int32_t id, std::string_view name, Json type);
Json AvroListJson(int32_t element_id, Json element);
/// A map with int keys: an array of key-value records with logicalType "map".
Json AvroIntMapJson(int32_t key_id, int32_t value_id, Json value);

}  // namespace thalweg::iceberg
