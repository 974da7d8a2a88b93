#pragma once

#include <memory>
#include <string>
#include <vector>

#include "table.h"

namespace thalweg::layout_benchmark {

/// A table under maintenance.
struct Table {
  int keys = 2;
  std::vector<File> files;
  int next_run = 0;
  int64_t rows_written = 0;  ///< by the policy, appends not counted

  /// Takes these files away and adds the sort of their rows as one new run.
  void Rewrite(const std::vector<int>& files, Cuts cuts, int cube = -1);
};

/// What is done after each append.
class MaintenancePolicy {
 public:
  virtual ~MaintenancePolicy() = default;
  virtual void Maintain(Table* table) = 0;
};

/// Sorts everything anew each time.
std::unique_ptr<MaintenancePolicy> FullSort(Cuts cuts);

/// The published rule of Delta Lake's open-source liquid clustering: a cube of at least the minimum
/// size is sealed; unclustered files and the files of cubes below the minimum are sorted together
/// into one new cube.
std::unique_ptr<MaintenancePolicy> SizeSealedCubes(double minimum_files, Cuts cuts);

/// The published rule of Databend's recluster for linear keys: files carry a level and lie on a
/// line, in the order of the key tuple. Level by level from 0, where the mean number of files over
/// the ends of files is above the threshold (4), the files around the place where most of them
/// overlap are sorted by the tuple and go up a level; at most so many at once, for their memory.
std::unique_ptr<MaintenancePolicy> DepthSweep(double threshold = 4, size_t most_files = 256);

/// This project's planner with the policy `overlap`; with Cuts::kCapped as in Lance, where the rows
/// of a fragment are a hard cap.
std::unique_ptr<MaintenancePolicy> Overlap(double theta, Cuts cuts);

}  // namespace thalweg::layout_benchmark
