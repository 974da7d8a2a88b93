#pragma once

#include <arrow/type.h>

#include <string>
#include <utility>
#include <vector>

#include "lance/description.h"

namespace thalweg::lance {

/// A description with these top-level columns, of field ids 0, 1, …
inline Description DescriptionOf(const arrow::Schema& schema) {
  Description description;
  description.version = 7;
  description.storage_version = "2.2";
  for (int i = 0; i < schema.num_fields(); ++i) {
    description.fields.push_back({i, schema.field(i)->name(), false});
  }
  return description;
}

inline Fragment FragmentOf(uint64_t id, int64_t rows,
                           std::vector<std::pair<std::string, std::vector<int32_t>>> files) {
  Fragment fragment;
  fragment.id = id;
  fragment.physical_rows = rows;
  for (auto& [path, field_ids] : files) fragment.files.push_back({path, field_ids, 100});
  return fragment;
}

}  // namespace thalweg::lance
