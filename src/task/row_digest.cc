#include "task/row_digest.h"

#include <arrow/array.h>
#include <arrow/extension_type.h>
#include <arrow/util/bit_util.h>
#include <arrow/util/checked_cast.h>
#include <arrow/util/ree_util.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <utility>

#include "task/hex128.h"
#include "util/status.h"

namespace thalweg {
namespace {

static_assert(std::endian::native == std::endian::little,
              "values are copied as they lie in memory");

constexpr uint8_t kNull = 0;
constexpr uint8_t kValue = 1;
constexpr int64_t kBlockRows = 1024;
constexpr int64_t kBlockBytes = int64_t{1}
                                << 20;  // of row strings assembled at once: stays in the cache

/// Writes the values of one array, row by row, into the strings of their rows.
class ColumnWriter {
 public:
  virtual ~ColumnWriter() = default;
  virtual int64_t Size(int64_t row) const = 0;
  virtual uint8_t* Put(int64_t row, uint8_t* out) const = 0;
  /// The same for `n` rows from `begin`, column-wise: adds to the sizes; moves the cursors on.
  virtual void AddSizes(int64_t begin, int64_t n, int64_t* sizes) const = 0;
  virtual void PutAll(int64_t begin, int64_t n, uint8_t** cursors) const = 0;
};

/// Values: `Size` and `Put` of one row, inlined here into the loops over many.
template <typename Values>
class WriterOf final : public ColumnWriter {
 public:
  explicit WriterOf(Values values) : values_(std::move(values)) {}
  int64_t Size(int64_t row) const override { return values_.Size(row); }
  uint8_t* Put(int64_t row, uint8_t* out) const override { return values_.Put(row, out); }
  void AddSizes(int64_t begin, int64_t n, int64_t* sizes) const override {
    for (int64_t i = 0; i < n; ++i) sizes[i] += values_.Size(begin + i);
  }
  void PutAll(int64_t begin, int64_t n, uint8_t** cursors) const override {
    for (int64_t i = 0; i < n; ++i) cursors[i] = values_.Put(begin + i, cursors[i]);
  }

