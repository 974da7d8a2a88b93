#include <arrow/util/bit_util.h>

#include <cstring>

#include "key/column_values_internal.h"

namespace thalweg {
namespace {

template <typename Word>
void MapWords(KeyType::Kind kind, const arrow::ArrayData& data, int64_t begin, int64_t n,
              uint64_t* out) {
  constexpr int kTopShift = sizeof(Word) * 8 - 1;
  constexpr Word kTop = static_cast<Word>(Word{1} << kTopShift);
  const Word* words = data.GetValues<Word>(1) + begin;
  switch (kind) {
    case KeyType::Kind::kSigned:
      for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Word>(words[i] ^ kTop);
      return;
    case KeyType::Kind::kFloat:
      for (int64_t i = 0; i < n; ++i) {
        const Word flip = static_cast<Word>(Word{0} - (words[i] >> kTopShift)) | kTop;
        out[i] = static_cast<Word>(words[i] ^ flip);
      }
      return;
    default:
      for (int64_t i = 0; i < n; ++i) out[i] = words[i];
  }
}

}  // namespace

arrow::Status CheckKeyType(const KeyType& type, const arrow::DataType& arrow_type) {
  ARROW_ASSIGN_OR_RAISE(KeyType actual, KeyTypeOf(arrow_type, Algorithm::kTypedQuantileRankV1));
  if (actual == type) return arrow::Status::OK();
  return Invalid("a column of type {} where the clustering column has another type",
                 arrow_type.ToString());
}

ResolvedRow ResolveRow(const arrow::Array& values, int64_t row) {
  if (values.IsNull(row)) return {&values, -1};
  if (values.type_id() != arrow::Type::DICTIONARY) return {&values, row};
  const auto& dictionary = static_cast<const arrow::DictionaryArray&>(values);
  return ResolveRow(*dictionary.dictionary(), dictionary.GetValueIndex(row));
}

void MapValues(const KeyType& type, const arrow::Array& values, int64_t begin, int64_t n,
               uint64_t* out) {
  if (n == 0) return;
  const arrow::ArrayData& data = *values.data();
  if (type.kind == KeyType::Kind::kBool) {
    const uint8_t* bitmap = data.buffers[1]->data();
    for (int64_t i = 0; i < n; ++i)
      out[i] = arrow::bit_util::GetBit(bitmap, data.offset + begin + i);
    return;
  }
  switch (type.bits) {
    case 8:
      return MapWords<uint8_t>(type.kind, data, begin, n, out);
    case 16:
      return MapWords<uint16_t>(type.kind, data, begin, n, out);
    case 32:
      return MapWords<uint32_t>(type.kind, data, begin, n, out);
    default:
      return MapWords<uint64_t>(type.kind, data, begin, n, out);
  }
}

MappedValue MappedAt(const KeyType& type, const arrow::Array& values, int64_t row) {
  if (type.bits == 128) {
    MappedValue plain;
    std::memcpy(&plain, static_cast<const arrow::FixedSizeBinaryArray&>(values).GetValue(row),
                sizeof(plain));
    return MapPlain(type, plain);
  }
  uint64_t mapped;
  MapValues(type, values, row, 1, &mapped);
  return mapped;
}

std::string_view TextAt(const arrow::Array& values, int64_t row) {
  switch (values.type_id()) {
    case arrow::Type::STRING:
      return static_cast<const arrow::StringArray&>(values).GetView(row);
    case arrow::Type::LARGE_STRING:
      return static_cast<const arrow::LargeStringArray&>(values).GetView(row);
    default:
      return static_cast<const arrow::StringViewArray&>(values).GetView(row);
  }
}

}  // namespace thalweg
