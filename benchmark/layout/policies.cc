#include "policies.h"

#include <algorithm>
#include <map>
#include <set>

namespace thalweg::layout_benchmark {
namespace {

class FullSortPolicy : public MaintenancePolicy {
 public:
  explicit FullSortPolicy(Cuts cuts) : cuts_(cuts) {}
  void Maintain(Table* table) override {
    std::vector<int> all;
    for (size_t i = 0; i < table->files.size(); ++i) all.push_back(static_cast<int>(i));
    table->Rewrite(all, cuts_);
  }

 private:
  Cuts cuts_;
};

class SizePolicy : public MaintenancePolicy {
 public:
  SizePolicy(double minimum, Cuts cuts) : minimum_(minimum), cuts_(cuts) {}
  void Maintain(Table* table) override {
    std::map<int, double> sizes;
    for (const File& file : table->files) {
      if (file.cube >= 0) sizes[file.cube] += static_cast<double>(file.rows.size()) / kRowsPerFile;
    }
    std::vector<int> selected;
    for (size_t i = 0; i < table->files.size(); ++i) {
      const int cube = table->files[i].cube;
      if (cube < 0 || sizes[cube] < minimum_) selected.push_back(static_cast<int>(i));
    }
    if (!selected.empty()) table->Rewrite(selected, cuts_, next_cube_++);
  }

 private:
  double minimum_;
  Cuts cuts_;
  int next_cube_ = 0;
};

class DepthSweepPolicy : public MaintenancePolicy {
 public:
  DepthSweepPolicy(double threshold, size_t most) : threshold_(threshold), most_(most) {}

  void Maintain(Table* table) override {
    for (int level = 0; level < 64; ++level) {
      // One pass a level and append, as the published command does a limited number of tasks.
      std::vector<int> chosen = Deepest(*table, level);
      if (chosen.size() < 2) continue;
      std::vector<char> gone(table->files.size(), 0);
      std::vector<Row> rows;
      for (int i : chosen) {
        gone[i] = 1;
        rows.insert(rows.end(), table->files[i].rows.begin(), table->files[i].rows.end());
      }
      table->rows_written += static_cast<int64_t>(rows.size());
      std::vector<File> files;
      for (size_t i = 0; i < gone.size(); ++i) {
        if (!gone[i]) files.push_back(std::move(table->files[i]));
      }
      for (File& file : SortByTuple(std::move(rows), table->keys, table->next_run)) {
        file.level = level + 1;
        files.push_back(std::move(file));
      }
      ++table->next_run;
      table->files = std::move(files);
    }
  }

 private:
  using Tuple = Row;
  static Tuple End(const File& file, int keys, bool last) {
    auto less = [keys](const Row& a, const Row& b) {
      return std::lexicographical_compare(a.begin(), a.begin() + keys, b.begin(), b.begin() + keys);
    };
    return last ? *std::max_element(file.rows.begin(), file.rows.end(), less)
                : *std::min_element(file.rows.begin(), file.rows.end(), less);
  }

  /// The files over the deepest place of a level; none where the mean depth is low enough.
  std::vector<int> Deepest(const Table& table, int level) const {
    struct Point {
      Tuple at;
      bool end;
      int file;
    };
    std::vector<Point> points;
    for (size_t i = 0; i < table.files.size(); ++i) {
      if (table.files[i].level != level) continue;
      points.push_back({End(table.files[i], table.keys, false), false, static_cast<int>(i)});
      points.push_back({End(table.files[i], table.keys, true), true, static_cast<int>(i)});
    }
    if (points.size() < 4) return {};
    std::sort(points.begin(), points.end(), [&](const Point& a, const Point& b) {
      const auto order = std::lexicographical_compare_three_way(
          a.at.begin(), a.at.begin() + table.keys, b.at.begin(), b.at.begin() + table.keys);
      if (order != 0) return order < 0;
      return a.end < b.end;
    });
    std::set<int> open, deepest;
    double sum = 0;
    for (const Point& point : points) {
      if (!point.end) open.insert(point.file);
      sum += static_cast<double>(open.size());
      if (open.size() > deepest.size()) deepest = open;
      if (point.end) open.erase(point.file);
    }
    if (sum / static_cast<double>(points.size()) <= threshold_) return {};
    std::vector<int> chosen(deepest.begin(), deepest.end());
    if (chosen.size() > most_) chosen.resize(most_);
    return chosen;
  }

  double threshold_;
  size_t most_;
};

}  // namespace

void Table::Rewrite(const std::vector<int>& chosen, Cuts cuts, int cube) {
  std::vector<char> gone(files.size(), 0);
  std::vector<Row> rows;
  for (int i : chosen) {
    gone[i] = 1;
    rows.insert(rows.end(), files[i].rows.begin(), files[i].rows.end());
  }
  rows_written += static_cast<int64_t>(rows.size());
  std::vector<File> kept;
  for (size_t i = 0; i < files.size(); ++i) {
    if (!gone[i]) kept.push_back(std::move(files[i]));
  }
  files = std::move(kept);
  for (File& file : Sort(std::move(rows), keys, cuts, next_run)) {
    file.cube = cube;
    files.push_back(std::move(file));
  }
  ++next_run;
}

std::unique_ptr<MaintenancePolicy> FullSort(Cuts cuts) {
  return std::make_unique<FullSortPolicy>(cuts);
}

std::unique_ptr<MaintenancePolicy> SizeSealedCubes(double minimum_files, Cuts cuts) {
  return std::make_unique<SizePolicy>(minimum_files, cuts);
}

std::unique_ptr<MaintenancePolicy> DepthSweep(double threshold, size_t most_files) {
  return std::make_unique<DepthSweepPolicy>(threshold, most_files);
}

}  // namespace thalweg::layout_benchmark
