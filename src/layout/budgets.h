#pragma once

#include <cstdint>

namespace thalweg {

/// Hard upper bounds on what one command reads; -1: none.
struct Budgets {
  int64_t max_units = -1;
  int64_t max_rows = -1;
  int64_t max_bytes = -1;
  /// These, and where one is missing that of `other`.
  Budgets Or(const Budgets& other) const {
    return {max_units >= 0 ? max_units : other.max_units, max_rows >= 0 ? max_rows : other.max_rows,
            max_bytes >= 0 ? max_bytes : other.max_bytes};
  }
  bool any() const { return max_units >= 0 || max_rows >= 0 || max_bytes >= 0; }
};

}  // namespace thalweg