 private:
  const Values values_;
};

template <typename Values>
std::unique_ptr<ColumnWriter> MakeWriter(Values values) {
  return std::make_unique<WriterOf<Values>>(std::move(values));
}

struct Validity {
  explicit Validity(const arrow::Array& array)
      : bits(array.null_count() > 0 ? array.null_bitmap_data() : nullptr), offset(array.offset()) {}
  bool operator()(int64_t row) const {
    return bits == nullptr || arrow::bit_util::GetBit(bits, row + offset);
  }
  const uint8_t* bits;
  int64_t offset;
};

uint8_t* PutLength(int64_t length, uint8_t* out) {
  std::memcpy(out, &length, sizeof(length));
  return out + sizeof(length);
}

struct NullValues {
  int64_t Size(int64_t) const { return 1; }
  uint8_t* Put(int64_t, uint8_t* out) const {
    *out = kNull;
    return out + 1;
  }
};

struct BoolValues {
  explicit BoolValues(const arrow::Array& array)
      : valid(array), bits(array.data()->GetValues<uint8_t>(1, 0)), offset(array.offset()) {}
  int64_t Size(int64_t row) const { return valid(row) ? 2 : 1; }
  uint8_t* Put(int64_t row, uint8_t* out) const {
    const bool is_value = valid(row);
    *out++ = is_value ? kValue : kNull;
    if (is_value) *out++ = arrow::bit_util::GetBit(bits, row + offset) ? 1 : 0;
    return out;
  }
  Validity valid;
  const uint8_t* bits;
  int64_t offset;
};

template <int kWidth>
struct FixedValues {
  explicit FixedValues(const arrow::Array& array)
      : valid(array), data(array.data()->GetValues<uint8_t>(1, 0)) {
    if (data != nullptr) data += array.offset() * kWidth;
  }
  int64_t Size(int64_t row) const { return valid(row) ? 1 + kWidth : 1; }
  uint8_t* Put(int64_t row, uint8_t* out) const {
    if (!valid(row)) {
      *out = kNull;
      return out + 1;
    }
    *out = kValue;
    std::memcpy(out + 1, data + row * kWidth, kWidth);
    return out + 1 + kWidth;
  }
  Validity valid;
  const uint8_t* data;
};

/// Binary and text of any layout: anything with GetView.
template <typename ArrayType>
struct BytesValues {
  explicit BytesValues(const arrow::Array& any)
      : valid(any), array(&arrow::internal::checked_cast<const ArrayType&>(any)) {}
  int64_t Size(int64_t row) const {
    return valid(row) ? 9 + static_cast<int64_t>(array->GetView(row).size()) : 1;
  }
  uint8_t* Put(int64_t row, uint8_t* out) const {
    if (!valid(row)) {
      *out = kNull;
      return out + 1;
    }
    *out = kValue;
    const std::string_view bytes = array->GetView(row);
    out = PutLength(static_cast<int64_t>(bytes.size()), out + 1);
    if (!bytes.empty()) std::memcpy(out, bytes.data(), bytes.size());
    return out + bytes.size();
  }
  Validity valid;
  const ArrayType* array;
};

/// Lists of any layout: the number of elements, then each element as a value of its own.
template <typename ArrayType>
struct ListValues {
  int64_t Size(int64_t row) const {
    if (!valid(row)) return 1;
    int64_t size = 9;
    const int64_t begin = array->value_offset(row), end = begin + array->value_length(row);
    for (int64_t i = begin; i < end; ++i) size += elements->Size(i);
    return size;
  }
  uint8_t* Put(int64_t row, uint8_t* out) const {
    if (!valid(row)) {
      *out = kNull;
      return out + 1;
    }
    *out = kValue;
    const int64_t begin = array->value_offset(row), length = array->value_length(row);
    out = PutLength(length, out + 1);
    for (int64_t i = begin; i < begin + length; ++i) out = elements->Put(i, out);
    return out;
  }
  Validity valid;
  const ArrayType* array;
  std::shared_ptr<const arrow::Array> values;  // keeps what `elements` points into
  std::shared_ptr<const ColumnWriter> elements;
};

struct StructValues {
  int64_t Size(int64_t row) const {
    if (!valid(row)) return 1;
    int64_t size = 1;
    for (const auto& field : fields) size += field->Size(row);
    return size;
  }
  uint8_t* Put(int64_t row, uint8_t* out) const {
    if (!valid(row)) {
      *out = kNull;
      return out + 1;
    }
    *out++ = kValue;
    for (const auto& field : fields) out = field->Put(row, out);
    return out;
  }
  Validity valid;
  std::vector<std::shared_ptr<const arrow::Array>> arrays;
  std::vector<std::shared_ptr<const ColumnWriter>> fields;
};

template <typename Index>
struct DictionaryValues {
  int64_t Size(int64_t row) const {
    return valid(row) ? dictionary->Size(static_cast<int64_t>(indices[row])) : 1;
  }
  uint8_t* Put(int64_t row, uint8_t* out) const {
    if (valid(row)) return dictionary->Put(static_cast<int64_t>(indices[row]), out);
    *out = kNull;
    return out + 1;
  }
  Validity valid;
  const Index* indices;
  std::shared_ptr<const arrow::Array> values;
  std::shared_ptr<const ColumnWriter> dictionary;
};

struct RunEndValues {
  int64_t Physical(int64_t row) const {
    return arrow::ree_util::FindPhysicalIndex(arrow::ArraySpan(*array->data()), row,
                                              array->offset());
  }
  int64_t Size(int64_t row) const { return runs->Size(Physical(row)); }
  uint8_t* Put(int64_t row, uint8_t* out) const { return runs->Put(Physical(row), out); }
  const arrow::RunEndEncodedArray* array;
  std::shared_ptr<const arrow::Array> values;
  std::shared_ptr<const ColumnWriter> runs;
};

using Writer = std::unique_ptr<ColumnWriter>;
arrow::Result<Writer> WriterFor(const arrow::Array& array);

template <typename ArrayType>
arrow::Result<Writer> ListWriter(const arrow::Array& any) {
  const auto& array = arrow::internal::checked_cast<const ArrayType&>(any);
  auto values = array.values();
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<ColumnWriter> elements, WriterFor(*values));
  return MakeWriter(ListValues<ArrayType>{Validity(any), &array, values, elements});
}

arrow::Result<Writer> StructWriter(const arrow::Array& any) {
  const auto& array = arrow::internal::checked_cast<const arrow::StructArray&>(any);
  StructValues out{Validity(any), {}, {}};
  for (int i = 0; i < array.num_fields(); ++i) {
    auto child = array.field(i);
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<ColumnWriter> field, WriterFor(*child));
    out.arrays.push_back(child);
    out.fields.push_back(field);
  }
  return MakeWriter(std::move(out));
}

