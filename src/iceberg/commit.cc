#include "iceberg/commit.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "iceberg/commit_retry.h"
#include "iceberg/manifest_builder.h"
#include "iceberg/snapshot_summary.h"
#include "util/crash_point.h"
#include "util/status.h"
#include "util/uuid.h"

namespace thalweg::iceberg {
namespace {

arrow::Status CheckWritable(const TableStore& store, const TableMetadata& metadata,
                            int lowest_version, int highest_version) {
  std::string why;
  if (!store.writable(&why)) return Invalid("{}", why);
  const int version = metadata.format_version();
  if (version < lowest_version || version > highest_version) {
    return arrow::Status::NotImplemented(store.description(), ": tables of format version ",
                                         version, " are not written");
  }
  return arrow::Status::OK();
}

/// Format versions that snapshots are added to, and the highest of which properties are changed.
constexpr int kLowestSnapshotVersion = 2;
constexpr int kHighestVersion = 3;

/// What is wrong with a change whatever the table holds.
arrow::Status CheckChange(const SnapshotChange& change) {
  bool adds = false;
  std::unordered_set<std::string_view> paths;
  for (const auto& group : change.added) {
    for (const auto& added : group) {
      adds = true;
      const DataFile& file = added.file;
      if (file.content != FileContent::kData) {
        return Invalid("cannot add {}: only data files are added", file.file_path);
      }
      if (!paths.insert(file.file_path).second) return Invalid("{} is added twice", file.file_path);
    }
  }
  paths.clear();
  for (const auto& path : change.removed) {
    if (!paths.insert(path).second) return Invalid("{} is removed twice", path);
  }
  if (change.operation == "append") {
    if (!change.removed.empty()) return Invalid("an append cannot remove files");
  } else if (change.operation == "replace") {
    if (change.removed.empty()) return Invalid("a replace must remove files");
  } else if (change.operation != "overwrite") {
    return Invalid("\"{}\" is no operation of a snapshot (append, overwrite, replace)",
                   change.operation);
  }
  if (!adds && change.removed.empty()) return Invalid("a snapshot must add or remove files");
  return arrow::Status::OK();
}

/// Positions of the removed files among the parent's data files.
arrow::Result<std::vector<size_t>> FindRemoved(const SnapshotChange& change,
                                               const SnapshotFiles& files,
                                               const std::string& table) {
  std::unordered_map<std::string_view, size_t> live;
  live.reserve(files.data_files.size());
  for (size_t i = 0; i < files.data_files.size(); ++i) {
    live.emplace(files.data_files[i].file.file_path, i);
  }
  for (const auto& group : change.added) {
    for (const auto& added : group) {
      if (live.contains(added.file.file_path)) {
        return Invalid("{}: {} is already a file of the table", table, added.file.file_path);
      }
    }
  }
  std::vector<size_t> positions;
  std::vector<std::string_view> missing;
  for (const auto& path : change.removed) {
    auto found = live.find(path);
    if (found == live.end()) {
      missing.push_back(path);
    } else {
      positions.push_back(found->second);
    }
  }
  if (!missing.empty()) {
    return Conflict("{}: {} of {} files to be replaced are no longer in the table, first {}", table,
                    missing.size(), change.removed.size(), missing[0]);
  }
  return positions;
}

arrow::Status CheckRecords(const SnapshotChange& change, const ChangeCounts& counts) {
  if (change.operation != "replace") return arrow::Status::OK();
  const bool fewer = counts.added_records < counts.removed_records;
  if (counts.added_records > counts.removed_records || (fewer && !change.allow_fewer_records)) {
    return Invalid("a replace must not change the number of records: {} would replace {}",
                   counts.added_records, counts.removed_records);
  }
  return arrow::Status::OK();
}

/// One snapshot's way into the table.
class SnapshotCommit {
 public:
  SnapshotCommit(TableStore& store, const SnapshotChange& change)
      : store_(store),
        change_(change),
        commit_uuid_(change.commit_id.empty()
                         ? NewUuid()
                         : fmt::format("{}-{}", change.commit_id, NewUuid().substr(28))),
        builder_(*store.io(), change, snapshot_id_, commit_uuid_) {}

