#pragma once

#include <string>

#include "layout/depth.h"
#include "layout/planner.h"
#include "layout/unit.h"
#include "spec/clustering_spec.h"
#include "util/json.h"

namespace thalweg {

// What `status`, `plan` and `cubes` say. The JSON forms are members of one object without `format`
// and `table`, which the command adds. Bytes are bytes, depths are expected numbers of opened units
// (files), shares are 0 to 1. `declared` is null when the table declares nothing; cubes then have
// no health.

/// `units`, `bytes`, `rows`, `depth`, `ideal`, `efficiency`, `box_1_percent`, `box_10_percent`,
/// `keys` (a list of `name`, `depth_mean`, `depth_p95`, `depth_max`, `ideal`, `efficiency`, …),
/// `health`, `notes`.
Json StatusJson(const Layout& layout, const ClusteringSpec* declared, const LayoutHealth& health);
/// `unusable`: the table declares something, and a note says why it cannot be used.
std::string StatusText(const Layout& layout, const ClusteringSpec* declared,
                       const LayoutHealth& health, bool unusable = false);

/// `outcome` ("planned" or "nothing-to-do"), `reason`, `snapshot_before`, `rows`, `source_units`,
/// `source_bytes`, `output_units` (predicted), `depth_before`, `depth_after` (predicted),
/// `selections`, `notes`. A plan that is carried out has the same members with what happened in
/// their place.
Json PlanJson(const Layout& layout, const Plan& plan);
/// With nothing to do: "nothing to do: <reason>".
std::string PlanText(const Layout& layout, const Plan& plan);

/// `cubes` (a list of `cube_id`, `run_id`, `files`, `rows`, `bytes`, `columns`, `field_ids`,
/// `spec_id`, `snapshot_id`, `health`, `same_spec`), `unclustered_units`, `unclustered_bytes`,
/// `notes`. Columns are names as far as the layout knows them, else "#<field id>".
Json CubesJson(const Layout& layout, const ClusteringSpec* declared);
std::string CubesText(const Layout& layout, const ClusteringSpec* declared);

}  // namespace thalweg
