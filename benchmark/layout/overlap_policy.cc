// The planner itself, given what a table format would tell it of the files: bounds, stamps and what
// each run recorded.

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>

#include "key/encoded_value.h"
#include "layout/depth.h"
#include "layout/planner.h"
#include "layout/quantiles.h"
#include "policies.h"

namespace thalweg::layout_benchmark {
namespace {

template <typename Value>
Value OrDie(arrow::Result<Value> result) {
  if (result.ok()) return std::move(result).ValueUnsafe();
  std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
  std::exit(1);
}

constexpr KeyType kKey{KeyType::Kind::kSigned, 32};
constexpr int64_t kBytesPerRow = 100;

std::string Encode(int32_t value) {
  return OrDie(
      EncodePlain(kKey, std::string_view(reinterpret_cast<const char*>(&value), sizeof(value))));
}

class OverlapPolicy : public MaintenancePolicy {
 public:
  OverlapPolicy(double theta, Cuts cuts) : theta_(theta), cuts_(cuts) {}

  void Maintain(Table* table) override {
    // Runs that Maintain did not make are clustered appends.
    for (const File& file : table->files) {
      if (file.run >= 0 && !records_.contains(file.run)) {
        records_[file.run] = Record(table->files, file.run, table->keys);
      }
    }
    Layout layout = Describe(*table);
    ClusteringSpec spec;
    spec.columns = layout.columns;
    spec.policy = Policy::kOverlap;
    spec.theta = theta_;
    PlanOptions options;
    options.target_file_bytes = kRowsPerFile * kBytesPerRow;
    if (cuts_ == Cuts::kCapped) options.target_file_rows = kRowsPerFile;
    const Plan plan = OrDie(MakePlan(layout, spec, options));
    if (plan.selections.empty()) return;
    // Positions stay valid while the selections are sorted: the sources go last.
    std::vector<char> gone(table->files.size(), 0);
    std::vector<File> added;
    const int run = table->next_run++;
    for (const Selection& selection : plan.selections) {
      std::vector<Row> rows;
      for (int unit : selection.units) {
        if (gone[unit]) {
          std::fprintf(stderr, "a unit is in two selections\n");
          std::exit(1);
        }
        gone[unit] = 1;
        const auto& of = table->files[unit].rows;
        rows.insert(rows.end(), of.begin(), of.end());
      }
      table->rows_written += static_cast<int64_t>(rows.size());
      for (File& file : Sort(std::move(rows), table->keys, cuts_, run)) {
        added.push_back(std::move(file));
      }
    }
    std::vector<File> files;
    for (size_t i = 0; i < gone.size(); ++i) {
      if (!gone[i]) files.push_back(std::move(table->files[i]));
    }
    for (File& file : added) files.push_back(std::move(file));
    table->files = std::move(files);
    records_[run] = Record(table->files, run, table->keys);
    RunRecord& record = records_[run];
    RecordOf(plan).AddTo(&record);
    record.achieved_depth = MeasureLayout(Describe(*table)).depth;
  }

 private:
  static RunRecord Record(const std::vector<File>& files, int run, int keys) {
    RunRecord record;
    record.run_id = fmt::format("run-{:06}", run);
    for (int k = 0; k < keys; ++k) {
      std::vector<int32_t> values;
      for (const File& file : files) {
        if (file.run != run) continue;
        for (const Row& row : file.rows) values.push_back(row[k]);
      }
      std::sort(values.begin(), values.end());
      record.rows = static_cast<int64_t>(values.size());
      // A sample like that of a sort, and small.
      constexpr size_t kSample = 4096;
      std::vector<std::string> sample;
      const size_t size = std::min(values.size(), kSample);
      for (size_t i = 0; i < size; ++i) sample.push_back(Encode(values[i * values.size() / size]));
      const ColumnModel model = OrDie(ColumnModel::Make(kKey, std::move(sample)));
      record.quantiles.push_back(QuantilesOf(model, k + 1, 0));
    }
    return record;
  }

  Layout Describe(const Table& table) {
    Layout layout;
    std::vector<int32_t> ids;
    for (int k = 0; k < table.keys; ++k) {
      layout.columns.push_back({fmt::format("key{}", k), k + 1});
      layout.types.push_back(kKey);
      ids.push_back(k + 1);
    }
    std::set<int> live;
    for (size_t i = 0; i < table.files.size(); ++i) {
      const File& file = table.files[i];
      Unit unit;
      unit.id = fmt::format("{:08}", i);
      unit.rows = static_cast<int64_t>(file.rows.size());
      unit.bytes = unit.rows * kBytesPerRow;
      for (int k = 0; k < table.keys; ++k) {
        UnitColumn column;
        column.lower = Encode(file.low[k]);
        column.upper = Encode(file.high[k]);
        column.null_count = 0;
        unit.columns.push_back(std::move(column));
      }
      if (file.run >= 0) {
        live.insert(file.run);
        unit.stamp = Stamp{fmt::format("run-{:06}", file.run), {}, {}, ids};
      }
      layout.units.push_back(std::move(unit));
    }
    for (int run : live) layout.runs.push_back(records_[run]);
    std::erase_if(records_, [&](const auto& record) { return !live.contains(record.first); });
    return layout;
  }

  double theta_;
  Cuts cuts_;
  std::map<int, RunRecord> records_;
};

}  // namespace

std::unique_ptr<MaintenancePolicy> Overlap(double theta, Cuts cuts) {
  return std::make_unique<OverlapPolicy>(theta, cuts);
}

}  // namespace thalweg::layout_benchmark
