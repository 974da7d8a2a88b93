#include "iceberg/equality_deletes.h"

#include <parquet/file_reader.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <set>

#include "iceberg/bounds.h"
#include "iceberg/delete_index.h"
#include "iceberg/equality_keys.h"
#include "iceberg/parquet_reader.h"
#include "iceberg/parquet_schema.h"
#include "sort/parallel.h"
#include "util/status.h"

namespace thalweg::iceberg {
namespace {

/// Batches of the few columns that are read are small, so that their hashes are.
constexpr int64_t kBatchBytes = int64_t{4} << 20;
/// Beyond so many comparisons bounds are not looked at: reading costs less then.
constexpr size_t kMostComparisons = size_t{1} << 26;

/// The field with those of its descendants that are wanted; nullopt when there are none.
arrow::Result<std::optional<Field>> Prune(const Field& field, const std::set<int32_t>& wanted) {
  const Type& type = *field.type;
  if (wanted.contains(field.id)) {
    if (!type.primitive()) {
      return Invalid("equality deletes by field {} (\"{}\"), which is a {}, are not supported",
                     field.id, field.name, type.ToString());
    }
    Field kept = field;
    kept.required = false;
    return kept;
  }
  if (type.kind != TypeKind::kStruct && type.kind != TypeKind::kList &&
      type.kind != TypeKind::kMap) {
    return std::nullopt;
  }
  auto pruned = std::make_shared<Type>(type);
  pruned->fields.clear();
  for (const Field& child : type.fields) {
    ARROW_ASSIGN_OR_RAISE(auto kept, Prune(child, wanted));
    if (!kept) continue;
    if (type.kind != TypeKind::kStruct) {
      return Invalid("equality deletes by a field inside the list or map \"{}\" are not supported",
                     field.name);
    }
    pruned->fields.push_back(std::move(*kept));
  }
  if (pruned->fields.empty()) return std::nullopt;
  Field kept = field;
  kept.required = false;
  kept.type = std::move(pruned);
  return kept;
}

bool FindWay(const std::vector<Field>& fields, int32_t id, std::vector<int>* way) {
  for (size_t i = 0; i < fields.size(); ++i) {
    way->push_back(static_cast<int>(i));
    if (fields[i].id == id || FindWay(fields[i].type->fields, id, way)) return true;
    way->pop_back();
  }
  return false;
}

/// What metadata tells of the values of a field in a file.
struct FieldRange {
  bool null = true;
  bool nan = true;
  bool values = true;                       ///< neither null nor NaN
  std::optional<std::string> lower, upper;  ///< of the values, encoded; unset: open
};

std::optional<int64_t> CountOf(const std::map<int32_t, int64_t>& counts, int32_t id) {
  auto it = counts.find(id);
  if (it == counts.end() || it->second < 0) return std::nullopt;
  return it->second;
}

std::optional<std::string> EncodedBound(const std::map<int32_t, std::string>& bounds,
                                        const Field& field, bool lower) {
  auto it = bounds.find(field.id);
  if (it == bounds.end()) return std::nullopt;
  std::string bound = it->second;
  const bool floating =
      field.type->kind == TypeKind::kFloat || field.type->kind == TypeKind::kDouble;
  if (floating && !bound.empty() && (bound.back() & 0x7f) == 0 &&
      std::all_of(bound.begin(), bound.end() - 1, [](char c) { return c == 0; })) {
    bound.back() = static_cast<char>(lower ? 0x80 : 0);  // not all writers tell -0.0 from 0.0
  }
  auto encoded = BoundToEncoded(*field.type, bound);
  if (!encoded.ok()) return std::nullopt;
  return *std::move(encoded);
}

FieldRange RangeOf(const DataFile& file, const Field& field) {
  FieldRange range;
  const auto nulls = CountOf(file.null_value_counts, field.id);
  const auto values = CountOf(file.value_counts, field.id);
  const bool floating =
      field.type->kind == TypeKind::kFloat || field.type->kind == TypeKind::kDouble;
  const auto nans = floating ? CountOf(file.nan_value_counts, field.id) : int64_t{0};
  range.null = nulls != 0;
  range.nan = nans != 0;
  range.values = !nulls || !nans || !values || *values > *nulls + *nans;
  range.lower = EncodedBound(file.lower_bounds, field, true);
  range.upper = EncodedBound(file.upper_bounds, field, false);
  return range;
}

using Ranges = std::vector<FieldRange>;

Ranges RangesOf(const DataFile& file, const std::vector<const Field*>& fields) {
  Ranges ranges;
  for (const Field* field : fields) {
    ranges.push_back(field == nullptr ? FieldRange() : RangeOf(file, *field));
  }
  return ranges;
}

bool Meet(const Ranges& a, const Ranges& b) {
  auto apart = [](const std::optional<std::string>& upper,
                  const std::optional<std::string>& lower) {
    return upper && lower && *upper < *lower;
  };
  for (size_t i = 0; i < a.size(); ++i) {
    if ((a[i].null && b[i].null) || (a[i].nan && b[i].nan)) continue;
    if (!a[i].values || !b[i].values) return false;
    if (apart(a[i].upper, b[i].lower) || apart(b[i].upper, a[i].lower)) return false;
  }
  return true;
}

/// A column that a delete file lacks would be read as null, and delete what it was not meant to.
arrow::Status CheckFieldsPresent(const FileIO& io, const std::string& location,
                                 const std::vector<int32_t>& ids) {
  return WithParquetErrors("cannot read equality delete file", location, [&]() -> arrow::Status {
    ARROW_ASSIGN_OR_RAISE(auto input, io.OpenInput(location));
    const auto file = parquet::ParquetFileReader::Open(std::move(input));
    const parquet::SchemaDescriptor& schema = *file->metadata()->schema();
    std::set<int32_t> present;
    for (int i = 0; i < schema.num_columns(); ++i) {
      present.insert(schema.Column(i)->schema_node()->field_id());
    }
    for (int32_t id : ids) {
      if (!present.contains(id)) return Invalid("its equality field {} is missing", id);
    }
    return arrow::Status::OK();
  });
}

/// All delete files of one set of columns.
class Group {
 public:
  Group(const std::shared_ptr<FileIO>& io, std::vector<int32_t> ids, EqualityColumns columns,
        DeletedPositions* positions, MemoryAccount* memory, const EqualityDeleteOptions& options)
      : io_(io),
        ids_(std::move(ids)),
        columns_(std::move(columns)),
        positions_(positions),
        memory_(memory),
        options_(options),
        hasher_(columns_.ways, Seed()) {
    delete_scan_.max_batch_bytes = data_scan_.max_batch_bytes = kBatchBytes;
    delete_scan_.stop = data_scan_.stop = options.stop;
    data_scan_.name_mapping = options.name_mapping;
  }

