#include "sort/gather.h"

#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/array/concatenate.h>
#include <arrow/compute/api_vector.h>
#include <arrow/compute/initialize.h>
#include <arrow/extension_type.h>
#include <arrow/util/bit_util.h>
#include <arrow/util/byte_size.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

#include "sort/key_rows.h"
#include "util/status.h"

namespace thalweg {
namespace {

constexpr int64_t kPrefetch = 24;  // rows ahead; enough to cover a miss of the last-level cache

enum class Kernel { kFixed, kBoolean, kBinary32, kBinary64, kView, kTake };

const arrow::DataType& StorageType(const arrow::DataType& type) {
  if (type.id() == arrow::Type::EXTENSION) {
    return StorageType(*static_cast<const arrow::ExtensionType&>(type).storage_type());
  }
  return type;
}

Kernel KernelOf(const arrow::DataType& logical) {
  const arrow::DataType& type = StorageType(logical);
  switch (type.id()) {
    case arrow::Type::BOOL:
      return Kernel::kBoolean;
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return Kernel::kBinary32;
    case arrow::Type::LARGE_STRING:
    case arrow::Type::LARGE_BINARY:
      return Kernel::kBinary64;
    case arrow::Type::STRING_VIEW:
    case arrow::Type::BINARY_VIEW:
      return Kernel::kView;  // Take does not know them
    default:
      break;
  }
  const bool fixed = arrow::is_primitive(type.id()) || arrow::is_decimal(type.id()) ||
                     type.id() == arrow::Type::FIXED_SIZE_BINARY;
  return fixed && type.byte_width() > 0 ? Kernel::kFixed : Kernel::kTake;
}

/// One column of one batch, as raw pointers. Offsets of slices are already applied except for
/// bitmaps.
struct Chunk {
  const uint8_t* values =
      nullptr;  // first value, or the data of binary columns, or the bitmap of booleans
  const uint8_t* offsets = nullptr;   // of binary columns
  const uint8_t* validity = nullptr;  // null: no nulls
  int64_t offset = 0;                 // into the bitmaps
};

struct Column {
  Kernel kernel;
  int width = 0;
  bool nullable = false;  // some batch has nulls
  std::vector<Chunk> chunks;
};

template <typename Prefetch, typename Body>
inline void ForRows(const uint64_t* addresses, int64_t n, Prefetch prefetch, Body body) {
  const int64_t ahead = std::max<int64_t>(0, n - kPrefetch);
  for (int64_t i = 0; i < ahead; ++i) {
    prefetch(addresses[i + kPrefetch]);
    body(i, addresses[i]);
  }
  for (int64_t i = ahead; i < n; ++i) body(i, addresses[i]);
}

template <int kWidth>
void GatherFixed(const Column& column, const uint64_t* addresses, int64_t n, uint8_t* out) {
  const Chunk* chunks = column.chunks.data();
  const int64_t width = kWidth > 0 ? kWidth : column.width;
  ForRows(
      addresses, n,
      [&](uint64_t a) {
        __builtin_prefetch(chunks[AddressBatch(a)].values + int64_t{AddressRow(a)} * width);
      },
      [&](int64_t i, uint64_t a) {
        std::memcpy(out + i * width,
                    chunks[AddressBatch(a)].values + int64_t{AddressRow(a)} * width,
                    kWidth > 0 ? kWidth : width);
      });
}

/// Packs bits of the bitmap that `bitmap(chunk)` chooses; returns the number of set bits.
template <typename Bitmap>
int64_t GatherBits(const Column& column, const uint64_t* addresses, int64_t n, uint8_t* out,
                   Bitmap bitmap) {
  int64_t set = 0;
  for (int64_t begin = 0; begin < n; begin += 8) {
    const int64_t end = std::min(n, begin + 8);
    uint8_t byte = 0;
    for (int64_t i = begin; i < end; ++i) {
      const Chunk& chunk = column.chunks[AddressBatch(addresses[i])];
      const uint8_t* bits = bitmap(chunk);
      const bool bit =
          bits == nullptr || arrow::bit_util::GetBit(bits, chunk.offset + AddressRow(addresses[i]));
      byte |= static_cast<uint8_t>(bit) << (i - begin);
      set += bit;
    }
    out[begin / 8] = byte;
  }
  return set;
}

template <typename Offset>
arrow::Status GatherBinary(const Column& column, const std::string& name, const uint64_t* addresses,
                           int64_t n, std::shared_ptr<arrow::Buffer>* offsets_out,
                           std::shared_ptr<arrow::Buffer>* data_out) {
  const Chunk* chunks = column.chunks.data();
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> offsets,
                        arrow::AllocateBuffer((n + 1) * sizeof(Offset)));
  auto* out = reinterpret_cast<Offset*>(offsets->mutable_data());
  std::vector<const uint8_t*> sources(n);
  int64_t total = 0;
  out[0] = 0;
  ForRows(
      addresses, n,
      [&](uint64_t a) {
        __builtin_prefetch(chunks[AddressBatch(a)].offsets + AddressRow(a) * sizeof(Offset));
      },
      [&](int64_t i, uint64_t a) {
        const Chunk& chunk = chunks[AddressBatch(a)];
        Offset ends[2];
        std::memcpy(ends, chunk.offsets + AddressRow(a) * sizeof(Offset), sizeof(ends));
        sources[i] = chunk.values + ends[0];
        total += ends[1] - ends[0];
        out[i + 1] = static_cast<Offset>(total);
      });
  if (total > std::numeric_limits<Offset>::max()) {
    return arrow::Status::CapacityError("column ", name, ": more than 2 GiB in one batch");
  }
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> data, arrow::AllocateBuffer(total));
  uint8_t* bytes = data->mutable_data();
  for (int64_t i = 0; i < n; ++i) {
    if (i + kPrefetch < n) __builtin_prefetch(sources[i + kPrefetch]);
    const auto length = static_cast<size_t>(out[i + 1] - out[i]);
    if (length > 0) std::memcpy(bytes + out[i], sources[i], length);
  }
  *offsets_out = std::move(offsets);
  *data_out = std::move(data);
  return arrow::Status::OK();
}

}  // namespace

