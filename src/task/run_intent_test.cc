#include "task/run_intent.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>

#include <thread>

#include "task/optimize.h"
#include "task/process_identity.h"
#include "task/toy_table_test.h"

namespace thalweg {
namespace {

using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;
using testing::TempFolder;
using testing::ToyRows;
using testing::ToySpec;
using testing::ToyTable;
using testing::Value;
using testing::WriteText;

constexpr double kDay = 86400;

/// Runs `child` in a process of its own that never comes back from it; returns its id.
template <typename Child>
pid_t Fork(Child child) {
  const pid_t pid = fork();
  if (pid == 0) {
    child();
    _exit(7);
  }
  return pid;
}

/// Waits until the child has ended; the signal that killed it, 0 when it exited.
int Reap(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

class RunIntentTest : public ::testing::Test {
 protected:
  void SetUp() override {
    table_.Append(ToyRows(0, 2000, 1));
    table_.Append(ToyRows(2000, 2000, 2));
    table_.Declare(ToySpec());
    files_ = table_.FilesIn("data");
    before_ = table_.Rows();
  }

  /// A process that begins the run, writes one file of it, tells so, and sleeps until it is killed.
  pid_t LivingRun(const std::string& run_id) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    const pid_t pid = Fork([&] {
      ToyTable table(folder_.path());
      auto intent = Value(RunIntent::Begin(table, run_id, kDay));
      WriteFile(table, run_id);
      EXPECT_EQ(write(ready[1], "x", 1), 1);
      pause();
    });
    char byte;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
  }

  static std::string WriteFile(ToyTable& table, const std::string& run_id) {
    OutputContext context;
    context.run_id = run_id;
    context.attempt_id = NewUuid();
    auto file = Value(table.NewOutputFile(context, "", 0));
    EXPECT_OK(file->Write(*ToyRows(0, 10, 3)));
    return Value(file->Finish()).id;
  }

  std::string StateOf(const CleanReport& report, const std::string& run_id) {
    for (const auto& run : report.runs) {
      if (run.run_id == run_id) return run.state;
    }
    return "not listed";
  }

  void Age(const std::string& name, double seconds) {
    const auto path = folder_.path() / "metadata" / name;
    std::filesystem::last_write_time(
        path, std::filesystem::file_time_type::clock::now() -
                  std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000)));
  }

  TempFolder folder_;
  ToyTable table_{folder_.path()};
  std::vector<std::string> files_;
  std::multiset<std::string> before_;
};

TEST_F(RunIntentTest, IsThereWhileTheRunLastsAndSaysWhoseItIs) {
  {
    auto intent = Value(RunIntent::Begin(table_, "run-1", kDay));
    const auto files = Value(table_.ListRunFiles());
    ASSERT_THAT(files, SizeIs(1));
    EXPECT_THAT(files[0].name, StartsWith("thalweg-run-" + RunTag("run-1") + "-"));
    const auto json = Value(ParseJson(files[0].text, "intent"));
    EXPECT_EQ(json["run-id"], "run-1");
    EXPECT_EQ(json["pid"], getpid());
    EXPECT_EQ(json["boot-id"].get<std::string>() + "\n",
              testing::ReadText("/proc/sys/kernel/random/boot_id"));
    EXPECT_OK(intent->StillFresh());
  }
  EXPECT_THAT(table_.Intents(), IsEmpty());
}

TEST_F(RunIntentTest, RefusesBadArguments) {
  EXPECT_FALSE(RunIntent::Begin(table_, "a b", kDay).ok());
  EXPECT_FALSE(RunIntent::Begin(table_, "a", 0).ok());
  EXPECT_FALSE(CleanDeadRuns(table_, -1, false).ok());
}

