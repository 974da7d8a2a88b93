#include "lance/key_ranges.h"

#include <arrow/compute/api.h>
#include <arrow/scalar.h>
#include <arrow/util/base64.h>

#include "key/encoded_value.h"

namespace thalweg::lance {
namespace {

/// Longer values are not worth their place in an envelope.
constexpr size_t kMostBytes = 1024;

arrow::Result<std::string> EncodeScalar(const KeyType& type,
                                        const std::shared_ptr<arrow::Scalar>& value) {
  ARROW_ASSIGN_OR_RAISE(const auto array, arrow::MakeArrayFromScalar(*value, 1));
  return EncodeValue(type, *array, 0);
}

}  // namespace

KeyRanges::KeyRanges(const arrow::Schema& schema, const ClusteringSpec& spec) {
  for (const auto& column : spec.columns) {
    const int position = schema.GetFieldIndex(column.name);
    if (position < 0) continue;
    auto type = KeyTypeOf(*schema.field(position)->type(), Algorithm::kTypedQuantileRankV1);
    if (!type.ok()) continue;
    keys_.push_back({position, column.field_id, *type, {}});
    keys_.back().range.null_count = 0;
  }
}

arrow::Status KeyRanges::Update(const arrow::RecordBatch& batch) {
  for (Key& key : keys_) {
    const auto& array = batch.column(key.column);
    UnitColumn& range = key.range;
    range.null_count += array->null_count();
    if (!range.usable || array->null_count() == array->length()) continue;
    const auto ends = arrow::compute::MinMax(array);
    if (!ends.ok()) {  // of a type that Arrow does not order
      range.usable = false;
      continue;
    }
    const auto& values = ends->scalar_as<arrow::StructScalar>().value;
    ARROW_ASSIGN_OR_RAISE(auto lower, EncodeScalar(key.type, values[0]));
    ARROW_ASSIGN_OR_RAISE(auto upper, EncodeScalar(key.type, values[1]));
    if (upper < lower) continue;  // nothing but NaN
    if (!range.lower || lower < *range.lower) range.lower = std::move(lower);
    if (!range.upper || upper > *range.upper) range.upper = std::move(upper);
  }
  return arrow::Status::OK();
}

Json KeyRanges::ToJson() const {
  Json json = Json::array();
  for (const Key& key : keys_) {
    const UnitColumn& range = key.range;
    const bool fits = (!range.lower || range.lower->size() <= kMostBytes) &&
                      (!range.upper || range.upper->size() <= kMostBytes);
    if (!range.usable || !fits) continue;
    Json one{{"field-id", key.field_id}, {"nulls", range.null_count}};
    if (range.lower) one["lower"] = arrow::util::base64_encode(*range.lower);
    if (range.upper) one["upper"] = arrow::util::base64_encode(*range.upper);
    json.push_back(std::move(one));
  }
  return json;
}

std::vector<UnitColumn> ParseKeyRanges(const Json& json,
                                       const std::vector<ClusteringColumn>& columns) {
  std::vector<UnitColumn> ranges(columns.size());
  for (auto& range : ranges) range.usable = false;
  if (!json.is_array()) return ranges;
  for (const Json& one : json) {
    const auto field_id = GetInt64(one, "field-id", "");
    const auto nulls = GetCount(one, "nulls", "");
    const auto lower = FindString(one, "lower", "");
    const auto upper = FindString(one, "upper", "");
    if (!field_id.ok() || !nulls.ok() || !lower.ok() || !upper.ok()) continue;
    UnitColumn range;
    range.null_count = *nulls;
    auto decode = [&](const std::optional<std::string>& text) -> std::optional<std::string> {
      if (!text) return std::nullopt;
      auto bytes = arrow::util::base64_decode(*text);
      range.usable = range.usable && bytes.ok();
      return bytes.ok() ? std::optional(*bytes) : std::nullopt;
    };
    range.lower = decode(*lower);
    range.upper = decode(*upper);
    for (size_t i = 0; i < columns.size(); ++i) {
      if (columns[i].field_id == *field_id) ranges[i] = range;
    }
  }
  return ranges;
}

}  // namespace thalweg::lance
