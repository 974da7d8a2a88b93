// Commits of rewrites and writes: what is checked against the parent at every attempt, and the cube
// map that goes along.

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "iceberg/bounds.h"
#include "iceberg/declaration.h"
#include "iceberg/iceberg_table_internal.h"
#include "iceberg/parquet_writer.h"
#include "iceberg/support.h"
#include "layout/depth.h"
#include "spec/property_names.h"
#include "table/run_tag.h"
#include "util/number.h"
#include "util/status.h"
#include "util/uuid.h"

namespace thalweg::iceberg {
namespace {

/// Files of one manifest: enough that a table of many small cubes does not get as many manifests.
constexpr size_t kFilesPerManifest = 2000;

arrow::Result<int64_t> ParseSnapshotId(const std::string& text) {
  const auto id = ParseNumber<int64_t>(text);
  if (!id) return Invalid("\"{}\" is not a snapshot id", text);
  return *id;
}

/// The data files of output units, in manifests of whole cubes.
struct Outputs {
  std::vector<std::vector<SnapshotChange::Added>> manifests;
  std::vector<CubeMap::Entry> cubes;
  std::set<int64_t> schema_ids;
};

arrow::Status AddOutputs(const std::vector<OutputUnit>& units,
                         const std::optional<ClusteringSpec>& spec, const std::string& run_id,
                         std::optional<int64_t> data_sequence_number, Outputs* outputs) {
  std::string open_cube;
  for (const auto& unit : units) {
    const std::string what = "output unit " + unit.id;
    ARROW_ASSIGN_OR_RAISE(const Json* json, GetObject(unit.json, "data-file", what));
    ARROW_ASSIGN_OR_RAISE(DataFile file, DataFileFromJson(*json));
    ARROW_ASSIGN_OR_RAISE(const int64_t schema_id, GetInt64(unit.json, "schema-id", what));
    if (file.file_path != unit.id || file.record_count != unit.rows ||
        file.file_size_in_bytes != unit.bytes) {
      return Invalid("{}: its data file says something else (path, rows or bytes)", what);
    }
    outputs->schema_ids.insert(schema_id);
    const bool new_cube = unit.cube_id != open_cube;
    if (outputs->manifests.empty() ||
        (new_cube && outputs->manifests.back().size() >= kFilesPerManifest)) {
      outputs->manifests.emplace_back();
    }
    outputs->manifests.back().push_back({std::move(file), data_sequence_number});
    if (!spec || unit.cube_id.empty()) continue;
    if (new_cube) {
      CubeMap::Entry cube;
      cube.cube_id = unit.cube_id;
      cube.run_id = run_id;
      cube.spec_id = spec->SpecId();
      for (const auto& column : spec->columns) cube.field_ids.push_back(column.field_id);
      outputs->cubes.push_back(std::move(cube));
      open_cube = unit.cube_id;
    }
    CubeMap::Entry& cube = outputs->cubes.back();
    cube.rows += unit.rows;
    cube.bytes += unit.bytes;
    cube.unit_ids.push_back(unit.id);
  }
  return arrow::Status::OK();
}

/// Output files must have been written in the schema that is the parent's current one.
arrow::Status CheckSchemaUnchanged(const TableMetadata& parent, const Outputs& outputs) {
  for (int64_t id : outputs.schema_ids) {
    if (id != parent.current_schema_id()) {
      return Conflict("the table's schema changed (from {} to {}) since the files were written", id,
                      parent.current_schema_id());
    }
  }
  return arrow::Status::OK();
}

/// What this version cannot rewrite must not have come between plan and commit.
arrow::Status CheckStillSupported(const LoadedTable& parent, const SnapshotFiles& files) {
  arrow::Status supported = CheckSupported(parent.metadata, files);
  if (supported.ok()) return supported;
  return Conflict("the table changed and cannot be committed to: {}", supported.message());
}

/// The snapshot that was read must be in the parent's past: after a rollback, or with another
/// branch's snapshot in its place, other deletes hold than those that were applied.
arrow::Status CheckHistory(const TableMetadata& parent, int64_t base_id) {
  ARROW_ASSIGN_OR_RAISE(const auto snapshots, parent.Snapshots());
  std::unordered_map<int64_t, std::optional<int64_t>> parents;
  for (const auto& snapshot : snapshots) {
    parents[snapshot.snapshot_id] = snapshot.parent_snapshot_id;
  }
  auto at = parent.current_snapshot_id();
  for (size_t steps = 0; at && steps <= snapshots.size(); ++steps) {
    if (*at == base_id) return arrow::Status::OK();
    const auto found = parents.find(*at);
    at = found == parents.end() ? std::nullopt : found->second;
  }
  return Conflict(
      "snapshot {}, which was planned, is not in the history of the table's current snapshot any "
      "more (a rollback, or expired snapshots in between)",
      base_id);
}

/// The part of a declaration that decides the order of rows.
bool SameOrder(const ClusteringSpec& a, const ClusteringSpec& b) {
  return a.SpecId() == b.SpecId();
}

arrow::Status CheckDeclarationUnchanged(const TableMetadata& parent,
                                        const ClusteringSpec& planned) {
  const Declaration declaration = ReadDeclaration(parent);
  if (!declaration.problem.empty())
    return Conflict("the declaration changed: {}", declaration.problem);
  if (!declaration.spec) return Conflict("the declaration was cleared since the plan was made");
  if (!SameOrder(*declaration.spec, planned))
    return Conflict("the declaration changed since the plan was made");
  return arrow::Status::OK();
}

/// The cube map of a table as it was loaded before.
struct PinnedCubes {
  std::string metadata_location;
  std::optional<int64_t> snapshot_id;
  std::shared_ptr<const CurrentCubes> cubes;

