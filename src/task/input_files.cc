#include <arrow/csv/api.h>
#include <arrow/io/file.h>
#include <arrow/ipc/reader.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/schema.h>
#include <sys/stat.h>

#include <algorithm>

#include "task/write.h"
#include "util/status.h"
#include "util/text.h"

namespace thalweg {
namespace {

constexpr int64_t kBatchRows = 65536;
constexpr int64_t kReadBufferBytes = int64_t{1} << 20;
constexpr int32_t kCsvBlockBytes = 4 << 20;

/// The addresses of a part's rows begin at its number in the upper half.
uint64_t FirstAddress(int part) { return static_cast<uint64_t>(part) << 32; }

/// The batches of a reader, with the asked-for columns: positions in what the reader gives, in
/// order.
class ReaderStream : public RowStream {
 public:
  ReaderStream(std::shared_ptr<arrow::RecordBatchReader> reader, std::vector<int> columns,
               uint64_t first_address, std::shared_ptr<void> keep = nullptr)
      : keep_(std::move(keep)),
        reader_(std::move(reader)),
        columns_(std::move(columns)),
        address_(first_address) {}

  arrow::Result<std::optional<RowBatch>> Next() override {
    std::shared_ptr<arrow::RecordBatch> batch;
    try {
      ARROW_RETURN_NOT_OK(reader_->ReadNext(&batch));
    } catch (const std::exception& error) {
      return Invalid("{}", error.what());
    }
    if (batch == nullptr) return std::nullopt;
    ARROW_RETURN_NOT_OK(batch->Validate());  // offsets come from a file that may be damaged
    ARROW_ASSIGN_OR_RAISE(batch, batch->SelectColumns(columns_));
    RowBatch rows{batch, address_, nullptr};
    address_ += batch->num_rows();
    return rows;
  }

 private:
  const std::shared_ptr<void> keep_;  // what the reader reads from
  const std::shared_ptr<arrow::RecordBatchReader> reader_;
  const std::vector<int> columns_;
  uint64_t address_;
};

std::vector<int> Positions(int n) {
  std::vector<int> positions(n);
  for (int i = 0; i < n; ++i) positions[i] = i;
  return positions;
}

/// One input file: a number of parts.
class InputFile {
 public:
  virtual ~InputFile() = default;
  virtual const std::shared_ptr<arrow::Schema>& schema() const = 0;
  virtual int num_parts() const { return 1; }
  virtual int64_t num_rows() const { return -1; }
  virtual arrow::Result<std::unique_ptr<RowStream>> Open(int part, const std::vector<int>& columns,
                                                         uint64_t first_address) = 0;
};

/// Parquet: each row group is a part.
class ParquetInput : public InputFile {
 public:
  static arrow::Result<std::unique_ptr<InputFile>> Make(const std::string& path) {
    auto input = std::make_unique<ParquetInput>();
    input->path_ = path;
    ARROW_ASSIGN_OR_RAISE(auto reader, input->OpenReader());
    input->metadata_ = reader->parquet_reader()->metadata();
    ARROW_RETURN_NOT_OK(reader->GetSchema(&input->schema_));
    return input;
  }

  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  int num_parts() const override { return metadata_->num_row_groups(); }
  int64_t num_rows() const override { return metadata_->num_rows(); }

  arrow::Result<std::unique_ptr<RowStream>> Open(int part, const std::vector<int>& columns,
                                                 uint64_t first_address) override {
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<parquet::arrow::FileReader> reader, OpenReader());
    try {
      // Columns come in the order of the file, each once.
      std::vector<int> ascending = columns;
      std::sort(ascending.begin(), ascending.end());
      ascending.erase(std::unique(ascending.begin(), ascending.end()), ascending.end());
      std::vector<int> leaves;
      const auto* descriptor = metadata_->schema();
      for (int leaf = 0; leaf < descriptor->num_columns(); ++leaf) {
        const auto* root = descriptor->GetColumnRoot(leaf);
        const bool wanted = std::any_of(ascending.begin(), ascending.end(), [&](int column) {
          return descriptor->group_node()->field(column).get() == root;
        });
        if (wanted) leaves.push_back(leaf);
      }
      ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::RecordBatchReader> batches,
                            reader->GetRecordBatchReader({part}, leaves));
      std::vector<int> positions;
      positions.reserve(columns.size());
      for (const int column : columns) {
        positions.push_back(static_cast<int>(
            std::lower_bound(ascending.begin(), ascending.end(), column) - ascending.begin()));
      }
      return std::make_unique<ReaderStream>(std::move(batches), std::move(positions), first_address,
                                            reader);
    } catch (const std::exception& error) {
      return Invalid("{}", error.what());
    }
  }

