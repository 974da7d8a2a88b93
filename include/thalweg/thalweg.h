#pragma once

// The public C++ interface of Thalweg: declare, look at and optimize clustered tables from a
// program of one's own. Everything that the command line does goes through the same code. Needs
// Arrow C++ 26. A program whose tables are in S3 calls arrow::fs::FinalizeS3() before it leaves
// main(), as every user of Arrow's S3 file system does.

#include <arrow/result.h>
#include <arrow/status.h>
#include <arrow/util/cancel.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#if defined(_WIN32)
#define THALWEG_EXPORT
#else
#define THALWEG_EXPORT __attribute__((visibility("default")))
#endif

namespace thalweg::api {

/// Which table: a path or a dotted catalog name, as on the command line, and properties that come
/// before the catalog's configuration (environment, .pyiceberg.yaml).
struct TableName {
  std::string name;
  std::map<std::string, std::string> catalog_properties;
};

/// How a failure is to be taken; read it off a status with KindOfFailure.
enum class FailureKind { kError, kUsage, kConflict, kUnknownOutcome };
THALWEG_EXPORT FailureKind KindOfFailure(const arrow::Status& status);

/// A clustering declaration. Empty optionals are left at the table's or the defaults' values.
struct Clustering {
  std::vector<std::string> columns;  ///< two to four top-level columns
  std::string curve = "hilbert";     ///< or "zorder"
  int bits_per_dim = 16;             ///< 1 to 32
  std::string algorithm = "typed-quantile-rank-v1";
  std::optional<int64_t> target_cube_bytes;
  std::optional<int64_t> min_cube_bytes;
  std::string policy = "size";  ///< what Optimize rewrites: or "overlap"
  double theta = 0.42;          ///< threshold of the policy overlap, in (0, 1)
};

/// Declares (metadata only). False: an identical declaration was there and nothing was committed.
THALWEG_EXPORT arrow::Result<bool> SetClustering(const TableName& table,
                                                 const Clustering& clustering);
/// The declaration, nullopt when there is none. A declaration that cannot be used is an error.
THALWEG_EXPORT arrow::Result<std::optional<Clustering>> GetClustering(const TableName& table);
/// False: nothing was declared.
THALWEG_EXPORT arrow::Result<bool> ClearClustering(const TableName& table);

struct OptimizeOptions {
  bool full = false;
  int64_t max_source_files = -1, max_source_rows = -1,
          max_source_bytes = -1;  ///< hard upper bounds; -1: none
  int64_t memory_bytes = 0;       ///< 0: a quarter of the machine's
  std::string spill_dir;          ///< "": $TMPDIR or /tmp
  int threads = 0;                ///< 0: all that the process may use
  int64_t target_file_bytes = -1;
  std::string policy;  ///< "size" or "overlap" for this run; "": the table's
  double theta = 0;    ///< for this run; 0: the table's
  std::string run_id;  ///< "": a new one; the same id again is safe after an unknown outcome
  std::function<void(const std::string& stage, int64_t done, int64_t total)> progress;
  arrow::StopToken stop = arrow::StopToken::Unstoppable();
};

struct OptimizeResult {
  std::string outcome;  ///< "committed", "nothing-to-do" or "already-committed"
  std::string reason;   ///< with "nothing-to-do"
  std::string run_id, snapshot_before, snapshot_after;
  int64_t rows = 0, source_files = 0, source_bytes = 0, output_files = 0, output_bytes = 0;
  double depth_before = -1,
         depth_after = -1;  ///< expected files that an equality opens, mean over the keys
};

/// Plans, sorts, writes, verifies and commits. Leaves nothing behind on failure (an unknown outcome
/// excepted).
THALWEG_EXPORT arrow::Result<OptimizeResult> Optimize(const TableName& table,
                                                      const OptimizeOptions& options = {});

/// The JSON of `thalweg status --json`, for the declared columns or for hypothetical ones.
THALWEG_EXPORT arrow::Result<std::string> StatusJson(const TableName& table,
                                                     const std::vector<std::string>& columns = {});

}  // namespace thalweg::api
