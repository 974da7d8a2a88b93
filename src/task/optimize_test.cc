#include "task/optimize.h"

#include <gmock/gmock.h>

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

class OptimizeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 4; ++i) table_.Append(ToyRows(i * 2500, 2500, i));
    table_.Declare(ToySpec());
    before_ = table_.Rows();
    data_files_ = table_.FilesIn("data");
    options_.backoff_seconds = 0;
    options_.execute.memory_bytes = int64_t{256} << 20;
    options_.execute.threads = 2;
  }

  /// The table is as it was before the command: rows, files, no intent.
  void ExpectUntouched(int snapshots) {
    EXPECT_EQ(table_.snapshots(), snapshots);
    EXPECT_EQ(table_.FilesIn("data"), data_files_);
    EXPECT_THAT(table_.Intents(), IsEmpty());
    EXPECT_EQ(table_.Rows(), before_);
  }

  TempFolder folder_;
  ToyTable table_{folder_.path()};
  std::multiset<std::string> before_;
  std::vector<std::string> data_files_;
  OptimizeOptions options_;
};

TEST_F(OptimizeTest, RewritesEverythingOnceAndThenNothing) {
  const auto report = Value(Optimize(table_, options_));
  EXPECT_EQ(report.outcome, "committed");
  EXPECT_EQ(report.rows, 10000);
  EXPECT_EQ(report.source_units, 4);
  EXPECT_GT(report.output_units, 4);
  EXPECT_EQ(report.output_units, static_cast<int64_t>(table_.Paths().size()));
  EXPECT_EQ(report.snapshot_after, table_.snapshot_id());
  EXPECT_NE(report.snapshot_before, report.snapshot_after);
  EXPECT_EQ(table_.snapshots(), 5);
  EXPECT_EQ(table_.Rows(), before_);
  EXPECT_THAT(table_.Intents(), IsEmpty());
  // Every random file spans both columns; afterwards an equality opens about sqrt(F) of F files.
  EXPECT_NEAR(report.depth_before, 4, 0.1);
  EXPECT_GT(report.depth_after, 0);
  EXPECT_LT(report.depth_after, 2.0 * std::sqrt(static_cast<double>(report.output_units)));

  const auto& run = table_.last_rewrite->run;
  EXPECT_EQ(run.run_id, report.run_id);
  EXPECT_EQ(run.rows, 10000);
  EXPECT_EQ(run.source_units, 4);
  EXPECT_EQ(run.quantiles.size(), 2u);
  EXPECT_EQ(run.quantiles[0].field_id, 2);
  EXPECT_NEAR(run.quantiles[0].null_share, 0.02, 0.01);
  EXPECT_EQ(run.spec_id, ToySpec().SpecId());

  const auto again = Value(Optimize(table_, options_));
  EXPECT_EQ(again.outcome, "nothing-to-do");
  EXPECT_FALSE(again.reason.empty());
  EXPECT_EQ(again.snapshot_after, report.snapshot_after);
  EXPECT_EQ(table_.snapshots(), 5);
  EXPECT_THAT(table_.Intents(), IsEmpty());
}

TEST_F(OptimizeTest, DeletedRowsStayDeleted) {
  table_.DeleteRows(table_.Paths()[1], {0, 17, 2499});
  const auto live = table_.Rows();
  ASSERT_EQ(live.size(), 9997u);
  const auto report = Value(Optimize(table_, options_));
  EXPECT_EQ(report.rows, 9997);
  EXPECT_EQ(table_.Rows(), live);
}

TEST_F(OptimizeTest, SlicesGiveTheSameRowsInDisjointKeyRanges) {
  options_.plan.max_task_bytes = 150 << 10;
  const auto report = Value(Optimize(table_, options_));
  EXPECT_EQ(report.outcome, "committed");
  EXPECT_EQ(table_.Rows(), before_);
  std::set<std::string> tasks;  // the part of a file's name between run and attempt
  for (const auto& path : table_.Paths()) {
    const std::string name = std::filesystem::path(path).filename();
    tasks.insert(name.substr(37, name.find('-', 37) - 37));
  }
  EXPECT_GE(tasks.size(), 3u);
}

