#pragma once

#include <arrow/result.h>

#include <functional>
#include <string>
#include <vector>

#include "task/optimize.h"
#include "task/run_intent.h"
#include "task/selection_check.h"

namespace thalweg {

/// Commits selections as one rewrite. Right before each swap every output is checked for presence,
/// size and footer, the intent for freshness, and `options.stop` for a request to stop. The record
/// of the run also holds what was `planned`.
arrow::Result<CommitResult> CommitSelections(Table& table,
                                             const std::vector<SelectionResults>& selections,
                                             const PlannedRun& planned, const RunIntent& intent,
                                             const ExecuteOptions& options);

/// Adds what selections read and wrote to a report.
void AddToReport(const std::vector<SelectionResults>& selections, OptimizeReport* report);

/// The mean depth over the keys, measured at the table's newest snapshot; -1 when it cannot be
/// measured.
double MeasureDepth(Table& table, const ClusteringSpec& spec);

/// A declaration that can be used; an error that says why there is none.
arrow::Result<ClusteringSpec> UsableDeclaration(const Table& table,
                                                std::vector<std::string>* notes);

/// An unknown outcome with the run id and what to do next.
arrow::Status OutcomeUnknown(const arrow::Status& status, const std::string& run_id);

/// Reclaims what dead runs left, other than `run_id`'s; a failure to do so only makes a note.
void ReclaimBefore(const Table& table, const std::string& run_id, double orphan_age_seconds,
                   std::vector<std::string>* notes);

/// True when the table's history holds the run: the report says so then. A usage error for a
/// malformed run id.
arrow::Result<bool> AlreadyCommitted(const Table& table, const std::string& run_id,
                                     OptimizeReport* report);

}  // namespace thalweg
