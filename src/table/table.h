#pragma once

#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <arrow/scalar.h>
#include <arrow/util/cancel.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "layout/budgets.h"
#include "layout/unit.h"
#include "sort/row_source.h"
#include "spec/clustering_spec.h"
#include "table/run_tag.h"
#include "util/json.h"
#include "util/memory.h"

namespace thalweg {

/// A unit with the format's own full description: what envelopes carry, and what a commit compares
/// with the snapshot.
struct UnitDescriptor {
  std::string id;
  int64_t rows = 0;   ///< live rows
  int64_t bytes = 0;  ///< encoded
  Json json;          ///< format's own; equal (operator==) for an unchanged unit
  /// False: which rows are deleted is only known by reading, `rows` is the most there can be.
  bool rows_exact = true;

  bool operator==(const UnitDescriptor&) const = default;
};

/// A unit that was written and belongs to no snapshot yet.
struct OutputUnit {
  std::string id;
  int64_t rows = 0;
  int64_t bytes = 0;
  std::string cube_id;
  Json json;  ///< format's own (an Iceberg data_file with its metrics)
};

/// Whom written files belong to: goes into their names and stamps.
struct OutputContext {
  std::string run_id;
  int task = 0;            ///< running number of the task within the run
  int attempt = 0;         ///< of the task
  std::string attempt_id;  ///< unique among processes that execute the same task
  /// Clustering of the files, with the field ids resolved; nullopt for plain writes without a
  /// declaration.
  std::optional<ClusteringSpec> spec;
  MemoryAccount* memory = nullptr;
  /// The rows are the table's own, as Scan() gave them, columns of identity included (row lineage).
  bool rewrite = false;
};

/// How rows are read.
struct ReadOptions {
  MemoryAccount* memory = nullptr;  ///< may be null
  /// For what is read before the first row (deletes); streams are read by their callers' threads.
  int threads = 2;
  arrow::StopToken stop = arrow::StopToken::Unstoppable();  ///< for the same
};

/// One output file being written. Used by one thread at a time. Accepts dictionary columns for
/// plain ones.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  virtual arrow::Status Write(const arrow::RecordBatch& batch) = 0;
  virtual arrow::Status EndRowGroup() = 0;
  virtual int64_t bytes_estimate() const = 0;
  /// Closes and syncs; the file's row count is read back from its footer.
  virtual arrow::Result<OutputUnit> Finish() = 0;
  /// Deletes the file, finished or not. The destructor of an unfinished file does the same.
  virtual arrow::Status Discard() = 0;
};

/// Sizes that the table (its properties) prescribes for output; a command's own options come first.
struct OutputSizes {
  int64_t target_file_bytes = int64_t{512} << 20;
  int64_t target_row_group_bytes = int64_t{128} << 20;
  int64_t target_file_rows = -1;  ///< where > 0 a hard cap on the rows of a file
};

/// What UnifyIndexes did, or would do.
struct IndexUnification {
  bool committed = false;
  std::string note;  ///< for people: "index a, b: 20,000 rows are indexed first"; "" when there is
                     ///< nothing to do
};

/// What the table declares, as found.
struct Declaration {
  std::optional<ClusteringSpec> spec;  ///< nullopt: not declared, or not usable
  std::string problem;             ///< declared, but not usable: why, and what to do; "" otherwise
  std::vector<std::string> notes;  ///< renamed columns and the like, for people
  /// The declaration without its columns, as far as the table has it: what a new choice of columns
  /// goes on with. Defaults where the table says nothing, or nothing usable.
  ClusteringSpec settings;
};

/// The outcome of a commit.
struct CommitResult {
  bool already_committed = false;
  std::string snapshot_before;
  std::string snapshot_after;
  int attempts = 1;
};

/// Source units out, output units in, as one selection.
struct RewriteSelection {
  std::vector<UnitDescriptor> sources;
  std::vector<OutputUnit> outputs;
};

struct RewriteCommit {
  std::string run_id;
  std::string base_snapshot;  ///< snapshot that was planned and read
  ClusteringSpec spec;        ///< as planned; another declaration in the parent is a conflict
  std::vector<RewriteSelection> selections;
  RunRecord run;                               ///< snapshot_id is filled in by the commit
  std::map<std::string, std::string> summary;  ///< extra keys for the snapshot, prefixed "thalweg."
};