TEST_F(OptimizeTest, VerifyLevelsAllCommit) {
  for (const Verify verify : {Verify::kCounts, Verify::kDigest, Verify::kFull}) {
    table_.Append(ToyRows(70000, 2500, 5));
    const auto live = table_.Rows();
    options_.execute.verify = verify;
    EXPECT_EQ(Value(Optimize(table_, options_)).outcome, "committed");
    EXPECT_EQ(table_.Rows(), live);
  }
}

TEST_F(OptimizeTest, IdempotentByRunId) {
  options_.run_id = "nightly-2026-11-30";
  const auto first = Value(Optimize(table_, options_));
  EXPECT_EQ(first.outcome, "committed");
  table_.Append(ToyRows(90000, 5000, 9));
  const auto again = Value(Optimize(table_, options_));
  EXPECT_EQ(again.outcome, "already-committed");
  EXPECT_EQ(again.snapshot_after, first.snapshot_after);
  EXPECT_EQ(again.rows, 0);
  EXPECT_EQ(table_.snapshots(), 6);
}

TEST_F(OptimizeTest, MalformedRunIdIsAUsageError) {
  options_.run_id = "../x";
  EXPECT_EQ(KindOf(Optimize(table_, options_).status()), FailureKind::kUsage);
  ExpectUntouched(4);
}

TEST_F(OptimizeTest, WithoutDeclarationNothingIsWritten) {
  Value(table_.ClearDeclaration());
  const auto status = Optimize(table_, options_).status();
  EXPECT_THAT(status.message(), HasSubstr("no clustering is declared"));
  ExpectUntouched(4);
}

TEST_F(OptimizeTest, NotWritableTablesAreRefusedFirst) {
  table_.not_writable = "belongs to a catalog";
  EXPECT_THAT(Optimize(table_, options_).status().message(), HasSubstr("belongs to a catalog"));
  ExpectUntouched(4);
}

TEST_F(OptimizeTest, PlansAgainAfterAConflict) {
  const std::string hit = table_.Paths()[2];
  int commits = 0;
  std::vector<std::string> first_outputs;
  table_.faults.before_commit = [&] {
    if (++commits == 1) {
      first_outputs = table_.FilesIn("data");
      ToyTable other(folder_.path());
      other.DeleteRows(hit, {5, 6, 7});
      other.Append(ToyRows(70000, 1000, 77));
    }
    return arrow::Status::OK();
  };
  const auto report = Value(Optimize(table_, options_));
  EXPECT_EQ(report.outcome, "committed");
  EXPECT_EQ(report.replans, 1);
  EXPECT_EQ(commits, 2);
  EXPECT_EQ(report.rows, 10997);
  EXPECT_EQ(table_.Rows().size(), 10997u);
  EXPECT_EQ(table_.snapshots(), 4 + 2 + 1);
  // Of the first attempt's files none is left.
  const auto now = table_.FilesIn("data");
  EXPECT_EQ(static_cast<int64_t>(now.size()), 5 + report.output_units);
  EXPECT_THAT(table_.Intents(), IsEmpty());
}

TEST_F(OptimizeTest, AppendsMeanwhileAreNoConflict) {
  table_.faults.before_commit = [&] {
    ToyTable(folder_.path()).Append(ToyRows(70000, 1000, 77));
    return arrow::Status::OK();
  };
  const auto report = Value(Optimize(table_, options_));
  EXPECT_EQ(report.replans, 0);
  EXPECT_EQ(report.rows, 10000);
  EXPECT_EQ(table_.Rows().size(), 11000u);
}

TEST_F(OptimizeTest, GivesUpAfterTooManyConflicts) {
  options_.max_replans = 3;
  int commits = 0;
  table_.faults.before_commit = [&] {
    ++commits;
    return Conflict("somebody was faster");
  };
  const auto status = Optimize(table_, options_).status();
  EXPECT_EQ(KindOf(status), FailureKind::kConflict);
  EXPECT_THAT(status.message(), HasSubstr("4 conflicts: somebody was faster"));
  EXPECT_EQ(commits, 4);
  ExpectUntouched(4);
}

