#include "sort/collector.h"

#include <algorithm>

#include "sort/parallel.h"

namespace thalweg {
namespace {

constexpr int64_t kMaxBatchRows = 65536;

/// Everything in memory: one array of keys and rows over the batches as they were read.
class MemoryRows : public SortedRows {
 public:
  MemoryRows(std::shared_ptr<const RowGatherer> gatherer, std::shared_ptr<const KeyRows> rows,
             std::vector<int64_t> first_row, std::vector<Reservation> held)
      : gatherer_(std::move(gatherer)), rows_(std::move(rows)), held_(std::move(held)) {
    first_row_ = std::move(first_row);
  }
  arrow::Result<std::shared_ptr<const LoadedRows>> Load(int partition) override {
    auto loaded = std::make_shared<LoadedRows>();
    loaded->gatherer = gatherer_;
    loaded->rows = rows_;
    loaded->begin = first_row(partition);
    return loaded;
  }
  void ReleaseBefore(int64_t) override {}  // rows of all batches are spread over the whole curve

 private:
  std::shared_ptr<const RowGatherer> gatherer_;
  std::shared_ptr<const KeyRows> rows_;
  std::vector<Reservation> held_;
};

}  // namespace

int SortedRows::PartitionOf(int64_t row) const {
  auto after = std::upper_bound(first_row_.begin(), first_row_.end(), row);
  return static_cast<int>(after - first_row_.begin()) - 1;
}

int64_t BatchRows(const RowGatherer& gatherer, const uint64_t* addresses, int64_t n,
                  int64_t max_bytes, int64_t mean_row, int64_t heaviest_row) {
  const int64_t rows = std::min(
      {n, kMaxBatchRows, std::max<int64_t>(1, max_bytes / std::max<int64_t>(1, mean_row))});
  if (rows * heaviest_row <= 8 * max_bytes) return rows;
  return gatherer.RowsWithin(addresses, rows, max_bytes);
}

arrow::Status Collector::Add(std::shared_ptr<arrow::RecordBatch> batch, KeyVector keys,
                             int64_t heaviest_row) {
  const bool wide = std::holds_alternative<std::vector<Key128>>(keys.keys());
  const int64_t bytes =
      ReferencedBytes(*batch) + keys.bytes() + batch->num_rows() * KeyRows::BytesPerRow(wide);
  held_.emplace_back(memory_, bytes);
  bytes_ += bytes;
  rows_ += batch->num_rows();
  heaviest_row_ = std::max(heaviest_row_, heaviest_row);
  keys_.push_back(std::move(keys));
  return gatherer_.Add(std::move(batch)).status();
}

void Collector::Clear() {
  gatherer_ = RowGatherer(schema_);
  keys_.clear();
  held_.clear();
  bytes_ = 0;
  rows_ = 0;
}

arrow::Status Collector::Flush(const KeyRanges& ranges, int64_t piece_bytes, const Piece& piece) {
  if (rows_ == 0) return arrow::Status::OK();
  std::vector<int64_t> begins(ranges.size() + 1, 0);
  std::vector<std::vector<uint32_t>> of_row(keys_.size());
  for (size_t b = 0; b < keys_.size(); ++b) {
    of_row[b].resize(keys_[b].size());
    ranges.Find(keys_[b], of_row[b].data());
    for (uint32_t range : of_row[b]) ++begins[range + 1];
  }
  for (int range = 0; range < ranges.size(); ++range) begins[range + 1] += begins[range];
  std::vector<uint64_t> addresses(rows_);
  std::vector<int64_t> cursors(begins.begin(), begins.end() - 1);
  for (size_t b = 0; b < of_row.size(); ++b) {
    for (size_t i = 0; i < of_row[b].size(); ++i) {
      addresses[cursors[of_row[b][i]]++] = RowAddress(b, i);
    }
  }
  of_row.clear();
  keys_.clear();
  const int64_t mean_row = bytes_ / rows_;
  for (int range = 0; range < ranges.size(); ++range) {
    for (int64_t at = begins[range]; at < begins[range + 1];) {
      int64_t n = BatchRows(gatherer_, &addresses[at], begins[range + 1] - at, piece_bytes,
                            mean_row, heaviest_row_);
      auto batch = gatherer_.Gather(&addresses[at], n);
      while (batch.status().IsCapacityError() && n > 1) {
        n /= 2;
        batch = gatherer_.Gather(&addresses[at], n);
      }
      ARROW_RETURN_NOT_OK(batch.status());
      ARROW_RETURN_NOT_OK(piece(range, batch.MoveValueUnsafe()));
      at += n;
    }
  }
  Clear();
  return arrow::Status::OK();
}

arrow::Result<std::unique_ptr<SortedRows>> Collector::Sort(std::vector<Collector>& collectors,
                                                           const KeyRanges& ranges, bool wide,
                                                           int threads) {
  auto gatherer = std::make_shared<RowGatherer>(collectors.front().schema_);
  std::vector<KeyVector> keys;
  std::vector<Reservation> held;
  for (Collector& collector : collectors) {
    for (const auto& batch : collector.gatherer_.batches()) {
      ARROW_RETURN_NOT_OK(gatherer->Add(batch).status());
    }
    for (KeyVector& one : collector.keys_) keys.push_back(std::move(one));
    for (Reservation& one : collector.held_) held.push_back(std::move(one));
    collector.Clear();
  }
  const auto batches = static_cast<int64_t>(keys.size());
  // Where each batch's rows of each range go: ranges in order, within one the batches in order.
  std::vector<std::vector<int64_t>> cursors(batches, std::vector<int64_t>(ranges.size(), 0));
  ARROW_RETURN_NOT_OK(ParallelFor(threads, batches, [&](int64_t b) {
    std::vector<uint32_t> of_row(keys[b].size());
    ranges.Find(keys[b], of_row.data());
    for (uint32_t range : of_row) ++cursors[b][range];
    return arrow::Status::OK();
  }));
  std::vector<int64_t> first_row{0};
  int64_t total = 0;
  for (int range = 0; range < ranges.size(); ++range) {
    for (int64_t b = 0; b < batches; ++b) {
      const int64_t here = cursors[b][range];
      cursors[b][range] = total;
      total += here;
    }
    first_row.push_back(total);
  }
  auto rows = std::make_shared<KeyRows>(wide);
  rows->Resize(total);
  ARROW_RETURN_NOT_OK(ParallelFor(threads, batches, [&](int64_t b) {
    std::vector<uint32_t> of_row(keys[b].size());
    ranges.Find(keys[b], of_row.data());
    rows->Place(keys[b], static_cast<uint32_t>(b), of_row.data(), cursors[b].data());
    keys[b] = KeyVector();
    return arrow::Status::OK();
  }));
  ARROW_RETURN_NOT_OK(ParallelFor(threads, ranges.size(), [&](int64_t range) {
    rows->Sort(first_row[range], first_row[range + 1]);
    return arrow::Status::OK();
  }));
  return std::make_unique<MemoryRows>(std::move(gatherer), std::move(rows), std::move(first_row),
                                      std::move(held));
}

}  // namespace thalweg
