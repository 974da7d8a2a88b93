// What is kept of the rows beside them: secondary indexes and zone maps.

#include <algorithm>
#include <set>
#include <string>

#include "lance/lance_table_internal.h"
#include "lance/property_names.h"
#include "util/crash_point.h"
#include "util/number.h"
#include "util/status.h"
#include "util/units.h"

namespace thalweg::lance {
namespace {

constexpr char kWhat[] = "the Lance library's answer";

/// So many zones a fragment: enough that a query on a part of a key's range opens a part of a
/// fragment.
constexpr int64_t kZonesPerFragment = 16;
/// Rows below which a zone's entry costs more than the rows it spares.
constexpr int64_t kLeastRowsPerZone = 1024;
constexpr int64_t kDefaultRowsPerZone = 8192;  // Lance's

std::string Names(const Json& list) {
  std::string names;
  for (const Json& name : list) {
    if (name.is_string()) names += (names.empty() ? "" : ", ") + name.get<std::string>();
  }
  return names;
}

/// Rows of a zone of the zone maps to be made; 0: Lance's default. Along the curve a fragment is a
/// cell of the key space, and so is each stretch of it, a smaller one. With zones of a whole
/// fragment only whole cells are skipped; with the default of 8192 rows fragments of a million rows
/// have 128, which is plenty. Small fragments get smaller zones, so that each has about sixteen:
/// halving a cell in two keys twice.
arrow::Result<int64_t> RowsPerZone(const Description& description) {
  ARROW_ASSIGN_OR_RAISE(const auto chosen, description.PositiveConfig(property::kRowsPerZone));
  if (chosen) return *chosen;
  int64_t rows = 0;
  for (const auto& fragment : description.fragments) rows += fragment.physical_rows;
  const auto fragments = static_cast<int64_t>(description.fragments.size());
  const int64_t of_fragment = rows / std::max<int64_t>(1, fragments) / kZonesPerFragment;
  if (of_fragment >= kDefaultRowsPerZone) return 0;
  return std::max(of_fragment, kLeastRowsPerZone);
}

}  // namespace

arrow::Result<IndexUnification> LanceTable::UnifyIndexes(const std::vector<std::string>& unit_ids,
                                                         bool dry_run) {
  IndexUnification done;
  Json ids = Json::array();
  std::set<uint64_t> wanted;
  for (const auto& id : unit_ids) {
    const auto number = ParseCount(id);
    if (!number) return Invalid("{}: \"{}\" is no fragment id", name_, id);
    ids.push_back(*number);
    wanted.insert(static_cast<uint64_t>(*number));
  }
  // Deleted rows need to be left out once: the fragments keep them until the rewrite.
  std::string deleted;
  for (const auto& fragment : description().fragments) {
    if (fragment.deleted_rows == 0 || !wanted.contains(fragment.id)) continue;
    deleted += fmt::format("{}:{};", fragment.id, DumpJson(fragment.json["deletion_file"]));
  }
  ARROW_ASSIGN_OR_RAISE(
      const Json answer,
      Named(version_->dataset->UnifyIndices(Json{{"fragments", std::move(ids)},
                                                 {"dry_run", dry_run},
                                                 {"drop_deleted", deleted != dropped_deletions_},
                                                 {"properties", Json::object()}})));
  ARROW_ASSIGN_OR_RAISE(const Json* merged, GetArray(answer, "merged", kWhat));
  ARROW_ASSIGN_OR_RAISE(const int64_t rows, GetCount(answer, "unindexed_rows", kWhat));
  ARROW_ASSIGN_OR_RAISE(const Json* rebuilt, GetArray(answer, "rebuilt", kWhat));
  ARROW_ASSIGN_OR_RAISE(const int64_t rebuilt_rows, GetCount(answer, "rebuilt_rows", kWhat));
  if (merged->empty() && rebuilt->empty()) return done;
  if (!merged->empty()) {
    done.note = fmt::format("index {}: {} rows are indexed first, and deleted rows left out",
                            Names(*merged), FormatCount(rows));
  }
  if (!rebuilt->empty()) {
    done.note += fmt::format(
        "{}full-text index {}: built anew over {} rows first, which is the only way to leave "
        "deleted rows out of it",
        done.note.empty() ? "" : "; ", Names(*rebuilt), FormatCount(rebuilt_rows));
  }
  done.committed = !dry_run;
  if (!dry_run) {
    dropped_deletions_ = std::move(deleted);
    CrashPoint("after-unify-indexes");
    ARROW_RETURN_NOT_OK(Refresh());
  }
  return done;
}

arrow::Result<Json> LanceTable::RefreshZoneMaps(const ClusteringSpec& spec) {
  constexpr int kMostAttempts = 4;
  Json columns = Json::array();
  for (const auto& column : spec.columns) columns.push_back(column.name);
  for (int attempt = 1;; ++attempt) {
    ARROW_ASSIGN_OR_RAISE(const int64_t rows_per_zone, Named(RowsPerZone(description())));
    auto answer = version_->dataset->RefreshZoneMaps(Json{
        {"columns", columns}, {"rows_per_zone", rows_per_zone}, {"properties", Json::object()}});
    if (answer.ok() || KindOf(answer.status()) != FailureKind::kConflict ||
        attempt == kMostAttempts) {
      return Named(std::move(answer));
    }
    ARROW_RETURN_NOT_OK(Refresh());
  }
}

arrow::Result<std::vector<std::string>> LanceTable::RefreshStatistics(const ClusteringSpec& spec) {
  ARROW_RETURN_NOT_OK(Refresh());
  std::vector<std::string> notes;
  // What a crash kept from being stored is stored now, so that it is not rebuilt every time.
  if (const auto records = LayoutRecords(); !records->rebuilt.empty()) {
    ARROW_RETURN_NOT_OK(Named(StoreRecords(uri_, options_, std::nullopt)));
    ARROW_RETURN_NOT_OK(Refresh());
  }
  ARROW_ASSIGN_OR_RAISE(const Json answer, RefreshZoneMaps(spec));
  CrashPoint("after-zone-maps");
  ARROW_ASSIGN_OR_RAISE(const Json* created, GetArray(answer, "created", kWhat));
  ARROW_ASSIGN_OR_RAISE(const Json* refreshed, GetArray(answer, "refreshed", kWhat));
  ARROW_ASSIGN_OR_RAISE(const Json* failed, GetObject(answer, "failed", kWhat));
  ARROW_ASSIGN_OR_RAISE(const Json* withheld, GetArray(answer, "withheld", kWhat));
  ARROW_ASSIGN_OR_RAISE(const Json* losing, GetArray(answer, "losing", kWhat));
  if (!withheld->empty()) {
    notes.push_back(fmt::format(
        "no zone map is kept on {}: its NaN values are such that Lance would leave rows out of "
        "answers; a filter on it alone reads every fragment",
        Names(*withheld)));
  }
  if (!losing->empty()) {
    notes.push_back(fmt::format(
        "zone map {} makes Lance leave rows with NaN out of answers: drop it, it is not one of "
        "Thalweg's",
        Names(*losing)));
  }
  if (!created->empty()) notes.push_back("zone maps created: " + Names(*created));
  if (!refreshed->empty()) notes.push_back("indexes refreshed: " + Names(*refreshed));
  for (const auto& [name, why] : failed->items()) {
    notes.push_back(
        fmt::format("index \"{}\" does not cover every fragment and could not be "
                    "refreshed: {}",
                    name, why.is_string() ? why.get<std::string>() : ""));
  }
  ARROW_RETURN_NOT_OK(Refresh());
  // (Later runs are told with the layout.)
  for (const auto& column : created->empty() ? std::vector<ClusteringColumn>{} : spec.columns) {
    const auto field = version_->schema->GetFieldByName(column.name);
    if (field == nullptr) continue;
    ARROW_ASSIGN_OR_RAISE(const KeyType type,
                          Named(KeyTypeOf(*field->type(), Algorithm::kTypedQuantileRankV1)));
    const auto zone_map = ZoneMapOf(column, type);
    if (zone_map.ok() && (*zone_map)->lacks_bounds) notes.push_back(BoundsNote(column.name));
  }
  return notes;
}

}  // namespace thalweg::lance
