#include "layout/quantiles.h"

#include <algorithm>

namespace thalweg {
namespace {

constexpr int64_t kQuantiles = 256;

/// The first position in [from, to) whose value is not below (`past`: is above) `value`.
int64_t Bound(const ColumnModel& model, int64_t from, int64_t to, const std::string& value,
              bool past) {
  while (from < to) {
    const int64_t middle = from + (to - from) / 2;
    const std::string at = model.value(middle);
    if (past ? at <= value : at < value) {
      from = middle + 1;
    } else {
      to = middle;
    }
  }
  return from;
}

}  // namespace

ColumnQuantiles QuantilesOf(const ColumnModel& model, int32_t field_id, double null_share) {
  ColumnQuantiles result;
  result.field_id = field_id;
  result.null_share = std::clamp(null_share, 0.0, 1.0);
  const int64_t size = model.fixed_domain() ? 0 : model.size();
  if (size <= 0) return result;
  const int64_t count = std::min(size, kQuantiles);
  for (int64_t i = 0; i < count; ++i) {
    result.quantiles.push_back(model.value(count == 1 ? 0 : i * (size - 1) / (count - 1)));
  }
  // A value that fills 1/256 of the sample is met at one of these strides.
  const int64_t stride = std::max<int64_t>(1, size / kQuantiles);
  int64_t counted = 0;  // everything before is dealt with
  for (int64_t at = 0; at < size;
       at = std::max(at + stride, (counted + stride - 1) / stride * stride)) {
    const std::string value = model.value(at);
    const int64_t first = Bound(model, counted, at, value, /*past=*/false);
    const int64_t last = Bound(model, at, size, value, /*past=*/true);
    counted = last;
    const int64_t copies = last - first;
    if (copies >= 2 && copies * kQuantiles >= size) {
      result.repeated.push_back({value, static_cast<double>(copies) / static_cast<double>(size)});
    }
  }
  std::stable_sort(result.repeated.begin(), result.repeated.end(),
                   [](const auto& a, const auto& b) { return a.mass > b.mass; });
  return result;
}

}  // namespace thalweg
