#include "iceberg/parquet_reader.h"

#include <arrow/util/byte_size.h>
#include <arrow/util/key_value_metadata.h>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>
#include <parquet/schema.h>
#include <parquet/size_statistics.h>
#include <parquet/statistics.h>

#include <algorithm>
#include <utility>

#include "iceberg/parquet_schema.h"
#include "iceberg/projection.h"

namespace thalweg::iceberg {

namespace {

constexpr std::string_view kReading = "cannot read data file";
/// Row groups are joined to parts of at least this many stored bytes.
constexpr int64_t kPartBytes = int64_t{16} << 20;
/// Footers are kept between the check and the read while they are this small together (as stored;
/// parsed ones are larger).
constexpr int64_t kKeptFooterBytes = int64_t{4} << 20;
constexpr int64_t kParsedFooterRatio = 8;
/// Read buffers of all columns of a stream together, and of one column.
constexpr int64_t kReadBufferBytes = int64_t{8} << 20;
constexpr int64_t kMinColumnBuffer = int64_t{16} << 10;
constexpr int64_t kMaxColumnBuffer = int64_t{1} << 20;
/// What pages are assumed to be at most, when memory is reserved.
constexpr int64_t kPageBytes = int64_t{1} << 20;

arrow::Result<std::unique_ptr<parquet::ParquetFileReader>> OpenParquet(
    const FileIO& io, const std::string& location, const parquet::ReaderProperties& properties,
    std::shared_ptr<parquet::FileMetaData> metadata = nullptr) {
  return WithParquetErrors(
      kReading, location, [&]() -> arrow::Result<std::unique_ptr<parquet::ParquetFileReader>> {
        ARROW_ASSIGN_OR_RAISE(auto file, io.OpenInput(location));
        return parquet::ParquetFileReader::Open(std::move(file), properties, std::move(metadata));
      });
}

arrow::Result<std::shared_ptr<parquet::FileMetaData>> ReadMetadata(const FileIO& io,
                                                                   const std::string& location) {
  ARROW_ASSIGN_OR_RAISE(auto reader,
                        OpenParquet(io, location, parquet::default_reader_properties()));
  return reader->metadata();
}

/// Stored bytes of some leaf columns of a row group.
int64_t StoredBytes(const parquet::RowGroupMetaData& group, const std::vector<int>& leaves) {
  int64_t bytes = 0;
  for (int leaf : leaves) bytes += group.ColumnChunk(leaf)->total_compressed_size();
  return bytes;
}

/// Every data page of the chunk holds dictionary indices.
bool DictionaryEncoded(const parquet::ColumnChunkMetaData& chunk) {
  if (!chunk.has_dictionary_page()) return false;
  bool any = false;
  for (const auto& pages : chunk.encoding_stats()) {
    if (pages.page_type == parquet::PageType::DICTIONARY_PAGE) continue;
    if (pages.encoding != parquet::Encoding::RLE_DICTIONARY &&
        pages.encoding != parquet::Encoding::PLAIN_DICTIONARY) {
      return false;
    }
    any = true;
  }
  return any;
}

/// Bytes of a chunk's values once decoded, estimated from the footer.
int64_t DecodedBytes(const parquet::ColumnChunkMetaData& chunk,
                     const parquet::ColumnDescriptor& leaf, bool as_dictionary) {
  const int64_t values = chunk.num_values();
  switch (leaf.physical_type()) {
    case parquet::Type::BOOLEAN:
      return values / 8;
    case parquet::Type::INT32:
    case parquet::Type::FLOAT:
      return values * (leaf.logical_type()->is_decimal() ? 16 : 4);
    case parquet::Type::INT64:
    case parquet::Type::DOUBLE:
    case parquet::Type::INT96:
      return values * (leaf.logical_type()->is_decimal() ? 16 : 8);
    case parquet::Type::FIXED_LEN_BYTE_ARRAY:
      return values * (leaf.logical_type()->is_decimal() ? 16 : leaf.type_length());
    default:
      break;
  }
  if (as_dictionary) return values * 4 + chunk.total_uncompressed_size();
  int64_t bytes = chunk.total_uncompressed_size();
  auto sizes = chunk.size_statistics();
  if (sizes && sizes->unencoded_byte_array_data_bytes) {
    bytes = *sizes->unencoded_byte_array_data_bytes;
  } else if (chunk.has_dictionary_page()) {
    // Repeated values count once in the stored size; their ends tell about their length.
    auto ends = chunk.encoded_statistics();
    if (ends) {
      int64_t length = static_cast<int64_t>(
          std::max(ends->has_min ? ends->min().size() : 0, ends->has_max ? ends->max().size() : 0));
      if (length < (int64_t{1} << 20)) bytes = std::max(bytes, values * length);
    }
  }
  return bytes + values * 4;
}

/// By position in the schema. Files of one Parquet schema share them.
using MatchedColumns = std::shared_ptr<const std::vector<ParquetColumn>>;

struct ScannedFile {
  std::string location;
  uint64_t first_address = 0;
  MatchedColumns columns;
  std::shared_ptr<parquet::FileMetaData> metadata;  ///< null: read again when needed
};

struct ScanPart {
  int file = 0;
  std::vector<int> row_groups;
  int64_t first_row = 0;
  int64_t rows = 0;
};

class ParquetStream : public RowStream {
 public:
  static arrow::Result<std::unique_ptr<RowStream>> Open(const FileIO& io, const ScannedFile& file,
                                                        const ScanPart& part,
                                                        std::shared_ptr<arrow::Schema> schema,
                                                        const std::vector<int>& columns,
                                                        const ScanOptions& options,
                                                        MemoryAccount* memory) {
    auto stream = std::unique_ptr<ParquetStream>(new ParquetStream());
    stream->location_ = file.location;
    stream->schema_ = std::move(schema);
    stream->memory_ = memory;
    stream->next_address_ = file.first_address + static_cast<uint64_t>(part.first_row);
    stream->rows_left_ = part.rows;
    ARROW_RETURN_NOT_OK(WithParquetErrors(
        kReading, file.location, [&] { return stream->Start(io, file, part, columns, options); }));
    return stream;
  }