TEST_F(OptimizeTest, DeclarationChangedMeanwhileIsPlannedAnew) {
  bool changed = false;
  table_.faults.before_commit = [&] {
    if (!std::exchange(changed, true)) {
      auto spec = ToySpec();
      spec.bits_per_dim = 12;
      ToyTable(folder_.path()).Declare(spec);
    }
    return arrow::Status::OK();
  };
  const auto report = Value(Optimize(table_, options_));
  EXPECT_EQ(report.replans, 1);
  EXPECT_EQ(table_.last_rewrite->spec.bits_per_dim, 12);
  EXPECT_EQ(table_.Rows(), before_);
}

TEST_F(OptimizeTest, UnknownOutcomeDeletesNothing) {
  options_.run_id = "run-7";
  table_.faults.after_commit = [] { return UnknownOutcome("no answer from the catalog"); };
  const auto status = Optimize(table_, options_).status();
  EXPECT_EQ(KindOf(status), FailureKind::kUnknown);
  EXPECT_THAT(status.message(), HasSubstr("no answer from the catalog"));
  EXPECT_THAT(status.message(), HasSubstr("--run-id run-7"));
  EXPECT_EQ(table_.Rows(), before_);
  EXPECT_EQ(table_.Intents().size(), 1u);
  // The commit had come through: the same command says so.
  table_.faults.after_commit = nullptr;
  EXPECT_EQ(Value(Optimize(table_, options_)).outcome, "already-committed");
  EXPECT_EQ(table_.snapshots(), 5);
}

TEST_F(OptimizeTest, UnknownOutcomeThatHadFailedIsSafeToRepeat) {
  options_.run_id = "run-8";
  table_.faults.before_commit = [] { return UnknownOutcome("connection reset"); };
  EXPECT_EQ(KindOf(Optimize(table_, options_).status()), FailureKind::kUnknown);
  EXPECT_GT(table_.FilesIn("data").size(), data_files_.size());
  table_.faults.before_commit = nullptr;
  EXPECT_EQ(Value(Optimize(table_, options_)).outcome, "committed");
  EXPECT_EQ(table_.Rows(), before_);
}

TEST_F(OptimizeTest, FailingWriterLeavesNothing) {
  for (const int at : {1, 3, 8}) {
    std::atomic<int> writes = 0;
    table_.faults.on_write = [&] {
      return ++writes == at ? arrow::Status::IOError("no space left on device")
                            : arrow::Status::OK();
    };
    EXPECT_THAT(Optimize(table_, options_).status().message(),
                HasSubstr("no space left on device"));
    ExpectUntouched(4);
  }
}

TEST_F(OptimizeTest, FailingCommitLeavesNothing) {
  table_.faults.before_commit = [] { return arrow::Status::IOError("access denied"); };
  EXPECT_THAT(Optimize(table_, options_).status().message(), HasSubstr("access denied"));
  ExpectUntouched(4);
}

TEST_F(OptimizeTest, CommittedFilesSurviveAFailureReportedAfterTheSwap) {
  // A definite failure that is none: the files are in a snapshot, so they must not be deleted.
  table_.faults.after_commit = [] { return arrow::Status::IOError("lost the answer"); };
  EXPECT_FALSE(Optimize(table_, options_).ok());
  EXPECT_EQ(table_.snapshots(), 5);
  EXPECT_EQ(table_.Rows(), before_);
}

TEST_F(OptimizeTest, StoppingLeavesNothing) {
  for (const int at : {1, 4}) {
    arrow::StopSource source;
    options_.execute.stop = source.token();
    std::atomic<int> writes = 0;
    table_.faults.on_write = [&] {
      if (++writes == at) source.RequestStop();
      return arrow::Status::OK();
    };
    const auto status = Optimize(table_, options_).status();
    EXPECT_TRUE(status.IsCancelled()) << status.ToString();
    ExpectUntouched(4);
  }
}

TEST_F(OptimizeTest, StoppingRightBeforeTheCommitLeavesNothing) {
  arrow::StopSource source;
  options_.execute.stop = source.token();
  table_.faults.before_commit = [&] {
    source.RequestStop();
    return arrow::Status::OK();
  };
  EXPECT_TRUE(Optimize(table_, options_).status().IsCancelled());
  ExpectUntouched(4);
}

