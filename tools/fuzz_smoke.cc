// A plain driver of the fuzz targets (src/*/*_fuzz.cc) for every compiler: changes seeds at random
// for some seconds. It knows nothing of coverage; tools/fuzz.sh is the real search.
//
// usage: NAME_smoke CORPUS_DIR SECONDS [SEED]
//
// A crash, an input that takes longer than ten seconds, or more than 4 GiB of memory end it, and
// the input is in CORPUS_DIR.crash.

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

constexpr size_t kMaxBytes = 64 << 10;
constexpr unsigned kPatienceSeconds = 10;

std::string crash_path;
const std::string* running = nullptr;

/// Only what a signal handler may do.
void OnDeath(int number) {
  const int file = ::open(crash_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file >= 0 && running != nullptr && ::write(file, running->data(), running->size()) < 0) {
    // Nothing more can be done: the signal is what counts.
  }
  ::signal(number, SIG_DFL);
  ::raise(number);
}

class Mutator {
 public:
  Mutator(std::vector<std::string> seeds, uint64_t seed) : seeds_(std::move(seeds)), rng_(seed) {}

  std::string Next() {
    std::string input = Pick();
    for (size_t i = 1 + Below(6); i > 0; --i) Change(&input);
    if (input.size() > kMaxBytes) input.resize(kMaxBytes);
    return input;
  }

 private:
  size_t Below(size_t bound) { return bound == 0 ? 0 : rng_() % bound; }
  const std::string& Pick() { return seeds_[Below(seeds_.size())]; }

  void Change(std::string* input) {
    static constexpr uint64_t kOddNumbers[] = {0,          1,          0x7F,       0x80,
                                               0xFF,       0x7FFF,     0xFFFF,     0x7FFFFFFF,
                                               0x80000000, 0xFFFFFFFF, 1ULL << 62, ~0ULL};
    const size_t at = Below(input->size());
    const size_t length = std::min(1 + Below(64), input->size() - at);
    switch (Below(7)) {
      case 0:
        if (!input->empty()) (*input)[at] = static_cast<char>((*input)[at] ^ (1 << Below(8)));
        break;
      case 1:
        if (!input->empty()) (*input)[at] = static_cast<char>(Below(256));
        break;
      case 2: {
        const uint64_t number = kOddNumbers[Below(std::size(kOddNumbers))];
        const size_t bytes = std::min<size_t>(size_t{1} << Below(4), input->size() - at);
        std::memcpy(input->data() + at, &number, bytes);
        break;
      }
      case 3:
        input->erase(at, length);
        break;
      case 4:
        input->insert(at, input->substr(at, length));
        break;
      case 5:
        input->resize(at);
        break;
      default: {
        const std::string& other = Pick();
        const size_t from = Below(other.size());
        input->replace(at, length, other, from, 1 + Below(256));
      }
    }
  }

  const std::vector<std::string> seeds_;
  std::mt19937_64 rng_;
};

std::vector<std::string> ReadSeeds(const std::string& folder) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> seeds;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    seeds.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return seeds;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s CORPUS_DIR SECONDS [SEED]\n", argv[0]);
    return 2;
  }
  auto seeds = ReadSeeds(argv[1]);
  if (seeds.empty()) {
    std::fprintf(stderr, "%s: no seeds in %s\n", argv[0], argv[1]);
    return 1;
  }
  const uint64_t seed = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : std::random_device{}();
  crash_path = std::string(argv[1]) + ".crash";
  const rlimit memory{rlim_t{4} << 30, rlim_t{4} << 30};
  ::setrlimit(RLIMIT_DATA, &memory);
  for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGALRM}) ::signal(number, OnDeath);
  std::printf("%zu seeds, random seed %llu\n", seeds.size(), static_cast<unsigned long long>(seed));
  std::fflush(stdout);

  auto run = [](const std::string& input) {
    running = &input;
    ::alarm(kPatienceSeconds);
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
    ::alarm(0);
    running = nullptr;
  };
  for (const auto& one : seeds) run(one);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(std::atoi(argv[2]));
  Mutator mutator(std::move(seeds), seed);
  int64_t runs = 0;
  for (; std::chrono::steady_clock::now() < end; ++runs) run(mutator.Next());
  std::printf("%lld inputs\n", static_cast<long long>(runs));
  return 0;
}