TEST_F(RunIntentTest, IsRenewed) {
  auto intent = Value(RunIntent::Begin(table_, "run-1", 0.5));  // renewed every 50 ms
  const auto modified = [&] { return Value(table_.ListRunFiles())[0].modified_millis; };
  const int64_t first = modified();
  for (int i = 0; i < 200 && modified() == first; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_GT(modified(), first);
}

/// A table whose intents cannot be written any more.
class StuckTable : public ToyTable {
 public:
  using ToyTable::ToyTable;
  std::atomic<bool> stuck = false;
  arrow::Status WriteRunFile(const std::string& name, const std::string& text) const override {
    return stuck ? arrow::Status::IOError("read-only file system")
                 : ToyTable::WriteRunFile(name, text);
  }
};

TEST_F(RunIntentTest, MustNotCommitWhenNotRenewed) {
  StuckTable table(folder_.path());
  auto intent = Value(RunIntent::Begin(table, "run-1", 0.2));
  table.stuck = true;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_THAT(intent->StillFresh().message(), HasSubstr("could not be renewed"));
}

TEST_F(RunIntentTest, OptimizeDoesNotCommitUnrenewed) {
  StuckTable table(folder_.path());
  OptimizeOptions options;
  options.orphan_age_seconds = 2;
  table.faults.before_commit = [&] {
    table.stuck = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    return arrow::Status::OK();
  };
  EXPECT_THAT(Optimize(table, options).status().message(), HasSubstr("could not be renewed"));
  EXPECT_EQ(table_.FilesIn("data"), files_);
  EXPECT_EQ(table_.snapshots(), 2);
}

TEST_F(RunIntentTest, LivingProcessesAreNeverTouched) {
  const pid_t pid = LivingRun("alive");
  for (const auto& name : table_.Intents()) Age(name, 10 * kDay);  // however old
  const auto report = Value(CleanDeadRuns(table_, 1, false));
  EXPECT_EQ(StateOf(report, "alive"), "alive");
  EXPECT_EQ(report.files_deleted, 0);
  EXPECT_THAT(table_.FilesIn("data"), SizeIs(files_.size() + 1));
  kill(pid, SIGKILL);
  Reap(pid);
}

TEST_F(RunIntentTest, KilledProcessesAreReclaimedAtOnce) {
  const pid_t pid = LivingRun("dead");
  kill(pid, SIGKILL);
  EXPECT_EQ(Reap(pid), SIGKILL);
  ASSERT_THAT(table_.FilesIn("data"), SizeIs(files_.size() + 1));
  const auto dry = Value(CleanDeadRuns(table_, kDay, true));
  EXPECT_EQ(StateOf(dry, "dead"), "dead: would be reclaimed");
  EXPECT_EQ(dry.files_deleted, 1);
  EXPECT_THAT(table_.FilesIn("data"), SizeIs(files_.size() + 1));
  EXPECT_THAT(table_.Intents(), SizeIs(1));

  EXPECT_THAT(Value(CleanDeadRuns(table_, kDay, false, "dead")).runs, IsEmpty());
  const auto report = Value(CleanDeadRuns(table_, kDay, false));
  EXPECT_EQ(StateOf(report, "dead"), "dead: reclaimed");
  EXPECT_EQ(report.files_deleted, 1);
  EXPECT_GT(report.bytes_deleted, 0);
  EXPECT_EQ(table_.FilesIn("data"), files_);
  EXPECT_THAT(table_.Intents(), IsEmpty());
}

TEST_F(RunIntentTest, UnreapedZombiesAreDead) {
  const pid_t pid = LivingRun("zombie");
  kill(pid, SIGKILL);
  siginfo_t info;
  waitid(P_PID, pid, &info, WEXITED | WNOWAIT);  // dead, and still in the process table
  EXPECT_EQ(StateOf(Value(CleanDeadRuns(table_, kDay, false)), "zombie"), "dead: reclaimed");
  Reap(pid);
}

TEST_F(RunIntentTest, OneLivingProcessKeepsTheWholeRun) {
  const pid_t dead = LivingRun("shared");
  const pid_t alive = LivingRun("shared");
  kill(dead, SIGKILL);
  Reap(dead);
  const auto report = Value(CleanDeadRuns(table_, kDay, false));
  EXPECT_THAT(report.runs, SizeIs(1));
  EXPECT_EQ(StateOf(report, "shared"), "alive");
  EXPECT_THAT(table_.FilesIn("data"), SizeIs(files_.size() + 2));
  kill(alive, SIGKILL);
  Reap(alive);
  EXPECT_EQ(Value(CleanDeadRuns(table_, kDay, false)).files_deleted, 2);
  EXPECT_EQ(table_.FilesIn("data"), files_);
}

/// The intent of a run with some members changed.
std::string IntentText(const std::map<std::string, Json>& changes, const std::string& run_id) {
  const auto own = ProcessIdentity::Own();
  Json json{{"format", "thalweg.run-intent/1"},
            {"run-id", run_id},
            {"host", own.host},
            {"boot-id", own.boot_id},
            {"pid-namespace", own.pid_namespace},
            {"pid", own.pid},
            {"start-time", own.start_time},
            {"kept", false}};
  for (const auto& [key, value] : changes) json[key] = value;
  return DumpJson(json);
}

std::string IntentName(const std::string& run_id) { return RunFileName(RunTag(run_id), NewUuid()); }

TEST_F(RunIntentTest, OnlyProvablyDeadOrOldRunsAreReclaimed) {
  struct Case {
    const char* what;
    std::map<std::string, Json> changes;
    bool reclaimed_at_once;
  };
  const int64_t start = ProcessIdentity::Own().start_time;
  const std::vector<Case> cases = {
      {"restarted pid", {{"start-time", start + 5}}, true},
      {"other host", {{"host", "elsewhere"}, {"start-time", start + 5}}, false},
      {"other boot", {{"boot-id", "11111111-2222"}, {"start-time", start + 5}}, false},
      {"other pid namespace", {{"pid-namespace", "pid:[1]"}, {"start-time", start + 5}}, false},
      {"kept", {{"kept", true}, {"start-time", start + 5}}, false},
      {"no start time", {{"start-time", 0}}, false},
      {"nonsense pid", {{"pid", -4}}, false},
      {"foreign format", {{"format", "x"}, {"start-time", start + 5}}, false},
  };
  for (const auto& c : cases) {
    const std::string run_id = NewUuid();
    const std::string name = IntentName(run_id);
    ASSERT_OK(table_.WriteRunFile(name, IntentText(c.changes, run_id)));
    WriteFile(table_, run_id);
    const auto first = Value(CleanDeadRuns(table_, kDay, false));
    EXPECT_EQ(first.files_deleted, c.reclaimed_at_once ? 1 : 0) << c.what;
    if (!c.reclaimed_at_once) {
      EXPECT_THAT(StateOf(first, run_id), HasSubstr("renewed")) << c.what;
      Age(name, kDay - 60);
      EXPECT_EQ(Value(CleanDeadRuns(table_, kDay, false)).files_deleted, 0) << c.what;
      Age(name, kDay + 60);
      EXPECT_EQ(Value(CleanDeadRuns(table_, kDay, false)).files_deleted, 1) << c.what;
    }
    EXPECT_EQ(table_.FilesIn("data"), files_) << c.what;
    EXPECT_THAT(table_.Intents(), IsEmpty()) << c.what;
  }
}

TEST_F(RunIntentTest, TornIntentsGoByTheirAgeOnly) {
  for (const std::string& text :
       {std::string(), std::string("{\"format\": \"thalweg.run-int"), std::string("\0\xFF[[", 4),
        std::string("[]"), std::string("{}"), IntentText({{"pid", "x"}}, "r")}) {
    const std::string run_id = NewUuid();
    const std::string name = IntentName(run_id);
    ASSERT_OK(table_.WriteRunFile(name, text));
    WriteFile(table_, run_id);
    EXPECT_EQ(Value(CleanDeadRuns(table_, kDay, false)).files_deleted, 0) << text;
    Age(name, kDay + 60);
    EXPECT_EQ(Value(CleanDeadRuns(table_, kDay, false)).files_deleted, 1) << text;
    EXPECT_THAT(table_.Intents(), IsEmpty());
  }
  // Names that are not those of intents are nobody's business.
  ASSERT_OK(table_.WriteRunFile("thalweg-run-short.json", "{}"));
  Age("thalweg-run-short.json", 10 * kDay);
  EXPECT_THAT(Value(CleanDeadRuns(table_, 1, false)).runs, IsEmpty());
  EXPECT_THAT(table_.Intents(), SizeIs(1));
}

TEST_F(RunIntentTest, IntentsWhoseWriterDiedBeforeTheyHadTheirNameAreTheirRuns) {
  for (const char* suffix : {".tmp", ".b0f7a2c4-0000-4000-8000-123456789abc.tmp"}) {
    const std::string run_id = NewUuid();
    const std::string name = IntentName(run_id) + suffix;
    ASSERT_OK(table_.WriteRunFile(name, IntentText({{"start-time", 1}}, run_id)));
    EXPECT_EQ(StateOf(Value(CleanDeadRuns(table_, kDay, false)), run_id), "dead: reclaimed");
    EXPECT_THAT(table_.Intents(), IsEmpty());
    // That of a living process stays, and one that says nothing yet waits.
    for (const std::string& text : {IntentText({}, run_id), std::string()}) {
      ASSERT_OK(table_.WriteRunFile(name, text));
      EXPECT_THAT(StateOf(Value(CleanDeadRuns(table_, kDay, false)), run_id),
                  AnyOf("alive", HasSubstr("unknown owner")));
      EXPECT_THAT(table_.Intents(), SizeIs(1));
    }
    Age(name, kDay + 60);
    EXPECT_THAT(Value(CleanDeadRuns(table_, kDay, false)).runs, SizeIs(1));
    EXPECT_THAT(table_.Intents(), IsEmpty());
  }
}

TEST_F(RunIntentTest, CommittedFilesStayAndDiscardedAttemptsGo) {
  OptimizeOptions options;
  options.run_id = "committed";
  ASSERT_EQ(Value(Optimize(table_, options)).outcome, "committed");
  const auto live = table_.FilesIn("data");
  // The process dies after its commit, with the files of an attempt that it had discarded.
  const pid_t pid = LivingRun("committed");
  kill(pid, SIGKILL);
  Reap(pid);
  const auto report = Value(CleanDeadRuns(table_, kDay, false));
  EXPECT_EQ(report.files_deleted, 1);
  EXPECT_EQ(table_.FilesIn("data"), live);
  EXPECT_EQ(table_.Rows(), before_);
  ASSERT_OK(
      table_.WriteRunFile(IntentName("committed"), IntentText({{"start-time", 1}}, "committed")));
  EXPECT_EQ(StateOf(Value(CleanDeadRuns(table_, kDay, false)), "committed"),
            "committed: nothing to reclaim");
  EXPECT_EQ(table_.FilesIn("data"), live);
}

TEST_F(RunIntentTest, RunTakenUpWhileCleaningIsLeftAlone) {
  const std::string run_id = "resumed";
  ASSERT_OK(table_.WriteRunFile(IntentName(run_id), IntentText({{"start-time", 1}}, run_id)));
  /// Lists the files of a run only after somebody else has begun it again.
  class Resuming : public ToyTable {
   public:
    using ToyTable::ToyTable;
    mutable std::unique_ptr<RunIntent> intent;
    arrow::Result<std::vector<FileSize>> FilesOfRun(const std::string& tag) const override {
      intent = Value(RunIntent::Begin(*this, "resumed", kDay));
      WriteFile(const_cast<Resuming&>(*this), "resumed");
      return ToyTable::FilesOfRun(tag);
    }
  };
  Resuming table(folder_.path());
  const auto report = Value(CleanDeadRuns(table, kDay, false));
  EXPECT_EQ(report.files_deleted, 0);
  EXPECT_EQ(StateOf(report, run_id), "alive");
  EXPECT_THAT(table_.FilesIn("data"), SizeIs(files_.size() + 1));
}

TEST_F(RunIntentTest, RunCommittedWhileCleaningIsLeftAlone) {
  const std::string run_id = "late";
  ASSERT_OK(table_.WriteRunFile(IntentName(run_id), IntentText({{"start-time", 1}}, run_id)));
  WriteFile(table_, run_id);
  /// Somebody commits files that are older than its intent, after the references were read.
  class Late : public ToyTable {
   public:
    using ToyTable::ToyTable;
    mutable bool committed = false;
    arrow::Result<std::set<std::string>> ReferencedFiles() const override {
      auto referenced = ToyTable::ReferencedFiles();
      committed = true;
      return referenced;
    }
    arrow::Result<std::optional<std::string>> FindRun(const std::string& run) const override {
      return committed ? std::optional<std::string>("7") : ToyTable::FindRun(run);
    }
  };
  Late table(folder_.path());
  const auto report = Value(CleanDeadRuns(table, kDay, false));
  EXPECT_EQ(report.files_deleted, 0);
  EXPECT_EQ(StateOf(report, run_id), "alive");
  EXPECT_THAT(table_.FilesIn("data"), SizeIs(files_.size() + 1));
}

// Kills an optimizing process at each of its writes and right before its commit; the next run
// cleans up and succeeds.
TEST_F(RunIntentTest, KilledOptimizersLeaveNothingToTheNext) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "a forked child cannot start threads under ThreadSanitizer";
#endif
  for (const int at : {1, 2, 4, 1000}) {
    const pid_t pid = Fork([&] {
      ToyTable table(folder_.path());
      std::atomic<int> writes = 0;
      table.faults.on_write = [&] {
        if (++writes == at) raise(SIGKILL);
        return arrow::Status::OK();
      };
      table.faults.before_commit = [] {
        raise(SIGKILL);
        return arrow::Status::OK();
      };
      (void)Optimize(table, {});
    });
    EXPECT_EQ(Reap(pid), SIGKILL);
    EXPECT_THAT(table_.Intents(), SizeIs(1)) << at;
    EXPECT_GT(table_.FilesIn("data").size(), files_.size()) << at;
    const auto report = Value(CleanDeadRuns(table_, kDay, false));
    EXPECT_THAT(report.runs, SizeIs(1));
    EXPECT_EQ(table_.FilesIn("data"), files_) << at;
    EXPECT_EQ(table_.Rows(), before_);
  }
}

