#include "task/output_collector.h"

#include <algorithm>
#include <numeric>

#include "util/status.h"
#include "util/units.h"
#include "util/uuid.h"

namespace thalweg {

arrow::Result<RowDigest> DigestOfUnit(const Table& table, const OutputUnit& unit, int64_t rows) {
  ARROW_ASSIGN_OR_RAISE(auto source, table.ReadBack(unit));
  std::vector<int> columns(source->schema()->num_fields());
  std::iota(columns.begin(), columns.end(), 0);
  RowDigest digest;
  int64_t seen = 0;
  for (int part = 0; part < source->num_parts() && seen < rows; ++part) {
    ARROW_ASSIGN_OR_RAISE(auto stream, source->OpenPart(part, columns));
    while (seen < rows) {
      ARROW_ASSIGN_OR_RAISE(auto next, stream->Next());
      if (!next) break;
      const auto batch = next->batch->Slice(0, std::min(next->batch->num_rows(), rows - seen));
      ARROW_RETURN_NOT_OK(digest.Update(*batch));
      seen += batch->num_rows();
    }
  }
  if (seen != rows) {
    return Invalid("{}: read back, the file has {} rows instead of {}", unit.id, seen, rows);
  }
  return digest;
}

class OutputCollector::Writer : public SortedFileWriter {
 public:
  Writer(OutputCollector* collector, int placement, std::unique_ptr<OutputFile> file)
      : collector_(collector), placement_(placement), file_(std::move(file)) {}

  arrow::Status Write(const arrow::RecordBatch& batch) override {
    if (collector_->digests()) ARROW_RETURN_NOT_OK(digest_.Update(batch));
    rows_ += batch.num_rows();
    return file_->Write(batch);
  }

  arrow::Status EndRowGroup() override {
    if (group_rows_ == 0) {
      group_rows_ = rows_;
      group_digest_ = digest_;
    }
    return file_->EndRowGroup();
  }

  int64_t bytes_estimate() const override { return file_->bytes_estimate(); }

  arrow::Result<int64_t> Finish() override {
    ARROW_ASSIGN_OR_RAISE(auto unit, file_->Finish());
    if (unit.rows != rows_) {
      return Invalid("{}: its footer says {} rows, {} were written", unit.id, unit.rows, rows_);
    }
    if (collector_->digests()) {
      const bool first_group = collector_->verify_ == Verify::kDigest && group_rows_ > 0;
      ARROW_ASSIGN_OR_RAISE(
          auto read, DigestOfUnit(collector_->table_, unit, first_group ? group_rows_ : rows_));
      if (read != (first_group ? group_digest_ : digest_)) {
        return Invalid("{}: read back, the file differs from what was written", unit.id);
      }
    }
    const int64_t bytes = unit.bytes;
    std::lock_guard<std::mutex> lock(collector_->mutex_);
    if (!collector_->files_.emplace(placement_, File{std::move(unit), digest_}).second) {
      return Invalid("two output files claim place {} of the sort", placement_);
    }
    counted_ = true;
    return bytes;
  }

  arrow::Status Discard() override {
    if (counted_) {
      std::lock_guard<std::mutex> lock(collector_->mutex_);
      collector_->files_.erase(placement_);
      counted_ = false;
    }
    return file_->Discard();
  }

 private:
  OutputCollector* const collector_;
  const int placement_;
  const std::unique_ptr<OutputFile> file_;
  int64_t rows_ = 0;
  RowDigest digest_;
  int64_t group_rows_ = 0;  // of the first row group, once it is complete
  RowDigest group_digest_;
  bool counted_ = false;
};

arrow::Status OutputCollector::ObserveInput(const arrow::RecordBatch& batch) {
  RowDigest digest;
  if (digests()) ARROW_RETURN_NOT_OK(digest.Update(batch));
  std::lock_guard<std::mutex> lock(mutex_);
  input_digest_.Merge(digest);
  input_rows_ += batch.num_rows();
  return arrow::Status::OK();
}

std::string OutputCollector::CubeId(int cube) {
  if (!context_.spec) return "";
  std::string& id = cube_ids_[cube];
  if (id.empty()) id = NewUuid();
  return id;
}

arrow::Result<std::unique_ptr<SortedFileWriter>> OutputCollector::NewFile(
    const FilePlacement& placement) {
  std::unique_lock<std::mutex> lock(mutex_);
  // Not the place in the sort: a file that is cut again there must not meet the one that is being
  // discarded.
  const int number = next_number_++;
  const std::string cube_id = CubeId(placement.cube);
  lock.unlock();
  ARROW_ASSIGN_OR_RAISE(auto file, table_.NewOutputFile(context_, cube_id, number));
  return std::make_unique<Writer>(this, placement.file, std::move(file));
}

arrow::Result<std::vector<OutputUnit>> OutputCollector::Outputs(int64_t expected_rows) const {
  std::vector<OutputUnit> units = Finished();
  std::lock_guard<std::mutex> lock(mutex_);
  int64_t rows = 0;
  RowDigest digest;
  for (const auto& [placement, file] : files_) {
    rows += file.unit.rows;
    digest.Merge(file.digest);
  }
  if (rows != input_rows_ || (expected_rows >= 0 && rows != expected_rows)) {
    return Invalid("{}: {} rows expected, {} read, {} written: nothing is committed", table_.name(),
                   expected_rows >= 0 ? FormatCount(expected_rows) : "any number of",
                   FormatCount(input_rows_), FormatCount(rows));
  }
  if (digest != input_digest_) {
    return Invalid(
        "{}: the rows written differ from the rows read (digest {} instead of {}): nothing is "
        "committed",
        table_.name(), digest.ToHex(), input_digest_.ToHex());
  }
  return units;
}

std::vector<OutputUnit> OutputCollector::Finished() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<OutputUnit> units;
  units.reserve(files_.size());
  for (const auto& [placement, file] : files_) units.push_back(file.unit);
  return units;
}

void OutputCollector::DiscardAll() {
  std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& [placement, file] : files_) (void)table_.DeleteFile(file.unit.id);
  files_.clear();
}

std::string OutputCollector::InputDigest() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return digests() ? input_digest_.ToHex() : "";
}

std::string OutputCollector::OutputDigest() const {
  std::lock_guard<std::mutex> lock(mutex_);
  RowDigest digest;
  for (const auto& [placement, file] : files_) digest.Merge(file.digest);
  return digests() ? digest.ToHex() : "";
}

}  // namespace thalweg
