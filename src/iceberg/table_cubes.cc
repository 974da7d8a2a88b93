// The cube map in a Puffin file: looked up from the snapshot back through its ancestors, completed
// from the files' own stamps, stored.

#include <charconv>
#include <unordered_set>

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
    ARROW_ASSIGN_OR_RAISE(const Json json, ParseJson(blob.data, statistics.statistics_path));
    ARROW_ASSIGN_OR_RAISE(CubeMap map, CubeMap::FromJson(json, statistics.statistics_path));
    return std::optional<CubeMap>(std::move(map));
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

}  // namespace

arrow::Result<CurrentCubes> LoadCubes(const FileIO& io, const TableMetadata& metadata,
                                      std::optional<int64_t> snapshot_id,
                                      const SnapshotFiles& files, bool ignore_stored) {
  CurrentCubes current;
  ARROW_ASSIGN_OR_RAISE(const auto snapshots, metadata.Snapshots());
  ARROW_ASSIGN_OR_RAISE(const auto statistics, metadata.Statistics());
  std::unordered_map<int64_t, const Snapshot*> by_id;
  for (const auto& snapshot : snapshots) by_id.emplace(snapshot.snapshot_id, &snapshot);

  // From the snapshot back through its ancestors: the newest stored map, and the newest run on the
  // way.
  bool found = false;
  std::string unreadable;
  std::unordered_set<int64_t> seen;
  for (auto id = snapshot_id; id && !found && seen.insert(*id).second;) {
    auto it = by_id.find(*id);
    if (it == by_id.end()) break;  // expired
    for (const auto& entry : statistics) {
      if (entry.snapshot_id != *id || ignore_stored || found) continue;
      auto stored = ReadStored(io, entry);
      if (!stored.ok()) {
        unreadable = stored.status().message();
      } else if (*stored) {
        current.map = **std::move(stored);
        found = true;
      }
    }
    id = it->second->parent_snapshot_id;
  }

  // Units that are no longer live leave the map; live ones with our name that it does not know are
  // asked themselves.
  std::unordered_set<std::string_view> live_paths;
  for (const auto& live : files.data_files) live_paths.insert(live.file.file_path);
  std::unordered_map<std::string, std::pair<int64_t, int64_t>> gone;
  std::set<std::string> known = current.map.UnitIds();
  for (const auto& id : known) {
    if (!live_paths.contains(id)) gone.emplace(id, std::pair<int64_t, int64_t>{0, 0});
  }
  std::vector<StampedUnit> stamped;
  for (const auto& live : files.data_files) {
    const std::string& path = live.file.file_path;
    if (known.contains(path) || !IsOwnDataFile(path)) continue;
    if (auto stamp = StampOf(io, path)) {
      stamped.push_back({path, live.file.record_count, live.file.file_size_in_bytes,
                         std::to_string(live.snapshot_id), *std::move(stamp)});
    }
  }
  current.map.RemoveUnits(gone);
  const int completed = CompleteCubeMap(stamped, &current.map);
  if (completed > 0) {
    current.note =
        found ? fmt::format(
                    "the cube map was stale; {} file(s) were added to it from their own metadata",
                    completed)
              : fmt::format("the cube map was rebuilt from the metadata of {} file(s)", completed);
    if (!unreadable.empty())
      current.note += fmt::format(" (the stored one is unreadable: {})", unreadable);
  }
  // What the map says of cubes is made to agree with the live files themselves.
  std::unordered_map<std::string_view, const DataFile*> by_path;
  for (const auto& live : files.data_files) by_path.emplace(live.file.file_path, &live.file);
  for (auto& cube : current.map.cubes) {
    cube.rows = cube.bytes = 0;
    for (const auto& id : cube.unit_ids) {
      if (auto it = by_path.find(id); it != by_path.end()) {
        cube.rows += it->second->record_count;
        cube.bytes += it->second->file_size_in_bytes;
      }
    }
  }
  return current;
}

arrow::Result<StatisticsFile> StoreCubes(const FileIO& io, const TableMetadata& metadata,
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
  blob.data = DumpJson(map.ToJson());
  puffin.blobs.push_back(std::move(blob));
  puffin.properties["created-by"] = "thalweg";
  ARROW_ASSIGN_OR_RAISE(const WrittenPuffin written, WritePuffin(puffin));
  entry.snapshot_id = snapshot_id;
  entry.statistics_path = JoinLocation(MetadataFolder(metadata),
                                       fmt::format("{}-{}.stats.puffin", snapshot_id, file_tag));
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
  rebuilt.map.last_run = stored->map.last_run;
  if (stored->note.empty() && rebuilt.map.UnitIds() == stored->map.UnitIds()) return false;
  std::string written;
  auto changed = CommitProperties(*store_, [&](TableMetadata* metadata) -> arrow::Result<bool> {
    if (metadata->current_snapshot_id() != snapshot_id)
      return Conflict("the table changed while its cubes were rebuilt");
    ARROW_ASSIGN_OR_RAISE(const auto statistics, metadata->Statistics());
    std::optional<StatisticsFile> previous;
    for (const auto& entry : statistics) {
      if (entry.snapshot_id == *snapshot_id) previous = entry;
    }
    ARROW_ASSIGN_OR_RAISE(const auto entry,
                          StoreCubes(io(), *metadata, rebuilt.map, *snapshot_id,
                                     metadata->last_sequence_number(), NewUuid(), previous));
    if (!written.empty()) ARROW_RETURN_NOT_OK(io().Delete(written));
    written = entry.statistics_path;
    metadata->SetStatistics(entry);
    return true;
  });
  if (!changed.ok()) {
    if (KindOf(changed.status()) != FailureKind::kUnknown && !written.empty()) {
      ARROW_RETURN_NOT_OK(io().Delete(written));
    }
    return Named(changed.status());
  }
  ARROW_RETURN_NOT_OK(Refresh());
  return true;
}

}  // namespace thalweg::iceberg
