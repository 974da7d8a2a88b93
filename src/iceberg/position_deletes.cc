#include "iceberg/position_deletes.h"

#include <parquet/column_reader.h>
#include <parquet/file_reader.h>
#include <parquet/statistics.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "iceberg/delete_index.h"
#include "iceberg/parquet_schema.h"
#include "util/status.h"

namespace thalweg::iceberg {
namespace {

constexpr std::string_view kReading = "cannot read position delete file";
constexpr int64_t kBatchRows = 4096;
constexpr int64_t kReadBuffer = int64_t{256} << 10;
/// Read buffers and a page of each of the two columns, with a dictionary.
constexpr int64_t kWorkingBytes = 2 * kReadBuffer + (int64_t{4} << 20);

/// The leaf of that field id, which is a top-level field.
arrow::Result<int> FindLeaf(const parquet::SchemaDescriptor& schema, int32_t field_id,
                            const char* name, parquet::Type::type type) {
  for (int i = 0; i < schema.num_columns(); ++i) {
    const parquet::ColumnDescriptor& leaf = *schema.Column(i);
    if (leaf.schema_node()->field_id() != field_id) continue;
    if (leaf.physical_type() != type || leaf.max_repetition_level() != 0 ||
        leaf.max_definition_level() > 1) {
      return Invalid("field {} ({}) is of type {}", field_id, name,
                     parquet::TypeToString(leaf.physical_type()));
    }
    return i;
  }
  return Invalid("it has no field {} ({})", field_id, name);
}

class Reader {
 public:
  Reader(const LiveFile& delete_file, const std::vector<bool>& wanted, DeletedPositions* positions,
         const arrow::StopToken& stop)
      : delete_file_(delete_file), wanted_(wanted), positions_(positions), stop_(stop) {}

  arrow::Status Read(const FileIO& io) {
    parquet::ReaderProperties properties = parquet::default_reader_properties();
    properties.enable_buffered_stream();
    properties.set_buffer_size(kReadBuffer);
    properties.set_page_checksum_verification(true);
    ARROW_ASSIGN_OR_RAISE(auto input, io.OpenInput(delete_file_.file.file_path));
    const auto file = parquet::ParquetFileReader::Open(std::move(input), properties);
    const auto metadata = file->metadata();
    if (metadata->num_rows() != delete_file_.file.record_count) {
      return Invalid("its footer tells {} rows, the table's manifest {}", metadata->num_rows(),
                     delete_file_.file.record_count);
    }
    ARROW_ASSIGN_OR_RAISE(path_leaf_, FindLeaf(*metadata->schema(), kDeletePathFieldId, "file_path",
                                               parquet::Type::BYTE_ARRAY));
    ARROW_ASSIGN_OR_RAISE(position_leaf_, FindLeaf(*metadata->schema(), kDeletePositionFieldId,
                                                   "pos", parquet::Type::INT64));
    for (int group = 0; group < metadata->num_row_groups(); ++group) {
      if (Excluded(*metadata->RowGroup(group))) continue;
      ARROW_RETURN_NOT_OK(ReadGroup(*file->RowGroup(group)));
    }
    Flush();
    return arrow::Status::OK();
  }

 private:
  /// No wanted path lies between the ends of the row group's.
  bool Excluded(const parquet::RowGroupMetaData& group) const {
    const auto statistics = group.ColumnChunk(path_leaf_)->encoded_statistics();
    if (!statistics || !statistics->has_min || !statistics->has_max) return false;
    size_t begin = 0;
    size_t end = positions_->size();
    while (begin < end) {
      const size_t middle = begin + (end - begin) / 2;
      if (positions_->file(middle).file.file_path < statistics->min()) {
        begin = middle + 1;
      } else {
        end = middle;
      }
    }
    for (; begin < positions_->size(); ++begin) {
      if (positions_->file(begin).file.file_path > statistics->max()) return true;
      if (wanted_[begin]) return false;
    }
    return true;
  }