  arrow::Status Apply(const std::vector<const LiveFile*>& delete_files) {
    for (const LiveFile* file : delete_files) numbers_.push_back(file->sequence_number);
    std::sort(numbers_.begin(), numbers_.end());
    numbers_.erase(std::unique(numbers_.begin(), numbers_.end()), numbers_.end());
    compare_bounds_ =
        positions_->size() * delete_files.size() * columns_.fields.size() <= kMostComparisons;
    if (compare_bounds_) {
      for (size_t i = 0; i < positions_->size(); ++i) {
        data_ranges_.push_back(RangesOf(positions_->file(i).file, columns_.fields));
      }
    }
    std::vector<Deletes> deletes;
    for (const LiveFile* file : delete_files) {
      ARROW_RETURN_NOT_OK(options_.stop.Poll());
      Deletes candidate{file, {}};
      if (compare_bounds_) candidate.ranges = RangesOf(file->file, columns_.fields);
      bool needed = false;
      for (size_t i = 0; i < positions_->size() && !needed; ++i) needed = MayHit(candidate, i);
      if (needed) deletes.push_back(std::move(candidate));
    }
    if (deletes.empty()) return arrow::Status::OK();
    // Oldest first: the passes of old deletes read old data files only.
    std::stable_sort(deletes.begin(), deletes.end(), [](const Deletes& a, const Deletes& b) {
      return a.file->sequence_number < b.file->sequence_number;
    });
    return RunPasses(deletes);
  }

 private:
  struct Deletes {
    const LiveFile* file;
    Ranges ranges;
  };
  struct Pass {
    std::vector<const Deletes*> deletes;
    int64_t keys = 0;
  };

  static uint64_t Seed() {
    std::random_device random;
    return uint64_t{random()} << 32 | random();
  }

  bool MayHit(const Deletes& deletes, size_t data) const {
    return positions_->file(data).sequence_number < deletes.file->sequence_number &&
           (!compare_bounds_ || Meet(deletes.ranges, data_ranges_[data]));
  }

  /// How many of the delete files' sequence numbers are at most this one: the rank of the number
  /// itself when it is among them.
  uint32_t Rank(int64_t sequence_number) const {
    return static_cast<uint32_t>(
        std::upper_bound(numbers_.begin(), numbers_.end(), sequence_number) - numbers_.begin());
  }

