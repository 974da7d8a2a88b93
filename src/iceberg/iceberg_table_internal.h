#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "iceberg/catalog.h"
#include "iceberg/commit.h"
#include "iceberg/delete_index.h"
#include "iceberg/iceberg_table.h"
#include "layout/cube_map.h"
#include "table/table.h"

namespace thalweg::iceberg {

/// Where a table's data files go: "write.data.path" or <location>/data.
std::string DataFolder(const TableMetadata& metadata);

/// The location of a new data file: its name carries run, task and attempt; with
/// write.object-storage.enabled it is spread over folders made from a hash of the name.
std::string DataFileLocation(const TableMetadata& metadata, const OutputContext& context,
                             int number);
/// True for a location whose file name is of that form.
bool IsOwnDataFile(const std::string& location);

// The cube map (table_cubes.cc).

/// The cube map that holds for a snapshot: the newest one stored with it or an ancestor, completed
/// from the live files' own stamps where it is stale or missing. `note` says so, "" when it was
/// right as stored.
struct CurrentCubes {
  CubeMap map;
  std::string note;
};
arrow::Result<CurrentCubes> LoadCubes(const FileIO& io, const TableMetadata& metadata,
                                      std::optional<int64_t> snapshot_id,
                                      const SnapshotFiles& files, bool ignore_stored);
/// Writes the map as the statistics file of a snapshot, into `folder`; blobs of `previous` (the
/// entry that the snapshot has) are carried over.
arrow::Result<StatisticsFile> StoreCubes(const FileIO& io, const std::string& folder,
                                         const CubeMap& map, int64_t snapshot_id,
                                         int64_t sequence_number, const std::string& file_tag,
                                         const std::optional<StatisticsFile>& previous);

/// A unit's description for the planner, from manifest statistics. `deleted_rows`: about how many
/// of its rows are deleted.
Unit UnitOf(const LiveFile& live, int64_t deleted_rows, const Schema& schema,
            const std::vector<ClusteringColumn>& columns);

/// Full descriptions of a snapshot's data files. They tell deletion vectors and position deletes,
/// which name rows of the file as it is: a new one changes the description. Equality deletes they
/// do not tell, as those apply to the rewritten rows too.
class UnitDescriber {
 public:
  /// `files` must outlive it.
  static arrow::Result<UnitDescriber> Make(const SnapshotFiles& files);
  arrow::Result<UnitDescriptor> Describe(const LiveFile& live) const;

 private:
  UnitDescriber(const SnapshotFiles& files, DeleteIndex deletes)
      : files_(files), deletes_(std::move(deletes)) {}
  const SnapshotFiles& files_;
  const DeleteIndex deletes_;
};
/// Whether deletes applied to rows of the unit when it was described.
bool MayHaveDeletedRows(const UnitDescriptor& descriptor);
/// The data file that a descriptor describes.
arrow::Result<LiveFile> LiveFileOf(const UnitDescriptor& descriptor);

class IcebergTable : public Table {
 public:
  IcebergTable(std::string name, std::unique_ptr<TableStore> store, LoadedTable loaded)
      : name_(std::move(name)), store_(std::move(store)), loaded_(std::move(loaded)) {}

  const std::string& name() const override { return name_; }
  std::string format() const override { return "iceberg"; }
  std::string location() const override { return loaded_.metadata.location(); }
  std::string snapshot_id() const override;
  arrow::Status Refresh() override;
  arrow::Status CheckWritable() const override;
  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override;
  arrow::Result<std::map<std::string, std::shared_ptr<arrow::Scalar>>> WriteDefaults()
      const override;
  arrow::Result<ClusteringColumn> ResolveColumn(const std::string& name) const override;
  arrow::Result<OutputSizes> output_sizes() const override;

  arrow::Result<Declaration> declaration() const override;
  arrow::Result<bool> SetDeclaration(const ClusteringSpec& spec, std::optional<int64_t> version,
                                     bool allow_single) override;
  arrow::Result<bool> ClearDeclaration() override;

  arrow::Result<Layout> DescribeLayout(const std::vector<ClusteringColumn>& columns) const override;
  arrow::Result<std::optional<Layout>> DescribeLayoutAt(
      const std::string& snapshot_id, const std::vector<ClusteringColumn>& columns) const override;
  arrow::Result<bool> RebuildCubes() override;
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

  std::string TagOfRun(const std::string& run_id) const override;
  arrow::Result<std::vector<RunFile>> ListRunFiles() const override;
  arrow::Status WriteRunFile(const std::string& name, const std::string& text) const override;
  arrow::Status DeleteRunFile(const std::string& name) const override;
  arrow::Result<std::vector<FileSize>> FilesOfRun(const std::string& tag) const override;
  arrow::Result<std::set<std::string>> ReferencedFiles() const override;
  arrow::Status DeleteFile(const std::string& location) const override;

 private:
  const FileIO& io() const { return *store_->io(); }
  arrow::Result<Layout> MakeLayout(const std::string& snapshot_id, const SnapshotFiles& files,
                                   const CurrentCubes& cubes,
                                   const std::vector<ClusteringColumn>& columns) const;
  /// Rows of files as they are stored, in the current schema, by path; with the two columns of row
  /// lineage if asked for.
  arrow::Result<std::unique_ptr<RowSource>> ScanFiles(std::vector<DataFile> files,
                                                      bool with_lineage,
                                                      const ReadOptions& options) const;
  /// Files of a snapshot, which may be older than the pinned one.
  arrow::Result<std::shared_ptr<const SnapshotFiles>> FilesAt(const std::string& snapshot_id) const;
  /// Files of the pinned snapshot, read once.
  arrow::Result<std::shared_ptr<const SnapshotFiles>> Files() const;
  /// The cube map that holds for the pinned snapshot, read once.
  arrow::Result<std::shared_ptr<const CurrentCubes>> Cubes() const;
  /// Prefixes a failure with the table's name, keeping its kind.
  arrow::Status Named(const arrow::Status& status) const;
  arrow::Result<CommitResult> Finish(const arrow::Result<CommitOutcome>& outcome,
                                     const std::string& before);

  const std::string name_;
  const std::unique_ptr<TableStore> store_;
  LoadedTable loaded_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const SnapshotFiles> files_;
  mutable std::shared_ptr<const CurrentCubes> cubes_;
};

}  // namespace thalweg::iceberg
