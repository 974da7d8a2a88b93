#include "sort/spilled_rows.h"

#include <algorithm>

#include "sort/curve_profile.h"
#include "sort/parallel.h"

namespace thalweg {
namespace {

constexpr int64_t kMaxPieceBytes = int64_t{16} << 20;
constexpr int64_t kMinPieceBytes = int64_t{64} << 10;
constexpr int64_t kPieceBytesPerColumn =
    2048;  // an IPC message describes each column in about 100 bytes
constexpr int64_t kSplitSample = 65536;

}  // namespace

int MaxFanOut(int64_t held_bytes, int columns) {
  const int64_t piece = std::max(kMinPieceBytes, kPieceBytesPerColumn * columns);
  return static_cast<int>(std::clamp<int64_t>(held_bytes / piece, 4, 8192));
}

SpilledRows::SpilledRows(SortContext& context, const KeyEncoder& encoder,
                         std::vector<int> key_columns, std::shared_ptr<arrow::Schema> schema,
                         std::shared_ptr<SpillFile> file, KeyRanges ranges, int64_t load_bytes)
    : context_(context),
      encoder_(encoder),
      key_columns_(std::move(key_columns)),
      schema_(std::move(schema)),
      file_(std::move(file)),
      ranges_(std::move(ranges)),
      load_bytes_(load_bytes),
      piece_bytes_(std::min(load_bytes / 2, kMaxPieceBytes)),
      partitions_(ranges_.size()) {
  for (int p = 0; p + 1 < ranges_.size(); ++p) {
    partitions_[p].sorted = ranges_.border(p) + 1 == ranges_.border(p + 1);
  }
}

arrow::Status SpilledRows::Partition::Add(const arrow::RecordBatch& batch, SpillExtent extent) {
  pieces.push_back({batch.num_rows(), ReferencedBytes(batch), extent});
  rows += pieces.back().rows;
  bytes += pieces.back().bytes;
  return arrow::Status::OK();
}

arrow::Status SpilledRows::Scatter(Collector& collector) {
  return collector.Flush(
      ranges_, piece_bytes_,
      [&](int range, const std::shared_ptr<arrow::RecordBatch>& batch) -> arrow::Status {
        ARROW_RETURN_NOT_OK(context_.CheckStop());
        ARROW_ASSIGN_OR_RAISE(SpillExtent extent, file_->Write(*batch));
        std::lock_guard<std::mutex> lock(mutex_);
        return partitions_[range].Add(*batch, extent);
      });
}

arrow::Result<std::vector<Key128>> SpilledRows::SplitBorders(const Partition& partition) {
  std::vector<Key128> sample;
  Key128 smallest = ~Key128{0}, largest = 0;
  const int64_t step = std::max<int64_t>(1, partition.rows / kSplitSample);
  int64_t skip = 0;
  for (const Piece& piece : partition.pieces) {
    ARROW_RETURN_NOT_OK(context_.CheckStop());
    ARROW_ASSIGN_OR_RAISE(auto batch, file_->Read(piece.extent, schema_));
    ARROW_ASSIGN_OR_RAISE(auto keys, KeyVector::Encode(encoder_, *batch, key_columns_));
    for (int64_t i = 0; i < keys.size(); ++i) {
      smallest = std::min(smallest, keys[i]);
      largest = std::max(largest, keys[i]);
      if (skip-- == 0) {
        sample.push_back(keys[i]);
        skip = step - 1;
      }
    }
  }
  if (smallest >= largest) return std::vector<Key128>{0};
  std::sort(sample.begin(), sample.end());
  const int64_t wanted = partition.bytes * 2 / load_bytes_ + 2;
  const int64_t share = context_.memory->limit() / 2 / context_.threads;
  const auto parts = static_cast<int>(
      std::min<int64_t>(wanted, MaxFanOut(share, static_cast<int>(schema_->num_fields()))));
  std::vector<Key128> borders = EvenBorders(sample, parts);
  // Borders outside of what is there would not divide anything.
  std::erase_if(borders, [&](Key128 border) { return border <= smallest || border > largest; });
  if (borders.empty()) {
    int level = 0;
    borders.push_back(CellBorder(smallest, largest, &level));
  }
  borders.insert(borders.begin(), smallest);
  // Closes the last range, so that a range of one key is seen as such.
  if (largest + 1 != 0) borders.push_back(largest + 1);
  return borders;
}

arrow::Status SpilledRows::Split(Partition partition, std::vector<Partition>* out) {
  if (partition.bytes <= load_bytes_ || partition.sorted) {
    if (!partition.sorted || partition.pieces.size() <= 1) {
      if (partition.rows > 0) out->push_back(std::move(partition));
      return arrow::Status::OK();
    }
    for (const Piece& piece : partition.pieces) {  // rows of one key stream through as they came
      Partition one;
      one.rows = piece.rows;
      one.bytes = piece.bytes;
      one.sorted = true;
      one.pieces.push_back(piece);
      out->push_back(std::move(one));
    }
    return arrow::Status::OK();
  }
  ARROW_ASSIGN_OR_RAISE(std::vector<Key128> borders, SplitBorders(partition));
  if (borders.size() == 1) {
    partition.sorted = true;
    return Split(std::move(partition), out);
  }
  std::vector<Partition> parts(borders.size());
  for (size_t p = 0; p + 1 < borders.size(); ++p) {
    parts[p].sorted = borders[p] + 1 == borders[p + 1];
  }
  const KeyRanges ranges(std::move(borders), encoder_.key_bits());
  Collector collector(schema_, context_.memory);
  auto flush = [&] {
    return collector.Flush(ranges, piece_bytes_,
                           [&](int range, const std::shared_ptr<arrow::RecordBatch>& batch) {
                             ARROW_ASSIGN_OR_RAISE(SpillExtent extent, file_->Write(*batch));
                             return parts[range].Add(*batch, extent);
                           });
  };
  const int64_t share = context_.memory->limit() / 2 / context_.threads;
  for (Piece& piece : partition.pieces) {
    ARROW_RETURN_NOT_OK(context_.CheckStop());
    ARROW_ASSIGN_OR_RAISE(auto batch, file_->Read(piece.extent, schema_));
    file_->Release(piece.extent);
    ARROW_ASSIGN_OR_RAISE(auto keys, KeyVector::Encode(encoder_, *batch, key_columns_));
    ARROW_ASSIGN_OR_RAISE(auto weights, RowWeights(*batch));
    const int64_t heaviest = *std::max_element(weights.begin(), weights.end());
    ARROW_RETURN_NOT_OK(collector.Add(std::move(batch), std::move(keys), heaviest));
    if (collector.bytes() >= share) ARROW_RETURN_NOT_OK(flush());
  }
  ARROW_RETURN_NOT_OK(flush());
  for (Partition& part : parts) ARROW_RETURN_NOT_OK(Split(std::move(part), out));
  return arrow::Status::OK();
}

arrow::Status SpilledRows::Finish() {
  std::vector<std::vector<Partition>> split(partitions_.size());
  ARROW_RETURN_NOT_OK(
      ParallelFor(context_.threads, static_cast<int64_t>(split.size()),
                  [&](int64_t p) { return Split(std::move(partitions_[p]), &split[p]); }));
  partitions_.clear();
  for (auto& parts : split) {
    for (Partition& part : parts) {
      first_row_.push_back(first_row_.back() + part.rows);
      partitions_.push_back(std::move(part));
    }
  }
  return arrow::Status::OK();
}

arrow::Result<std::shared_ptr<const LoadedRows>> SpilledRows::Load(int index) {
  const Partition& partition = partitions_[index];
  auto loaded = std::make_shared<LoadedRows>();
  loaded->held = Reservation(
      context_.memory, partition.bytes + partition.rows * KeyRows::BytesPerRow(encoder_.wide()));
  auto gatherer = std::make_shared<RowGatherer>(schema_);
  auto rows = std::make_shared<KeyRows>(encoder_.wide());
  rows->Reserve(partition.rows);
  for (const Piece& piece : partition.pieces) {
    ARROW_ASSIGN_OR_RAISE(auto batch, file_->Read(piece.extent, schema_));
    ARROW_ASSIGN_OR_RAISE(auto keys, KeyVector::Encode(encoder_, *batch, key_columns_));
    ARROW_ASSIGN_OR_RAISE(uint32_t number, gatherer->Add(std::move(batch)));
    rows->Append(keys, number);
  }
  if (!partition.sorted) rows->Sort(0, rows->size());
  loaded->gatherer = std::move(gatherer);
  loaded->rows = std::move(rows);
  return loaded;
}

void SpilledRows::ReleaseBefore(int64_t row) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (; released_ < partitions() && first_row(released_ + 1) <= row; ++released_) {
    for (Piece& piece : partitions_[released_].pieces) file_->Release(piece.extent);
    partitions_[released_].pieces.clear();
  }
}

}  // namespace thalweg
