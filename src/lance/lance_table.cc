#include "lance/lance_table.h"

#include <algorithm>

#include "lance/declaration.h"
#include "lance/lance_table_internal.h"
#include "lance/property_names.h"
#include "layout/cube_map.h"
#include "util/number.h"
#include "util/status.h"

namespace thalweg::lance {
namespace {

// Lance's own defaults.
constexpr int64_t kTargetRows = 1024 * 1024;
constexpr int64_t kMaxFileBytes = int64_t{90} << 30;

std::string UnitId(uint64_t fragment) { return std::to_string(fragment); }

UnitDescriptor DescriptorOf(const Fragment& fragment) {
  return {UnitId(fragment.id), fragment.rows(), fragment.bytes(), fragment.json};
}

/// Units by which segments of indexes that follow rows cover them: a rewrite of units that a
/// segment covers in part is refused by Lance.
class RewriteClasses {
 public:
  explicit RewriteClasses(const Description& description) {
    for (const auto& index : description.indices) {
      if (!index.follows_rows() || !index.fragments) continue;
      covers_.emplace_back(index.fragments->begin(), index.fragments->end());
    }
  }

  int Of(uint64_t fragment) {
    std::vector<bool> covered;
    covered.reserve(covers_.size());
    for (const auto& segment : covers_) covered.push_back(segment.contains(fragment));
    return classes_.emplace(std::move(covered), static_cast<int>(classes_.size())).first->second;
  }

