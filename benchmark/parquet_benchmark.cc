// Reads Parquet data files (with field ids, one schema) with two threads, then writes their rows
// again in files of about the same size, and prints seconds per stage and bytes.
//
//   parquet_benchmark OUTPUT_FOLDER SCHEMA.json FILE.parquet...
//
// SCHEMA.json is an Iceberg schema ("fields" and all).

#include <arrow/api.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "iceberg/file_io.h"
#include "iceberg/parquet_reader.h"
#include "iceberg/parquet_writer.h"

namespace thalweg::iceberg {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

/// Runs work(i) for i < n on two threads.
arrow::Status OnTwoThreads(int n, const std::function<arrow::Status(int)>& work) {
  std::atomic<int> next{0};
  arrow::Status results[2];
  auto run = [&](arrow::Status* result) {
    for (int i = next++; i < n && result->ok(); i = next++) *result = work(i);
  };
  std::thread other(run, &results[1]);
  run(&results[0]);
  other.join();
  return results[0] & results[1];
}

arrow::Status Run(int argc, char** argv) {
  auto io = std::make_shared<FileIO>();
  const std::string output = argv[1];
  ARROW_ASSIGN_OR_RAISE(std::string schema_text, io->ReadAll(argv[2]));
  ARROW_ASSIGN_OR_RAISE(Json schema_json, ParseJson(schema_text, argv[2]));
  ARROW_ASSIGN_OR_RAISE(Schema schema, Schema::FromJson(schema_json));
  std::vector<DataFile> files;
  for (int i = 3; i < argc; ++i) {
    DataFile file;
    file.file_path = std::filesystem::absolute(argv[i]);
    ARROW_ASSIGN_OR_RAISE(auto footer, ReadParquetFooter(*io, file.file_path));
    file.record_count = footer.rows;
    file.file_size_in_bytes = static_cast<int64_t>(std::filesystem::file_size(argv[i]));
    files.push_back(std::move(file));
  }

  MemoryAccount memory(int64_t{1} << 40);
  double start = Now();
  double cpu = CpuSeconds();
  ARROW_ASSIGN_OR_RAISE(auto source, ScanParquetFiles(io, schema, files, &memory));
  std::vector<int> columns(source->schema()->num_fields());
  for (size_t i = 0; i < columns.size(); ++i) columns[i] = static_cast<int>(i);
  std::vector<std::vector<std::shared_ptr<arrow::RecordBatch>>> batches(source->num_parts());
  ARROW_RETURN_NOT_OK(OnTwoThreads(source->num_parts(), [&](int part) -> arrow::Status {
    ARROW_ASSIGN_OR_RAISE(auto stream, source->OpenPart(part, columns));
    while (true) {
      ARROW_ASSIGN_OR_RAISE(auto next, stream->Next());
      if (!next) return arrow::Status::OK();
      batches[part].push_back(std::move(next->batch));
    }
  }));
  std::printf("read: %lld rows, %lld bytes in %.2f s, %.2f thread-seconds\n",
              static_cast<long long>(source->num_rows()),
              static_cast<long long>(source->encoded_bytes()), Now() - start, CpuSeconds() - cpu);

  start = Now();
  cpu = CpuSeconds();
  std::atomic<int64_t> written{0};
  std::atomic<int64_t> misjudged{0};
  ARROW_RETURN_NOT_OK(OnTwoThreads(source->num_parts(), [&](int part) -> arrow::Status {
    ARROW_ASSIGN_OR_RAISE(auto options, ParquetWriteOptions::FromProperties({}, schema));
    options.memory = &memory;
    ARROW_ASSIGN_OR_RAISE(
        auto writer,
        ParquetFileWriter::Open(io, schema, fmt::format("{}/{}.parquet", output, part), options));
    for (const auto& batch : batches[part]) ARROW_RETURN_NOT_OK(writer->Write(*batch));
    const int64_t estimate = writer->bytes_estimate();
    ARROW_ASSIGN_OR_RAISE(DataFile file, writer->Finish());
    written += file.file_size_in_bytes;
    misjudged += std::abs(file.file_size_in_bytes - estimate);
    return arrow::Status::OK();
  }));
  std::printf("write: %lld bytes in %.2f s, %.2f thread-seconds; estimates are off by %.1f %%\n",
              static_cast<long long>(written), Now() - start, CpuSeconds() - cpu,
              100.0 * static_cast<double>(misjudged) / static_cast<double>(written));
  return arrow::Status::OK();
}

}  // namespace
}  // namespace thalweg::iceberg

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: parquet_benchmark OUTPUT_FOLDER SCHEMA.json FILE.parquet...\n");
    return 2;
  }
  arrow::Status status = thalweg::iceberg::Run(argc, argv);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
