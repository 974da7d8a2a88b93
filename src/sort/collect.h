#pragma once

#include <arrow/result.h>

#include <memory>
#include <vector>

#include "sort/cluster_sort.h"
#include "sort/curve_profile.h"
#include "sort/sort_context.h"
#include "sort/sorted_rows.h"
#include "sort/spill_file.h"

namespace thalweg {

/// What the second pass gives.
struct CollectedRows {
  std::unique_ptr<SortedRows> rows;
  std::vector<CurveBin> bins;        ///< with exact rows and weights
  std::shared_ptr<SpillFile> spill;  ///< null: nothing was spilled
  int64_t mean_row = 1;              ///< payload bytes
  int64_t heaviest_row = 1;
};

/// Reads all columns of the source, keeps the rows of the slice, and sorts them: in memory where
/// they fit the budget, otherwise by scattering them to partitions on disk.
arrow::Result<CollectedRows> CollectRows(SortContext& context, RowSource& source,
                                         const std::vector<int>& key_columns,
                                         const FittedKeys& fitted);

}  // namespace thalweg