 private:
  arrow::Result<std::unique_ptr<parquet::arrow::FileReader>> OpenReader() const {
    try {
      ARROW_ASSIGN_OR_RAISE(auto file, arrow::io::ReadableFile::Open(path_));
      parquet::ReaderProperties properties;
      properties.enable_buffered_stream();
      properties.set_buffer_size(kReadBufferBytes);
      parquet::ArrowReaderProperties arrow_properties;
      arrow_properties.set_batch_size(kBatchRows);
      arrow_properties.set_pre_buffer(false);
      parquet::arrow::FileReaderBuilder builder;
      ARROW_RETURN_NOT_OK(builder.Open(std::move(file), properties, metadata_));
      builder.properties(arrow_properties);
      return builder.Build();
    } catch (const std::exception& error) {
      return Invalid("{}", error.what());
    }
  }

  std::string path_;
  std::shared_ptr<parquet::FileMetaData> metadata_;
  std::shared_ptr<arrow::Schema> schema_;
};

/// Arrow IPC, stream or file: one part.
class IpcInput : public InputFile {
 public:
  static arrow::Result<std::unique_ptr<InputFile>> Make(const std::string& path, bool stream) {
    auto input = std::make_unique<IpcInput>();
    input->path_ = path;
    input->stream_ = stream;
    ARROW_ASSIGN_OR_RAISE(auto reader, input->OpenReader({}));
    input->schema_ = reader->schema();
    return input;
  }

  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }

  arrow::Result<std::unique_ptr<RowStream>> Open(int part, const std::vector<int>& columns,
                                                 uint64_t first_address) override {
    std::vector<int> ascending = columns;
    std::sort(ascending.begin(), ascending.end());
    ascending.erase(std::unique(ascending.begin(), ascending.end()), ascending.end());
    ARROW_ASSIGN_OR_RAISE(auto reader, OpenReader(ascending));
    std::vector<int> positions;
    positions.reserve(columns.size());
    for (const int column : columns) {
      positions.push_back(static_cast<int>(
          std::lower_bound(ascending.begin(), ascending.end(), column) - ascending.begin()));
    }
    return std::make_unique<ReaderStream>(std::move(reader), std::move(positions), first_address);
  }

 private:
  /// The batches of an IPC file in order.
  class FileBatches : public arrow::RecordBatchReader {
   public:
    explicit FileBatches(std::shared_ptr<arrow::ipc::RecordBatchFileReader> file)
        : file_(std::move(file)), schema_(file_->schema()) {}
    std::shared_ptr<arrow::Schema> schema() const override { return schema_; }
    arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* batch) override {
      batch->reset();
      if (next_ == file_->num_record_batches()) return arrow::Status::OK();
      return file_->ReadRecordBatch(next_++).Value(batch);
    }

   private:
    const std::shared_ptr<arrow::ipc::RecordBatchFileReader> file_;
    const std::shared_ptr<arrow::Schema> schema_;
    int next_ = 0;
  };

  arrow::Result<std::shared_ptr<arrow::RecordBatchReader>> OpenReader(
      std::vector<int> columns) const {
    ARROW_ASSIGN_OR_RAISE(auto file, arrow::io::ReadableFile::Open(path_));
    auto options = arrow::ipc::IpcReadOptions::Defaults();
    options.use_threads = false;
    options.included_fields = std::move(columns);
    if (stream_) {
      ARROW_ASSIGN_OR_RAISE(auto reader, arrow::ipc::RecordBatchStreamReader::Open(file, options));
      return reader;
    }
    ARROW_ASSIGN_OR_RAISE(auto reader, arrow::ipc::RecordBatchFileReader::Open(file, options));
    return std::make_shared<FileBatches>(std::move(reader));
  }

  std::string path_;
  bool stream_ = false;
  std::shared_ptr<arrow::Schema> schema_;
};

