#include "iceberg/equality_keys.h"

#include <arrow/array.h>
#include <arrow/util/bit_util.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

#include "util/status.h"

namespace thalweg::iceberg {
namespace {

/// Slots per key: at this load a lookup probes one or two slots.
constexpr double kSlotsPerKey = 1.5;
constexpr size_t kPrefetch = 16;

bool IsEmpty(XXH128_hash_t key) { return key.low64 == 0 && key.high64 == 0; }

/// Bytes of a value of a fixed-width type in the canonical form, 0 for strings and binaries.
arrow::Result<int> FixedWidth(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::BOOL:
      return 1;
    case arrow::Type::INT32:
    case arrow::Type::INT64:
    case arrow::Type::FLOAT:
    case arrow::Type::DOUBLE:
    case arrow::Type::DECIMAL128:
    case arrow::Type::DATE32:
    case arrow::Type::TIME64:
    case arrow::Type::TIMESTAMP:
    case arrow::Type::FIXED_SIZE_BINARY:
      return static_cast<const arrow::FixedWidthType&>(type).bit_width() / 8;
    case arrow::Type::STRING:
    case arrow::Type::BINARY:
      return 0;
    default:
      return Invalid("equality deletes by a column of type {} are not supported", type.ToString());
  }
}

template <typename Float>
void CopyFloat(const uint8_t* from, uint8_t* to) {
  Float value;
  std::memcpy(&value, from, sizeof(value));
  if (std::isnan(value)) value = std::numeric_limits<Float>::quiet_NaN();
  std::memcpy(to, &value, sizeof(value));
}

/// One column of a batch in canonical form: a byte that tells null from value, then the value;
/// strings and binaries after their length.
class CanonicalColumn {
 public:
  static arrow::Result<CanonicalColumn> Make(std::shared_ptr<arrow::Array> array) {
    CanonicalColumn column;
    ARROW_ASSIGN_OR_RAISE(column.width_, FixedWidth(*array->type()));
    column.array_ = std::move(array);
    return column;
  }

  void AddLengths(std::vector<size_t>* lengths) const {
    const int64_t rows = array_->length();
    for (int64_t i = 0; i < rows; ++i) {
      size_t length = 1;
      if (array_->IsValid(i)) {
        length += IsFixed() ? static_cast<size_t>(width_) : sizeof(uint32_t) + View(i).size();
      }
      (*lengths)[static_cast<size_t>(i)] += length;
    }
  }

  /// Writes every row's value at its place and moves the places on.
  void Write(uint8_t* bytes, std::vector<size_t>* places) const {
    const int64_t rows = array_->length();
    for (int64_t i = 0; i < rows; ++i) {
      size_t& place = (*places)[static_cast<size_t>(i)];
      uint8_t* to = bytes + place;
      if (!array_->IsValid(i)) {
        *to = 0;
        ++place;
        continue;
      }
      *to++ = 1;
      place += 1 + WriteValue(i, to);
    }
  }

 private:
  bool IsFixed() const {
    return array_->type_id() != arrow::Type::STRING && array_->type_id() != arrow::Type::BINARY;
  }
  std::string_view View(int64_t i) const {
    return static_cast<const arrow::BinaryArray&>(*array_).GetView(i);
  }

  size_t WriteValue(int64_t i, uint8_t* to) const {
    if (!IsFixed()) {
      const std::string_view value = View(i);
      const auto length = static_cast<uint32_t>(value.size());
      std::memcpy(to, &length, sizeof(length));
      std::memcpy(to + sizeof(length), value.data(), value.size());
      return sizeof(length) + value.size();
    }
    const uint8_t* values = array_->data()->buffers[1]->data();
    const int64_t at = array_->offset() + i;
    if (array_->type_id() == arrow::Type::BOOL) {
      *to = arrow::bit_util::GetBit(values, at) ? 1 : 0;
      return 1;
    }
    const uint8_t* from = values + at * width_;
    switch (array_->type_id()) {
      case arrow::Type::FLOAT:
        CopyFloat<float>(from, to);
        break;
      case arrow::Type::DOUBLE:
        CopyFloat<double>(from, to);
        break;
      default:
        std::memcpy(to, from, static_cast<size_t>(width_));
    }
    return static_cast<size_t>(width_);
  }

