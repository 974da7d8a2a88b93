#pragma once

#include <arrow/result.h>

#include <string>
#include <vector>

#include "task/envelope.h"
#include "task/execute.h"

namespace thalweg {

/// The results of one selection, one for each slice, in slice order.
struct SelectionResults {
  std::vector<const ResultEnvelope*> slices;
  const TaskEnvelope& task() const { return slices.front()->task; }
  RewriteSelection Rewrite() const;
};

/// Groups results by selection and refuses what must not be committed (design section 7): nothing
/// at all, mixed runs, snapshots, schemas or spec versions, missing or doubled slices, slices that
/// contradict each other, one source unit in two selections or one output in two results,
/// descriptors that differ from the table's own at its pinned snapshot (kConflict when the table
/// has moved on since the plan), and per selection any difference in rows or digest. `verify` is
/// what was asked for: results without digests pass only with kCounts. The pointers are into
/// `results`.
arrow::Result<std::vector<SelectionResults>> CheckResults(
    const Table& table, const std::vector<ResultEnvelope>& results, Verify verify);

/// Of results that were sorted from pieces: that scans of all source units, each once, read and
/// divided what the slices wrote, by rows and by digest (where the results have digests).
arrow::Status CheckScans(const std::vector<SelectionResults>& selections,
                         const std::vector<ScanReport>& scans);

/// True when the table's pinned snapshot describes all source units as the task does.
bool SourcesUnchanged(const Table& table, const TaskEnvelope& task);

/// Presence, size and footer row count of every output.
arrow::Status CheckOutputs(const Table& table, const std::vector<SelectionResults>& selections);
/// Reads every output back and compares each result's rows with its digest (--verify full of
/// results made elsewhere).
arrow::Status ReadOutputsBack(const Table& table, const std::vector<SelectionResults>& selections);

/// One record for all selections: counts add up; quantiles are those of the selection with most
/// rows.
RunRecord MergeRuns(const std::vector<SelectionResults>& selections);

}  // namespace thalweg