  arrow::Result<std::optional<RowBatch>> Next() override {
    std::shared_ptr<arrow::RecordBatch> batch;
    ARROW_RETURN_NOT_OK(WithParquetErrors(kReading, location_, [&] { return NextBatch(&batch); }));
    if (!batch) {
      held_.Reset();
      return std::nullopt;
    }
    held_.Reset();
    held_ = Reservation(memory_, working_bytes_ + arrow::util::TotalBufferSize(*batch));
    RowBatch result;
    result.first_address = next_address_;
    next_address_ += static_cast<uint64_t>(batch->num_rows());
    result.batch = std::move(batch);
    return result;
  }

 private:
  ParquetStream() = default;

  arrow::Status Start(const FileIO& io, const ScannedFile& file, const ScanPart& part,
                      const std::vector<int>& columns, const ScanOptions& options) {
    std::vector<int> leaves;
    matched_ = file.columns;
    for (int column : columns) {
      columns_.push_back(&(*matched_)[column]);
      const auto& of_column = columns_.back()->leaves;
      leaves.insert(leaves.end(), of_column.begin(), of_column.end());
    }
    const int64_t buffer =
        std::clamp(kReadBufferBytes / std::max<int64_t>(1, static_cast<int64_t>(leaves.size())),
                   kMinColumnBuffer, kMaxColumnBuffer);
    parquet::ReaderProperties properties = parquet::default_reader_properties();
    properties.enable_buffered_stream();
    properties.set_buffer_size(buffer);
    properties.set_page_checksum_verification(true);
    ARROW_ASSIGN_OR_RAISE(auto opened, OpenParquet(io, file.location, properties, file.metadata));
    auto metadata = opened->metadata();
    ARROW_RETURN_NOT_OK(CheckUnchanged(*metadata, part));

    parquet::ArrowReaderProperties arrow_properties(/*use_threads=*/false);
    arrow_properties.set_pre_buffer(false);
    arrow_properties.set_coerce_int96_timestamp_unit(arrow::TimeUnit::MICRO);
    int64_t row_bytes = 0;
    for (size_t i = 0; i < columns.size(); ++i) {
      const bool dictionary =
          schema_->field(static_cast<int>(i))->type()->id() == arrow::Type::DICTIONARY;
      // Constants stand in every row, or in every element of the column's lists.
      int64_t most_values = part.rows;
      for (int leaf : columns_[i]->leaves) {
        int64_t values = 0;
        if (dictionary) arrow_properties.set_read_dictionary(leaf, true);
        int64_t decoded = 0;
        int64_t page = 0;
        int64_t dictionary_page = 0;
        for (int group : part.row_groups) {
          auto chunk = metadata->RowGroup(group)->ColumnChunk(leaf);
          values += chunk->num_values();
          decoded += DecodedBytes(*chunk, *metadata->schema()->Column(leaf), dictionary);
          int64_t stored = std::max<int64_t>(0, chunk->total_uncompressed_size());
          page = std::max(page, std::min(stored, kPageBytes));
          if (chunk->has_dictionary_page()) {
            dictionary_page = std::max(dictionary_page, std::min(stored, kPageBytes));
          }
        }
        working_bytes_ += std::min(buffer, page) + 2 * page + dictionary_page;
        row_bytes += decoded / std::max<int64_t>(1, part.rows);
        most_values = std::max(most_values, values);
      }
      row_bytes += columns_[i]->constant_bytes * (most_values / std::max<int64_t>(1, part.rows));
    }
    int64_t batch_rows = std::clamp<int64_t>(
        options.max_batch_bytes / std::max<int64_t>(1, row_bytes), 1, options.max_batch_rows);
    arrow_properties.set_batch_size(batch_rows);
    batch_rows_ = batch_rows;
    held_ = Reservation(memory_, working_bytes_);
    if (leaves.empty()) return arrow::Status::OK();  // nothing to decode, only constants

    ARROW_ASSIGN_OR_RAISE(
        reader_, parquet::arrow::FileReader::Make(arrow::default_memory_pool(), std::move(opened),
                                                  arrow_properties));
    ARROW_ASSIGN_OR_RAISE(batches_, reader_->GetRecordBatchReader(part.row_groups, leaves));
    return arrow::Status::OK();
  }

