#pragma once

#include <arrow/record_batch.h>
#include <arrow/result.h>
#include <arrow/type.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "util/json.h"

struct ThalwegLanceDataset;
struct ThalwegLanceWriter;

namespace thalweg::lance {

using Properties = std::map<std::string, std::string>;

/// Failures of the library behind: conflicts and unknown outcomes are of their kind
/// (util/status.h); what is not there is a KeyError, a dataset that exists is AlreadyExists,
/// storage that fails is an IOError.
bool IsNotFound(const arrow::Status& status);

/// Writes one data file. Used by one thread; the destructor deletes a file that is not finished.
class DataWriter {
 public:
  explicit DataWriter(ThalwegLanceWriter* handle) : handle_(handle) {}
  ~DataWriter();
  DataWriter(const DataWriter&) = delete;
  DataWriter& operator=(const DataWriter&) = delete;

  /// All top-level columns, in the schema's order.
  arrow::Status Write(const arrow::RecordBatch& batch);
  arrow::Result<int64_t> bytes() const;
  /// {"fragment", "rows", "bytes"}; see thalweg_lance.h.
  arrow::Result<Json> Finish();

 private:
  ThalwegLanceWriter* handle_;
};

/// One immutable version of one dataset, through the library libthalweg_lance.so. Thread-safe. What
/// requests and answers hold is documented in thalweg_lance.h. Opening the first one loads the
/// library: its absence is an error that says how to get it.
class Dataset {
 public:
  /// `version` 0 is the latest.
  static arrow::Result<std::shared_ptr<const Dataset>> Open(const std::string& uri,
                                                            const Properties& options,
                                                            uint64_t version = 0);
  static arrow::Result<std::shared_ptr<const Dataset>> Create(const std::string& uri,
                                                              const Properties& options,
                                                              const arrow::Schema& schema,
                                                              const Json& request);
  explicit Dataset(ThalwegLanceDataset* handle) : handle_(handle) {}
  ~Dataset();
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  arrow::Result<Json> Describe() const;
  arrow::Result<std::shared_ptr<arrow::Schema>> Schema() const;
  arrow::Result<uint64_t> LatestVersion() const;
  arrow::Result<Json> Transactions(uint64_t from, uint64_t to) const;

  arrow::Result<std::shared_ptr<arrow::RecordBatchReader>> Scan(const Json& request) const;
  arrow::Result<std::shared_ptr<arrow::RecordBatchReader>> Zones(const std::string& column) const;

  /// `name`: of the new file in data/. `buffer_bytes`: that its encoders may hold back; 0: Lance's
  /// default.
  arrow::Result<std::unique_ptr<DataWriter>> NewDataFile(const std::string& name,
                                                         int64_t buffer_bytes) const;
  arrow::Result<Json> DataFileInfo(const std::string& path) const;

  arrow::Result<Json> CommitFragments(const Json& request) const;
  arrow::Result<Json> ReserveFragments(const Json& request) const;
  /// `rows` may be null.
  arrow::Result<Json> CommitRewrite(const Json& request,
                                    const std::shared_ptr<arrow::RecordBatchReader>& rows) const;
  arrow::Result<Json> UpdateMetadata(const Json& request) const;
  arrow::Result<Json> RefreshZoneMaps(const Json& request) const;
  arrow::Status CheckSources(const Json& request) const;
  arrow::Result<Json> UnifyIndices(const Json& request) const;

  struct File {
    std::string path;
    int64_t bytes = 0;
    int64_t modified_millis = 0;
  };
  arrow::Result<std::vector<File>> ListFiles(const std::string& folder) const;
  arrow::Result<std::string> ReadFile(const std::string& path) const;
  arrow::Status WriteFile(const std::string& path, std::string_view bytes) const;
  arrow::Status DeleteFile(const std::string& path) const;
  arrow::Result<std::vector<std::string>> ReferencedFiles() const;

 private:
  ThalwegLanceDataset* const handle_;
};

}  // namespace thalweg::lance
