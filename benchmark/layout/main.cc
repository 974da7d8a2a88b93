// thalweg-layout-benchmark: what policies of maintenance make of growing tables.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "policies.h"
#include "spec/clustering_spec.h"
#include "util/json.h"

namespace thalweg::layout_benchmark {
namespace {

using MakePolicy = std::function<std::unique_ptr<MaintenancePolicy>(const Workload&)>;

/// Of a table that declares none.
const double kTheta = ClusteringSpec().theta;

struct PolicyChoice {
  std::string name;
  std::string shown;
  Cuts cuts = Cuts::kEqual;
  bool ours = false;        ///< also run with clustered appends
  bool is_default = false;  ///< our default setting
  bool in_json = true;      ///< without --all
  MakePolicy make;
};

std::vector<PolicyChoice> Policies() {
  std::vector<PolicyChoice> policies;
  auto add = [&](PolicyChoice choice) { policies.push_back(std::move(choice)); };
  add({.name = "full", .shown = "full re-sort, equal cuts", .make = [](const Workload&) {
         return FullSort(Cuts::kEqual);
       }});
  add({.name = "full-our-cuts",
       .shown = "full re-sort, our cuts",
       .cuts = Cuts::kOurs,
       .in_json = false,
       .make = [](const Workload&) { return FullSort(Cuts::kOurs); }});
  for (int share : {4, 10, 32}) {
    for (Cuts cuts : {Cuts::kEqual, Cuts::kOurs}) {
      const bool ours = cuts == Cuts::kOurs;
      add({.name = fmt::format("size-{}{}", share, ours ? "-our-cuts" : ""),
           .shown = fmt::format("cubes sealed at 1/{} of the table, {} cuts", share,
                                ours ? "our" : "equal"),
           .cuts = cuts,
           .in_json = !ours,
           .make = [share, cuts](const Workload& workload) {
             return SizeSealedCubes(static_cast<double>(workload.files) / share, cuts);
           }});
    }
  }
  add({.name = "depth-sweep",
       .shown = "depth sweep of files in linear order",
       .in_json = false,
       .make = [](const Workload&) { return DepthSweep(); }});
  for (double theta : {0.5, kTheta, 0.35}) {
    add({.name = "overlap",
         .shown = fmt::format("overlap, theta {}", theta),
         .cuts = Cuts::kOurs,
         .ours = true,
         .is_default = theta == kTheta,
         .in_json = theta == kTheta,
         .make = [theta](const Workload&) { return Overlap(theta, Cuts::kOurs); }});
  }
  add({.name = "overlap-capped",
       .shown = fmt::format("overlap, theta {}, hard cap of rows", kTheta),
       .cuts = Cuts::kCapped,
       .in_json = false,
       .make = [](const Workload&) { return Overlap(kTheta, Cuts::kCapped); }});
  return policies;
}

struct Figures {
  double touched = 0;  ///< mean over time of the files that an equality opens
  double write_amplification = 0;
  /// What was written so far over what was appended so far, as a mean over the later half of the
  /// appends: one sort of the whole table weighs almost one wherever it comes.
  double later_half = 0;
  double files = 0;  ///< at the end
};

Figures Drive(const Workload& workload, const PolicyChoice& choice, bool clustered,
              const Truth& truth, uint64_t seed) {
  Table table;
  table.keys = workload.keys;
  std::mt19937_64 random(seed);
  const auto policy = choice.make(workload);
  const int64_t rows = kRowsPerFile * workload.files / workload.appends;
  Figures figures;
  for (int append = 0; append < workload.appends; ++append) {
    auto added = MakeAppend(workload, append, rows, &random);
    auto files = clustered ? Sort(std::move(added), table.keys, choice.cuts, table.next_run++)
                           : Unsorted(added, table.keys);
    for (File& file : files) table.files.push_back(std::move(file));
    policy->Maintain(&table);
    figures.touched += truth.Touched(table.files) / workload.appends;
    const double written =
        static_cast<double>(table.rows_written) / static_cast<double>(rows * (append + 1));
    if (append >= workload.appends / 2) figures.later_half += written * 2 / workload.appends;
    figures.write_amplification = written;
  }
  figures.files = static_cast<double>(table.files.size());
  return figures;
}

struct Job {
  size_t workload, policy;
  bool clustered;
  Figures figures;  ///< mean over the tables
};

/// Tables of which the mean is taken: whether a merge comes one append sooner or later makes a few
/// per cent, which matters where a figure is held to a bound.
constexpr int kTables = 1, kTablesOfDefault = 4;

std::vector<Job> RunAll(const std::vector<Workload>& workloads,
                        const std::vector<PolicyChoice>& policies, int threads) {
  std::vector<Truth> truths;
  truths.reserve(workloads.size());
  for (const Workload& workload : workloads) truths.emplace_back(workload, /*seed=*/99);
  std::vector<Job> jobs;
  for (size_t w = 0; w < workloads.size(); ++w) {
    for (size_t p = 0; p < policies.size(); ++p) {
      jobs.push_back({w, p, false, {}});
      if (policies[p].ours) jobs.push_back({w, p, true, {}});
    }
  }
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t at = next++; at < jobs.size(); at = next++) {
      Job& job = jobs[at];
      const PolicyChoice& policy = policies[job.policy];
      const int tables = policy.is_default ? kTablesOfDefault : kTables;
      for (int seed = 1; seed <= tables; ++seed) {
        const Figures one = Drive(workloads[job.workload], policy, job.clustered,
                                  truths[job.workload], static_cast<uint64_t>(seed));
        job.figures.touched += one.touched / tables;
        job.figures.write_amplification += one.write_amplification / tables;
        job.figures.later_half += one.later_half / tables;
        job.figures.files += one.files / tables;
      }
    }
  };
  std::vector<std::thread> workers;
  for (int i = 1; i < threads; ++i) workers.emplace_back(work);
  work();
  for (auto& worker : workers) worker.join();
  return jobs;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Policies of maintenance over growing tables: the files that an equality opens, averaged\n"
      "over time, relative to sorting everything anew after each append with equal cuts, and what\n"
      "is written after a row was appended, over what was appended (the first sort included).",
      "thalweg-layout-benchmark");
  bool json = false, all = false;
  std::string only;
  int threads = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 64u));
  app.add_flag("--json", json, "one JSON object on standard output");
  app.add_flag("--all", all,
               "also other thetas, the policies with our cuts, the depth sweep and more figures, "
               "in the JSON");
  app.add_option("--workload", only, "only this one");
  app.add_option("--threads", threads, "at once")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);

  auto workloads = Workloads();
  if (!only.empty()) {
    std::erase_if(workloads, [&](const Workload& workload) { return workload.name != only; });
    if (workloads.empty()) {
      fmt::print(stderr, "error: no workload {}\n", only);
      return 2;
    }
  }
  auto policies = Policies();
  if (json && !all) {
    std::erase_if(policies, [](const PolicyChoice& choice) { return !choice.in_json; });
  }
  const auto jobs = RunAll(workloads, policies, threads);

  std::map<size_t, double> full;  // by workload
  for (const Job& job : jobs) {
    if (policies[job.policy].name == "full") full[job.workload] = job.figures.touched;
  }
  Json rows = Json::array();
  size_t shown = workloads.size();
  for (const Job& job : jobs) {
    const Workload& workload = workloads[job.workload];
    const PolicyChoice& policy = policies[job.policy];
    const double relative = job.figures.touched / full[job.workload];
    rows.push_back({{"workload", workload.name},
                    {"keys", workload.keys},
                    {"policy", policy.name},
                    {"default", policy.is_default},
                    {"appends", job.clustered ? "clustered" : "stock"},
                    {"relative", relative},
                    {"write_amplification", job.figures.write_amplification},
                    {"touched", job.figures.touched},
                    {"touched_full", full[job.workload]},
                    {"files", job.figures.files}});
    if (all) rows.back()["write_amplification_later_half"] = job.figures.later_half;
    if (json) continue;
    if (shown != job.workload) {
      fmt::print("{}{}, {} keys, {} appends to {} files\n", job.workload == 0 ? "" : "\n",
                 workload.name, workload.keys, workload.appends, workload.files);
      shown = job.workload;
    }
    fmt::print("  {:<44} {:<9} {:5.2f}x  {:5.2f} written\n",
               policy.shown + (policy.is_default ? " (default)" : ""),
               job.clustered ? "clustered" : "stock", relative, job.figures.write_amplification);
  }
  if (json) fmt::print("{}\n", DumpJson(Json{{"rows", rows}}));
  return 0;
}

}  // namespace
}  // namespace thalweg::layout_benchmark

int main(int argc, char** argv) { return thalweg::layout_benchmark::Main(argc, argv); }
