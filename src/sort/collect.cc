#include "sort/collect.h"

#include <arrow/memory_pool.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>

#include "sort/collector.h"
#include "sort/parallel.h"
#include "sort/row_sample.h"
#include "sort/spilled_rows.h"
#include "sort/spool.h"
#include "util/status.h"
#include "util/units.h"

namespace thalweg {
namespace {

constexpr int64_t kRowsPerMemoryPartition =
    int64_t{1} << 17;  // their keys and rows fit the second-level cache
constexpr int64_t kMaxMemoryCursors = int64_t{4} << 20;  // one per batch and partition
constexpr int64_t kMaxLoadBytes = int64_t{64} << 20;

/// The second pass. Each thread collects batches; when all of them together exceed their share of
/// the budget, each scatters what it holds.
class RowCollection {
 public:
  RowCollection(SortContext& context, RowSource& source, const std::vector<int>& key_columns,
                const FittedKeys& fitted)
      : context_(context),
        source_(source),
        key_columns_(key_columns),
        fitted_(fitted),
        schema_(WithoutDictionaries(*source.schema())),
        begin_(context.options.key_begin),
        end_(context.options.key_end.value_or(0)),
        limit_(context.memory->limit()) {}

  arrow::Result<CollectedRows> Run();

 private:
  struct Worker {
    Collector collector;
    std::vector<int64_t> rows;
    std::vector<int64_t> weights;
    std::vector<uint32_t> bin_of_row;
  };
  arrow::Status ReadParts(Worker& worker);
  arrow::Status Add(Worker& worker, std::shared_ptr<arrow::RecordBatch> batch);
  arrow::Status ScatterIfFull(Worker& worker);
  arrow::Status Scatter(Worker& worker);
  arrow::Status BeginScatter();
  std::vector<Key128> Borders(int64_t parts) const;

  SortContext& context_;
  RowSource& source_;
  const std::vector<int>& key_columns_;
  const FittedKeys& fitted_;
  const std::shared_ptr<arrow::Schema> schema_;
  const Key128 begin_;
  const Key128 end_;  // 0: none
  const int64_t limit_;
  KeyRanges bins_;
  SharedStatus shared_;
  std::atomic<int> next_part_{0};
  std::atomic<int64_t> held_{0};  // by all collectors
  std::atomic<int64_t> seen_rows_{0};
  std::atomic<int64_t> seen_bytes_{0};
  std::mutex mutex_;
  std::unique_ptr<SpilledRows> spilled_;
  std::shared_ptr<SpillFile> spill_;
};

std::vector<Key128> RowCollection::Borders(int64_t parts) const {
  const auto& sample = fitted_.row_sample;
  auto first = std::lower_bound(sample.begin(), sample.end(), begin_);
  auto last = end_ == 0 ? sample.end() : std::lower_bound(sample.begin(), sample.end(), end_);
  return EvenBorders({first, std::max(first, last)},
                     static_cast<int>(std::clamp<int64_t>(parts, 1, 1 << 16)));
}

arrow::Status RowCollection::BeginScatter() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (spilled_) return arrow::Status::OK();
  spill_ = SpillOf(source_);
  if (!spill_) {
    ARROW_ASSIGN_OR_RAISE(
        spill_, SpillFile::Make(context_.options.spill_dir, context_.options.max_spill_bytes));
  }
  const int64_t load_bytes =
      std::clamp(limit_ / (6 * context_.threads), int64_t{1} << 16, kMaxLoadBytes);
  // Rows still to come are taken to be like those seen; with rows unknown, as many again as the
  // sample stands for.
  const int64_t rows = std::max(fitted_.rows, seen_rows_.load());
  const double row_bytes = static_cast<double>(seen_bytes_) /
                           static_cast<double>(std::max<int64_t>(1, seen_rows_.load()));
  const auto parts = static_cast<int64_t>(static_cast<double>(rows) * row_bytes * 2 /
                                          static_cast<double>(load_bytes)) +
                     1;
  const int64_t share = held_ / context_.threads;
  const int64_t fan_out = MaxFanOut(share, schema_->num_fields());
  KeyRanges ranges(Borders(std::min(parts, fan_out)), fitted_.encoder.key_bits());
  spilled_ = std::make_unique<SpilledRows>(context_, fitted_.encoder, key_columns_, schema_, spill_,
                                           std::move(ranges), load_bytes);
  return arrow::Status::OK();
}

arrow::Status RowCollection::Scatter(Worker& worker) {
  ARROW_RETURN_NOT_OK(BeginScatter());
  const int64_t bytes = worker.collector.bytes();
  ARROW_RETURN_NOT_OK(spilled_->Scatter(worker.collector));
  held_ -= bytes;
  return arrow::Status::OK();
}

arrow::Status RowCollection::ScatterIfFull(Worker& worker) {
  const int64_t held = held_;
  const bool full =
      held > limit_ / 10 * 6 || (context_.memory->over() > -limit_ / 7 && held > limit_ / 7);
  if (!full || worker.collector.bytes() * 2 * context_.threads < held) return arrow::Status::OK();
  return Scatter(worker);
}

arrow::Status RowCollection::Add(Worker& worker, std::shared_ptr<arrow::RecordBatch> batch) {
  ARROW_ASSIGN_OR_RAISE(auto keys, KeyVector::Encode(fitted_.encoder, *batch, key_columns_));
  if (begin_ != 0 || end_ != 0) {
    const std::vector<uint64_t> kept = keys.RowsInRange(begin_, end_);
    if (kept.empty()) return arrow::Status::OK();
    if (static_cast<int64_t>(kept.size()) < batch->num_rows()) {
      RowGatherer slice(batch->schema());
      ARROW_RETURN_NOT_OK(slice.Add(batch).status());
      ARROW_ASSIGN_OR_RAISE(batch, slice.Gather(kept.data(), static_cast<int64_t>(kept.size())));
      keys.Select(kept);
    }
  }
  if (batch->num_rows() == 0) return arrow::Status::OK();
  if (context_.options.input_observer) {
    ARROW_RETURN_NOT_OK(context_.options.input_observer(*batch));
  }
  ARROW_ASSIGN_OR_RAISE(batch, DecodeDictionaries(batch));
  ARROW_ASSIGN_OR_RAISE(std::vector<int64_t> weights, RowWeights(*batch));
  const int64_t heaviest = *std::max_element(weights.begin(), weights.end());
  if (heaviest > limit_ / 4) {
    return Invalid(
        "a row of {} does not fit a memory budget of {} (at most a quarter of it); allow more with "
        "--memory",
        FormatBytes(heaviest), FormatBytes(limit_));
  }
  worker.bin_of_row.resize(weights.size());
  bins_.Find(keys, worker.bin_of_row.data());
  int64_t total = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    ++worker.rows[worker.bin_of_row[i]];
    worker.weights[worker.bin_of_row[i]] += weights[i];
    total += weights[i];
  }
  const int64_t before = worker.collector.bytes();
  const int64_t rows = batch->num_rows();
  ARROW_RETURN_NOT_OK(worker.collector.Add(std::move(batch), std::move(keys), heaviest));
  held_ += worker.collector.bytes() - before;
  seen_rows_ += rows;
  seen_bytes_ += total;
  return ScatterIfFull(worker);
}