/// The batch with one value of the last column changed in its last row.
std::shared_ptr<arrow::RecordBatch> ChangeLast(const std::shared_ptr<arrow::RecordBatch>& batch) {
  const auto values = std::static_pointer_cast<arrow::DoubleArray>(batch->column(3));
  arrow::DoubleBuilder builder;
  for (int64_t i = 0; i < values->length(); ++i) {
    EXPECT_OK(builder.Append(values->Value(i) + (i + 1 == values->length() ? 1 : 0)));
  }
  return Value(batch->SetColumn(3, batch->schema()->field(3), builder.Finish().ValueOrDie()));
}

TEST_F(OptimizeTest, ReadingBackFindsDamageInTheFirstRowGroup) {
  std::atomic<bool> done = false;
  table_.faults.alter = [&](std::shared_ptr<arrow::RecordBatch> batch) {
    return done.exchange(true) ? batch : ChangeLast(batch);
  };
  EXPECT_THAT(Optimize(table_, options_).status().message(),
              HasSubstr("differs from what was written"));
  ExpectUntouched(4);
}

TEST_F(OptimizeTest, FullVerificationFindsDamageAnywhere) {
  options_.execute.verify = Verify::kFull;
  std::atomic<int> batches = 0;
  table_.faults.alter = [&](std::shared_ptr<arrow::RecordBatch> batch) {
    return ++batches == 9 ? ChangeLast(batch) : batch;
  };
  EXPECT_THAT(Optimize(table_, options_).status().message(),
              HasSubstr("differs from what was written"));
  ExpectUntouched(4);
}

TEST_F(OptimizeTest, LostRowsAreFoundByCounting) {
  options_.execute.verify = Verify::kCounts;
  std::atomic<bool> done = false;
  table_.faults.alter = [&](std::shared_ptr<arrow::RecordBatch> batch) {
    return done.exchange(true) ? batch : batch->Slice(1);
  };
  EXPECT_THAT(Optimize(table_, options_).status().message(), HasSubstr("its footer says"));
  ExpectUntouched(4);
}

TEST_F(OptimizeTest, OutputsAreCheckedRightBeforeTheSwap) {
  table_.faults.before_commit = [&] {
    for (const auto& name : table_.FilesIn("data")) {
      if (std::find(data_files_.begin(), data_files_.end(), name) != data_files_.end()) continue;
      std::filesystem::remove(folder_.path() / "data" / name);
      break;
    }
    return arrow::Status::OK();
  };
  EXPECT_THAT(Optimize(table_, options_).status().message(), HasSubstr("is missing"));
  ExpectUntouched(4);
}

TEST_F(OptimizeTest, MemoryAndProgressAreReported) {
  std::set<std::string> stages;
  std::mutex mutex;
  options_.execute.progress = [&](const Progress& progress) {
    std::lock_guard<std::mutex> lock(mutex);
    stages.insert(progress.stage);
    EXPECT_LE(progress.done, 10000);
  };
  const auto report = Value(Optimize(table_, options_));
  EXPECT_GT(report.peak_memory_bytes, 1 << 20);
  EXPECT_TRUE(stages.contains("fit") && stages.contains("write") && stages.contains("commit"));
}

TEST_F(OptimizeTest, TableWithoutRowsIsNothingToDo) {
  TempFolder folder;
  ToyTable empty(folder.path());
  empty.Declare(ToySpec());
  const auto report = Value(Optimize(empty, options_));
  EXPECT_EQ(report.outcome, "nothing-to-do");
  EXPECT_EQ(empty.snapshots(), 0);
}

TEST_F(OptimizeTest, UnitsWithoutLiveRowsGoAway) {
  TempFolder folder;
  ToyTable table(folder.path());
  table.Append(ToyRows(0, 3, 1));
  table.DeleteRows(table.Paths()[0], {0, 1, 2});
  table.Declare(ToySpec());
  const auto report = Value(Optimize(table, options_));
  EXPECT_EQ(report.rows, 0);
  EXPECT_THAT(table.Rows(), IsEmpty());
}

}  // namespace
}  // namespace thalweg
