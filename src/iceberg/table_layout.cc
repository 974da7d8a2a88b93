// The table as the planner sees it: units from manifest statistics, cubes and runs from the cube
// map, history from the snapshots.

#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <unordered_map>

#include "iceberg/bounds.h"
#include "iceberg/iceberg_table_internal.h"
#include "iceberg/parquet_writer.h"
#include "key/encoded_value.h"
#include "spec/property_names.h"
#include "util/number.h"
#include "util/status.h"
#include "util/units.h"

namespace thalweg::iceberg {
namespace {

/// Of a description: a digest of the deletes that name rows of the file.
constexpr char kRowDeletes[] = "row-deletes";

/// NaN as keys have it: above all other values. None for types without.
std::optional<std::string> EncodedNaN(const Type& type) {
  const auto key = KeyTypeOf(type, Algorithm::kTypedQuantileRankV1);
  auto encode = [&](auto nan) -> std::optional<std::string> {
    const auto encoded =
        EncodePlain(*key, std::string_view(reinterpret_cast<const char*>(&nan), sizeof(nan)));
    return encoded.ok() ? std::optional(*encoded) : std::nullopt;
  };
  if (!key.ok()) return std::nullopt;
  if (type.kind == TypeKind::kFloat) return encode(std::numeric_limits<float>::quiet_NaN());
  if (type.kind == TypeKind::kDouble) return encode(std::numeric_limits<double>::quiet_NaN());
  return std::nullopt;
}

UnitColumn ColumnOf(const DataFile& file, const Field& field) {
  UnitColumn column;
  if (auto it = file.null_value_counts.find(field.id); it != file.null_value_counts.end())
    column.null_count = it->second;
  auto decode = [&](const std::map<int32_t, std::string>& bounds) -> std::optional<std::string> {
    auto it = bounds.find(field.id);
    if (it == bounds.end()) return std::nullopt;
    auto encoded = BoundToEncoded(*field.type, it->second);
    if (!encoded.ok()) {
      column.usable = false;
      return std::nullopt;
    }
    return *std::move(encoded);
  };
  // A file whose sizes do not name the column was written before it was added.
  if (column.null_count < 0 && !file.column_sizes.empty() && field.initial_default.is_null() &&
      !file.column_sizes.contains(field.id) && !file.value_counts.contains(field.id)) {
    column.null_count = file.record_count;
  }
  column.lower = decode(file.lower_bounds);
  column.upper = decode(file.upper_bounds);
  const bool all_null = column.null_count >= 0 && column.null_count == file.record_count;
  // NaN is never a bound: a file of nothing else has none.
  const auto nans = file.nan_value_counts.find(field.id);
  if (nans != file.nan_value_counts.end() && nans->second > 0 && !column.lower && !column.upper &&
      std::max<int64_t>(0, column.null_count) + nans->second >= file.record_count) {
    column.lower = column.upper = EncodedNaN(*field.type);
  }
  if (!column.lower && !column.upper && !all_null) column.usable = false;
  if (column.lower && column.upper && *column.upper < *column.lower) column.usable = false;
  return column;
}

int64_t SummaryInt(const std::map<std::string, std::string>& summary, const std::string& key) {
  auto it = summary.find(key);
  int64_t value = 0;
  if (it != summary.end())
    std::from_chars(it->second.data(), it->second.data() + it->second.size(), value);
  return value;
}

/// Leaves `value` as it is where the summary does not hold the key.
void SummaryDouble(const std::map<std::string, std::string>& summary, const std::string& key,
                   double* value) {
  auto it = summary.find(key);
  if (it != summary.end())
    std::from_chars(it->second.data(), it->second.data() + it->second.size(), *value);
}

}  // namespace

Unit UnitOf(const LiveFile& live, int64_t deleted_rows, const Schema& schema,
            const std::vector<ClusteringColumn>& columns) {
  Unit unit;
  unit.id = live.file.file_path;
  const int64_t records = live.file.record_count;
  unit.rows = std::clamp<int64_t>(records - deleted_rows, std::min<int64_t>(1, records), records);
  unit.deleted_rows = deleted_rows;
  unit.bytes = live.file.file_size_in_bytes;
  for (const auto& column : columns) {
    const Field* field = schema.FindById(column.field_id);
    UnitColumn unknown;
    unknown.usable = false;
    unit.columns.push_back(field == nullptr ? unknown : ColumnOf(live.file, *field));
    // Statistics count deleted rows too: brought to the live ones.
    int64_t& nulls = unit.columns.back().null_count;
    if (nulls > 0 && unit.rows < records) {
      nulls = static_cast<int64_t>(static_cast<double>(nulls) / static_cast<double>(records) *
                                   static_cast<double>(unit.rows));
    }
  }
  return unit;
}

arrow::Result<UnitDescriber> UnitDescriber::Make(const SnapshotFiles& files) {
  ARROW_ASSIGN_OR_RAISE(auto deletes, DeleteIndex::Make(files.delete_files));
  return UnitDescriber(files, std::move(deletes));
}

arrow::Result<UnitDescriptor> UnitDescriber::Describe(const LiveFile& live) const {
  UnitDescriptor descriptor;
  descriptor.id = live.file.file_path;
  descriptor.rows = live.file.record_count;
  descriptor.bytes = live.file.file_size_in_bytes;
  descriptor.json = Json{{"snapshot-id", std::to_string(live.snapshot_id)},
                         {"sequence-number", live.sequence_number},
                         {"file-sequence-number", live.file_sequence_number},
                         {"partition-spec-id", live.partition_spec_id},
                         {"data-file", DataFileToJson(live.file)}};
  ARROW_ASSIGN_OR_RAISE(const auto applicable,
                        deletes_.ForDataFile(live.file.file_path, live.sequence_number));
  std::vector<size_t> named = applicable.positions;
  if (applicable.deletion_vector) {
    named.push_back(*applicable.deletion_vector);
    // Its cardinality is checked when it is read; position delete files may name a row twice.
    descriptor.rows -= files_.delete_files[*applicable.deletion_vector].file.record_count;
  }
  descriptor.rows_exact = applicable.positions.empty() && applicable.equality.empty();
  std::string text;
  for (size_t i : named) {
    const LiveFile& deletes = files_.delete_files[i];
    text += fmt::format("{}\n{} {}\n", deletes.file.file_path,
                        deletes.file.content_offset.value_or(-1), deletes.sequence_number);
  }
  if (!named.empty()) {
    descriptor.json[kRowDeletes] =
        fmt::format("{} of {:016x}", named.size(), XXH3_64bits(text.data(), text.size()));
  }
  return descriptor;
}

bool MayHaveDeletedRows(const UnitDescriptor& descriptor) {
  return !descriptor.rows_exact || descriptor.json.contains(kRowDeletes);
}

arrow::Result<LiveFile> LiveFileOf(const UnitDescriptor& descriptor) {
  const std::string what = "unit " + descriptor.id;
  LiveFile live;
  ARROW_ASSIGN_OR_RAISE(const std::string snapshot,
                        GetString(descriptor.json, "snapshot-id", what));
  const auto snapshot_id = ParseNumber<int64_t>(snapshot);
  if (!snapshot_id) return Invalid("{}: \"{}\" is not a snapshot id", what, snapshot);
  live.snapshot_id = *snapshot_id;
  ARROW_ASSIGN_OR_RAISE(live.sequence_number, GetInt64(descriptor.json, "sequence-number", what));
  ARROW_ASSIGN_OR_RAISE(live.file_sequence_number,
                        GetInt64(descriptor.json, "file-sequence-number", what));
  ARROW_ASSIGN_OR_RAISE(const int64_t spec, GetInt64(descriptor.json, "partition-spec-id", what));
  live.partition_spec_id = static_cast<int32_t>(spec);
  ARROW_ASSIGN_OR_RAISE(const Json* file, GetObject(descriptor.json, "data-file", what));
  ARROW_ASSIGN_OR_RAISE(live.file, DataFileFromJson(*file));
  return live;
}

arrow::Result<Layout> IcebergTable::DescribeLayout(
    const std::vector<ClusteringColumn>& columns) const {
  ARROW_ASSIGN_OR_RAISE(const auto files, Files());
  ARROW_ASSIGN_OR_RAISE(const auto cubes, Cubes());
  return MakeLayout(snapshot_id(), *files, *cubes, columns);
}

arrow::Result<std::optional<Layout>> IcebergTable::DescribeLayoutAt(
    const std::string& snapshot_id, const std::vector<ClusteringColumn>& columns) const {
  ARROW_ASSIGN_OR_RAISE(const auto snapshots, loaded_.metadata.Snapshots());
  for (const auto& snapshot : snapshots) {
    if (std::to_string(snapshot.snapshot_id) != snapshot_id) continue;
    ARROW_ASSIGN_OR_RAISE(const auto files,
                          ReadSnapshotFiles(io(), loaded_.metadata, snapshot.snapshot_id));
    ARROW_ASSIGN_OR_RAISE(const auto cubes, LoadCubes(io(), loaded_.metadata, snapshot.snapshot_id,
                                                      files, /*ignore_stored=*/false));
    ARROW_ASSIGN_OR_RAISE(auto layout, MakeLayout(snapshot_id, files, cubes, columns));
    return std::optional<Layout>(std::move(layout));
  }
  return std::nullopt;
}

arrow::Result<Layout> IcebergTable::MakeLayout(const std::string& snapshot_id,
                                               const SnapshotFiles& files,
                                               const CurrentCubes& cubes,
                                               const std::vector<ClusteringColumn>& columns) const {
  ARROW_ASSIGN_OR_RAISE(const Schema schema, loaded_.metadata.CurrentSchema());
  Layout layout;
  layout.snapshot_id = snapshot_id;
  layout.columns = columns;
  for (const auto& column : columns) {
    const Field* field = schema.FindById(column.field_id);
    if (field == nullptr)
      return Invalid("{}: column \"{}\" is not in the current schema", name_, column.name);
    ARROW_ASSIGN_OR_RAISE(const KeyType type,
                          KeyTypeOf(*field->type, Algorithm::kTypedQuantileRankV1));
    layout.types.push_back(type);
  }
  layout.units.reserve(files.data_files.size());
  ARROW_ASSIGN_OR_RAISE(const auto deleted,
                        EstimateDeletedRows(files.data_files, files.delete_files));
  for (size_t i = 0; i < files.data_files.size(); ++i) {
    // Where deletes may apply, and nobody knows to how many rows, there is something to rewrite
    // for.
    const int64_t rows = std::max<int64_t>(deleted[i].rows, deleted[i].exact ? 0 : 1);
    layout.units.push_back(UnitOf(files.data_files[i], rows, schema, columns));
  }
  if (!files.delete_files.empty()) {
    layout.notes.push_back(
        fmt::format("delete files: {}; rows are counted as far as metadata tells, and `thalweg "
                    "optimize` applies "
                    "the deletes to what it rewrites",
                    FormatCount(static_cast<int64_t>(files.delete_files.size()))));
  }
  ApplyCubeMap(cubes.map, &layout);
  if (!cubes.note.empty()) layout.notes.push_back(cubes.note);
  return layout;
}

arrow::Result<std::vector<HistoryEntry>> IcebergTable::History() const {
  std::vector<HistoryEntry> history;
  ARROW_ASSIGN_OR_RAISE(const auto cubes, Cubes());
  ARROW_ASSIGN_OR_RAISE(const auto snapshots, loaded_.metadata.Snapshots());
  for (const auto& snapshot : snapshots) {
    auto run_id = snapshot.summary.find(property::kSummaryRun);
    if (run_id == snapshot.summary.end()) continue;
    HistoryEntry entry;
    entry.operation = snapshot.operation();
    entry.summary = snapshot.summary;
    entry.run.run_id = run_id->second;
    for (const auto& run : cubes->map.runs) {
      if (run.run_id == run_id->second) entry.run = run;
    }
    entry.run.snapshot_id = std::to_string(snapshot.snapshot_id);
    if (snapshot.parent_snapshot_id) {
      entry.snapshot_before = std::to_string(*snapshot.parent_snapshot_id);
    }
    entry.run.committed_millis = snapshot.timestamp_ms;
    entry.run.rows = SummaryInt(snapshot.summary, "added-records");
    entry.run.source_units = SummaryInt(snapshot.summary, "deleted-data-files");
    entry.run.source_bytes = SummaryInt(snapshot.summary, "removed-files-size");
    entry.run.output_units = SummaryInt(snapshot.summary, "added-data-files");
    entry.run.output_bytes = SummaryInt(snapshot.summary, "added-files-size");
    SummaryDouble(snapshot.summary, "thalweg.depth-before", &entry.run.depth_before);
    SummaryDouble(snapshot.summary, "thalweg.predicted-depth", &entry.run.predicted_depth);
    SummaryDouble(snapshot.summary, "thalweg.achieved-depth", &entry.run.achieved_depth);
    history.push_back(std::move(entry));
  }
  return history;
}

}  // namespace thalweg::iceberg
