#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workload.h"

namespace thalweg::layout_benchmark {

/// Where files are cut out of the sorted rows: every so many rows, or within 0.8 to 1.2 of that
/// where the boxes come out smallest (sort/cut_planner.h); or, where it is a hard cap, within 0.67
/// to 1.0.
enum class Cuts { kEqual, kOurs, kCapped };

inline constexpr int64_t kRowsPerFile = 128;

struct File {
  std::vector<Row> rows;
  Row low, high;
  int run = -1;   ///< -1: unclustered
  int cube = -1;  ///< of the policies that keep cubes
  int level = 0;  ///< of the depth sweep
};

/// What is true of a key's values over the whole history of a workload: what depth is measured by.
class Truth {
 public:
  Truth(const Workload& workload, uint64_t seed);
  /// P(low <= V <= high).
  double Mass(int key, int32_t low, int32_t high) const;
  /// The mean over the keys of the files that an equality on a random value opens.
  double Touched(const std::vector<File>& files) const;

 private:
  int keys_;
  std::vector<int32_t> sorted_[kMostKeys];
};

/// The rows as files of about kRowsPerFile, sorted along the Hilbert curve through the ranks of
/// these rows.
std::vector<File> Sort(std::vector<Row> rows, int keys, Cuts cuts, int run);
/// The rows as files sorted by the key tuple.
std::vector<File> SortByTuple(std::vector<Row> rows, int keys, int run);
/// The rows as they are, in files of kRowsPerFile.
std::vector<File> Unsorted(const std::vector<Row>& rows, int keys);

}  // namespace thalweg::layout_benchmark
