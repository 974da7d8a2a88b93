#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "key/key_type.h"
#include "lance/description.h"
#include "lance/lance_table.h"
#include "lance/layout_record.h"
#include "table/table.h"

namespace thalweg::lance {

// Columns that tell where a row was, appended to the schema of scans whose rows are going to be
// written elsewhere (scan.cc, output.cc, commit.cc).
inline constexpr char kRowAddress[] = "_rowaddr";
inline constexpr char kRowId[] = "_rowid";
inline constexpr char kRowCreated[] = "_row_created_at_version";
inline constexpr char kRowUpdated[] = "_row_last_updated_at_version";

/// The ones that this dataset needs: addresses where an index names rows by them; ids and versions
/// where rows have stable ids. In the order in which scans append them.
std::vector<std::string> IdentityColumns(const Description& description);
bool IsIdentityColumn(const std::string& name);

/// "" for a dataset that was just created and has no rows: it has a version too.
std::string SnapshotIdOf(const Description& description);
/// Refuses, with one line, what cannot be rewritten.
arrow::Status CheckSupported(const Description& description);

/// A failure that says of which dataset it is; its kind is kept.
arrow::Status Prefixed(const std::string& name, const arrow::Status& status);

// Names of files (lance_files.cc).

/// "data/thalweg-<run>-<task>-<attempt>-<number>.lance" without the folder.
std::string DataFileName(const OutputContext& context, int number);
/// Where the identity columns of a data file's rows are kept until the commit.
std::string RowsFilePath(const std::string& data_path);
/// Deletes a data file with everything that belongs to it: its rows file, and the folder of its
/// blobs.
arrow::Status DeleteDataFile(const Version& version, const std::string& data_path);
/// An error unless this is the path of a data file, or of a small file, as this program names
/// them: envelopes come from elsewhere.
arrow::Status CheckOwnPath(const std::string& path);

// Reading (scan.cc).

/// The rows of fragments of this version.
arrow::Result<std::unique_ptr<RowSource>> ScanFragments(const std::string& table,
                                                        std::shared_ptr<const Version> version,
                                                        std::vector<Fragment> fragments,
                                                        MemoryAccount* memory);
/// The rows of a written file with the identity columns of its rows file, if there is one.
arrow::Result<std::unique_ptr<RowSource>> ReadDataFile(std::shared_ptr<const Version> version,
                                                       const OutputUnit& unit);

// Written files (output.cc).

arrow::Result<std::unique_ptr<OutputFile>> NewDataFile(std::shared_ptr<const Version> version,
                                                       const OutputContext& context, int number);
/// What the commit has to know of a written file; an error when its parts contradict each other.
struct WrittenFile {
  Fragment fragment;
  std::vector<std::string> identity;  ///< columns of its rows file, none without one
};
arrow::Result<WrittenFile> ParseWrittenFile(const OutputUnit& unit);
/// The rows file of a data file, as one batch of these columns (a conflict when it lacks one).
arrow::Result<std::shared_ptr<arrow::RecordBatch>> ReadRowsFile(
    const Dataset& dataset, const OutputUnit& unit, const std::vector<std::string>& columns);
/// The field of an identity column.
std::shared_ptr<arrow::Field> IdentityField(const std::string& name);

// Key ranges (zone_maps.cc).

/// What the zone map of a column says.
struct ZoneMap {
  std::unordered_map<uint64_t, UnitColumn> fragments;  ///< those that it covers, by id
  bool lacks_bounds = false;  ///< it counts nulls and knows nothing of the values (dictionaries)
};
arrow::Result<ZoneMap> ReadZoneMap(const Version& version, const ClusteringColumn& column,
                                   const KeyType& type);
/// What a zone map that lacks bounds means, for people.
std::string BoundsNote(const std::string& column);

// History (history.cc).

/// One commit of a run.
struct RunCommit {
  uint64_t version = 0;
  int64_t timestamp_millis = 0;
  std::string operation;  ///< "replace", "append", "overwrite"
  Properties properties;
};
/// What a run's transaction says of it.
Properties RunProperties(const RunRecord& run, const std::map<std::string, std::string>& summary,
                         const std::optional<ClusteringSpec>& spec, const std::string& groups);
RunRecord RunOf(const RunCommit& commit);
/// What the history of some versions holds.
struct RunCommits {
  std::vector<RunCommit> commits;  ///< of runs, ascending
  int64_t newest_millis = -1;      ///< of all of these versions; -1 when none is in storage
};
/// The commits of runs in versions from..to.
arrow::Result<RunCommits> ReadRunCommits(const Dataset& dataset, uint64_t from, uint64_t to);

/// The commits of runs up to the latest version, of which only as much is read as anybody has asked
/// for; newest first, since a commit that is looked for is mostly young or not there.
class RunHistory {
 public:
  /// All of them, ascending.
  arrow::Result<std::vector<RunCommit>> All(const Dataset& dataset);
  /// The commit of a run. That of a run whose id tells its time is not looked for in versions that
  /// are older than that by more than clocks may differ.
  arrow::Result<std::optional<RunCommit>> Find(const Dataset& dataset, const std::string& run_id);

