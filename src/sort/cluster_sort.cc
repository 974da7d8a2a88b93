#include "sort/cluster_sort.h"

#include <arrow/compute/api_vector.h>
#include <arrow/compute/cast.h>

#include <algorithm>

#include "sort/collect.h"
#include "sort/collector.h"
#include "sort/file_scheduler.h"
#include "sort/parallel.h"
#include "sort/sort_context.h"
#include "sort/spool.h"
#include "util/status.h"

namespace thalweg {
namespace {

constexpr int64_t kMaxBatchBytes = int64_t{8} << 20;
constexpr int64_t kMinBatchBytes = int64_t{256} << 10;

/// Gives the batch the source's schema again where dictionary columns were decoded on the way.
arrow::Result<std::shared_ptr<arrow::RecordBatch>> EncodeDictionaries(
    std::shared_ptr<arrow::RecordBatch> batch, const arrow::Schema& schema) {
  arrow::FieldVector fields = batch->schema()->fields();
  arrow::ArrayVector columns = batch->columns();
  bool changed = false;
  for (int c = 0; c < schema.num_fields(); ++c) {
    if (schema.field(c)->type()->id() != arrow::Type::DICTIONARY) continue;
    ARROW_ASSIGN_OR_RAISE(arrow::Datum coded, arrow::compute::DictionaryEncode(columns[c]));
    columns[c] = coded.make_array();
    fields[c] = schema.field(c)->WithType(columns[c]->type());
    changed = true;
  }
  if (!changed) return batch;
  return arrow::RecordBatch::Make(arrow::schema(std::move(fields), schema.metadata()),
                                  batch->num_rows(), std::move(columns));
}

/// The third pass: threads take files from the scheduler, gather their rows and write them.
class FileWriting {
 public:
  FileWriting(SortContext& context, CollectedRows& collected, const arrow::Schema& schema,
              const SortedFileFactory& factory, FileScheduler& scheduler, SharedStatus& shared)
      : context_(context),
        collected_(collected),
        schema_(schema),
        factory_(factory),
        scheduler_(scheduler),
        shared_(shared),
        batch_bytes_(std::clamp(context.memory->limit() / 64, kMinBatchBytes, kMaxBatchBytes)) {}

  arrow::Status Work() {
    while (true) {
      ARROW_ASSIGN_OR_RAISE(auto task, scheduler_.Next());
      if (!task) return arrow::Status::OK();
      arrow::Status status = WriteFile(*task);
      if (shared_.failed() || !status.ok()) {
        scheduler_.Failed(*task);
        return status;
      }
      ARROW_RETURN_NOT_OK(scheduler_.Done(task));
    }
  }

 private:
  arrow::Status WriteFile(FileTask& task);
  arrow::Status WriteRows(FileTask& task, const LoadedRows& loaded, int64_t first_row,
                          int64_t begin, int64_t end);