template <typename Index>
Writer DictionaryWriter(const arrow::DictionaryArray& array,
                        std::shared_ptr<const ColumnWriter> values) {
  return MakeWriter(DictionaryValues<Index>{Validity(*array.indices()),
                                            array.indices()->data()->template GetValues<Index>(1),
                                            array.dictionary(), std::move(values)});
}

arrow::Result<Writer> DictionaryWriterFor(const arrow::Array& any) {
  const auto& array = arrow::internal::checked_cast<const arrow::DictionaryArray&>(any);
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<ColumnWriter> values, WriterFor(*array.dictionary()));
  switch (array.indices()->type_id()) {
    case arrow::Type::INT8:
      return DictionaryWriter<int8_t>(array, values);
    case arrow::Type::UINT8:
      return DictionaryWriter<uint8_t>(array, values);
    case arrow::Type::INT16:
      return DictionaryWriter<int16_t>(array, values);
    case arrow::Type::UINT16:
      return DictionaryWriter<uint16_t>(array, values);
    case arrow::Type::INT32:
      return DictionaryWriter<int32_t>(array, values);
    case arrow::Type::UINT32:
      return DictionaryWriter<uint32_t>(array, values);
    case arrow::Type::INT64:
      return DictionaryWriter<int64_t>(array, values);
    default:
      return DictionaryWriter<uint64_t>(array, values);
  }
}

arrow::Result<Writer> WriterFor(const arrow::Array& array) {
  switch (array.type_id()) {
    case arrow::Type::NA:
      return MakeWriter(NullValues{});
    case arrow::Type::BOOL:
      return MakeWriter(BoolValues(array));
    case arrow::Type::INT8:
    case arrow::Type::UINT8:
      return MakeWriter(FixedValues<1>(array));
    case arrow::Type::INT16:
    case arrow::Type::UINT16:
    case arrow::Type::HALF_FLOAT:
      return MakeWriter(FixedValues<2>(array));
    case arrow::Type::INT32:
    case arrow::Type::UINT32:
    case arrow::Type::FLOAT:
    case arrow::Type::DATE32:
    case arrow::Type::TIME32:
    case arrow::Type::DECIMAL32:
    case arrow::Type::INTERVAL_MONTHS:
      return MakeWriter(FixedValues<4>(array));
    case arrow::Type::INT64:
    case arrow::Type::UINT64:
    case arrow::Type::DOUBLE:
    case arrow::Type::DATE64:
    case arrow::Type::TIME64:
    case arrow::Type::TIMESTAMP:
    case arrow::Type::DURATION:
    case arrow::Type::DECIMAL64:
    case arrow::Type::INTERVAL_DAY_TIME:
      return MakeWriter(FixedValues<8>(array));
    case arrow::Type::DECIMAL128:
    case arrow::Type::INTERVAL_MONTH_DAY_NANO:
      return MakeWriter(FixedValues<16>(array));
    case arrow::Type::DECIMAL256:
      return MakeWriter(FixedValues<32>(array));
    case arrow::Type::FIXED_SIZE_BINARY:
      return MakeWriter(BytesValues<arrow::FixedSizeBinaryArray>(array));
    case arrow::Type::BINARY:
    case arrow::Type::STRING:
      return MakeWriter(BytesValues<arrow::BinaryArray>(array));
    case arrow::Type::LARGE_BINARY:
    case arrow::Type::LARGE_STRING:
      return MakeWriter(BytesValues<arrow::LargeBinaryArray>(array));
    case arrow::Type::BINARY_VIEW:
    case arrow::Type::STRING_VIEW:
      return MakeWriter(BytesValues<arrow::BinaryViewArray>(array));
    case arrow::Type::LIST:
    case arrow::Type::MAP:  // a list of structs of key and item
      return ListWriter<arrow::ListArray>(array);
    case arrow::Type::LARGE_LIST:
      return ListWriter<arrow::LargeListArray>(array);
    case arrow::Type::FIXED_SIZE_LIST:
      return ListWriter<arrow::FixedSizeListArray>(array);
    case arrow::Type::LIST_VIEW:
      return ListWriter<arrow::ListViewArray>(array);
    case arrow::Type::LARGE_LIST_VIEW:
      return ListWriter<arrow::LargeListViewArray>(array);
    case arrow::Type::STRUCT:
      return StructWriter(array);
    case arrow::Type::DICTIONARY:
      return DictionaryWriterFor(array);
    case arrow::Type::RUN_END_ENCODED: {
      const auto& runs = arrow::internal::checked_cast<const arrow::RunEndEncodedArray&>(array);
      ARROW_ASSIGN_OR_RAISE(std::shared_ptr<ColumnWriter> values, WriterFor(*runs.values()));
      return MakeWriter(RunEndValues{&runs, runs.values(), values});
    }
    case arrow::Type::EXTENSION:
      return WriterFor(
          *arrow::internal::checked_cast<const arrow::ExtensionArray&>(array).storage());
    default:
      return Invalid("row digest: columns of type {} are not supported", array.type()->ToString());
  }
}

