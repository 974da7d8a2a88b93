#include <gmock/gmock.h>

#include "task/execute.h"
#include "task/optimize.h"
#include "task/toy_table_test.h"

namespace thalweg {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TempFolder;
using testing::ToyRows;
using testing::ToySpec;
using testing::ToyTable;
using testing::Value;

constexpr double kDay = 86400;

class CommitResultsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 3; ++i) table_.Append(ToyRows(i * 1000, 1000, i));
    table_.Declare(ToySpec());
    before_ = table_.Rows();
    results_ = Execute({{0, 1, 2}}, 3, "run-1");
    ASSERT_EQ(results_.size(), 3u);
  }

  /// Plans the given units as selections, executes every task, and sends the results through text
  /// as processes do.
  std::vector<ResultEnvelope> Execute(const std::vector<std::vector<int>>& selections, int tasks,
                                      const std::string& run_id) {
    Plan plan;
    for (const auto& units : selections)
      plan.selections.push_back(Selection{units, 0, 0, tasks, 1, ""});
    const auto layout = Value(table_.DescribeLayout(ToySpec().columns));
    PrepareOptions prepare{run_id, 20000, -1, 10000};
    std::vector<ResultEnvelope> results;
    for (const auto& task :
         Value(PrepareTasks(table_, ToySpec(), layout, plan, prepare, options_))) {
      const auto result = Value(ExecuteTaskForCommit(table_, task, options_, kDay));
      results.push_back(Value(ResultEnvelope::FromJson(
          Value(ParseJson(DumpJson(result.ToJson()), "result")), "result")));
    }
    return results;
  }

  void ExpectRefused(const std::vector<ResultEnvelope>& results, const char* why,
                     FailureKind kind = FailureKind::kError) {
    const int snapshots = table_.snapshots();
    const auto files = table_.FilesIn("data");
    const auto status = CommitResults(table_, results, options_).status();
    ASSERT_FALSE(status.ok()) << why;
    EXPECT_THAT(status.message(), HasSubstr(why));
    EXPECT_EQ(KindOf(status), kind) << status.ToString();
    EXPECT_EQ(table_.snapshots(), snapshots);
    EXPECT_EQ(table_.FilesIn("data"), files);  // other processes' files are not ours to delete
  }

  TempFolder folder_;
  ToyTable table_{folder_.path()};
  ExecuteOptions options_;
  std::multiset<std::string> before_;
  std::vector<ResultEnvelope> results_;
};

TEST_F(CommitResultsTest, CommitsAllSlicesTogether) {
  EXPECT_EQ(table_.Intents().size(), 3u);  // kept by the executing processes
  std::swap(results_[0], results_[2]);
  const auto report = Value(CommitResults(table_, results_, options_));
  EXPECT_EQ(report.outcome, "committed");
  EXPECT_EQ(report.run_id, "run-1");
  EXPECT_EQ(report.rows, 3000);
  EXPECT_EQ(report.source_units, 3);
  EXPECT_EQ(report.output_units, static_cast<int64_t>(table_.Paths().size()));
  EXPECT_LT(report.depth_after, report.depth_before);
  EXPECT_EQ(table_.Rows(), before_);
  EXPECT_EQ(table_.snapshots(), 4);
  EXPECT_THAT(table_.Intents(), IsEmpty());
  // Again: already there.
  EXPECT_EQ(Value(CommitResults(table_, results_, options_)).outcome, "already-committed");
  EXPECT_EQ(table_.snapshots(), 4);
}

TEST_F(CommitResultsTest, SlicesHaveDisjointKeyRanges) {
  const auto fit = [&] {
    Plan plan;
    plan.selections.push_back(Selection{{0, 1, 2}, 0, 0, 1, 1, ""});
    PrepareOptions prepare{"x", 20000, -1, 10000};
    return Value(DeserializeFitted(Value(PrepareTasks(
        table_, ToySpec(), Value(table_.DescribeLayout({})), plan, prepare, {}))[0]
                                       .fitted));
  }();
  for (const auto& result : results_) {
    for (const auto& unit : result.outputs) {
      auto source = Value(table_.ReadBack(unit));
      auto rows = Value(Value(source->OpenPart(0, {1, 2}))->Next());
      std::vector<Key64> keys(rows->batch->num_rows());
      ASSERT_OK(fit.encoder.Encode({rows->batch->column(0), rows->batch->column(1)}, keys.data()));
      EXPECT_TRUE(std::is_sorted(keys.begin(), keys.end()));
      EXPECT_GE(keys.front(), result.task.key_begin);
      if (result.task.key_end) {
        EXPECT_LT(keys.back(), *result.task.key_end);
      }
    }
  }
}

