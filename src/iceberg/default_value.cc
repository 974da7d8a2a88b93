#include "iceberg/default_value.h"

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/util/decimal.h>
#include <arrow/util/value_parsing.h>

#include <cmath>
#include <limits>
#include <optional>

#include "util/hex.h"
#include "util/number.h"
#include "util/status.h"

namespace thalweg::iceberg {
namespace {

template <typename T>
std::optional<T> IntegerOf(const Json& json) {
  if (!json.is_number_integer()) return std::nullopt;
  if (json.is_number_unsigned() &&
      json.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<T>::max())) {
    return std::nullopt;
  }
  const int64_t value = json.get<int64_t>();
  if (value < std::numeric_limits<T>::min() || value > std::numeric_limits<T>::max()) {
    return std::nullopt;
  }
  return static_cast<T>(value);
}

std::optional<arrow::Decimal128> DecimalOf(const Type& type, std::string_view text) {
  arrow::Decimal128 value;
  int32_t precision = 0;
  int32_t scale = 0;
  if (!arrow::Decimal128::FromString(text, &value, &precision, &scale).ok()) return std::nullopt;
  auto rescaled = value.Rescale(scale, type.scale);
  if (!rescaled.ok() || !rescaled->FitsInPrecision(type.precision)) return std::nullopt;
  return *rescaled;
}

std::optional<int64_t> TimestampOf(TypeKind kind, std::string_view text) {
  const bool nanos = kind == TypeKind::kTimestampNs || kind == TypeKind::kTimestampTzNs;
  const bool zoned = kind == TypeKind::kTimestampTz || kind == TypeKind::kTimestampTzNs;
  // Nanoseconds reach from 1677 to 2262; beyond, the parser would overflow.
  const auto year = ParseNumber<int>(text.substr(0, 4));
  if (!year || (nanos && (*year < 1678 || *year > 2261))) return std::nullopt;
  int64_t value = 0;
  bool has_zone = false;
  if (!arrow::internal::ParseTimestampISO8601(
          text.data(), text.size(), nanos ? arrow::TimeUnit::NANO : arrow::TimeUnit::MICRO, &value,
          &has_zone) ||
      has_zone != zoned) {
    return std::nullopt;
  }
  return value;
}

std::optional<std::string> UuidOf(std::string_view text) {
  std::string digits;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash != (text[i] == '-')) return std::nullopt;
    if (!dash) digits += text[i];
  }
  if (digits.size() != 32) return std::nullopt;
  return HexToBytes(digits);
}

template <typename Builder, typename Value>
arrow::Result<bool> AppendIf(arrow::ArrayBuilder* builder, const std::optional<Value>& value) {
  if (!value) return false;
  ARROW_RETURN_NOT_OK(static_cast<Builder*>(builder)->Append(*value));
  return true;
}

/// Initial or write default of a field.
using Default = Json Field::*;

arrow::Result<bool> Append(const Type& type, const Json& json, Default inner,
                           arrow::ArrayBuilder* builder);

/// NULL is a value of optional fields only.
arrow::Result<bool> AppendField(const Field& field, const Json& json, Default inner,
                                arrow::ArrayBuilder* builder) {
  if (!json.is_null()) return Append(*field.type, json, inner, builder);
  if (field.required) return false;
  ARROW_RETURN_NOT_OK(builder->AppendNull());
  return true;
}

arrow::Result<bool> AppendNested(const Type& type, const Json& json, Default inner,
                                 arrow::ArrayBuilder* any) {
  if (type.kind == TypeKind::kStruct) {
    if (!json.is_object()) return false;
    auto* builder = static_cast<arrow::StructBuilder*>(any);
    ARROW_RETURN_NOT_OK(builder->Append());
    for (size_t i = 0; i < type.fields.size(); ++i) {
      const Field& field = type.fields[i];
      auto member = json.find(std::to_string(field.id));
      // A member that is not told has the default of its own field.
      ARROW_ASSIGN_OR_RAISE(const bool fits,
                            AppendField(field, member == json.end() ? field.*inner : *member, inner,
                                        builder->field_builder(static_cast<int>(i))));
      if (!fits) return false;
    }
    return true;
  }
  if (type.kind == TypeKind::kList) {
    if (!json.is_array()) return false;
    auto* builder = static_cast<arrow::ListBuilder*>(any);
    ARROW_RETURN_NOT_OK(builder->Append());
    for (const Json& item : json) {
      ARROW_ASSIGN_OR_RAISE(const bool fits,
                            AppendField(type.fields[0], item, inner, builder->value_builder()));
      if (!fits) return false;
    }
    return true;
  }
  auto keys = json.find("keys");
  auto values = json.find("values");
  if (!json.is_object() || keys == json.end() || values == json.end() || !keys->is_array() ||
      !values->is_array() || keys->size() != values->size()) {
    return false;
  }
  auto* builder = static_cast<arrow::MapBuilder*>(any);
  ARROW_RETURN_NOT_OK(builder->Append());
  for (size_t i = 0; i < keys->size(); ++i) {
    ARROW_ASSIGN_OR_RAISE(const bool key,
                          AppendField(type.fields[0], (*keys)[i], inner, builder->key_builder()));
    ARROW_ASSIGN_OR_RAISE(const bool value, AppendField(type.fields[1], (*values)[i], inner,
                                                        builder->item_builder()));
    if (!key || !value) return false;
  }
  return true;
}