/// CSV with a header line: one part. In columns that are not text the fields "", NA, N/A, NULL and
/// null are nulls; text stays as it is.
class CsvInput : public InputFile {
 public:
  static arrow::Result<std::unique_ptr<InputFile>> Make(const std::string& path, char delimiter,
                                                        const arrow::Schema* types) {
    auto input = std::make_unique<CsvInput>();
    input->path_ = path;
    input->parse_.delimiter = delimiter;
    input->parse_.newlines_in_values = true;
    input->convert_.null_values = {"", "NA", "N/A", "NULL", "null"};
    if (types != nullptr) {
      for (const auto& field : types->fields()) {
        input->convert_.column_types[field->name()] = field->type();
      }
    }
    ARROW_ASSIGN_OR_RAISE(auto reader, input->OpenReader({}));
    input->schema_ = reader->schema();
    for (const auto& field : input->schema_->fields()) {
      input->convert_.column_types[field->name()] = field->type();  // inferred once
    }
    return input;
  }

  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }

  arrow::Result<std::unique_ptr<RowStream>> Open(int part, const std::vector<int>& columns,
                                                 uint64_t first_address) override {
    std::vector<std::string> names;
    names.reserve(columns.size());
    for (const int column : columns) names.push_back(schema_->field(column)->name());
    ARROW_ASSIGN_OR_RAISE(auto reader, OpenReader(std::move(names)));
    return std::make_unique<ReaderStream>(
        std::move(reader), Positions(static_cast<int>(columns.size())), first_address);
  }

 private:
  arrow::Result<std::shared_ptr<arrow::RecordBatchReader>> OpenReader(
      std::vector<std::string> names) const {
    ARROW_ASSIGN_OR_RAISE(auto file, arrow::io::ReadableFile::Open(path_));
    auto read = arrow::csv::ReadOptions::Defaults();
    read.use_threads = false;
    read.block_size = kCsvBlockBytes;
    auto convert = convert_;
    convert.include_columns = std::move(names);
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::RecordBatchReader> reader,
                          arrow::csv::StreamingReader::Make(arrow::io::default_io_context(), file,
                                                            read, parse_, convert));
    return reader;
  }

  std::string path_;
  arrow::csv::ParseOptions parse_ = arrow::csv::ParseOptions::Defaults();
  arrow::csv::ConvertOptions convert_ = arrow::csv::ConvertOptions::Defaults();
  std::shared_ptr<arrow::Schema> schema_;
};

arrow::Result<std::unique_ptr<InputFile>> OpenOne(const std::string& path,
                                                  const arrow::Schema* types) {
  auto ends_with = [&](std::initializer_list<std::string_view> endings) {
    const std::string lower = Lower(path);
    return std::any_of(endings.begin(), endings.end(),
                       [&](std::string_view ending) { return lower.ends_with(ending); });
  };
  if (ends_with({".parquet", ".pq"})) return ParquetInput::Make(path);
  if (ends_with({".arrow", ".feather", ".ipc"})) return IpcInput::Make(path, /*stream=*/false);
  if (ends_with({".arrows"})) return IpcInput::Make(path, /*stream=*/true);
  if (ends_with({".csv"})) return CsvInput::Make(path, ',', types);
  if (ends_with({".tsv"})) return CsvInput::Make(path, '\t', types);
  return Invalid(
      "cannot tell its format: the name must end in .parquet, .csv, .tsv, .arrow, .feather, .ipc "
      "or .arrows");
}

