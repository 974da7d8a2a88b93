#include "task/shuffle.h"

#include <arrow/buffer.h>
#include <arrow/io/file.h>
#include <arrow/ipc/writer.h>
#include <arrow/util/compression.h>

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "sort/gather.h"
#include "sort/key_rows.h"
#include "task/row_digest.h"
#include "task/sort_setup.h"
#include "util/status.h"
#include "util/units.h"
#include "util/uuid.h"

namespace thalweg {
namespace {

/// The order in which row addresses count units: by id, numbers as numbers.
bool ComesBefore(const UnitDescriptor& a, const UnitDescriptor& b) {
  const auto is_number = [](const std::string& id) {
    return !id.empty() && id.find_first_not_of("0123456789") == std::string::npos;
  };
  if (is_number(a.id) && is_number(b.id) && a.id.size() != b.id.size()) {
    return a.id.size() < b.id.size();
  }
  return a.id < b.id;
}

arrow::Status CheckUnits(const TaskEnvelope& task, int first, int end) {
  if (first >= 0 && first < end && static_cast<size_t>(end) <= task.sources.size()) {
    return arrow::Status::OK();
  }
  return Usage("units {} to {} of a selection of {}", first, end, task.sources.size());
}

/// Rows of some units of a selection, with the addresses that they have in the whole of it.
class SomeUnits : public RowSource {
 public:
  SomeUnits(std::unique_ptr<RowSource> rows, int first)
      : rows_(std::move(rows)), shift_(static_cast<uint64_t>(first) << 32) {}
  const std::shared_ptr<arrow::Schema>& schema() const override { return rows_->schema(); }
  int num_parts() const override { return rows_->num_parts(); }
  int64_t num_rows() const override { return rows_->num_rows(); }
  int64_t encoded_bytes() const override { return rows_->encoded_bytes(); }
  std::string part_name(int part) const override { return rows_->part_name(part); }
  arrow::Result<std::unique_ptr<RowStream>> OpenPart(int part,
                                                     const std::vector<int>& columns) override {
    ARROW_ASSIGN_OR_RAISE(auto stream, rows_->OpenPart(part, columns));
    return std::make_unique<Stream>(std::move(stream), shift_);
  }

 private:
  class Stream : public RowStream {
   public:
    Stream(std::unique_ptr<RowStream> rows, uint64_t shift)
        : rows_(std::move(rows)), shift_(shift) {}
    arrow::Result<std::optional<RowBatch>> Next() override {
      ARROW_ASSIGN_OR_RAISE(auto batch, rows_->Next());
      if (!batch) return batch;
      batch->first_address += shift_;
      if (batch->addresses && shift_ != 0) {
        const int64_t rows = batch->addresses->length();
        ARROW_ASSIGN_OR_RAISE(auto shifted, arrow::AllocateBuffer(rows * sizeof(uint64_t)));
        auto* out = shifted->mutable_data_as<uint64_t>();
        for (int64_t i = 0; i < rows; ++i) out[i] = batch->addresses->Value(i) + shift_;
        batch->addresses = std::make_shared<arrow::UInt64Array>(
            rows, std::shared_ptr<arrow::Buffer>(std::move(shifted)));
      }
      return batch;
    }

   private:
    const std::unique_ptr<RowStream> rows_;
    const uint64_t shift_;
  };
  const std::unique_ptr<RowSource> rows_;
  const uint64_t shift_;
};

arrow::Result<std::unique_ptr<RowSource>> ScanUnits(Table& table, const TaskEnvelope& task,
                                                    int first, int end, const ReadOptions& read) {
  ARROW_RETURN_NOT_OK(CheckUnits(task, first, end));
  ARROW_RETURN_NOT_OK(CheckSchema(table, task));
  const std::vector<UnitDescriptor> units(task.sources.begin() + first, task.sources.begin() + end);
  ARROW_ASSIGN_OR_RAISE(auto rows, table.Scan(units, task.snapshot_id, read));
  return std::make_unique<SomeUnits>(std::move(rows), first);
}

/// Collects the rows of each slice and writes them as pieces.
class PieceWriter {
 public:
  PieceWriter(std::string folder, std::shared_ptr<arrow::Schema> schema, size_t slices,
              int64_t piece_bytes, MemoryAccount* memory, ScanReport* report)
      : folder_(std::move(folder)),
        schema_(std::move(schema)),
        slices_(slices),
        piece_bytes_(piece_bytes),
        memory_(memory),
        report_(report) {}

  ~PieceWriter() {
    std::error_code ignored;
    for (const auto& path : paths_) std::filesystem::remove(path, ignored);
  }
  void Keep() { paths_.clear(); }

