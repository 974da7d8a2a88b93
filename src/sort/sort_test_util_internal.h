#pragma once

#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <arrow/io/memory.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>
#include <parquet/properties.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "sort/cluster_sort.h"

#define ASSERT_OK(expression)                                               \
  do {                                                                      \
    const ::arrow::Status status_ = (expression);                           \
    ASSERT_TRUE(status_.ok()) << #expression << ": " << status_.ToString(); \
  } while (false)

namespace thalweg {

/// The batches of a table as a source with one part per `batches_per_part` batches. Row addresses
/// run over the whole table.
class TableSource : public RowSource {
 public:
  TableSource(std::shared_ptr<arrow::Table> table, int64_t batch_rows, int batches_per_part = 4,
              int64_t encoded_bytes = -1)
      : table_(std::move(table)), encoded_bytes_(encoded_bytes), per_part_(batches_per_part) {
    arrow::TableBatchReader reader(*table_);
    reader.set_chunksize(batch_rows);
    std::shared_ptr<arrow::RecordBatch> batch;
    while (reader.ReadNext(&batch).ok() && batch) batches_.push_back(batch);
  }
  const std::shared_ptr<arrow::Schema>& schema() const override { return table_->schema(); }
  int num_parts() const override {
    return (static_cast<int>(batches_.size()) + per_part_ - 1) / per_part_;
  }
  int64_t num_rows() const override { return table_->num_rows(); }
  int64_t encoded_bytes() const override { return encoded_bytes_; }
  arrow::Result<std::unique_ptr<RowStream>> OpenPart(int part,
                                                     const std::vector<int>& columns) override;
  bool rereadable() const override { return rereadable_; }

  bool rereadable_ = true;
  int64_t fail_after_batches_ = -1;  // counted over all parts and passes
  std::atomic<int64_t> batches_read_{0};

 private:
  friend class TableStream;
  std::shared_ptr<arrow::Table> table_;
  int64_t encoded_bytes_;
  int per_part_;
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches_;
};

class TableStream : public RowStream {
 public:
  TableStream(TableSource& source, int part, std::vector<int> columns)
      : source_(source),
        at_(static_cast<size_t>(part) * source.per_part_),
        end_(std::min(source.batches_.size(), at_ + source.per_part_)),
        columns_(std::move(columns)) {
    for (size_t i = 0; i < at_; ++i) address_ += source.batches_[i]->num_rows();
  }
  arrow::Result<std::optional<RowBatch>> Next() override {
    if (at_ == end_) return std::nullopt;
    if (source_.batches_read_++ == source_.fail_after_batches_) {
      return arrow::Status::IOError("the source broke");
    }
    RowBatch out;
    ARROW_ASSIGN_OR_RAISE(out.batch, source_.batches_[at_++]->SelectColumns(columns_));
    out.first_address = address_;
    address_ += out.batch->num_rows();
    return out;
  }

 private:
  TableSource& source_;
  size_t at_, end_;
  std::vector<int> columns_;
  uint64_t address_ = 0;
};

inline arrow::Result<std::unique_ptr<RowStream>> TableSource::OpenPart(
    int part, const std::vector<int>& columns) {
  return std::make_unique<TableStream>(*this, part, columns);
}

/// Keeps what the writers of a sort were given. Sizes are those of real Parquet files, or come from
/// a function of the batch.
struct FileStore {
  struct File {
    FilePlacement placement;
    std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
    int row_groups = 0;
    int64_t bytes = 0;
    bool finished = false;
    std::atomic<bool> discarded = false;
  };
  using SizeOf = std::function<double(const arrow::RecordBatch&)>;

  explicit FileStore(SizeOf size = nullptr) : size_of(std::move(size)) {}
  SizeOf size_of;
  int64_t fail_after_writes = -1;
  std::atomic<int64_t> writes{0};
  std::mutex mutex;
  std::vector<std::shared_ptr<File>> files;  // in the order in which they were begun