 private:
  /// Versions that came since the last look.
  arrow::Status ReadNewer(const Dataset& dataset);
  /// The next versions downwards. The newest of their times; -1: none of them is in storage.
  arrow::Result<int64_t> ReadOlder(const Dataset& dataset, uint64_t count);

  uint64_t from_ = 1, upto_ = 0;  // the versions that were read
  bool started_ = false;
  std::vector<RunCommit> commits_;
};

/// The layout record at one version.
struct Records {
  std::vector<LayoutRecord> records;  ///< oldest first
  std::set<std::string> rebuilt;      ///< runs whose record is not stored
  std::vector<std::string> broken;    ///< keys whose text is no record of any version
  std::vector<std::string> notes;
};
/// Reads the stored records and rebuilds those that a crash kept from being stored, from the
/// transactions and the names of the live fragments' files.
Records LoadRecords(const Version& version);
/// The live fragments of a record to which its stamps still hold.
std::vector<uint64_t> BoundFragments(const Description& description, const LayoutRecord& record);
/// Stores a run's record (none: only what was rebuilt) beside the latest version, along with
/// rebuilt ones; takes those without live fragments away, and broken ones. Retries against other
/// writers.
arrow::Status StoreRecords(const std::string& uri, const Properties& options,
                           const std::optional<LayoutRecord>& record);

class LanceTable : public Table {
 public:
  LanceTable(std::string name, std::string uri, Properties options,
             std::shared_ptr<const Version> version)
      : name_(std::move(name)),
        uri_(std::move(uri)),
        options_(std::move(options)),
        version_(std::move(version)) {}

  const std::string& name() const override { return name_; }
  std::string format() const override { return "lance"; }
  std::string location() const override { return uri_; }
  std::string snapshot_id() const override { return SnapshotIdOf(description()); }
  arrow::Status Refresh() override;
  arrow::Status CheckWritable() const override { return Named(CheckSupported(description())); }
  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return version_->schema; }
  arrow::Result<ClusteringColumn> ResolveColumn(const std::string& name) const override;
  arrow::Result<OutputSizes> output_sizes() const override;
  arrow::Result<Budgets> budgets() const override;
  int64_t commit_bytes_per_row() const override;

  arrow::Result<Declaration> declaration() const override;
  arrow::Result<Algorithm> DefaultAlgorithm(
      const std::vector<ClusteringColumn>& columns) const override;
  bool sorts_undeclared() const override { return true; }
  arrow::Result<bool> SetDeclaration(const ClusteringSpec& spec, std::optional<int64_t> version,
                                     bool allow_single) override;
  arrow::Result<bool> ClearDeclaration() override;

  arrow::Result<Layout> DescribeLayout(const std::vector<ClusteringColumn>& columns) const override;
  arrow::Result<std::optional<Layout>> DescribeLayoutAt(
      const std::string& snapshot_id, const std::vector<ClusteringColumn>& columns) const override;
  arrow::Result<IndexUnification> UnifyIndexes(const std::vector<std::string>& unit_ids,
                                               bool dry_run) override;
  arrow::Result<std::vector<std::string>> RefreshStatistics(const ClusteringSpec& spec) override;
  arrow::Result<std::vector<UnitDescriptor>> Describe(
      const std::vector<std::string>& unit_ids) const override;
  arrow::Result<std::unique_ptr<RowSource>> Scan(const std::vector<UnitDescriptor>& units,
                                                 const std::string& snapshot_id,
                                                 const ReadOptions& options) const override;
  arrow::Result<std::unique_ptr<OutputFile>> NewOutputFile(const OutputContext& context,
                                                           const std::string& cube_id,
                                                           int number) const override;
  arrow::Result<std::unique_ptr<RowSource>> ReadBack(const OutputUnit& unit) const override;
  arrow::Status CheckOutput(const OutputUnit& unit) const override;