#ifdef THALWEG_CRASH_POINTS
// Run by CrashPointsOfRunsAndOfCleaning in a process of their own.
TEST(RunIntentChild, DISABLED_Optimize) {
  ToyTable table(getenv("THALWEG_TEST_FOLDER"));
  (void)Optimize(table, {});
}
TEST(RunIntentChild, DISABLED_Clean) {
  ToyTable table(getenv("THALWEG_TEST_FOLDER"));
  (void)CleanDeadRuns(table, kDay, false);
}

/// Runs one of these tests with a crash point, which a process reads only once; the signal that
/// killed it.
int RunChild(const std::string& test, const char* crash_point, const std::string& folder) {
  return Reap(Fork([&] {
    setenv("THALWEG_CRASH_POINT", crash_point, 1);
    setenv("THALWEG_TEST_FOLDER", folder.c_str(), 1);
    const std::string filter = "--gtest_filter=RunIntentChild.DISABLED_" + test;
    execl("/proc/self/exe", "child", filter.c_str(), "--gtest_also_run_disabled_tests",
          "--gtest_brief=1", nullptr);
  }));
}

TEST_F(RunIntentTest, CrashPointsOfRunsAndOfCleaning) {
  const std::string folder = folder_.path();
  EXPECT_EQ(RunChild("Optimize", "after-data-files", folder), SIGKILL);
  const auto left = table_.FilesIn("data");
  EXPECT_GT(left.size(), files_.size());
  EXPECT_EQ(RunChild("Clean", "clean-before-delete", folder), SIGKILL);
  EXPECT_EQ(table_.FilesIn("data"), left);
  EXPECT_EQ(RunChild("Clean", "clean-after-delete", folder), SIGKILL);
  EXPECT_EQ(table_.FilesIn("data"), files_);
  EXPECT_THAT(table_.Intents(), SizeIs(1));  // the next one finds it and ends the matter
  EXPECT_THAT(Value(CleanDeadRuns(table_, kDay, false)).runs, SizeIs(1));
  EXPECT_THAT(table_.Intents(), IsEmpty());
  EXPECT_EQ(table_.Rows(), before_);
}
#endif

TEST_F(RunIntentTest, OptimizeReclaimsWhatTheDeadLeft) {
  const pid_t pid = LivingRun("dead");
  kill(pid, SIGKILL);
  Reap(pid);
  const auto report = Value(Optimize(table_, {}));
  EXPECT_EQ(report.outcome, "committed");
  EXPECT_THAT(report.notes, ::testing::Contains(HasSubstr("reclaimed 1 files")));
  EXPECT_EQ(static_cast<int64_t>(table_.FilesIn("data").size()),
            static_cast<int64_t>(files_.size()) + report.output_units);
}

TEST(ProcessIdentityTest, OwnProcessIsAlive) {
  const auto own = ProcessIdentity::Own();
  EXPECT_EQ(own.pid, getpid());
  EXPECT_GT(own.start_time, 0);
  EXPECT_EQ(LivenessOf(own), Liveness::kAlive);
  auto gone = own;
  gone.pid = 0x3FFFFFFF;  // above every pid_max
  EXPECT_EQ(LivenessOf(gone), Liveness::kDead);
}

}  // namespace
}  // namespace thalweg
