#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "iceberg/catalog.h"
#include "iceberg/data_file.h"
#include "iceberg/manifest.h"

namespace thalweg::iceberg {

/// A live data or delete file of a snapshot, with the numbers that it inherited.
struct LiveFile {
  DataFile file;
  int64_t snapshot_id = 0;
  int64_t sequence_number = 0;  ///< data sequence number
  int64_t file_sequence_number = 0;
  int32_t partition_spec_id = 0;

  bool operator==(const LiveFile&) const = default;
};

/// Everything live in a snapshot.
struct SnapshotFiles {
  std::vector<ManifestFile> manifests;  ///< of the manifest list, in its order
  std::vector<LiveFile> data_files;
  std::vector<LiveFile> delete_files;
  /// Each manifest's live files: positions [begin, end) in data_files or delete_files, as the
  /// manifest's content says.
  struct Range {
    size_t begin = 0;
    size_t end = 0;
  };
  std::vector<Range> ranges;
};
/// Reads the manifest list and all manifests (two threads). A snapshot of nullopt gives empty
/// lists. Sequence numbers, snapshot ids and first row ids that an entry leaves to its manifest are
/// filled in; entries of deleted files are skipped. File counts that an old manifest list lacks are
/// filled in too.
arrow::Result<SnapshotFiles> ReadSnapshotFiles(const FileIO& io, const TableMetadata& metadata,
                                               std::optional<int64_t> snapshot_id);

/// What one snapshot changes. Used again, as a whole, at each attempt.
struct SnapshotChange {
  std::string operation;  ///< "append", "overwrite" or "replace"
  struct Added {
    DataFile file;
    /// Rewritten files: the starting snapshot's sequence number; nullopt: inherited from the
    /// commit.
    std::optional<int64_t> data_sequence_number;
  };
  /// One new manifest per element (rewritten files are grouped by cube).
  std::vector<std::vector<Added>> added;
  /// Paths of data files that must be live in the parent and are removed. One missing: kConflict.
  std::vector<std::string> removed;
  /// Called at each attempt: which of the parent's delete files (positions in files.delete_files)
  /// apply to no file any more once the change is made; they are removed with it. `removed`:
  /// positions in files.data_files. May be empty: none are.
  std::function<arrow::Result<std::vector<size_t>>(const SnapshotFiles& files,
                                                   const std::vector<size_t>& removed)>
      unneeded_deletes;
  std::map<std::string, std::string> summary;  ///< extra keys; counts and totals are computed
  /// A replace must add as many records as it removes, unless deletes were applied while reading:
  /// then fewer are right too.
  bool allow_fewer_records = false;
  /// Called at each attempt with the parent as loaded (files read already): support checks, deletes
  /// that hit sources, a changed declaration. A failure ends the commit with it (kConflict for what
  /// planning again can mend).
  std::function<arrow::Status(const LoadedTable& parent, const SnapshotFiles& files)> validate;
  /// Called at each attempt after validate: writes the statistics file of the new snapshot and
  /// gives its entry; may be empty. On failure it leaves nothing behind. A file whose attempt fails
  /// is deleted by the commit, so that each call needs a new name.
  std::function<arrow::Result<std::optional<StatisticsFile>>(
      const LoadedTable& parent, const SnapshotFiles& files, int64_t snapshot_id,
      int64_t sequence_number)>
      statistics;
  /// When set and found as this summary key's value in any snapshot of the table: already
  /// committed, nothing is done.
  std::string idempotence_key, idempotence_value;
  /// UUID that the names of everything this commit writes carry (manifests, lists, statistics, the
  /// metadata file), so that what a dead process left can be told apart; "": a random one.
  std::string commit_id;
  /// Called just before the swap, last chance to refuse (outputs present and of the right size,
  /// intent still fresh).
  std::function<arrow::Status()> before_swap;
};

struct CommitOutcome {
  bool already_committed = false;
  int64_t snapshot_id = 0;
  LoadedTable table;  ///< after the commit
  int attempts = 0;
};

/// Commits with optimistic retry as the properties commit.retry.* say (retry only on definite
/// conflicts of the swap itself); rules of sequence numbers, manifests and summaries as in
/// docs/format-notes.md. Files that a failed attempt wrote (manifests, lists, statistics; not the
/// data files) are deleted after a definite failure, and never after kUnknown, which is first
/// checked by loading the table again (commit.status-check.num-retries) for the snapshot id. Crash
/// points: manifests-written, list-written, metadata-written, renamed (between rename and hint),
/// before-sql-update, after-sql-update, committed, cleanup.
arrow::Result<CommitOutcome> CommitSnapshot(TableStore& store, const SnapshotChange& change);

/// Changes properties only, with the same retry. `change` edits the metadata as loaded and returns
/// false for "nothing to do".
arrow::Result<bool> CommitProperties(
    TableStore& store, const std::function<arrow::Result<bool>(TableMetadata*)>& change);

}  // namespace thalweg::iceberg