struct RowGatherer::Impl {
  std::shared_ptr<arrow::Schema> schema;
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
  std::vector<Column> columns;

  arrow::Result<std::shared_ptr<arrow::Array>> GatherColumn(int c, const uint64_t* addresses,
                                                            int64_t n) const;
  arrow::Result<std::shared_ptr<arrow::Array>> GatherViews(int c, const uint64_t* addresses,
                                                           int64_t n) const;
  arrow::Result<std::shared_ptr<arrow::Array>> TakeColumn(int c, const uint64_t* addresses,
                                                          int64_t n) const;
};

RowGatherer::RowGatherer(std::shared_ptr<arrow::Schema> schema) : impl_(std::make_unique<Impl>()) {
  static std::once_flag initialized;
  std::call_once(initialized, [] { (void)arrow::compute::Initialize(); });
  impl_->schema = std::move(schema);
  for (const auto& field : impl_->schema->fields()) {
    Column column{KernelOf(*field->type()), 0, false, {}};
    if (column.kernel == Kernel::kFixed) column.width = StorageType(*field->type()).byte_width();
    impl_->columns.push_back(std::move(column));
  }
}
RowGatherer::~RowGatherer() = default;
RowGatherer::RowGatherer(RowGatherer&&) noexcept = default;
RowGatherer& RowGatherer::operator=(RowGatherer&&) noexcept = default;

const std::shared_ptr<arrow::Schema>& RowGatherer::schema() const { return impl_->schema; }
const std::vector<std::shared_ptr<arrow::RecordBatch>>& RowGatherer::batches() const {
  return impl_->batches;
}

arrow::Result<uint32_t> RowGatherer::Add(std::shared_ptr<arrow::RecordBatch> batch) {
  if (batch->num_columns() != impl_->schema->num_fields()) {
    return Invalid("a batch has {} columns where the source's schema has {}", batch->num_columns(),
                   impl_->schema->num_fields());
  }
  for (int c = 0; c < batch->num_columns(); ++c) {
    const arrow::ArrayData& data = *batch->column_data(c);
    if (!data.type->Equals(*impl_->schema->field(c)->type())) {
      return Invalid("column {}: a batch has type {} where the source's schema has {}",
                     impl_->schema->field(c)->name(), data.type->ToString(),
                     impl_->schema->field(c)->type()->ToString());
    }
    Column& column = impl_->columns[c];
    Chunk chunk;
    chunk.offset = data.offset;
    if (column.kernel != Kernel::kTake && column.kernel != Kernel::kView) {
      if (data.GetNullCount() > 0) {
        chunk.validity = data.buffers[0]->data();
        column.nullable = true;
      }
      const uint8_t* first = data.buffers[1] ? data.buffers[1]->data() : nullptr;
      switch (column.kernel) {
        case Kernel::kFixed:
          chunk.values = first == nullptr ? nullptr : first + data.offset * column.width;
          break;
        case Kernel::kBoolean:
          chunk.values = first;
          break;
        default: {
          const int64_t size = column.kernel == Kernel::kBinary32 ? 4 : 8;
          chunk.offsets = first == nullptr ? nullptr : first + data.offset * size;
          chunk.values = data.buffers[2] ? data.buffers[2]->data() : nullptr;
        }
      }
    }
    column.chunks.push_back(chunk);
  }
  impl_->batches.push_back(std::move(batch));
  return static_cast<uint32_t>(impl_->batches.size() - 1);
}

