#include "task/run_intent.h"

#include <time.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "table/run_tag.h"
#include "task/process_identity.h"
#include "util/crash_point.h"
#include "util/json.h"
#include "util/status.h"
#include "util/units.h"
#include "util/uuid.h"

namespace thalweg {
namespace {

constexpr char kFormat[] = "thalweg.run-intent/1";
constexpr double kRenewSeconds = 60;

/// Seconds since boot, those asleep included: a machine that slept must not take its renewals for
/// fresh.
double SecondsSinceBoot() {
  struct timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + now.tv_nsec * 1e-9;
}

/// What an intent file says; a file that cannot be read as one has no run id.
struct Intent {
  std::string run_id;
  ProcessIdentity process;
  bool kept = false;
};

Intent ParseIntent(const RunFile& file) {
  Intent intent;
  auto parsed = ParseJson(file.text, file.name);
  if (!parsed.ok()) return intent;
  const Json& json = *parsed;
  auto format = GetString(json, "format", file.name);
  auto run_id = GetString(json, "run-id", file.name);
  auto host = GetString(json, "host", file.name);
  auto boot_id = GetString(json, "boot-id", file.name);
  auto pid_namespace = GetString(json, "pid-namespace", file.name);
  auto pid = GetInt64(json, "pid", file.name);
  auto start_time = GetInt64(json, "start-time", file.name);
  auto kept = GetBool(json, "kept", file.name);
  if (!format.ok() || *format != kFormat || !run_id.ok() || !CheckRunId(*run_id).ok() ||
      !host.ok() || !boot_id.ok() || !pid_namespace.ok() || !pid.ok() || !start_time.ok() ||
      !kept.ok()) {
    return intent;
  }
  return Intent{*run_id, {*host, *boot_id, *pid_namespace, *pid, *start_time}, *kept};
}

class RunIntentImpl : public RunIntent {
 public:
  RunIntentImpl(const Table& table, const std::string& run_id, double orphan_age_seconds)
      : table_(table),
        run_id_(run_id),
        attempt_(NewUuid()),
        tag_(table.TagOfRun(run_id)),
        name_(RunFileName(tag_, attempt_)),
        process_(ProcessIdentity::Own()),
        orphan_age_(orphan_age_seconds) {}

  ~RunIntentImpl() override {
    StopThread();
    // A file that cannot be removed is treated as a dead run's later on: by then its files are
    // referenced, or gone.
    if (!kept_ && !abandoned_) (void)table_.DeleteRunFile(name_);
  }

  arrow::Status Start() {
    ARROW_RETURN_NOT_OK(Write());
    thread_ = std::thread([this] { RenewUntilStopped(); });
    return arrow::Status::OK();
  }

  arrow::Status StillFresh() const override {
    std::lock_guard<std::mutex> lock(mutex_);
    const double age = SecondsSinceBoot() - renewed_;
    if (age <= orphan_age_ / 2) return arrow::Status::OK();
    return Invalid(
        "run {}: its intent could not be renewed for {}, so that its files may have been taken for "
        "those of a dead run; nothing was committed: run the command again",
        run_id_, FormatDuration(age));
  }

  void Keep() override {
    StopThread();
    kept_ = true;
    // Until this is written the intent looks like that of a process that will soon be gone: so try
    // hard.
    for (int i = 0; i < 6 && !Write().ok(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100 << i));
    }
  }

  void Abandon() override { abandoned_ = true; }

 private:
  arrow::Status Write() {
    const double now = SecondsSinceBoot();
    const Json json{{"format", kFormat},
                    {"run-id", run_id_},
                    {"attempt", attempt_},
                    {"path-prefix", tag_},
                    {"host", process_.host},
                    {"boot-id", process_.boot_id},
                    {"pid-namespace", process_.pid_namespace},
                    {"pid", process_.pid},
                    {"start-time", process_.start_time},
                    {"kept", kept_},
                    {"renewed-millis", NowMillis()}};
    ARROW_RETURN_NOT_OK(table_.WriteRunFile(name_, DumpJson(json)));
    std::lock_guard<std::mutex> lock(mutex_);
    renewed_ = now;
    return arrow::Status::OK();
  }

