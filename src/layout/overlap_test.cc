// The policy `overlap` against real rows: every sort that a plan asks for is carried out on the
// rows themselves, by an independent k-d split, and figures are counted from their bounds.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "layout/depth.h"
#include "layout/planner.h"
#include "layout/quantiles.h"
#include "layout/test_util_internal.h"

namespace thalweg {
namespace {

using testing::HasSubstr;

constexpr int64_t kBytesPerRow = 100;
constexpr size_t kRowsPerFile = 32;
constexpr int64_t kNull = INT64_MAX;

using Row = std::array<int64_t, 2>;

struct File {
  std::vector<Row> rows;
  std::string run;  // "": unclustered
  bool statistics = true;
  int rewrite_class = 0;
};

/// A growing table that is maintained by the policy.
class Grower {
 public:
  explicit Grower(double theta = 0.42) {
    spec.columns = {{"k0", 1}, {"k1", 2}};
    spec.policy = Policy::kOverlap;
    spec.theta = theta;
    options.target_file_bytes = static_cast<int64_t>(kRowsPerFile) * kBytesPerRow;
  }

  void Append(std::vector<Row> rows, bool statistics = true) {
    for (size_t from = 0; from < rows.size(); from += kRowsPerFile) {
      const size_t to = std::min(rows.size(), from + kRowsPerFile);
      files.push_back(
          {{rows.begin() + static_cast<int64_t>(from), rows.begin() + static_cast<int64_t>(to)},
           "",
           statistics});
    }
  }

  Layout Describe() const {
    Layout layout = LayoutOf({kIntKey, kIntKey});
    std::map<std::string, Cube> cubes;
    for (const File& file : files) {
      std::vector<UnitColumn> columns;
      for (int k = 0; k < 2; ++k) {
        UnitColumn column;
        const bool told = file.statistics && untold_key != k;
        column.usable = told;
        column.null_count = 0;
        int64_t low = INT64_MAX, high = INT64_MIN;
        for (const Row& row : file.rows) {
          if (row[k] == kNull) {
            ++column.null_count;
            continue;
          }
          low = std::min(low, row[k]);
          high = std::max(high, row[k]);
        }
        if (low <= high && told) {
          column.lower = EncodedInt(low);
          column.upper = EncodedInt(high);
        }
        columns.push_back(std::move(column));
      }
      AddUnit(&layout, static_cast<int64_t>(file.rows.size()), std::move(columns),
              static_cast<int64_t>(file.rows.size()) * kBytesPerRow);
      layout.units.back().rewrite_class = file.rewrite_class;
      if (file.run.empty()) continue;
      layout.units.back().stamp =
          Stamp{file.run, fmt::format("{}-c", file.run), spec.SpecId(), {1, 2}};
      Cube& cube = cubes[file.run];
      cube.cube_id = fmt::format("{}-c", file.run);
      cube.run_id = file.run;
      cube.spec_id = spec.SpecId();
      cube.field_ids = {1, 2};
      cube.units.push_back(static_cast<int>(layout.units.size() - 1));
    }
    for (auto& [id, cube] : cubes) layout.cubes.push_back(std::move(cube));
    for (const RunRecord& run : runs) {
      if (cubes.contains(run.run_id)) layout.runs.push_back(run);
    }
    return layout;
  }

  Plan Plans() const {
    auto plan = MakePlan(Describe(), spec, options);
    EXPECT_TRUE(plan.ok()) << plan.status();
    return std::move(plan).ValueOr(Plan{});
  }

