#include "iceberg/delete_index.h"

#include <algorithm>
#include <bit>
#include <cctype>

#include "util/status.h"

namespace thalweg::iceberg {
namespace {

using Kind = DeleteScope::Kind;

/// Whether a delete file of that kind and age may apply to a data file of that age.
bool OldEnough(Kind kind, int64_t data_sequence_number, int64_t delete_sequence_number) {
  return kind == Kind::kEquality ? data_sequence_number < delete_sequence_number
                                 : data_sequence_number <= delete_sequence_number;
}

bool WithinBounds(const DeleteScope& scope, std::string_view path) {
  return (!scope.lower || *scope.lower <= path) && (!scope.upper || path <= *scope.upper);
}

std::optional<std::string_view> BoundOf(const std::map<int32_t, std::string>& bounds) {
  auto it = bounds.find(kDeletePathFieldId);
  if (it == bounds.end()) return std::nullopt;
  return it->second;
}

}  // namespace

bool HasFormat(const DataFile& file, std::string_view upper_case_format) {
  return std::equal(file.file_format.begin(), file.file_format.end(), upper_case_format.begin(),
                    upper_case_format.end(), [](char have, char want) {
                      return std::toupper(static_cast<unsigned char>(have)) == want;
                    });
}

arrow::Result<DeleteScope> ScopeOf(const DataFile& file) {
  DeleteScope scope;
  if (file.content == FileContent::kEqualityDeletes) {
    scope.kind = Kind::kEquality;
    return scope;
  }
  if (file.content != FileContent::kPositionDeletes) {
    return Invalid("{} is no delete file", file.file_path);
  }
  if (HasFormat(file, "PUFFIN")) {
    scope.kind = Kind::kDeletionVector;
    if (!file.referenced_data_file) {
      return Invalid("deletion vector {}: its manifest entry does not name its data file",
                     file.file_path);
    }
  }
  if (file.referenced_data_file) {
    scope.path = *file.referenced_data_file;
    return scope;
  }
  scope.lower = BoundOf(file.lower_bounds);
  scope.upper = BoundOf(file.upper_bounds);
  // A truncated upper bound is larger than the lower one, so that equal ones are whole paths.
  if (scope.lower && scope.lower == scope.upper) scope.path = scope.lower;
  return scope;
}

DeleteTargets::DeleteTargets(std::vector<Target> targets) : targets_(std::move(targets)) {
  std::sort(targets_.begin(), targets_.end(),
            [](const Target& a, const Target& b) { return a.path < b.path; });
  auto& first = smallest_.emplace_back();
  for (const Target& target : targets_) first.push_back(target.sequence_number);
  for (size_t width = 2; width <= targets_.size(); width *= 2) {
    const auto& halves = smallest_.back();
    std::vector<int64_t> level(targets_.size() - width + 1);
    for (size_t i = 0; i < level.size(); ++i) level[i] = std::min(halves[i], halves[i + width / 2]);
    smallest_.push_back(std::move(level));
  }
}

int64_t DeleteTargets::Smallest(size_t begin, size_t end) const {
  const auto level = static_cast<size_t>(std::bit_width(std::max<size_t>(1, end - begin))) - 1;
  return std::min(smallest_[level][begin], smallest_[level][end - (size_t{1} << level)]);
}

bool DeleteTargets::MayBeHit(const DeleteScope& scope, int64_t delete_sequence_number) const {
  auto below = [](const Target& target, std::string_view path) { return target.path < path; };
  auto above = [](std::string_view path, const Target& target) { return path < target.path; };
  const auto lower = scope.path ? scope.path : scope.lower;
  const auto upper = scope.path ? scope.path : scope.upper;
  const auto first =
      lower ? std::lower_bound(targets_.begin(), targets_.end(), *lower, below) : targets_.begin();
  const auto last =
      upper ? std::upper_bound(targets_.begin(), targets_.end(), *upper, above) : targets_.end();
  if (first >= last) return false;
  return OldEnough(scope.kind,
                   Smallest(static_cast<size_t>(first - targets_.begin()),
                            static_cast<size_t>(last - targets_.begin())),
                   delete_sequence_number);
}

arrow::Result<std::vector<size_t>> UnneededDeletes(const DeleteTargets& live,
                                                   const std::vector<LiveFile>& delete_files) {
  std::vector<size_t> unneeded;
  for (size_t i = 0; i < delete_files.size(); ++i) {
    ARROW_ASSIGN_OR_RAISE(const DeleteScope scope, ScopeOf(delete_files[i].file));
    if (!live.MayBeHit(scope, delete_files[i].sequence_number)) unneeded.push_back(i);
  }
  return unneeded;
}

arrow::Result<DeleteIndex> DeleteIndex::Make(const std::vector<LiveFile>& delete_files) {
  DeleteIndex index;
  index.files_ = &delete_files;
  for (size_t i = 0; i < delete_files.size(); ++i) {
    ARROW_ASSIGN_OR_RAISE(DeleteScope scope, ScopeOf(delete_files[i].file));
    switch (scope.kind) {
      case Kind::kEquality:
        index.equality_.push_back(i);
        break;
      case Kind::kDeletionVector: {
        const auto [other, added] = index.vectors_.emplace(*scope.path, i);
        if (!added) {
          return Invalid("data file {} has two deletion vectors, {} and {}", *scope.path,
                         delete_files[other->second].file.file_path,
                         delete_files[i].file.file_path);
        }
        break;
      }
      case Kind::kPositions:
        index.positions_.push_back(i);
        if (scope.path) {
          index.scoped_[*scope.path].push_back(i);
        } else {
          index.unscoped_.push_back(i);
        }
        break;
    }
    index.scopes_.push_back(scope);
  }
  auto older = [&](size_t a, size_t b) {
    return delete_files[a].sequence_number < delete_files[b].sequence_number;
  };
  std::stable_sort(index.equality_.begin(), index.equality_.end(), older);
  std::stable_sort(index.unscoped_.begin(), index.unscoped_.end(),
                   [&](size_t a, size_t b) { return older(b, a); });
  return index;
}

arrow::Result<std::optional<size_t>> DeleteIndex::DeletionVectorOf(const std::string& path,
                                                                   int64_t sequence_number) const {
  const auto found = vectors_.find(path);
  if (found == vectors_.end()) return std::nullopt;
  const LiveFile& vector = (*files_)[found->second];
  if (!OldEnough(Kind::kDeletionVector, sequence_number, vector.sequence_number)) {
    return Invalid("deletion vector {} has sequence number {}, its data file {} the later {}",
                   vector.file.file_path, vector.sequence_number, path, sequence_number);
  }
  return found->second;
}

arrow::Result<DeleteIndex::Applicable> DeleteIndex::ForDataFile(const std::string& path,
                                                                int64_t sequence_number) const {
  Applicable applicable;
  auto number = [&](size_t i) { return (*files_)[i].sequence_number; };
  ARROW_ASSIGN_OR_RAISE(applicable.deletion_vector, DeletionVectorOf(path, sequence_number));
  if (!applicable.deletion_vector) {
    if (const auto found = scoped_.find(path); found != scoped_.end()) {
      for (size_t i : found->second) {
        if (OldEnough(Kind::kPositions, sequence_number, number(i))) {
          applicable.positions.push_back(i);
        }
      }
    }
    for (size_t i : unscoped_) {
      if (!OldEnough(Kind::kPositions, sequence_number, number(i))) break;
      if (WithinBounds(scopes_[i], path)) applicable.positions.push_back(i);
    }
    std::sort(applicable.positions.begin(), applicable.positions.end());
  }
  const auto younger =
      std::upper_bound(equality_.begin(), equality_.end(), sequence_number,
                       [&](int64_t data_number, size_t i) { return data_number < number(i); });
  applicable.equality = {younger, equality_.end()};
  return applicable;
}

namespace {

/// Rows that delete files of many data files take from each row of one, by its age.
class Spread {
 public:
  Spread(Kind kind, const std::vector<LiveFile>& data_files) : kind_(kind) {
    std::vector<std::pair<int64_t, int64_t>> rows;
    rows.reserve(data_files.size());
    for (const LiveFile& data : data_files) {
      rows.emplace_back(data.sequence_number, data.file.record_count);
    }
    std::sort(rows.begin(), rows.end());
    for (const auto& [number, count] : rows) {
      if (ages_.empty() || ages_.back() != number) {
        ages_.push_back(number);
        rows_.push_back(rows_.empty() ? 0 : rows_.back());
      }
      rows_.back() += static_cast<double>(count);
    }
    share_.resize(ages_.size() + 1);
  }

