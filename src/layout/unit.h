#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "key/key_type.h"
#include "spec/clustering_spec.h"

namespace thalweg {

/// What the table's metadata says of one key column of one unit. Bounds are order-preserving
/// encoded values (key/encoded_value.h), inclusive; they may be wider than the values (truncated
/// strings). A missing bound is open on that side.
struct UnitColumn {
  std::optional<std::string> lower;
  std::optional<std::string> upper;
  int64_t null_count = -1;  ///< -1: not known
  bool usable = true;  ///< false: statistics are missing or malformed; the unit may hold anything
  bool operator==(const UnitColumn&) const = default;
};

/// Who wrote a unit, when it was Thalweg.
struct Stamp {
  std::string run_id;
  std::string cube_id;
  std::string spec_id;
  std::vector<int32_t> field_ids;  ///< clustering columns, in declared order
  bool operator==(const Stamp&) const = default;
};

/// An Iceberg data file or a Lance fragment.
struct Unit {
  std::string id;                   ///< path or fragment id: unique within the table
  int64_t rows = 0;                 ///< live
  int64_t bytes = 0;                ///< encoded
  std::vector<UnitColumn> columns;  ///< one per key column of the description
  std::optional<Stamp> stamp;
  /// Units of different classes cannot be sorted as one (indexes cover some and not others).
  int rewrite_class = 0;
  int64_t deleted_rows = 0;  ///< about how many rows, beside `rows`, would go by rewriting it
};

/// What a run knew of one key column when it sorted: the quantiles behind the widths.
struct ColumnQuantiles {
  int32_t field_id = -1;
  std::vector<std::string> quantiles;  ///< at most 256, ascending, equi-depth over non-null values,
                                       ///< first = min, last = max
  double null_share = 0;               ///< of the rows
  struct Repeated {
    std::string value;
    double mass;  ///< share of the non-null values
  };
  std::vector<Repeated>
      repeated;  ///< values that fill more than one quantile step (mass >= 1/256), heaviest first
};

/// One past run whose output is (partly) live.
struct RunRecord {
  std::string run_id;
  std::string snapshot_id;  ///< that the run committed
  std::string spec_id;
  int64_t committed_millis = 0;
  int64_t rows = 0;
  int64_t source_units = 0, source_bytes = 0, output_units = 0, output_bytes = 0;
  double predicted_depth = -1, achieved_depth = -1, depth_before = -1;  ///< -1: not known
  double prediction_correction = 1;  ///< Plan::correction that predicted_depth includes
  double theta = 0;      ///< of the policy overlap that made the run; 0: another reason made it
  bool settled = false;  ///< overlap: nothing more was worth a rewrite once this run was done
  std::vector<ColumnQuantiles> quantiles;
};

/// What was planned for a run: part of its record.
struct PlannedRun {
  double depth_before = -1, predicted_depth = -1;  ///< -1: not known
  double correction = 1;
  double theta = 0;
  bool settled = false;
  bool operator==(const PlannedRun&) const = default;

  void AddTo(RunRecord* run) const {
    run->depth_before = depth_before;
    run->predicted_depth = predicted_depth;
    run->prediction_correction = correction;
    run->theta = theta;
    run->settled = settled;
  }
};

/// A contiguous slice of a run along the curve (Iceberg), or a whole run (Lance's group).
struct Cube {
  std::string cube_id;
  std::string run_id;
  std::string spec_id;
  std::vector<int32_t> field_ids;
  std::string snapshot_id;
  int64_t rows = 0;
  int64_t bytes = 0;
  std::vector<int> units;    ///< positions in Layout::units
  bool overlapping = false;  ///< the policy overlap would rewrite some of it (MarkOverlapping)
};

/// How the policy `size` tells what is worth a rewrite.
enum class SizeRule {
  kCubes,   ///< by the encoded bytes of cubes (slices of a run along the curve)
  kGroups,  ///< by the live rows of groups (whole runs), which merge with neighbours in the order
            ///< of Layout::units; stamps of another spec id count as none
};

/// The table at one snapshot, as the planner sees it: a value.
struct Layout {
  std::string snapshot_id;                ///< "" for an empty table
  std::vector<ClusteringColumn> columns;  ///< the key columns described, declared or hypothetical
  std::vector<KeyType> types;             ///< of these columns
  std::vector<Unit> units;
  SizeRule size_rule = SizeRule::kCubes;
  int64_t group_rows = 0;  ///< groups of fewer live rows are partial (kGroups)
  /// What the format calls its units and cubes, for people: "file" and "cube", "fragment" and
  /// "group".
  std::string unit_name = "file";
  std::string cube_name = "cube";
  std::vector<Cube> cubes;  ///< every stamped live unit belongs to exactly one
  std::vector<RunRecord>
      runs;  ///< of live stamped units, oldest first; records rebuilt from files lack quantiles
  std::vector<std::string>
      notes;  ///< for people: "cube map completed from the files' own metadata", renamed columns, …
};

}  // namespace thalweg