  arrow::Status RunPasses(const std::vector<Deletes>& deletes) {
    const int64_t room = EqualityTable::Limit(options_.table_bytes);
    std::vector<Pass> passes;
    for (const Deletes& file : deletes) {
      const int64_t keys = file.file->file.record_count;
      if (passes.empty() || passes.back().keys > room - std::min(room, keys)) {
        passes.emplace_back();
      }
      passes.back().deletes.push_back(&file);
      passes.back().keys += std::min(room, keys);
    }
    int64_t most = 0;
    for (const Pass& pass : passes) most = std::max(most, pass.keys);
    EqualityTable table(most, options_.table_bytes);
    const Reservation held(memory_, table.bytes());
    for (const Pass& pass : passes) {
      table.Clear();
      ARROW_RETURN_NOT_OK(Collect(pass, &table));
      ARROW_RETURN_NOT_OK(Find(pass, table));
    }
    return arrow::Status::OK();
  }

  /// Reads the pass's delete files into the table. One file may be too large for it: then what is
  /// full is applied in between.
  arrow::Status Collect(const Pass& pass, EqualityTable* table) {
    std::mutex mutex;
    const int threads = pass.deletes.size() == 1 ? 1 : options_.threads;
    return ParallelFor(threads, static_cast<int64_t>(pass.deletes.size()), [&](int64_t i) {
      return CollectFile(pass, *pass.deletes[static_cast<size_t>(i)]->file, table, &mutex);
    });
  }

  arrow::Status CollectFile(const Pass& pass, const LiveFile& deletes, EqualityTable* table,
                            std::mutex* mutex) {
    if (!HasFormat(deletes.file, "PARQUET")) {
      return Invalid(
          "delete file {} is {}; only Parquet files and deletion vectors are supported by this "
          "version of Thalweg",
          deletes.file.file_path, deletes.file.file_format);
    }
    ARROW_RETURN_NOT_OK(CheckFieldsPresent(*io_, deletes.file.file_path, ids_));
    ARROW_ASSIGN_OR_RAISE(auto source, ScanParquetFiles(io_, columns_.projection, {deletes.file},
                                                        memory_, delete_scan_));
    const uint32_t rank = Rank(deletes.sequence_number);
    std::vector<XXH128_hash_t> hashes;
    for (int part = 0; part < source->num_parts(); ++part) {
      ARROW_ASSIGN_OR_RAISE(auto stream, source->OpenPart(part, AllColumns()));
      for (;;) {
        ARROW_RETURN_NOT_OK(options_.stop.Poll());
        ARROW_ASSIGN_OR_RAISE(auto batch, stream->Next());
        if (!batch) break;
        ARROW_RETURN_NOT_OK(hasher_.Hash(*batch->batch, &hashes));
        std::lock_guard lock(*mutex);
        for (const XXH128_hash_t& hash : hashes) {
          if (table->full()) {
            if (pass.deletes.size() != 1) {
              return Invalid("delete file {} has more rows than the table's manifest tells",
                             deletes.file.file_path);
            }
            ARROW_RETURN_NOT_OK(Find(pass, *table));
            table->Clear();
          }
          table->Put(hash, rank);
        }
      }
    }
    return arrow::Status::OK();
  }

  /// Looks the rows of the data files up in the table.
  arrow::Status Find(const Pass& pass, const EqualityTable& table) {
    if (table.size() == 0) return arrow::Status::OK();
    std::vector<size_t> numbers;
    std::vector<DataFile> files;
    for (size_t i = 0; i < positions_->size(); ++i) {
      ARROW_RETURN_NOT_OK(options_.stop.Poll());
      const bool hit = std::any_of(pass.deletes.begin(), pass.deletes.end(),
                                   [&](const Deletes* deletes) { return MayHit(*deletes, i); });
      if (!hit || positions_->file(i).file.record_count == 0) continue;
      numbers.push_back(i);
      files.push_back(positions_->file(i).file);
    }
    if (files.empty()) return arrow::Status::OK();
    ARROW_ASSIGN_OR_RAISE(auto source, ScanParquetFiles(io_, columns_.projection, std::move(files),
                                                        memory_, data_scan_));
    SharedStatus shared;
    std::atomic<int> next_part{0};
    const int threads = std::max(1, std::min(options_.threads, source->num_parts()));
    return RunThreads(threads, shared, [&](int) -> arrow::Status {
      std::vector<XXH128_hash_t> hashes;
      std::vector<uint32_t> found;
      for (int part = next_part++; part < source->num_parts(); part = next_part++) {
        ARROW_ASSIGN_OR_RAISE(auto stream, source->OpenPart(part, AllColumns()));
        for (;;) {
          if (shared.failed()) return arrow::Status::OK();
          ARROW_RETURN_NOT_OK(options_.stop.Poll());
          ARROW_ASSIGN_OR_RAISE(auto batch, stream->Next());
          if (!batch) break;
          if (batch->addresses) return Invalid("rows are missing in a scan without deletes");
          ARROW_RETURN_NOT_OK(hasher_.Hash(*batch->batch, &hashes));
          const size_t file = numbers[batch->first_address >> 32];
          table.FindAbove(hashes, Rank(positions_->file(file).sequence_number), &found);
          const auto first = static_cast<uint32_t>(batch->first_address);
          for (uint32_t& row : found) row += first;
          positions_->Add(file, found);
        }
      }
      return arrow::Status::OK();
    });
  }

