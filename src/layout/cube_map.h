#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layout/unit.h"
#include "util/json.h"

namespace thalweg {

inline constexpr char kCubeMapFormat[] = "thalweg.cube-map/1";

/// Which units are which cube of which run: the layout record of a table, kept as one JSON document
/// per state. A value; how it is stored is the format's business.
struct CubeMap {
  struct Entry {
    std::string cube_id;
    std::string run_id;
    std::string spec_id;
    std::vector<int32_t> field_ids;  ///< clustering columns, in declared order
    std::string snapshot_id;         ///< that the cube was committed in
    int64_t rows = 0;
    int64_t bytes = 0;  ///< encoded
    std::vector<std::string> unit_ids;
    bool operator==(const Entry&) const = default;
  };
  /// The newest run that went into the map: a map whose last run is not the newest run of the
  /// table's history is stale.
  std::string last_run_id;
  std::vector<Entry> cubes;     ///< in the order of their commits
  std::vector<RunRecord> runs;  ///< of the cubes, oldest first
};

/// The document, in `format` kCubeMapFormat; encoded values as hexadecimal.
Json CubeMapToJson(const CubeMap& map);

/// Reads a document. One-line errors that say what is wrong for a foreign tag, missing or mistyped
/// members, negative or non-finite numbers, doubled cubes, runs or units, cubes without units or
/// columns, and quantiles that are too many or out of order.
arrow::Result<CubeMap> CubeMapFromJson(const Json& json);
arrow::Result<CubeMap> ParseCubeMap(std::string_view text);

/// A unit that goes away, with the rows and bytes that its cube counted it with.
struct RemovedUnit {
  std::string id;
  int64_t rows = 0;
  int64_t bytes = 0;
};

/// The map after a commit, from that of its parent: without the removed units, cubes without units
/// and runs without cubes, and with the new cubes and their run. `run_id` becomes the last run. A
/// new cube or run of an id that the parent has replaces it, so that deriving twice gives the same.
CubeMap DeriveCubeMap(const CubeMap& parent, const std::vector<RemovedUnit>& removed,
                      const std::vector<CubeMap::Entry>& new_cubes,
                      const std::optional<RunRecord>& run, const std::string& run_id);

struct CompletedCubeMap {
  CubeMap map;
  std::string note;  ///< for people; "" when the map already said everything
};

/// Brings a map that may be stale, or is empty, to the live units: units that are gone leave it,
/// and units that it does not know join the cube that their stamp names. Units whose stamp
/// contradicts the map (the same cube of another run or other columns) stay out: they are
/// unclustered. Rows and bytes are counted anew. Runs known from stamps only have no quantiles.
/// Without a `map` the note says that it was rebuilt.
CompletedCubeMap CompleteCubeMap(const std::optional<CubeMap>& map, const std::vector<Unit>& live);

/// Fills in `stamp` of the units that the map knows, and `cubes` and `runs` with live units, of a
/// layout whose units are set. Stamps of units that the map does not know are cleared: complete the
/// map first.
void ApplyCubeMap(const CubeMap& map, Layout* layout);

}  // namespace thalweg
