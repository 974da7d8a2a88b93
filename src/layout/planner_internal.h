#pragma once

#include <vector>

#include "layout/key_distribution.h"
#include "layout/planner.h"
#include "layout/unit.h"

namespace thalweg {

struct Totals;

/// Rank intervals of all units on all keys, and the distributions behind them.
struct Ranks {
  std::vector<KeyDistribution> keys;
  std::vector<std::vector<RankInterval>> intervals;  ///< by key, then by unit

  explicit Ranks(const Layout& layout);
  int key_count() const { return static_cast<int>(keys.size()); }
  /// The mean over the keys of a unit's widths: what it adds to the depth.
  double Width(int unit) const;
  /// The part of the width that is not due to repeated values: a query on value j, of mass p_j,
  /// opens the share p_j / width_k of the units that rows like these are sorted into.
  double Avoidable(int unit) const;
  /// The same on the keys that `box`, the unit's, holds.
  double Avoidable(int unit, const RankBoxOf& box) const;
};

/// Geometric mean of what past runs achieved of their predictions and of three that achieved their
/// own, within a factor of two.
double CorrectionOf(const Layout& layout);

/// Whether these are the declared clustering columns, in whatever order.
bool OfDeclaredColumns(const std::vector<int32_t>& field_ids, const ClusteringSpec& spec);
/// Health of a cube of this many live bytes.
CubeHealth HealthOf(int64_t bytes, const std::vector<int32_t>& field_ids,
                    const std::string& spec_id, const ClusteringSpec& spec, bool* other_spec);

/// How many units rows of this size are written as, as a fraction: it adds up.
double OutputUnits(int64_t rows, int64_t bytes, const PlanOptions& options);
/// The same as a whole number of at least 1, in whole cubes.
int PredictUnits(int64_t rows, int64_t bytes, const ClusteringSpec& spec,
                 const PlanOptions& options);

/// `units`, rows, bytes, tasks and predicted units of a selection of these units. The reason is
/// left to the caller.
Selection MakeSelection(const Layout& layout, std::vector<int> units, const ClusteringSpec& spec,
                        const PlanOptions& options);

/// The box of a unit.
RankBoxOf BoxOf(const Ranks& ranks, int unit);
/// Adds where the files of a selection are predicted to lie to the plan's predicted boxes; how many
/// there are is what it is then predicted to write.
void PredictBoxes(const Layout& layout, const Ranks& ranks, const ClusteringSpec& spec,
                  const PlanOptions& options, Selection* selection, Plan* plan);
/// Adds a selection, and what it selects to the sums of the plan.
void AddSelection(const Layout& layout, Selection selection, Plan* plan);
/// Sets the depths of a plan from the units that stay and its predicted boxes.
void PredictAfter(const Layout& layout, const Ranks& ranks, Plan* plan);
/// "the smallest rewrite that is worth it needs 2 units of 13.1 MiB (…); --max-source-bytes is …".

std::string TooSmallFor(const Totals& needed, const Budgets& budgets);

/// The policies: each fills in `plan`, whose depths are those of the layout as it is.
arrow::Status PlanBySize(const Layout& layout, const ClusteringSpec& spec,
                         const PlanOptions& options, const Ranks& ranks, Plan* plan);
arrow::Status PlanByOverlap(const Layout& layout, const ClusteringSpec& spec,
                            const PlanOptions& options, const Ranks& ranks, Plan* plan);

}  // namespace thalweg
