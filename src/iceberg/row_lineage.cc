#include "iceberg/row_lineage.h"

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/util/key_value_metadata.h>

#include <algorithm>
#include <string>
#include <utility>

#include "util/status.h"

namespace thalweg::iceberg {
namespace {

Field LineageField(int32_t id, const char* name) {
  Field field;
  field.id = id;
  field.name = name;
  auto type = std::make_shared<Type>();
  type->kind = TypeKind::kLong;
  field.type = std::move(type);
  return field;
}

/// Position of the long column with this field id, -1 when there is none.
int PositionOf(const arrow::Schema& schema, int32_t id) {
  for (int i = 0; i < schema.num_fields(); ++i) {
    const arrow::Field& field = *schema.field(i);
    if (field.type()->id() == arrow::Type::INT64 && FieldIdOf(field) == id) return i;
  }
  return -1;
}

/// Shared with the streams, which may outlive the source.
using Files = std::shared_ptr<const std::vector<LineageOfFile>>;

class LineageStream : public RowStream {
 public:
  /// Positions in the batches, -1 when the column is not asked for.
  LineageStream(std::unique_ptr<RowStream> rows, Files files, int row_id, int last_updated)
      : rows_(std::move(rows)),
        files_(std::move(files)),
        row_id_(row_id),
        last_updated_(last_updated) {}

  arrow::Result<std::optional<RowBatch>> Next() override {
    ARROW_ASSIGN_OR_RAISE(auto batch, rows_->Next());
    if (!batch) return batch;
    ARROW_RETURN_NOT_OK(Fill(row_id_, &*batch, [](const LineageOfFile& file, uint64_t address) {
      return *file.first_row_id + static_cast<int64_t>(address & UINT32_MAX);
    }));
    ARROW_RETURN_NOT_OK(Fill(last_updated_, &*batch, [](const LineageOfFile& file, uint64_t) {
      return file.data_sequence_number;
    }));
    return batch;
  }

 private:
  template <typename ValueOf>
  arrow::Status Fill(int position, RowBatch* rows, ValueOf&& value_of) const {
    if (position < 0) return arrow::Status::OK();
    const arrow::RecordBatch& batch = *rows->batch;
    const auto& stored = static_cast<const arrow::Int64Array&>(*batch.column(position));
    if (stored.null_count() == 0) return arrow::Status::OK();
    arrow::Int64Builder filled;
    ARROW_RETURN_NOT_OK(filled.Reserve(batch.num_rows()));
    for (int64_t i = 0; i < batch.num_rows(); ++i) {
      const uint64_t address = rows->addresses ? rows->addresses->Value(i)
                                               : rows->first_address + static_cast<uint64_t>(i);
      if (!stored.IsNull(i)) {
        filled.UnsafeAppend(stored.Value(i));
        continue;
      }
      const uint64_t file = address >> 32;
      if (file >= files_->size()) {
        return Invalid("row lineage: a row of file {} where {} are known", file, files_->size());
      }
      const LineageOfFile& lineage = (*files_)[file];
      if (lineage.first_row_id) {
        filled.UnsafeAppend(value_of(lineage, address));
      } else {
        filled.UnsafeAppendNull();
      }
    }
    ARROW_ASSIGN_OR_RAISE(auto column, filled.Finish());
    ARROW_ASSIGN_OR_RAISE(rows->batch,
                          batch.SetColumn(position, batch.schema()->field(position), column));
    return arrow::Status::OK();
  }

  const std::unique_ptr<RowStream> rows_;
  const Files files_;
  const int row_id_;
  const int last_updated_;
};

/// Of a row's two columns, encoded, and what the columns take besides in each file (metadata of
/// their chunks, page headers, indexes), which tells where files are small.
constexpr int64_t kIdentityBytes = 4;
constexpr int64_t kIdentityFileBytes = 1200;

class LineageSource : public RowSource {
 public:
  LineageSource(std::unique_ptr<RowSource> rows, Files files, int row_id, int last_updated)
      : rows_(std::move(rows)),
        files_(std::move(files)),
        row_id_(row_id),
        last_updated_(last_updated) {}

  const std::shared_ptr<arrow::Schema>& schema() const override { return rows_->schema(); }
  int num_parts() const override { return rows_->num_parts(); }
  int64_t num_rows() const override { return rows_->num_rows(); }
  int64_t encoded_bytes() const override {
    const int64_t stored = rows_->encoded_bytes();
    if (stored < 0) return stored;
    int64_t added = 0;
    for (const auto& file : *files_) {
      if (file.rows_without > 0) added += kIdentityFileBytes + file.rows_without * kIdentityBytes;
    }
    return stored + added;
  }
  bool rereadable() const override { return rows_->rereadable(); }
  std::string part_name(int part) const override { return rows_->part_name(part); }

  arrow::Result<std::unique_ptr<RowStream>> OpenPart(int part,
                                                     const std::vector<int>& columns) override {
    ARROW_ASSIGN_OR_RAISE(auto stream, rows_->OpenPart(part, columns));
    auto asked = [&](int column) {
      const auto found = std::find(columns.begin(), columns.end(), column);
      return found == columns.end() ? -1 : static_cast<int>(found - columns.begin());
    };
    return std::make_unique<LineageStream>(std::move(stream), files_, asked(row_id_),
                                           asked(last_updated_));
  }

 private:
  const std::unique_ptr<RowSource> rows_;
  const Files files_;
  const int row_id_;
  const int last_updated_;
};

}  // namespace

Schema WithRowLineage(const Schema& schema) {
  Schema with = schema;
  if (with.FindById(kRowIdFieldId) == nullptr) {
    with.fields.push_back(LineageField(kRowIdFieldId, kRowIdName));
  }
  if (with.FindById(kLastUpdatedFieldId) == nullptr) {
    with.fields.push_back(LineageField(kLastUpdatedFieldId, kLastUpdatedName));
  }
  return with;
}

arrow::Result<std::unique_ptr<RowSource>> InheritRowLineage(std::unique_ptr<RowSource> source,
                                                            std::vector<LineageOfFile> files) {
  const int row_id = PositionOf(*source->schema(), kRowIdFieldId);
  const int last_updated = PositionOf(*source->schema(), kLastUpdatedFieldId);
  if (row_id < 0 || last_updated < 0) {
    return Invalid("row lineage: the rows have no columns {} and {}", kRowIdName, kLastUpdatedName);
  }
  return std::make_unique<LineageSource>(
      std::move(source), std::make_shared<const std::vector<LineageOfFile>>(std::move(files)),
      row_id, last_updated);
}

}  // namespace thalweg::iceberg
