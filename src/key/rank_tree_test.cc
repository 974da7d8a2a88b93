#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "key/rank_tree_internal.h"
#include "key/test_util_internal.h"
#include "key/text_index_internal.h"

namespace thalweg {
namespace {

template <typename T>
uint32_t NaiveRank(const std::vector<T>& sorted, const T& value) {
  const auto count = std::upper_bound(sorted.begin(), sorted.end(), value) - sorted.begin();
  return static_cast<uint32_t>(std::max<int64_t>(count - 1, 0));
}

TEST(RankTree, AgreesWithUpperBound) {
  ForEachTarget([] {
    std::mt19937_64 random(5);
    for (size_t n : {0, 1, 2, 15, 16, 17, 255, 256, 257, 4095, 4097, 65536}) {
      for (int shape = 0; shape < 6; ++shape) {
        std::vector<uint64_t> sorted(n);
        const uint64_t base = shape == 1 ? UINT64_MAX - 5000 : shape == 2 ? 0 : random() >> 1;
        for (auto& v : sorted) {
          v = shape == 0   ? random()                // all 64 bits
              : shape <= 2 ? base + random() % 5001  // at either end of the domain
              : shape == 3 ? base + (random() % 3 ? 7 : random() % 100000)  // a hot value
              : shape == 4 ? (random() % 2 ? 0 : UINT64_MAX)         // two values, the extremes
                           : base + random() % (uint64_t{1} << 32);  // about where 32 bits end
        }
        std::sort(sorted.begin(), sorted.end());
        std::vector<uint64_t> values = {
            0, 1, UINT64_MAX, UINT64_MAX - 1, uint64_t{1} << 63, (uint64_t{1} << 63) - 1};
        for (int i = 0; i < 500; ++i) {
          values.push_back(random());
          if (n > 0) values.push_back(sorted[random() % n] + random() % 3 - 1);
        }
        if (n > 0)
          values.insert(values.end(), {sorted[0] - 1, sorted[0], sorted[n - 1], sorted[n - 1] + 1});
        std::vector<uint32_t> ranks(values.size() + 1, 99);
        RankTree(sorted).Ranks(values.data(), static_cast<int64_t>(values.size()), ranks.data());
        for (size_t i = 0; i < values.size(); ++i) {
          ASSERT_EQ(ranks[i], NaiveRank(sorted, values[i]))
              << "n " << n << " shape " << shape << " value " << values[i];
        }
        ASSERT_EQ(ranks[values.size()], 99u);
      }
    }
  });
}

void CheckTexts(std::vector<std::string> sorted, std::vector<std::string> values) {
  std::sort(sorted.begin(), sorted.end());
  const TextIndex index(sorted);
  ASSERT_EQ(index.size(), static_cast<int64_t>(sorted.size()));
  for (size_t i = 0; i < sorted.size(); ++i)
    ASSERT_EQ(index.text(static_cast<int64_t>(i)), sorted[i]);
  // Besides the given ones: every sample, shortened, lengthened, and changed at one place.
  for (size_t i = 0; i < sorted.size(); i += 1 + sorted.size() / 300) {
    const std::string& text = sorted[i];
    values.insert(values.end(), {text, text + '\0', text + "~", text.substr(0, text.size() / 2)});
    if (text.empty()) continue;
    values.push_back(text.substr(0, text.size() - 1));
    for (size_t at : {size_t{0}, text.size() / 2, text.size() - 1}) {
      for (int step : {-1, 1}) {
        values.push_back(text);
        values.back()[at] = static_cast<char>(values.back()[at] + step);
      }
    }
  }
  std::vector<std::string_view> views(values.begin(), values.end());
  std::vector<uint32_t> ranks(values.size());
  index.Ranks(views.data(), static_cast<int64_t>(views.size()), ranks.data());
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(ranks[i], NaiveRank(sorted, values[i])) << values[i];
}

TEST(TextIndex, AgreesWithUpperBound) {
  ForEachTarget([] {
    std::mt19937_64 random(6);
    auto letters = [&](size_t length, int alphabet) {
      std::string text;
      for (size_t i = 0; i < length; ++i)
        text += static_cast<char>(alphabet == 1 ? 0 : 'a' + random() % alphabet);
      return text;
    };
    const std::vector<std::string> odd = {"", std::string(1, '\0'), std::string(20, '\xff'),
                                          "https://", "p"};
    CheckTexts({}, odd);
    CheckTexts({""}, odd);
    CheckTexts({"same", "same", "same"}, odd);
    for (size_t common : {0, 7, 8, 40, 64}) {
      // A common beginning, then a few words that many share, then more of the same, then what
      // tells them apart.
      std::vector<std::string> sorted;
      const std::string prefix = letters(common, 26);
      std::vector<std::string> hosts;
      for (int i = 0; i < 5; ++i) hosts.push_back(letters(6 + random() % 30, 2));
      for (int i = 0; i < 2000; ++i)
        sorted.push_back(prefix + hosts[random() % 5] + letters(random() % 12, 3));
      CheckTexts(sorted, odd);
    }
    {
      // Strings that differ only in how many zero bytes, or equal letters, they end with.
      std::vector<std::string> zeros, chain;
      for (size_t length = 0; length < 60; ++length) {
        zeros.emplace_back(length + 1, '\0');
        zeros.back()[0] = 'k';
        chain.push_back(std::string(length * 3, 'a'));
        zeros.push_back(zeros.back());
      }
      CheckTexts(zeros, odd);
      CheckTexts(chain, odd);
    }
    std::vector<std::string> binary;
    for (int i = 0; i < 3000; ++i)
      binary.push_back(letters(random() % 4, random() % 3 == 0 ? 1 : 200));
    CheckTexts(binary, odd);
  });
}

}  // namespace
}  // namespace thalweg