  template <typename ColumnReader, typename Value>
  static arrow::Result<int64_t> ReadValues(ColumnReader* reader, int64_t rows, Value* values,
                                           std::vector<int16_t>* levels) {
    int64_t read = 0;
    levels->resize(static_cast<size_t>(rows));
    const int64_t got = reader->ReadBatch(rows, levels->data(), nullptr, values, &read);
    if (read != got) return Invalid("a path or position is null");
    return got;
  }

  arrow::Status ReadGroup(parquet::RowGroupReader& group) {
    const auto path_column = group.Column(path_leaf_);
    const auto position_column = group.Column(position_leaf_);
    auto* paths = static_cast<parquet::ByteArrayReader*>(path_column.get());
    auto* rows = static_cast<parquet::Int64Reader*>(position_column.get());
    std::vector<parquet::ByteArray> path_values(kBatchRows);
    std::vector<int64_t> row_values(kBatchRows);
    std::vector<int16_t> levels;
    int64_t left = group.metadata()->num_rows();
    while (left > 0) {
      ARROW_RETURN_NOT_OK(stop_.Poll());
      // Paths point into the page that they come from, which the next call may drop.
      ARROW_ASSIGN_OR_RAISE(const int64_t got, ReadValues(paths, std::min(left, kBatchRows),
                                                          path_values.data(), &levels));
      if (got <= 0) return Invalid("a row group ends {} rows early", left);
      for (int64_t begin = 0; begin < got;) {
        ARROW_ASSIGN_OR_RAISE(const int64_t matched,
                              ReadValues(rows, got - begin, row_values.data(), &levels));
        if (matched <= 0) return Invalid("a row group ends {} rows early", left - begin);
        for (int64_t i = 0; i < matched; ++i) {
          ARROW_RETURN_NOT_OK(AddRow(path_values[static_cast<size_t>(begin + i)],
                                     row_values[static_cast<size_t>(i)]));
        }
        begin += matched;
      }
      left -= got;
    }
    return arrow::Status::OK();
  }

  arrow::Status AddRow(const parquet::ByteArray& bytes, int64_t position) {
    const std::string_view path(reinterpret_cast<const char*>(bytes.ptr), bytes.len);
    if (!known_ || path != path_) {
      Flush();
      known_ = true;
      path_ = path;
      target_ = positions_->Find(path);
      if (target_ && (!wanted_[*target_] ||
                      positions_->file(*target_).sequence_number > delete_file_.sequence_number)) {
        target_.reset();
      }
    }
    if (!target_) return arrow::Status::OK();
    const int64_t count = positions_->file(*target_).file.record_count;
    if (position < 0 || position >= count) {
      return Invalid("it deletes position {} of data file {}, which has {} rows", position, path_,
                     count);
    }
    pending_.push_back(static_cast<uint32_t>(position));
    if (static_cast<int64_t>(pending_.size()) >= kBatchRows) Flush();
    return arrow::Status::OK();
  }

  void Flush() {
    if (target_) positions_->Add(*target_, pending_);
    pending_.clear();
  }

  const LiveFile& delete_file_;
  const std::vector<bool>& wanted_;
  DeletedPositions* const positions_;
  arrow::StopToken stop_;
  int path_leaf_ = 0;
  int position_leaf_ = 0;
  bool known_ = false;  ///< path_ and target_ are those of the row before
  std::string path_;
  std::optional<size_t> target_;
  std::vector<uint32_t> pending_;  ///< positions of target_
};

}  // namespace

arrow::Status ReadPositionDeletes(const FileIO& io, const LiveFile& delete_file,
                                  const std::vector<bool>& wanted, DeletedPositions* positions,
                                  MemoryAccount* memory, const arrow::StopToken& stop) {
  if (!HasFormat(delete_file.file, "PARQUET")) {
    return Invalid(
        "delete file {} is {}; only Parquet files and deletion vectors are supported by this "
        "version of Thalweg",
        delete_file.file.file_path, delete_file.file.file_format);
  }
  const Reservation held(memory, kWorkingBytes);
  return WithParquetErrors(kReading, delete_file.file.file_path,
                           [&] { return Reader(delete_file, wanted, positions, stop).Read(io); });
}

}  // namespace thalweg::iceberg
