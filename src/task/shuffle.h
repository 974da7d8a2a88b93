#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "layout/planner.h"
#include "sort/partial_fit.h"
#include "sort/row_source.h"
#include "task/envelope.h"
#include "task/execute.h"

namespace thalweg {

// The stages of one selection's sort that is spread over machines, none of which holds all of it:
//
//   PrepareSelections ─► SampleUnits ─► FitSelection ─► ScatterUnits ─► ExecuteTask ─►
//   CommitResults
//                        (some units)                   (some units)    (one slice)
//
// Some units are those from `first` to before `end` of the selection's sources, which are in the
// order that row addresses count them in. The model, the slices and with them the layout are those
// that one process would come to.

/// The selections of a plan, without models.
arrow::Result<std::vector<SelectionEnvelope>> PrepareSelections(const Table& table,
                                                                const ClusteringSpec& spec,
                                                                const Layout& layout,
                                                                const Plan& plan,
                                                                const PrepareOptions& prepare);

/// Reads the key columns of some units: a part of the sample.
arrow::Result<PartialFit> SampleUnits(Table& table, const SelectionEnvelope& selection, int first,
                                      int end, const ExecuteOptions& options);

/// Gives a selection its model, made from a sample of all its units, and the borders of at most
/// `slices` slices of about equal rows. An error when other rows were sampled than the table's
/// metadata counts.
arrow::Result<SelectionEnvelope> FitSelection(SelectionEnvelope selection, const FittedKeys& fitted,
                                              int slices);
/// The same from parts of the sample, each row in one.
arrow::Result<SelectionEnvelope> FitSelection(SelectionEnvelope selection,
                                              std::vector<PartialFit> samples, int slices);

/// Reads some units whole and divides their rows by slices into pieces: Arrow IPC streams (lz4) of
/// about `piece_bytes` before compression, "slice-00003-00000.arrows", in an existing folder. Which
/// rows go into which piece depends on the units, `piece_bytes` and the memory budget alone. On
/// failure the pieces are deleted.
arrow::Result<ScanReport> ScatterUnits(Table& table, const SelectionEnvelope& selection, int first,
                                       int end, const std::string& folder, int64_t piece_bytes,
                                       const ExecuteOptions& options);

/// The rows of pieces as the table's own scan would give them. An error when columns differ.
arrow::Result<std::unique_ptr<RowSource>> RowsOfPieces(Table& table, const TaskEnvelope& task,
                                                       std::unique_ptr<RowSource> pieces);

}  // namespace thalweg