  void Add(int64_t delete_sequence_number, int64_t rows) {
    const size_t ages = AgesHit(delete_sequence_number);
    if (ages > 0 && rows_[ages - 1] > 0) {
      share_[ages - 1] += static_cast<double>(rows) / rows_[ages - 1];
    }
  }
  void Finish() {
    for (size_t i = share_.size() - 1; i > 0; --i) share_[i - 1] += share_[i];
  }
  double Share(int64_t data_sequence_number) const {
    return share_[static_cast<size_t>(
        std::lower_bound(ages_.begin(), ages_.end(), data_sequence_number) - ages_.begin())];
  }

 private:
  /// How many of the ages, oldest first, a delete file of that number hits.
  size_t AgesHit(int64_t delete_sequence_number) const {
    const auto end = kind_ == Kind::kEquality
                         ? std::lower_bound(ages_.begin(), ages_.end(), delete_sequence_number)
                         : std::upper_bound(ages_.begin(), ages_.end(), delete_sequence_number);
    return static_cast<size_t>(end - ages_.begin());
  }

  const Kind kind_;
  std::vector<int64_t> ages_;  ///< sequence numbers of data files, ascending
  std::vector<double> rows_;   ///< of files of that age or older
  std::vector<double> share_;
};

}  // namespace

arrow::Result<std::vector<DeletedRows>> EstimateDeletedRows(
    const std::vector<LiveFile>& data_files, const std::vector<LiveFile>& delete_files) {
  if (delete_files.empty()) return std::vector<DeletedRows>(data_files.size());
  Spread equality(Kind::kEquality, data_files);
  Spread positions(Kind::kPositions, data_files);
  std::unordered_map<std::string_view, const LiveFile*> vectors;
  std::unordered_map<std::string_view, std::vector<const LiveFile*>> scoped;
  for (const LiveFile& file : delete_files) {
    ARROW_ASSIGN_OR_RAISE(const DeleteScope scope, ScopeOf(file.file));
    if (scope.kind == Kind::kEquality) {
      equality.Add(file.sequence_number, file.file.record_count);
    } else if (scope.kind == Kind::kDeletionVector) {
      vectors[*scope.path] = &file;
    } else if (scope.path) {
      scoped[*scope.path].push_back(&file);
    } else {
      positions.Add(file.sequence_number, file.file.record_count);
    }
  }
  equality.Finish();
  positions.Finish();
  std::vector<DeletedRows> estimates;
  for (const LiveFile& data : data_files) {
    const auto rows = static_cast<double>(data.file.record_count);
    double known = 0;
    int sources = 0;
    double share = equality.Share(data.sequence_number);
    if (auto vector = vectors.find(data.file.file_path); vector != vectors.end()) {
      known = static_cast<double>(vector->second->file.record_count);
      sources = 1;
    } else {
      share += positions.Share(data.sequence_number);
      if (auto found = scoped.find(data.file.file_path); found != scoped.end()) {
        for (const LiveFile* file : found->second) {
          if (data.sequence_number > file->sequence_number) continue;
          known += static_cast<double>(file->file.record_count);
          ++sources;
        }
      }
    }
    DeletedRows deleted;
    deleted.exact = share == 0 && sources <= 1;
    deleted.rows = static_cast<int64_t>(std::min(rows, known + share * rows));
    estimates.push_back(deleted);
  }
  return estimates;
}

}  // namespace thalweg::iceberg
