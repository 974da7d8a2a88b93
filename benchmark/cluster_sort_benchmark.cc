// Thread-seconds per stage of a cluster sort over rows like those of a web shop's event log,
// generated in memory:
//   cluster_sort_benchmark [million rows = 8] [threads = 2] [memory MiB, 0: unlimited] [file MiB =
//   8]
// The source makes its batches anew in each pass, so that the budget is not spent on input; files
// are counted, not encoded.
#include <arrow/api.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>

#include "sort/cluster_sort.h"
#include "sort/gather.h"

namespace thalweg {
namespace {

constexpr int64_t kBatchRows = 65536;
constexpr int64_t kPartRows = 200000;

std::shared_ptr<arrow::Schema> EventSchema() {
  return arrow::schema(
      {arrow::field("event_time", arrow::timestamp(arrow::TimeUnit::MICRO)),
       arrow::field("user_id", arrow::int64()), arrow::field("country", arrow::utf8()),
       arrow::field("amount", arrow::decimal128(12, 2)), arrow::field("url", arrow::utf8()),
       arrow::field("payload", arrow::utf8())});
}

std::shared_ptr<arrow::RecordBatch> MakeEvents(int64_t first, int64_t n, int64_t total) {
  std::mt19937_64 rng(first);
  std::uniform_real_distribution<double> u;
  arrow::TimestampBuilder time(arrow::timestamp(arrow::TimeUnit::MICRO),
                               arrow::default_memory_pool());
  arrow::Int64Builder user;
  arrow::StringBuilder country, url, payload;
  arrow::Decimal128Builder amount(arrow::decimal128(12, 2));
  for (int64_t i = 0; i < n; ++i) {
    const double at = static_cast<double>(first + i) / static_cast<double>(total);
    (void)time.Append(static_cast<int64_t>((u(rng) < 0.03 ? at * u(rng) : at) * 7.776e12));
    (void)user.Append(static_cast<int64_t>(1e7 * std::pow(u(rng), 3)));
    (void)country.Append(fmt::format("{:02d}", static_cast<int>(200 * std::pow(u(rng), 4))));
    (void)amount.Append(arrow::Decimal128(static_cast<int64_t>(u(rng) * 10000)));
    (void)url.Append(fmt::format("https://www.example.com/shop/catalogue/it{}", rng() % 50000));
    (void)payload.Append(fmt::format("{:016x}{:012x}", rng(), rng() % 1000000000));
  }
  return arrow::RecordBatch::Make(
      EventSchema(), n,
      {time.Finish().ValueOrDie(), user.Finish().ValueOrDie(), country.Finish().ValueOrDie(),
       amount.Finish().ValueOrDie(), url.Finish().ValueOrDie(), payload.Finish().ValueOrDie()});
}

std::atomic<int64_t> source_nanos{0};

int64_t ThreadNanos() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec * 1000000000 + t.tv_nsec;
}

class EventSource : public RowSource {
 public:
  explicit EventSource(int64_t rows) : schema_(EventSchema()), rows_(rows) {}
  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  int num_parts() const override { return static_cast<int>((rows_ + kPartRows - 1) / kPartRows); }
  int64_t num_rows() const override { return rows_; }
  int64_t encoded_bytes() const override { return rows_ * 36; }
  arrow::Result<std::unique_ptr<RowStream>> OpenPart(int part,
                                                     const std::vector<int>& columns) override {
    struct Stream : RowStream {
      int64_t at, end, total;
      std::vector<int> columns;
      arrow::Result<std::optional<RowBatch>> Next() override {
        if (at == end) return std::nullopt;
        const int64_t before = ThreadNanos();
        const int64_t n = std::min(kBatchRows, end - at);
        RowBatch out;
        ARROW_ASSIGN_OR_RAISE(out.batch, MakeEvents(at, n, total)->SelectColumns(columns));
        out.first_address = static_cast<uint64_t>(at);
        at += n;
        source_nanos += ThreadNanos() - before;
        return out;
      }
    };
    auto stream = std::make_unique<Stream>();
    stream->at = part * kPartRows;
    stream->end = std::min(rows_, stream->at + kPartRows);
    stream->total = rows_;
    stream->columns = columns;
    return stream;
  }

 private:
  std::shared_ptr<arrow::Schema> schema_;
  int64_t rows_;
};

class CountingWriter : public SortedFileWriter {
 public:
  arrow::Status Write(const arrow::RecordBatch& batch) override {
    bytes_ += static_cast<double>(ReferencedBytes(batch)) * 0.3;
    return arrow::Status::OK();
  }
  arrow::Status EndRowGroup() override { return arrow::Status::OK(); }
  int64_t bytes_estimate() const override { return static_cast<int64_t>(bytes_); }
  arrow::Result<int64_t> Finish() override { return bytes_estimate(); }
  arrow::Status Discard() override { return arrow::Status::OK(); }

 private:
  double bytes_ = 0;
};

double CpuSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

arrow::Status Run(int argc, char** argv) {
  auto argument = [&](int i, double otherwise) {
    return argc > i ? std::atof(argv[i]) : otherwise;
  };
  const auto rows = static_cast<int64_t>(argument(1, 8) * 1e6);
  const auto mebibytes = static_cast<int64_t>(argument(3, 0));
  MemoryAccount memory(mebibytes > 0 ? mebibytes << 20 : int64_t{1} << 60);
  ClusterSortOptions options;
  options.memory = &memory;
  options.threads = static_cast<int>(argument(2, 2));
  options.target_file_bytes = static_cast<int64_t>(argument(4, 8)) << 20;
  double stage_cpu = CpuSeconds();
  auto report = [&](const char* stage) {
    const double now = CpuSeconds();
    const double source = static_cast<double>(source_nanos.exchange(0)) * 1e-9;
    std::printf("%-10s %6.2f thread-seconds besides the source's %.2f\n", stage,
                now - stage_cpu - source, source);
    stage_cpu = now;
  };
  int last = 0;
  options.progress = [&](const ClusterSortProgress& progress) {
    if (static_cast<int>(progress.stage) == last) return;
    if (last == 1) report("scatter");
    last = static_cast<int>(progress.stage);
  };
  EventSource source(rows);
  const auto start = std::chrono::steady_clock::now();
  ARROW_ASSIGN_OR_RAISE(auto fitted, FitKeys(source, {1, 0}, Curve::kHilbert, 16,
                                             Algorithm::kTypedQuantileRankV1, options));
  report("fit");
  ARROW_ASSIGN_OR_RAISE(
      auto result,
      SortIntoFiles(
          source, {1, 0}, fitted,
          [](const FilePlacement&) -> arrow::Result<std::unique_ptr<SortedFileWriter>> {
            return std::make_unique<CountingWriter>();
          },
          options));
  report("gather");
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  std::printf(
      "%.2f s wall, %zu files, %lld cut again, %.0f MiB spilled (at most %.0f at once), account "
      "peak %.0f MiB, peak RSS %.0f "
      "MiB\n",
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(),
      result.files.size(), static_cast<long long>(result.discarded_files),
      static_cast<double>(result.spilled_bytes) / 1048576,
      static_cast<double>(result.peak_spill_bytes) / 1048576,
      static_cast<double>(memory.peak()) / 1048576, static_cast<double>(usage.ru_maxrss) / 1024);
  return arrow::Status::OK();
}

}  // namespace
}  // namespace thalweg

int main(int argc, char** argv) {
  const arrow::Status status = thalweg::Run(argc, argv);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
