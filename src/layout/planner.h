#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "layout/depth.h"
#include "layout/unit.h"
#include "spec/clustering_spec.h"

namespace thalweg {

/// Hard upper bounds on what one command reads; -1: none.
struct Budgets {
  int64_t max_units = -1;
  int64_t max_rows = -1;
  int64_t max_bytes = -1;
};

struct PlanOptions {
  Budgets budgets;
  bool full = false;           ///< rewrite everything, healthy and mismatched cubes too
  int64_t max_task_bytes = -1;  ///< a larger selection is split into tasks along the curve
  int64_t target_file_bytes = int64_t{512} << 20;  ///< to predict the number of output units
};

/// What a cube is, by the rules of docs/format-notes.md (decided by size first).
enum class CubeHealth { kHealthy, kPartial, kMismatch, kOversized };
std::string_view ToString(CubeHealth health);  // "healthy", "partial", "column_mismatch", "oversized"
/// `same_set_other_order` (etc.) is set for healthy cubes whose spec id differs although the set of columns is the declared one.
CubeHealth HealthOf(const Cube& cube, const ClusteringSpec& spec, bool* other_spec = nullptr);

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
  std::vector<std::string> notes;  ///< for people: what was left out by a budget, what the policy property says, …
  double depth_before = 0;            ///< mean over keys
  double depth_after = 0;             ///< predicted
  int64_t rows = 0, bytes = 0;        ///< selected
  int units_selected = 0, units_after = 0;
};

/// The policy `size`: unclustered units and partial cubes, stale ones as the format says; `full` takes all.
arrow::Result<Plan> MakePlan(const Layout& layout, const ClusteringSpec& spec, const PlanOptions& options);

}  // namespace thalweg
