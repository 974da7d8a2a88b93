#pragma once

#include <arrow/result.h>

#include <string>
#include <vector>

#include "layout/unit.h"
#include "sort/cluster_sort.h"
#include "spec/clustering_spec.h"
#include "task/execute.h"

namespace thalweg {

/// The budget of a command: --memory, or a quarter of what the process may use.
int64_t MemoryBudget(const ExecuteOptions& options);

/// Sort options for one command; `memory` outlives them. Sizes of cubes come from the declaration.
ClusterSortOptions SortOptions(const ExecuteOptions& options, const ClusteringSpec& spec,
                               MemoryAccount* memory);

/// A conflict when the table's columns are not those that the task was planned with.
arrow::Status CheckSchema(const Table& table, const TaskEnvelope& task);

/// How a command reads the rows that it sorts.
ReadOptions ReadOptionsFor(const ExecuteOptions& options, MemoryAccount* memory);

/// Encoded bytes of a row group: what the table wants, and less where `memory` is small, because
/// each open file holds its row group until it is complete.
int64_t RowGroupBytes(int64_t wanted, const MemoryAccount& memory);

/// Positions of the clustering columns in a schema; an error names the one that is not there.
arrow::Result<std::vector<int>> KeyColumns(const arrow::Schema& schema, const ClusteringSpec& spec);

/// What a run records of its keys, rows and outputs; sources and depths are the caller's.
RunRecord RecordRun(const std::string& run_id, const ClusteringSpec& spec, const FittedKeys& fitted,
                    const std::vector<OutputUnit>& outputs);

}  // namespace thalweg