/// False: the JSON is no value of the type.
arrow::Result<bool> Append(const Type& type, const Json& json, Default inner,
                           arrow::ArrayBuilder* builder) {
  const std::string text = json.is_string() ? json.get<std::string>() : "";
  switch (type.kind) {
    case TypeKind::kStruct:
    case TypeKind::kList:
    case TypeKind::kMap:
      return AppendNested(type, json, inner, builder);
    case TypeKind::kBoolean:
      if (!json.is_boolean()) return false;
      return AppendIf<arrow::BooleanBuilder>(builder, std::optional(json.get<bool>()));
    case TypeKind::kInt:
      return AppendIf<arrow::Int32Builder>(builder, IntegerOf<int32_t>(json));
    case TypeKind::kLong:
      return AppendIf<arrow::Int64Builder>(builder, IntegerOf<int64_t>(json));
    case TypeKind::kFloat: {
      if (!json.is_number()) return false;
      const float value = static_cast<float>(json.get<double>());
      if (!std::isfinite(value)) return false;
      return AppendIf<arrow::FloatBuilder>(builder, std::optional(value));
    }
    case TypeKind::kDouble:
      if (!json.is_number()) return false;
      return AppendIf<arrow::DoubleBuilder>(builder, std::optional(json.get<double>()));
    default:
      break;
  }
  if (!json.is_string()) return false;
  switch (type.kind) {
    case TypeKind::kDecimal:
      return AppendIf<arrow::Decimal128Builder>(builder, DecimalOf(type, text));
    case TypeKind::kDate: {
      int32_t days = 0;
      if (!arrow::internal::ParseValue<arrow::Date32Type>(text.data(), text.size(), &days)) {
        return false;
      }
      return AppendIf<arrow::Date32Builder>(builder, std::optional(days));
    }
    case TypeKind::kTime: {
      int64_t micros = 0;
      if (!arrow::internal::ParseValue<arrow::Time64Type>(
              static_cast<const arrow::Time64Type&>(*builder->type()), text.data(), text.size(),
              &micros)) {
        return false;
      }
      return AppendIf<arrow::Time64Builder>(builder, std::optional(micros));
    }
    case TypeKind::kTimestamp:
    case TypeKind::kTimestampTz:
    case TypeKind::kTimestampNs:
    case TypeKind::kTimestampTzNs:
      return AppendIf<arrow::TimestampBuilder>(builder, TimestampOf(type.kind, text));
    case TypeKind::kString:
      return AppendIf<arrow::StringBuilder>(builder, std::optional(text));
    case TypeKind::kBinary:
      return AppendIf<arrow::BinaryBuilder>(builder, HexToBytes(text));
    case TypeKind::kUuid:
      return AppendIf<arrow::FixedSizeBinaryBuilder>(builder, UuidOf(text));
    case TypeKind::kFixed: {
      const auto bytes = HexToBytes(text);
      if (!bytes || static_cast<int64_t>(bytes->size()) != type.length) return false;
      return AppendIf<arrow::FixedSizeBinaryBuilder>(builder, bytes);
    }
    default:
      return false;  // unknown, variant, geometry and geography default to NULL
  }
}

arrow::Result<std::shared_ptr<arrow::Scalar>> ValueOf(const Field& field, Default which,
                                                      const std::shared_ptr<arrow::DataType>& type,
                                                      const std::string& path) {
  const Json& json = field.*which;
  if (json.is_null()) return arrow::MakeNullScalar(type);
  ARROW_ASSIGN_OR_RAISE(auto builder, arrow::MakeBuilder(type));
  ARROW_ASSIGN_OR_RAISE(const bool fits, Append(*field.type, json, which, builder.get()));
  if (!fits) {
    return Invalid("column \"{}\": its {} default {} is not a value of type {}", path,
                   which == &Field::initial_default ? "initial" : "write", DumpJson(json),
                   field.type->ToString());
  }
  ARROW_ASSIGN_OR_RAISE(auto array, builder->Finish());
  return array->GetScalar(0);
}

}  // namespace

arrow::Result<std::shared_ptr<arrow::Scalar>> InitialDefault(
    const Field& field, const std::shared_ptr<arrow::DataType>& type, const std::string& path) {
  return ValueOf(field, &Field::initial_default, type, path);
}

arrow::Result<std::shared_ptr<arrow::Scalar>> WriteDefault(
    const Field& field, const std::shared_ptr<arrow::DataType>& type, const std::string& path) {
  return ValueOf(field, &Field::write_default, type, path);
}

}  // namespace thalweg::iceberg
