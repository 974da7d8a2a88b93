#include "iceberg/parquet_writer.h"

#include <arrow/compute/initialize.h>
#include <arrow/io/interfaces.h>
#include <arrow/memory_pool.h>
#include <arrow/util/compression.h>
#include <arrow/util/key_value_metadata.h>
#include <parquet/arrow/writer.h>
#include <parquet/file_writer.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "iceberg/metrics.h"
#include "iceberg/parquet_encoding.h"
#include "iceberg/parquet_reader.h"
#include "iceberg/parquet_schema.h"
#include "iceberg/projection.h"
#include "util/status.h"
#include "util/version.h"

namespace thalweg::iceberg {

namespace {

constexpr std::string_view kWriting = "cannot write data file";
/// Rows handed to the encoders at once: between two slices the size of the row group is looked at.
constexpr int64_t kSliceRows = 16 * 1024;
/// What an index and footer entry of one column chunk take, about.
constexpr int64_t kFooterBytesPerChunk = 160;
/// While it is built a dictionary takes about this many times its encoded size: the hash table with
/// its free places, and the indices.
constexpr int64_t kDictionaryOverhead = 8;
/// What the dictionaries of one file may take together at least.
constexpr int64_t kLeastDictionaryMemory = int64_t{32} << 20;

arrow::Compression::type CodecType(const std::string& name) {
  if (name == "zstd") return arrow::Compression::ZSTD;
  if (name == "gzip") return arrow::Compression::GZIP;
  if (name == "snappy") return arrow::Compression::SNAPPY;
  if (name == "lz4") return arrow::Compression::LZ4;
  if (name == "brotli") return arrow::Compression::BROTLI;
  return arrow::Compression::UNCOMPRESSED;
}

/// Passes writes on until it is told to drop them: an abandoned Parquet writer flushes itself while
/// it is destroyed.
class DroppableStream : public arrow::io::OutputStream {
 public:
  explicit DroppableStream(std::shared_ptr<arrow::io::OutputStream> target)
      : target_(std::move(target)) {}
  void Drop() { dropped_ = true; }
  arrow::Status Write(const void* data, int64_t bytes) override {
    if (dropped_) return arrow::Status::Cancelled("the file was discarded");
    ARROW_RETURN_NOT_OK(target_->Write(data, bytes));
    position_ += bytes;
    return arrow::Status::OK();
  }
  using arrow::io::OutputStream::Write;
  arrow::Status Flush() override { return dropped_ ? arrow::Status::OK() : target_->Flush(); }
  arrow::Status Close() override { return target_->Close(); }
  bool closed() const override { return target_->closed(); }
  arrow::Result<int64_t> Tell() const override { return position_; }
  int64_t position() const { return position_; }

 private:
  std::shared_ptr<arrow::io::OutputStream> target_;
  int64_t position_ = 0;
  bool dropped_ = false;
};

/// A Parquet writer whose current row group can be looked at: Arrow's own writer keeps it to
/// itself.
class ObservedContents : public parquet::ParquetFileWriter::Contents {
 public:
  ObservedContents(std::shared_ptr<parquet::schema::GroupNode> schema,
                   std::unique_ptr<parquet::ParquetFileWriter> writer)
      : Contents(std::move(schema), writer->key_value_metadata()), writer_(std::move(writer)) {}

  const parquet::RowGroupWriter* row_group() const { return row_group_; }

  void Close() override {
    row_group_ = nullptr;
    writer_->Close();
    file_metadata_ = writer_->metadata();
  }
  parquet::RowGroupWriter* AppendRowGroup() override {
    return row_group_ = writer_->AppendRowGroup();
  }
  parquet::RowGroupWriter* AppendBufferedRowGroup() override {
    return row_group_ = writer_->AppendBufferedRowGroup();
  }
  int64_t num_rows() const override { return writer_->num_rows(); }
  int num_columns() const override { return writer_->num_columns(); }
  int num_row_groups() const override { return writer_->num_row_groups(); }
  const std::shared_ptr<parquet::WriterProperties>& properties() const override {
    return writer_->properties();
  }
  void AddKeyValueMetadata(
      const std::shared_ptr<const arrow::KeyValueMetadata>& key_value_metadata) override {
    writer_->AddKeyValueMetadata(key_value_metadata);
  }

