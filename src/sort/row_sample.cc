#include "sort/row_sample.h"

#include <arrow/builder.h>
#include <arrow/compute/api_vector.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/reader.h>
#include <arrow/ipc/writer.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "key/sample.h"
#include "sort/gather.h"
#include "sort/key_rows.h"
#include "util/binary.h"
#include "util/status.h"

namespace thalweg {
namespace {

constexpr int64_t kMaxRows = 65536;
constexpr int64_t kMaxBytes = int64_t{16} << 20;
constexpr int64_t kRowOverhead = 64;
// Not the position of any column, so that rows are drawn independently of the columns' own samples.
constexpr int kRowPosition = std::numeric_limits<int>::max();
constexpr char kAddressColumn[] = "address";

}  // namespace

std::shared_ptr<arrow::Schema> WithoutDictionaries(const arrow::Schema& schema) {
  arrow::FieldVector fields = schema.fields();
  for (auto& field : fields) {
    if (field->type()->id() == arrow::Type::DICTIONARY) {
      field =
          field->WithType(static_cast<const arrow::DictionaryType&>(*field->type()).value_type());
    }
  }
  return arrow::schema(std::move(fields), schema.metadata());
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> DecodeDictionaries(
    const std::shared_ptr<arrow::RecordBatch>& batch) {
  auto is_dictionary = [](const auto& field) {
    return field->type()->id() == arrow::Type::DICTIONARY;
  };
  const auto& fields = batch->schema()->fields();
  if (std::none_of(fields.begin(), fields.end(), is_dictionary)) return batch;
  arrow::ArrayVector columns = batch->columns();
  for (auto& column : columns) {
    if (column->type_id() != arrow::Type::DICTIONARY) continue;
    const auto& coded = static_cast<const arrow::DictionaryArray&>(*column);
    ARROW_ASSIGN_OR_RAISE(column, arrow::compute::Take(*coded.dictionary(), *coded.indices()));
  }
  return arrow::RecordBatch::Make(WithoutDictionaries(*batch->schema()), batch->num_rows(),
                                  std::move(columns));
}

RowSample::RowSample(const std::shared_ptr<arrow::Schema>& schema)
    : schema_(WithoutDictionaries(*schema)), threshold_(std::numeric_limits<uint64_t>::max()) {}

int64_t RowSample::Capacity() const {
  return std::clamp<int64_t>(kMaxBytes / (widest_ + kRowOverhead), 1, kMaxRows);
}

arrow::Status RowSample::Add(const arrow::RecordBatch& batch, uint64_t first_address,
                             const uint64_t* addresses) {
  std::vector<Candidate> drawn;
  for (int64_t i = 0; i < batch.num_rows(); ++i) {
    const uint64_t address = addresses ? addresses[i] : first_address + static_cast<uint64_t>(i);
    const uint64_t priority = SamplePriority(address, kRowPosition);
    if (priority <= threshold_) drawn.push_back({priority, address, static_cast<uint64_t>(i)});
  }
  ARROW_ASSIGN_OR_RAISE(std::vector<int64_t> weights, RowWeights(batch));
  for (int64_t weight : weights) widest_ = std::max(widest_, weight);
  if (drawn.empty()) return arrow::Status::OK();

  RowGatherer gatherer(batch.schema());
  ARROW_RETURN_NOT_OK(
      gatherer.Add(arrow::RecordBatch::Make(batch.schema(), batch.num_rows(), batch.columns()))
          .status());
  std::vector<uint64_t> rows(drawn.size());
  for (size_t i = 0; i < drawn.size(); ++i) rows[i] = drawn[i].row;
  ARROW_ASSIGN_OR_RAISE(auto chunk,
                        gatherer.Gather(rows.data(), static_cast<int64_t>(rows.size())));
  ARROW_ASSIGN_OR_RAISE(chunk, DecodeDictionaries(chunk));
  for (size_t i = 0; i < drawn.size(); ++i) {
    candidates_.push_back({drawn[i].priority, drawn[i].address, RowAddress(chunks_.size(), i)});
  }
  chunks_.push_back(std::move(chunk));
  if (static_cast<int64_t>(candidates_.size()) > 2 * Capacity()) return Prune();
  return arrow::Status::OK();
}

arrow::Status RowSample::Prune() {
  const int64_t keep = std::min<int64_t>(Capacity(), static_cast<int64_t>(candidates_.size()));
  if (keep == 0) return arrow::Status::OK();
  std::nth_element(candidates_.begin(), candidates_.begin() + (keep - 1), candidates_.end());
  candidates_.resize(keep);
  threshold_ = std::min(threshold_, candidates_.back().priority);
  RowGatherer gatherer(schema_);
  for (auto& chunk : chunks_) ARROW_RETURN_NOT_OK(gatherer.Add(std::move(chunk)).status());
  std::vector<uint64_t> rows(candidates_.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] = candidates_[i].row;
    candidates_[i].row = RowAddress(0, i);
  }
  ARROW_ASSIGN_OR_RAISE(auto kept, gatherer.Gather(rows.data(), keep));
  chunks_.assign(1, kept);
  return arrow::Status::OK();
}

arrow::Status RowSample::Merge(RowSample other) {
  widest_ = std::max(widest_, other.widest_);
  for (Candidate candidate : other.candidates_) {
    candidate.row =
        RowAddress(AddressBatch(candidate.row) + chunks_.size(), AddressRow(candidate.row));
    candidates_.push_back(candidate);
  }
  for (auto& chunk : other.chunks_) chunks_.push_back(std::move(chunk));
  return Prune();
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> RowSample::Finish() {
  std::sort(candidates_.begin(), candidates_.end());
  ARROW_RETURN_NOT_OK(Prune());
  if (chunks_.empty()) return arrow::RecordBatch::MakeEmpty(schema_);
  std::sort(candidates_.begin(), candidates_.end());
  RowGatherer gatherer(schema_);
  ARROW_RETURN_NOT_OK(gatherer.Add(chunks_[0]).status());
  std::vector<uint64_t> rows(candidates_.size());
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = candidates_[i].row;
  return gatherer.Gather(rows.data(), static_cast<int64_t>(rows.size()));
}

arrow::Result<std::string> RowSample::Serialize() {
  ARROW_ASSIGN_OR_RAISE(auto rows, Finish());
  arrow::UInt64Builder addresses;
  for (const auto& candidate : candidates_)
    ARROW_RETURN_NOT_OK(addresses.Append(candidate.address));
  ARROW_ASSIGN_OR_RAISE(auto column, addresses.Finish());
  ARROW_ASSIGN_OR_RAISE(
      rows,
      rows->AddColumn(rows->num_columns(), arrow::field(kAddressColumn, arrow::uint64()), column));
  ARROW_ASSIGN_OR_RAISE(auto out, arrow::io::BufferOutputStream::Create());
  ARROW_ASSIGN_OR_RAISE(auto writer, arrow::ipc::MakeStreamWriter(out, rows->schema()));
  ARROW_RETURN_NOT_OK(writer->WriteRecordBatch(*rows));
  ARROW_RETURN_NOT_OK(writer->Close());
  ARROW_ASSIGN_OR_RAISE(auto buffer, out->Finish());
  std::string bytes;
  PutValue(widest_, &bytes);
  return bytes.append(buffer->ToString());
}

arrow::Result<RowSample> RowSample::Deserialize(std::string_view bytes) {
  int64_t widest = 0;
  if (!TakeValue(&bytes, &widest)) return Invalid("row sample: truncated");
  if (widest < 0) return Invalid("row sample: a row of {} bytes", widest);
  arrow::io::BufferReader input{arrow::Buffer::FromString(std::string(bytes))};
  ARROW_ASSIGN_OR_RAISE(auto reader, arrow::ipc::RecordBatchStreamReader::Open(&input));
  const int last = reader->schema()->num_fields() - 1;
  if (last < 0 || reader->schema()->field(last)->name() != kAddressColumn ||
      reader->schema()->field(last)->type()->id() != arrow::Type::UINT64) {
    return Invalid("row sample: its addresses are missing");
  }
  ARROW_ASSIGN_OR_RAISE(auto schema, reader->schema()->RemoveField(last));
  RowSample sample(schema);
  if (!sample.schema_->Equals(*schema)) return Invalid("row sample: it has dictionaries");
  std::shared_ptr<arrow::RecordBatch> rows;
  ARROW_RETURN_NOT_OK(reader->ReadNext(&rows));
  if (rows == nullptr) return sample;
  ARROW_RETURN_NOT_OK(rows->ValidateFull());
  if (rows->num_rows() > kMaxRows) return Invalid("row sample: {} rows", rows->num_rows());
  const auto column = std::static_pointer_cast<arrow::UInt64Array>(rows->column(last));
  if (column->null_count() > 0) return Invalid("row sample: a row without an address");
  ARROW_ASSIGN_OR_RAISE(rows, rows->RemoveColumn(last));
  ARROW_ASSIGN_OR_RAISE(const auto weights, RowWeights(*rows));
  sample.widest_ = widest;
  for (int64_t i = 0; i < rows->num_rows(); ++i) {
    const uint64_t address = column->Value(i);
    sample.widest_ = std::max(sample.widest_, weights[i]);
    sample.candidates_.push_back(
        {SamplePriority(address, kRowPosition), address, RowAddress(0, static_cast<uint64_t>(i))});
  }
  sample.chunks_.push_back(std::move(rows));
  return sample;
}

}  // namespace thalweg
