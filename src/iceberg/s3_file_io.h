#pragma once

#include <arrow/filesystem/s3fs.h>
#include <arrow/io/interfaces.h>
#include <arrow/result.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "iceberg/file_io.h"

namespace thalweg::iceberg {

/// How objects are reached: properties as PyIceberg names them (s3.endpoint, s3.access-key-id, …),
/// and those that hold below a prefix only, as REST catalogs hand them out.
struct S3Access {
  using Properties = std::map<std::string, std::string>;
  struct Credential {
    std::string prefix;  ///< of locations, "s3://bucket/folder"; the longest one that fits is used
    Properties properties;
  };
  Properties properties;
  std::vector<Credential> credentials;
  /// Asked for new access shortly before credentials expire (s3.session-token-expires-at-ms).
  std::function<arrow::Result<S3Access>()> renew;

  /// What holds for a location: the properties, those of the fitting credential before them.
  Properties For(const std::string& location) const;
  /// The earliest s3.session-token-expires-at-ms, nullopt when nothing expires.
  std::optional<int64_t> ExpiresAtMillis() const;
};

/// True for s3://, s3a:// and s3n://.
bool IsS3Location(std::string_view location);
/// "bucket/key" of such a location, without trailing slashes; an error without a bucket.
arrow::Result<std::string> S3PathOf(const std::string& location);

/// Arrow's options for properties. Those without region, credentials and so on fall back to the AWS
/// environment, files and roles. Initializes the library. What cannot be done as it is asked for
/// (remote signing, encryption settings, profiles) is an error.
arrow::Result<arrow::fs::S3Options> S3OptionsFor(const S3Access::Properties& properties);

/// Ends what the library behind S3 keeps in the background, if it was used; nothing in S3 can be
/// reached afterwards. A program must do so before it leaves main().
void FinalizeS3();

/// FileIO's operations on objects in S3, with the same meaning. Thread-safe; the library is
/// initialized when it is first used.
class S3FileIO {
 public:
  explicit S3FileIO(S3Access access) : access_(std::move(access)) {}

  void SetAccess(S3Access access);

  arrow::Result<std::string> ReadAll(const std::string& location, int64_t max_bytes);
  arrow::Result<std::shared_ptr<arrow::io::RandomAccessFile>> OpenInput(
      const std::string& location);
  arrow::Result<std::shared_ptr<arrow::io::OutputStream>> Create(const std::string& location);
  arrow::Status WriteNew(const std::string& location, std::string_view bytes);
  arrow::Result<std::optional<int64_t>> Size(const std::string& location);
  arrow::Status Delete(const std::string& location);
  arrow::Result<std::vector<FileIO::Listed>> List(const std::string& folder, bool recursive);
  arrow::Status Replace(const std::string& location, std::string_view bytes);

 private:
  /// A location's file system and its path there.
  struct Place {
    std::shared_ptr<arrow::fs::FileSystem> file_system;
    std::string path;
  };
  arrow::Result<Place> Find(const std::string& location);
  arrow::Status RenewAccess();  ///< with the mutex held
  arrow::Result<std::shared_ptr<arrow::io::OutputStream>> Open(const std::string& location);
  arrow::Status Write(const std::string& location, std::string_view bytes);

  std::mutex mutex_;
  S3Access access_;
  int64_t next_renewal_ = 0;
  /// By the properties that made them.
  std::map<S3Access::Properties, std::shared_ptr<arrow::fs::FileSystem>> file_systems_;
};

}  // namespace thalweg::iceberg