 private:
  std::unique_ptr<parquet::ParquetFileWriter> writer_;
  parquet::RowGroupWriter* row_group_ = nullptr;
};

class Writer : public ParquetFileWriter {
 public:
  /// `stored`: StoredSchema(schema).
  Writer(std::shared_ptr<FileIO> io, const Schema& schema, const Schema& stored,
         const std::string& location, const ParquetWriteOptions& options)
      : io_(std::move(io)),
        given_(schema),
        schema_(stored),
        projection_(ProjectionOnto(stored.fields, schema.fields)),
        location_(location),
        options_(options),
        pool_(arrow::default_memory_pool()),
        metrics_(schema_, options.metrics, options.clustering_field_ids) {}

  ~Writer() override {
    if (!done_) (void)Writer::Discard();
  }

  arrow::Status Start() {
    ARROW_ASSIGN_OR_RAISE(given_arrow_, given_.ToArrow());
    ARROW_ASSIGN_OR_RAISE(arrow_schema_, schema_.ToArrow());
    ARROW_ASSIGN_OR_RAISE(auto target, io_->Create(location_));
    created_ = true;
    sink_ = std::make_shared<DroppableStream>(std::move(target));
    return arrow::Status::OK();
  }

  arrow::Status Write(const arrow::RecordBatch& batch) override {
    ARROW_RETURN_NOT_OK(CheckOpen());
    arrow::Status status = Guarded([&] { return WriteBatch(batch); });
    if (!status.ok()) failed_ = true;
    return status;
  }

  arrow::Status EndRowGroup() override {
    ARROW_RETURN_NOT_OK(CheckOpen());
    // The next batch opens a new row group; one that is never written to is not left in the file.
    end_row_group_ = RowGroupRows() > 0;
    return arrow::Status::OK();
  }

  int64_t bytes_estimate() const override {
    int64_t bytes = sink_->position();
    if (writer_) bytes += BufferedBytes(plan_.ratio);
    bytes += (row_groups_ + 1) * static_cast<int64_t>(leaf_count_) * kFooterBytesPerChunk;
    return bytes;
  }

  arrow::Result<DataFile> Finish() override {
    ARROW_RETURN_NOT_OK(CheckOpen());
    DataFile file;
    arrow::Status status = Guarded([&] { return Close(&file); });
    if (!status.ok()) {
      (void)Discard();
      return status;
    }
    done_ = true;  // the file stays, unless it is discarded all the same
    return file;
  }

  arrow::Status Discard() override {
    finished_ = true;
    if (sink_) sink_->Drop();
    try {
      contents_ = nullptr;
      writer_.reset();
    } catch (const std::exception&) {
      // What an abandoned writer has to say does not matter.
    }
    held_.Reset();
    if (!created_) return arrow::Status::OK();
    created_ = false;
    if (sink_ && !sink_->closed()) (void)sink_->Close();
    return io_->Delete(location_);
  }

 private:
  template <typename Body>
  arrow::Status Guarded(Body&& body) {
    return WithParquetErrors(kWriting, location_, std::forward<Body>(body));
  }

  arrow::Status CheckOpen() const {
    if (finished_) return Invalid("{} {}: it is already closed", kWriting, location_);
    if (failed_) return Invalid("{} {}: an earlier write failed", kWriting, location_);
    return arrow::Status::OK();
  }

