// Key ranges of fragments, from the zones of the zone-map indexes.

#include <algorithm>

#include "key/encoded_value.h"
#include "lance/lance_table_internal.h"
#include "util/status.h"

namespace thalweg::lance {
namespace {

/// The columns of a batch of zones.
struct Zones {
  std::shared_ptr<arrow::UInt64Array> fragments, lengths, null_counts, nan_counts;
  std::shared_ptr<arrow::Array> min, max;
};

arrow::Result<Zones> ZonesOf(const arrow::RecordBatch& batch) {
  auto counts = [&](const char* name) {
    return std::dynamic_pointer_cast<arrow::UInt64Array>(batch.GetColumnByName(name));
  };
  Zones zones{counts("fragment_id"), counts("zone_length"),        counts("null_count"),
              counts("nan_count"),   batch.GetColumnByName("min"), batch.GetColumnByName("max")};
  if (!zones.fragments || !zones.lengths || !zones.null_counts || !zones.nan_counts || !zones.min ||
      !zones.max) {
    return Invalid("the zones of a zone map lack a column");
  }
  return zones;
}

bool HasBounds(const Zones& zones, int64_t row) {
  return zones.min->IsValid(row) && zones.max->IsValid(row);
}

/// By the counts, which is how Lance tells.
bool MayHoldValues(const Zones& zones, int64_t row) {
  return zones.lengths->Value(row) > zones.null_counts->Value(row) + zones.nan_counts->Value(row);
}

/// Bounds as the zone map has them, which is what queries prune by: with NaN where it counts NaN
/// among the values. A zone without bounds that may hold more than nulls is read by every query.
arrow::Status AddZone(const KeyType& type, const Zones& zones, int64_t row, UnitColumn* column) {
  column->null_count += static_cast<int64_t>(zones.null_counts->Value(row));
  if (!HasBounds(zones, row)) {
    if (MayHoldValues(zones, row)) column->usable = false;
    return arrow::Status::OK();
  }
  ARROW_ASSIGN_OR_RAISE(std::string lower, EncodeValue(type, *zones.min, row));
  ARROW_ASSIGN_OR_RAISE(std::string upper, EncodeValue(type, *zones.max, row));
  if (upper < lower) column->usable = false;
  if (!column->lower || lower < *column->lower) column->lower = std::move(lower);
  if (!column->upper || upper > *column->upper) column->upper = std::move(upper);
  return arrow::Status::OK();
}

/// Zones count deleted rows too: brings the null count to the live rows.
void ScaleToLive(const Fragment& fragment, UnitColumn* column) {
  const int64_t most = fragment.rows() - (column->lower && fragment.rows() > 0 ? 1 : 0);
  if (fragment.deleted_rows > 0 && fragment.physical_rows > 0) {
    column->null_count = static_cast<int64_t>(static_cast<double>(column->null_count) *
                                              static_cast<double>(fragment.rows()) /
                                              static_cast<double>(fragment.physical_rows));
    if (!column->lower) column->null_count = fragment.rows();
  }
  column->null_count = std::min(column->null_count, most);
  if (!column->lower && column->null_count != fragment.rows()) column->usable = false;
}

}  // namespace

std::string BoundsNote(const std::string& column) {
  return fmt::format(
      "the zone map of \"{}\" has no bounds, which Lance does not write for columns of its type: a "
      "filter on it alone reads every fragment",
      column);
}

arrow::Result<ZoneMap> ReadZoneMap(const Version& version, const ClusteringColumn& column,
                                   const KeyType& type) {
  ZoneMap zone_map;
  auto& columns = zone_map.fragments;
  const auto& indices = version.description.indices;
  const bool there = std::any_of(indices.begin(), indices.end(), [&](const IndexSegment& index) {
    return index.zone_map() && index.usable &&
           index.field_ids == std::vector<int32_t>{column.field_id};
  });
  if (!there) return zone_map;
  auto reader = version.dataset->Zones(column.name);
  if (!reader.ok()) {
    if (IsNotFound(reader.status())) return zone_map;
    return reader.status();
  }
  bool any_bounds = false, any_values = false;
  while (true) {
    std::shared_ptr<arrow::RecordBatch> batch;
    ARROW_RETURN_NOT_OK((*reader)->ReadNext(&batch));
    if (batch == nullptr) break;
    ARROW_ASSIGN_OR_RAISE(const Zones zones, ZonesOf(*batch));
    for (int64_t row = 0; row < batch->num_rows(); ++row) {
      const auto [at, added] = columns.try_emplace(zones.fragments->Value(row));
      if (added) at->second.null_count = 0;
      ARROW_RETURN_NOT_OK(AddZone(type, zones, row, &at->second));
      any_bounds |= HasBounds(zones, row);
      any_values |= MayHoldValues(zones, row);
    }
  }
  zone_map.lacks_bounds = any_values && !any_bounds;
  for (const auto& fragment : version.description.fragments) {
    const auto found = columns.find(fragment.id);
    if (found != columns.end()) ScaleToLive(fragment, &found->second);
  }
  return zone_map;
}

}  // namespace thalweg::lance