enum class WriteMode { kAppend, kOverwrite };
struct WriteCommit {
  std::string run_id;
  WriteMode mode = WriteMode::kAppend;
  std::string base_snapshot;  ///< overwrite: the snapshot whose files go; the table having moved
                              ///< since is a conflict
  std::optional<ClusteringSpec> spec;  ///< the files are stamped cubes of it; nullopt: plain files
  std::vector<OutputUnit> outputs;
  RunRecord run;
  std::map<std::string, std::string> summary;
};

/// A past run, from the snapshot summaries and the cube map.
struct HistoryEntry {
  RunRecord run;
  std::string snapshot_before;  ///< that the run's snapshot came after; "" for the first one
  std::string operation;        ///< "replace", "append", "overwrite"
  std::map<std::string, std::string> summary;
};

/// A small text file in the table's own place for run intents.
struct RunFile {
  std::string name;  ///< see RunFileName
  std::string text;
  int64_t modified_millis = 0;
};

/// One table of one format, pinned to a snapshot until Refresh(). Nothing above this interface asks
/// which format it is. Thread-safe except for Refresh and the commits. Failures carry their kind
/// (util/status.h).
class Table {
 public:
  virtual ~Table() = default;

  virtual const std::string& name() const = 0;  ///< as the user named it
  virtual std::string format() const = 0;       ///< "iceberg", "lance"
  virtual std::string location() const = 0;
  virtual std::string snapshot_id() const = 0;  ///< "" for an empty table
  virtual arrow::Status Refresh() = 0;
  /// Refuses, with one line, tables that cannot be rewritten (features that are not supported yet,
  /// read-only tables). Every writing command calls it before anything is written.
  virtual arrow::Status CheckWritable() const = 0;

  /// The current schema (top-level columns in order).
  virtual arrow::Result<std::shared_ptr<arrow::Schema>> schema() const = 0;
  /// What new rows have in columns that their source lacks, by name; columns that are not there:
  /// NULL.
  virtual arrow::Result<std::map<std::string, std::shared_ptr<arrow::Scalar>>> WriteDefaults()
      const {
    return std::map<std::string, std::shared_ptr<arrow::Scalar>>();
  }
  /// Field id of a top-level column of the current schema; an error naming similar columns
  /// otherwise.
  virtual arrow::Result<ClusteringColumn> ResolveColumn(const std::string& name) const = 0;
  virtual arrow::Result<OutputSizes> output_sizes() const = 0;
  /// Budgets that the table itself prescribes; a command's own options come first.
  virtual arrow::Result<Budgets> budgets() const { return Budgets{}; }

  virtual arrow::Result<Declaration> declaration() const = 0;
  /// The algorithm of a declaration of these columns that names none.
  virtual arrow::Result<Algorithm> DefaultAlgorithm(const std::vector<ClusteringColumn>&) const {
    return Algorithm::kTypedQuantileRankV1;
  }
  /// What columns named for one write into an undeclared table mean: true, that its rows are sorted
  /// once, neither declared nor stamped; false, that the columns are declared.
  virtual bool sorts_undeclared() const { return false; }
  /// Declares. `version` (--version) is for formats that number their declarations; Iceberg refuses
  /// it. `allow_single` accepts one column. False: an identical declaration was there, nothing was
  /// committed.
  virtual arrow::Result<bool> SetDeclaration(const ClusteringSpec& spec,
                                             std::optional<int64_t> version, bool allow_single) = 0;
  /// False: nothing was declared.
  virtual arrow::Result<bool> ClearDeclaration() = 0;

