#include "sort/partial_fit.h"

#include <algorithm>

#include "sort/key_rows.h"
#include "util/binary.h"
#include "util/status.h"

namespace thalweg {
namespace {

constexpr std::string_view kMagic = "THWSAM01";  // the last two are the version
constexpr uint32_t kMostCandidates = 1 << 17;
constexpr int64_t kMostBytes = int64_t{1} << 40;

template <typename T>
arrow::Status Take(std::string_view* bytes, T* value) {
  return TakeValue(bytes, value) ? arrow::Status::OK() : Invalid("key sample: truncated");
}

void PutText(std::string_view text, std::string* out) {
  PutValue<uint32_t>(static_cast<uint32_t>(text.size()), out);
  out->append(text);
}

arrow::Status TakeText(std::string_view* bytes, std::string_view* text) {
  uint32_t size = 0;
  ARROW_RETURN_NOT_OK(Take(bytes, &size));
  if (size > bytes->size()) return Invalid("key sample: truncated");
  *text = bytes->substr(0, size);
  bytes->remove_prefix(size);
  return arrow::Status::OK();
}

}  // namespace

arrow::Result<PartialFit> PartialFit::Make(const arrow::Schema& schema,
                                           std::vector<int> key_columns, Algorithm algorithm) {
  const auto fields = static_cast<size_t>(schema.num_fields());
  if (fields < 1 || fields > 4 || key_columns.size() != fields) {
    return Invalid("clustering needs one to four key columns, got {}", fields);
  }
  PartialFit fit(WithoutDictionaries(schema), std::move(key_columns));
  for (size_t k = 0; k < fields; ++k) {
    ARROW_ASSIGN_OR_RAISE(KeyType type,
                          KeyTypeOf(*schema.field(static_cast<int>(k))->type(), algorithm));
    fit.types_.push_back(type);
    fit.columns_.emplace_back(type, fit.key_columns_[k]);
  }
  return fit;
}

arrow::Status PartialFit::Add(const RowBatch& rows) {
  const arrow::RecordBatch& batch = *rows.batch;
  const uint64_t* addresses = rows.addresses ? rows.addresses->raw_values() : nullptr;
  for (size_t k = 0; k < columns_.size(); ++k) {
    const auto& column = batch.column(static_cast<int>(k));
    ARROW_RETURN_NOT_OK(columns_[k].Add(*column, rows.first_address, addresses));
    nulls_[k] += column->ComputeLogicalNullCount();
  }
  row_count_ += batch.num_rows();
  return row_sample_.Add(batch, rows.first_address, addresses);
}

arrow::Status PartialFit::Merge(PartialFit other) {
  if (other.key_columns_ != key_columns_ || !schema_->Equals(*other.schema_)) {
    return Invalid("key samples of different columns cannot be merged");
  }
  if (other.row_count_ > INT64_MAX - row_count_) return Invalid("key samples: too many rows");
  for (size_t k = 0; k < columns_.size(); ++k) {
    ARROW_RETURN_NOT_OK(columns_[k].Merge(other.columns_[k]));
    nulls_[k] += other.nulls_[k];
  }
  row_count_ += other.row_count_;
  return row_sample_.Merge(std::move(other.row_sample_));
}

arrow::Result<FittedKeys> PartialFit::Finish(Curve curve, int bits_per_dim) {
  std::vector<ColumnModel> models;
  for (const ColumnSample& sample : columns_) {
    ARROW_ASSIGN_OR_RAISE(auto model, sample.Finish());
    models.push_back(std::move(model));
  }
  ARROW_ASSIGN_OR_RAISE(auto encoder, KeyEncoder::Make(curve, bits_per_dim, std::move(models)));
  ARROW_ASSIGN_OR_RAISE(auto rows, row_sample_.Finish());
  std::vector<int> positions(columns_.size());
  for (size_t k = 0; k < positions.size(); ++k) positions[k] = static_cast<int>(k);
  ARROW_ASSIGN_OR_RAISE(auto keys, KeyVector::Encode(encoder, *rows, positions));
  FittedKeys fitted{std::move(encoder), {}, row_count_, {0, 0, 0, 0}};
  for (int64_t i = 0; i < keys.size(); ++i) fitted.row_sample.push_back(keys[i]);
  std::sort(fitted.row_sample.begin(), fitted.row_sample.end());
  std::copy(nulls_, nulls_ + 4, fitted.null_rows_per_column);
  return fitted;
}

arrow::Result<std::string> PartialFit::Serialize() {
  std::string out(kMagic);
  PutValue<int64_t>(row_count_, &out);
  PutValue<uint32_t>(static_cast<uint32_t>(columns_.size()), &out);
  for (size_t k = 0; k < columns_.size(); ++k) {
    PutValue<int32_t>(key_columns_[k], &out);
    PutValue<int64_t>(nulls_[k], &out);
    PutValue<int64_t>(columns_[k].width(), &out);
    ARROW_ASSIGN_OR_RAISE(const auto candidates, columns_[k].Retained());
    PutValue<uint32_t>(static_cast<uint32_t>(candidates.size()), &out);
    for (const auto& candidate : candidates) {
      PutValue<uint64_t>(candidate.address, &out);
      PutText(candidate.encoded, &out);
    }
  }
  ARROW_ASSIGN_OR_RAISE(const auto rows, row_sample_.Serialize());
  out += rows;
  return out;
}

arrow::Result<PartialFit> PartialFit::Deserialize(std::string_view bytes, Algorithm algorithm) {
  if (!bytes.starts_with(kMagic)) {
    return Invalid("key sample: not one, or of an unknown version");
  }
  bytes.remove_prefix(kMagic.size());
  int64_t rows = 0;
  uint32_t columns = 0;
  ARROW_RETURN_NOT_OK(Take(&bytes, &rows));
  ARROW_RETURN_NOT_OK(Take(&bytes, &columns));
  if (rows < 0 || columns < 1 || columns > 4) return Invalid("key sample: impossible counts");
  struct Column {
    int32_t position = 0;
    int64_t nulls = 0, width = 0;
    std::vector<ColumnSample::Candidate> candidates;
  };
  std::vector<Column> read(columns);
  std::vector<int> positions;
  for (Column& column : read) {
    uint32_t count = 0;
    ARROW_RETURN_NOT_OK(Take(&bytes, &column.position));
    ARROW_RETURN_NOT_OK(Take(&bytes, &column.nulls));
    ARROW_RETURN_NOT_OK(Take(&bytes, &column.width));
    ARROW_RETURN_NOT_OK(Take(&bytes, &count));
    if (column.position < 0 || column.nulls < 0 || column.nulls > rows || column.width < 0 ||
        column.width > kMostBytes || count > kMostCandidates || count > rows) {
      return Invalid("key sample: impossible counts");
    }
    for (uint32_t i = 0; i < count; ++i) {
      ColumnSample::Candidate candidate{};
      std::string_view encoded;
      ARROW_RETURN_NOT_OK(Take(&bytes, &candidate.address));
      ARROW_RETURN_NOT_OK(TakeText(&bytes, &encoded));
      candidate.encoded = encoded;
      column.candidates.push_back(std::move(candidate));
    }
    positions.push_back(column.position);
  }
  ARROW_ASSIGN_OR_RAISE(auto row_sample, RowSample::Deserialize(bytes));
  ARROW_ASSIGN_OR_RAISE(auto fit, Make(*row_sample.schema(), std::move(positions), algorithm));
  fit.row_count_ = rows;
  for (uint32_t k = 0; k < columns; ++k) {
    fit.nulls_[k] = read[k].nulls;
    ARROW_ASSIGN_OR_RAISE(fit.columns_[k],
                          ColumnSample::FromRetained(fit.types_[k], read[k].position, read[k].width,
                                                     read[k].candidates));
  }
  fit.row_sample_ = std::move(row_sample);
  return fit;
}

}  // namespace thalweg