  std::shared_ptr<arrow::Array> array_;
  int width_ = 0;
};

}  // namespace

arrow::Status EqualityHasher::Hash(const arrow::RecordBatch& batch,
                                   std::vector<XXH128_hash_t>* hashes) const {
  std::vector<CanonicalColumn> columns;
  for (const auto& way : columns_) {
    auto array = batch.column(way[0]);
    for (size_t depth = 1; depth < way.size(); ++depth) {
      if (array->type_id() != arrow::Type::STRUCT) return Invalid("column {} is no struct", way[0]);
      ARROW_ASSIGN_OR_RAISE(
          array, static_cast<const arrow::StructArray&>(*array).GetFlattenedField(way[depth]));
    }
    ARROW_ASSIGN_OR_RAISE(auto column, CanonicalColumn::Make(std::move(array)));
    columns.push_back(std::move(column));
  }
  const auto rows = static_cast<size_t>(batch.num_rows());
  std::vector<size_t> ends(rows, 0);
  for (const auto& column : columns) column.AddLengths(&ends);
  size_t total = 0;
  for (size_t& place : ends) {
    const size_t length = place;
    place = total;
    total += length;
  }
  std::vector<uint8_t> bytes(total);
  for (const auto& column : columns) column.Write(bytes.data(), &ends);
  hashes->resize(rows);
  size_t begin = 0;
  for (size_t i = 0; i < rows; ++i) {
    XXH128_hash_t hash = XXH3_128bits_withSeed(bytes.data() + begin, ends[i] - begin, seed_);
    if (IsEmpty(hash)) hash.low64 = 1;
    (*hashes)[i] = hash;
    begin = ends[i];
  }
  return arrow::Status::OK();
}

int64_t EqualityTable::Limit(int64_t max_bytes) {
  constexpr auto kBytesPerKey =
      static_cast<int64_t>(kSlotsPerKey * (sizeof(XXH128_hash_t) + sizeof(uint32_t)));
  return std::max<int64_t>(1, max_bytes / kBytesPerKey);
}

EqualityTable::EqualityTable(int64_t keys, int64_t max_bytes)
    : limit_(std::max<int64_t>(1, std::min(keys, Limit(max_bytes)))) {
  const auto slots = static_cast<size_t>(static_cast<double>(limit_) * kSlotsPerKey) + 1;
  keys_.resize(slots);
  ranks_.resize(slots);
}

int64_t EqualityTable::bytes() const {
  return static_cast<int64_t>(keys_.size() * (sizeof(keys_[0]) + sizeof(ranks_[0])));
}

void EqualityTable::Clear() {
  std::fill(keys_.begin(), keys_.end(), XXH128_hash_t{0, 0});
  size_ = 0;
}

size_t EqualityTable::Slot(XXH128_hash_t key) const {
  return static_cast<size_t>((static_cast<unsigned __int128>(key.high64) * keys_.size()) >> 64);
}

void EqualityTable::Put(XXH128_hash_t key, uint32_t rank) {
  for (size_t slot = Slot(key);; slot = slot + 1 == keys_.size() ? 0 : slot + 1) {
    if (IsEmpty(keys_[slot])) {
      keys_[slot] = key;
      ranks_[slot] = rank;
      ++size_;
      return;
    }
    if (XXH128_isEqual(keys_[slot], key)) {
      ranks_[slot] = std::max(ranks_[slot], rank);
      return;
    }
  }
}

void EqualityTable::FindAbove(const std::vector<XXH128_hash_t>& keys, uint32_t least,
                              std::vector<uint32_t>* found) const {
  found->clear();
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i + kPrefetch < keys.size()) __builtin_prefetch(&keys_[Slot(keys[i + kPrefetch])]);
    const XXH128_hash_t key = keys[i];
    for (size_t slot = Slot(key); !IsEmpty(keys_[slot]);
         slot = slot + 1 == keys_.size() ? 0 : slot + 1) {
      if (!XXH128_isEqual(keys_[slot], key)) continue;
      if (ranks_[slot] > least) found->push_back(static_cast<uint32_t>(i));
      break;
    }
  }
}

}  // namespace thalweg::iceberg
