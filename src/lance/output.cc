// One written data file, and the identity of its rows beside it until the commit.

#include <arrow/compute/api.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>
#include <arrow/table.h>
#include <arrow/util/byte_size.h>
#include <arrow/util/compression.h>

#include <algorithm>

#include "lance/key_ranges.h"
#include "lance/lance_table_internal.h"
#include "util/status.h"

namespace thalweg::lance {
namespace {

// What the encoders of one file hold back until they write pages: Lance's default for each column,
// less in all where the budget is small.
constexpr int64_t kColumnBufferBytes = int64_t{8} << 20;
constexpr int64_t kLeastBufferBytes = int64_t{4} << 20;

int64_t BufferBytes(const MemoryAccount* memory, int columns) {
  const int64_t most = kColumnBufferBytes * std::max(1, columns);
  if (memory == nullptr) return most;
  return std::clamp(memory->limit() / 16, std::min(kLeastBufferBytes, most), most);
}

/// A column in the type of the dataset: the sort hands top-level dictionaries on with wider
/// indices, and for plain columns.
arrow::Result<std::shared_ptr<arrow::Array>> AsField(std::shared_ptr<arrow::Array> array,
                                                     const arrow::Field& field) {
  if (array->type()->Equals(*field.type())) return array;
  if (array->type_id() == arrow::Type::DICTIONARY) {
    const auto& values = static_cast<const arrow::DictionaryArray&>(*array);
    ARROW_ASSIGN_OR_RAISE(array, arrow::compute::Take(*values.dictionary(), *values.indices()));
  }
  if (field.type()->id() == arrow::Type::DICTIONARY) {
    const auto& type = static_cast<const arrow::DictionaryType&>(*field.type());
    ARROW_ASSIGN_OR_RAISE(const auto encoded, arrow::compute::DictionaryEncode(array));
    const auto owner = encoded.make_array();
    const auto& parts = static_cast<const arrow::DictionaryArray&>(*owner);
    ARROW_ASSIGN_OR_RAISE(auto indices, arrow::compute::Cast(*parts.indices(), type.index_type()));
    ARROW_ASSIGN_OR_RAISE(
        array, arrow::DictionaryArray::FromArrays(field.type(), indices, parts.dictionary()));
  }
  if (!array->type()->Equals(*field.type())) {
    return Invalid("column \"{}\" is {}, not {}", field.name(), array->type()->ToString(),
                   field.type()->ToString());
  }
  return array;
}

/// A reservation that follows what is held.
class Held {
 public:
  explicit Held(MemoryAccount* memory) : memory_(memory) {}
  ~Held() { Set(0); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  void Set(int64_t bytes) {
    if (memory_ == nullptr) return;
    if (bytes > bytes_) memory_->Add(bytes - bytes_);
    if (bytes < bytes_) memory_->Release(bytes_ - bytes);
    bytes_ = bytes;
  }

 private:
  MemoryAccount* const memory_;
  int64_t bytes_ = 0;
};

arrow::Result<std::shared_ptr<arrow::Buffer>> WriteIpc(const arrow::RecordBatchVector& batches) {
  ARROW_ASSIGN_OR_RAISE(auto sink, arrow::io::BufferOutputStream::Create(1 << 20));
  auto options = arrow::ipc::IpcWriteOptions::Defaults();
  ARROW_ASSIGN_OR_RAISE(options.codec, arrow::util::Codec::Create(arrow::Compression::LZ4_FRAME));
  ARROW_ASSIGN_OR_RAISE(auto writer,
                        arrow::ipc::MakeFileWriter(sink, batches.front()->schema(), options));
  for (const auto& batch : batches) ARROW_RETURN_NOT_OK(writer->WriteRecordBatch(*batch));
  ARROW_RETURN_NOT_OK(writer->Close());
  return sink->Finish();
}

class LanceOutputFile : public OutputFile {
 public:
  LanceOutputFile(std::shared_ptr<const Version> version, std::unique_ptr<DataWriter> writer,
                  std::string path, int64_t buffer_bytes, const OutputContext& context)
      : version_(std::move(version)),
        writer_(std::move(writer)),
        path_(std::move(path)),
        buffer_bytes_(buffer_bytes),
        held_(context.memory) {
    if (context.spec) ranges_.emplace(*version_->schema, *context.spec);
  }

