#include "spec/clustering_spec.h"

#include <xxhash.h>

#include <set>

#include "util/status.h"
#include "util/text.h"

namespace thalweg {

std::string_view ToString(Curve curve) { return curve == Curve::kHilbert ? "hilbert" : "zorder"; }

std::string_view ToString(Algorithm algorithm) {
  return algorithm == Algorithm::kTypedQuantileRankV1 ? "typed-quantile-rank-v1"
                                                      : "quantile-rank-v1";
}

std::string_view ToString(Policy policy) { return policy == Policy::kSize ? "size" : "overlap"; }

arrow::Result<Curve> ParseCurve(std::string_view text) {
  const std::string lower = Lower(text);
  if (lower == "hilbert") return Curve::kHilbert;
  if (lower == "zorder" || lower == "z-order") return Curve::kZOrder;
  return Usage("unknown curve \"{}\": use hilbert or zorder", text);
}

arrow::Result<Algorithm> ParseAlgorithm(std::string_view text) {
  const std::string lower = Lower(text);
  if (lower == "typed-quantile-rank-v1") return Algorithm::kTypedQuantileRankV1;
  if (lower == "quantile-rank-v1") return Algorithm::kQuantileRankV1;
  return Usage("unknown algorithm \"{}\": use typed-quantile-rank-v1 or quantile-rank-v1", text);
}

arrow::Result<Policy> ParsePolicy(std::string_view text) {
  const std::string lower = Lower(text);
  if (lower == "size") return Policy::kSize;
  if (lower == "overlap") return Policy::kOverlap;
  return Usage("unknown policy \"{}\": use size or overlap", text);
}

arrow::Status ClusteringSpec::Validate() const {
  if (columns.empty() || columns.size() > 4) {
    return Usage("{} clustering columns: one to four are possible", columns.size());
  }
  std::set<std::string> names;
  std::set<int32_t> ids;
  for (const auto& column : columns) {
    if (column.name.empty()) return Usage("a clustering column has an empty name");
    if (!names.insert(column.name).second ||
        (column.field_id >= 0 && !ids.insert(column.field_id).second)) {
      return Usage("clustering column \"{}\" is named twice", column.name);
    }
  }
  if (bits_per_dim < 1 || bits_per_dim > 32) {
    return Usage("{} bits per column: 1 to 32 are possible", bits_per_dim);
  }
  if (min_cube_bytes <= 0 || target_cube_bytes <= 0) return Usage("cube sizes must be positive");
  if (min_cube_bytes > target_cube_bytes) {
    return Usage("the minimum cube size ({} bytes) is above the target ({} bytes)", min_cube_bytes,
                 target_cube_bytes);
  }
  if (version < 0) return Usage("version {} of a declaration: it must be above 0", version);
  if (!(theta > 0 && theta < 1)) return Usage("overlap threshold {} is not between 0 and 1", theta);
  return arrow::Status::OK();
}

std::string ClusteringSpec::SpecId() const {
  std::string text;
  for (const auto& column : columns) text += fmt::format("{},", column.field_id);
  text += fmt::format("|{}|{}|{}", ToString(curve), bits_per_dim, ToString(algorithm));
  if (version > 0) text += fmt::format("|{}", version);
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

}  // namespace thalweg