  arrow::Result<CommitOutcome> Run() {
    ARROW_RETURN_NOT_OK(CheckChange(change_));
    ARROW_ASSIGN_OR_RAISE(auto parent, store_.Load());
    ARROW_RETURN_NOT_OK(
        CheckWritable(store_, parent.metadata, kLowestSnapshotVersion, kHighestVersion));
    ARROW_ASSIGN_OR_RAISE(auto backoff, Backoff::ForCommits(parent.metadata));
    while (true) {
      ++attempt_;
      swap_lost_ = false;
      auto outcome = Attempt(parent);
      if (outcome.ok()) {
        if (attempt_ > 1) CleanUp(outcome->table.metadata);  // else all that was written is in use
        return outcome;
      }
      if (KindOf(outcome.status()) == FailureKind::kUnknown) {
        return FindOutcome(parent.metadata, outcome.status());
      }
      auto again = swap_lost_ && backoff.Wait() ? store_.Load() : outcome.status();
      if (!again.ok()) {
        CleanUpAfterFailure();
        return swap_lost_ ? outcome.status().WithMessage(fmt::format(
                                "{} (after {} attempts)", outcome.status().message(), attempt_))
                          : outcome.status();
      }
      parent = *std::move(again);
      DeleteUnnamed(*store_.io(), parent.metadata, snapshot_id_, per_attempt_);
      per_attempt_.clear();
    }
  }

 private:
  arrow::Result<std::optional<int64_t>> FindIdempotent(const TableMetadata& metadata) const {
    if (change_.idempotence_key.empty()) return std::nullopt;
    ARROW_ASSIGN_OR_RAISE(auto snapshots, metadata.Snapshots());
    for (const auto& snapshot : snapshots) {
      auto it = snapshot.summary.find(change_.idempotence_key);
      if (it != snapshot.summary.end() && it->second == change_.idempotence_value) {
        return std::optional<int64_t>(snapshot.snapshot_id);
      }
    }
    return std::nullopt;
  }

  arrow::Result<CommitOutcome> Attempt(const LoadedTable& parent) {
    const TableMetadata& metadata = parent.metadata;
    ARROW_ASSIGN_OR_RAISE(auto done, FindIdempotent(metadata));
    if (done) {
      return CommitOutcome{
          .already_committed = true, .snapshot_id = *done, .table = parent, .attempts = attempt_};
    }
    ARROW_RETURN_NOT_OK(CheckWritable(store_, metadata, kLowestSnapshotVersion, kHighestVersion));
    ARROW_ASSIGN_OR_RAISE(
        auto files, ReadSnapshotFiles(*store_.io(), metadata, metadata.current_snapshot_id()));
    RemovedFiles removed;
    ARROW_ASSIGN_OR_RAISE(removed.data, FindRemoved(change_, files, store_.description()));
    if (change_.validate) ARROW_RETURN_NOT_OK(change_.validate(parent, files));
    if (change_.unneeded_deletes) {
      ARROW_ASSIGN_OR_RAISE(removed.deletes, change_.unneeded_deletes(files, removed.data));
    }
    const ChangeCounts counts = CountChange(change_, files, removed);
    ARROW_RETURN_NOT_OK(CheckRecords(change_, counts));

    const int64_t sequence_number = metadata.last_sequence_number() + 1;
    std::optional<StatisticsFile> statistics;
    if (change_.statistics) {
      ARROW_ASSIGN_OR_RAISE(statistics,
                            change_.statistics(parent, files, snapshot_id_, sequence_number));
      if (statistics) per_attempt_.push_back(statistics->statistics_path);
    }
    const std::string folder = store_.MetadataFolder(metadata);
    ARROW_ASSIGN_OR_RAISE(auto manifests,
                          builder_.Build(metadata, folder, files, removed, sequence_number));
    CrashPoint("manifests-written");
    Snapshot snapshot;
    snapshot.snapshot_id = snapshot_id_;
    snapshot.parent_snapshot_id = metadata.current_snapshot_id();
    snapshot.sequence_number = sequence_number;
    snapshot.timestamp_ms = std::max(NowMillis(), metadata.last_updated_ms());
    snapshot.schema_id = metadata.current_schema_id();
    snapshot.summary = SnapshotSummary(change_, files, counts, manifests.counts);
    if (metadata.format_version() >= 3) {
      snapshot.first_row_id = metadata.next_row_id();
      snapshot.added_rows = manifests.next_row_id - metadata.next_row_id();
    }
    ARROW_ASSIGN_OR_RAISE(snapshot.manifest_list,
                          WriteList(metadata, folder, manifests.list, snapshot));
    CrashPoint("list-written");

    TableMetadata updated = metadata;
    updated.AddSnapshot(snapshot);
    if (statistics) updated.SetStatistics(*statistics);
    if (change_.before_swap) ARROW_RETURN_NOT_OK(change_.before_swap());
    store_.NameFilesAfter(change_.commit_id);
    auto committed = store_.Commit(parent, updated);
    if (!committed.ok()) {
      swap_lost_ = KindOf(committed.status()) == FailureKind::kConflict;
      return committed.status();
    }
    CrashPoint("committed");
    return CommitOutcome{
        .snapshot_id = snapshot_id_, .table = *std::move(committed), .attempts = attempt_};
  }