int64_t RowGatherer::RowsWithin(const uint64_t* addresses, int64_t n, int64_t max_bytes) const {
  int64_t total = 0;
  for (int64_t i = 0; i < n; ++i) {
    for (const Column& column : impl_->columns) {
      const uint8_t* offsets = column.chunks[AddressBatch(addresses[i])].offsets;
      const int64_t row = AddressRow(addresses[i]);
      if (column.kernel == Kernel::kBinary32) {
        const auto* at = reinterpret_cast<const int32_t*>(offsets) + row;
        total += at[1] - at[0];
      } else if (column.kernel == Kernel::kBinary64) {
        const auto* at = reinterpret_cast<const int64_t*>(offsets) + row;
        total += at[1] - at[0];
      }
    }
    if (total > max_bytes) return std::max<int64_t>(1, i);
  }
  return n;
}

arrow::Result<std::shared_ptr<arrow::Array>> RowGatherer::Impl::TakeColumn(
    int c, const uint64_t* addresses, int64_t n) const {
  // Take from each batch apart, then bring the pieces into order: no column is ever concatenated
  // whole.
  std::vector<int64_t> by_batch(n);
  for (int64_t i = 0; i < n; ++i) by_batch[i] = i;
  std::stable_sort(by_batch.begin(), by_batch.end(), [&](int64_t a, int64_t b) {
    return AddressBatch(addresses[a]) < AddressBatch(addresses[b]);
  });
  arrow::ArrayVector pieces;
  std::vector<int64_t> position(n);
  for (int64_t begin = 0; begin < n;) {
    const uint32_t batch = AddressBatch(addresses[by_batch[begin]]);
    arrow::Int64Builder indices;
    int64_t end = begin;
    for (; end < n && AddressBatch(addresses[by_batch[end]]) == batch; ++end) {
      ARROW_RETURN_NOT_OK(indices.Append(AddressRow(addresses[by_batch[end]])));
      position[by_batch[end]] = end;
    }
    ARROW_ASSIGN_OR_RAISE(auto rows, indices.Finish());
    ARROW_ASSIGN_OR_RAISE(auto piece,
                          arrow::compute::Take(*batches[batch]->column(c), *rows,
                                               arrow::compute::TakeOptions::NoBoundsCheck()));
    pieces.push_back(std::move(piece));
    begin = end;
  }
  if (pieces.empty()) return arrow::MakeEmptyArray(schema->field(c)->type());
  if (pieces.size() == 1 && std::is_sorted(position.begin(), position.end())) return pieces[0];
  ARROW_ASSIGN_OR_RAISE(auto joined, arrow::Concatenate(pieces));
  arrow::Int64Array order(n, arrow::Buffer::Wrap(position));
  return arrow::compute::Take(*joined, order, arrow::compute::TakeOptions::NoBoundsCheck());
}

arrow::Result<std::shared_ptr<arrow::Array>> RowGatherer::Impl::GatherViews(
    int c, const uint64_t* addresses, int64_t n) const {
  const auto& type = schema->field(c)->type();
  const bool text = StorageType(*type).id() == arrow::Type::STRING_VIEW;
  std::unique_ptr<arrow::BinaryViewBuilder> builder;
  if (text) {
    builder = std::make_unique<arrow::StringViewBuilder>();
  } else {
    builder = std::make_unique<arrow::BinaryViewBuilder>();
  }
  ARROW_RETURN_NOT_OK(builder->Reserve(n));
  for (int64_t i = 0; i < n; ++i) {
    const arrow::Array* from = batches[AddressBatch(addresses[i])]->column(c).get();
    if (type->id() == arrow::Type::EXTENSION) {
      from = static_cast<const arrow::ExtensionArray*>(from)->storage().get();
    }
    const int64_t row = AddressRow(addresses[i]);
    if (from->IsNull(row)) {
      ARROW_RETURN_NOT_OK(builder->AppendNull());
    } else {
      ARROW_RETURN_NOT_OK(
          builder->Append(static_cast<const arrow::BinaryViewArray*>(from)->GetView(row)));
    }
  }
  std::shared_ptr<arrow::ArrayData> data;
  ARROW_RETURN_NOT_OK(builder->FinishInternal(&data));
  data->type = type;
  return arrow::MakeArray(data);
}

