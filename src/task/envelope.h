#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sort/cluster_sort.h"
#include "spec/clustering_spec.h"
#include "table/table.h"
#include "util/json.h"

namespace thalweg {

/// One slice of a selection's work: "thalweg.cluster-task/1" (design section 7). Carries no credentials.
struct TaskEnvelope {
  std::string table;         ///< as it is named on the command line
  std::string snapshot_id;   ///< that was planned
  ClusteringSpec spec;
  std::string run_id;
  std::string selection_id;  ///< UUID
  int task = 0;              ///< running number within the run
  int slice = 0, slices = 1; ///< slice i of k of the selection
  Key128 key_begin = 0;      ///< key range of the slice
  std::optional<Key128> key_end;
  std::string fitted;        ///< FittedKeys, serialised (model and splitters), inline …
  std::string fitted_file;   ///< … or in this file next to the envelope,
  std::string fitted_hash;   ///< XXH3-128 of the serialised form, hex
  int64_t schema_id = 0;     ///< format's own, as text of the table's current schema id
  std::vector<UnitDescriptor> sources;  ///< of the whole selection
  int64_t selection_rows = 0;           ///< live rows of the whole selection, from the table's metadata
  int64_t target_file_bytes = 0;
  int64_t target_file_rows = -1;
  int64_t target_row_group_bytes = 0;

  Json ToJson() const;
  /// Refuses a foreign tag, an unknown version, missing members, no sources, a slice outside of 0..slices-1, a hash that differs.
  static arrow::Result<TaskEnvelope> FromJson(const Json& json, const std::string& what);
};

/// Sum of row digests modulo 2^128 (task/row_digest.h), as 32 hex digits.
using DigestText = std::string;

/// "thalweg.cluster-result/1": what executing a task gave. Holds the task that it answers (without the model).
struct ResultEnvelope {
  TaskEnvelope task;
  std::string attempt_id;
  std::vector<OutputUnit> outputs;
  int64_t rows = 0;         ///< of this slice
  DigestText input_digest;  ///< over the decoded input rows of this slice, "" with --verify counts
  DigestText output_digest; ///< over what the file writers received
  double seconds = 0;
  int64_t spilled_bytes = 0;
  int64_t peak_memory_bytes = 0;
  RunRecord run;            ///< quantiles of the fitted keys, row and byte counts

  Json ToJson() const;
  static arrow::Result<ResultEnvelope> FromJson(const Json& json, const std::string& what);
};

}  // namespace thalweg