arrow::Status RowCollection::ReadParts(Worker& worker) {
  std::vector<int> columns(source_.schema()->num_fields());
  for (size_t c = 0; c < columns.size(); ++c) columns[c] = static_cast<int>(c);
  for (int part = next_part_++; part < source_.num_parts(); part = next_part_++) {
    ARROW_ASSIGN_OR_RAISE(auto stream, source_.OpenPart(part, columns));
    while (true) {
      if (shared_.failed()) return arrow::Status::OK();
      ARROW_RETURN_NOT_OK(context_.CheckStop());
      ARROW_ASSIGN_OR_RAISE(auto read, stream->Next());
      if (!read) break;
      const int64_t rows = read->batch->num_rows();
      ARROW_RETURN_NOT_OK(Add(worker, std::move(read->batch)));
      context_.Progress(ClusterSortProgress::Stage::kScatter, rows, fitted_.rows);
    }
  }
  return arrow::Status::OK();
}

arrow::Result<CollectedRows> RowCollection::Run() {
  CollectedRows result;
  result.bins =
      MakeCurveBins(fitted_.row_sample, fitted_.encoder.curve(), fitted_.encoder.bits_per_dim(),
                    static_cast<int>(key_columns_.size()), begin_, end_);
  std::vector<Key128> borders;
  borders.reserve(result.bins.size());
  for (const CurveBin& bin : result.bins) borders.push_back(bin.begin);
  bins_ = KeyRanges(std::move(borders), fitted_.encoder.key_bits());

  std::vector<Worker> workers;
  workers.reserve(static_cast<size_t>(context_.threads));
  for (int thread = 0; thread < context_.threads; ++thread) {
    workers.push_back({Collector(schema_, context_.memory),
                       std::vector<int64_t>(result.bins.size(), 0),
                       std::vector<int64_t>(result.bins.size(), 0),
                       {}});
  }
  ARROW_RETURN_NOT_OK(RunThreads(context_.threads, shared_,
                                 [&](int thread) { return ReadParts(workers[thread]); }));
  for (const Worker& worker : workers) {
    for (size_t bin = 0; bin < result.bins.size(); ++bin) {
      result.bins[bin].rows += worker.rows[bin];
      result.bins[bin].weight += worker.weights[bin];
    }
    result.heaviest_row = std::max(result.heaviest_row, worker.collector.heaviest_row());
  }
  result.mean_row = std::max<int64_t>(1, seen_bytes_ / std::max<int64_t>(1, seen_rows_));
  if (spilled_) {
    ARROW_RETURN_NOT_OK(ParallelFor(context_.threads, context_.threads,
                                    [&](int64_t thread) { return Scatter(workers[thread]); }));
    workers.clear();
    arrow::default_memory_pool()->ReleaseUnused();
    ARROW_RETURN_NOT_OK(spilled_->Finish());
    result.rows = std::move(spilled_);
    result.spill = spill_;
  } else {
    std::vector<Collector> collectors;
    int64_t batches = 1;
    for (Worker& worker : workers) {
      batches += worker.collector.batches();
      collectors.push_back(std::move(worker.collector));
    }
    const int64_t parts =
        std::min(seen_rows_ / kRowsPerMemoryPartition, kMaxMemoryCursors / batches) + 1;
    const KeyRanges ranges(Borders(parts), fitted_.encoder.key_bits());
    ARROW_ASSIGN_OR_RAISE(
        result.rows, Collector::Sort(collectors, ranges, fitted_.encoder.wide(), context_.threads));
    result.spill = SpillOf(source_);
  }
  arrow::default_memory_pool()->ReleaseUnused();
  return result;
}

}  // namespace

arrow::Result<CollectedRows> CollectRows(SortContext& context, RowSource& source,
                                         const std::vector<int>& key_columns,
                                         const FittedKeys& fitted) {
  return RowCollection(context, source, key_columns, fitted).Run();
}

}  // namespace thalweg