 private:
  std::vector<std::set<uint64_t>> covers_;
  std::map<std::vector<bool>, int> classes_;
};

/// The layout record as the cube map of the live fragments whose stamps hold.
CubeMap CubesOf(const Description& description, const Records& records) {
  CubeMap map;
  for (const auto& record : records.records) {
    const auto bound = BoundFragments(description, record);
    const std::set<uint64_t> live(bound.begin(), bound.end());
    bool any = false;
    for (const auto& group : record.groups) {
      CubeMap::Entry entry;
      entry.cube_id = group.id;
      entry.run_id = record.run.run_id;
      entry.spec_id = record.run.spec_id;
      entry.field_ids = record.field_ids;
      entry.snapshot_id = record.run.snapshot_id;
      for (const auto& fragment : group.fragments) {
        if (live.contains(fragment.id)) entry.unit_ids.push_back(UnitId(fragment.id));
      }
      any |= !entry.unit_ids.empty();
      if (!entry.unit_ids.empty()) map.cubes.push_back(std::move(entry));
    }
    if (any) map.runs.push_back(record.run);
  }
  return map;
}

}  // namespace

arrow::Status Prefixed(const std::string& name, const arrow::Status& status) {
  if (status.ok()) return status;
  const std::string message = fmt::format("{}: {}", name, status.message());
  const FailureKind kind = KindOf(status);
  return kind == FailureKind::kError ? status.WithMessage(message) : Failure(kind, message);
}

std::string SnapshotIdOf(const Description& description) {
  if (description.version == 1 && description.fragments.empty()) return "";
  return std::to_string(description.version);
}

arrow::Result<std::shared_ptr<const Version>> LanceTable::Latest() const {
  auto latest = LoadVersion(uri_, options_);
  if (!latest.ok()) {
    if (IsNotFound(latest.status())) {
      return Invalid("{}: the dataset is not there any more", name_);
    }
    return Named(latest.status());
  }
  if ((*latest)->description.version < description().version) {
    return Conflict("{}: another dataset stands there now (version {} after {})", name_,
                    (*latest)->description.version, description().version);
  }
  return latest;
}

void LanceTable::Pin(std::shared_ptr<const Version> version) {
  version_ = std::move(version);
  std::lock_guard lock(mutex_);
  records_.reset();
  zone_maps_.clear();
}

arrow::Status LanceTable::Refresh() {
  auto latest = LoadVersion(uri_, options_);
  if (!latest.ok() && IsNotFound(latest.status())) {
    return Invalid("{}: the dataset is not there any more", name_);
  }
  ARROW_RETURN_NOT_OK(Named(latest.status()));
  Pin(*std::move(latest));
  return arrow::Status::OK();
}

arrow::Status CheckSupported(const Description& description) {
  if (!description.unwritable.empty()) return Invalid("{}", description.unwritable);
  for (const auto& index : description.indices) {
    if (index.system) continue;
    if (!index.usable) {
      return Invalid(
          "index \"{}\" ({}) cannot be opened by this version, so that it could not follow rows "
          "that move: drop it, optimize, and create it again",
          index.name, index.type);
    }
    if (index.follows_rows() && !index.fragments) {
      return Invalid("index \"{}\" ({}) does not say which fragments it covers: make it anew first",
                     index.name, index.type);
    }
  }
  return arrow::Status::OK();
}

arrow::Result<ClusteringColumn> LanceTable::ResolveColumn(const std::string& name) const {
  return Named(ResolveTopLevelColumn(description(), name));
}

arrow::Result<OutputSizes> LanceTable::output_sizes() const {
  OutputSizes sizes;
  ARROW_ASSIGN_OR_RAISE(const auto rows,
                        Named(description().PositiveConfig(property::kTargetRows)));
  ARROW_ASSIGN_OR_RAISE(const auto bytes,
                        Named(description().PositiveConfig(property::kMaxFileBytes)));
  sizes.target_file_rows = rows.value_or(kTargetRows);
  sizes.target_file_bytes = bytes.value_or(kMaxFileBytes);
  return sizes;
}

arrow::Result<Budgets> LanceTable::budgets() const {
  Budgets budgets;
  ARROW_ASSIGN_OR_RAISE(const auto units,
                        Named(description().PositiveConfig(property::kMaxFragments)));
  ARROW_ASSIGN_OR_RAISE(const auto rows, Named(description().PositiveConfig(property::kMaxRows)));
  ARROW_ASSIGN_OR_RAISE(const auto bytes, Named(description().PositiveConfig(property::kMaxBytes)));
  budgets.max_units = units.value_or(-1);
  budgets.max_rows = rows.value_or(-1);
  budgets.max_bytes = bytes.value_or(-1);
  budgets.units_name = property::kMaxFragments;
  budgets.rows_name = property::kMaxRows;
  budgets.bytes_name = property::kMaxBytes;
  return budgets;
}

int64_t LanceTable::commit_bytes_per_row() const {
  // Measured: up to 55 bytes an entry of the map that Lance's remapper takes, beside the identity
  // columns that it is made from.
  constexpr int64_t kMapEntry = 55;
  const auto& indices = description().indices;
  const bool remaps = std::any_of(indices.begin(), indices.end(),
                                  [](const IndexSegment& index) { return index.follows_rows(); });
  const auto identity = static_cast<int64_t>(IdentityColumns(description()).size());
  return (remaps ? kMapEntry : 0) + identity * static_cast<int64_t>(sizeof(uint64_t));
}

arrow::Result<Declaration> LanceTable::declaration() const {
  return ReadDeclaration(description(), *version_->schema);
}

arrow::Result<Algorithm> LanceTable::DefaultAlgorithm(
    const std::vector<ClusteringColumn>& columns) const {
  for (const auto& column : columns) {
    const auto field = version_->schema->GetFieldByName(column.name);
    if (field != nullptr && !KeyTypeOf(*field->type(), Algorithm::kQuantileRankV1).ok()) {
      return Algorithm::kTypedQuantileRankV1;
    }
  }
  return Algorithm::kQuantileRankV1;
}

arrow::Status LanceTable::ChangeConfig(
    const std::map<std::string, std::optional<std::string>>& change) {
  Json config = Json::object();
  for (const auto& [key, value] : change) config[key] = value ? Json(*value) : Json();
  Json request{{"config", std::move(config)}, {"properties", Json::object()}};
  // Runs before the first declaration are none of this program's: they need not be looked for.
  if (!description().table_metadata.contains(property::kChecked)) {
    request["table_metadata"] = Json{{property::kChecked, std::to_string(description().version)}};
  }
  ARROW_RETURN_NOT_OK(Named(version_->dataset->UpdateMetadata(request).status()));
  ARROW_RETURN_NOT_OK(Refresh());
  for (const auto& [key, value] : change) {
    const auto found = description().config.find(key);
    if (found == description().config.end() ? value.has_value() : found->second != value) {
      return Conflict("{}: the declaration was changed by another writer at the same time", name_);
    }
  }
  return arrow::Status::OK();
}

arrow::Result<bool> LanceTable::SetDeclaration(const ClusteringSpec& spec,
                                               std::optional<int64_t> version, bool allow_single) {
  ARROW_RETURN_NOT_OK(Refresh());
  int64_t highest = 0;
  const auto records = LayoutRecords();
  for (const auto& record : records->records) highest = std::max(highest, record.version);
  ARROW_ASSIGN_OR_RAISE(const auto change,
                        Named(DeclarationChange(description(), *version_->schema, spec, version,
                                                allow_single, highest)));
  if (change.empty()) return false;
  ARROW_RETURN_NOT_OK(ChangeConfig(change));
  return true;
}

arrow::Result<bool> LanceTable::ClearDeclaration() {
  ARROW_RETURN_NOT_OK(Refresh());
  const auto change = ClearingChange(description().config);
  if (change.empty()) return false;
  ARROW_RETURN_NOT_OK(ChangeConfig(change));
  return true;
}

arrow::Result<std::shared_ptr<const ZoneMap>> LanceTable::ZoneMapOf(const ClusteringColumn& column,
                                                                    const KeyType& type) const {
  std::lock_guard lock(mutex_);
  auto& zone_map = zone_maps_[column.field_id];
  if (zone_map == nullptr) {
    ARROW_ASSIGN_OR_RAISE(auto read, ReadZoneMap(*version_, column, type));
    zone_map = std::make_shared<const ZoneMap>(std::move(read));
  }
  return zone_map;
}

arrow::Result<Layout> LanceTable::DescribeLayout(
    const std::vector<ClusteringColumn>& columns) const {
  Layout layout;
  layout.snapshot_id = snapshot_id();
  layout.columns = columns;
  layout.size_rule = SizeRule::kGroups;
  ARROW_ASSIGN_OR_RAISE(const OutputSizes sizes, output_sizes());
  layout.group_rows = sizes.target_file_rows;
  layout.unit_name = "fragment";
  layout.cube_name = "group";
  std::vector<std::shared_ptr<const ZoneMap>> zone_maps;
  for (const auto& column : columns) {
    const auto field = version_->schema->GetFieldByName(column.name);
    if (field == nullptr) {
      return Invalid("{}: column \"{}\" is not in the current schema", name_, column.name);
    }
    ARROW_ASSIGN_OR_RAISE(const KeyType type,
                          Named(KeyTypeOf(*field->type(), Algorithm::kTypedQuantileRankV1)));
    layout.types.push_back(type);
    auto zone_map = ZoneMapOf(column, type);
    if (!zone_map.ok()) {
      layout.notes.push_back(fmt::format("the zone map of \"{}\" cannot be read: {}", column.name,
                                         zone_map.status().message()));
      zone_map = std::make_shared<const ZoneMap>();
    }
    if ((*zone_map)->lacks_bounds) layout.notes.push_back(BoundsNote(column.name));
    zone_maps.push_back(*std::move(zone_map));
  }
  RewriteClasses classes(description());
  layout.units.reserve(description().fragments.size());
  for (const auto& fragment : description().fragments) {
    Unit unit;
    unit.id = UnitId(fragment.id);
    unit.rows = fragment.rows();
    unit.bytes = fragment.bytes();
    unit.rewrite_class = classes.Of(fragment.id);
    for (const auto& zone_map : zone_maps) {
      const auto found = zone_map->fragments.find(fragment.id);
      UnitColumn unknown;
      unknown.usable = false;
      unit.columns.push_back(found == zone_map->fragments.end() ? unknown : found->second);
    }
    layout.units.push_back(std::move(unit));
  }
  for (size_t i = 0; i < columns.size(); ++i) {
    const auto& known = zone_maps[i]->fragments;
    const auto& fragments = description().fragments;
    const auto missing =
        std::count_if(fragments.begin(), fragments.end(),
                      [&](const Fragment& fragment) { return !known.contains(fragment.id); });
    if (known.empty() || missing == 0) continue;
    layout.notes.push_back(fmt::format(
        "the zone map of \"{}\" does not cover {} of {} fragments yet: a filter on it reads them "
        "whole until `thalweg optimize` or Lance's optimize_indices brings it up to date",
        columns[i].name, missing, fragments.size()));
  }
  const auto records = LayoutRecords();
  ApplyCubeMap(CubesOf(description(), *records), &layout);
  layout.notes.insert(layout.notes.end(), records->notes.begin(), records->notes.end());
  const int64_t declared = DeclaredVersion(description().config);
  for (const auto& record : records->records) {
    if (declared > 0 && record.version > declared &&
        !BoundFragments(description(), record).empty()) {
      layout.notes.push_back(fmt::format(
          "run {} wrote fragments for version {} of the declaration, which is above the declared "
          "version {}: they count as not clustered",
          record.run.run_id, record.version, declared));
    }
  }
  return layout;
}

arrow::Result<std::optional<Layout>> LanceTable::DescribeLayoutAt(
    const std::string& snapshot_id, const std::vector<ClusteringColumn>& columns) const {
  const auto number = ParseCount(snapshot_id);
  if (!number || *number == 0) return std::nullopt;
  auto version = LoadVersion(uri_, options_, static_cast<uint64_t>(*number));
  if (!version.ok() && IsNotFound(version.status())) return std::nullopt;
  ARROW_RETURN_NOT_OK(Named(version.status()));
  const LanceTable then(name_, uri_, options_, *std::move(version));
  ARROW_ASSIGN_OR_RAISE(auto layout, then.DescribeLayout(columns));
  return std::optional<Layout>(std::move(layout));
}

arrow::Result<std::vector<UnitDescriptor>> LanceTable::Describe(
    const std::vector<std::string>& unit_ids) const {
  std::vector<UnitDescriptor> descriptors;
  descriptors.reserve(unit_ids.size());
  for (const auto& id : unit_ids) {
    const auto number = ParseCount(id);
    const Fragment* fragment =
        number ? description().FindFragment(static_cast<uint64_t>(*number)) : nullptr;
    if (fragment == nullptr) {
      return Conflict("{}: fragment {} is not live in version {}", name_, id,
                      description().version);
    }
    descriptors.push_back(DescriptorOf(*fragment));
  }
  return descriptors;
}

arrow::Result<std::unique_ptr<RowSource>> LanceTable::Scan(const std::vector<UnitDescriptor>& units,
                                                           const std::string&,
                                                           const ReadOptions& options) const {
  std::vector<Fragment> fragments;
  Json ids = Json::array();
  for (const auto& unit : units) {
    ARROW_ASSIGN_OR_RAISE(auto fragment, Named(ParseFragment(unit.json)));
    const Fragment* live = description().FindFragment(fragment.id);
    if (live == nullptr || live->json != fragment.json) {
      return Conflict("{}: fragment {} is not as it was when the plan was made: plan again", name_,
                      fragment.id);
    }
    ids.push_back(fragment.id);
    fragments.push_back(std::move(fragment));
  }
  // What the commit would refuse is refused before anything is read and written for it.
  ARROW_RETURN_NOT_OK(Named(version_->dataset->CheckSources(Json{{"fragments", std::move(ids)}})));
  return ScanFragments(name_, version_, std::move(fragments), options.memory);
}

arrow::Result<std::unique_ptr<OutputFile>> LanceTable::NewOutputFile(const OutputContext& context,
                                                                     const std::string&,
                                                                     int number) const {
  return Named(NewDataFile(version_, context, number));
}

arrow::Result<std::unique_ptr<RowSource>> LanceTable::ReadBack(const OutputUnit& unit) const {
  return Named(ReadDataFile(version_, unit));
}

arrow::Status LanceTable::CheckOutput(const OutputUnit& unit) const {
  ARROW_RETURN_NOT_OK(Named(ParseWrittenFile(unit).status()));
  auto info = version_->dataset->DataFileInfo(unit.id);
  if (!info.ok() && IsNotFound(info.status())) {
    return Invalid("{}: output file {} is missing", name_, unit.id);
  }
  ARROW_RETURN_NOT_OK(Named(info.status()));
  ARROW_ASSIGN_OR_RAISE(const int64_t rows, GetCount(*info, "rows", unit.id));
  ARROW_ASSIGN_OR_RAISE(const int64_t bytes, GetCount(*info, "bytes", unit.id));
  if (rows != unit.rows || bytes != unit.bytes) {
    return Invalid("{}: output file {} has {} rows and {} bytes instead of {} and {}", name_,
                   unit.id, rows, bytes, unit.rows, unit.bytes);
  }
  return arrow::Status::OK();
}

arrow::Result<std::unique_ptr<Table>> OpenLanceTable(std::string name, std::string uri,
                                                     Properties options) {
  auto version = LoadVersion(uri, options);
  if (!version.ok()) {
    if (IsNotFound(version.status())) {
      return Invalid("{}: there is no Lance dataset; check the path", name);
    }
    return Prefixed(name, version.status());
  }
  return std::make_unique<LanceTable>(std::move(name), std::move(uri), std::move(options),
                                      *std::move(version));
}

}  // namespace thalweg::lance
