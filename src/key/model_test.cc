#include "key/model.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "curve/curve.h"
#include "key/encoded_value.h"
#include "key/encoded_value_internal.h"
#include "key/key_encoder.h"
#include "key/sample.h"
#include "key/test_util_internal.h"

namespace thalweg {
namespace {

using arrow::TimeUnit;
using Kind = KeyType::Kind;

KeyType TypeOf(const arrow::Array& array) {
  return KeyTypeOf(*array.type(), Algorithm::kTypedQuantileRankV1).ValueOrDie();
}

// Step 5 as the text says it.
uint32_t NaiveCoordinate(const std::vector<std::string>& model,
                         const std::optional<std::string>& encoded, int bits) {
  const uint64_t top = (uint64_t{1} << bits) - 1;
  if (!encoded) return static_cast<uint32_t>(top);
  const auto n = static_cast<int64_t>(model.size());
  if (n <= 1) return 0;
  const int64_t not_above = std::upper_bound(model.begin(), model.end(), *encoded) - model.begin();
  const auto rank = static_cast<uint64_t>(std::max<int64_t>(not_above - 1, 0));
  return static_cast<uint32_t>(rank * (top - 1) / static_cast<uint64_t>(n - 1));
}

std::vector<std::string> EncodedValues(const arrow::Array& array) {
  std::vector<std::string> encoded;
  for (int64_t row = 0; row < array.length(); ++row) {
    if (array.IsValid(row)) encoded.push_back(EncodeValue(TypeOf(array), array, row).ValueOrDie());
  }
  std::sort(encoded.begin(), encoded.end());
  return encoded;
}

// Random values of a type, with nulls, repeated values and the extremes.
std::shared_ptr<arrow::Array> RandomArray(const std::shared_ptr<arrow::DataType>& type, int64_t n,
                                          std::mt19937_64& random) {
  auto builder = arrow::MakeBuilder(type).ValueOrDie();
  const int spread = static_cast<int>(random() % 3);
  auto word = [&] {
    return spread == 0 ? random() : spread == 1 ? random() % 100 : random() >> (random() % 64);
  };
  for (int64_t i = 0; i < n; ++i) {
    if (random() % 10 == 0) {
      EXPECT_TRUE(builder->AppendNull().ok());
      continue;
    }
    const uint64_t w = word();
    auto append = [&](auto* typed, auto value) { EXPECT_TRUE(typed->Append(value).ok()); };
    switch (type->id()) {
      case arrow::Type::BOOL:
        append(static_cast<arrow::BooleanBuilder*>(builder.get()), w % 2 == 0);
        break;
      case arrow::Type::INT8:
        append(static_cast<arrow::Int8Builder*>(builder.get()), static_cast<int8_t>(w));
        break;
      case arrow::Type::INT16:
        append(static_cast<arrow::Int16Builder*>(builder.get()), static_cast<int16_t>(w));
        break;
      case arrow::Type::INT32:
        append(static_cast<arrow::Int32Builder*>(builder.get()), static_cast<int32_t>(w));
        break;
      case arrow::Type::INT64:
        append(static_cast<arrow::Int64Builder*>(builder.get()), static_cast<int64_t>(w));
        break;
      case arrow::Type::UINT8:
        append(static_cast<arrow::UInt8Builder*>(builder.get()), static_cast<uint8_t>(w));
        break;
      case arrow::Type::UINT16:
        append(static_cast<arrow::UInt16Builder*>(builder.get()), static_cast<uint16_t>(w));
        break;
      case arrow::Type::UINT32:
        append(static_cast<arrow::UInt32Builder*>(builder.get()), static_cast<uint32_t>(w));
        break;
      case arrow::Type::UINT64:
        append(static_cast<arrow::UInt64Builder*>(builder.get()), w);
        break;
      case arrow::Type::DATE32:
        append(static_cast<arrow::Date32Builder*>(builder.get()), static_cast<int32_t>(w));
        break;
      case arrow::Type::DATE64:
        append(static_cast<arrow::Date64Builder*>(builder.get()), static_cast<int64_t>(w));
        break;
      case arrow::Type::TIMESTAMP:
        append(static_cast<arrow::TimestampBuilder*>(builder.get()), static_cast<int64_t>(w));
        break;
      // Any bits: infinities, signalling and negative NaN, both zeros and denormals among them.
      case arrow::Type::FLOAT:
        append(static_cast<arrow::FloatBuilder*>(builder.get()),
               std::bit_cast<float>(static_cast<uint32_t>(w)));
        break;
      case arrow::Type::DOUBLE:
        append(static_cast<arrow::DoubleBuilder*>(builder.get()), std::bit_cast<double>(w));
        break;
      case arrow::Type::DECIMAL128:
        append(static_cast<arrow::Decimal128Builder*>(builder.get()),
               arrow::Decimal128(spread == 0 ? static_cast<int64_t>(random())
                                             : -static_cast<int64_t>(random() % 2),
                                 w));
        break;
      default: {
        const std::string text = "customer/" + std::to_string(w % 10000) +
                                 (w % 7 == 0 ? "/a longer one, past 32 bytes" : "");
        switch (type->id()) {
          case arrow::Type::STRING:
            append(static_cast<arrow::StringBuilder*>(builder.get()), text);
            break;
          case arrow::Type::LARGE_STRING:
            append(static_cast<arrow::LargeStringBuilder*>(builder.get()), text);
            break;
          default:
            append(static_cast<arrow::StringViewBuilder*>(builder.get()), text);
        }
      }
    }
  }
  return builder->Finish().ValueOrDie();
}

const std::vector<std::shared_ptr<arrow::DataType>> kTypes = {
    arrow::boolean(),
    arrow::int8(),
    arrow::int16(),
    arrow::int32(),
    arrow::int64(),
    arrow::uint8(),
    arrow::uint16(),
    arrow::uint32(),
    arrow::uint64(),
    arrow::float32(),
    arrow::float64(),
    arrow::utf8(),
    arrow::large_utf8(),
    arrow::utf8_view(),
    arrow::date32(),
    arrow::date64(),
    arrow::timestamp(TimeUnit::SECOND),
    arrow::timestamp(TimeUnit::MILLI),
    arrow::timestamp(TimeUnit::MICRO, "UTC"),
    arrow::timestamp(TimeUnit::NANO, "America/Lima"),
    arrow::decimal128(38, 4)};

TEST(ColumnModel, CoordinatesOfEveryTypeAgreeWithTheText) {
  ForEachTarget([] {
    std::mt19937_64 random(21);
    for (const auto& type : kTypes) {
      SCOPED_TRACE(type->ToString());
      for (int64_t samples : {0, 1, 2, 100, 3000}) {
        for (int round = 0; round < 2; ++round) {
          const auto sorted = EncodedValues(*RandomArray(type, samples, random));
          auto model = ColumnModel::Make(*KeyTypeOf(*type, Algorithm::kTypedQuantileRankV1), sorted)
                           .ValueOrDie();
          ASSERT_EQ(model.size(), static_cast<int64_t>(sorted.size()));
          // Sliced, so that offsets count.
          const auto values = RandomArray(type, 1200, random)->Slice(13);
          const int bits = 1 + static_cast<int>(random() % 32);
          std::vector<uint32_t> coords(static_cast<size_t>(values->length()) + 1, 5);
          ASSERT_TRUE(model.Coordinates(*values, bits, coords.data()).ok());
          for (int64_t row = 0; row < values->length(); ++row) {
            std::optional<std::string> encoded;
            if (values->IsValid(row))
              encoded = EncodeValue(model.type(), *values, row).ValueOrDie();
            ASSERT_EQ(coords[static_cast<size_t>(row)], NaiveCoordinate(sorted, encoded, bits))
                << "row " << row << " bits " << bits;
            if (encoded && row % 50 == 0) {
              ASSERT_EQ(model.Coordinate(*encoded, bits), coords[static_cast<size_t>(row)]);
            }
          }
          ASSERT_EQ(coords[static_cast<size_t>(values->length())], 5u);
        }
      }
    }
  });
}

// The division by n - 1 is done by a reciprocal: every rank, for model sizes and widths where
// rounding could go wrong.
TEST(ColumnModel, CoordinateOfEveryRank) {
  const KeyType type{Kind::kUnsigned, 32};
  for (int64_t n : {2, 3, 4, 257, 1000, 32769, 65521, 65535, 65536}) {
    std::vector<std::string> sorted;
    arrow::UInt32Builder builder;
    for (int64_t i = 0; i < n; ++i) {
      sorted.push_back(EncodeMapped(type, static_cast<uint64_t>(i) * 3));
      ASSERT_TRUE(builder.Append(static_cast<uint32_t>(i * 3)).ok());
    }
    auto array = builder.Finish().ValueOrDie();
    auto model = ColumnModel::Make(type, sorted).ValueOrDie();
    std::vector<uint32_t> coords(static_cast<size_t>(n));
    for (int bits : {1, 2, 15, 16, 17, 31, 32}) {
      ASSERT_TRUE(model.Coordinates(*array, bits, coords.data()).ok());
      for (uint64_t rank = 0; rank < static_cast<uint64_t>(n); ++rank) {
        ASSERT_EQ(coords[rank], rank * ((uint64_t{1} << bits) - 2) / static_cast<uint64_t>(n - 1))
            << n << " " << bits;
      }
    }
  }
}

TEST(ColumnModel, SpecialFloats) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  auto ascending =
      ArrayOf<arrow::DoubleBuilder, double>({-nan, -inf, -1.0, -0.0, 0.0, 1.0, inf, nan});
  std::vector<std::string> sorted;
  for (int64_t row = 0; row < 8; ++row)
    sorted.push_back(EncodeValue(TypeOf(*ascending), *ascending, row).ValueOrDie());
  auto model = ColumnModel::Make(TypeOf(*ascending), sorted).ValueOrDie();
  std::vector<uint32_t> coords(8);
  ASSERT_TRUE(model.Coordinates(*ascending, 4, coords.data()).ok());
  EXPECT_EQ(coords, (std::vector<uint32_t>{0, 2, 4, 6, 8, 10, 12, 14}));  // rank * 14 / 7
}

TEST(ColumnModel, DictionariesEqualTheirPlainForm) {
  std::mt19937_64 random(8);
  for (const auto& index_type :
       {arrow::int8(), arrow::uint8(), arrow::int16(), arrow::uint16(), arrow::int32(),
        arrow::uint32(), arrow::int64(), arrow::uint64()}) {
    for (const auto& type :
         {arrow::int64(), arrow::utf8(), arrow::decimal128(38, 4), arrow::boolean()}) {
      const auto values = RandomArray(type, 100, random);  // with nulls among the values
      auto builder = arrow::MakeBuilder(index_type).ValueOrDie();
      std::vector<int64_t> positions;
      for (int i = 0; i < 700; ++i) {
        positions.push_back(random() % 9 == 0 ? -1 : static_cast<int64_t>(random() % 100));
        auto status = positions.back() < 0
                          ? builder->AppendNull()
                          : builder->AppendScalar(
                                *arrow::MakeScalar(index_type, positions.back()).ValueOrDie());
        ASSERT_TRUE(status.ok());
      }
      auto dictionary = arrow::DictionaryArray::FromArrays(arrow::dictionary(index_type, type),
                                                           builder->Finish().ValueOrDie(), values)
                            .ValueOrDie()
                            ->Slice(5);
      auto model = ColumnModel::Make(*KeyTypeOf(*type, Algorithm::kTypedQuantileRankV1),
                                     EncodedValues(*RandomArray(type, 500, random)))
                       .ValueOrDie();
      std::vector<uint32_t> plain(100), coords(695);
      ASSERT_TRUE(model.Coordinates(*values, 16, plain.data()).ok());
      ASSERT_TRUE(model.Coordinates(*dictionary, 16, coords.data()).ok());
      for (size_t row = 0; row < coords.size(); ++row) {
        const int64_t at = positions[row + 5];
        ASSERT_EQ(coords[row], at < 0 ? 65535 : plain[static_cast<size_t>(at)]);
      }
    }
  }
}

TEST(ColumnModel, FixedDomainTakesTheTopBits) {
  auto ints = ArrayOf<arrow::Int32Builder, int32_t>(
      {INT32_MIN, -1, 0, INT32_MAX, std::nullopt, 0x12345678});
  auto model = ColumnModel::FixedDomain({Kind::kSigned, 32}).ValueOrDie();
  std::vector<uint32_t> coords(6);
  ASSERT_TRUE(model.Coordinates(*ints, 16, coords.data()).ok());
  EXPECT_EQ(coords, (std::vector<uint32_t>{0, 0x7fff, 0x8000, 0xffff, 0xffff, 0x9234}));
  EXPECT_EQ(model.Coordinate(FromHex("0192345678"), 8), 0x92u);
  // More bits than the value has: it stands at the top.
  auto small = ArrayOf<arrow::UInt8Builder, uint8_t>({0, 0xab});
  auto narrow = ColumnModel::FixedDomain({Kind::kUnsigned, 8}).ValueOrDie();
  ASSERT_TRUE(narrow.Coordinates(*small, 12, coords.data()).ok());
  EXPECT_EQ(coords[1], 0xab0u);
  EXPECT_FALSE(ColumnModel::FixedDomain({Kind::kUtf8, 0}).ok());
}

TEST(ColumnModel, RefusesWhatIsNoModel) {
  const KeyType type{Kind::kSigned, 32};
  EXPECT_FALSE(ColumnModel::Make(type, {FromHex("0180000001"), FromHex("0180000000")}).ok());
  EXPECT_FALSE(ColumnModel::Make(type, {FromHex("01800000")}).ok());
  EXPECT_FALSE(
      ColumnModel::Make(type, std::vector<std::string>(65537, FromHex("0180000000"))).ok());
  EXPECT_FALSE(ColumnModel::Make({Kind::kFloat, 16}, {}).ok());
  auto model = ColumnModel::Make(type, {FromHex("0180000000")}).ValueOrDie();
  uint32_t out[1];
  EXPECT_FALSE(model.Coordinates(*ArrayOf<arrow::Int64Builder, int64_t>({1}), 16, out).ok());
  EXPECT_FALSE(model.Coordinates(*ArrayOf<arrow::Int32Builder, int32_t>({1}), 33, out).ok());
  EXPECT_FALSE(model.Coordinates(*ArrayOf<arrow::Int32Builder, int32_t>({1}), 0, out).ok());
}

TEST(ColumnModel, SerialisedFormComesBackAndIsChecked) {
  std::mt19937_64 random(4);
  for (const auto& type : kTypes) {
    SCOPED_TRACE(type->ToString());
    const auto key = *KeyTypeOf(*type, Algorithm::kTypedQuantileRankV1);
    const auto sorted = EncodedValues(*RandomArray(type, 40, random));
    const auto bytes = ColumnModel::Make(key, sorted).ValueOrDie().Serialize().ValueOrDie();
    auto back = ColumnModel::Deserialize(bytes).ValueOrDie();
    EXPECT_EQ(back.type(), key);
    ASSERT_EQ(back.size(), static_cast<int64_t>(sorted.size()));
    for (int64_t i = 0; i < back.size(); ++i)
      EXPECT_EQ(back.value(i), sorted[static_cast<size_t>(i)]);
    EXPECT_EQ(back.Serialize().ValueOrDie(), bytes);
    for (size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_FALSE(ColumnModel::Deserialize(std::string_view(bytes).substr(0, length)).ok())
          << length;
    }
    EXPECT_FALSE(ColumnModel::Deserialize(bytes + "x").ok());
    // Any changed byte is either refused or yields a model that is consistent in itself.
    for (int i = 0; i < 500; ++i) {
      std::string changed = bytes;
      changed[random() % changed.size()] = static_cast<char>(random());
      auto model = ColumnModel::Deserialize(changed);
      if (model.ok()) {
        EXPECT_EQ(model->Serialize().ValueOrDie(), changed);
      }
    }
  }
  auto fixed = ColumnModel::FixedDomain({Kind::kFloat, 64}).ValueOrDie();
  auto back = ColumnModel::Deserialize(fixed.Serialize().ValueOrDie()).ValueOrDie();
  EXPECT_TRUE(back.fixed_domain());
  EXPECT_EQ(back.type(), fixed.type());
}

struct Table {
  std::vector<std::shared_ptr<arrow::Array>> columns;
  std::vector<std::vector<uint32_t>> coords;
  std::vector<std::string> keys;
};

Table VectorTable() {
  Table table;
  arrow::Int64Builder a;
  arrow::StringBuilder b;
  const Json vectors = QuantileRankVectors();
  for (const auto& row : vectors["table"]) {
    EXPECT_TRUE((row["a"].is_null() ? a.AppendNull() : a.Append(row["a"].get<int64_t>())).ok());
    EXPECT_TRUE((row["b"].is_null() ? b.AppendNull() : b.Append(row["b"].get<std::string>())).ok());
    EXPECT_EQ(row["address"].get<size_t>(), table.keys.size());
    table.coords.push_back(row["coords"].get<std::vector<uint32_t>>());
    table.keys.push_back(row["key"].get<std::string>());
  }
  table.columns = {a.Finish().ValueOrDie(), b.Finish().ValueOrDie()};
  return table;
}

TEST(KeyEncoder, TableVector) {
  const Table table = VectorTable();
  ASSERT_EQ(table.keys.size(), 64u);
  std::vector<ColumnModel> models;
  for (int k = 0; k < 2; ++k) {
    ColumnSample sample(TypeOf(*table.columns[k]), k);
    ASSERT_TRUE(sample.Add(*table.columns[k], 0).ok());
    models.push_back(sample.Finish().ValueOrDie());
  }
  for (int k = 0; k < 2; ++k) {
    std::vector<uint32_t> coords(64);
    ASSERT_TRUE(models[k].Coordinates(*table.columns[k], 16, coords.data()).ok());
    for (size_t row = 0; row < 64; ++row) EXPECT_EQ(coords[row], table.coords[row][k]) << row;
  }
  auto encoder = KeyEncoder::Make(Curve::kHilbert, 16, std::move(models)).ValueOrDie();
  EXPECT_EQ(encoder.key_bits(), 32);
  auto again = KeyEncoder::Deserialize(encoder.Serialize().ValueOrDie()).ValueOrDie();
  for (const KeyEncoder* each : {&encoder, &again}) {
    std::vector<Key64> keys(64);
    ASSERT_TRUE(each->Encode(table.columns, keys.data()).ok());
    for (size_t row = 0; row < 64; ++row)
      EXPECT_EQ(fmt::format("{:08x}", keys[row]), table.keys[row]) << row;
  }
}

// Four columns of 32 bits: keys of 128 bits, against the scalar reference of the curve.
TEST(KeyEncoder, WideKeys) {
  std::mt19937_64 random(9);
  const std::vector<std::shared_ptr<arrow::DataType>> types = {
      arrow::int64(), arrow::utf8(), arrow::float32(), arrow::decimal128(20, 3)};
  for (Curve curve : {Curve::kHilbert, Curve::kZOrder}) {
    std::vector<std::shared_ptr<arrow::Array>> columns;
    std::vector<ColumnModel> models;
    std::vector<std::vector<uint32_t>> coords;
    for (const auto& type : types) {
      columns.push_back(RandomArray(type, 1000, random));
      models.push_back(
          ColumnModel::Make(TypeOf(*columns.back()), EncodedValues(*columns.back())).ValueOrDie());
      coords.emplace_back(1000);
      ASSERT_TRUE(models.back().Coordinates(*columns.back(), 32, coords.back().data()).ok());
    }
    auto encoder = KeyEncoder::Make(curve, 32, std::move(models)).ValueOrDie();
    ASSERT_TRUE(encoder.wide());
    std::vector<Key128> keys(1000);
    std::vector<Key64> narrow(1000);
    ASSERT_TRUE(encoder.EncodeWide(columns, keys.data()).ok());
    EXPECT_FALSE(encoder.Encode(columns, narrow.data()).ok());
    for (size_t row = 0; row < keys.size(); ++row) {
      const uint32_t point[4] = {coords[0][row], coords[1][row], coords[2][row], coords[3][row]};
      ASSERT_TRUE(keys[row] == CurveKeyReference(curve, point, 4, 32)) << row;
    }
  }
}

TEST(KeyEncoder, RefusesMismatchesAndBrokenBytes) {
  auto model = [] { return ColumnModel::FixedDomain({Kind::kSigned, 64}).ValueOrDie(); };
  auto models = [&](int n) {
    std::vector<ColumnModel> list;
    for (int i = 0; i < n; ++i) list.push_back(model());
    return list;
  };
  EXPECT_FALSE(KeyEncoder::Make(Curve::kHilbert, 16, models(0)).ok());
  EXPECT_FALSE(KeyEncoder::Make(Curve::kHilbert, 16, models(5)).ok());
  EXPECT_FALSE(KeyEncoder::Make(Curve::kHilbert, 0, models(1)).ok());
  EXPECT_FALSE(KeyEncoder::Make(Curve::kHilbert, 33, models(1)).ok());
  auto encoder = KeyEncoder::Make(Curve::kZOrder, 20, models(2)).ValueOrDie();
  auto longer = ArrayOf<arrow::Int64Builder, int64_t>({1, 2, 3});
  Key64 out[3];
  EXPECT_FALSE(encoder.Encode({longer}, out).ok());
  EXPECT_FALSE(encoder.Encode({longer, longer->Slice(1)}, out).ok());
  const std::string bytes = encoder.Serialize().ValueOrDie();
  auto back = KeyEncoder::Deserialize(bytes).ValueOrDie();
  EXPECT_EQ(back.curve(), Curve::kZOrder);
  EXPECT_EQ(back.bits_per_dim(), 20);
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(KeyEncoder::Deserialize(std::string_view(bytes).substr(0, length)).ok());
  }
  EXPECT_FALSE(KeyEncoder::Deserialize(bytes + '\0').ok());
  std::mt19937_64 random(2);
  for (int i = 0; i < 2000; ++i) {
    std::string changed = bytes;
    changed[random() % changed.size()] = static_cast<char>(random());
    auto encoder = KeyEncoder::Deserialize(changed);
    if (encoder.ok()) {
      EXPECT_EQ(encoder->Serialize().ValueOrDie(), changed);
    }
  }
}

}  // namespace
}  // namespace thalweg