TEST_F(CommitResultsTest, AppendsSinceThePlanAreFine) {
  table_.Append(ToyRows(50000, 500, 50));
  EXPECT_EQ(Value(CommitResults(table_, results_, options_)).outcome, "committed");
  EXPECT_EQ(table_.Rows().size(), 3500u);
}

TEST_F(CommitResultsTest, SourcesChangedSinceThePlanAreAConflict) {
  table_.DeleteRows(table_.Paths()[1], {3});
  ExpectRefused(results_, "is not as the task describes it", FailureKind::kConflict);
}

TEST_F(CommitResultsTest, SourcesGoneSinceThePlanAreAConflict) {
  OptimizeOptions optimize;
  Value(Optimize(table_, optimize));
  ExpectRefused(results_, "no longer live", FailureKind::kConflict);
}

TEST_F(CommitResultsTest, AnotherDeclarationIsAConflict) {
  auto spec = ToySpec();
  spec.bits_per_dim = 10;
  table_.Declare(spec);
  ExpectRefused(results_, "declared otherwise", FailureKind::kConflict);
}

TEST_F(CommitResultsTest, NothingToCommit) { ExpectRefused({}, "no results"); }

TEST_F(CommitResultsTest, MissingSlice) {
  for (int i = 0; i < 3; ++i) {
    auto some = results_;
    some.erase(some.begin() + i);
    ExpectRefused(some, "is missing");
  }
}

TEST_F(CommitResultsTest, DoubledSlice) {
  auto doubled = Execute({{0, 1, 2}}, 3, "run-1");
  doubled[1].task.selection_id = doubled[0].task.selection_id = doubled[2].task.selection_id =
      results_[0].task.selection_id;
  auto all = results_;
  all.push_back(doubled[1]);
  ExpectRefused(all, "slice 1 is there twice");
}

TEST_F(CommitResultsTest, SameResultTwice) {
  auto all = results_;
  all.push_back(all[0]);
  ExpectRefused(all, "is there twice");
}

TEST_F(CommitResultsTest, SlicesOfAnotherPlan) {
  results_[1].task.fitted_hash = std::string(32, '7');
  ExpectRefused(results_, "not of one plan");
}

TEST_F(CommitResultsTest, KeyRangesWithAGap) {
  results_[1].task.key_begin += 1;
  ExpectRefused(results_, "does not meet its neighbours'");
}

TEST_F(CommitResultsTest, TamperedDescriptor) {
  for (auto& result : results_) result.task.sources[1].json["bytes"] = 1;
  ExpectRefused(results_, "is not as the task describes it");
}

TEST_F(CommitResultsTest, UnknownSource) {
  for (auto& result : results_) result.task.sources[1].id = "elsewhere";
  ExpectRefused(results_, "no live unit elsewhere");
}

TEST_F(CommitResultsTest, MixedRunsSnapshotsSpecsAndSchemas) {
  const auto mixed = [&](auto change, const char* why) {
    auto some = results_;
    change(some[2].task);
    ExpectRefused(some, why);
  };
  mixed([](TaskEnvelope& task) { task.run_id = "other"; }, "different runs");
  mixed([](TaskEnvelope& task) { task.snapshot_id = "1"; }, "different snapshots");
  mixed([](TaskEnvelope& task) { task.spec.bits_per_dim = 3; }, "different clustering specs");
  mixed([](TaskEnvelope& task) { task.schema_id = 5; }, "different schemas");
}

TEST_F(CommitResultsTest, OneSourceInTwoSelections) {
  auto both = Execute({{0, 1}, {1, 2}}, 1, "run-2");
  ExpectRefused(both, "in two selections");
}

