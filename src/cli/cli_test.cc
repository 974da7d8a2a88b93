#include "cli/cli.h"

#include <arrow/util/io_util.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/options.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/report.h"
#include "cli/signals.h"
#include "util/status.h"

namespace thalweg::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(ColumnList, Names) {
  EXPECT_THAT(*ParseColumnList("a"), ElementsAre("a"));
  EXPECT_THAT(*ParseColumnList("a, b ,c"), ElementsAre("a", "b", "c"));
  EXPECT_THAT(*ParseColumnList("a b,größe"), ElementsAre("a b", "größe"));
  EXPECT_THAT(*ParseColumnList(R"("a,b",c)"), ElementsAre("a,b", "c"));
  EXPECT_THAT(*ParseColumnList(R"("say ""hi""" , " x ")"), ElementsAre("say \"hi\"", " x "));
  EXPECT_THAT(*ParseColumnList(R"(in"ner)"), ElementsAre("in\"ner"));
}

TEST(ColumnList, Refused) {
  for (const char* text : {"", ",", "a,", ",a", "a,,b", "  ", "\"a", "\"a\"b", "\"\"", "a,\"b"}) {
    const auto list = ParseColumnList(text);
    ASSERT_FALSE(list.ok()) << text;
    EXPECT_EQ(KindOf(list.status()), FailureKind::kUsage) << text;
  }
}

TEST(OneLine, ContextsAndControlCharactersGo) {
  EXPECT_EQ(OneLine(arrow::Status::Invalid("plain message")), "plain message");
  EXPECT_EQ(OneLine(arrow::Status::IOError("cannot read\n/src/file_reader.cc:123  Open(path)\n"
                                           "/src/arrow/x.h:9  impl->Run()")),
            "cannot read");
  EXPECT_EQ(OneLine(arrow::Status::Invalid("first\n\tsecond \x1b[31mred\r\n")),
            "first; second [31mred");
  EXPECT_EQ(OneLine(arrow::Status::Invalid("broken:\n  reason")), "broken: reason");
  // The name of a source file within a message is no context line.
  EXPECT_EQ(OneLine(arrow::Status::Invalid("see a.cc:12 in the log")), "see a.cc:12 in the log");
  EXPECT_EQ(OneLine(arrow::Status::Invalid("")), "Invalid");
}

TEST(OneLine, KeepsTheSystemsReason) {
  const auto status = arrow::internal::IOErrorFromErrno(ENOENT, "Failed to open '/x'");
  EXPECT_EQ(OneLine(status), "Failed to open '/x': No such file or directory");
}

TEST(Kinds, Names) {
  EXPECT_EQ(KindName(Usage("x")), "usage");
  EXPECT_EQ(KindName(Conflict("x")), "conflict");
  EXPECT_EQ(KindName(UnknownOutcome("x")), "unknown");
  EXPECT_EQ(KindName(arrow::Status::IOError("x")), "error");
  EXPECT_EQ(DumpJson(ErrorJson("usage", "a \"b\"")),
            R"({"format":"thalweg.error/1","kind":"usage","message":"a \"b\""})");
}

TEST(Tables, Aligned) {
  TextTable table({"name", ">rows"});
  table.Add({"größe", "1"});
  table.Add({"b", "1,000"});
  EXPECT_EQ(table.ToString(),
            "name    rows\n"
            "größe      1\n"
            "b      1,000\n");
  EXPECT_EQ(LabelledLines({{"a", "1"}, {"empty", ""}, {"ab", "2"}}), "a   1\nab  2\n");
}

TEST(Notes, AddedOnce) {
  std::vector<std::string> notes = {"b", "c"};
  AddNotes({"a", "b"}, &notes);
  EXPECT_THAT(notes, ElementsAre("a", "b", "c"));
  EXPECT_EQ(NotesText({"two\nlines"}), "note: two lines\n");
}

TEST(ProgressText, BarRateAndRest) {
  const std::string line = ProgressLine({"write", 250, 1000}, 10, 200);
  EXPECT_THAT(line, HasSubstr("write"));
  EXPECT_THAT(line, HasSubstr("[######..................]  25 %"));  // a quarter of 24
  EXPECT_THAT(line, HasSubstr("25 rows/s"));
  EXPECT_THAT(line, HasSubstr("30.0 s left"));  // 750 rows at 25 a second
  EXPECT_EQ(ProgressLine({"write", 250, 1000}, 10, 20).size(), 20u);
  // Without a total: no bar; in the first second: no rate; more done than expected: 100 %.
  EXPECT_THAT(ProgressLine({"fit", 1234, -1}, 10, 200), HasSubstr("1,234 rows"));
  EXPECT_THAT(ProgressLine({"fit", 1234, -1}, 10, 200), Not(HasSubstr("%")));
  EXPECT_THAT(ProgressLine({"fit", 10, 100}, 0.5, 200), Not(HasSubstr("rows/s")));
  EXPECT_THAT(ProgressLine({"fit", 300, 100}, 5, 200), HasSubstr("100 %"));
}

TEST(Progress, DisabledBarHasNoCallback) {
  ProgressBar bar(false);
  EXPECT_FALSE(static_cast<bool>(bar.callback()));
}

TEST(Reports, UnknownDepthsAreNull) {
  OptimizeReport report;
  report.outcome = "committed";
  report.run_id = "r";
  report.snapshot_before = "9007199254740993";
  report.depth_before = 2.5;
  const Json json = ReportJson("optimize", "t", report, "/tmp");
  EXPECT_EQ(json["format"], "thalweg.optimize/1");
  EXPECT_EQ(json["snapshot_before"], "9007199254740993");
  EXPECT_EQ(json["depth_before"], 2.5);
  EXPECT_TRUE(json["depth_after"].is_null());
  EXPECT_THAT(ReportText(report, "/spill"), HasSubstr("spilled 0 B in /spill"));
  report.outcome = "nothing-to-do";
  report.reason = "all is well";
  EXPECT_EQ(ReportText(report, "/spill"), "nothing to do: all is well\n");
}

TEST(Interrupts, FirstSignalStopsSecondOneKills) {
  auto interrupted = [](int signals) {
    InterruptScope scope;
    if (!scope.token().Poll().ok()) std::_Exit(3);
    for (int i = 0; i < signals; ++i) std::raise(i == 0 ? SIGINT : SIGTERM);
    std::_Exit(scope.token().Poll().IsCancelled() ? 7 : 1);
  };
  EXPECT_EXIT(interrupted(1), testing::ExitedWithCode(7), "");
#ifndef __SANITIZE_THREAD__  // which delivers signals late
  EXPECT_EXIT(interrupted(2), testing::KilledBySignal(SIGTERM), "");
#endif
  {
    InterruptScope scope;
    std::raise(SIGTERM);
    EXPECT_TRUE(scope.token().IsStopRequested());
    EXPECT_TRUE(WasInterrupted());
  }
  InterruptScope again;
  EXPECT_FALSE(again.token().IsStopRequested());
}

}  // namespace
}  // namespace thalweg::cli