  ~LanceOutputFile() override {
    if (!finished_) (void)LanceOutputFile::Discard();
  }

  arrow::Status Write(const arrow::RecordBatch& batch) override {
    const arrow::Schema& schema = *version_->schema;
    const int columns = schema.num_fields();
    if (writer_ == nullptr || batch.num_columns() < columns) {
      return Invalid("{}: a batch of {} columns for a dataset of {}", path_, batch.num_columns(),
                     columns);
    }
    arrow::ArrayVector arrays;
    for (int i = 0; i < columns; ++i) {
      ARROW_ASSIGN_OR_RAISE(arrays.emplace_back(), AsField(batch.column(i), *schema.field(i)));
    }
    const auto rows =
        arrow::RecordBatch::Make(version_->schema, batch.num_rows(), std::move(arrays));
    ARROW_RETURN_NOT_OK(writer_->Write(*rows));
    if (ranges_) ARROW_RETURN_NOT_OK(ranges_->Update(*rows));
    if (batch.num_columns() > columns) ARROW_RETURN_NOT_OK(KeepIdentity(batch, columns));
    ARROW_ASSIGN_OR_RAISE(const int64_t raw, arrow::util::ReferencedBufferSize(*rows));
    ARROW_ASSIGN_OR_RAISE(const int64_t bytes, writer_->bytes());
    pending_ = bytes == bytes_ ? pending_ + raw : raw;
    bytes_ = bytes;
    held_.Set(std::min(pending_, buffer_bytes_) + identity_bytes_);
    return arrow::Status::OK();
  }

  /// Pages end where the encoder ends them.
  arrow::Status EndRowGroup() override { return arrow::Status::OK(); }
  int64_t bytes_estimate() const override { return bytes_ + pending_; }

  arrow::Result<OutputUnit> Finish() override {
    if (writer_ == nullptr) return Invalid("{}: the file is closed already", path_);
    ARROW_ASSIGN_OR_RAISE(const Json json, writer_->Finish());
    writer_.reset();
    OutputUnit unit;
    unit.id = path_;
    ARROW_ASSIGN_OR_RAISE(const Json* fragment, GetObject(json, "fragment", path_));
    ARROW_ASSIGN_OR_RAISE(unit.rows, GetCount(json, "rows", path_));
    ARROW_ASSIGN_OR_RAISE(unit.bytes, GetCount(json, "bytes", path_));
    Json identity = Json::array();
    if (!identity_.empty()) {
      for (const auto& name : identity_.front()->schema()->field_names()) identity.push_back(name);
      ARROW_ASSIGN_OR_RAISE(const auto buffer, WriteIpc(identity_));
      held_.Set(identity_bytes_ + buffer->size());
      ARROW_RETURN_NOT_OK(
          version_->dataset->WriteFile(RowsFilePath(path_), std::string_view(*buffer)));
      identity_.clear();
    }
    held_.Set(0);
    unit.json = Json{{"fragment", *fragment},
                     {"identity", std::move(identity)},
                     {"keys", ranges_ ? ranges_->ToJson() : Json::array()}};
    finished_ = true;
    return unit;
  }

  arrow::Status Discard() override {
    writer_.reset();
    identity_.clear();
    held_.Set(0);
    finished_ = true;
    return DeleteDataFile(*version_, path_);
  }

 private:
  arrow::Status KeepIdentity(const arrow::RecordBatch& batch, int from) {
    arrow::FieldVector fields;
    arrow::ArrayVector arrays;
    for (int i = from; i < batch.num_columns(); ++i) {
      const auto& field = batch.schema()->field(i);
      if (!IsIdentityColumn(field->name()) || batch.column(i)->type_id() != arrow::Type::UINT64) {
        return Invalid("{}: the dataset has no column \"{}\"", path_, field->name());
      }
      fields.push_back(IdentityField(field->name()));
      arrays.push_back(batch.column(i));
    }
    identity_bytes_ += batch.num_rows() * static_cast<int64_t>(sizeof(uint64_t) * arrays.size());
    identity_.push_back(arrow::RecordBatch::Make(arrow::schema(std::move(fields)), batch.num_rows(),
                                                 std::move(arrays)));
    return arrow::Status::OK();
  }

