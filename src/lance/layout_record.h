#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lance/description.h"
#include "layout/unit.h"

namespace thalweg::lance {

/// What ties a stamp to what it was given to: XXH3-64 over the fragment's id, its physical rows and
/// the paths of the data files that hold these columns. Deletions and further columns leave it as
/// it is. nullopt when the stamp cannot hold: no data file has a column, or an overlay changes one.
std::optional<uint64_t> BindingHash(const Fragment& fragment,
                                    const std::vector<int32_t>& field_ids);

struct StampedFragment {
  uint64_t id = 0;
  uint64_t hash = 0;  ///< BindingHash when it was stamped
  bool operator==(const StampedFragment&) const = default;
};

/// One run's entry in the layout record: which fragments it wrote, in which groups (the whole
/// output of one sort each), for which declaration, and what it knew of the keys. One key of the
/// dataset's table_metadata (property_names.h) holds it.
struct LayoutRecord {
  struct Group {
    std::string id;
    std::vector<StampedFragment> fragments;
  };
  RunRecord run;
  int64_t version = 0;             ///< of the declaration
  std::vector<int32_t> field_ids;  ///< clustering columns, in declared order
  std::vector<Group> groups;
};

std::string RecordKey(const std::string& run_id);

/// "3-7,9": fragment ids in ascending order as ranges.
std::string FragmentRanges(const std::vector<uint64_t>& ids);
/// The inverse. More than `most` ids, or anything that FragmentRanges does not write, is an error.
arrow::Result<std::vector<uint64_t>> ParseFragmentRanges(std::string_view text, size_t most);

/// The text of a record: JSON of at most 16 KiB and 16 bytes a fragment, as long as the fragments'
/// ids are dense. For the bound, quantiles and repeated values are thinned and long strings
/// shortened.
std::string RecordToText(const LayoutRecord& record);
inline constexpr size_t kMostRecordBytes = 16384;

/// Reads what RecordToText gives, found under this key. One-line errors for anything else.
arrow::Result<LayoutRecord> ParseRecord(const std::string& key, std::string_view text);

/// True for the text of a record in another version of the format, which is left alone.
bool IsOtherFormat(std::string_view text);

}  // namespace thalweg::lance
