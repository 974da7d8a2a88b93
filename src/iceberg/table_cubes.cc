// The cube map in a Puffin file: looked up from the snapshot back through its ancestors, completed
// from the files' own stamps, stored.

#include <algorithm>
#include <charconv>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "iceberg/commit_retry.h"
#include "iceberg/iceberg_table_internal.h"
#include "iceberg/parquet_reader.h"
#include "iceberg/puffin.h"
#include "spec/property_names.h"
#include "util/status.h"
#include "util/uuid.h"

namespace thalweg::iceberg {
namespace {

constexpr char kBlobType[] = "liquid-cubes-v1";

arrow::Result<std::optional<CubeMap>> ReadStored(const FileIO& io,
                                                 const StatisticsFile& statistics) {
  ARROW_ASSIGN_OR_RAISE(const std::string bytes, io.ReadAll(statistics.statistics_path));
  ARROW_ASSIGN_OR_RAISE(const PuffinFile puffin, ReadPuffin(bytes, statistics.statistics_path));
  for (const auto& blob : puffin.blobs) {
    if (blob.type != kBlobType || blob.raw) continue;
    auto map = ParseCubeMap(blob.data);
    if (!map.ok()) return Invalid("{}: {}", statistics.statistics_path, map.status().message());
    return std::optional<CubeMap>(*std::move(map));
  }
  return std::nullopt;
}

std::vector<int32_t> ParseIds(std::string_view text) {
  std::vector<int32_t> ids;
  while (!text.empty()) {
    int32_t id = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
    if (error != std::errc()) break;
    ids.push_back(id);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (!text.empty()) text.remove_prefix(1);
  }
  return ids;
}

/// The stamp in a file's own footer; nullopt when it is not a clustered file of ours, or cannot be
/// read.
std::optional<Stamp> StampOf(const FileIO& io, const std::string& location) {
  auto footer = ReadParquetFooter(io, location);
  if (!footer.ok())
    return std::nullopt;  // Scanning it will say what is wrong; here it just counts as unclustered.
  auto value = [&](const char* key) {
    auto it = footer->key_values.find(key);
    return it == footer->key_values.end() ? std::string() : it->second;
  };
  Stamp stamp{value(property::kStampRun), value(property::kStampCube), value(property::kStampSpec),
              ParseIds(value(property::kStampFields))};
  if (stamp.run_id.empty() || stamp.cube_id.empty() || stamp.spec_id.empty() ||
      stamp.field_ids.empty())
    return std::nullopt;
  return stamp;
}

/// Whether both hold the same units in the same cubes.
bool SameCubes(const CubeMap& a, const CubeMap& b) {
  auto units_by_cube = [](const CubeMap& map) {
    std::map<std::string, std::set<std::string>> units;
    for (const auto& cube : map.cubes)
      units[cube.cube_id].insert(cube.unit_ids.begin(), cube.unit_ids.end());
    return units;
  };
  return units_by_cube(a) == units_by_cube(b);
}

}  // namespace

arrow::Result<CurrentCubes> LoadCubes(const FileIO& io, const TableMetadata& metadata,
                                      std::optional<int64_t> snapshot_id,
                                      const SnapshotFiles& files, bool ignore_stored) {
  ARROW_ASSIGN_OR_RAISE(const auto snapshots, metadata.Snapshots());
  ARROW_ASSIGN_OR_RAISE(const auto statistics, metadata.Statistics());
  std::unordered_map<int64_t, const Snapshot*> by_id;
  for (const auto& snapshot : snapshots) by_id.emplace(snapshot.snapshot_id, &snapshot);

  // From the snapshot back through its ancestors: the newest stored map.
  std::optional<CubeMap> stored;
  std::string unreadable;
  std::unordered_set<int64_t> seen;
  for (auto id = snapshot_id; id && !stored && !ignore_stored && seen.insert(*id).second;) {
    auto it = by_id.find(*id);
    if (it == by_id.end()) break;  // expired
    for (const auto& entry : statistics) {
      if (entry.snapshot_id != *id || stored) continue;
      auto read = ReadStored(io, entry);
      if (read.ok()) {
        stored = *std::move(read);
      } else {
        unreadable = read.status().message();
      }
    }
    id = it->second->parent_snapshot_id;
  }

  // Live files with our name that the map does not know are asked themselves.
  std::unordered_set<std::string_view> known;
  if (stored) {
    for (const auto& cube : stored->cubes) known.insert(cube.unit_ids.begin(), cube.unit_ids.end());
  }
  std::vector<Unit> live_units;
  live_units.reserve(files.data_files.size());
  for (const auto& live : files.data_files) {
    Unit unit;
    unit.id = live.file.file_path;
    unit.rows = live.file.record_count;
    unit.bytes = live.file.file_size_in_bytes;
    if (!known.contains(unit.id) && IsOwnDataFile(unit.id)) unit.stamp = StampOf(io, unit.id);
    live_units.push_back(std::move(unit));
  }
  const bool any_stamp = std::any_of(live_units.begin(), live_units.end(),
                                     [](const Unit& unit) { return unit.stamp.has_value(); });
  if (!stored && !any_stamp) return CurrentCubes{};
  CompletedCubeMap completed = CompleteCubeMap(stored, live_units);
  CurrentCubes current{std::move(completed.map), std::move(completed.note)};
  if (!unreadable.empty() && !current.note.empty()) {
    current.note += fmt::format(" (a stored one is unreadable: {})", unreadable);
  }
  return current;
}

arrow::Result<StatisticsFile> StoreCubes(const FileIO& io, const std::string& folder,
                                         const CubeMap& map, int64_t snapshot_id,
                                         int64_t sequence_number, const std::string& file_tag,
                                         const std::optional<StatisticsFile>& previous) {
  PuffinFile puffin;
  StatisticsFile entry;
  if (previous) {
    ARROW_ASSIGN_OR_RAISE(const std::string bytes, io.ReadAll(previous->statistics_path));
    ARROW_ASSIGN_OR_RAISE(puffin, ReadPuffin(bytes, previous->statistics_path));
    std::erase_if(puffin.blobs, [](const PuffinBlob& blob) { return blob.type == kBlobType; });
    // blob-metadata never lists our own blob: PyIceberg refuses a table with a blob type there that
    // it does not know.
    entry.blob_metadata = previous->blob_metadata;
  }
  PuffinBlob blob;
  blob.type = kBlobType;
  blob.snapshot_id = snapshot_id;
  blob.sequence_number = sequence_number;
  blob.compression_codec = "zstd";
  blob.data = DumpJson(CubeMapToJson(map));
  puffin.blobs.push_back(std::move(blob));
  puffin.properties["created-by"] = "thalweg";
  ARROW_ASSIGN_OR_RAISE(const WrittenPuffin written, WritePuffin(puffin));
  entry.snapshot_id = snapshot_id;
  entry.statistics_path =
      JoinLocation(folder, fmt::format("{}-{}.stats.puffin", snapshot_id, file_tag));
  entry.file_size_in_bytes = static_cast<int64_t>(written.bytes.size());
  entry.file_footer_size_in_bytes = written.footer_size;
  ARROW_RETURN_NOT_OK(io.WriteNew(entry.statistics_path, written.bytes));
  return entry;
}

arrow::Result<bool> IcebergTable::RebuildCubes() {
  ARROW_RETURN_NOT_OK(CheckWritable());
  const auto snapshot_id = loaded_.metadata.current_snapshot_id();
  if (!snapshot_id) return false;
  ARROW_ASSIGN_OR_RAISE(const auto stored, Cubes());
  ARROW_ASSIGN_OR_RAISE(const auto files, Files());
  ARROW_ASSIGN_OR_RAISE(
      auto rebuilt, LoadCubes(io(), loaded_.metadata, snapshot_id, *files, /*ignore_stored=*/true));
  // Runs that the files cannot describe (their quantiles) are taken from the stored map where it
  // has them.
  for (auto& run : rebuilt.map.runs) {
    for (const auto& known : stored->map.runs) {
      if (known.run_id == run.run_id) run = known;
    }
  }
  rebuilt.map.last_run_id = stored->map.last_run_id;
  if (stored->note.empty() && SameCubes(rebuilt.map, stored->map)) return false;
  std::set<std::string> written;
  auto changed = CommitProperties(*store_, [&](TableMetadata* metadata) -> arrow::Result<bool> {
    if (metadata->current_snapshot_id() != snapshot_id)
      return Conflict("the table changed while its cubes were rebuilt");
    ARROW_ASSIGN_OR_RAISE(const auto statistics, metadata->Statistics());
    std::optional<StatisticsFile> previous;
    for (const auto& entry : statistics) {
      if (entry.snapshot_id == *snapshot_id) previous = entry;
    }
    // Asked again after an unknown outcome: it has arrived.
    if (previous && written.contains(previous->statistics_path)) return false;
    ARROW_ASSIGN_OR_RAISE(
        const auto entry,
        StoreCubes(io(), store_->MetadataFolder(*metadata), rebuilt.map, *snapshot_id,
                   metadata->last_sequence_number(), NewUuid(), previous));
    written.insert(entry.statistics_path);
    metadata->SetStatistics(entry);
    return true;
  });
  const bool known = changed.ok() || KindOf(changed.status()) != FailureKind::kUnknown;
  if (auto table = store_->Load(); known && table.ok()) {
    DeleteUnnamed(io(), table->metadata, *snapshot_id, {written.begin(), written.end()});
  }
  if (!changed.ok()) return Named(changed.status());
  ARROW_RETURN_NOT_OK(Refresh());
  return true;
}

}  // namespace thalweg::iceberg
