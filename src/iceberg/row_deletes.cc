#include "iceberg/row_deletes.h"

#include <arrow/buffer_builder.h>
#include <arrow/compute/api.h>
#include <arrow/util/byte_size.h>

#include <algorithm>
#include <optional>

#include "iceberg/delete_index.h"
#include "iceberg/deletion_vector.h"
#include "iceberg/equality_deletes.h"
#include "iceberg/position_deletes.h"
#include "sort/parallel.h"
#include "util/status.h"

namespace thalweg::iceberg {
namespace {

constexpr int64_t kLeastTableBytes = int64_t{16} << 20;
constexpr int64_t kTableBytes = int64_t{256} << 20;

int64_t TableBytes(const RowDeleteOptions& options, const MemoryAccount* memory) {
  if (options.table_bytes > 0) return options.table_bytes;
  if (memory == nullptr) return kTableBytes;
  return std::max(kLeastTableBytes, -memory->over() / 2);
}

/// Adds the positions of deletion vectors; true at those files that have one.
arrow::Result<std::vector<bool>> AddDeletionVectors(const FileIO& io, const DeleteIndex& index,
                                                    const std::vector<LiveFile>& delete_files,
                                                    DeletedPositions* positions,
                                                    MemoryAccount* memory,
                                                    const RowDeleteOptions& options) {
  std::vector<bool> vectors(positions->size());
  std::vector<std::pair<size_t, size_t>> found;  // data file, delete file
  for (size_t i = 0; i < positions->size(); ++i) {
    const LiveFile& data = positions->file(i);
    ARROW_ASSIGN_OR_RAISE(const auto vector,
                          index.DeletionVectorOf(data.file.file_path, data.sequence_number));
    if (!vector) continue;
    vectors[i] = true;
    found.emplace_back(i, *vector);
  }
  ARROW_RETURN_NOT_OK(ParallelFor(
      options.threads, static_cast<int64_t>(found.size()), [&](int64_t i) -> arrow::Status {
        ARROW_RETURN_NOT_OK(options.stop.Poll());
        const auto [data, vector] = found[static_cast<size_t>(i)];
        ARROW_ASSIGN_OR_RAISE(Roaring rows,
                              ReadDeletionVector(io, delete_files[vector].file,
                                                 positions->file(data).file.record_count, memory));
        positions->Add(data, std::move(rows));
        return arrow::Status::OK();
      }));
  return vectors;
}

arrow::Status AddPositionDeletes(const FileIO& io, const DeleteIndex& index,
                                 const std::vector<LiveFile>& delete_files,
                                 const std::vector<bool>& with_vector, DeletedPositions* positions,
                                 MemoryAccount* memory, const RowDeleteOptions& options) {
  std::vector<bool> wanted(positions->size());
  std::vector<DeleteTargets::Target> targets;
  for (size_t i = 0; i < positions->size(); ++i) {
    wanted[i] = !with_vector[i];
    const LiveFile& data = positions->file(i);
    if (wanted[i]) targets.push_back({data.file.file_path, data.sequence_number});
  }
  const DeleteTargets may_be_hit(std::move(targets));
  std::vector<const LiveFile*> needed;
  for (size_t i : index.positions()) {
    if (may_be_hit.MayBeHit(index.scope(i), delete_files[i].sequence_number)) {
      needed.push_back(&delete_files[i]);
    }
  }
  return ParallelFor(options.threads, static_cast<int64_t>(needed.size()),
                     [&](int64_t i) -> arrow::Status {
                       ARROW_RETURN_NOT_OK(options.stop.Poll());
                       return ReadPositionDeletes(io, *needed[static_cast<size_t>(i)], wanted,
                                                  positions, memory, options.stop);
                     });
}

class FilteredStream : public RowStream {
 public:
  FilteredStream(std::unique_ptr<RowStream> stream, std::shared_ptr<const DeletedPositions> deleted,
                 MemoryAccount* memory)
      : stream_(std::move(stream)), deleted_(std::move(deleted)), memory_(memory) {}

  arrow::Result<std::optional<RowBatch>> Next() override {
    held_.Reset();
    for (;;) {
      ARROW_ASSIGN_OR_RAISE(auto batch, stream_->Next());
      if (!batch) return std::nullopt;
      if (batch->addresses) return Invalid("rows are missing before deletes are applied");
      const uint64_t file = batch->first_address >> 32;
      const auto begin = static_cast<uint32_t>(batch->first_address);
      const int64_t rows = batch->batch->num_rows();
      if (file >= deleted_->size() || begin + static_cast<uint64_t>(rows) > uint64_t{1} << 32) {
        return Invalid("address {:#x} is none of the scanned files'", batch->first_address);
      }
      const Roaring& positions = deleted_->positions(file);
      const auto gone = static_cast<int64_t>(roaring_bitmap_range_cardinality(
          &positions.roaring, begin, begin + static_cast<uint64_t>(rows)));
      if (gone == 0) return batch;
      if (gone == rows) continue;
      return Remaining(*batch, positions, rows - gone);
    }
  }

