#include <algorithm>
#include <atomic>

#include "key/sample.h"
#include "sort/cluster_sort.h"
#include "sort/curve_profile.h"
#include "sort/parallel.h"
#include "sort/row_sample.h"
#include "sort/sort_context.h"
#include "util/status.h"

namespace thalweg {
namespace {

/// What one thread has seen of the key columns.
struct PartialFit {
  std::vector<ColumnSample> columns;
  RowSample rows;
  int64_t row_count = 0;
  int64_t nulls[4] = {0, 0, 0, 0};

  arrow::Status Add(const RowBatch& input) {
    const arrow::RecordBatch& batch = *input.batch;
    const uint64_t* addresses = input.addresses ? input.addresses->raw_values() : nullptr;
    for (size_t k = 0; k < columns.size(); ++k) {
      ARROW_RETURN_NOT_OK(
          columns[k].Add(*batch.column(static_cast<int>(k)), input.first_address, addresses));
      nulls[k] += batch.column(static_cast<int>(k))->ComputeLogicalNullCount();
    }
    row_count += batch.num_rows();
    return rows.Add(batch, input.first_address, addresses);
  }

  arrow::Status Merge(PartialFit other) {
    for (size_t k = 0; k < columns.size(); ++k) {
      ARROW_RETURN_NOT_OK(columns[k].Merge(other.columns[k]));
      nulls[k] += other.nulls[k];
    }
    row_count += other.row_count;
    return rows.Merge(std::move(other.rows));
  }
};

}  // namespace

arrow::Result<FittedKeys> FitKeys(RowSource& source, const std::vector<int>& key_columns,
                                  Curve curve, int bits_per_dim, Algorithm algorithm,
                                  const ClusterSortOptions& options) {
  if (key_columns.empty() || key_columns.size() > 4) {
    return Invalid("clustering needs one to four key columns, got {}", key_columns.size());
  }
  SortContext context(options);
  std::vector<KeyType> types;
  arrow::FieldVector fields;
  for (int column : key_columns) {
    if (column < 0 || column >= source.schema()->num_fields()) {
      return Invalid("key column {} is not in the schema", column);
    }
    fields.push_back(source.schema()->field(column));
    ARROW_ASSIGN_OR_RAISE(KeyType type, KeyTypeOf(*fields.back()->type(), algorithm));
    types.push_back(type);
  }
  const auto schema = arrow::schema(fields);
  const int threads = std::max(1, std::min(context.threads, source.num_parts()));
  std::vector<PartialFit> partial;
  for (int thread = 0; thread < threads; ++thread) {
    partial.push_back({{}, RowSample(schema)});
    for (size_t k = 0; k < types.size(); ++k) {
      partial.back().columns.emplace_back(types[k], key_columns[k]);
    }
  }
  SharedStatus shared;
  std::atomic<int> next_part{0};
  ARROW_RETURN_NOT_OK(RunThreads(threads, shared, [&](int thread) -> arrow::Status {
    for (int part = next_part++; part < source.num_parts(); part = next_part++) {
      ARROW_ASSIGN_OR_RAISE(auto stream, source.OpenPart(part, key_columns));
      while (true) {
        if (shared.failed()) return arrow::Status::OK();
        ARROW_RETURN_NOT_OK(context.CheckStop());
        ARROW_ASSIGN_OR_RAISE(auto batch, stream->Next());
        if (!batch) break;
        ARROW_RETURN_NOT_OK(partial[thread].Add(*batch));
        context.Progress(ClusterSortProgress::Stage::kFit, batch->batch->num_rows(),
                         source.num_rows());
      }
    }
    return arrow::Status::OK();
  }));
  for (int thread = 1; thread < threads; ++thread) {
    ARROW_RETURN_NOT_OK(partial[0].Merge(std::move(partial[thread])));
  }
  std::vector<ColumnModel> models;
  for (ColumnSample& sample : partial[0].columns) {
    ARROW_ASSIGN_OR_RAISE(auto model, sample.Finish());
    models.push_back(std::move(model));
  }
  ARROW_ASSIGN_OR_RAISE(auto encoder, KeyEncoder::Make(curve, bits_per_dim, std::move(models)));
  ARROW_ASSIGN_OR_RAISE(auto rows, partial[0].rows.Finish());
  std::vector<int> positions(key_columns.size());
  for (size_t k = 0; k < positions.size(); ++k) positions[k] = static_cast<int>(k);
  ARROW_ASSIGN_OR_RAISE(auto keys, KeyVector::Encode(encoder, *rows, positions));
  FittedKeys fitted{std::move(encoder), {}, partial[0].row_count, {0, 0, 0, 0}};
  for (int64_t i = 0; i < keys.size(); ++i) fitted.row_sample.push_back(keys[i]);
  std::sort(fitted.row_sample.begin(), fitted.row_sample.end());
  std::copy(partial[0].nulls, partial[0].nulls + 4, fitted.null_rows_per_column);
  return fitted;
}

std::vector<Key128> SliceBorders(const FittedKeys& fitted, int parts) {
  std::vector<Key128> borders;
  const auto& sample = fitted.row_sample;
  for (int part = 1; part < parts && !sample.empty(); ++part) {
    const size_t at = sample.size() * static_cast<size_t>(part) / static_cast<size_t>(parts);
    if (at == 0 || sample[at] == 0) continue;
    // Between equal keys no border is possible: the run of equal keys goes to the side that is
    // nearer.
    const Key128 key = sample[at];
    auto run = std::equal_range(sample.begin(), sample.end(), key);
    const auto position = sample.begin() + static_cast<int64_t>(at);
    auto right = position - run.first <= run.second - position ? run.first : run.second;
    if (right == sample.begin() || right == sample.end()) continue;
    int level = 0;
    const Key128 border = CellBorder(*(right - 1), *right, &level);
    if (borders.empty() || border > borders.back()) borders.push_back(border);
  }
  return borders;
}

}  // namespace thalweg
