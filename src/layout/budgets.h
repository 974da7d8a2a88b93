#pragma once

#include <cstdint>
#include <string>

namespace thalweg {

/// Hard upper bounds on what one command reads; -1: none.
struct Budgets {
  int64_t max_units = -1;
  int64_t max_rows = -1;
  int64_t max_bytes = -1;
  /// Where each is set, for messages.
  std::string units_name = "--max-source-files", rows_name = "--max-source-rows",
              bytes_name = "--max-source-bytes";
  /// These, and where one is missing that of `other`.
  Budgets Or(const Budgets& other) const {
    Budgets both = *this;
    auto take = [](int64_t* value, std::string* name, int64_t others, const std::string& from) {
      if (*value >= 0 || others < 0) return;
      *value = others;
      *name = from;
    };
    take(&both.max_units, &both.units_name, other.max_units, other.units_name);
    take(&both.max_rows, &both.rows_name, other.max_rows, other.rows_name);
    take(&both.max_bytes, &both.bytes_name, other.max_bytes, other.bytes_name);
    return both;
  }
  bool any() const { return max_units >= 0 || max_rows >= 0 || max_bytes >= 0; }
};

}  // namespace thalweg