 private:
  arrow::Result<std::optional<RowBatch>> Remaining(const RowBatch& batch, const Roaring& positions,
                                                   int64_t count) {
    ARROW_ASSIGN_OR_RAISE(auto indices, arrow::AllocateBuffer(count * 4));
    ARROW_ASSIGN_OR_RAISE(auto addresses, arrow::AllocateBuffer(count * 8));
    auto* index = reinterpret_cast<int32_t*>(indices->mutable_data());
    auto* address = reinterpret_cast<uint64_t*>(addresses->mutable_data());
    const auto begin = static_cast<uint32_t>(batch.first_address);
    const int64_t rows = batch.batch->num_rows();
    std::vector<uint32_t> deleted(static_cast<size_t>(rows - count));
    roaring_uint32_iterator_t at;
    roaring_init_iterator(&positions.roaring, &at);
    roaring_move_uint32_iterator_equalorlarger(&at, begin);
    roaring_read_uint32_iterator(&at, deleted.data(), static_cast<uint32_t>(deleted.size()));
    size_t next = 0;
    int64_t kept = 0;
    for (int64_t row = 0; row < rows; ++row) {
      if (next < deleted.size() && deleted[next] - begin == static_cast<uint64_t>(row)) {
        ++next;
        continue;
      }
      if (kept == count) return Invalid("the positions of deleted rows changed");
      index[kept] = static_cast<int32_t>(row);
      address[kept] = batch.first_address + static_cast<uint64_t>(row);
      ++kept;
    }
    const auto selection = std::make_shared<arrow::Int32Array>(
        count, std::shared_ptr<arrow::Buffer>(std::move(indices)));
    RowBatch result;
    arrow::ArrayVector columns;
    for (const auto& column : batch.batch->columns()) {
      ARROW_ASSIGN_OR_RAISE(
          auto taken,
          arrow::compute::Take(*column, *selection, arrow::compute::TakeOptions::NoBoundsCheck()));
      columns.push_back(std::move(taken));
    }
    result.batch = arrow::RecordBatch::Make(batch.batch->schema(), count, std::move(columns));
    result.first_address = address[0];
    result.addresses = std::make_shared<arrow::UInt64Array>(
        count, std::shared_ptr<arrow::Buffer>(std::move(addresses)));
    held_ = Reservation(memory_, arrow::util::TotalBufferSize(*result.batch) + count * 8);
    return result;
  }

  const std::unique_ptr<RowStream> stream_;
  const std::shared_ptr<const DeletedPositions> deleted_;
  MemoryAccount* const memory_;
  Reservation held_;
};

class FilteredSource : public RowSource {
 public:
  FilteredSource(std::unique_ptr<RowSource> source, std::shared_ptr<const DeletedPositions> deleted,
                 MemoryAccount* memory)
      : source_(std::move(source)), deleted_(std::move(deleted)), memory_(memory) {}

  const std::shared_ptr<arrow::Schema>& schema() const override { return source_->schema(); }
  int num_parts() const override { return source_->num_parts(); }
  int64_t num_rows() const override { return source_->num_rows() - deleted_->deleted_rows(); }
  /// The live rows' share.
  int64_t encoded_bytes() const override {
    const int64_t all = source_->encoded_bytes(), rows = source_->num_rows();
    if (all < 0 || rows <= 0) return all;
    return static_cast<int64_t>(static_cast<double>(all) * static_cast<double>(num_rows()) /
                                static_cast<double>(rows));
  }
  bool rereadable() const override { return source_->rereadable(); }
  std::string part_name(int part) const override { return source_->part_name(part); }

  arrow::Result<std::unique_ptr<RowStream>> OpenPart(int part,
                                                     const std::vector<int>& columns) override {
    ARROW_ASSIGN_OR_RAISE(auto stream, source_->OpenPart(part, columns));
    return std::make_unique<FilteredStream>(std::move(stream), deleted_, memory_);
  }

 private:
  const std::unique_ptr<RowSource> source_;
  const std::shared_ptr<const DeletedPositions> deleted_;
  MemoryAccount* const memory_;
};

}  // namespace

arrow::Result<std::shared_ptr<const DeletedPositions>> LoadRowDeletes(
    const std::shared_ptr<FileIO>& io, const TableMetadata& metadata,
    std::vector<LiveFile> data_files, const std::vector<LiveFile>& delete_files,
    MemoryAccount* memory, const RowDeleteOptions& options) {
  ARROW_ASSIGN_OR_RAISE(auto positions, DeletedPositions::Make(std::move(data_files), memory));
  ARROW_ASSIGN_OR_RAISE(const DeleteIndex index, DeleteIndex::Make(delete_files));
  ARROW_ASSIGN_OR_RAISE(
      const auto with_vector,
      AddDeletionVectors(*io, index, delete_files, positions.get(), memory, options));
  ARROW_RETURN_NOT_OK(
      AddPositionDeletes(*io, index, delete_files, with_vector, positions.get(), memory, options));
  if (!index.equality().empty()) {
    ARROW_ASSIGN_OR_RAISE(const Schema current, metadata.CurrentSchema());
    ARROW_ASSIGN_OR_RAISE(const auto schemas, metadata.Schemas());
    std::vector<const LiveFile*> equality;
    for (size_t i : index.equality()) equality.push_back(&delete_files[i]);
    EqualityDeleteOptions equality_options;
    equality_options.threads = options.threads;
    equality_options.stop = options.stop;
    ARROW_ASSIGN_OR_RAISE(equality_options.name_mapping,
                          NameMapping::FromProperties(metadata.properties()));
    equality_options.table_bytes = TableBytes(options, memory);
    ARROW_RETURN_NOT_OK(ApplyEqualityDeletes(io, current, schemas, equality, positions.get(),
                                             memory, equality_options));
  }
  positions->Finish();
  return positions;
}

std::unique_ptr<RowSource> FilterDeletedRows(std::unique_ptr<RowSource> source,
                                             std::shared_ptr<const DeletedPositions> deleted,
                                             MemoryAccount* memory) {
  if (deleted->deleted_rows() == 0) return source;
  return std::make_unique<FilteredSource>(std::move(source), std::move(deleted), memory);
}

}  // namespace thalweg::iceberg