  SortContext& context_;
  CollectedRows& collected_;
  const arrow::Schema& schema_;
  const SortedFileFactory& factory_;
  FileScheduler& scheduler_;
  SharedStatus& shared_;
  const int64_t batch_bytes_;
};

arrow::Status FileWriting::WriteRows(FileTask& task, const LoadedRows& loaded, int64_t first_row,
                                     int64_t begin, int64_t end) {
  std::vector<uint64_t> addresses(end - begin);
  const int64_t offset = loaded.begin - first_row;
  loaded.rows->CopyRows(begin + offset, end + offset, addresses.data());
  auto cut = std::upper_bound(task.row_group_cuts.begin(), task.row_group_cuts.end(), begin);
  for (int64_t at = begin; at < end;) {
    if (task.cancelled || shared_.failed()) return arrow::Status::OK();
    ARROW_RETURN_NOT_OK(context_.CheckStop());
    const int64_t until = cut == task.row_group_cuts.end() ? end : std::min(end, *cut);
    const uint64_t* from = &addresses[at - begin];
    int64_t n = BatchRows(*loaded.gatherer, from, until - at, batch_bytes_, collected_.mean_row,
                          collected_.heaviest_row);
    auto batch = loaded.gatherer->Gather(from, n);
    while (batch.status().IsCapacityError() && n > 1) {
      n /= 2;
      batch = loaded.gatherer->Gather(from, n);
    }
    ARROW_RETURN_NOT_OK(batch.status());
    Reservation held(context_.memory, ReferencedBytes(**batch));
    ARROW_ASSIGN_OR_RAISE(auto out, EncodeDictionaries(batch.MoveValueUnsafe(), schema_));
    ARROW_RETURN_NOT_OK(task.writer->Write(*out));
    context_.Progress(ClusterSortProgress::Stage::kGather, n, collected_.rows->rows());
    at += n;
    if (cut != task.row_group_cuts.end() && at == *cut) {
      ARROW_RETURN_NOT_OK(task.writer->EndRowGroup());
      ++cut;
    }
  }
  return arrow::Status::OK();
}

arrow::Status FileWriting::WriteFile(FileTask& task) {
  ARROW_ASSIGN_OR_RAISE(task.writer, factory_(task.placement));
  SortedRows& rows = *collected_.rows;
  task.written.placement = task.placement;
  task.written.rows = task.end - task.begin;
  for (int64_t at = task.begin; at < task.end;) {
    const int partition = rows.PartitionOf(at);
    const int64_t end = std::min(task.end, rows.first_row(partition + 1));
    ARROW_ASSIGN_OR_RAISE(auto loaded, rows.Load(partition));
    const int64_t offset = loaded->begin - rows.first_row(partition);
    if (at == task.begin) task.written.first_key = loaded->rows->key(at + offset);
    if (end == task.end) task.written.last_key = loaded->rows->key(end - 1 + offset);
    ARROW_RETURN_NOT_OK(WriteRows(task, *loaded, rows.first_row(partition), at, end));
    if (task.cancelled || shared_.failed()) return arrow::Status::OK();
    at = end;
  }
  ARROW_ASSIGN_OR_RAISE(task.written.bytes, task.writer->Finish());
  return arrow::Status::OK();
}

}  // namespace

arrow::Result<ClusterSortResult> SortIntoFiles(RowSource& source,
                                               const std::vector<int>& key_columns,
                                               const FittedKeys& fitted,
                                               const SortedFileFactory& factory,
                                               const ClusterSortOptions& options) {
  if (key_columns.size() != fitted.encoder.models().size()) {
    return Invalid("{} key columns, but keys were fitted for {}", key_columns.size(),
                   fitted.encoder.models().size());
  }
  if (options.key_end && *options.key_end <= options.key_begin) return ClusterSortResult();
  SortContext context(options);
  if (options.key_begin == 0 && !options.key_end) ReleaseAsRead(source);
  ARROW_ASSIGN_OR_RAISE(CollectedRows collected, CollectRows(context, source, key_columns, fitted));
  ClusterSortResult result;
  const int64_t rows = collected.rows->rows();
  if (rows > 0) {
    int64_t encoded = source.encoded_bytes();
    if (encoded > 0 && fitted.rows > rows) {  // a slice's share
      encoded = static_cast<int64_t>(static_cast<double>(encoded) * static_cast<double>(rows) /
                                     static_cast<double>(fitted.rows));
    }
    SharedStatus shared;
    FileScheduler scheduler(context, std::move(collected.bins),
                            static_cast<int>(key_columns.size()), encoded, shared,
                            [&](int64_t row) { collected.rows->ReleaseBefore(row); });
    FileWriting writing(context, collected, *source.schema(), factory, scheduler, shared);
    const arrow::Status status = RunThreads(context.threads, shared, [&](int) {
      arrow::Status done = writing.Work();
      (void)shared.Set(done);
      scheduler.Wake();
      return done;
    });
    if (!status.ok()) {
      scheduler.DiscardAll();
      return status;
    }
    scheduler.Finish(&result);
  }
  if (collected.spill) {
    result.spilled_bytes = collected.spill->written_bytes();
    result.peak_spill_bytes = collected.spill->peak_bytes();
  }
  return result;
}

}  // namespace thalweg
