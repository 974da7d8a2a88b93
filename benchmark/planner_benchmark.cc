// How long a plan takes, and the memory that it needs, over very many units: a table of one large
// run, `recent` smaller ones and some unclustered units, on two keys.
//   thalweg_planner_benchmark [UNITS]…

#include <fmt/format.h>
#include <sys/resource.h>

#include <cmath>
#include <cstdlib>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "key/encoded_value.h"
#include "layout/planner.h"

namespace thalweg {
namespace {

constexpr KeyType kKey{KeyType::Kind::kSigned, 64};
constexpr int64_t kBytes = int64_t{512} << 20;

std::string Encode(double rank) {
  const auto value = static_cast<int64_t>(rank * 1e15);
  return *EncodePlain(kKey, std::string_view(reinterpret_cast<const char*>(&value), sizeof(value)));
}

/// Units of one run that tile the space about evenly.
void AddRun(Layout* layout, const std::string& run, int64_t units, std::mt19937_64* random) {
  std::uniform_real_distribution<double> u;
  const auto side = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(units))));
  for (int64_t i = 0; i < units; ++i) {
    Unit unit;
    unit.id = fmt::format("{}-{:07}", run, i);
    unit.rows = 1'000'000;
    unit.bytes = kBytes;
    for (int64_t place : {i / side, i % side}) {
      const double width = 1.0 / static_cast<double>(side);
      const double from = static_cast<double>(place) * width;
      unit.columns.push_back({.lower = Encode(from + 0.01 * width * u(*random)),
                              .upper = Encode(from + width * (1 - 0.01 * u(*random))),
                              .null_count = 0});
    }
    if (!run.empty()) unit.stamp = Stamp{run, {}, {}, {1, 2}};
    layout->units.push_back(std::move(unit));
  }
  if (run.empty()) return;
  RunRecord record;
  record.run_id = run;
  for (int32_t k = 1; k <= 2; ++k) {
    ColumnQuantiles quantiles;
    quantiles.field_id = k;
    for (int i = 0; i < 256; ++i) quantiles.quantiles.push_back(Encode(i / 255.0));
    record.quantiles.push_back(std::move(quantiles));
  }
  layout->runs.push_back(std::move(record));
}

int Main(int argc, char** argv) {
  std::vector<int64_t> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(std::atoll(argv[i]));
  if (sizes.empty()) sizes = {20'000, 1'000'000};
  for (int64_t size : sizes) {
    std::mt19937_64 random(1);
    Layout layout;
    layout.columns = {{"a", 1}, {"b", 2}};
    layout.types = {kKey, kKey};
    AddRun(&layout, "large", size * 8 / 10, &random);
    for (int i = 0; i < 8; ++i) AddRun(&layout, fmt::format("recent{}", i), size / 50, &random);
    for (int i = 0; i < 100; ++i) {
      AddRun(&layout, fmt::format("small{}", i), size / 5000 + 1, &random);
    }
    AddRun(&layout, "", size / 100, &random);
    ClusteringSpec spec;
    spec.columns = layout.columns;
    for (Policy policy : {Policy::kSize, Policy::kOverlap}) {
      spec.policy = policy;
      const std::clock_t start = std::clock();  // of the processor: others may use the machine
      const auto plan = MakePlan(layout, spec, {});
      const double seconds =
          static_cast<double>(std::clock() - start) / static_cast<double>(CLOCKS_PER_SEC);
      rusage usage{};
      getrusage(RUSAGE_SELF, &usage);
      if (!plan.ok()) {
        fmt::print(stderr, "{}\n", plan.status().ToString());
        return 1;
      }
      fmt::print(
          "{} units, {}: {:.2f} s, peak {:.0f} MiB, {} units selected, depth {:.1f} to {:.1f}\n",
          layout.units.size(), ToString(policy), seconds,
          static_cast<double>(usage.ru_maxrss) / 1024, plan->units_selected, plan->depth_before,
          plan->depth_after);
    }
  }
  return 0;
}

}  // namespace
}  // namespace thalweg

int main(int argc, char** argv) { return thalweg::Main(argc, argv); }
