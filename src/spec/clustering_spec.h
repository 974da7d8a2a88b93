#pragma once

#include <arrow/result.h>
#include <arrow/status.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace thalweg {

enum class Curve { kHilbert, kZOrder };
/// `typed-quantile-rank-v1` and its restriction to fewer types, `quantile-rank-v1`.
enum class Algorithm { kTypedQuantileRankV1, kQuantileRankV1 };
enum class Policy { kSize, kOverlap };

std::string_view ToString(Curve curve);          // "hilbert", "zorder"
std::string_view ToString(Algorithm algorithm);  // "typed-quantile-rank-v1", "quantile-rank-v1"
std::string_view ToString(Policy policy);        // "size", "overlap"
/// Case-insensitive; the error lists what is accepted.
arrow::Result<Curve> ParseCurve(std::string_view text);
arrow::Result<Algorithm> ParseAlgorithm(std::string_view text);
arrow::Result<Policy> ParsePolicy(std::string_view text);

/// One clustering column: the name in the table's current schema, and the id that the format gives
/// it.
struct ClusteringColumn {
  std::string name;
  int32_t field_id = -1;
  bool operator==(const ClusteringColumn&) const = default;
};

/// What a table declares: which columns, in which order, along which curve.
struct ClusteringSpec {
  std::vector<ClusteringColumn> columns;  // 1 to 4, distinct
  Curve curve = Curve::kHilbert;
  int bits_per_dim = 16;  // 1 to 32
  Algorithm algorithm = Algorithm::kTypedQuantileRankV1;
  int64_t target_cube_bytes = int64_t{10} << 30;
  int64_t min_cube_bytes = int64_t{5} << 30;
  Policy policy = Policy::kSize;
  double theta = 0.42;  // overlap threshold, in (0, 1)
  /// Number of the declaration, above 0, in formats that number theirs (Lance); 0 in others.
  int64_t version = 0;

  /// Ranges, duplicates, 0 < min_cube_bytes <= target_cube_bytes. Types are checked by the key
  /// stage.
  arrow::Status Validate() const;

  /// Sixteen hex digits: XXH3-64 of (field ids in declared order, curve, bits, algorithm, and the
  /// version where there is one). Sizes and policy do not take part.
  std::string SpecId() const;

  bool operator==(const ClusteringSpec&) const = default;
};

}  // namespace thalweg