  arrow::Result<std::string> WriteList(const TableMetadata& metadata, const std::string& folder,
                                       const std::vector<ManifestFile>& manifests,
                                       const Snapshot& snapshot) {
    ManifestListHeader header;
    header.snapshot_id = snapshot_id_;
    header.parent_snapshot_id = snapshot.parent_snapshot_id;
    header.sequence_number = snapshot.sequence_number;
    header.format_version = metadata.format_version();
    header.first_row_id = snapshot.first_row_id;
    ARROW_ASSIGN_OR_RAISE(const std::string codec, AvroCodecProperty(metadata));
    ARROW_ASSIGN_OR_RAISE(const std::string bytes, WriteManifestList(manifests, header, codec));
    const std::string location = JoinLocation(
        folder, fmt::format("snap-{}-{}-{}.avro", snapshot_id_, attempt_, commit_uuid_));
    per_attempt_.push_back(location);
    ARROW_RETURN_NOT_OK(store_.io()->WriteNew(location, bytes));
    return location;
  }

  /// A swap whose outcome is not known: only finding the snapshot settles it, for it may still
  /// arrive.
  arrow::Result<CommitOutcome> FindOutcome(const TableMetadata& parent,
                                           const arrow::Status& unknown) {
    auto backoff = Backoff::ForStatusChecks(parent);
    if (!backoff.ok()) return unknown;  // nothing that is wrong here settles the outcome
    do {
      auto table = store_.Load();
      if (!table.ok()) continue;
      auto found = table->metadata.FindSnapshot(snapshot_id_);
      if (found.ok() && *found) {
        if (attempt_ > 1) CleanUp(table->metadata);
        return CommitOutcome{
            .snapshot_id = snapshot_id_, .table = *std::move(table), .attempts = attempt_};
      }
    } while (backoff->Wait());
    return unknown;
  }

  void CleanUp(const TableMetadata& table) {
    std::vector<std::string> files = per_attempt_;
    files.insert(files.end(), builder_.written().begin(), builder_.written().end());
    CrashPoint("cleanup");
    DeleteUnnamed(*store_.io(), table, snapshot_id_, files);
  }

  void CleanUpAfterFailure() {
    if (per_attempt_.empty() && builder_.written().empty()) return;
    // Should the table not load, nothing is known for certain, and the files stay.
    auto table = store_.Load();
    if (table.ok()) CleanUp(table->metadata);
  }

  TableStore& store_;
  const SnapshotChange& change_;
  const int64_t snapshot_id_ = NewRandomId();
  const std::string commit_uuid_;
  ManifestBuilder builder_;
  /// Manifest lists and statistics files of attempts so far that are not yet deleted.
  std::vector<std::string> per_attempt_;
  int attempt_ = 0;
  bool swap_lost_ = false;  ///< the attempt failed because another commit came first
};

}  // namespace

arrow::Result<CommitOutcome> CommitSnapshot(TableStore& store, const SnapshotChange& change) {
  return SnapshotCommit(store, change).Run();
}

arrow::Result<bool> CommitProperties(
    TableStore& store, const std::function<arrow::Result<bool>(TableMetadata*)>& change) {
  ARROW_ASSIGN_OR_RAISE(auto base, store.Load());
  ARROW_ASSIGN_OR_RAISE(auto backoff, Backoff::ForCommits(base.metadata));
  while (true) {
    TableMetadata updated = base.metadata;
    ARROW_ASSIGN_OR_RAISE(const bool changes, change(&updated));
    if (!changes) return false;
    ARROW_RETURN_NOT_OK(CheckWritable(store, base.metadata, 1, kHighestVersion));
    auto committed = store.Commit(base, updated);
    if (committed.ok()) return true;
    const auto& status = committed.status();
    if (KindOf(status) == FailureKind::kUnknown) {
      // If the table as it stands leaves nothing to change, it is as wanted.
      auto checks = Backoff::ForStatusChecks(base.metadata);
      if (!checks.ok()) return status;
      do {
        auto table = store.Load();
        if (!table.ok()) continue;
        auto left = change(&table->metadata);
        if (left.ok() && !*left) return true;
      } while (checks->Wait());
      return status;
    }
    if (KindOf(status) != FailureKind::kConflict || !backoff.Wait()) return status;
    ARROW_ASSIGN_OR_RAISE(base, store.Load());
  }
}

}  // namespace thalweg::iceberg