  /// Units, stamps, cubes and runs at the pinned snapshot; statistics for `columns`.
  virtual arrow::Result<Layout> DescribeLayout(
      const std::vector<ClusteringColumn>& columns) const = 0;
  /// The same at another snapshot of the history, of columns of the current schema; nullopt when
  /// that snapshot is gone, or the format cannot go back.
  virtual arrow::Result<std::optional<Layout>> DescribeLayoutAt(
      const std::string& snapshot_id, const std::vector<ClusteringColumn>& columns) const {
    return std::optional<Layout>();
  }
  /// Makes the table's record of cubes anew from what the files themselves say, and stores it
  /// beside the current snapshot. False: the stored record was right already, nothing was
  /// committed.
  virtual arrow::Result<bool> RebuildCubes() {
    return arrow::Status::NotImplemented(
        "rebuilding the cube table is not possible for this format");
  }
  /// Brings what names rows by their addresses (secondary indexes) to where these units can be
  /// sorted as one (Unit::rewrite_class). A commit of its own; the table is refreshed after it, the
  /// plan is to be made anew. With `dry_run` it only says what it would do.
  virtual arrow::Result<IndexUnification> UnifyIndexes(const std::vector<std::string>& unit_ids,
                                                       bool dry_run) {
    return IndexUnification{};
  }
  /// Creates or refreshes what the format keeps of the clustering columns beside the units (Lance's
  /// zone maps), as a commit of its own, where something is missing. Called at the end of every
  /// optimize, also of one with nothing to do; refreshes the table when it did something. Says what
  /// it did, for people.
  virtual arrow::Result<std::vector<std::string>> RefreshStatistics(const ClusteringSpec& spec) {
    return std::vector<std::string>{};
  }
  /// Memory that the commit of a rewrite holds for each row that moves (maps of row addresses for
  /// secondary indexes): part of a command's budget.
  virtual int64_t commit_bytes_per_row() const { return 0; }
  /// Full descriptors of units of that layout, by id, in the order given.
  virtual arrow::Result<std::vector<UnitDescriptor>> Describe(
      const std::vector<std::string>& unit_ids) const = 0;
  /// The rows of these units (descriptors of the pinned snapshot or of an envelope), deletes
  /// applied as of `snapshot_id`, which was planned; kConflict when that is gone and was needed. A
  /// format may add columns behind those of schema() that say which row each is. Addresses are
  /// (position of the unit among `units` sorted by id) << 32 | row position.
  virtual arrow::Result<std::unique_ptr<RowSource>> Scan(const std::vector<UnitDescriptor>& units,
                                                         const std::string& snapshot_id,
                                                         const ReadOptions& options) const = 0;
  /// `number`: running number of the file within the task. `cube_id` "" for unclustered files.
  virtual arrow::Result<std::unique_ptr<OutputFile>> NewOutputFile(const OutputContext& context,
                                                                   const std::string& cube_id,
                                                                   int number) const = 0;
  /// Reads a written file back whole, for --verify full. Row order as written.
  virtual arrow::Result<std::unique_ptr<RowSource>> ReadBack(const OutputUnit& unit) const = 0;
  /// Presence, size and footer row count of a written file; an error names what differs.
  virtual arrow::Status CheckOutput(const OutputUnit& unit) const = 0;

  /// Each re-checks the parent at every attempt (design section 7). `before_swap` is called right
  /// before the swap of every attempt.
  virtual arrow::Result<CommitResult> CommitRewrite(
      const RewriteCommit& commit, const std::function<arrow::Status()>& before_swap) = 0;
  virtual arrow::Result<CommitResult> CommitWrite(
      const WriteCommit& commit, const std::function<arrow::Status()>& before_swap) = 0;
  /// The snapshot that a run committed, if any snapshot of the table's history carries it.
  virtual arrow::Result<std::optional<std::string>> FindRun(const std::string& run_id) const = 0;
  virtual arrow::Result<std::vector<HistoryEntry>> History() const = 0;

  // Run intents and what dead runs left.
  /// What names of files carry for a run of this table (run_tag.h).
  virtual std::string TagOfRun(const std::string& run_id) const { return RunTag(run_id); }
  virtual arrow::Result<std::vector<RunFile>> ListRunFiles() const = 0;
  virtual arrow::Status WriteRunFile(const std::string& name, const std::string& text) const = 0;
  virtual arrow::Status DeleteRunFile(const std::string& name) const = 0;
  struct FileSize {
    std::string location;
    int64_t bytes = 0;
  };
  /// Every file in the table's data and metadata folders whose name carries this tag (TagOfRun()),
  /// referenced or not.
  virtual arrow::Result<std::vector<FileSize>> FilesOfRun(const std::string& tag) const = 0;
  /// Locations named by any snapshot of any ref (data, delete, manifest, list, statistics and
  /// metadata files), in freshly loaded metadata.
  virtual arrow::Result<std::set<std::string>> ReferencedFiles() const = 0;
  virtual arrow::Status DeleteFile(const std::string& location) const = 0;
};

}  // namespace thalweg