  std::vector<int> AllColumns() const {
    std::vector<int> columns(columns_.projection.fields.size());
    for (size_t i = 0; i < columns.size(); ++i) columns[i] = static_cast<int>(i);
    return columns;
  }

  const std::shared_ptr<FileIO> io_;
  const std::vector<int32_t> ids_;
  const EqualityColumns columns_;
  DeletedPositions* const positions_;
  MemoryAccount* const memory_;
  const EqualityDeleteOptions& options_;
  const EqualityHasher hasher_;
  ScanOptions delete_scan_, data_scan_;
  std::vector<int64_t> numbers_;  ///< sequence numbers of the delete files, ascending
  bool compare_bounds_ = false;
  std::vector<Ranges> data_ranges_;
};

}  // namespace

arrow::Result<EqualityColumns> FindEqualityColumns(const std::vector<int32_t>& ids,
                                                   const Schema& current,
                                                   const std::vector<Schema>& schemas) {
  if (ids.empty()) return Invalid("an equality delete file names no fields to compare by");
  std::vector<const Schema*> newest_first{&current};
  for (auto i = schemas.rbegin(); i != schemas.rend(); ++i) newest_first.push_back(&*i);
  EqualityColumns columns;
  std::set<int32_t> left(ids.begin(), ids.end());
  for (const Schema* schema : newest_first) {
    std::set<int32_t> here;
    for (int32_t id : left) {
      if (schema->FindById(id) != nullptr) here.insert(id);
    }
    if (here.empty()) continue;
    for (const Field& field : schema->fields) {
      ARROW_ASSIGN_OR_RAISE(auto kept, Prune(field, here));
      if (!kept) continue;
      for (const Field& other : columns.projection.fields) {
        if (other.id == kept->id) {
          return Invalid(
              "equality deletes by fields of struct \"{}\" that belong to different schemas are "
              "not supported",
              kept->name);
        }
        // A dropped column and a new one may have the same name.
        if (other.name == kept->name)
          kept->name = fmt::format("{} (field {})", kept->name, kept->id);
      }
      columns.projection.fields.push_back(std::move(*kept));
    }
    for (int32_t id : here) left.erase(id);
  }
  if (!left.empty()) {
    return Invalid("equality deletes compare by field {}, which no schema of the table has",
                   *left.begin());
  }
  for (int32_t id : ids) {
    std::vector<int> way;
    FindWay(columns.projection.fields, id, &way);
    const Field* field = nullptr;
    for (const Schema* schema : newest_first) {
      if (way.size() == 1 && field == nullptr) field = schema->FindById(id);
    }
    columns.fields.push_back(field);
    columns.ways.push_back(std::move(way));
  }
  return columns;
}

bool MayMeet(const DataFile& data, const DataFile& deletes,
             const std::vector<const Field*>& fields) {
  return Meet(RangesOf(data, fields), RangesOf(deletes, fields));
}

arrow::Status ApplyEqualityDeletes(const std::shared_ptr<FileIO>& io, const Schema& current,
                                   const std::vector<Schema>& schemas,
                                   const std::vector<const LiveFile*>& delete_files,
                                   DeletedPositions* positions, MemoryAccount* memory,
                                   const EqualityDeleteOptions& options) {
  int64_t oldest = INT64_MAX;
  for (size_t i = 0; i < positions->size(); ++i) {
    oldest = std::min(oldest, positions->file(i).sequence_number);
  }
  std::map<std::vector<int32_t>, std::vector<const LiveFile*>> groups;
  for (const LiveFile* file : delete_files) {
    if (file->sequence_number <= oldest) continue;
    const std::set<int32_t> ids(file->file.equality_ids.begin(), file->file.equality_ids.end());
    groups[{ids.begin(), ids.end()}].push_back(file);
  }
  for (const auto& [ids, files] : groups) {
    auto columns = FindEqualityColumns(ids, current, schemas);
    if (!columns.ok()) {
      return columns.status().WithMessage("delete file ", files[0]->file.file_path, ": ",
                                          columns.status().message());
    }
    ARROW_RETURN_NOT_OK(
        Group(io, ids, *std::move(columns), positions, memory, options).Apply(files));
  }
  return arrow::Status::OK();
}

}  // namespace thalweg::iceberg