  /// The footer was checked when the scan was opened; here only that it is still the same one.
  static arrow::Status CheckUnchanged(const parquet::FileMetaData& metadata, const ScanPart& part) {
    int64_t rows = 0;
    for (int group : part.row_groups) {
      if (group >= metadata.num_row_groups()) return arrow::Status::IOError("the file has changed");
      rows += metadata.RowGroup(group)->num_rows();
    }
    if (rows != part.rows) return arrow::Status::IOError("the file has changed");
    return arrow::Status::OK();
  }

  arrow::Status NextBatch(std::shared_ptr<arrow::RecordBatch>* out) {
    std::shared_ptr<arrow::RecordBatch> decoded;
    if (!batches_) {
      if (rows_left_ == 0) return arrow::Status::OK();
      decoded = arrow::RecordBatch::Make(arrow::schema({}), std::min(rows_left_, batch_rows_),
                                         arrow::ArrayVector());
    }
    while (batches_) {
      ARROW_RETURN_NOT_OK(batches_->ReadNext(&decoded));
      if (!decoded || decoded->num_rows() > 0) break;
    }
    if (!decoded) {
      if (rows_left_ != 0) {
        return arrow::Status::IOError("a row group ends ", rows_left_, " rows early");
      }
      return arrow::Status::OK();
    }
    rows_left_ -= decoded->num_rows();
    if (rows_left_ < 0) return arrow::Status::IOError("a row group has more rows than its footer");
    arrow::ArrayVector columns(columns_.size());
    int next = 0;  // decoded are the columns that the file has, in the order asked
    for (size_t i = 0; i < columns_.size(); ++i) {
      const auto& field = schema_->field(static_cast<int>(i));
      const bool constant = columns_[i]->projection.constant != nullptr;
      if (!constant && next >= decoded->num_columns()) {
        return arrow::Status::IOError("a column is missing in a row group");
      }
      auto projected =
          constant ? RepeatConstant(columns_[i]->projection, decoded->num_rows())
                   : ProjectArray(columns_[i]->projection, decoded->column(next++), field->type());
      if (!projected.ok()) {
        return projected.status().WithMessage("column \"", field->name(),
                                              "\": ", projected.status().message());
      }
      columns[i] = std::move(projected).ValueUnsafe();
      ARROW_RETURN_NOT_OK(CheckRequired(*field, *columns[i], field->name()));
    }
    *out = arrow::RecordBatch::Make(schema_, decoded->num_rows(), std::move(columns));
    return arrow::Status::OK();
  }

