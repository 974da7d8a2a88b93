#include "table.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "curve/curve.h"
#include "sort/curve_profile.h"
#include "sort/cut_planner.h"
#include "sort/key_sort.h"

namespace thalweg::layout_benchmark {
namespace {

constexpr int kBits = 16;

void SetBox(File* file, int keys) {
  file->low = file->high = file->rows.front();
  for (const Row& row : file->rows) {
    for (int k = 0; k < keys; ++k) {
      file->low[k] = std::min(file->low[k], row[k]);
      file->high[k] = std::max(file->high[k], row[k]);
    }
  }
}

/// Curve keys of 16 bits for each key column: the share of rows below, as typed-quantile-rank-v1
/// has it when every row is sampled.
std::vector<uint64_t> KeysOf(const std::vector<Row>& rows, int keys) {
  const size_t n = rows.size();
  std::vector<std::vector<uint32_t>> coordinates(keys, std::vector<uint32_t>(n));
  std::vector<KeyRow64> order(n);
  for (int k = 0; k < keys; ++k) {
    for (size_t i = 0; i < n; ++i) order[i] = {i, static_cast<uint64_t>(rows[i][k])};
    SortKeyRows(order.data(), static_cast<int64_t>(n));
    for (size_t i = 0; i < n;) {
      size_t j = i;
      while (j < n && order[j].key == order[i].key) ++j;
      const auto coordinate = static_cast<uint32_t>((i << kBits) / n);
      for (; i < j; ++i) coordinates[k][order[i].row] = coordinate;
    }
  }
  const uint32_t* pointers[kMostKeys];
  for (int k = 0; k < keys; ++k) pointers[k] = coordinates[k].data();
  std::vector<uint64_t> curve(n);
  CurveKeys(Curve::kHilbert, pointers, keys, kBits, static_cast<int64_t>(n), curve.data());
  return curve;
}

std::vector<int64_t> CutsOf(const std::vector<uint64_t>& sorted, int keys, Cuts cuts) {
  const auto n = static_cast<int64_t>(sorted.size());
  std::vector<int64_t> ends;
  if (cuts == Cuts::kEqual) {
    const int64_t files = std::max<int64_t>(1, std::llround(static_cast<double>(n) / kRowsPerFile));
    for (int64_t i = 1; i < files; ++i) ends.push_back(n * i / files);
    return ends;
  }
  constexpr int64_t kMostSampled = 65536;
  std::vector<Key128> sample;
  const int64_t sampled = std::min(n, kMostSampled);
  for (int64_t i = 0; i < sampled; ++i) sample.push_back(sorted[n * i / sampled]);
  auto bins = MakeCurveBins(sample, Curve::kHilbert, kBits, keys, 0, 0);
  for (size_t b = 0, i = 0; b < bins.size(); ++b) {
    const size_t from = i;
    while (i < sorted.size() && (b + 1 == bins.size() || sorted[i] < bins[b + 1].begin)) ++i;
    bins[b].rows = bins[b].weight = static_cast<int64_t>(i - from);
  }
  const CutPlanner planner(std::move(bins), keys, CutPlanner::Unit::kRows);
  const bool capped = cuts == Cuts::kCapped;
  return planner.Cuts(0, n, FileWindow(kRowsPerFile, capped), /*may_exceed=*/!capped);
}

}  // namespace

Truth::Truth(const Workload& workload, uint64_t seed) : keys_(workload.keys) {
  std::mt19937_64 random(seed);
  const int64_t rows = kRowsPerFile * workload.files / workload.appends;
  for (int append = 0; append < workload.appends; ++append) {
    for (const Row& row : MakeAppend(workload, append, rows, &random)) {
      for (int k = 0; k < keys_; ++k) sorted_[k].push_back(row[k]);
    }
  }
  for (int k = 0; k < keys_; ++k) std::sort(sorted_[k].begin(), sorted_[k].end());
}

double Truth::Mass(int key, int32_t low, int32_t high) const {
  const auto& values = sorted_[key];
  const auto count = std::upper_bound(values.begin(), values.end(), high) -
                     std::lower_bound(values.begin(), values.end(), low);
  return static_cast<double>(count) / static_cast<double>(values.size());
}

double Truth::Touched(const std::vector<File>& files) const {
  double sum = 0;
  for (const File& file : files) {
    for (int k = 0; k < keys_; ++k) sum += Mass(k, file.low[k], file.high[k]);
  }
  return sum / keys_;
}

std::vector<File> Sort(std::vector<Row> rows, int keys, Cuts cuts, int run) {
  const std::vector<uint64_t> curve = KeysOf(rows, keys);
  std::vector<KeyRow64> order(rows.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = {i, curve[i]};
  SortKeyRows(order.data(), static_cast<int64_t>(order.size()));
  std::vector<uint64_t> sorted(order.size());
  for (size_t i = 0; i < order.size(); ++i) sorted[i] = order[i].key;
  std::vector<int64_t> ends = CutsOf(sorted, keys, cuts);
  ends.push_back(static_cast<int64_t>(rows.size()));
  std::vector<File> files;
  int64_t at = 0;
  for (int64_t end : ends) {
    if (end <= at) continue;
    File file;
    file.run = run;
    for (; at < end; ++at) file.rows.push_back(rows[order[at].row]);
    SetBox(&file, keys);
    files.push_back(std::move(file));
  }
  return files;
}

std::vector<File> SortByTuple(std::vector<Row> rows, int keys, int run) {
  std::sort(rows.begin(), rows.end(), [keys](const Row& a, const Row& b) {
    return std::lexicographical_compare(a.begin(), a.begin() + keys, b.begin(), b.begin() + keys);
  });
  std::vector<File> files = Unsorted(rows, keys);
  for (File& file : files) file.run = run;
  return files;
}

std::vector<File> Unsorted(const std::vector<Row>& rows, int keys) {
  std::vector<File> files;
  for (size_t from = 0; from < rows.size(); from += kRowsPerFile) {
    File file;
    const size_t to = std::min(rows.size(), from + kRowsPerFile);
    file.rows.assign(rows.begin() + static_cast<int64_t>(from),
                     rows.begin() + static_cast<int64_t>(to));
    SetBox(&file, keys);
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace thalweg::layout_benchmark