  arrow::Result<CommitResult> CommitRewrite(
      const RewriteCommit& commit, const std::function<arrow::Status()>& before_swap) override;
  arrow::Result<CommitResult> CommitWrite(
      const WriteCommit& commit, const std::function<arrow::Status()>& before_swap) override;
  arrow::Result<std::optional<std::string>> FindRun(const std::string& run_id) const override;
  arrow::Result<std::vector<HistoryEntry>> History() const override;

  arrow::Result<std::vector<RunFile>> ListRunFiles() const override;
  arrow::Status WriteRunFile(const std::string& name, const std::string& text) const override;
  arrow::Status DeleteRunFile(const std::string& name) const override;
  arrow::Result<std::vector<FileSize>> FilesOfRun(const std::string& tag) const override;
  arrow::Result<std::set<std::string>> ReferencedFiles() const override;
  arrow::Status DeleteFile(const std::string& location) const override;

 private:
  const Description& description() const { return version_->description; }
  arrow::Status Named(const arrow::Status& status) const { return Prefixed(name_, status); }
  template <typename T>
  arrow::Result<T> Named(arrow::Result<T> result) const {
    if (result.ok()) return result;
    return Named(result.status());
  }
  /// The latest version, freshly read; a conflict when it is not of the dataset that was opened.
  arrow::Result<std::shared_ptr<const Version>> Latest() const;
  void Pin(std::shared_ptr<const Version> version);
  /// Sets and removes config keys; what is read back afterwards must be the same.
  arrow::Status ChangeConfig(const std::map<std::string, std::optional<std::string>>& change);

  std::shared_ptr<const Records> LayoutRecords() const;  ///< of the pinned version, read once
  arrow::Result<std::shared_ptr<const ZoneMap>> ZoneMapOf(const ClusteringColumn& column,
                                                          const KeyType& type) const;

  /// What the library did; retries against other writers.
  arrow::Result<Json> RefreshZoneMaps(const ClusteringSpec& spec);
  /// The depth that the pinned version has once the outputs are in place of the sources: what the
  /// run achieves, appends that come in between left out. -1 when it cannot be told.
  double DepthAfter(const RewriteCommit& commit) const;
  /// What came between plan and commit: a conflict where the rewrite does not hold any more.
  arrow::Status CheckRewrite(const Version& latest, const RewriteCommit& commit) const;
  arrow::Status CheckSchemaUnchanged(const Version& latest) const;
  /// The version that a run committed, looked for after an outcome that is not known.
  arrow::Result<uint64_t> Resolve(const arrow::Status& outcome, const std::string& run_id) const;
  /// What became of a run's commit.
  struct Landed {
    uint64_t version = 0;  ///< that it made
    int attempts = 0;
    std::optional<std::string> earlier;  ///< the version in which the history has the run already
  };
  /// Tries to commit a run on the newest version, again after conflicts that the next look at it
  /// may do away with. `check` refuses what does not fit to that version any more; `swap` commits.
  arrow::Result<Landed> Land(
      const std::string& run_id, int most_attempts,
      const std::function<arrow::Status(const Version& latest)>& check,
      const std::function<arrow::Result<uint64_t>(const Version& latest)>& swap);
  /// Stores the record of what was committed, as far as that can be done, and pins what is there
  /// now.
  arrow::Result<CommitResult> Finish(const Landed& landed, const std::string& before,
                                     const std::optional<LayoutRecord>& record);

  const std::string name_;
  const std::string uri_;
  const Properties options_;
  std::shared_ptr<const Version> version_;
  std::string dropped_deletions_;  ///< of fragments, that UnifyIndexes has left out of indexes
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Records> records_;
  mutable std::map<int32_t, std::shared_ptr<const ZoneMap>> zone_maps_;
  mutable RunHistory run_history_;
};

}  // namespace thalweg::lance
