#pragma once

#include <gtest/gtest.h>

#include <hwy/targets.h>
#include <fstream>
#include <sstream>

#include "util/json.h"

namespace thalweg {

/// The vectors of typed-quantile-rank-v1.
inline Json QuantileRankVectors() {
  std::ifstream file(THALWEG_TEST_DATA "/quantile_rank_vectors.json");
  std::stringstream text;
  text << file.rdbuf();
  return ParseJson(text.str(), "quantile_rank_vectors.json").ValueOrDie();
}

/// Runs `test` once for each instruction set of this processor.
template <typename Test>
void ForEachTarget(Test test) {
  int tried = 0;
  for (int64_t rest = hwy::SupportedTargets(); rest != 0; rest &= rest - 1) {
    const int64_t target = rest & ~(rest - 1);
    hwy::SetSupportedTargetsForTest(target);
    SCOPED_TRACE(hwy::TargetName(target));
    test();
    ++tried;
  }
  hwy::SetSupportedTargetsForTest(0);
  EXPECT_GE(tried, 1);
}

}  // namespace thalweg
