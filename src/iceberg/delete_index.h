#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "iceberg/commit.h"

namespace thalweg::iceberg {

/// Which delete files apply to which data files, from the metadata alone (format specification,
/// "Scan Planning"). All files are of unpartitioned specs.

/// Reserved field ids of position delete files.
inline constexpr int32_t kDeletePathFieldId = 2147483546;
inline constexpr int32_t kDeletePositionFieldId = 2147483545;

/// Whether the file is of that format ("PARQUET"), whose case writers do not agree on.
bool HasFormat(const DataFile& file, std::string_view upper_case_format);

/// Which data files a delete file names.
struct DeleteScope {
  enum class Kind { kDeletionVector, kPositions, kEquality };
  Kind kind = Kind::kPositions;
  /// The only data file that it is for; unset: any of those in between the bounds.
  std::optional<std::string_view> path;
  /// Bounds of the paths in a file of positions (unset: open). A truncated upper bound is above
  /// everything that it stands for.
  std::optional<std::string_view> lower, upper;
};
/// Views into `file`. A deletion vector that does not say for which data file it is: an error.
arrow::Result<DeleteScope> ScopeOf(const DataFile& file);

/// Data files that deletes may hit, by path and data sequence number.
class DeleteTargets {
 public:
  struct Target {
    std::string path;
    int64_t sequence_number = 0;
  };
  explicit DeleteTargets(std::vector<Target> targets);

  /// Whether rows of at least one of the files may be deleted by a delete file of this scope and
  /// data sequence number: a file of at most that sequence number for positions and deletion
  /// vectors, of a smaller one for equality deletes.
  bool MayBeHit(const DeleteScope& scope, int64_t delete_sequence_number) const;

 private:
  /// Smallest sequence number among targets [begin, end); they are not empty.
  int64_t Smallest(size_t begin, size_t end) const;

  std::vector<Target> targets_;                 ///< by path
  std::vector<std::vector<int64_t>> smallest_;  ///< [k][i]: of targets [i, i + 2^k)
};

/// Positions in `delete_files` of those that can apply to none of the data files (those that will
/// be live after a commit, newly added ones with the data sequence number that they will have), in
/// ascending order: deletion vectors and file-scoped position deletes of files that are gone,
/// position deletes of which no data file is old enough or has a path within the bounds, equality
/// deletes that are not younger than the oldest data file.
arrow::Result<std::vector<size_t>> UnneededDeletes(const DeleteTargets& live,
                                                   const std::vector<LiveFile>& delete_files);

/// The delete files of a snapshot by what they are for. Keeps a pointer to `delete_files`.
class DeleteIndex {
 public:
  /// Two deletion vectors for one data file: an error.
  static arrow::Result<DeleteIndex> Make(const std::vector<LiveFile>& delete_files);

  /// What applies to one data file, as positions in `delete_files`.
  struct Applicable {
    std::optional<size_t> deletion_vector;
    /// Ascending; empty when there is a deletion vector, which has their positions too.
    std::vector<size_t> positions;
    std::span<const size_t> equality;  ///< oldest first; valid as long as the index
  };
  /// A deletion vector that is older than its data file: an error.
  arrow::Result<Applicable> ForDataFile(const std::string& path, int64_t sequence_number) const;
  /// The deletion vector of a data file.
  arrow::Result<std::optional<size_t>> DeletionVectorOf(const std::string& path,
                                                        int64_t sequence_number) const;

  /// Equality deletes, oldest first.
  const std::vector<size_t>& equality() const { return equality_; }
  /// All files of positions, in the order of `delete_files`.
  const std::vector<size_t>& positions() const { return positions_; }
  const DeleteScope& scope(size_t delete_file) const { return scopes_[delete_file]; }

 private:
  const std::vector<LiveFile>* files_ = nullptr;
  std::vector<DeleteScope> scopes_;
  std::unordered_map<std::string_view, size_t> vectors_;
  std::unordered_map<std::string_view, std::vector<size_t>> scoped_;
  std::vector<size_t> unscoped_;  ///< position deletes of several data files, youngest first
  std::vector<size_t> positions_;
  std::vector<size_t> equality_;
};

/// How many rows of a data file are deleted, as far as metadata tells.
struct DeletedRows {
  int64_t rows = 0;
  /// `rows` is the number: there are no deletes, or one deletion vector or one file-scoped position
  /// delete file and nothing else. Otherwise a guess that spreads a delete file's rows evenly over
  /// those that it may hit.
  bool exact = true;
};
/// One element per data file, in the same order.
arrow::Result<std::vector<DeletedRows>> EstimateDeletedRows(
    const std::vector<LiveFile>& data_files, const std::vector<LiveFile>& delete_files);

}  // namespace thalweg::iceberg
