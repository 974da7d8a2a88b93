#pragma once

#include <cstdint>

#include "key/model.h"
#include "layout/unit.h"

namespace thalweg {

/// What a run records of one key column it sorted by: at most 256 equi-depth quantiles of the
/// model's sample, the first its smallest and the last its largest value, and the values that fill
/// at least 1/256 of it. `null_share` is of the rows. A model without samples (fixed domain, or no
/// non-null row) gives no quantiles.
ColumnQuantiles QuantilesOf(const ColumnModel& model, int32_t field_id, double null_share);

}  // namespace thalweg
