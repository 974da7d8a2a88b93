#include "curve/curve.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "curve/test_util_internal.h"

namespace thalweg {
namespace {

using u128 = unsigned __int128;

u128 KeyFromHex(const std::string& hex) {
  u128 key = 0;
  for (char c : hex) key = key << 4 | static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10);
  return key;
}

std::vector<std::vector<uint32_t>> RandomCoords(std::mt19937_64& random, int dims, int bits,
                                                int64_t n) {
  std::vector<std::vector<uint32_t>> coords(dims, std::vector<uint32_t>(n));
  for (auto& axis : coords) {
    for (auto& c : axis) c = static_cast<uint32_t>(random() >> (64 - bits));
  }
  // Corners too: all zero, all one.
  for (int i = 0; i < dims && n > 1; ++i) {
    coords[i][0] = 0;
    coords[i][n - 1] = static_cast<uint32_t>((uint64_t{1} << bits) - 1);
  }
  return coords;
}

TEST(Curve, Vectors) {
  const Json vectors = QuantileRankVectors();
  int checked = 0;
  ForEachTarget([&] {
    for (const auto& entry : vectors["curve"]) {
      const int bits = entry["bits"].get<int>();
      const auto coords = entry["coords"].get<std::vector<uint32_t>>();
      const int dims = static_cast<int>(coords.size());
      const uint32_t* pointers[4] = {};
      for (int i = 0; i < dims; ++i) pointers[i] = &coords[i];
      for (Curve curve : {Curve::kHilbert, Curve::kZOrder}) {
        const u128 want = KeyFromHex(entry[std::string(ToString(curve))].get<std::string>());
        EXPECT_TRUE(CurveKeyReference(curve, coords.data(), dims, bits) == want);
        u128 wide = 0;
        CurveKeys(curve, pointers, dims, bits, 1, &wide);
        EXPECT_TRUE(wide == want);
        if (bits * dims <= 64) {
          uint64_t narrow = 0;
          CurveKeys(curve, pointers, dims, bits, 1, &narrow);
          EXPECT_EQ(narrow, static_cast<uint64_t>(want));
        }
        ++checked;
      }
    }
  });
  EXPECT_GE(checked, 2 * 42);
}

// Every number of dimensions and bits, on every instruction set, for lengths around the block and
// vector sizes.
TEST(Curve, KernelsAgreeWithReference) {
  ForEachTarget([] {
    std::mt19937_64 random(7);
    for (int dims = 1; dims <= 4; ++dims) {
      for (int bits = 1; bits <= 32; ++bits) {
        const int64_t sizes[] = {1 + static_cast<int64_t>(random() % 70), 512, 577};
        for (int64_t n : {sizes[(dims + bits) % 3]}) {
          const auto coords = RandomCoords(random, dims, bits, n);
          const uint32_t* pointers[4] = {};
          for (int i = 0; i < dims; ++i) pointers[i] = coords[i].data();
          for (Curve curve : {Curve::kHilbert, Curve::kZOrder}) {
            // One more than needed: the kernels must not write past the end.
            std::vector<u128> wide(n + 1, 77);
            std::vector<uint64_t> narrow(n + 1, 77);
            CurveKeys(curve, pointers, dims, bits, n, wide.data());
            if (bits * dims <= 64) CurveKeys(curve, pointers, dims, bits, n, narrow.data());
            for (int64_t row = 0; row < n; ++row) {
              uint32_t point[4] = {};
              for (int i = 0; i < dims; ++i) point[i] = coords[i][row];
              const u128 want = CurveKeyReference(curve, point, dims, bits);
              ASSERT_TRUE(wide[row] == want) << dims << "x" << bits << " row " << row;
              if (bits * dims <= 64) {
                ASSERT_EQ(narrow[row], static_cast<uint64_t>(want)) << dims << "x" << bits;
              }
            }
            EXPECT_TRUE(wide[n] == 77);
            EXPECT_EQ(narrow[n], 77u);
          }
        }
      }
    }
  });
}

// What makes it a Hilbert curve: the keys of the whole grid are all different and neighbours along
// it differ by one step.
TEST(Curve, HilbertIsAContinuousBijection) {
  for (auto [dims, bits] : {std::pair{2, 5}, {3, 3}, {4, 2}}) {
    const int64_t n = int64_t{1} << (dims * bits);
    std::vector<std::vector<uint32_t>> coords(dims, std::vector<uint32_t>(n));
    const uint32_t* pointers[4] = {};
    for (int i = 0; i < dims; ++i) {
      for (int64_t row = 0; row < n; ++row) coords[i][row] = row >> (i * bits) & ((1 << bits) - 1);
      pointers[i] = coords[i].data();
    }
    std::vector<uint64_t> keys(n);
    CurveKeys(Curve::kHilbert, pointers, dims, bits, n, keys.data());
    std::vector<int64_t> at(n, -1);
    for (int64_t row = 0; row < n; ++row) {
      ASSERT_LT(keys[row], static_cast<uint64_t>(n));
      ASSERT_EQ(at[keys[row]], -1);
      at[keys[row]] = row;
    }
    for (int64_t key = 1; key < n; ++key) {
      int64_t distance = 0;
      for (int i = 0; i < dims; ++i) {
        distance += std::abs(static_cast<int64_t>(coords[i][at[key]]) - coords[i][at[key - 1]]);
      }
      ASSERT_EQ(distance, 1) << dims << "x" << bits << " key " << key;
    }
  }
}

}  // namespace
}  // namespace thalweg