  arrow::Status Add(size_t slice, std::shared_ptr<arrow::RecordBatch> rows) {
    Slice& to = slices_[slice];
    const int64_t bytes = ReferencedBytes(*rows);
    to.bytes += bytes;
    held_ += bytes;
    to.held.emplace_back(memory_, bytes);
    to.batches.push_back(std::move(rows));
    if (to.bytes >= piece_bytes_) return Write(slice);
    if (held_ <= memory_->limit() / 4) return arrow::Status::OK();
    const auto largest =
        std::max_element(slices_.begin(), slices_.end(),
                         [](const Slice& a, const Slice& b) { return a.bytes < b.bytes; });
    return Write(static_cast<size_t>(largest - slices_.begin()));
  }

  arrow::Status Finish() {
    for (size_t slice = 0; slice < slices_.size(); ++slice) {
      if (!slices_[slice].batches.empty()) ARROW_RETURN_NOT_OK(Write(slice));
    }
    return arrow::Status::OK();
  }

 private:
  struct Slice {
    std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
    std::vector<Reservation> held;
    int64_t bytes = 0;
    int pieces = 0;
  };

  arrow::Status Write(size_t number) {
    Slice& slice = slices_[number];
    ScanReport::Piece piece;
    piece.slice = static_cast<int>(number);
    piece.file = fmt::format("slice-{:05}-{:05}.arrows", number, slice.pieces++);
    const std::string path = std::filesystem::path(folder_) / piece.file;
    ARROW_ASSIGN_OR_RAISE(auto out, arrow::io::FileOutputStream::Open(path));
    paths_.push_back(path);
    ARROW_ASSIGN_OR_RAISE(auto rows, arrow::ConcatenateRecordBatches(slice.batches));
    piece.rows = rows->num_rows();
    auto options = arrow::ipc::IpcWriteOptions::Defaults();
    options.use_threads = false;
    ARROW_ASSIGN_OR_RAISE(options.codec, arrow::util::Codec::Create(arrow::Compression::LZ4_FRAME));
    ARROW_ASSIGN_OR_RAISE(auto writer, arrow::ipc::MakeStreamWriter(out, schema_, options));
    ARROW_RETURN_NOT_OK(writer->WriteRecordBatch(*rows));
    ARROW_RETURN_NOT_OK(writer->Close());
    ARROW_ASSIGN_OR_RAISE(piece.bytes, out->Tell());
    ARROW_RETURN_NOT_OK(out->Close());
    report_->pieces.push_back(std::move(piece));
    held_ -= slice.bytes;
    slice.bytes = 0;
    slice.batches.clear();
    slice.held.clear();
    return arrow::Status::OK();
  }

  const std::string folder_;
  const std::shared_ptr<arrow::Schema> schema_;
  std::vector<Slice> slices_;
  const int64_t piece_bytes_;
  MemoryAccount* const memory_;
  ScanReport* const report_;
  std::vector<std::string> paths_;
  int64_t held_ = 0;
};

/// The rows of pieces under the schema that a scan of the table has.
class PieceRows : public RowSource {
 public:
  PieceRows(std::unique_ptr<RowSource> pieces, std::shared_ptr<arrow::Schema> schema)
      : pieces_(std::move(pieces)), schema_(std::move(schema)) {}
  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  int num_parts() const override { return pieces_->num_parts(); }
  int64_t num_rows() const override { return pieces_->num_rows(); }
  int64_t encoded_bytes() const override { return -1; }
  bool rereadable() const override { return pieces_->rereadable(); }
  std::string part_name(int part) const override { return pieces_->part_name(part); }
  arrow::Result<std::unique_ptr<RowStream>> OpenPart(int part,
                                                     const std::vector<int>& columns) override {
    arrow::FieldVector fields;
    for (const int column : columns) fields.push_back(schema_->field(column));
    ARROW_ASSIGN_OR_RAISE(auto stream, pieces_->OpenPart(part, columns));
    return std::make_unique<Stream>(std::move(stream),
                                    arrow::schema(std::move(fields), schema_->metadata()));
  }

 private:
  class Stream : public RowStream {
   public:
    Stream(std::unique_ptr<RowStream> rows, std::shared_ptr<arrow::Schema> schema)
        : rows_(std::move(rows)), schema_(std::move(schema)) {}
    arrow::Result<std::optional<RowBatch>> Next() override {
      ARROW_ASSIGN_OR_RAISE(auto rows, rows_->Next());
      if (!rows) return rows;
      rows->batch =
          arrow::RecordBatch::Make(schema_, rows->batch->num_rows(), rows->batch->columns());
      return rows;
    }

