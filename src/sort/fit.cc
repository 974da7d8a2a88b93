#include <algorithm>
#include <atomic>

#include "sort/cluster_sort.h"
#include "sort/curve_profile.h"
#include "sort/parallel.h"
#include "sort/partial_fit.h"
#include "sort/sort_context.h"
#include "util/status.h"

namespace thalweg {

arrow::Result<PartialFit> SampleRows(RowSource& source, const std::vector<int>& key_columns,
                                     Algorithm algorithm, const ClusterSortOptions& options) {
  SortContext context(options);
  arrow::FieldVector fields;
  for (int column : key_columns) {
    if (column < 0 || column >= source.schema()->num_fields()) {
      return Invalid("key column {} is not in the schema", column);
    }
    fields.push_back(source.schema()->field(column));
  }
  const auto schema = arrow::schema(fields);
  const int threads = std::max(1, std::min(context.threads, source.num_parts()));
  std::vector<PartialFit> partial;
  for (int thread = 0; thread < threads; ++thread) {
    ARROW_ASSIGN_OR_RAISE(auto fit, PartialFit::Make(*schema, key_columns, algorithm));
    partial.push_back(std::move(fit));
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
  return std::move(partial[0]);
}

arrow::Result<FittedKeys> FitKeys(RowSource& source, const std::vector<int>& key_columns,
                                  Curve curve, int bits_per_dim, Algorithm algorithm,
                                  const ClusterSortOptions& options) {
  ARROW_ASSIGN_OR_RAISE(auto fit, SampleRows(source, key_columns, algorithm, options));
  return fit.Finish(curve, bits_per_dim);
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