  std::string location_;
  std::shared_ptr<arrow::Schema> schema_;
  MatchedColumns matched_;
  std::vector<const ParquetColumn*> columns_;  ///< those that were asked for
  int64_t batch_rows_ = 0;
  MemoryAccount* memory_ = nullptr;
  uint64_t next_address_ = 0;
  int64_t rows_left_ = 0;
  int64_t working_bytes_ = 0;
  Reservation held_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;  // outlives batches_
  std::unique_ptr<arrow::RecordBatchReader> batches_;
};

class ParquetSource : public RowSource {
 public:
  static arrow::Result<std::unique_ptr<RowSource>> Open(std::shared_ptr<FileIO> io,
                                                        const Schema& schema,
                                                        std::vector<DataFile> files,
                                                        MemoryAccount* memory,
                                                        const ScanOptions& options) {
    auto source = std::unique_ptr<ParquetSource>(new ParquetSource());
    source->io_ = std::move(io);
    source->memory_ = memory;
    source->options_ = options;
    ARROW_ASSIGN_OR_RAISE(source->schema_, schema.ToArrow());
    std::sort(files.begin(), files.end(),
              [](const DataFile& a, const DataFile& b) { return a.file_path < b.file_path; });
    std::vector<bool> dictionary(schema.fields.size(), options.dictionaries);
    int64_t kept_footers = 0;
    for (size_t i = 0; i < files.size(); ++i) {
      ARROW_RETURN_NOT_OK(options.stop.Poll());
      ARROW_RETURN_NOT_OK(source->AddFile(schema, files[i], i, &dictionary, &kept_footers));
    }
    source->matched_.clear();
    source->footers_held_ = Reservation(memory, kept_footers * kParsedFooterRatio);
    if (source->num_rows_ > 0) source->ApplyDictionaries(schema, dictionary);
    return source;
  }

  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  int num_parts() const override { return static_cast<int>(parts_.size()); }
  int64_t num_rows() const override { return num_rows_; }
  int64_t encoded_bytes() const override { return encoded_bytes_; }

  arrow::Result<std::unique_ptr<RowStream>> OpenPart(int part,
                                                     const std::vector<int>& columns) override {
    if (part < 0 || part >= num_parts()) return Invalid("part {} of {}", part, num_parts());
    arrow::FieldVector fields;
    for (int column : columns) {
      if (column < 0 || column >= schema_->num_fields()) {
        return Invalid("column {} of {}", column, schema_->num_fields());
      }
      fields.push_back(schema_->field(column));
    }
    const ScanPart& scan = parts_[part];
    return ParquetStream::Open(*io_, files_[scan.file], scan, arrow::schema(std::move(fields)),
                               columns, options_, memory_);
  }

 private:
  ParquetSource() = default;

  arrow::Status AddFile(const Schema& schema, const DataFile& file, size_t index,
                        std::vector<bool>* dictionary, int64_t* kept_footers) {
    ScannedFile scanned;
    scanned.location = file.file_path;
    scanned.first_address = static_cast<uint64_t>(index) << 32;
    ARROW_ASSIGN_OR_RAISE(auto metadata, ReadMetadata(*io_, file.file_path));
    return WithParquetErrors(kReading, file.file_path, [&]() -> arrow::Status {
      if (metadata->num_rows() != file.record_count) {
        return arrow::Status::IOError("its footer tells ", metadata->num_rows(),
                                      " rows, the table's manifest ", file.record_count);
      }
      if (metadata->num_rows() >= (int64_t{1} << 32)) {
        return arrow::Status::NotImplemented("more than 2^32 rows in one file");
      }
      ARROW_ASSIGN_OR_RAISE(scanned.columns, Match(*metadata, schema, file.file_path));
      ARROW_RETURN_NOT_OK(
          AddParts(*metadata, *scanned.columns, static_cast<int>(index), dictionary));
      num_rows_ += metadata->num_rows();
      encoded_bytes_ += file.file_size_in_bytes;
      if (*kept_footers + metadata->size() <= kKeptFooterBytes) {
        *kept_footers += metadata->size();
        scanned.metadata = std::move(metadata);
      }
      files_.push_back(std::move(scanned));
      return arrow::Status::OK();
    });
  }