/// Calls `row(bytes, size)` for each row of the batch, in order.
template <typename Row>
arrow::Status ForEachRow(const arrow::RecordBatch& batch, Row row) {
  arrow::ArrayVector arrays;  // the batch may make them anew at each call
  std::vector<Writer> columns;
  for (int i = 0; i < batch.num_columns(); ++i) {
    arrays.push_back(batch.column(i));
    ARROW_ASSIGN_OR_RAISE(auto column, WriterFor(*arrays.back()));
    columns.push_back(std::move(column));
  }
  std::vector<int64_t> sizes(kBlockRows);
  std::vector<uint8_t*> cursors(kBlockRows);
  std::vector<uint8_t> buffer;
  for (int64_t block = 0; block < batch.num_rows(); block += kBlockRows) {
    const int64_t rows = std::min(kBlockRows, batch.num_rows() - block);
    std::fill_n(sizes.begin(), rows, 0);
    for (const auto& column : columns) column->AddSizes(block, rows, sizes.data());
    for (int64_t begin = 0, end = 0; begin < rows; begin = end) {
      int64_t bytes = 0;
      for (; end < rows && (end == begin || bytes + sizes[end] <= kBlockBytes); ++end) {
        bytes += sizes[end];
      }
      if (static_cast<int64_t>(buffer.size()) < bytes) buffer.resize(bytes);
      uint8_t* at = buffer.data();
      for (int64_t i = begin; i < end; ++i) {
        cursors[i] = at;
        at += sizes[i];
      }
      for (const auto& column : columns) {
        column->PutAll(block + begin, end - begin, cursors.data() + begin);
      }
      at = buffer.data();
      for (int64_t i = begin; i < end; ++i) {
        row(at, static_cast<size_t>(sizes[i]));
        at += sizes[i];
      }
    }
  }
  return arrow::Status::OK();
}

}  // namespace

arrow::Status RowDigest::Update(const arrow::RecordBatch& batch) {
  unsigned __int128 sum = 0;
  ARROW_RETURN_NOT_OK(ForEachRow(batch, [&](const uint8_t* bytes, size_t size) {
    const XXH128_hash_t hash = XXH3_128bits(bytes, size);
    sum += (static_cast<unsigned __int128>(hash.high64) << 64) | hash.low64;
  }));
  sum_ += sum;
  return arrow::Status::OK();
}

std::string RowDigest::ToHex() const { return ToHex128(sum_); }

arrow::Result<RowDigest> RowDigest::FromHex(std::string_view text) {
  RowDigest digest;
  ARROW_ASSIGN_OR_RAISE(digest.sum_, ParseHex128(text));
  return digest;
}

arrow::Result<std::vector<std::string>> CanonicalRows(const arrow::RecordBatch& batch) {
  std::vector<std::string> rows;
  ARROW_RETURN_NOT_OK(ForEachRow(batch, [&](const uint8_t* bytes, size_t size) {
    rows.emplace_back(reinterpret_cast<const char*>(bytes), size);
  }));
  return rows;
}

}  // namespace thalweg
