#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <hwy/targets.h>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <arrow/api.h>

#include "util/json.h"

namespace thalweg {

/// The vectors of typed-quantile-rank-v1.
inline Json QuantileRankVectors() {
  std::ifstream file(THALWEG_TEST_DATA "/quantile_rank_vectors.json");
  std::stringstream text;
  text << file.rdbuf();
  return ParseJson(text.str(), "quantile_rank_vectors.json").ValueOrDie();
}

inline std::string FromHex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

inline std::string ToHex(std::string_view bytes) {
  std::string hex;
  for (unsigned char c : bytes) hex += fmt::format("{:02x}", c);
  return hex;
}

/// An array of `Builder`'s type from optional values.
template <typename Builder, typename Value>
std::shared_ptr<arrow::Array> ArrayOf(const std::vector<std::optional<Value>>& values,
                                      Builder&& builder = Builder()) {
  for (const auto& value : values) {
    EXPECT_TRUE((value ? builder.Append(*value) : builder.AppendNull()).ok());
  }
  return builder.Finish().ValueOrDie();
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