  void RenewUntilStopped() {
    const auto period = std::chrono::duration<double>(std::min(kRenewSeconds, orphan_age_ / 10));
    std::unique_lock<std::mutex> lock(stop_mutex_);
    while (!wake_.wait_for(lock, period, [this] { return stop_; })) {
      lock.unlock();
      (void)Write();  // a failure leaves renewed_ as it was, which StillFresh sees
      lock.lock();
    }
  }

  void StopThread() {
    {
      std::lock_guard<std::mutex> lock(stop_mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  const Table& table_;
  const std::string run_id_;
  const std::string attempt_;
  const std::string tag_;
  const std::string name_;
  const ProcessIdentity process_;
  const double orphan_age_;
  bool kept_ = false;
  bool abandoned_ = false;
  mutable std::mutex mutex_;
  double renewed_ = 0;
  std::mutex stop_mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

/// The intents of one run, and what they tell together.
struct RunIntents {
  std::string run_id;
  std::vector<std::string> names;
  bool alive = false;              // a process that is there
  bool waiting = false;            // not provably dead, and not old enough
  bool kept = false;               // of those waiting, one was left by Keep()
  int64_t age_millis = INT64_MAX;  // since the latest renewal
};

std::map<std::string, RunIntents> ReadIntents(const Table& table, const std::vector<RunFile>& files,
                                              double orphan_age_seconds) {
  std::map<std::string, RunIntents> runs;  // by tag
  const int64_t now = NowMillis();
  for (const RunFile& file : files) {
    const std::string tag = RunTagOfRunFile(file.name);
    if (tag.empty()) continue;
    RunIntents& run = runs[tag];
    Intent intent = ParseIntent(file);
    // Torn, another table's in a shared folder, or not what its name says.
    if (table.TagOfRun(intent.run_id) != tag) intent = Intent{};
    if (run.run_id.empty()) run.run_id = intent.run_id;
    run.names.push_back(file.name);
    const int64_t age = now - file.modified_millis;
    run.age_millis = std::min(run.age_millis, age);
    const Liveness liveness =
        intent.run_id.empty() || intent.kept ? Liveness::kUnknown : LivenessOf(intent.process);
    run.alive |= liveness == Liveness::kAlive;
    if (liveness == Liveness::kUnknown && static_cast<double>(age) < orphan_age_seconds * 1000) {
      run.waiting = true;
      run.kept |= intent.kept;
    }
  }
  for (auto& [tag, run] : runs) {
    if (run.run_id.empty()) run.run_id = tag;  // for people
  }
  return runs;
}

/// Deletes the unreferenced files of a dead run, then its intents.
arrow::Status Reclaim(const Table& table, const std::string& tag, const RunIntents& run,
                      double orphan_age_seconds, bool dry_run, CleanReport::Run* report) {
  auto taken_up = [&]() -> arrow::Result<bool> {
    ARROW_ASSIGN_OR_RAISE(auto intents, table.ListRunFiles());
    const auto again = ReadIntents(table, intents, orphan_age_seconds);
    const auto found = again.find(tag);
    return found != again.end() && (found->second.alive || found->second.waiting);
  };
  ARROW_ASSIGN_OR_RAISE(const auto there_before, table.FindRun(run.run_id));
  ARROW_ASSIGN_OR_RAISE(auto files, table.FilesOfRun(tag));
  // A process that took the run up meanwhile wrote its intent before its first file: it is listed
  // now if a file of its is in `files`.
  ARROW_ASSIGN_OR_RAISE(bool alive, taken_up());
  if (alive) {
    report->state = "alive";
    return arrow::Status::OK();
  }
  ARROW_ASSIGN_OR_RAISE(auto referenced, table.ReferencedFiles());
  ARROW_ASSIGN_OR_RAISE(auto committed, table.FindRun(run.run_id));
  // One that commits what others have written has files that are older than its intent: it may have
  // come, and committed, while the references were read.
  ARROW_ASSIGN_OR_RAISE(alive, taken_up());
  if (alive || (committed && !there_before)) {
    report->state = "alive";
    return arrow::Status::OK();
  }
  std::erase_if(files, [&](const auto& file) {
    return referenced.contains(file.location) ||
           !RunTagOfRunFile(file.location.substr(file.location.rfind('/') + 1)).empty();
  });
  CrashPoint("clean-before-delete");
  arrow::Status failed;
  for (const auto& file : files) {
    const auto status = dry_run ? arrow::Status::OK() : table.DeleteFile(file.location);
    if (!status.ok()) {
      failed = status;
      continue;
    }
    ++report->files;
    report->bytes += file.bytes;
  }
  CrashPoint("clean-after-delete");
  if (!failed.ok()) {
    report->state = "dead: not all could be deleted: " + failed.message();
    return arrow::Status::OK();  // the intent stays, for the next time
  }
  for (size_t i = 0; !dry_run && i < run.names.size(); ++i) {
    ARROW_RETURN_NOT_OK(table.DeleteRunFile(run.names[i]));
  }
  report->state = committed && report->files == 0 ? "committed: nothing to reclaim"
                  : dry_run                       ? "dead: would be reclaimed"
                                                  : "dead: reclaimed";
  return arrow::Status::OK();
}

}  // namespace

arrow::Result<std::unique_ptr<RunIntent>> RunIntent::Begin(const Table& table,
                                                           const std::string& run_id,
                                                           double orphan_age_seconds) {
  ARROW_RETURN_NOT_OK(CheckRunId(run_id));
  if (!(orphan_age_seconds > 0)) return Usage("the orphan age must be positive");
  auto intent = std::make_unique<RunIntentImpl>(table, run_id, orphan_age_seconds);
  ARROW_RETURN_NOT_OK(intent->Start());
  return intent;
}

void ReleaseKeptIntents(const Table& table, const std::string& run_id) {
  ReleaseGivenUp(table, run_id, /*files_remain=*/false);
}

void ReleaseGivenUp(const Table& table, const std::string& run_id, bool files_remain) {
  const auto files = table.ListRunFiles();
  if (!files.ok()) return;
  std::vector<std::string> kept;
  bool others = false;
  for (const RunFile& file : *files) {
    if (RunTagOfRunFile(file.name) != table.TagOfRun(run_id)) continue;
    if (ParseIntent(file).kept) {
      kept.push_back(file.name);
    } else {
      others = true;
    }
  }
  if (files_remain && !others) return;
  for (const auto& name : kept) (void)table.DeleteRunFile(name);
}

arrow::Result<CleanReport> CleanDeadRuns(const Table& table, double orphan_age_seconds,
                                         bool dry_run, const std::string& except_run) {
  if (!(orphan_age_seconds > 0)) return Usage("the orphan age must be positive");
  CleanReport report;
  ARROW_ASSIGN_OR_RAISE(auto files, table.ListRunFiles());
  for (const auto& [tag, run] : ReadIntents(table, files, orphan_age_seconds)) {
    if (!except_run.empty() && tag == table.TagOfRun(except_run)) continue;
    CleanReport::Run line;
    line.run_id = run.run_id;
    const std::string age = FormatDuration(std::max<int64_t>(0, run.age_millis) / 1000.0);
    if (run.alive) {
      line.state = "alive";
    } else if (run.waiting && run.kept) {
      line.state = fmt::format(
          "kept: its outcome is not known, or it is still to be committed; last renewed {} ago",
          age);
    } else if (run.waiting) {
      line.state = fmt::format("unknown owner: not renewed for {}", age);
    } else {
      ARROW_RETURN_NOT_OK(Reclaim(table, tag, run, orphan_age_seconds, dry_run, &line));
    }
    report.files_deleted += line.files;
    report.bytes_deleted += line.bytes;
    report.runs.push_back(std::move(line));
  }
  return report;
}

}  // namespace thalweg