class InputFiles : public RowSource {
 public:
  arrow::Status Add(const std::string& path, const arrow::Schema* types) {
    struct stat info;
    if (stat(path.c_str(), &info) != 0) return Invalid("there is no such file");
    if (!S_ISREG(info.st_mode)) return Invalid("not a regular file");
    ARROW_ASSIGN_OR_RAISE(auto file, OpenOne(path, types));
    if (schema_ == nullptr) {
      schema_ = file->schema();
    } else {
      ARROW_RETURN_NOT_OK(CheckColumns(*file->schema()));
    }
    const int64_t rows = file->num_rows();
    rows_ = rows < 0 || rows_ < 0 ? -1 : rows_ + rows;
    bytes_ += info.st_size;
    for (int part = 0; part < file->num_parts(); ++part) parts_.push_back({files_.size(), part});
    files_.push_back(std::move(file));
    paths_.push_back(path);
    return arrow::Status::OK();
  }

  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  int num_parts() const override { return static_cast<int>(parts_.size()); }
  int64_t num_rows() const override { return rows_; }
  int64_t encoded_bytes() const override { return bytes_; }
  std::string part_name(int part) const override { return paths_[parts_[part].file]; }
  arrow::Result<std::unique_ptr<RowStream>> OpenPart(int part,
                                                     const std::vector<int>& columns) override {
    return files_[parts_[part].file]->Open(parts_[part].part, columns, FirstAddress(part));
  }

 private:
  struct Part {
    size_t file;
    int part;
  };

  arrow::Status CheckColumns(const arrow::Schema& other) const {
    const std::string& first = paths_.front();
    if (other.num_fields() != schema_->num_fields()) {
      return Invalid("has {} columns, {} has {}", other.num_fields(), first, schema_->num_fields());
    }
    for (int i = 0; i < other.num_fields(); ++i) {
      const auto &a = *schema_->field(i), &b = *other.field(i);
      if (a.name() != b.name() || !a.type()->Equals(b.type())) {
        return Invalid("its column {} is \"{}\" ({}), in {} it is \"{}\" ({})", i + 1, b.name(),
                       b.type()->ToString(), first, a.name(), a.type()->ToString());
      }
    }
    return arrow::Status::OK();
  }

  std::shared_ptr<arrow::Schema> schema_;
  std::vector<std::unique_ptr<InputFile>> files_;
  std::vector<std::string> paths_;
  std::vector<Part> parts_;
  int64_t rows_ = 0;
  int64_t bytes_ = 0;
};

class ReaderRows : public RowSource {
 public:
  explicit ReaderRows(std::shared_ptr<arrow::RecordBatchReader> reader)
      : reader_(std::move(reader)), schema_(reader_->schema()) {}
  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  int num_parts() const override { return 1; }
  int64_t num_rows() const override { return -1; }
  int64_t encoded_bytes() const override { return -1; }
  bool rereadable() const override { return false; }
  arrow::Result<std::unique_ptr<RowStream>> OpenPart(int,
                                                     const std::vector<int>& columns) override {
    if (reader_ == nullptr) return Invalid("the rows of a stream can be read only once");
    return std::make_unique<ReaderStream>(std::move(reader_), columns, 0);
  }

 private:
  std::shared_ptr<arrow::RecordBatchReader> reader_;
  const std::shared_ptr<arrow::Schema> schema_;
};

}  // namespace

arrow::Result<std::unique_ptr<RowSource>> OpenInputFiles(
    const std::vector<std::string>& paths, const std::shared_ptr<arrow::Schema>& schema) {
  if (paths.empty()) return Usage("no input files");
  auto files = std::make_unique<InputFiles>();
  for (const std::string& path : paths) {
    if (auto status = files->Add(path, schema.get()); !status.ok()) {
      return status.WithMessage(path, ": ", status.message());
    }
  }
  return files;
}

std::unique_ptr<RowSource> RowsOfReader(std::shared_ptr<arrow::RecordBatchReader> reader) {
  return std::make_unique<ReaderRows>(std::move(reader));
}

}  // namespace thalweg
