#include "sort/gather.h"

#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <arrow/util/byte_size.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "sort/key_rows.h"

namespace thalweg {
namespace {

/// Values of a type as JSON would spell them, through a cast from strings or from JSON-like
/// builders.
std::shared_ptr<arrow::Array> RandomArray(const std::shared_ptr<arrow::DataType>& type, int64_t n,
                                          bool nulls, std::mt19937_64& rng) {
  arrow::Int32Builder numbers;
  for (int64_t i = 0; i < n; ++i) {
    EXPECT_TRUE((nulls && rng() % 4 == 0 ? numbers.AppendNull()
                                         : numbers.Append(static_cast<int32_t>(rng() % 100)))
                    .ok());
  }
  auto array = numbers.Finish().ValueOrDie();
  if (type->id() == arrow::Type::FIXED_SIZE_BINARY) {
    arrow::FixedSizeBinaryBuilder builder(type);
    for (int64_t i = 0; i < n; ++i) {
      const std::string value = fmt::format("{:07d}", rng() % 10000000);
      EXPECT_TRUE((array->IsNull(i) ? builder.AppendNull() : builder.Append(value)).ok());
    }
    return builder.Finish().ValueOrDie();
  }
  if (type->id() == arrow::Type::LIST) {
    auto item = std::make_shared<arrow::Int32Builder>();
    arrow::ListBuilder builder(arrow::default_memory_pool(), item);
    for (int64_t i = 0; i < n; ++i) {
      EXPECT_TRUE((array->IsNull(i) ? builder.AppendNull() : builder.Append()).ok());
      for (uint64_t k = array->IsNull(i) ? 0 : rng() % 3; k > 0; --k) {
        EXPECT_TRUE(item->Append(static_cast<int>(rng())).ok());
      }
    }
    return builder.Finish().ValueOrDie();
  }
  if (type->id() == arrow::Type::BINARY || type->id() == arrow::Type::STRING_VIEW) {
    array = arrow::compute::Cast(*array, arrow::utf8()).ValueOrDie();
  }
  return arrow::compute::Cast(*array, type).ValueOrDie();
}

TEST(RowGatherer, AgreesWithTake) {
  std::mt19937_64 rng(1);
  const arrow::FieldVector fields = {
      arrow::field("i8", arrow::int8()),
      arrow::field("u16", arrow::uint16()),
      arrow::field("f32", arrow::float32()),
      arrow::field("i64", arrow::int64()),
      arrow::field("decimal", arrow::decimal128(20, 2)),
      arrow::field("decimal256", arrow::decimal256(40, 2)),
      arrow::field("bool", arrow::boolean()),
      arrow::field("utf8", arrow::utf8()),
      arrow::field("large", arrow::large_utf8()),
      arrow::field("binary", arrow::binary()),
      arrow::field("view", arrow::utf8_view()),
      arrow::field("fixed", arrow::fixed_size_binary(7)),
      arrow::field("list", arrow::list(arrow::field("item", arrow::int32()))),
      arrow::field("null", arrow::null())};
  const auto schema = arrow::schema(fields);
  for (int round = 0; round < 20; ++round) {
    RowGatherer gatherer(schema);
    std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
    std::vector<int64_t> first_row;
    int64_t rows = 0;
    for (int b = 0; b < 1 + round % 5; ++b) {
      const int64_t n = 1 + static_cast<int64_t>(rng() % 90);
      arrow::ArrayVector columns;
      for (const auto& field : fields) {
        columns.push_back(field->type()->id() == arrow::Type::NA
                              ? arrow::MakeArrayOfNull(field->type(), n).ValueOrDie()
                              : RandomArray(field->type(), n, (rng() + b) % 2 == 0, rng));
      }
      auto batch = arrow::RecordBatch::Make(schema, n, columns);
      const auto skip = static_cast<int64_t>(rng() % n);  // slices have offsets of their own
      batch = batch->Slice(skip);
      EXPECT_EQ(gatherer.Add(batch).ValueOrDie(), static_cast<uint32_t>(b));
      first_row.push_back(rows);
      rows += batch->num_rows();
      batches.push_back(batch);
    }
    const auto table = arrow::Table::FromRecordBatches(schema, batches).ValueOrDie();
    std::vector<uint64_t> addresses;
    arrow::Int64Builder indices;
    for (uint64_t i = rng() % 300; i > 0; --i) {
      const uint64_t b = rng() % batches.size();
      const uint64_t row = rng() % batches[b]->num_rows();
      addresses.push_back(RowAddress(b, row));
      ASSERT_TRUE(indices.Append(first_row[b] + static_cast<int64_t>(row)).ok());
    }
    const auto got =
        gatherer.Gather(addresses.data(), static_cast<int64_t>(addresses.size())).ValueOrDie();
    ASSERT_TRUE(got->ValidateFull().ok());
    const auto whole = table->CombineChunks().ValueOrDie();
    const auto taken = indices.Finish().ValueOrDie();
    for (int c = 0; c < schema->num_fields(); ++c) {
      if (whole->num_rows() == 0) continue;
      auto plain = whole->column(c)->chunk(0);
      const bool view = plain->type_id() == arrow::Type::STRING_VIEW;  // unknown to Take
      if (view) plain = arrow::compute::Cast(*plain, arrow::utf8()).ValueOrDie();
      auto expected = arrow::compute::Take(*plain, *taken).ValueOrDie();
      if (view) expected = arrow::compute::Cast(*expected, arrow::utf8_view()).ValueOrDie();
      EXPECT_TRUE(got->column(c)->Equals(*expected)) << fields[c]->name();
      EXPECT_EQ(got->column(c)->null_count(), expected->null_count());
    }
  }
}

TEST(RowGatherer, RefusesAnotherSchema) {
  RowGatherer gatherer(arrow::schema({arrow::field("a", arrow::int32())}));
  const auto other = arrow::schema({arrow::field("a", arrow::int64())});
  EXPECT_FALSE(gatherer.Add(arrow::RecordBatch::MakeEmpty(other).ValueOrDie()).ok());
}

TEST(RowWeights, CountsPayload) {
  arrow::StringBuilder text;
  ASSERT_TRUE(text.AppendValues({"", "abc", std::string(100, 'x')}).ok());
  arrow::Int64Builder number;
  ASSERT_TRUE(number.AppendValues({1, 2, 3}).ok());
  const auto batch = arrow::RecordBatch::Make(
      arrow::schema({arrow::field("t", arrow::utf8()), arrow::field("n", arrow::int64())}), 3,
      {text.Finish().ValueOrDie(), number.Finish().ValueOrDie()});
  EXPECT_EQ(RowWeights(*batch).ValueOrDie(), (std::vector<int64_t>{12, 15, 112}));
  EXPECT_EQ(RowWeights(*batch->Slice(2)).ValueOrDie(), (std::vector<int64_t>{112}));
}

}  // namespace
}  // namespace thalweg