  /// `first`: the first rows, by which encodings are chosen; null for a file without rows.
  arrow::Status OpenWriter(const arrow::RecordBatch* first) {
    parquet::ArrowWriterProperties::Builder arrow_builder;
    auto arrow_properties = arrow_builder.build();  // ARROW:schema is not stored
    parquet::WriterProperties::Builder builder;
    builder.memory_pool(&pool_)
        ->created_by(fmt::format("thalweg version {} (Apache Arrow C++)", kVersion))
        ->version(parquet::ParquetVersion::PARQUET_2_6)
        ->enable_store_decimal_as_integer()
        ->enable_statistics()
        ->enable_write_page_index()
        ->enable_page_checksum()
        ->data_pagesize(options_.page_bytes)
        ->max_rows_per_page(options_.page_rows)
        ->dictionary_pagesize_limit(DictionaryLimit())
        ->max_row_group_length(std::numeric_limits<int64_t>::max());
    const arrow::Compression::type codec = CodecType(options_.codec);
    builder.compression(codec);
    if (options_.codec_level) {
      builder.compression_level(*options_.codec_level);
    } else if (codec == arrow::Compression::ZSTD) {
      builder.compression_level(3);
    }
    auto base = builder.build();
    ARROW_ASSIGN_OR_RAISE(auto root,
                          MakeParquetSchema(schema_, *arrow_schema_, *base, *arrow_properties));
    parquet::SchemaDescriptor descriptor;
    descriptor.Init(root);
    leaf_count_ = descriptor.num_columns();
    ARROW_RETURN_NOT_OK(ChooseEncodings(first, root, *base));
    parquet::WriterProperties::Builder with_columns(*base);
    for (const auto& [path, column] : plan_.columns) {
      if (!column.dictionary) with_columns.disable_dictionary(path);
      if (column.level) with_columns.compression_level(path, *column.level);
    }
    for (int i = 0; i < descriptor.num_columns(); ++i) {
      const parquet::ColumnDescriptor& leaf = *descriptor.Column(i);
      auto bloom = options_.bloom_filters.find(leaf.schema_node()->field_id());
      if (bloom == options_.bloom_filters.end()) continue;
      with_columns.enable_bloom_filter(leaf.path()->ToDotString(), BloomOptions(bloom->second));
    }
    auto properties = with_columns.build();

    std::shared_ptr<arrow::KeyValueMetadata> stamps;
    if (!options_.key_values.empty()) {
      stamps = std::make_shared<arrow::KeyValueMetadata>();
      for (const auto& [key, value] : options_.key_values) stamps->Append(key, value);
    }
    auto contents = std::make_unique<ObservedContents>(
        root, parquet::ParquetFileWriter::Open(sink_, root, properties, stamps));
    contents_ = contents.get();
    auto file_writer = std::make_unique<parquet::ParquetFileWriter>();
    file_writer->Open(std::move(contents));
    return parquet::arrow::FileWriter::Make(&pool_, std::move(file_writer), arrow_schema_,
                                            arrow_properties, &writer_);
  }

  /// The largest dictionary of a column: the table's limit, and less in tables of so many columns
  /// that their dictionaries would not fit into the memory.
  int64_t DictionaryLimit() const {
    if (options_.memory == nullptr) return options_.dictionary_bytes;
    const int64_t all = std::max(kLeastDictionaryMemory, options_.memory->limit() / 16);
    const int64_t columns = std::max<int64_t>(1, schema_.Leaves().size());
    return std::min(options_.dictionary_bytes,
                    std::max<int64_t>(4096, all / kDictionaryOverhead / columns));
  }

  arrow::Status ChooseEncodings(const arrow::RecordBatch* first,
                                const std::shared_ptr<parquet::schema::GroupNode>& root,
                                const parquet::WriterProperties& base) {
    if (first == nullptr) return arrow::Status::OK();
    if (options_.encodings) {
      if (auto shared = options_.encodings->Next()) {
        plan_ = std::move(*shared);
        return arrow::Status::OK();
      }
    }
    const bool choose_level =
        !options_.codec_level && CodecType(options_.codec) == arrow::Compression::ZSTD;
    ARROW_ASSIGN_OR_RAISE(auto plan, PlanEncodings(*first, root, base, choose_level));
    if (!plan) return arrow::Status::OK();
    plan_ = std::move(*plan);
    if (options_.encodings) options_.encodings->Put(plan_);
    return arrow::Status::OK();
  }

  /// The number of distinct values for which a split-block filter of `max_bytes` has the wanted
  /// rate. Filters of fewer values are folded when they are written.
  static parquet::BloomFilterOptions BloomOptions(const ParquetWriteOptions::BloomFilter& wanted) {
    parquet::BloomFilterOptions bloom;
    bloom.fpp = wanted.fpp;
    const double bits = static_cast<double>(wanted.max_bytes) * 8;
    bloom.ndv = std::max<int64_t>(
        1, static_cast<int64_t>(-bits * std::log(1 - std::pow(wanted.fpp, 1.0 / 8)) / 8));
    return bloom;
  }