  bool Hold(const LoadedTable& table) const {
    return table.metadata_location == metadata_location &&
           table.metadata.current_snapshot_id() == snapshot_id;
  }
};

/// Cube map for the new snapshot: the parent's (`pinned` while the table has not moved), without
/// what is removed, with the new run.
auto CubeMapWriter(const TableStore& store, PinnedCubes pinned,
                   const std::vector<std::string>* removed, const Outputs* outputs,
                   const RunRecord* run, const std::string& file_tag) {
  return [&store, pinned = std::move(pinned), removed, outputs, run, file_tag](
             const LoadedTable& parent, const SnapshotFiles& files, int64_t snapshot_id,
             int64_t sequence_number) -> arrow::Result<std::optional<StatisticsFile>> {
    auto cubes = pinned.cubes;
    if (!pinned.Hold(parent)) {
      ARROW_ASSIGN_OR_RAISE(auto loaded, LoadCubes(*store.io(), parent.metadata,
                                                   parent.metadata.current_snapshot_id(), files,
                                                   /*ignore_stored=*/false));
      cubes = std::make_shared<const CurrentCubes>(std::move(loaded));
    }
    const std::unordered_set<std::string_view> gone(removed->begin(), removed->end());
    std::vector<RemovedUnit> removed_units;
    for (const auto& live : files.data_files) {
      if (gone.contains(live.file.file_path)) {
        removed_units.push_back(
            {live.file.file_path, live.file.record_count, live.file.file_size_in_bytes});
      }
    }
    RunRecord record = *run;
    record.snapshot_id = std::to_string(snapshot_id);
    record.committed_millis = NowMillis();
    std::vector<CubeMap::Entry> added = outputs->cubes;
    for (auto& cube : added) cube.snapshot_id = record.snapshot_id;
    const CubeMap map = DeriveCubeMap(cubes->map, removed_units, added, record, record.run_id);
    ARROW_ASSIGN_OR_RAISE(
        auto entry, StoreCubes(*store.io(), store.MetadataFolder(parent.metadata), map, snapshot_id,
                               sequence_number, file_tag, std::nullopt));
    return std::optional<StatisticsFile>(std::move(entry));
  };
}

/// Delete files that apply to nothing once the outputs are in place of what is removed. An equality
/// delete that came after the snapshot that was read applies to the outputs, by their sequence
/// number; positions in files that nobody has seen yet are in no delete file.
auto UnneededDeletesOf(const Outputs& outputs) {
  return [&outputs](const SnapshotFiles& files,
                    const std::vector<size_t>& removed) -> arrow::Result<std::vector<size_t>> {
    if (files.delete_files.empty()) return std::vector<size_t>();
    std::vector<bool> gone(files.data_files.size());
    for (size_t position : removed) gone[position] = true;
    std::vector<DeleteTargets::Target> kept;
    for (size_t i = 0; i < files.data_files.size(); ++i) {
      const LiveFile& live = files.data_files[i];
      if (!gone[i]) kept.push_back({live.file.file_path, live.sequence_number});
    }
    auto all = kept;
    for (const auto& manifest : outputs.manifests) {
      for (const auto& added : manifest) {
        // Without a number of its own a file is younger than every delete.
        all.push_back({added.file.file_path, added.data_sequence_number.value_or(INT64_MAX)});
      }
    }
    ARROW_ASSIGN_OR_RAISE(auto unneeded,
                          UnneededDeletes(DeleteTargets(std::move(kept)), files.delete_files));
    ARROW_ASSIGN_OR_RAISE(const auto by_all,
                          UnneededDeletes(DeleteTargets(std::move(all)), files.delete_files));
    std::erase_if(unneeded, [&](size_t i) {
      return files.delete_files[i].file.content == FileContent::kEqualityDeletes &&
             !std::binary_search(by_all.begin(), by_all.end(), i);
    });
    return unneeded;
  };
}

/// The depth that the table has once the outputs are in place of what is removed, over the pinned
/// snapshot's files: what the run achieves, appends that come in between left out. -1 when it
/// cannot be told.
double DepthAfter(const SnapshotFiles& files, const CubeMap& cubes, const Schema& schema,
                  const std::vector<std::string>& removed, const Outputs& outputs,
                  const ClusteringSpec& spec, const RunRecord& run) {
  const std::unordered_set<std::string_view> gone(removed.begin(), removed.end());
  Layout layout;
  layout.columns = spec.columns;
  for (const auto& column : spec.columns) {
    const Field* field = schema.FindById(column.field_id);
    auto type =
        field == nullptr ? Invalid("no such field") : KeyTypeOf(*field->type, spec.algorithm);
    if (!type.ok()) return -1;
    layout.types.push_back(*type);
  }
  std::vector<RemovedUnit> removed_units;
  const auto deleted = EstimateDeletedRows(files.data_files, files.delete_files);
  if (!deleted.ok()) return -1;
  for (size_t i = 0; i < files.data_files.size(); ++i) {
    const LiveFile& live = files.data_files[i];
    if (gone.contains(live.file.file_path)) {
      removed_units.push_back(
          {live.file.file_path, live.file.record_count, live.file.file_size_in_bytes});
    } else {
      layout.units.push_back(UnitOf(live, (*deleted)[i].rows, schema, spec.columns));
    }
  }
  for (const auto& manifest : outputs.manifests) {
    for (const auto& added : manifest)
      layout.units.push_back(UnitOf(LiveFile{.file = added.file}, 0, schema, spec.columns));
  }
  ApplyCubeMap(DeriveCubeMap(cubes, removed_units, outputs.cubes, run, run.run_id), &layout);
  return MeasureLayout(layout).depth;
}

SnapshotChange NewChange(const TableMetadata& table, std::string operation,
                         const std::string& run_id,
                         const std::map<std::string, std::string>& summary, const RunRecord& run,
                         const std::function<arrow::Status()>& before_swap) {
  SnapshotChange change;
  change.operation = std::move(operation);
  change.summary = summary;
  change.summary[property::kSummaryRun] = run_id;
  auto note = [&](const char* key, double depth) {
    if (depth >= 0) change.summary[key] = fmt::format("{:.4f}", depth);
  };
  note("thalweg.depth-before", run.depth_before);
  note("thalweg.predicted-depth", run.predicted_depth);
  note("thalweg.achieved-depth", run.achieved_depth);
  change.idempotence_key = property::kSummaryRun;
  change.idempotence_value = run_id;
  change.commit_id = RunTag(run_id, table.table_uuid());
  change.before_swap = before_swap;
  return change;
}

}  // namespace

arrow::Result<CommitResult> IcebergTable::Finish(const arrow::Result<CommitOutcome>& outcome,
                                                 const std::string& before) {
  if (!outcome.ok()) return Named(outcome.status());
  CommitResult result;
  result.already_committed = outcome->already_committed;
  result.snapshot_before = before;
  result.snapshot_after = std::to_string(outcome->snapshot_id);
  result.attempts = outcome->attempts;
  loaded_ = outcome->table;
  std::lock_guard lock(mutex_);
  files_.reset();
  cubes_.reset();
  return result;
}

arrow::Result<CommitResult> IcebergTable::CommitRewrite(
    const RewriteCommit& commit, const std::function<arrow::Status()>& before_swap) {
  std::string why;
  if (!store_->writable(&why)) return Invalid("{}: {}", name_, why);
  ARROW_ASSIGN_OR_RAISE(const int64_t base_id, ParseSnapshotId(commit.base_snapshot));
  ARROW_ASSIGN_OR_RAISE(const auto base, loaded_.metadata.FindSnapshot(base_id));
  if (!base)
    return Conflict("{}: snapshot {}, which was planned, is no longer in the table's history",
                    name_, commit.base_snapshot);

  std::vector<UnitDescriptor> sources;
  Outputs outputs;
  for (const auto& selection : commit.selections) {
    sources.insert(sources.end(), selection.sources.begin(), selection.sources.end());
    // Rewritten rows keep the sequence number of the snapshot that was read, so that later equality
    // deletes still apply to them.
    ARROW_RETURN_NOT_OK(
        AddOutputs(selection.outputs, commit.spec, commit.run_id, base->sequence_number, &outputs));
  }
  std::vector<std::string> removed;
  removed.reserve(sources.size());
  for (const auto& source : sources) removed.push_back(source.id);
  RunRecord run = commit.run;
  ARROW_ASSIGN_OR_RAISE(const auto pinned, Files());
  ARROW_ASSIGN_OR_RAISE(const auto cubes, Cubes());
  ARROW_ASSIGN_OR_RAISE(const Schema schema, loaded_.metadata.CurrentSchema());
  run.achieved_depth = DepthAfter(*pinned, cubes->map, schema, removed, outputs, commit.spec, run);
  SnapshotChange change =
      NewChange(loaded_.metadata, "replace", commit.run_id, commit.summary, run, before_swap);
  change.removed = std::move(removed);
  change.added = outputs.manifests;
  change.validate = [&](const LoadedTable& parent, const SnapshotFiles& files) -> arrow::Status {
    ARROW_RETURN_NOT_OK(CheckHistory(parent.metadata, base_id));
    ARROW_RETURN_NOT_OK(CheckStillSupported(parent, files));
    ARROW_RETURN_NOT_OK(CheckSchemaUnchanged(parent.metadata, outputs));
    ARROW_RETURN_NOT_OK(CheckDeclarationUnchanged(parent.metadata, commit.spec));
    ARROW_ASSIGN_OR_RAISE(const auto describer, UnitDescriber::Make(files));
    std::unordered_map<std::string_view, const LiveFile*> live;
    for (const auto& file : files.data_files) live.emplace(file.file.file_path, &file);
    for (const auto& source : sources) {
      auto it = live.find(source.id);
      if (it == live.end())
        return Conflict("data file {} was removed since the plan was made", source.id);
      ARROW_ASSIGN_OR_RAISE(const auto descriptor, describer.Describe(*it->second));
      if (descriptor.json != source.json) {
        return Conflict(
            "data file {} is not as it was when the plan was made, or rows of it were deleted "
            "since",
            source.id);
      }
    }
    return arrow::Status::OK();
  };
  change.statistics = CubeMapWriter(
      *store_, {loaded_.metadata_location, loaded_.metadata.current_snapshot_id(), cubes},
      &change.removed, &outputs, &run, change.commit_id);
  change.unneeded_deletes = UnneededDeletesOf(outputs);
  change.allow_fewer_records = std::any_of(sources.begin(), sources.end(), MayHaveDeletedRows);
  return Finish(CommitSnapshot(*store_, change), commit.base_snapshot);
}

arrow::Result<CommitResult> IcebergTable::CommitWrite(
    const WriteCommit& commit, const std::function<arrow::Status()>& before_swap) {
  std::string why;
  if (!store_->writable(&why)) return Invalid("{}: {}", name_, why);
  const bool overwrite = commit.mode == WriteMode::kOverwrite;
  Outputs outputs;
  ARROW_RETURN_NOT_OK(
      AddOutputs(commit.outputs, commit.spec, commit.run_id, std::nullopt, &outputs));
  SnapshotChange change = NewChange(loaded_.metadata, overwrite ? "overwrite" : "append",
                                    commit.run_id, commit.summary, commit.run, before_swap);
  change.added = outputs.manifests;
  if (overwrite) {
    ARROW_ASSIGN_OR_RAISE(const auto files, Files());
    for (const auto& live : files->data_files) change.removed.push_back(live.file.file_path);
    change.unneeded_deletes = UnneededDeletesOf(outputs);
  }
  change.validate = [&](const LoadedTable& parent, const SnapshotFiles& files) -> arrow::Status {
    ARROW_RETURN_NOT_OK(CheckStillSupported(parent, files));
    ARROW_RETURN_NOT_OK(CheckSchemaUnchanged(parent.metadata, outputs));
    const auto parent_id = parent.metadata.current_snapshot_id();
    if (overwrite && (parent_id ? std::to_string(*parent_id) : "") != commit.base_snapshot) {
      return Conflict(
          "the table moved since it was read; an overwrite replaces only what it has seen: run it "
          "again");
    }
    return arrow::Status::OK();
  };
  if (!outputs.cubes.empty()) {
    ARROW_ASSIGN_OR_RAISE(auto cubes, Cubes());
    change.statistics = CubeMapWriter(
        *store_, {loaded_.metadata_location, loaded_.metadata.current_snapshot_id(), cubes},
        &change.removed, &outputs, &commit.run, change.commit_id);
  }
  return Finish(CommitSnapshot(*store_, change), commit.base_snapshot);
}

}  // namespace thalweg::iceberg