  /// Carries a plan out; every unit is in one selection at most.
  void Execute(const Plan& plan) {
    const std::string run = fmt::format("run{:05}", next_run_++);
    std::vector<char> gone(files.size(), 0);
    std::vector<File> sorted;
    for (const Selection& selection : plan.selections) {
      std::vector<Row> rows;
      std::set<int> classes;
      for (int unit : selection.units) {
        ASSERT_FALSE(gone[unit]) << "a unit in two selections";
        gone[unit] = 1;
        classes.insert(files[unit].rewrite_class);
        rows.insert(rows.end(), files[unit].rows.begin(), files[unit].rows.end());
      }
      ASSERT_EQ(classes.size(), 1u);
      ASSERT_EQ(selection.rows, static_cast<int64_t>(rows.size()));
      for (File& file : SortRows(std::move(rows), run)) {
        file.rewrite_class = *classes.begin();
        sorted.push_back(std::move(file));
      }
    }
    std::vector<File> kept;
    for (size_t i = 0; i < files.size(); ++i) {
      if (!gone[i]) kept.push_back(std::move(files[i]));
    }
    for (File& file : sorted) kept.push_back(std::move(file));
    files = std::move(kept);
    RunRecord record = RecordRun(run);
    RecordOf(plan).AddTo(&record);
    runs.push_back(record);
    runs.back().achieved_depth = MeasureLayout(Describe()).depth;
  }

  /// A clustered append: one run that is not of this policy.
  void AppendSorted(std::vector<Row> rows) {
    const std::string run = fmt::format("run{:05}", next_run_++);
    for (File& file : SortRows(std::move(rows), run)) files.push_back(std::move(file));
    runs.push_back(RecordRun(run));
  }

  /// Runs until there is nothing to do, and how many it took.
  int Settle(int most = 8) {
    int count = 0;
    for (; count < most; ++count) {
      const Plan plan = Plans();
      if (plan.selections.empty()) break;
      Execute(plan);
      if (testing::Test::HasFatalFailure()) break;
    }
    return count;
  }

  static std::vector<File> SortRows(std::vector<Row> rows, const std::string& run) {
    std::vector<File> sorted;
    const size_t count = std::max<size_t>(1, (rows.size() + kRowsPerFile / 2) / kRowsPerFile);
    KdSplit(rows.begin(), rows.end(), count, 0, run, &sorted);
    return sorted;
  }

  std::multiset<Row> Rows() const {
    std::multiset<Row> all;
    for (const File& file : files) all.insert(file.rows.begin(), file.rows.end());
    return all;
  }

  ClusteringSpec spec;
  PlanOptions options;
  std::vector<File> files;
  std::vector<RunRecord> runs;
  int untold_key = -1;  ///< no file has statistics of it, whoever wrote it

 private:
  using Iterator = std::vector<Row>::iterator;
  static void KdSplit(Iterator begin, Iterator end, size_t count, int key, const std::string& run,
                      std::vector<File>* out) {
    if (begin == end) return;
    if (count <= 1) {
      out->push_back({{begin, end}, run});
      return;
    }
    // Alternately by either key, the other one where all are equal.
    auto spread = [&](int k) {
      const auto [low, high] =
          std::minmax_element(begin, end, [k](const Row& a, const Row& b) { return a[k] < b[k]; });
      return (*low)[k] < (*high)[k];
    };
    if (!spread(key)) key = 1 - key;
    const size_t left = count / 2;
    const auto middle =
        begin + static_cast<int64_t>(static_cast<size_t>(end - begin) * left / count);
    std::nth_element(begin, middle, end,
                     [key](const Row& a, const Row& b) { return a[key] < b[key]; });
    KdSplit(begin, middle, left, 1 - key, run, out);
    KdSplit(middle, end, count - left, 1 - key, run, out);
  }

  RunRecord RecordRun(const std::string& run) const {
    RunRecord record;
    record.run_id = run;
    record.spec_id = spec.SpecId();
    for (int k = 0; k < 2; ++k) {
      std::vector<std::string> values;
      for (const File& file : files) {
        if (file.run != run) continue;
        for (const Row& row : file.rows) {
          if (row[k] != kNull) values.push_back(EncodedInt(row[k]));
        }
      }
      std::sort(values.begin(), values.end());
      auto model = ColumnModel::Make(kIntKey, std::move(values));
      EXPECT_TRUE(model.ok());
      record.quantiles.push_back(QuantilesOf(*model, k + 1, 0));
    }
    return record;
  }

