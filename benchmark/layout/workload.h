#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace thalweg::layout_benchmark {

inline constexpr int kMostKeys = 4;
/// Key values are whole numbers in [0, kDomain).
inline constexpr int32_t kDomain = 1 << 24;

using Row = std::array<int32_t, kMostKeys>;

/// How the rows of a growing table are distributed. `appends` equal appends make up `files` files.
struct Workload {
  std::string name;  ///< uniform, time, drifting, boolean, constant, hot, zipf or correlated
  int keys = 2;
  int files = 1024;
  int appends = 64;
};

/// The workloads that are run.
std::vector<Workload> Workloads();

/// The rows of append number `append`.
/// uniform: every key evenly; time: the first key grows with the appends, 5 % of the rows are late;
/// drifting: the first key half drifts with the appends; and of the second key: boolean (two
/// values), constant (one), hot (60 % one value), zipf (200 values, skewed), correlated (the first
/// key and a twentieth of noise).
std::vector<Row> MakeAppend(const Workload& workload, int append, int64_t rows,
                            std::mt19937_64* random);

}  // namespace thalweg::layout_benchmark
