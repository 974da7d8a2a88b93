#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sort/cluster_sort.h"
#include "spec/clustering_spec.h"
#include "table/table.h"
#include "util/json.h"

namespace thalweg {

/// One slice of a selection's work: "thalweg.cluster-task/1" (design section 7). Carries no
/// credentials.
struct TaskEnvelope {
  std::string table;        ///< as it is named on the command line
  std::string snapshot_id;  ///< that was planned
  ClusteringSpec spec;
  std::string run_id;
  std::string selection_id;   ///< UUID
  int task = 0;               ///< running number within the run
  int slice = 0, slices = 1;  ///< slice i of k of the selection
  Key128 key_begin = 0;       ///< key range of the slice
  std::optional<Key128> key_end;
  std::string fitted;       ///< FittedKeys, serialised (model and splitters), inline …
  std::string fitted_file;  ///< … or in this file next to the envelope,
  std::string fitted_hash;  ///< XXH3-128 of the serialised form, hex
  int64_t schema_id = 0;    ///< SchemaId() of the table's schema as planned
  std::vector<UnitDescriptor> sources;  ///< of the whole selection
  int64_t selection_rows = 0;  ///< live rows of the whole selection, from the table's metadata
  int64_t target_file_bytes = 0;
  int64_t target_file_rows = -1;
  int64_t target_row_group_bytes = 0;
  PlannedRun planned;  ///< of the whole plan

  Json ToJson() const;
  /// Refuses a foreign tag, an unknown version, missing members, no sources, a slice outside of
  /// 0..slices-1, a hash that differs. `what` names the document in errors. A model in a file of
  /// its own is not read here: see ReadTask.
  static arrow::Result<TaskEnvelope> FromJson(const Json& json, const std::string& what);
};

/// "thalweg.cluster-selection/1": a selection for the stages of a sort that is spread over machines
/// (task/shuffle.h), before its model is known (`task` has none then) or with it.
struct SelectionEnvelope {
  TaskEnvelope task;  ///< slice 0 of 1; `task.task` is the running number of the first slice
  std::vector<Key128> borders;  ///< that divide the curve into slices, ascending

  bool fitted() const { return !task.fitted_hash.empty(); }
  /// The slices as tasks.
  std::vector<TaskEnvelope> Tasks() const;
  Json ToJson() const;
  static arrow::Result<SelectionEnvelope> FromJson(const Json& json, const std::string& what);
};

/// "thalweg.cluster-scan/1": what reading some units of a selection and dividing their rows by
/// slices gave. A commit of results that were sorted from such rows wants those of all units.
struct ScanReport {
  std::string run_id;
  std::string selection_id;
  std::string fitted_hash;
  int first_unit = 0, end_unit = 0;  ///< of the selection's sources
  int64_t rows = 0;                  ///< live rows read
  std::string digest;                ///< of them, "" with --verify counts
  struct Piece {
    std::string file;  ///< in the report's folder
    int slice = 0;
    int64_t rows = 0, bytes = 0;
  };
  std::vector<Piece> pieces;

  Json ToJson() const;
  static arrow::Result<ScanReport> FromJson(const Json& json, const std::string& what);
};

/// Sum of row digests modulo 2^128 (task/row_digest.h), as 32 hex digits.
using DigestText = std::string;

/// "thalweg.cluster-result/1": what executing a task gave. Holds the task that it answers (without
/// the model).
struct ResultEnvelope {
  TaskEnvelope task;
  std::string attempt_id;
  std::vector<OutputUnit> outputs;  ///< in curve order
  int64_t rows = 0;                 ///< of this slice
  DigestText input_digest;   ///< over the decoded input rows of this slice, "" with --verify counts
  DigestText output_digest;  ///< over what the file writers received
  bool from_pieces = false;  ///< the rows were read elsewhere: a commit wants the scan reports
  double seconds = 0;
  int64_t spilled_bytes = 0;
  int64_t peak_memory_bytes = 0;  ///< of the process, resident
  RunRecord run;                  ///< quantiles of the fitted keys, row and byte counts

  Json ToJson() const;
  /// Refuses what FromJson of the task refuses, and rows without outputs, counts that do not add
  /// up, malformed digests.
  static arrow::Result<ResultEnvelope> FromJson(const Json& json, const std::string& what);
};

/// A number for the table's columns (names, types, nullability, in order): two schemas of one
/// number are taken as the same.
int64_t SchemaId(const arrow::Schema& schema);

/// FittedKeys as bytes: versioned, bounds-checked on reading.
arrow::Result<std::string> SerializeFitted(const FittedKeys& fitted);
arrow::Result<FittedKeys> DeserializeFitted(std::string_view bytes);
/// What TaskEnvelope::fitted_hash holds.
std::string FittedHash(std::string_view bytes);

/// Writes task-00000.json … into an existing folder; a model above 256 KiB goes into
/// fitted-<selection>.bin there, once per selection. Gives the paths of the envelopes. Files that
/// are there already are not overwritten: an error.
arrow::Result<std::vector<std::string>> WriteTasks(const std::vector<TaskEnvelope>& tasks,
                                                   const std::string& folder);
/// Reads an envelope, and its model where that is a file of its own beside it.
arrow::Result<TaskEnvelope> ReadTask(const std::string& path);
/// The same for selections and scan reports; `path` must not be there yet.
arrow::Status WriteSelection(const SelectionEnvelope& selection, const std::string& path);
arrow::Result<SelectionEnvelope> ReadSelection(const std::string& path);
arrow::Status WriteScanReport(const ScanReport& report, const std::string& path);
arrow::Result<ScanReport> ReadScanReport(const std::string& path);
arrow::Status WriteResult(const ResultEnvelope& result, const std::string& path);
arrow::Result<ResultEnvelope> ReadResult(const std::string& path);

}  // namespace thalweg