   private:
    const std::unique_ptr<RowStream> rows_;
    const std::shared_ptr<arrow::Schema> schema_;
  };
  const std::unique_ptr<RowSource> pieces_;
  const std::shared_ptr<arrow::Schema> schema_;
};

int64_t TotalRows(const std::vector<UnitDescriptor>& units) {
  return std::accumulate(units.begin(), units.end(), int64_t{0},
                         [](int64_t sum, const auto& unit) { return sum + unit.rows; });
}

bool RowsAreExact(const std::vector<UnitDescriptor>& units) {
  return std::all_of(units.begin(), units.end(), [](const auto& unit) { return unit.rows_exact; });
}

}  // namespace

arrow::Result<std::vector<SelectionEnvelope>> PrepareSelections(const Table& table,
                                                                const ClusteringSpec& spec,
                                                                const Layout& layout,
                                                                const Plan& plan,
                                                                const PrepareOptions& prepare) {
  ARROW_ASSIGN_OR_RAISE(const auto schema, table.schema());
  std::vector<SelectionEnvelope> selections;
  for (const Selection& selection : plan.selections) {
    std::vector<std::string> ids;
    ids.reserve(selection.units.size());
    for (const int unit : selection.units) ids.push_back(layout.units[unit].id);
    SelectionEnvelope envelope;
    TaskEnvelope& task = envelope.task;
    ARROW_ASSIGN_OR_RAISE(task.sources, table.Describe(ids));
    std::sort(task.sources.begin(), task.sources.end(), ComesBefore);
    task.table = table.name();
    task.snapshot_id = table.snapshot_id();
    task.spec = spec;
    task.run_id = prepare.run_id;
    task.selection_id = NewUuid();
    task.schema_id = SchemaId(*schema);
    task.selection_rows = TotalRows(task.sources);
    task.target_file_bytes = prepare.target_file_bytes;
    task.target_file_rows = prepare.target_file_rows;
    task.target_row_group_bytes = prepare.target_row_group_bytes;
    task.planned = RecordOf(plan);
    selections.push_back(std::move(envelope));
  }
  return selections;
}

arrow::Result<PartialFit> SampleUnits(Table& table, const SelectionEnvelope& selection, int first,
                                      int end, const ExecuteOptions& options) {
  MemoryAccount memory(MemoryBudget(options));
  const TaskEnvelope& task = selection.task;
  ARROW_ASSIGN_OR_RAISE(auto rows,
                        ScanUnits(table, task, first, end, ReadOptionsFor(options, &memory)));
  ARROW_ASSIGN_OR_RAISE(const auto key_columns, KeyColumns(*rows->schema(), task.spec));
  return SampleRows(*rows, key_columns, task.spec.algorithm,
                    SortOptions(options, task.spec, &memory));
}

arrow::Result<SelectionEnvelope> FitSelection(SelectionEnvelope selection, const FittedKeys& fitted,
                                              int slices) {
  TaskEnvelope& task = selection.task;
  const int64_t live_rows = TotalRows(task.sources);
  if (fitted.rows > live_rows || (fitted.rows < live_rows && RowsAreExact(task.sources))) {
    return Invalid(
        "{}: the table's metadata counts {} live rows in the selected units, reading finds {}",
        task.table, FormatCount(live_rows), FormatCount(fitted.rows));
  }
  ARROW_ASSIGN_OR_RAISE(task.fitted, SerializeFitted(fitted));
  task.fitted_hash = FittedHash(task.fitted);
  task.selection_rows = fitted.rows;
  int64_t bytes = 0;
  for (const auto& unit : task.sources) bytes += unit.bytes;
  task.target_file_rows =
      FileRows(fitted.rows, bytes, task.target_file_rows, task.target_file_bytes);
  selection.borders = SliceBorders(fitted, slices);
  return selection;
}

arrow::Result<SelectionEnvelope> FitSelection(SelectionEnvelope selection,
                                              std::vector<PartialFit> samples, int slices) {
  if (samples.empty()) return Usage("no samples to fit a model to");
  for (size_t i = 1; i < samples.size(); ++i) {
    ARROW_RETURN_NOT_OK(samples[0].Merge(std::move(samples[i])));
  }
  const ClusteringSpec& spec = selection.task.spec;
  ARROW_ASSIGN_OR_RAISE(const auto fitted, samples[0].Finish(spec.curve, spec.bits_per_dim));
  return FitSelection(std::move(selection), fitted, slices);
}

arrow::Result<ScanReport> ScatterUnits(Table& table, const SelectionEnvelope& selection, int first,
                                       int end, const std::string& folder, int64_t piece_bytes,
                                       const ExecuteOptions& options) {
  const TaskEnvelope& task = selection.task;
  if (!selection.fitted() || task.fitted.empty()) {
    return Usage("selection {} has no key model yet: fit one first", task.selection_id);
  }
  ARROW_ASSIGN_OR_RAISE(const auto fitted, DeserializeFitted(task.fitted));
  MemoryAccount memory(MemoryBudget(options));
  ARROW_ASSIGN_OR_RAISE(auto rows,
                        ScanUnits(table, task, first, end, ReadOptionsFor(options, &memory)));
  ARROW_ASSIGN_OR_RAISE(const auto key_columns, KeyColumns(*rows->schema(), task.spec));
  if (key_columns.size() != fitted.encoder.models().size()) {
    return Invalid("selection {}: its key model has {} columns, its clustering {}",
                   task.selection_id, fitted.encoder.models().size(), key_columns.size());
  }
  ScanReport report;
  report.run_id = task.run_id;
  report.selection_id = task.selection_id;
  report.fitted_hash = task.fitted_hash;
  report.first_unit = first;
  report.end_unit = end;
  std::vector<Key128> borders{0};
  borders.insert(borders.end(), selection.borders.begin(), selection.borders.end());
  const size_t slices = borders.size();
  const KeyRanges ranges(std::move(borders), fitted.encoder.key_bits());
  const auto schema = WithoutDictionaries(*rows->schema());
  PieceWriter pieces(folder, schema, slices, std::max<int64_t>(1, piece_bytes), &memory, &report);
  std::vector<int> columns(schema->num_fields());
  std::iota(columns.begin(), columns.end(), 0);
  RowDigest digest;
  std::vector<uint32_t> slice_of;
  std::vector<std::vector<uint64_t>> rows_of(slices);
  for (int part = 0; part < rows->num_parts(); ++part) {
    ARROW_ASSIGN_OR_RAISE(auto stream, rows->OpenPart(part, columns));
    for (;;) {
      ARROW_RETURN_NOT_OK(options.stop.Poll());
      ARROW_ASSIGN_OR_RAISE(auto read, stream->Next());
      if (!read) break;
      ARROW_ASSIGN_OR_RAISE(const auto keys,
                            KeyVector::Encode(fitted.encoder, *read->batch, key_columns));
      ARROW_ASSIGN_OR_RAISE(const auto batch, DecodeDictionaries(read->batch));
      if (batch->num_rows() == 0) continue;
      if (options.verify != Verify::kCounts) ARROW_RETURN_NOT_OK(digest.Update(*batch));
      report.rows += batch->num_rows();
      slice_of.resize(batch->num_rows());
      ranges.Find(keys, slice_of.data());
      for (auto& of_slice : rows_of) of_slice.clear();
      for (size_t row = 0; row < slice_of.size(); ++row) rows_of[slice_of[row]].push_back(row);
      RowGatherer gatherer(schema);
      ARROW_RETURN_NOT_OK(
          gatherer.Add(arrow::RecordBatch::Make(schema, batch->num_rows(), batch->columns()))
              .status());
      for (size_t slice = 0; slice < slices; ++slice) {
        if (rows_of[slice].empty()) continue;
        ARROW_ASSIGN_OR_RAISE(
            auto some,
            gatherer.Gather(rows_of[slice].data(), static_cast<int64_t>(rows_of[slice].size())));
        ARROW_RETURN_NOT_OK(pieces.Add(slice, std::move(some)));
      }
      if (options.progress) options.progress({"scatter", report.rows, rows->num_rows()});
    }
  }
  ARROW_RETURN_NOT_OK(pieces.Finish());
  if (options.verify != Verify::kCounts) report.digest = digest.ToHex();
  pieces.Keep();
  return report;
}

arrow::Result<std::unique_ptr<RowSource>> RowsOfPieces(Table& table, const TaskEnvelope& task,
                                                       std::unique_ptr<RowSource> pieces) {
  ARROW_ASSIGN_OR_RAISE(const auto rows, ScanUnits(table, task, 0, 1, {}));
  auto schema = WithoutDictionaries(*rows->schema());
  const arrow::Schema& given = *pieces->schema();
  bool alike = given.num_fields() == schema->num_fields();
  for (int i = 0; alike && i < given.num_fields(); ++i) {
    alike = given.field(i)->name() == schema->field(i)->name() &&
            given.field(i)->type()->Equals(schema->field(i)->type());
  }
  if (!alike) {
    return Invalid("task {}: the rows given have the columns {}, its own are {}", task.task,
                   fmt::join(given.field_names(), ", "), fmt::join(schema->field_names(), ", "));
  }
  return std::make_unique<PieceRows>(std::move(pieces), std::move(schema));
}

}  // namespace thalweg
