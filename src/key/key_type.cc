#include "key/key_type.h"

#include "util/status.h"

namespace thalweg {

arrow::Result<KeyType> KeyTypeOf(const arrow::DataType& type, Algorithm algorithm) {
  using Kind = KeyType::Kind;
  const bool typed = algorithm == Algorithm::kTypedQuantileRankV1;
  switch (type.id()) {
    case arrow::Type::DICTIONARY:
      return KeyTypeOf(*static_cast<const arrow::DictionaryType&>(type).value_type(), algorithm);
    case arrow::Type::BOOL:
      return KeyType{Kind::kBool, 8};
    case arrow::Type::INT8:
      return KeyType{Kind::kSigned, 8};
    case arrow::Type::INT16:
      return KeyType{Kind::kSigned, 16};
    case arrow::Type::INT32:
      return KeyType{Kind::kSigned, 32};
    case arrow::Type::INT64:
      return KeyType{Kind::kSigned, 64};
    case arrow::Type::UINT8:
      return KeyType{Kind::kUnsigned, 8};
    case arrow::Type::UINT16:
      return KeyType{Kind::kUnsigned, 16};
    case arrow::Type::UINT32:
      return KeyType{Kind::kUnsigned, 32};
    case arrow::Type::UINT64:
      return KeyType{Kind::kUnsigned, 64};
    case arrow::Type::FLOAT:
      return KeyType{Kind::kFloat, 32};
    case arrow::Type::DOUBLE:
      return KeyType{Kind::kFloat, 64};
    case arrow::Type::STRING:
    case arrow::Type::LARGE_STRING:
    case arrow::Type::STRING_VIEW:
      return KeyType{Kind::kUtf8, 0};
    case arrow::Type::DATE32:
      if (typed) return KeyType{Kind::kSigned, 32};
      break;
    case arrow::Type::DATE64:
    case arrow::Type::TIMESTAMP:
      if (typed) return KeyType{Kind::kSigned, 64};
      break;
    case arrow::Type::DECIMAL128:
      if (typed) return KeyType{Kind::kDecimal128, 128};
      break;
    default:
      break;
  }
  return Invalid(
      "{} cannot cluster by a column of type {}; it takes boolean, integers, float, double, {}",
      ToString(algorithm), type.ToString(),
      typed ? "string, date, timestamp and decimal128"
            : "and string (typed-quantile-rank-v1 also takes date, timestamp and decimal128)");
}

}  // namespace thalweg
