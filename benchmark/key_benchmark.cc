// Speed of the key stage beside plain ways to do the same: curve keys, rank lookup, (key, row)
// sort, sampling, encoding.
//
// Each benchmark gives nanoseconds per row (`ns_per_row`); those with a plain counterpart measure
// it in the same run and give `times_faster`. THALWEG_BENCHMARK_TARGETS=AVX2 (or any other name of
// an instruction set) allows no newer set than that.

#include <arrow/api.h>
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <hwy/targets.h>
#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <numeric>
#include <random>

#include "curve/curve.h"
#include "key/encoded_value_internal.h"
#include "key/key_encoder.h"
#include "key/rank_tree_internal.h"
#include "key/sample.h"
#include "sort/key_sort.h"

namespace thalweg {
namespace {

// Processor seconds of this thread: everything here is single-threaded, and other work on the
// machine counts less.
double Now() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

double Seconds(const auto& work) {
  const double start = Now();
  work();
  return Now() - start;
}

// Best of a few runs of each, alternating, so that both see the same machine.
void Compare(benchmark::State& state, int64_t rows, const auto& plain, const auto& ours) {
  double plain_best = 1e9;
  double best = 1e9;
  for (auto _ : state) {
    plain_best = std::min(plain_best, Seconds(plain));
    const double seconds = Seconds(ours);
    best = std::min(best, seconds);
    state.SetIterationTime(seconds);
  }
  state.counters["plain_ns_per_row"] = plain_best * 1e9 / static_cast<double>(rows);
  state.counters["ns_per_row"] = best * 1e9 / static_cast<double>(rows);
  state.counters["times_faster"] = plain_best / best;
}

void Measure(benchmark::State& state, int64_t rows, const auto& work) {
  double best = 1e9;
  for (auto _ : state) best = std::min(best, Seconds(work));
  state.counters["ns_per_row"] = best * 1e9 / static_cast<double>(rows);
}

// The plain loop: Skilling's transform of one point at a time, with branches, then bit by bit.
template <int kDims>
uint64_t PlainHilbert(const uint32_t* const* coords, int bits, int64_t row) {
  uint32_t x[kDims];
  for (int i = 0; i < kDims; ++i) x[i] = coords[i][row];
  for (uint32_t q = uint32_t{1} << (bits - 1); q > 1; q >>= 1) {
    const uint32_t p = q - 1;
    for (int i = 0; i < kDims; ++i) {
      if (x[i] & q) {
        x[0] ^= p;
      } else {
        const uint32_t t = (x[0] ^ x[i]) & p;
        x[0] ^= t;
        x[i] ^= t;
      }
    }
  }
  for (int i = 1; i < kDims; ++i) x[i] ^= x[i - 1];
  uint32_t t = 0;
  for (uint32_t q = uint32_t{1} << (bits - 1); q > 1; q >>= 1) {
    if (x[kDims - 1] & q) t ^= q - 1;
  }
  for (int i = 0; i < kDims; ++i) x[i] ^= t;
  uint64_t key = 0;
  for (int b = bits - 1; b >= 0; --b) {
    for (int i = 0; i < kDims; ++i) key = key << 1 | (x[i] >> b & 1);
  }
  return key;
}

template <int kDims>
void HilbertCurve(benchmark::State& state) {
  constexpr int64_t kRows = 1 << 16;
  const int bits = static_cast<int>(state.range(0));
  std::mt19937_64 random(1);
  std::vector<std::vector<uint32_t>> coords(kDims, std::vector<uint32_t>(kRows));
  const uint32_t* pointers[kDims];
  for (int i = 0; i < kDims; ++i) {
    for (auto& c : coords[i]) c = static_cast<uint32_t>(random() >> (64 - bits));
    pointers[i] = coords[i].data();
  }
  std::vector<uint64_t> plain(kRows), ours(kRows);
  Compare(
      state, kRows,
      [&] {
        for (int64_t row = 0; row < kRows; ++row)
          plain[row] = PlainHilbert<kDims>(pointers, bits, row);
      },
      [&] { CurveKeys(Curve::kHilbert, pointers, kDims, bits, kRows, ours.data()); });
  if (plain != ours) state.SkipWithError("the keys differ");
}
BENCHMARK(HilbertCurve<4>)->Arg(16)->UseManualTime();
BENCHMARK(HilbertCurve<2>)->Arg(16)->Arg(32)->UseManualTime();
BENCHMARK(HilbertCurve<3>)->Arg(20)->UseManualTime();

void WideHilbertCurve(benchmark::State& state) {
  constexpr int64_t kRows = 1 << 16;
  std::mt19937_64 random(1);
  std::vector<std::vector<uint32_t>> coords(4, std::vector<uint32_t>(kRows));
  const uint32_t* pointers[4];
  for (int i = 0; i < 4; ++i) {
    for (auto& c : coords[i]) c = static_cast<uint32_t>(random());
    pointers[i] = coords[i].data();
  }
  std::vector<Key128> plain(kRows), ours(kRows);
  Compare(
      state, kRows,
      [&] {
        for (int64_t row = 0; row < kRows; ++row) {
          const uint32_t point[4] = {coords[0][row], coords[1][row], coords[2][row],
                                     coords[3][row]};
          plain[row] = CurveKeyReference(Curve::kHilbert, point, 4, 32);
        }
      },
      [&] { CurveKeys(Curve::kHilbert, pointers, 4, 32, kRows, ours.data()); });
  if (plain != ours) state.SkipWithError("the keys differ");
}
BENCHMARK(WideHilbertCurve)->UseManualTime();

// Rank among 65,536 samples of random values from a range of 2^bits.
void RankLookup(benchmark::State& state) {
  constexpr int64_t kRows = 1 << 20;
  const int bits = static_cast<int>(state.range(0));
  std::mt19937_64 random(2);
  std::vector<uint64_t> sorted(65536), values(kRows);
  for (auto& v : sorted) v = random() >> (64 - bits);
  for (auto& v : values) v = random() >> (64 - bits);
  std::sort(sorted.begin(), sorted.end());
  const RankTree tree(sorted);
  std::vector<uint32_t> plain(kRows), ours(kRows);
  Compare(
      state, kRows,
      [&] {
        for (int64_t row = 0; row < kRows; ++row) {
          const auto count =
              std::upper_bound(sorted.begin(), sorted.end(), values[row]) - sorted.begin();
          plain[row] = static_cast<uint32_t>(std::max<int64_t>(count - 1, 0));
        }
      },
      [&] { tree.Ranks(values.data(), kRows, ours.data()); });
  if (plain != ours) state.SkipWithError("the ranks differ");
}
BENCHMARK(RankLookup)->Arg(64)->Arg(32)->Arg(16)->UseManualTime();

std::shared_ptr<arrow::Array> RandomInts(int64_t rows, int bits, uint64_t seed) {
  std::mt19937_64 random(seed);
  arrow::Int64Builder builder;
  for (int64_t i = 0; i < rows; ++i) {
    if (!builder.Append(static_cast<int64_t>(random() >> (64 - bits))).ok()) std::abort();
  }
  return builder.Finish().ValueOrDie();
}

std::shared_ptr<arrow::Array> RandomTexts(int64_t rows, int common, uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::string prefix(static_cast<size_t>(common), 'p');
  arrow::StringBuilder builder;
  for (int64_t i = 0; i < rows; ++i) {
    if (!builder.Append(prefix + fmt::format("{:08x}", random() % 1000000)).ok()) std::abort();
  }
  return builder.Finish().ValueOrDie();
}

ColumnModel ModelOf(const arrow::Array& values) {
  ColumnSample sample(KeyTypeOf(*values.type(), Algorithm::kTypedQuantileRankV1).ValueOrDie(), 0);
  if (!sample.Add(values, 0).ok()) std::abort();
  return sample.Finish().ValueOrDie();
}

// Coordinates of strings with a common beginning of so many bytes, beside std::upper_bound over
// them.
void TextCoordinates(benchmark::State& state) {
  constexpr int64_t kRows = 1 << 17;
  const auto array = RandomTexts(kRows, static_cast<int>(state.range(0)), 3);
  const auto& strings = static_cast<const arrow::StringArray&>(*array);
  const ColumnModel model = ModelOf(*array);
  std::vector<std::string> sorted;
  for (int64_t i = 0; i < model.size(); ++i)
    sorted.push_back(DecodeText(model.value(i)).ValueOrDie());
  std::vector<uint32_t> plain(kRows), ours(kRows);
  const auto n = static_cast<uint64_t>(model.size());
  Compare(
      state, kRows,
      [&] {
        for (int64_t row = 0; row < kRows; ++row) {
          const auto count = static_cast<uint64_t>(
              std::upper_bound(sorted.begin(), sorted.end(), strings.GetView(row)) -
              sorted.begin());
          plain[row] = static_cast<uint32_t>((count == 0 ? 0 : count - 1) * 65534 / (n - 1));
        }
      },
      [&] {
        if (!model.Coordinates(*array, 16, ours.data()).ok()) std::abort();
      });
  if (plain != ours) state.SkipWithError("the coordinates differ");
}
BENCHMARK(TextCoordinates)->Arg(0)->Arg(40)->Arg(64)->UseManualTime();

void SortEntries(benchmark::State& state) {
  const int64_t rows = state.range(0);
  std::mt19937_64 random(4);
  std::vector<KeyRow64> input(static_cast<size_t>(rows));
  for (size_t i = 0; i < input.size(); ++i) input[i] = {i, random()};
  std::vector<KeyRow64> plain, ours;
  double plain_best = 1e9;
  double best = 1e9;
  for (auto _ : state) {
    plain = input;
    plain_best =
        std::min(plain_best, Seconds([&] {
                   std::sort(plain.begin(), plain.end(),
                             [](const KeyRow64& a, const KeyRow64& b) { return a.key < b.key; });
                 }));
    ours = input;
    const double seconds = Seconds([&] { SortKeyRows(ours.data(), rows); });
    best = std::min(best, seconds);
    state.SetIterationTime(seconds);
  }
  state.counters["plain_ns_per_row"] = plain_best * 1e9 / static_cast<double>(rows);
  state.counters["ns_per_row"] = best * 1e9 / static_cast<double>(rows);
  state.counters["times_faster"] = plain_best / best;
}
BENCHMARK(SortEntries)->Arg(8 << 20)->Iterations(2)->UseManualTime();

void SortWideEntries(benchmark::State& state) {
  const int64_t rows = state.range(0);
  std::mt19937_64 random(4);
  std::vector<KeyRow128> input(static_cast<size_t>(rows));
  for (size_t i = 0; i < input.size(); ++i) {
    input[i] = {static_cast<unsigned __int128>(random()) << 64 | random(), i};
  }
  double plain_best = 1e9;
  double best = 1e9;
  for (auto _ : state) {
    auto plain = input;
    plain_best =
        std::min(plain_best, Seconds([&] {
                   std::sort(plain.begin(), plain.end(),
                             [](const KeyRow128& a, const KeyRow128& b) { return a.key < b.key; });
                 }));
    auto ours = input;
    const double seconds = Seconds([&] { SortKeyRows(ours.data(), rows); });
    best = std::min(best, seconds);
    state.SetIterationTime(seconds);
  }
  state.counters["plain_ns_per_row"] = plain_best * 1e9 / static_cast<double>(rows);
  state.counters["ns_per_row"] = best * 1e9 / static_cast<double>(rows);
  state.counters["times_faster"] = plain_best / best;
}
BENCHMARK(SortWideEntries)->Arg(1 << 20)->Iterations(2)->UseManualTime();

// The sample pass over eight million rows in batches of 65,536.
void SamplePass(benchmark::State& state, const std::shared_ptr<arrow::Array>& batch) {
  constexpr int64_t kBatches = 128;
  Measure(state, kBatches * batch->length(), [&] {
    ColumnSample sample(KeyTypeOf(*batch->type(), Algorithm::kTypedQuantileRankV1).ValueOrDie(), 0);
    for (int64_t i = 0; i < kBatches; ++i) {
      if (!sample.Add(*batch, static_cast<uint64_t>(i * batch->length())).ok()) std::abort();
    }
    benchmark::DoNotOptimize(sample);
  });
}
void SampleInts(benchmark::State& state) { SamplePass(state, RandomInts(65536, 40, 5)); }
void SampleTexts(benchmark::State& state) { SamplePass(state, RandomTexts(65536, 20, 5)); }
BENCHMARK(SampleInts)->Unit(benchmark::kMillisecond);
BENCHMARK(SampleTexts)->Unit(benchmark::kMillisecond);

// Rank and curve of four columns of 64-bit integers, 16 bits each, in batches of 65,536; values
// from a range of 2^bits.
void EncodeFourColumns(benchmark::State& state) {
  constexpr int64_t kRows = 65536;
  std::vector<std::shared_ptr<arrow::Array>> columns;
  std::vector<ColumnModel> models;
  for (uint64_t k = 0; k < 4; ++k) {
    const int bits = static_cast<int>(state.range(0));
    models.push_back(ModelOf(*RandomInts(1 << 17, bits, 10 + k)));
    columns.push_back(RandomInts(kRows, bits, 20 + k));
  }
  const auto encoder = KeyEncoder::Make(Curve::kHilbert, 16, std::move(models)).ValueOrDie();
  std::vector<Key64> keys(kRows);
  Measure(state, kRows, [&] {
    if (!encoder.Encode(columns, keys.data()).ok()) std::abort();
  });
}
BENCHMARK(EncodeFourColumns)->Arg(63)->Arg(30)->Arg(16);

}  // namespace
}  // namespace thalweg

int main(int argc, char** argv) {
  if (const char* limit = std::getenv("THALWEG_BENCHMARK_TARGETS")) {
    // Newer instruction sets have lower bits.
    int64_t newer = 0;
    for (int64_t bit = 1; bit != 0 && std::string(hwy::TargetName(bit)) != limit;
         bit = static_cast<int64_t>(static_cast<uint64_t>(bit) << 1))
      newer |= bit;
    hwy::SetSupportedTargetsForTest(hwy::SupportedTargets() & ~newer);
  }
  const int64_t targets = hwy::SupportedTargets();
  std::cerr << "instruction set: " << hwy::TargetName(targets & -targets) << "\n";
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
