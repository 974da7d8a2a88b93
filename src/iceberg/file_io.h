#pragma once

#include <arrow/filesystem/filesystem.h>
#include <arrow/io/interfaces.h>
#include <arrow/result.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace thalweg::iceberg {

class S3FileIO;
struct S3Access;

/// Files by the location strings that table metadata holds: "/abs/path", "file:/abs",
/// "file:///abs", "file://localhost/abs", and objects in S3: "s3://bucket/key" (s3a, s3n). Other
/// schemes are refused with an error that names them. Locations are never rewritten: what is stored
/// in metadata is the string as given. Thread-safe. Errors name the location and the system's
/// reason.
class FileIO {
 public:
  FileIO();
  /// With the properties of a catalog, of which S3 takes its own ("s3.…", "client.…").
  explicit FileIO(const std::map<std::string, std::string>& properties);

  /// How objects in S3 are reached from now on, and how to learn it anew when credentials expire.
  void SetS3Access(S3Access access);

  arrow::Result<std::string> ReadAll(const std::string& location,
                                     int64_t max_bytes = int64_t{1} << 31) const;
  arrow::Result<std::shared_ptr<arrow::io::RandomAccessFile>> OpenInput(
      const std::string& location) const;
  /// Creates parent folders. Fails when the file exists. The returned stream's Close() does not
  /// sync; call Sync() after it. An object in S3 appears as a whole at Close(); a stream that is
  /// dropped without it leaves nothing. Whether it exists is looked up before, not in the same
  /// step.
  arrow::Result<std::shared_ptr<arrow::io::OutputStream>> Create(const std::string& location) const;
  /// Create + write + close + fsync (file and folder). On failure nothing is left behind.
  arrow::Status WriteNew(const std::string& location, std::string_view bytes) const;
  arrow::Status Sync(const std::string& location) const;
  /// Size of the file, nullopt when it does not exist.
  arrow::Result<std::optional<int64_t>> Size(const std::string& location) const;
  /// Deleting what is not there is no error.
  arrow::Status Delete(const std::string& location) const;

  struct Listed {
    std::string location;  ///< in the same form (scheme or none) as the folder that was asked for
    int64_t size = 0;
    int64_t modified_millis = 0;
  };
  /// Files (not folders) below the folder; empty when the folder does not exist.
  arrow::Result<std::vector<Listed>> List(const std::string& folder, bool recursive) const;
  /// Atomic: fails with AlreadyExists when `to` exists. Refused in S3, which has no such step.
  arrow::Status RenameNoReplace(const std::string& from, const std::string& to) const;
  /// Atomic replacement (temporary file, fsync, rename; in S3 one upload).
  arrow::Status Replace(const std::string& location, std::string_view bytes) const;

  /// The local path behind a location; an error for one that is not local.
  static arrow::Result<std::string> LocalPath(const std::string& location);
  /// The same string for every spelling of one file: the local path, or s3://bucket/key. Other
  /// locations come back as they are.
  static std::string Canonical(const std::string& location);
  /// All spellings of the file that the location names, itself among them.
  static std::vector<std::string> Spellings(const std::string& location);

 private:
  std::shared_ptr<S3FileIO> s3_;
};

/// `location` without a trailing slash, then '/' and `name`.
std::string JoinLocation(const std::string& location, const std::string& name);
/// Whether the location means the same whatever folder a program runs in: "/…" or "scheme:/…".
bool IsAbsoluteLocation(const std::string& location);
/// True when both name the same file, whatever the scheme's spelling.
bool SameLocation(const std::string& a, const std::string& b);

}  // namespace thalweg::iceberg