TEST_F(CommitResultsTest, TwoSelectionsAtOnce) {
  auto both = Execute({{0, 1}, {2}}, 2, "run-2");
  const auto report = Value(CommitResults(table_, both, options_));
  EXPECT_EQ(report.rows, 3000);
  EXPECT_EQ(table_.last_rewrite->selections.size(), 2u);
  EXPECT_EQ(table_.Rows(), before_);
}

TEST_F(CommitResultsTest, EmptyTaskAndEmptyResult) {
  auto empty = results_;
  for (auto& result : empty) result.task.sources.clear();
  ExpectRefused(empty, "empty task");
  empty = results_;
  empty[0].outputs.clear();
  ExpectRefused(empty, "empty result");
}

TEST_F(CommitResultsTest, MissingOutput) {
  std::filesystem::remove(results_[0].outputs[0].id);
  ExpectRefused(results_, "is missing");
}

TEST_F(CommitResultsTest, TruncatedOutput) {
  const auto& unit = results_[2].outputs.back();
  std::filesystem::resize_file(unit.id, unit.bytes - 9);
  ExpectRefused(results_, "bytes instead of");
}

TEST_F(CommitResultsTest, RowsLeftOut) {
  // A result that lost a file together with its count: only the table's own metadata can tell.
  auto& victim = results_[1];
  ASSERT_GT(victim.outputs.size(), 1u);
  victim.rows -= victim.outputs.back().rows;
  victim.outputs.pop_back();
  ExpectRefused(results_, "live rows");
}

TEST_F(CommitResultsTest, RowsOfAnotherNumberThanTheFootersSay) {
  auto& unit = results_[1].outputs[0];
  auto& other = results_[1].outputs[1];
  ++unit.rows;
  --other.rows;
  ExpectRefused(results_, " rows");
}

TEST_F(CommitResultsTest, DigestsThatDiffer) {
  results_[1].output_digest = std::string(32, '1');
  ExpectRefused(results_, "differ from the rows read");
}

TEST_F(CommitResultsTest, DigestsThatAreMissing) {
  results_[1].input_digest = results_[1].output_digest = "";
  ExpectRefused(results_, "have no row digest");
  options_.verify = Verify::kCounts;
  ExpectRefused(results_, "have no row digest");  // some have
  for (auto& result : results_) result.input_digest = result.output_digest = "";
  options_.verify = Verify::kDigest;
  ExpectRefused(results_, "have no row digest");
  options_.verify = Verify::kCounts;
  EXPECT_EQ(Value(CommitResults(table_, results_, options_)).outcome, "committed");
}

TEST_F(CommitResultsTest, FullVerificationReadsTheFiles) {
  options_.verify = Verify::kFull;
  auto forged = results_;
  forged[0].input_digest = forged[0].output_digest = std::string(32, '2');
  ExpectRefused(forged, "read back");
  EXPECT_EQ(Value(CommitResults(table_, results_, options_)).outcome, "committed");
}

TEST_F(CommitResultsTest, UnknownOutcomeKeepsEverything) {
  table_.faults.after_commit = [] { return UnknownOutcome("timed out"); };
  const auto status = CommitResults(table_, results_, options_).status();
  EXPECT_EQ(KindOf(status), FailureKind::kUnknown);
  EXPECT_EQ(table_.Rows(), before_);
  EXPECT_EQ(table_.Intents().size(), 4u);
}

TEST_F(CommitResultsTest, ExecutingAnotherSchemasTaskIsAConflict) {
  Plan plan;
  plan.selections.push_back(Selection{{0}, 0, 0, 1, 1, ""});
  PrepareOptions prepare{"run-3", 20000, -1, 10000};
  auto tasks =
      Value(PrepareTasks(table_, ToySpec(), Value(table_.DescribeLayout({})), plan, prepare, {}));
  ++tasks[0].schema_id;
  EXPECT_EQ(KindOf(ExecuteTask(table_, tasks[0], {}).status()), FailureKind::kConflict);
  --tasks[0].schema_id;
  tasks[0].fitted.clear();
  EXPECT_THAT(ExecuteTask(table_, tasks[0], {}).status().message(), HasSubstr("model is missing"));
}

}  // namespace
}  // namespace thalweg