  arrow::Status WriteBatch(const arrow::RecordBatch& batch) {
    if (batch.num_columns() != given_arrow_->num_fields()) {
      return Invalid("a batch of {} columns for a schema of {}", batch.num_columns(),
                     given_arrow_->num_fields());
    }
    arrow::ArrayVector columns(arrow_schema_->num_fields());
    for (int i = 0; i < arrow_schema_->num_fields(); ++i) {
      const FieldProjection& projection = projection_.children[i];
      const auto& field = given_arrow_->field(projection.child);
      auto plain = ConformArray(batch.column(projection.child), field->type());
      if (plain.ok()) {
        plain = ProjectArray(projection, *plain, arrow_schema_->field(i)->type());
      }
      if (!plain.ok()) {
        return plain.status().WithMessage("column \"", field->name(),
                                          "\": ", plain.status().message());
      }
      columns[i] = std::move(plain).ValueUnsafe();
      ARROW_RETURN_NOT_OK(CheckRequired(*arrow_schema_->field(i), *columns[i], field->name()));
    }
    auto plain = arrow::RecordBatch::Make(arrow_schema_, batch.num_rows(), std::move(columns));
    if (plain->num_rows() == 0) return arrow::Status::OK();
    if (!writer_) ARROW_RETURN_NOT_OK(OpenWriter(plain.get()));
    ARROW_RETURN_NOT_OK(metrics_.Update(*plain));
    for (int64_t begin = 0; begin < plain->num_rows(); begin += kSliceRows) {
      if (end_row_group_ || (RowGroupRows() > 0 && BufferedBytes(1) >= options_.row_group_bytes)) {
        ARROW_RETURN_NOT_OK(writer_->NewBufferedRowGroup());
        ++row_groups_;
        end_row_group_ = false;
      }
      auto slice = plain->Slice(begin, std::min(kSliceRows, plain->num_rows() - begin));
      ARROW_RETURN_NOT_OK(writer_->WriteRecordBatch(*slice));
      rows_ += slice->num_rows();
    }
    held_.Reset();
    held_ = Reservation(options_.memory, pool_.bytes_allocated());
    return arrow::Status::OK();
  }

  int64_t RowGroupRows() const {
    const parquet::RowGroupWriter* group = contents_ ? contents_->row_group() : nullptr;
    return group ? group->num_rows() : 0;
  }

  /// Bytes of the current row group: finished pages as compressed, open pages and dictionaries as
  /// encoded, times `ratio`.
  int64_t BufferedBytes(double ratio) const {
    const parquet::RowGroupWriter* group = contents_ ? contents_->row_group() : nullptr;
    if (!group) return 0;
    const int64_t compressed =
        group->total_compressed_bytes() + group->total_compressed_bytes_written();
    const auto open = group->estimated_buffered_stats();
    const int64_t open_bytes =
        open.def_level_bytes + open.rep_level_bytes + open.value_bytes + open.dict_bytes;
    return compressed + static_cast<int64_t>(ratio * static_cast<double>(open_bytes));
  }

  arrow::Status Close(DataFile* file) {
    finished_ = true;
    if (!writer_) ARROW_RETURN_NOT_OK(OpenWriter(nullptr));
    ARROW_RETURN_NOT_OK(writer_->Close());
    auto metadata = writer_->metadata();
    contents_ = nullptr;
    writer_.reset();
    held_.Reset();
    const int64_t size = sink_->position();
    ARROW_RETURN_NOT_OK(sink_->Close());
    ARROW_RETURN_NOT_OK(io_->Sync(location_));
    ARROW_ASSIGN_OR_RAISE(auto footer, ReadParquetFooter(*io_, location_));
    if (footer.rows != rows_) {
      return Invalid("{} rows were written, its footer tells {}", rows_, footer.rows);
    }
    file->file_path = location_;
    file->file_size_in_bytes = size;
    return metrics_.Finish(*metadata, file);
  }

  const std::shared_ptr<FileIO> io_;
  const Schema given_;   ///< of the batches
  const Schema schema_;  ///< of the file
  const FieldProjection projection_;
  const std::string location_;
  const ParquetWriteOptions options_;
  std::shared_ptr<arrow::Schema> given_arrow_;
  std::shared_ptr<arrow::Schema> arrow_schema_;
  arrow::ProxyMemoryPool pool_;  // outlives writer_
  MetricsCollector metrics_;
  std::shared_ptr<DroppableStream> sink_;
  std::unique_ptr<parquet::arrow::FileWriter> writer_;
  ObservedContents* contents_ = nullptr;  // owned by writer_
  EncodingPlan plan_;
  int leaf_count_ = 0;
  int64_t rows_ = 0;
  int64_t row_groups_ = 0;
  bool created_ = false;  ///< there is a file to delete
  bool done_ = false;     ///< finished whole
  bool end_row_group_ = false;
  bool failed_ = false;
  bool finished_ = false;
  Reservation held_;
};

}  // namespace

arrow::Result<std::unique_ptr<ParquetFileWriter>> ParquetFileWriter::Open(
    std::shared_ptr<FileIO> io, const Schema& schema, const std::string& location,
    const ParquetWriteOptions& options) {
  ARROW_RETURN_NOT_OK(arrow::compute::Initialize());
  ARROW_ASSIGN_OR_RAISE(const Schema stored, StoredSchema(schema));
  auto writer = std::make_unique<Writer>(std::move(io), schema, stored, location, options);
  ARROW_RETURN_NOT_OK(writer->Start());
  return writer;
}

}  // namespace thalweg::iceberg
