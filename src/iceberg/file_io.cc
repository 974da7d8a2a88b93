#include "iceberg/file_io.h"

#include <arrow/buffer.h>
#include <arrow/io/file.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "iceberg/s3_file_io.h"
#include "util/status.h"
#include "util/uuid.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE (1 << 0)
#endif

namespace thalweg::iceberg {
namespace {

arrow::Status SystemError(std::string_view action, const std::string& location, int error) {
  const std::string reason = std::error_code(error, std::generic_category()).message();
  std::string message = fmt::format("cannot {} {}: {}", action, location, reason);
  if (error == EEXIST) return arrow::Status::AlreadyExists(message);
  return arrow::Status::IOError(message);
}

template <typename Call>
auto Retry(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

std::string ParentFolder(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

class Descriptor {
 public:
  Descriptor(const std::string& path, int flags, mode_t mode = 0666)
      : fd_(Retry([&] { return ::open(path.c_str(), flags | O_CLOEXEC, mode); })) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  bool ok() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

arrow::Status WriteAll(int fd, const char* data, int64_t size, const std::string& location) {
  constexpr int64_t kLargestWrite = int64_t{1} << 30;
  while (size > 0) {
    const auto length = static_cast<size_t>(std::min(size, kLargestWrite));
    const ssize_t written = Retry([&] { return ::write(fd, data, length); });
    if (written < 0) return SystemError("write", location, errno);
    data += written;
    size -= written;
  }
  return arrow::Status::OK();
}

/// A new file; unlike Arrow's own stream its errors name the location.
class NewFileStream : public arrow::io::OutputStream {
 public:
  NewFileStream(int fd, std::string location) : fd_(fd), location_(std::move(location)) {
    set_mode(arrow::io::FileMode::WRITE);
  }
  ~NewFileStream() override {
    if (fd_ >= 0) ::close(fd_);
  }
  arrow::Status Close() override {
    if (fd_ < 0) return arrow::Status::OK();
    const int fd = std::exchange(fd_, -1);
    // On Linux the descriptor is gone even when close() reports an error.
    if (::close(fd) != 0 && errno != EINTR) return SystemError("close", location_, errno);
    return arrow::Status::OK();
  }
  bool closed() const override { return fd_ < 0; }
  arrow::Result<int64_t> Tell() const override { return position_; }
  using arrow::io::OutputStream::Write;
  arrow::Status Write(const void* data, int64_t size) override {
    if (fd_ < 0) return Invalid("cannot write {}: the file is closed", location_);
    ARROW_RETURN_NOT_OK(WriteAll(fd_, static_cast<const char*>(data), size, location_));
    position_ += size;
    return arrow::Status::OK();
  }
  arrow::Status Flush() override { return arrow::Status::OK(); }

 private:
  int fd_;
  std::string location_;
  int64_t position_ = 0;
};

arrow::Status MakeParents(const std::string& path, const std::string& location) {
  std::error_code error;
  std::filesystem::create_directories(ParentFolder(path), error);
  if (error) return SystemError("create the folder of", location, error.value());
  return arrow::Status::OK();
}

arrow::Status SyncFolder(const std::string& folder, const std::string& location) {
  Descriptor fd(folder, O_RDONLY | O_DIRECTORY);
  if (!fd.ok()) return SystemError("open the folder of", location, errno);
  // Some file systems cannot sync a folder and say EINVAL.
  if (Retry([&] { return ::fsync(fd.get()); }) != 0 && errno != EINVAL) {
    return SystemError("sync the folder of", location, errno);
  }
  return arrow::Status::OK();
}

arrow::Status WriteFile(const std::string& path, std::string_view bytes,
                        const std::string& location) {
  ARROW_RETURN_NOT_OK(MakeParents(path, location));
  Descriptor fd(path, O_WRONLY | O_CREAT | O_EXCL);
  if (!fd.ok()) return SystemError("create", location, errno);
  auto status = WriteAll(fd.get(), bytes.data(), static_cast<int64_t>(bytes.size()), location);
  if (status.ok() && Retry([&] { return ::fsync(fd.get()); }) != 0) {
    status = SystemError("sync", location, errno);
  }
  if (::close(fd.Release()) != 0 && errno != EINTR && status.ok()) {
    status = SystemError("close", location, errno);
  }
  if (!status.ok()) ::unlink(path.c_str());
  return status;
}

/// link() + unlink(), for file systems without renameat2(RENAME_NOREPLACE): as atomic, link() never
/// replaces.
int LinkAndUnlink(const std::string& from, const std::string& to) {
  if (::link(from.c_str(), to.c_str()) != 0) return -1;
  ::unlink(from.c_str());
  return 0;
}

arrow::Status ListInto(const std::string& path, const std::string& location, bool recursive,
                       std::vector<FileIO::Listed>* files) {
  std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(path.c_str()), ::closedir);
  if (!folder) {
    return errno == ENOENT ? arrow::Status::OK() : SystemError("list", location, errno);
  }
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(folder.get());
    if (entry == nullptr) {
      return errno == 0 ? arrow::Status::OK() : SystemError("list", location, errno);
    }
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat link, info;
    // A file that went away since readdir() is not listed.
    if (::fstatat(::dirfd(folder.get()), name.c_str(), &link, AT_SYMLINK_NOFOLLOW) != 0) continue;
    if (::fstatat(::dirfd(folder.get()), name.c_str(), &info, 0) != 0) continue;
    if (S_ISDIR(info.st_mode)) {
      // Links to folders are not followed: they may lead out of the table or round in circles.
      if (recursive && S_ISDIR(link.st_mode)) {
        ARROW_RETURN_NOT_OK(
            ListInto(JoinLocation(path, name), JoinLocation(location, name), recursive, files));
      }
    } else if (S_ISREG(info.st_mode)) {
      files->push_back({JoinLocation(location, name), info.st_size,
                        info.st_mtim.tv_sec * int64_t{1000} + info.st_mtim.tv_nsec / 1000000});
    }
  }
}

/// The scheme of "scheme:/…", "" for a plain path.
std::string_view SchemeOf(std::string_view location) {
  const auto colon = location.find(":/");
  if (colon == std::string_view::npos || colon == 0) return "";
  const auto scheme = location.substr(0, colon);
  const bool valid = std::all_of(scheme.begin(), scheme.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '+' || c == '-' || c == '.';
  });
  return valid ? scheme : "";
}

}  // namespace

FileIO::FileIO() : FileIO(S3Access::Properties{}) {}

FileIO::FileIO(const std::map<std::string, std::string>& properties)
    : s3_(std::make_shared<S3FileIO>(S3Access{properties, {}, nullptr})) {}

void FileIO::SetS3Access(S3Access access) { s3_->SetAccess(std::move(access)); }

arrow::Result<std::string> FileIO::LocalPath(const std::string& location) {
  if (location.find('\0') != std::string::npos) {
    return Invalid("the location {}\\0... holds a NUL character", location.c_str());
  }
  const std::string_view scheme = SchemeOf(location);
  if (scheme.empty()) {
    if (location.empty()) return Invalid("the location is empty");
    return location;
  }
  if (scheme != "file") {
    return arrow::Status::NotImplemented(fmt::format(
        "{}: the file system \"{}\" is not supported; local files and S3 are", location, scheme));
  }
  std::string path = location.substr(scheme.size() + 1);
  if (path.starts_with("//")) {
    const auto slash = path.find('/', 2);
    const std::string host = path.substr(2, slash == std::string::npos ? slash : slash - 2);
    if (slash == std::string::npos || (!host.empty() && host != "localhost")) {
      return Invalid("{}: names a file on another host; only file:///path is supported", location);
    }
    path.erase(0, slash);
  }
  return path;
}

arrow::Result<std::string> FileIO::ReadAll(const std::string& location, int64_t max_bytes) const {
  if (IsS3Location(location)) return s3_->ReadAll(location, max_bytes);
  ARROW_ASSIGN_OR_RAISE(const std::string path, LocalPath(location));
  Descriptor fd(path, O_RDONLY);
  struct stat info;
  if (!fd.ok() || ::fstat(fd.get(), &info) != 0) return SystemError("read", location, errno);
  if (S_ISDIR(info.st_mode)) return SystemError("read", location, EISDIR);
  if (info.st_size > max_bytes) {
    return Invalid("{}: {} bytes, more than the {} that are expected at most", location,
                   int64_t{info.st_size}, max_bytes);
  }
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got =
        Retry([&] { return ::read(fd.get(), bytes.data() + done, bytes.size() - done); });
    if (got < 0) return SystemError("read", location, errno);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

arrow::Result<std::shared_ptr<arrow::io::RandomAccessFile>> FileIO::OpenInput(
    const std::string& location) const {
  if (IsS3Location(location)) return s3_->OpenInput(location);
  ARROW_ASSIGN_OR_RAISE(const std::string path, LocalPath(location));
  Descriptor fd(path, O_RDONLY);
  struct stat info;
  if (!fd.ok() || ::fstat(fd.get(), &info) != 0) return SystemError("read", location, errno);
  if (S_ISDIR(info.st_mode)) return SystemError("read", location, EISDIR);
  ARROW_ASSIGN_OR_RAISE(auto file, arrow::io::ReadableFile::Open(fd.get()));
  fd.Release();
  return file;
}

arrow::Result<std::shared_ptr<arrow::io::OutputStream>> FileIO::Create(
    const std::string& location) const {
  if (IsS3Location(location)) return s3_->Create(location);
  ARROW_ASSIGN_OR_RAISE(const std::string path, LocalPath(location));
  ARROW_RETURN_NOT_OK(MakeParents(path, location));
  Descriptor fd(path, O_WRONLY | O_CREAT | O_EXCL);
  if (!fd.ok()) return SystemError("create", location, errno);
  return std::make_shared<NewFileStream>(fd.Release(), location);
}

arrow::Status FileIO::WriteNew(const std::string& location, std::string_view bytes) const {
  if (IsS3Location(location)) return s3_->WriteNew(location, bytes);
  ARROW_ASSIGN_OR_RAISE(const std::string path, LocalPath(location));
  ARROW_RETURN_NOT_OK(WriteFile(path, bytes, location));
  auto status = SyncFolder(ParentFolder(path), location);
  if (!status.ok()) ::unlink(path.c_str());
  return status;
}

arrow::Status FileIO::Sync(const std::string& location) const {
  if (IsS3Location(location)) return arrow::Status::OK();  // there since its stream was closed
  ARROW_ASSIGN_OR_RAISE(const std::string path, LocalPath(location));
  Descriptor fd(path, O_RDONLY);
  if (!fd.ok()) return SystemError("sync", location, errno);
  if (Retry([&] { return ::fsync(fd.get()); }) != 0) return SystemError("sync", location, errno);
  return SyncFolder(ParentFolder(path), location);
}

arrow::Result<std::optional<int64_t>> FileIO::Size(const std::string& location) const {
  if (IsS3Location(location)) return s3_->Size(location);
  ARROW_ASSIGN_OR_RAISE(const std::string path, LocalPath(location));
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    return SystemError("look up", location, errno);
  }
  return std::optional<int64_t>(info.st_size);
}

arrow::Status FileIO::Delete(const std::string& location) const {
  if (IsS3Location(location)) return s3_->Delete(location);
  ARROW_ASSIGN_OR_RAISE(const std::string path, LocalPath(location));
  if (::unlink(path.c_str()) != 0 && errno != ENOENT && errno != ENOTDIR) {
    return SystemError("delete", location, errno);
  }
  return arrow::Status::OK();
}

arrow::Result<std::vector<FileIO::Listed>> FileIO::List(const std::string& folder,
                                                        bool recursive) const {
  if (IsS3Location(folder)) return s3_->List(folder, recursive);
  ARROW_ASSIGN_OR_RAISE(const std::string path, LocalPath(folder));
  std::vector<Listed> files;
  ARROW_RETURN_NOT_OK(ListInto(path, folder, recursive, &files));
  return files;
}

arrow::Status FileIO::RenameNoReplace(const std::string& from, const std::string& to) const {
  if (IsS3Location(from) || IsS3Location(to)) {
    return arrow::Status::NotImplemented(
        fmt::format("cannot rename {} to {}: S3 has no rename that does not replace", from, to));
  }
  ARROW_ASSIGN_OR_RAISE(const std::string source, LocalPath(from));
  ARROW_ASSIGN_OR_RAISE(const std::string target, LocalPath(to));
  long result = ::syscall(SYS_renameat2, AT_FDCWD, source.c_str(), AT_FDCWD, target.c_str(),
                          RENAME_NOREPLACE);
  if (result != 0 && (errno == ENOSYS || errno == EINVAL)) result = LinkAndUnlink(source, target);
  if (result != 0) return SystemError(fmt::format("rename {} to", from), to, errno);
  return SyncFolder(ParentFolder(target), to);
}

arrow::Status FileIO::Replace(const std::string& location, std::string_view bytes) const {
  if (IsS3Location(location)) return s3_->Replace(location, bytes);
  ARROW_ASSIGN_OR_RAISE(const std::string path, LocalPath(location));
  const std::string temporary = path + "." + NewUuid() + ".tmp";
  ARROW_RETURN_NOT_OK(WriteFile(temporary, bytes, location));
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    ::unlink(temporary.c_str());
    return SystemError("replace", location, error);
  }
  return SyncFolder(ParentFolder(path), location);
}