  SortedFileFactory Factory();
  /// Files that were not discarded, by number.
  std::vector<std::shared_ptr<File>> Kept() const {
    std::vector<std::shared_ptr<File>> kept;
    for (const auto& file : files) {
      if (!file->discarded) kept.push_back(file);
    }
    std::sort(kept.begin(), kept.end(),
              [](const auto& a, const auto& b) { return a->placement.file < b->placement.file; });
    return kept;
  }
  std::shared_ptr<arrow::Table> KeptRows(const std::shared_ptr<arrow::Schema>& schema) const {
    std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
    for (const auto& file : Kept()) {
      batches.insert(batches.end(), file->batches.begin(), file->batches.end());
    }
    return arrow::Table::FromRecordBatches(schema, batches).ValueOrDie();
  }
};

class StoreWriter : public SortedFileWriter {
 public:
  StoreWriter(FileStore& store, std::shared_ptr<FileStore::File> file)
      : store_(store), file_(std::move(file)) {}

  arrow::Status Write(const arrow::RecordBatch& batch) override {
    EXPECT_FALSE(file_->finished || file_->discarded);
    if (store_.writes++ == store_.fail_after_writes) return arrow::Status::IOError("disk broke");
    if (store_.size_of) {
      size_ += store_.size_of(batch);
    } else {
      if (!writer_) {
        ARROW_ASSIGN_OR_RAISE(sink_, arrow::io::BufferOutputStream::Create());
        auto properties =
            parquet::WriterProperties::Builder().compression(parquet::Compression::ZSTD)->build();
        ARROW_ASSIGN_OR_RAISE(
            writer_, parquet::arrow::FileWriter::Open(*batch.schema(), arrow::default_memory_pool(),
                                                      sink_, properties));
      }
      ARROW_RETURN_NOT_OK(writer_->WriteRecordBatch(batch));
    }
    file_->batches.push_back(
        arrow::RecordBatch::Make(batch.schema(), batch.num_rows(), batch.columns()));
    return arrow::Status::OK();
  }
  arrow::Status EndRowGroup() override {
    ++file_->row_groups;
    return writer_ ? writer_->NewBufferedRowGroup() : arrow::Status::OK();
  }
  int64_t bytes_estimate() const override { return static_cast<int64_t>(size_); }
  arrow::Result<int64_t> Finish() override {
    EXPECT_FALSE(file_->finished || file_->discarded);
    file_->finished = true;
    file_->bytes = static_cast<int64_t>(size_);
    if (writer_) {
      ARROW_RETURN_NOT_OK(writer_->Close());
      ARROW_ASSIGN_OR_RAISE(file_->bytes, sink_->Tell());
      ARROW_RETURN_NOT_OK(sink_->Close());
    }
    return file_->bytes;
  }
  arrow::Status Discard() override {
    EXPECT_FALSE(file_->discarded);
    file_->discarded = true;
    file_->batches.clear();
    return arrow::Status::OK();
  }

 private:
  FileStore& store_;
  std::shared_ptr<FileStore::File> file_;
  double size_ = 0;
  std::shared_ptr<arrow::io::BufferOutputStream> sink_;
  std::unique_ptr<parquet::arrow::FileWriter> writer_;
};

inline SortedFileFactory FileStore::Factory() {
  return
      [this](const FilePlacement& placement) -> arrow::Result<std::unique_ptr<SortedFileWriter>> {
        auto file = std::make_shared<File>();
        file->placement = placement;
        std::lock_guard<std::mutex> lock(mutex);
        for (const auto& other : files) {
          EXPECT_TRUE(other->discarded || other->placement.file != placement.file)
              << "two files of number " << placement.file;
        }
        files.push_back(file);
        return std::make_unique<StoreWriter>(*this, file);
      };
}

/// The table's rows ordered by its column `id`, in one chunk.
inline std::shared_ptr<arrow::Table> OrderById(const std::shared_ptr<arrow::Table>& table) {
  auto order =
      arrow::compute::SortIndices(arrow::Datum(table->GetColumnByName("id")),
                                  arrow::compute::SortOptions({arrow::compute::SortKey("id")}))
          .ValueOrDie();
  return arrow::compute::Take(arrow::Datum(table), arrow::Datum(order))
      .ValueOrDie()
      .table()
      ->CombineChunks()
      .ValueOrDie();
}

}  // namespace thalweg
