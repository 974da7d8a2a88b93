#include "sort/key_rows.h"

#include <algorithm>
#include <type_traits>

namespace thalweg {
namespace {

template <typename Key>
uint32_t FindRange(const std::vector<Key>& borders, const std::vector<uint32_t>& starts, int shift,
                   Key key) {
  const auto cell = static_cast<size_t>(key >> shift);
  const Key* low = borders.data() + starts[cell];
  size_t n = starts[cell + 1] - starts[cell];
  while (n > 0) {  // counts the borders <= key
    const size_t half = (n + 1) / 2;
    low += low[half - 1] <= key ? half : 0;
    n -= half;
  }
  const auto count = static_cast<uint32_t>(low - borders.data());
  return count == 0 ? 0 : count - 1;
}

}  // namespace

arrow::Result<KeyVector> KeyVector::Encode(const KeyEncoder& encoder,
                                           const arrow::RecordBatch& batch,
                                           const std::vector<int>& key_columns) {
  std::vector<std::shared_ptr<arrow::Array>> columns;
  columns.reserve(key_columns.size());
  for (int column : key_columns) columns.push_back(batch.column(column));
  KeyVector result;
  if (encoder.wide()) {
    std::vector<Key128> keys(batch.num_rows());
    ARROW_RETURN_NOT_OK(encoder.EncodeWide(columns, keys.data()));
    result.keys_ = std::move(keys);
  } else {
    std::vector<Key64> keys(batch.num_rows());
    ARROW_RETURN_NOT_OK(encoder.Encode(columns, keys.data()));
    result.keys_ = std::move(keys);
  }
  return result;
}

int64_t KeyVector::size() const {
  return std::visit([](const auto& keys) { return static_cast<int64_t>(keys.size()); }, keys_);
}

Key128 KeyVector::operator[](int64_t i) const {
  return std::visit([i](const auto& keys) { return Key128{keys[i]}; }, keys_);
}

int64_t KeyVector::bytes() const {
  return std::visit(
      [](const auto& keys) { return static_cast<int64_t>(keys.capacity() * sizeof(keys[0])); },
      keys_);
}

std::vector<uint64_t> KeyVector::RowsInRange(Key128 begin, Key128 end) const {
  std::vector<uint64_t> rows;
  std::visit(
      [&](const auto& keys) {
        for (size_t i = 0; i < keys.size(); ++i) {
          if (keys[i] >= begin && (end == 0 || keys[i] < end)) rows.push_back(i);
        }
      },
      keys_);
  return rows;
}

void KeyVector::Select(const std::vector<uint64_t>& rows) {
  std::visit(
      [&](auto& keys) {
        std::decay_t<decltype(keys)> kept(rows.size());
        for (size_t i = 0; i < rows.size(); ++i) kept[i] = keys[rows[i]];
        keys = std::move(kept);
      },
      keys_);
}

KeyRanges::KeyRanges(std::vector<Key128> borders, int key_bits) : borders_(std::move(borders)) {
  int index_bits = 4;
  while (index_bits < 16 && (size_t{1} << index_bits) < borders_.size()) ++index_bits;
  index_bits = std::min(index_bits, key_bits);
  shift_ = key_bits - index_bits;
  if (key_bits <= 64) narrow_borders_.assign(borders_.begin(), borders_.end());
  starts_.resize((size_t{1} << index_bits) + 1);
  size_t i = 0;
  for (size_t cell = 0; cell < starts_.size(); ++cell) {
    while (i < borders_.size() && static_cast<size_t>(borders_[i] >> shift_) < cell) ++i;
    starts_[cell] = static_cast<uint32_t>(i);
  }
}

void KeyRanges::Find(const KeyVector& keys, uint32_t* out) const {
  if (const auto* narrow = std::get_if<std::vector<Key64>>(&keys.keys())) {
    for (size_t i = 0; i < narrow->size(); ++i) {
      out[i] = FindRange<Key64>(narrow_borders_, starts_, shift_, (*narrow)[i]);
    }
  } else {
    const auto& wide = std::get<std::vector<Key128>>(keys.keys());
    for (size_t i = 0; i < wide.size(); ++i) {
      out[i] = FindRange<Key128>(borders_, starts_, shift_, wide[i]);
    }
  }
}

KeyRows::KeyRows(bool wide) {
  if (wide) rows_ = std::vector<KeyRow128>();
}

void KeyRows::Resize(int64_t rows) {
  std::visit([rows](auto& all) { all.resize(rows); }, rows_);
}

void KeyRows::Reserve(int64_t rows) {
  std::visit([rows](auto& all) { all.reserve(rows); }, rows_);
}

int64_t KeyRows::size() const {
  return std::visit([](const auto& all) { return static_cast<int64_t>(all.size()); }, rows_);
}

Key128 KeyRows::key(int64_t i) const {
  return std::visit([i](const auto& all) { return Key128{all[i].key}; }, rows_);
}

uint64_t KeyRows::row(int64_t i) const {
  return std::visit([i](const auto& all) { return all[i].row; }, rows_);
}

void KeyRows::Append(const KeyVector& keys, uint32_t batch) {
  std::visit(
      [&](const auto& from, auto& all) {
        using Row = typename std::decay_t<decltype(all)>::value_type;
        using Key = typename std::decay_t<decltype(from)>::value_type;
        if constexpr (std::is_same_v<decltype(Row::key), Key>) {
          const size_t before = all.size();
          all.resize(before + from.size());
          for (size_t i = 0; i < from.size(); ++i) {
            all[before + i].key = from[i];
            all[before + i].row = RowAddress(batch, i);
          }
        }
      },
      keys.keys(), rows_);
}

void KeyRows::Place(const KeyVector& keys, uint32_t batch, const uint32_t* ranges,
                    int64_t* cursors) {
  std::visit(
      [&](const auto& from, auto& all) {
        using Row = typename std::decay_t<decltype(all)>::value_type;
        using Key = typename std::decay_t<decltype(from)>::value_type;
        if constexpr (std::is_same_v<decltype(Row::key), Key>) {
          for (size_t i = 0; i < from.size(); ++i) {
            Row& row = all[cursors[ranges[i]]++];
            row.key = from[i];
            row.row = RowAddress(batch, i);
          }
        }
      },
      keys.keys(), rows_);
}

void KeyRows::Sort(int64_t begin, int64_t end) {
  std::visit([&](auto& all) { SortKeyRows(all.data() + begin, end - begin); }, rows_);
}

bool KeyRows::AllEqual() const {
  return std::visit(
      [](const auto& all) {
        return std::all_of(all.begin(), all.end(),
                           [&](const auto& row) { return row.key == all.front().key; });
      },
      rows_);
}

void KeyRows::CopyRows(int64_t begin, int64_t end, uint64_t* out) const {
  std::visit(
      [&](const auto& all) {
        for (int64_t i = begin; i < end; ++i) out[i - begin] = all[i].row;
      },
      rows_);
}

}  // namespace thalweg
