#include "workload.h"

#include <algorithm>
#include <cmath>

namespace thalweg::layout_benchmark {

std::vector<Workload> Workloads() {
  return {{"uniform", 2, 1024, 64}, {"time", 2, 1024, 64},     {"drifting", 2, 1024, 64},
          {"uniform", 3, 1024, 64}, {"uniform", 4, 1024, 64},  {"boolean", 2, 512, 32},
          {"constant", 2, 512, 32}, {"hot", 2, 512, 32},       {"zipf", 2, 512, 32},
          {"zipf", 3, 512, 32},     {"correlated", 2, 512, 32}};
}

std::vector<Row> MakeAppend(const Workload& workload, int append, int64_t rows,
                            std::mt19937_64* random) {
  std::uniform_real_distribution<double> even;
  auto u = [&] { return even(*random); };
  const double now = append, all = workload.appends;
  std::vector<Row> out(static_cast<size_t>(rows));
  for (Row& row : out) {
    double key[kMostKeys];
    for (int k = 0; k < workload.keys; ++k) key[k] = u();
    if (workload.name == "time") {
      const double late = u() < 0.05 ? u() : 0;
      key[0] = (now + u()) / all - late * now / all;
    } else if (workload.name == "drifting") {
      key[0] = 0.5 * (now + u()) / all + 0.5 * u();
    } else if (workload.name == "boolean") {
      key[1] = key[1] < 0.5 ? 0 : 0.5;
    } else if (workload.name == "constant") {
      key[1] = 0.5;
    } else if (workload.name == "hot") {
      if (u() < 0.6) key[1] = 0.5;
    } else if (workload.name == "zipf") {
      key[1] = std::floor(std::pow(key[1], 4) * 200) / 200;
    } else if (workload.name == "correlated") {
      key[1] = key[0] + 0.05 * (u() - 0.5);
    }
    for (int k = 0; k < workload.keys; ++k) {
      row[k] = static_cast<int32_t>(std::clamp(key[k], 0.0, 0.9999999) * kDomain);
    }
  }
  return out;
}

}  // namespace thalweg::layout_benchmark
