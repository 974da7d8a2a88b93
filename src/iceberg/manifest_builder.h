#pragma once

#include <arrow/result.h>

#include <map>
#include <string>
#include <vector>

#include "iceberg/commit.h"
#include "iceberg/snapshot_summary.h"

namespace thalweg::iceberg {

/// The codec of manifests and manifest lists that write.avro.compression-codec asks for, by its
/// name in Avro; an unknown one is an error.
arrow::Result<std::string> AvroCodecProperty(const TableMetadata& metadata);

/// Of commit.manifest-merge.enabled, commit.manifest.min-count-to-merge and
/// commit.manifest.target-size-bytes.
struct ManifestMerging {
  static arrow::Result<ManifestMerging> FromProperties(const TableMetadata& metadata);
  bool enabled = true;
  int64_t least_count = 100;
  int64_t target_bytes = int64_t{8} << 20;
};

/// Makes the manifests of one new snapshot, over all attempts of its commit. What an attempt wrote
/// is used again by the next one where it still fits: added files inherit their numbers from the
/// manifest list, and the entries of a rewritten manifest carry theirs.
class ManifestBuilder {
 public:
  /// All references must outlive the builder. Files are named <folder>/<commit_uuid>-m<N>.avro.
  ManifestBuilder(const FileIO& io, const SnapshotChange& change, int64_t snapshot_id,
                  std::string commit_uuid)
      : io_(io), change_(change), snapshot_id_(snapshot_id), commit_uuid_(std::move(commit_uuid)) {}

  struct Manifests {
    std::vector<ManifestFile> list;
    ManifestCounts counts;
    /// v3: one past the last row id that the list assigns.
    int64_t next_row_id = 0;
  };
  /// The manifests of the snapshot that follows `parent`: those of the added files, the parent's
  /// with the removed files taken out, and the rest as they are. Manifests that are written anew in
  /// any case are merged up to the target, those that could stay as well where there are at least
  /// commit.manifest.min-count-to-merge. In format version 3 every data
  /// manifest that has no first row id gets one, from the parent's next on.
  arrow::Result<Manifests> Build(const TableMetadata& parent, const std::string& folder,
                                 const SnapshotFiles& files, const RemovedFiles& removed,
                                 int64_t sequence_number);

  /// Every manifest written so far, whether or not the last attempt uses it.
  const std::vector<std::string>& written() const { return written_; }

 private:
  /// A manifest of ours, to be stamped with the sequence number of the attempt.
  struct Written {
    ManifestFile manifest;
    std::optional<int64_t> least_explicit;  ///< of the data sequence numbers of live entries
    bool inherits = false;                  ///< some live entry takes the commit's number
    int32_t schema_id = 0;
    int32_t spec_id = 0;
  };

  arrow::Result<Written> Write(const TableMetadata& parent, const std::string& folder,
                               int32_t spec_id, int32_t content,
                               const std::vector<ManifestEntry>& entries);
  arrow::Status AddNew(const TableMetadata& parent, const std::string& folder,
                       int64_t sequence_number, Manifests* manifests);
  /// The manifest of the live files of `sources` (positions in files.manifests, of one content),
  /// those in `is_removed` marked as deleted.
  arrow::Result<ManifestFile> Rewrite(const TableMetadata& parent, const std::string& folder,
                                      const SnapshotFiles& files,
                                      const std::vector<size_t>& sources,
                                      const std::vector<bool>& is_removed, int64_t sequence_number,
                                      ManifestCounts* counts);
  /// Gives first row ids to the data manifests without, from next_row_id on.
  static arrow::Status AssignRowIds(Manifests* manifests);
  static ManifestFile Stamp(const Written& written, int64_t sequence_number);

  const FileIO& io_;
  const SnapshotChange& change_;
  const int64_t snapshot_id_;
  const std::string commit_uuid_;
  std::vector<std::string> written_;
  std::vector<Written> added_;
  std::map<std::string, Written> rewritten_;  ///< by the paths of its sources
};

}  // namespace thalweg::iceberg
