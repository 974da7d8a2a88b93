#include "sort/spool.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "sort/cluster_sort.h"
#include "sort/gather.h"
#include "sort/sort_context.h"
#include "util/status.h"

namespace thalweg {
namespace {

constexpr int64_t kPartRows = int64_t{1} << 18;
constexpr int64_t kMaxExtentBytes = int64_t{16} << 20;

/// One batch of the spool, in memory or on disk.
struct SpooledBatch {
  std::shared_ptr<arrow::RecordBatch> batch;  // null: on disk, or given up
  SpillExtent extent;
  Reservation held;
  int64_t rows = 0;
  uint64_t first_address = 0;
  std::shared_ptr<arrow::UInt64Array> addresses;
};

class SpooledSource : public RowSource {
 public:
  SpooledSource(std::shared_ptr<arrow::Schema> schema, int64_t encoded_bytes)
      : schema_(std::move(schema)), encoded_bytes_(encoded_bytes) {}

  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  int num_parts() const override { return static_cast<int>(part_begins_.size()) - 1; }
  int64_t num_rows() const override { return rows_; }
  int64_t encoded_bytes() const override { return encoded_bytes_; }
  arrow::Result<std::unique_ptr<RowStream>> OpenPart(int part,
                                                     const std::vector<int>& columns) override;

  arrow::Status Add(SortContext& context, const RowBatch& input);
  void Finish();

  std::shared_ptr<SpillFile> spill() const { return spill_; }
  void set_release_as_read() { release_as_read_ = true; }

 private:
  friend class SpooledStream;
  arrow::Status Spill(SortContext& context);

  const std::shared_ptr<arrow::Schema> schema_;
  const int64_t encoded_bytes_;
  int64_t rows_ = 0;
  int64_t held_ = 0;
  size_t in_memory_from_ = 0;
  std::vector<SpooledBatch> batches_;
  std::vector<size_t> part_begins_;
  std::shared_ptr<SpillFile> spill_;
  std::atomic<bool> release_as_read_{false};
};

class SpooledStream : public RowStream {
 public:
  SpooledStream(SpooledSource& source, size_t begin, size_t end, std::vector<int> columns)
      : source_(source), at_(begin), end_(end), columns_(std::move(columns)) {}

  arrow::Result<std::optional<RowBatch>> Next() override {
    if (at_ == end_) return std::nullopt;
    SpooledBatch& from = source_.batches_[at_++];
    RowBatch out;
    out.first_address = from.first_address;
    out.addresses = from.addresses;
    const bool on_disk = from.batch == nullptr;
    std::shared_ptr<arrow::RecordBatch> batch = from.batch;
    if (on_disk) {
      if (from.extent.bytes == 0) return Invalid("the spooled stream was already consumed");
      ARROW_ASSIGN_OR_RAISE(batch, source_.spill_->Read(from.extent, source_.schema_));
    }
    ARROW_ASSIGN_OR_RAISE(out.batch, batch->SelectColumns(columns_));
    const bool all = static_cast<int>(columns_.size()) == source_.schema_->num_fields();
    if (source_.release_as_read_ && all) {
      if (on_disk) source_.spill_->Release(from.extent);
      from = SpooledBatch();
    }
    return out;
  }

 private:
  SpooledSource& source_;
  size_t at_;
  const size_t end_;
  const std::vector<int> columns_;
};

arrow::Result<std::unique_ptr<RowStream>> SpooledSource::OpenPart(int part,
                                                                  const std::vector<int>& columns) {
  return std::make_unique<SpooledStream>(*this, part_begins_[part], part_begins_[part + 1],
                                         columns);
}

arrow::Status SpooledSource::Spill(SortContext& context) {
  if (!spill_) {
    ARROW_ASSIGN_OR_RAISE(
        spill_, SpillFile::Make(context.options.spill_dir, context.options.max_spill_bytes));
  }
  for (; in_memory_from_ < batches_.size(); ++in_memory_from_) {
    ARROW_RETURN_NOT_OK(context.CheckStop());
    SpooledBatch& batch = batches_[in_memory_from_];
    ARROW_ASSIGN_OR_RAISE(batch.extent, spill_->Write(*batch.batch));
    batch.batch = nullptr;
    batch.held.Reset();
  }
  held_ = 0;
  return arrow::Status::OK();
}

arrow::Status SpooledSource::Add(SortContext& context, const RowBatch& input) {
  // Large batches are cut, so that each can be read back within the budget.
  const int64_t total = ReferencedBytes(*input.batch);
  const int64_t limit = context.memory->limit();
  const int64_t extent_bytes = std::clamp(limit / 32, int64_t{1} << 16, kMaxExtentBytes);
  const int64_t rows = input.batch->num_rows();
  const int64_t pieces = std::min(rows, total / extent_bytes + 1);
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const int64_t begin = rows * piece / pieces, end = rows * (piece + 1) / pieces;
    SpooledBatch batch;
    batch.batch = input.batch->Slice(begin, end - begin);
    batch.rows = end - begin;
    batch.first_address = input.first_address + static_cast<uint64_t>(begin);
    if (input.addresses) {
      batch.addresses =
          std::static_pointer_cast<arrow::UInt64Array>(input.addresses->Slice(begin, end - begin));
    }
    const int64_t bytes = ReferencedBytes(*batch.batch);
    batch.held = Reservation(context.memory, bytes);
    held_ += bytes;
    rows_ += batch.rows;
    batches_.push_back(std::move(batch));
  }
  // What stays in memory here is handed on to the sort, which needs room of its own.
  const bool full = held_ > limit / 4 || (context.memory->over() > -limit / 4 && held_ > limit / 8);
  return full ? Spill(context) : arrow::Status::OK();
}

void SpooledSource::Finish() {
  part_begins_ = {0};
  int64_t rows = 0;
  for (size_t i = 0; i < batches_.size(); ++i) {
    rows += batches_[i].rows;
    if (rows >= kPartRows || i + 1 == batches_.size()) {
      part_begins_.push_back(i + 1);
      rows = 0;
    }
  }
}

}  // namespace

std::shared_ptr<SpillFile> SpillOf(RowSource& source) {
  auto* spooled = dynamic_cast<SpooledSource*>(&source);
  return spooled == nullptr ? nullptr : spooled->spill();
}

void ReleaseAsRead(RowSource& source) {
  if (auto* spooled = dynamic_cast<SpooledSource*>(&source)) spooled->set_release_as_read();
}

arrow::Result<std::unique_ptr<RowSource>> SpoolStream(std::unique_ptr<RowSource> one_shot,
                                                      const ClusterSortOptions& options) {
  SortContext context(options);
  std::vector<int> columns(one_shot->schema()->num_fields());
  for (size_t c = 0; c < columns.size(); ++c) columns[c] = static_cast<int>(c);
  auto spooled = std::make_unique<SpooledSource>(one_shot->schema(), one_shot->encoded_bytes());
  for (int part = 0; part < one_shot->num_parts(); ++part) {
    ARROW_ASSIGN_OR_RAISE(auto stream, one_shot->OpenPart(part, columns));
    while (true) {
      ARROW_RETURN_NOT_OK(context.CheckStop());
      ARROW_ASSIGN_OR_RAISE(auto batch, stream->Next());
      if (!batch) break;
      ARROW_RETURN_NOT_OK(spooled->Add(context, *batch));
    }
  }
  spooled->Finish();
  return spooled;
}

}  // namespace thalweg