  int next_run_ = 0;
};

using Draw = std::function<int64_t(std::mt19937_64&)>;

Draw Even(int64_t values = 1'000'000) {
  return [values](std::mt19937_64& random) { return static_cast<int64_t>(random() % values); };
}
Draw Always(int64_t value) {
  return [value](std::mt19937_64&) { return value; };
}
Draw Hot() {
  return [](std::mt19937_64& random) {
    return random() % 10 < 6 ? int64_t{500'000} : static_cast<int64_t>(random() % 1'000'000);
  };
}

std::vector<Row> Draws(const Draw& a, const Draw& b, size_t rows, std::mt19937_64* random) {
  std::vector<Row> all(rows);
  for (Row& row : all) row = {a(*random), b(*random)};
  return all;
}

TEST(Overlap, EndsOnAdversarialTablesWithoutLosingARow) {
  const std::map<std::string, std::pair<Draw, Draw>> tables = {
      {"even", {Even(), Even()}},
      {"equal keys", {Always(7), Always(7)}},
      {"one hot value", {Even(), Hot()}},
      {"two hot values", {Hot(), Hot()}},
      {"all null", {Always(kNull), Always(kNull)}},
      {"one key null", {Even(), Always(kNull)}},
      {"boolean", {Even(), Even(2)}},
      {"two booleans", {Even(2), Even(2)}},
      {"constant", {Even(), Always(3)}},
  };
  for (const auto& [name, keys] : tables) {
    for (const bool clustered : {false, true}) {
      SCOPED_TRACE(name);
      std::mt19937_64 random(11);
      Grower table;
      std::multiset<Row> expected;
      for (int append = 0; append < 12; ++append) {
        // Appends of very unequal size; some files tell nothing.
        const size_t files = 1 + random() % (append % 3 == 0 ? 24 : 3);
        const auto rows = Draws(keys.first, keys.second, files * kRowsPerFile, &random);
        expected.insert(rows.begin(), rows.end());
        if (clustered && append % 2 == 0) {
          table.AppendSorted(rows);
        } else {
          table.Append(rows, /*statistics=*/append % 5 != 4);
        }
        EXPECT_LE(table.Settle(), 3);
      }
      EXPECT_TRUE(table.Plans().selections.empty());
      EXPECT_EQ(table.Rows(), expected);
    }
  }
}

TEST(Overlap, StaleModelsAndMissingStatisticsNeverMakeItLoop) {
  std::mt19937_64 random(5);
  Grower table;
  for (int append = 0; append < 16; ++append) {
    table.Append(Draws(Even(1000 * (append + 1)), Even(), 8 * kRowsPerFile, &random),
                 append % 3 != 2);
    EXPECT_LE(table.Settle(), 3);
    for (RunRecord& run : table.runs) {  // as if the runs had seen other values
      if (random() % 4 == 0) run.quantiles.clear();
    }
  }
}

// A sort that could not narrow a key down will not the next time: what it wrote gives no gain
// there.
TEST(Overlap, AKeyWithoutStatisticsDoesNotSortTheTableAnewAtEveryAppend) {
  constexpr size_t kBase = 64 * kRowsPerFile, kAppend = 3 * kRowsPerFile;
  std::map<int, double> written;  // by the key without statistics: rows for each row appended
  for (int untold : {-1, 0, 1}) {
    std::mt19937_64 random(8);
    Grower table;
    table.untold_key = untold;
    table.Append(Draws(Even(), Even(), kBase, &random));
    EXPECT_EQ(table.Settle(), 1);
    int64_t rows = 0;
    for (int append = 0; append < 12; ++append) {
      table.Append(Draws(Even(), Even(), kAppend, &random));
      const Plan plan = table.Plans();
      rows += plan.rows;
      table.Execute(plan);
      EXPECT_LE(table.Settle(), 2);
    }
    written[untold] = static_cast<double>(rows) / (12.0 * kAppend);
    // The files that a query on it opens are all there are, after a sort as before.
    const Plan last = table.Plans();
    EXPECT_TRUE(last.selections.empty());
    if (untold >= 0) {
      EXPECT_EQ(last.keys[untold].after, static_cast<double>(table.files.size()));
    }
  }
  EXPECT_LE(written[0], written[-1] + 1);
  EXPECT_LE(written[1], written[-1] + 1);
}

TEST(Overlap, PredictionsCountAKeyWithoutStatisticsAsOpeningEveryFile) {
  std::mt19937_64 random(9);
  Grower table;
  table.untold_key = 0;
  table.Append(Draws(Even(), Even(), 40 * kRowsPerFile, &random));
  EXPECT_EQ(table.Settle(), 1);
  table.Append(Draws(Even(), Even(), 20 * kRowsPerFile, &random));
  const Plan plan = table.Plans();
  table.Execute(plan);
  EXPECT_NEAR(plan.depth_after, MeasureLayout(table.Describe()).depth, 0.05 * plan.depth_after);
}

// However small the files are to be: a plan takes memory for the files that there can be.
TEST(Overlap, FilesHoldARowAtLeast) {
  std::mt19937_64 random(10);
  Grower table;
  table.Append(Draws(Even(), Even(), 40 * kRowsPerFile, &random));
  for (const int64_t rows : {-1, 1}) {
    table.options.target_file_bytes = 1;
    table.options.target_file_rows = rows;
    const Plan plan = table.Plans();
    ASSERT_EQ(plan.selections.size(), 1u);
    EXPECT_LE(plan.predicted_boxes.size(), table.Rows().size());
    EXPECT_LE(plan.selections[0].predicted_units, static_cast<int>(table.Rows().size()));
    EXPECT_LE(plan.depth_after, static_cast<double>(table.Rows().size()));
  }
}

TEST(Overlap, ASecondRunHasNothingToDo) {
  std::mt19937_64 random(1);
  Grower table;
  for (int append = 0; append < 20; ++append) {
    table.Append(Draws(Even(), Even(), 16 * kRowsPerFile, &random));
    table.Execute(table.Plans());
    const Plan again = table.Plans();
    EXPECT_TRUE(again.selections.empty()) << "after append " << append;
    EXPECT_THAT(again.reason, HasSubstr("avoidably opened by 42 %"));
  }
}

using SortedValues = std::array<std::vector<int64_t>, 2>;

SortedValues ValuesOf(const std::vector<Row>& rows) {
  SortedValues values;
  for (int k = 0; k < 2; ++k) {
    for (const Row& row : rows) values[k].push_back(row[k]);
    std::sort(values[k].begin(), values[k].end());
  }
  return values;
}

/// The mean over the keys of the files that an equality on the value of a random row opens,
/// counted.
double Depth(const std::vector<const File*>& files, const SortedValues& values) {
  double sum = 0;
  for (int k = 0; k < 2; ++k) {
    for (const File* file : files) {
      const auto [low, high] =
          std::minmax_element(file->rows.begin(), file->rows.end(),
                              [k](const Row& a, const Row& b) { return a[k] < b[k]; });
      sum += static_cast<double>(std::upper_bound(values[k].begin(), values[k].end(), (*high)[k]) -
                                 std::lower_bound(values[k].begin(), values[k].end(), (*low)[k])) /
             static_cast<double>(values[k].size());
    }
  }
  return sum / 2;
}

// The promise: after convergence, where the rule looks, no more than 1/(1-theta) of what one sort
// is predicted to give. Here boxes lie anywhere, across the cells that the rule looks at, and the
// sort is a real one.
TEST(Overlap, PromiseHoldsInTenThousandRandomBoxes) {
  for (const char* workload : {"even", "drifting", "late"}) {
    std::mt19937_64 random(3);
    Grower table;
    std::vector<Row> all;
    for (int append = 0; append < 32; ++append) {
      std::vector<Row> rows = Draws(Even(), Even(), 16 * kRowsPerFile, &random);
      for (Row& row : rows) {
        if (workload == std::string("drifting")) row[0] = row[0] / 2 + append * 500'000 / 32;
        if (workload == std::string("late") && random() % 20 != 0) {
          row[0] = (row[0] + append * 1'000'000) / 32;
        }
      }
      all.insert(all.end(), rows.begin(), rows.end());
      table.Append(rows);
      table.Settle();
    }
    const SortedValues values = ValuesOf(all);
    auto rank = [&](int k, int64_t value) {
      return static_cast<double>(std::lower_bound(values[k].begin(), values[k].end(), value) -
                                 values[k].begin()) /
             static_cast<double>(values[k].size());
    };
    struct Box {
      double low[2], high[2];
    };
    std::vector<Box> boxes;
    for (const File& file : table.files) {
      Box box{};
      for (int k = 0; k < 2; ++k) {
        box.low[k] = 1;
        for (const Row& row : file.rows) {
          box.low[k] = std::min(box.low[k], rank(k, row[k]));
          box.high[k] = std::max(box.high[k], rank(k, row[k]));
        }
      }
      boxes.push_back(box);
    }
    std::vector<double> ratios;
    std::uniform_real_distribution<double> u;
    for (int i = 0; i < 10'000; ++i) {
      // A random box, and the files that are in it by their middles and no wider.
      double low[2], high[2];
      for (int k = 0; k < 2; ++k) {
        const double side = std::exp2(-3 * u(random));
        low[k] = u(random) * (1 - side);
        high[k] = low[k] + side;
      }
      std::vector<const File*> inside;
      std::vector<Row> rows;
      for (size_t f = 0; f < boxes.size(); ++f) {
        bool in = true;
        for (int k = 0; k < 2; ++k) {
          const double middle = (boxes[f].low[k] + boxes[f].high[k]) / 2;
          in &= middle >= low[k] && middle < high[k] &&
                boxes[f].high[k] - boxes[f].low[k] <= 1.3 * (high[k] - low[k]);
        }
        if (!in) continue;
        inside.push_back(&table.files[f]);
        rows.insert(rows.end(), table.files[f].rows.begin(), table.files[f].rows.end());
      }
      if (inside.size() < 8) continue;
      const auto sorted = Grower::SortRows(rows, "x");
      std::vector<const File*> perfect;
      for (const File& file : sorted) perfect.push_back(&file);
      ratios.push_back(Depth(inside, values) / Depth(perfect, values));
    }
    ASSERT_GT(ratios.size(), 500u);
    std::sort(ratios.begin(), ratios.end());
    const double mean =
        std::accumulate(ratios.begin(), ratios.end(), 0.0) / static_cast<double>(ratios.size());
    const double p90 = ratios[ratios.size() * 9 / 10];
    RecordProperty(fmt::format("{}_mean", workload), fmt::format("{:.3f}", mean));
    fmt::print("{}: {} boxes, depth over one sort: mean {:.2f}, p90 {:.2f}, most {:.2f}\n",
               workload, ratios.size(), mean, p90, ratios.back());
    const double promise = 1 / (1 - table.spec.theta);
    EXPECT_LE(mean, promise);
    EXPECT_LE(p90, promise);
    EXPECT_LE(ratios.back(), 1.25 * promise);
  }
}

TEST(Overlap, ASettledTableWaitsForNewUnitsOrALowerThreshold) {
  std::mt19937_64 random(9);
  Grower table(0.6);
  for (int append = 0; append < 4; ++append) {
    table.AppendSorted(Draws(Even(), Even(), 16 * kRowsPerFile, &random));
  }
  // Four equal runs: one sort halves what is opened, which is not six tenths.
  EXPECT_TRUE(table.Plans().selections.empty());
  table.spec.theta = 0.42;
  ASSERT_EQ(table.Plans().selections.size(), 1u);
  EXPECT_EQ(table.Plans().selections[0].units.size(), table.files.size());
  // A run of this policy that had looked here and settled at this threshold: nothing new.
  table.runs.back().theta = 0.42;
  table.runs.back().settled = true;
  EXPECT_TRUE(table.Plans().selections.empty());
  table.spec.theta = 0.3;
  EXPECT_FALSE(table.Plans().selections.empty());
  table.spec.theta = 0.42;
  table.runs.back().settled = false;  // a budget had stopped it
  EXPECT_FALSE(table.Plans().selections.empty());
  table.runs.back().settled = true;
  table.AppendSorted(Draws(Even(), Even(), 16 * kRowsPerFile, &random));
  EXPECT_FALSE(table.Plans().selections.empty());
}

TEST(Overlap, ARegionThatGainedTooLittleIsBarredUntilItHasGrown) {
  std::mt19937_64 random(9);
  Grower table;
  table.AppendSorted(Draws(Even(), Even(), 16 * kRowsPerFile, &random));
  for (int append = 0; append < 11; ++append) {
    table.AppendSorted(Draws(Even(), Even(), kRowsPerFile, &random));
  }
  auto takes_the_first_run = [&] {
    const Plan plan = table.Plans();
    EXPECT_FALSE(plan.selections.empty());  // the eleven small runs by themselves, if nothing else
    return !plan.selections.empty() && plan.selections[0].units.front() < 16;
  };
  RunRecord& first = table.runs.front();
  first.depth_before = 20;
  first.predicted_depth = 4;
  first.achieved_depth = 4;
  EXPECT_TRUE(takes_the_first_run());
  first.achieved_depth = 18;  // an eighth of the gain
  EXPECT_FALSE(takes_the_first_run());
  // 27 files are less than 1/(1-0.42) of the 16, 27.6; 28 are more.
  table.AppendSorted(Draws(Even(), Even(), kRowsPerFile, &random));
  EXPECT_TRUE(takes_the_first_run());
}

TEST(Overlap, BudgetsAreHardAndBoundedRunsConverge) {
  std::mt19937_64 random(4);
  Grower table;
  for (int append = 0; append < 24; ++append) {
    table.AppendSorted(Draws(Even(), Even(), 8 * kRowsPerFile, &random));
  }
  Grower free = table;
  free.Settle();
  const double settled = MeasureLayout(free.Describe()).depth;
  const double before = MeasureLayout(table.Describe()).depth;
  table.options.budgets.max_units = 48;
  int runs = 0;
  for (; runs < 40; ++runs) {
    const Plan plan = table.Plans();
    if (plan.selections.empty()) break;
    EXPECT_LE(plan.units_selected, 48);
    table.Execute(plan);
  }
  EXPECT_LT(runs, 40);
  const double bounded = MeasureLayout(table.Describe()).depth;
  EXPECT_LT(settled, before / 2);
  EXPECT_LT(bounded, settled * 1 / (1 - table.spec.theta));

  table.Append(Draws(Even(), Even(), 8 * kRowsPerFile, &random));
  table.options.budgets = {};
  table.options.budgets.max_bytes = 1;
  const Plan none = table.Plans();
  EXPECT_TRUE(none.selections.empty());
  EXPECT_THAT(none.reason, HasSubstr("--max-source-bytes is 1 B: raise it"));
}

/// Runs within a budget of so many files until there is nothing to do.
int SettleInBudget(Grower* table, int64_t files) {
  table->options.budgets.max_units = files;
  int runs = 0;
  for (; runs < 100; ++runs) {
    const Plan plan = table->Plans();
    if (plan.selections.empty()) break;
    EXPECT_LE(plan.units_selected, files);
    table->Execute(plan);
    if (testing::Test::HasFatalFailure()) break;
  }
  return runs;
}

TEST(Overlap, BoundedRunsOverAnUnclusteredTableConverge) {
  for (const int files : {240, 640}) {
    std::mt19937_64 random(12);
    Grower table;
    table.Append(Draws(Even(), Even(), files * kRowsPerFile, &random));
    Grower full = table;
    full.Settle();
    const double sorted = MeasureLayout(full.Describe()).depth;
    const int runs = SettleInBudget(&table, files / 10);
    const double bounded = MeasureLayout(table.Describe()).depth;
    fmt::print("{} runs of {} files: depth {:.1f}, one sort {:.1f}\n", runs, files / 10, bounded,
               sorted);
    EXPECT_LE(runs, 40);
    EXPECT_LE(bounded, 1.25 * sorted);
  }
}

TEST(Overlap, BoundedRunsEndOnAdversarialTables) {
  const std::map<std::string, std::pair<Draw, Draw>> tables = {
      {"equal keys", {Always(7), Always(7)}},    {"two hot values", {Hot(), Hot()}},
      {"one key null", {Even(), Always(kNull)}}, {"boolean", {Even(), Even(2)}},
      {"two booleans", {Even(2), Even(2)}},      {"few values", {Even(5), Even(12)}},
  };
  for (const auto& [name, keys] : tables) {
    SCOPED_TRACE(name);
    std::mt19937_64 random(2);
    Grower table;
    for (int append = 0; append < 8; ++append) {
      // Files of very unequal size, some without statistics.
      table.Append(Draws(keys.first, keys.second, 12 * kRowsPerFile, &random), append != 3);
      table.files.back().rows.resize(1 + random() % kRowsPerFile);
    }
    const auto expected = table.Rows();
    EXPECT_LE(SettleInBudget(&table, 10), 60);
    EXPECT_EQ(table.Rows(), expected);
    // Runs that achieve nothing of what was predicted are left alone in the end.
    for (RunRecord& run : table.runs) run.achieved_depth = run.depth_before;
    EXPECT_LE(SettleInBudget(&table, 10), 20);
  }
}

TEST(Overlap, OnlyWithoutNewRowsIsALowerThresholdUsedToFinish) {
  std::mt19937_64 random(7);
  Grower table;
  for (int append = 0; append < 2; ++append) {
    table.AppendSorted(Draws(Even(), Even(), 16 * kRowsPerFile, &random));
  }
  // One sort of two equal runs cuts 29 %: too little, except to finish what a budget cut short.
  table.options.budgets.max_units = 40;
  EXPECT_TRUE(table.Plans().selections.empty());
  table.runs.back().theta = 0.42;
  EXPECT_GT(table.Plans().units_selected, 16);
  Grower with_new = table;
  with_new.Append(Draws(Even(), Even(), kRowsPerFile, &random));
  EXPECT_EQ(with_new.Plans().units_selected, 1);
  with_new = table;
  with_new.AppendSorted(Draws(Even(), Even(), kRowsPerFile, &random));
  EXPECT_TRUE(with_new.Plans().selections.empty());
  with_new = table;
  with_new.options.budgets = {};
  EXPECT_TRUE(with_new.Plans().selections.empty());
  // A run that achieved nothing is not touched again to finish.
  table.runs.back().depth_before = table.runs.back().achieved_depth = 8;
  table.runs.back().predicted_depth = 4;
  EXPECT_TRUE(table.Plans().selections.empty());
}

TEST(Overlap, ClassesAreSortedApartAndOtherColumnsAreLeft) {
  std::mt19937_64 random(6);
  Grower table;
  for (int append = 0; append < 8; ++append) {
    table.Append(Draws(Even(), Even(), 4 * kRowsPerFile, &random));
    for (size_t i = table.files.size() - 4; i < table.files.size(); ++i) {
      table.files[i].rewrite_class = append % 2;
    }
  }
  Layout layout = table.Describe();
  auto plan = MakePlan(layout, table.spec, table.options);
  ASSERT_TRUE(plan.ok());
  ASSERT_EQ(plan->selections.size(), 2u);
  EXPECT_EQ(plan->selections[0].units.size() + plan->selections[1].units.size(), 32u);
  table.Execute(*plan);

  table.Append(Draws(Even(), Even(), 4 * kRowsPerFile, &random));
  layout = table.Describe();
  for (Unit& unit : layout.units) {
    if (unit.stamp) unit.stamp->field_ids = {1, 9};
  }
  plan = MakePlan(layout, table.spec, table.options);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->units_selected, 4);
  EXPECT_THAT(plan->notes, testing::Contains(HasSubstr("other columns")));
}

// What is predicted for correlated keys and for a narrow band of new rows, against real sorts.
TEST(Overlap, PredictionsAreWithinATenthOfWhatSortsGive) {
  for (const char* workload : {"even", "correlated", "hot", "drifting", "boolean"}) {
    std::mt19937_64 random(8);
    Grower table;
    std::vector<double> ratios;
    for (int append = 0; append < 24; ++append) {
      std::vector<Row> rows = Draws(Even(), Even(), 16 * kRowsPerFile, &random);
      for (Row& row : rows) {
        const std::string name = workload;
        if (name == "correlated") row[1] = row[0] + row[1] / 20;
        if (name == "hot" && random() % 10 < 6) row[1] = 500'000;
        if (name == "drifting") row[0] = row[0] / 2 + append * 20'000;
        if (name == "boolean") row[1] = row[1] % 2;
      }
      table.AppendSorted(rows);
      const Plan plan = table.Plans();
      if (plan.selections.empty()) continue;
      table.Execute(plan);
      if (table.runs.size() < 4) continue;  // the first ones make the correction
      ratios.push_back(table.runs.back().achieved_depth / plan.depth_after);
    }
    ASSERT_FALSE(ratios.empty()) << workload;
    std::sort(ratios.begin(), ratios.end());
    EXPECT_NEAR(ratios[ratios.size() / 2], 1, 0.1) << workload;
    EXPECT_GT(ratios.front(), 0.7) << workload;
    EXPECT_LT(ratios.back(), 1.3) << workload;
  }
}

TEST(TileSort, GridsOfEvenRowsAreExact) {
  Layout layout = LayoutOf({kIntKey, kIntKey});
  AddUnit(&layout, 1000, {IntBounds(0, 999'999), IntBounds(0, 999'999)});
  std::vector<KeyDistribution> keys = {KeyDistribution::Make(layout, 0),
                                       KeyDistribution::Make(layout, 1)};
  RankBoxOf whole;
  for (int k = 0; k < 2; ++k) {
    whole.upto[k] = 1;
    whole.holds[k] = true;
  }
  const auto boxes = TileSort({{whole, 1.0}}, 64, keys);
  ASSERT_EQ(boxes.size(), 64u);
  double sum = 0;
  for (const RankBoxOf& box : boxes) {
    for (int k = 0; k < 2; ++k) EXPECT_NEAR(box.width(k), 1.0 / 8, 1e-5);
    sum += box.MeanWidth(2);
  }
  EXPECT_NEAR(sum, 8, 1e-3);
}

TEST(TileSort, ValuesAreNotCut) {
  Layout layout = LayoutOf({kIntKey, kBoolKey});
  AddUnit(&layout, 1000, {IntBounds(0, 999'999), Bounds(EncodedBool(false), EncodedBool(true))});
  std::vector<KeyDistribution> keys = {KeyDistribution::Make(layout, 0),
                                       KeyDistribution::Make(layout, 1)};
  RankBoxOf whole;
  for (int k = 0; k < 2; ++k) {
    whole.upto[k] = 1;
    whole.holds[k] = true;
  }
  // Sixteen units: each is of one of the two values, and an eighth of the other key.
  for (const RankBoxOf& box : TileSort({{whole, 1.0}}, 16, keys)) {
    EXPECT_NEAR(box.width(1), 0.5, 1e-9);
    EXPECT_NEAR(box.width(0), 1.0 / 8, 1e-5);
  }
}

}  // namespace
}  // namespace thalweg
