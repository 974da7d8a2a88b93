#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layout/budgets.h"
#include "layout/depth.h"
#include "layout/tiling.h"
#include "layout/unit.h"
#include "spec/clustering_spec.h"

namespace thalweg {

struct PlanOptions {
  Budgets budgets;
  bool full = false;            ///< rewrite everything, healthy and mismatched cubes too
  int64_t max_task_bytes = -1;  ///< a larger selection is split into tasks along the curve
  int64_t target_file_bytes = int64_t{512} << 20;  ///< to predict the number of output units
  int64_t target_file_rows = -1;  ///< rows of an output unit where > 0, before the bytes
  std::optional<Policy> policy;   ///< instead of the table's
  std::optional<double> theta;    ///< instead of the table's
  bool sort_per_stretch = false;  ///< groups: one sort for each stretch of neighbours that reaches
                                  ///< the target rows, not one of all (for comparison)
};

/// What a cube is. Size decides first: below the minimum it is partial, whatever its columns; then
/// the set of its columns; then whether it is above 1.5 times the target. A group is stale when it
/// is of another spec id, else partial when its rows are below the target.
enum class CubeHealth { kHealthy, kPartial, kMismatch, kOversized, kStale };
std::string_view ToString(
    CubeHealth health);  // "healthy", "partial", "column_mismatch", "oversized", "stale"
/// `other_spec`, when given, is set for cubes whose set of columns is the declared one but whose
/// spec id is not: another order of the columns, curve, bits or algorithm. They count as healthy
/// (or partial, by size).
CubeHealth HealthOf(const Cube& cube, const ClusteringSpec& spec, bool* other_spec = nullptr);
/// By the rule of the layout.
CubeHealth HealthOf(const Layout& layout, const Cube& cube, const ClusteringSpec& spec,
                    bool* other_spec = nullptr);

/// max(1, round(bytes / target)): how many balanced cubes a selection is cut into, so that no small
/// remainder is left.
int64_t CubesOf(int64_t bytes, int64_t target_cube_bytes);

/// Rows of a file with a cap on its rows and one on its bytes, from the bytes per row of what is
/// rewritten.
int64_t FileRows(int64_t rows, int64_t bytes, int64_t target_file_rows, int64_t target_file_bytes);

/// A set of units that is sorted as one.
struct Selection {
  std::vector<int> units;  ///< positions in Layout::units, ascending
  int64_t rows = 0;
  int64_t bytes = 0;
  int tasks = 1;            ///< slices
  int predicted_units = 1;  ///< output files
  std::string reason;       ///< "12 unclustered units, 1 partial cube"
};

struct Plan {
  std::vector<Selection> selections;
  std::string reason;  ///< why nothing is to do, when there is no selection
  std::vector<std::string>
      notes;  ///< for people: what was left out by a budget, what the policy property says, …
  double depth_before = 0;  ///< mean over keys
  double depth_after = 0;   ///< predicted, `correction` included
  double correction = 1;  ///< factor on the predicted part of depth_after: what past runs achieved
                          ///< of their predictions
  int64_t rows = 0, bytes = 0;  ///< selected
  int64_t new_bytes = 0;        ///< of these, in unclustered units
  int units_selected = 0, units_after = 0;
  /// Where the units that the selections are written as are predicted to lie.
  std::vector<RankBoxOf> predicted_boxes;
  struct KeyDepth {
    double before = 0, after = 0;  ///< `after` predicted, `correction` included
  };
  std::vector<KeyDepth> keys;
  double theta = 0;      ///< of the policy overlap; 0: the plan is of the policy size
  bool settled = false;  ///< overlap: nothing more is worth a rewrite once this is done
};

/// What the record of the run says of its plan.
PlannedRun RecordOf(const Plan& plan);
/// Sets Cube::overlapping of the cubes that a plan of the policy overlap rewrites some unit of.
void MarkOverlapping(const Plan& plan, Layout* layout);
/// One line that says what the policy overlap would rewrite of this layout, after a run of the
/// policy size; "" when it would do the same as `plan`, which was made with these options.
arrow::Result<std::string> OverlapHint(const Layout& layout, const ClusteringSpec& spec,
                                       const PlanOptions& options, const Plan& plan);

/// For each unit of the layout whether a selection has it.
std::vector<char> SelectedMask(const Layout& layout, const Plan& plan);
/// Ids of the units of all selections.
std::vector<std::string> SelectedUnits(const Layout& layout, const Plan& plan);

/// What is worth a rewrite, by the policy of the options or else of the spec.
///
/// `size`: unclustered units, partial and oversized cubes, as one selection; `full` takes all.
/// Partial cubes that all come from one run and are of the declared columns are left alone while
/// nothing else is selected, so a second run without new data has nothing to do. Under budgets the
/// best gain per byte goes first, cubes whole or not at all. Repeated runs without new data end,
/// because each lowers, in this order: the unclustered units; the cubes of other columns that are
/// selected; the oversized cubes; the partial cubes, or the runs that they come from.
///
/// `overlap`: unclustered units, and every region where one sort of units of at least two runs
/// would cut the depth that is avoidable there by theta or more (docs/overlap.md). Regions that
/// share unclustered units become one selection. Units of other columns are no candidates.
///
/// `full` is the same under both, and under a budget takes only what is not yet a healthy cube of
/// the declared spec, unless the whole table fits; so it ends too.
///
/// Invalid when the layout does not describe the spec's columns, or its cubes name units that do
/// not exist or twice.
arrow::Result<Plan> MakePlan(const Layout& layout, const ClusteringSpec& spec,
                             const PlanOptions& options);

}  // namespace thalweg
