#pragma once

#include <arrow/result.h>
#include <arrow/type.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "util/json.h"

namespace thalweg::iceberg {

/// The type of a field, as Iceberg's schema JSON has it.
struct Type;
using TypePtr = std::shared_ptr<const Type>;

struct Field {
  int32_t id = 0;
  std::string name;
  bool required = false;
  TypePtr type;
  std::string doc;
  Json initial_default;  // null when absent (v3)
  Json write_default;
};

enum class TypeKind {
  kBoolean,
  kInt,
  kLong,
  kFloat,
  kDouble,
  kDecimal,
  kDate,
  kTime,
  kTimestamp,
  kTimestampTz,
  kTimestampNs,
  kTimestampTzNs,
  kString,
  kUuid,
  kFixed,
  kBinary,
  kStruct,
  kList,
  kMap,
  kUnknown,    ///< v3: always NULL, not stored in data files
  kVariant,    ///< v3: carried as its two binaries
  kGeometry,   ///< v3: well-known binary, with a coordinate reference system
  kGeography,  ///< v3: the same, with an edge algorithm
  kOther,      ///< a type that this version does not know: carried as text, refused for writing
};

struct Type {
  TypeKind kind;
  int32_t precision = 0;  ///< decimal
  int32_t scale = 0;
  int32_t length = 0;         ///< fixed
  std::vector<Field> fields;  ///< struct: its fields; list: {element}; map: {key, value}
  std::string text;           ///< kOther, kGeometry, kGeography: as in the JSON

  bool primitive() const { return kind < TypeKind::kStruct; }
  /// "decimal(12, 2)", "list<string>": for messages, and the JSON text of a primitive.
  std::string ToString() const;
  bool Equals(const Type& other, bool check_ids = true) const;
};

/// A table schema. Immutable after parsing.
class Schema {
 public:
  static arrow::Result<Schema> FromJson(const Json& json);
  Json ToJson()
      const;  ///< with "type": "struct", "schema-id", "identifier-field-ids" if any, "fields"
  /// From Arrow, assigning fresh field ids 1, 2, … (pre-order by level, as the reference
  /// implementation does for new tables). Types without an Iceberg equivalent are errors that name
  /// the column; narrower ints widen to int, unsigned to the next wider signed type, timestamps of
  /// s/ms to us, large_string/string_view/dictionary to string.
  static arrow::Result<Schema> FromArrow(const arrow::Schema& schema);

  int32_t schema_id = 0;
  std::vector<int32_t> identifier_field_ids;
  std::vector<Field> fields;

  /// Top-level field of this name (exact case), or nullptr.
  const Field* FindTopLevel(std::string_view name) const;
  /// Any field (nested too) of this id, or nullptr.
  const Field* FindById(int32_t id) const;
  /// Top-level position of the field id, -1 when it is not top-level.
  int TopLevelPosition(int32_t id) const;
  int32_t HighestFieldId() const;
  /// Every field that data files store and that has no fields of its own, with its dotted path,
  /// depth first; `in_repeated` when inside a list or map. A variant is one leaf; fields of type
  /// unknown are none.
  struct Leaf {
    const Field* field;
    std::string path;
    bool in_repeated;
  };
  std::vector<Leaf> Leaves() const;

  /// The Arrow schema that data files are written with: each field (nested too) carries
  /// "PARQUET:field_id" metadata. string -> utf8, timestamptz -> timestamp[us, UTC], uuid ->
  /// fixed_size_binary(16), map/list/struct accordingly, unknown -> null, variant -> struct of the
  /// binaries metadata and value, geometry and geography -> binary.
  arrow::Result<std::shared_ptr<arrow::Schema>> ToArrow() const;
};

/// The field id of a field of ToArrow() or of a Parquet file as Arrow reads it; nullopt: it has
/// none.
std::optional<int32_t> FieldIdOf(const arrow::Field& field);

}  // namespace thalweg::iceberg