std::string JoinLocation(const std::string& location, const std::string& name) {
  std::string joined = location;
  while (joined.size() > 1 && joined.back() == '/') joined.pop_back();
  if (joined.empty() || joined.back() != '/') joined += '/';
  return joined + name;
}

bool IsAbsoluteLocation(const std::string& location) {
  return location.starts_with('/') || !SchemeOf(location).empty();
}

std::string FileIO::Canonical(const std::string& location) {
  if (IsS3Location(location)) {
    auto path = S3PathOf(location);
    return path.ok() ? "s3://" + *path : location;
  }
  auto path = LocalPath(location);
  return path.ok() ? *path : location;
}

std::vector<std::string> FileIO::Spellings(const std::string& location) {
  std::vector<std::string> spellings{location};
  if (IsS3Location(location)) {
    const std::string rest = location.substr(location.find("://"));
    for (const char* scheme : {"s3", "s3a", "s3n"}) spellings.push_back(scheme + rest);
  } else if (auto path = LocalPath(location); path.ok()) {
    for (const char* prefix : {"", "file:", "file://", "file://localhost"}) {
      spellings.push_back(prefix + *path);
    }
  }
  return spellings;
}

bool SameLocation(const std::string& a, const std::string& b) {
  if (a == b) return true;
  if (IsS3Location(a) || IsS3Location(b)) return FileIO::Canonical(a) == FileIO::Canonical(b);
  auto canonical = [](const std::string& location) -> std::string {
    auto path = FileIO::LocalPath(location);
    if (!path.ok()) return "";
    std::error_code error;
    auto resolved = std::filesystem::weakly_canonical(*path, error).string();
    if (error) return "";
    while (resolved.size() > 1 && resolved.back() == '/') resolved.pop_back();
    return resolved;
  };
  const std::string first = canonical(a);
  return !first.empty() && first == canonical(b);
}

}  // namespace thalweg::iceberg