  const std::shared_ptr<const Version> version_;
  std::unique_ptr<DataWriter> writer_;
  const std::string path_;
  const int64_t buffer_bytes_;
  std::optional<KeyRanges> ranges_;
  arrow::RecordBatchVector identity_;
  int64_t identity_bytes_ = 0;
  int64_t bytes_ = 0;    ///< let out by the encoder
  int64_t pending_ = 0;  ///< written since it last let out any
  bool finished_ = false;
  Held held_;
};

}  // namespace

arrow::Result<std::unique_ptr<OutputFile>> NewDataFile(std::shared_ptr<const Version> version,
                                                       const OutputContext& context, int number) {
  const std::string name = DataFileName(context, number);
  const int64_t buffer_bytes = BufferBytes(context.memory, version->schema->num_fields());
  ARROW_ASSIGN_OR_RAISE(auto writer, version->dataset->NewDataFile(name, buffer_bytes));
  return std::make_unique<LanceOutputFile>(std::move(version), std::move(writer), "data/" + name,
                                           buffer_bytes, context);
}

arrow::Result<WrittenFile> ParseWrittenFile(const OutputUnit& unit) {
  ARROW_RETURN_NOT_OK(CheckOwnPath(unit.id));
  const std::string what = "output unit " + unit.id;
  WrittenFile written;
  ARROW_ASSIGN_OR_RAISE(const Json* json, GetObject(unit.json, "fragment", what));
  ARROW_ASSIGN_OR_RAISE(written.fragment, ParseFragment(*json));
  const Fragment& fragment = written.fragment;
  if (fragment.files.size() != 1 || fragment.files[0].path != unit.id ||
      fragment.files[0].bytes != unit.bytes || fragment.physical_rows != unit.rows ||
      fragment.deleted_rows != 0 || !fragment.overlays.empty()) {
    return Invalid("{}: its fragment says something else (path, bytes, rows or deletions)", what);
  }
  ARROW_ASSIGN_OR_RAISE(const Json* identity, GetArray(unit.json, "identity", what));
  for (const Json& name : *identity) {
    if (!name.is_string() || !IsIdentityColumn(name.get<std::string>())) {
      return Invalid("{}: its identity columns are malformed", what);
    }
    written.identity.push_back(name.get<std::string>());
  }
  return written;
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> ReadRowsFile(
    const Dataset& dataset, const OutputUnit& unit, const std::vector<std::string>& columns) {
  const std::string path = RowsFilePath(unit.id);
  auto bytes = dataset.ReadFile(path);
  if (!bytes.ok()) {
    return Invalid("{}: the identity of its rows cannot be read: {}", unit.id,
                   bytes.status().message());
  }
  auto read = [&]() -> arrow::Result<std::shared_ptr<arrow::RecordBatch>> {
    arrow::io::BufferReader file(arrow::Buffer::FromString(*std::move(bytes)));
    ARROW_ASSIGN_OR_RAISE(auto reader, arrow::ipc::RecordBatchFileReader::Open(&file));
    ARROW_ASSIGN_OR_RAISE(auto table, reader->ToTable());
    arrow::FieldVector fields;
    std::vector<std::shared_ptr<arrow::ChunkedArray>> arrays;
    for (const auto& name : columns) {
      auto array = table->GetColumnByName(name);
      if (array == nullptr) {
        return Conflict("{}: it lacks {}, which an index needs that was made meanwhile", path,
                        name);
      }
      fields.push_back(IdentityField(name));
      arrays.push_back(std::move(array));
    }
    const auto wanted =
        arrow::Table::Make(arrow::schema(std::move(fields)), std::move(arrays), table->num_rows());
    ARROW_RETURN_NOT_OK(wanted->ValidateFull());
    return wanted->CombineChunksToBatch();
  };
  auto batch = read();
  if (!batch.ok()) {
    return Failure(KindOf(batch.status()), fmt::format("{}: {}", path, batch.status().message()));
  }
  if ((*batch)->num_rows() != unit.rows) {
    return Invalid("{}: it has {} rows, the file {}", path, (*batch)->num_rows(), unit.rows);
  }
  return batch;
}

}  // namespace thalweg::lance
