#include "task/sort_setup.h"

#include <algorithm>

#include "layout/quantiles.h"
#include "task/resources.h"
#include "util/status.h"

namespace thalweg {
namespace {

/// No budget makes row groups smaller than this.
constexpr int64_t kLeastRowGroupBytes = int64_t{16} << 20;

int ThreadsFor(const ExecuteOptions& options) {
  return options.threads > 0 ? options.threads : AvailableThreads();
}

}  // namespace

int64_t MemoryBudget(const ExecuteOptions& options) {
  return options.memory_bytes > 0 ? options.memory_bytes : AvailableMemory() / 4;
}

arrow::Status CheckSchema(const Table& table, const TaskEnvelope& task) {
  ARROW_ASSIGN_OR_RAISE(const auto schema, table.schema());
  if (SchemaId(*schema) == task.schema_id) return arrow::Status::OK();
  return Conflict("{}: its schema has changed since the plan: plan again", table.name());
}

ReadOptions ReadOptionsFor(const ExecuteOptions& options, MemoryAccount* memory) {
  ReadOptions read;
  read.memory = memory;
  read.threads = ThreadsFor(options);
  read.stop = options.stop;
  return read;
}

ClusterSortOptions SortOptions(const ExecuteOptions& options, const ClusteringSpec& spec,
                               MemoryAccount* memory) {
  ClusterSortOptions sort;
  sort.memory = memory;
  sort.spill_dir = options.spill_dir;
  sort.max_spill_bytes = options.max_spill_bytes;
  sort.threads = ThreadsFor(options);
  sort.target_cube_bytes = spec.target_cube_bytes;
  sort.min_cube_bytes = spec.min_cube_bytes;
  sort.stop = options.stop;
  if (options.progress) {
    sort.progress = [report = options.progress](const ClusterSortProgress& progress) {
      using Stage = ClusterSortProgress::Stage;
      report({progress.stage == Stage::kFit       ? "fit"
              : progress.stage == Stage::kScatter ? "scatter"
                                                  : "write",
              progress.rows_done, progress.rows_total});
    };
  }
  return sort;
}

int64_t RowGroupBytes(int64_t wanted, const MemoryAccount& memory) {
  return std::min(wanted, std::max(kLeastRowGroupBytes, memory.limit() / 8));
}

arrow::Result<std::vector<int>> KeyColumns(const arrow::Schema& schema,
                                           const ClusteringSpec& spec) {
  std::vector<int> positions;
  for (const auto& column : spec.columns) {
    positions.push_back(schema.GetFieldIndex(column.name));
    if (positions.back() < 0) {
      return Invalid("clustering column \"{}\" is not (or not once) among the columns read",
                     column.name);
    }
  }
  return positions;
}

RunRecord RecordRun(const std::string& run_id, const ClusteringSpec& spec, const FittedKeys& fitted,
                    const std::vector<OutputUnit>& outputs) {
  RunRecord run;
  run.run_id = run_id;
  run.spec_id = spec.SpecId();
  for (const auto& unit : outputs) {
    run.rows += unit.rows;
    run.output_bytes += unit.bytes;
  }
  run.output_units = static_cast<int64_t>(outputs.size());
  const auto& models = fitted.encoder.models();
  for (size_t i = 0; i < models.size() && i < spec.columns.size(); ++i) {
    const double null_share =
        fitted.rows > 0 ? static_cast<double>(fitted.null_rows_per_column[i]) / fitted.rows : 0;
    run.quantiles.push_back(QuantilesOf(models[i], spec.columns[i].field_id, null_share));
  }
  return run;
}

}  // namespace thalweg