  arrow::Result<MatchedColumns> Match(const parquet::FileMetaData& metadata, const Schema& schema,
                                      const std::string& location) {
    const parquet::schema::NodePtr root = metadata.schema()->schema_root();
    for (const auto& [known, columns] : matched_) {
      if (known->Equals(root.get())) return columns;
    }
    ARROW_ASSIGN_OR_RAISE(auto columns, MatchColumns(metadata, schema, *schema_,
                                                     options_.name_mapping.get(), location));
    matched_.emplace_back(root,
                          std::make_shared<const std::vector<ParquetColumn>>(std::move(columns)));
    return matched_.back().second;
  }

  arrow::Status AddParts(const parquet::FileMetaData& metadata,
                         const std::vector<ParquetColumn>& columns, int file,
                         std::vector<bool>* dictionary) {
    std::vector<int> leaves;
    for (const ParquetColumn& column : columns) {
      leaves.insert(leaves.end(), column.leaves.begin(), column.leaves.end());
    }
    ScanPart part;
    part.file = file;
    int64_t bytes = 0;
    int64_t row = 0;
    for (int i = 0; i < metadata.num_row_groups(); ++i) {
      auto group = metadata.RowGroup(i);
      if (group->num_rows() < 0) return arrow::Status::IOError("a row group of negative size");
      if (group->num_rows() == 0) continue;
      for (size_t c = 0; c < columns.size(); ++c) {
        if ((*dictionary)[c] && (columns[c].leaves.size() != 1 ||
                                 !DictionaryEncoded(*group->ColumnChunk(columns[c].leaves[0])))) {
          (*dictionary)[c] = false;
        }
      }
      if (part.row_groups.empty()) part.first_row = row;
      part.row_groups.push_back(i);
      part.rows += group->num_rows();
      row += group->num_rows();
      bytes += StoredBytes(*group, leaves);
      if (bytes >= kPartBytes) {
        parts_.push_back(std::move(part));
        part = ScanPart();
        part.file = file;
        bytes = 0;
      }
    }
    if (!part.row_groups.empty()) parts_.push_back(std::move(part));
    if (row != metadata.num_rows()) {
      return arrow::Status::IOError("its row groups have ", row, " rows, its footer tells ",
                                    metadata.num_rows());
    }
    return arrow::Status::OK();
  }

  void ApplyDictionaries(const Schema& schema, const std::vector<bool>& dictionary) {
    arrow::FieldVector fields = schema_->fields();
    for (size_t i = 0; i < fields.size(); ++i) {
      TypeKind kind = schema.fields[i].type->kind;
      if (!dictionary[i] || (kind != TypeKind::kString && kind != TypeKind::kBinary)) continue;
      fields[i] = fields[i]->WithType(arrow::dictionary(arrow::int32(), fields[i]->type()));
    }
    schema_ = arrow::schema(std::move(fields), schema_->metadata());
  }

  std::shared_ptr<FileIO> io_;
  MemoryAccount* memory_ = nullptr;
  ScanOptions options_;
  std::shared_ptr<arrow::Schema> schema_;
  /// By Parquet schema, while files are added.
  std::vector<std::pair<parquet::schema::NodePtr, MatchedColumns>> matched_;
  std::vector<ScannedFile> files_;
  std::vector<ScanPart> parts_;
  int64_t num_rows_ = 0;
  int64_t encoded_bytes_ = 0;
  Reservation footers_held_;
};

}  // namespace

arrow::Result<std::unique_ptr<RowSource>> ScanParquetFiles(std::shared_ptr<FileIO> io,
                                                           const Schema& schema,
                                                           std::vector<DataFile> files,
                                                           MemoryAccount* memory,
                                                           const ScanOptions& options) {
  return ParquetSource::Open(std::move(io), schema, std::move(files), memory, options);
}

arrow::Result<ParquetFooter> ReadParquetFooter(const FileIO& io, const std::string& location) {
  ARROW_ASSIGN_OR_RAISE(auto metadata, ReadMetadata(io, location));
  ParquetFooter footer;
  footer.rows = metadata->num_rows();
  if (const auto& pairs = metadata->key_value_metadata()) {
    for (int64_t i = 0; i < pairs->size(); ++i) footer.key_values[pairs->key(i)] = pairs->value(i);
  }
  return footer;
}

}  // namespace thalweg::iceberg