arrow::Result<std::shared_ptr<arrow::Array>> RowGatherer::Impl::GatherColumn(
    int c, const uint64_t* addresses, int64_t n) const {
  const Column& column = columns[c];
  if (column.kernel == Kernel::kTake) return TakeColumn(c, addresses, n);
  if (column.kernel == Kernel::kView) return GatherViews(c, addresses, n);
  std::shared_ptr<arrow::Buffer> validity;
  int64_t nulls = 0;
  if (column.nullable) {
    ARROW_ASSIGN_OR_RAISE(validity, arrow::AllocateBuffer(arrow::bit_util::BytesForBits(n)));
    nulls = n - GatherBits(column, addresses, n, validity->mutable_data(),
                           [](const Chunk& chunk) { return chunk.validity; });
    if (nulls == 0) validity = nullptr;
  }
  const auto& type = schema->field(c)->type();
  std::shared_ptr<arrow::Buffer> values, data;
  switch (column.kernel) {
    case Kernel::kBoolean: {
      ARROW_ASSIGN_OR_RAISE(values, arrow::AllocateBuffer(arrow::bit_util::BytesForBits(n)));
      GatherBits(column, addresses, n, values->mutable_data(),
                 [](const Chunk& chunk) { return chunk.values; });
      break;
    }
    case Kernel::kFixed: {
      ARROW_ASSIGN_OR_RAISE(values, arrow::AllocateBuffer(n * column.width));
      uint8_t* out = values->mutable_data();
      switch (column.width) {
        case 1:
          GatherFixed<1>(column, addresses, n, out);
          break;
        case 2:
          GatherFixed<2>(column, addresses, n, out);
          break;
        case 4:
          GatherFixed<4>(column, addresses, n, out);
          break;
        case 8:
          GatherFixed<8>(column, addresses, n, out);
          break;
        case 16:
          GatherFixed<16>(column, addresses, n, out);
          break;
        default:
          GatherFixed<0>(column, addresses, n, out);
      }
      break;
    }
    case Kernel::kBinary32:
      ARROW_RETURN_NOT_OK(
          GatherBinary<int32_t>(column, schema->field(c)->name(), addresses, n, &values, &data));
      break;
    default:
      ARROW_RETURN_NOT_OK(
          GatherBinary<int64_t>(column, schema->field(c)->name(), addresses, n, &values, &data));
  }
  std::vector<std::shared_ptr<arrow::Buffer>> buffers{std::move(validity), std::move(values)};
  if (data) buffers.push_back(std::move(data));
  return arrow::MakeArray(arrow::ArrayData::Make(type, n, std::move(buffers), nulls));
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> RowGatherer::Gather(const uint64_t* addresses,
                                                                       int64_t n) const {
  arrow::ArrayVector columns;
  for (int c = 0; c < impl_->schema->num_fields(); ++c) {
    ARROW_ASSIGN_OR_RAISE(auto column, impl_->GatherColumn(c, addresses, n));
    columns.push_back(std::move(column));
  }
  return arrow::RecordBatch::Make(impl_->schema, n, std::move(columns));
}

int64_t ReferencedBytes(const arrow::RecordBatch& batch) {
  const auto bytes = arrow::util::ReferencedBufferSize(batch);
  return bytes.ok() ? *bytes : arrow::util::TotalBufferSize(batch);
}

arrow::Result<std::vector<int64_t>> RowWeights(const arrow::RecordBatch& batch) {
  const int64_t n = batch.num_rows();
  std::vector<int64_t> weights(n, 0);
  if (n == 0) return weights;
  double mean = 0;
  for (int c = 0; c < batch.num_columns(); ++c) {
    const arrow::ArrayData& data = *batch.column_data(c);
    const Kernel kernel = KernelOf(*data.type);
    if (kernel == Kernel::kBoolean) {
      mean += 0.125;
    } else if (kernel == Kernel::kFixed) {
      mean += StorageType(*data.type).byte_width();
    } else if (kernel == Kernel::kBinary32) {
      mean += 4;
      const auto* offsets = data.GetValues<int32_t>(1);
      for (int64_t i = 0; i < n; ++i) weights[i] += offsets[i + 1] - offsets[i];
    } else if (kernel == Kernel::kBinary64) {
      mean += 8;
      const auto* offsets = data.GetValues<int64_t>(1);
      for (int64_t i = 0; i < n; ++i) weights[i] += offsets[i + 1] - offsets[i];
    } else {
      const int64_t bytes = arrow::util::ReferencedBufferSize(*batch.column(c))
                                .ValueOr(arrow::util::TotalBufferSize(*batch.column(c)));
      mean += static_cast<double>(bytes) / static_cast<double>(n);
    }
  }
  const auto fixed = int64_t{std::llround(mean)};
  for (int64_t& weight : weights) weight += std::max<int64_t>(1, fixed);
  return weights;
}

}  // namespace thalweg
