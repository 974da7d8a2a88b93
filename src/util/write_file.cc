#include "util/write_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "util/status.h"

namespace thalweg {

arrow::Status WriteWholeFile(const std::string& path, std::string_view text, bool replace) {
  const std::string target = replace ? fmt::format("{}.{}.tmp", path, getpid()) : path;
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (replace ? O_TRUNC : O_EXCL);
  const int file = open(target.c_str(), flags, 0666);
  if (file < 0) return Invalid("{}: cannot be written: {}", path, std::strerror(errno));
  int error = 0;
  while (error == 0 && !text.empty()) {
    const ssize_t n = write(file, text.data(), text.size());
    if (n >= 0) {
      text.remove_prefix(static_cast<size_t>(n));
    } else if (errno != EINTR) {
      error = errno;
    }
  }
  if (error == 0 && fsync(file) != 0) error = errno;
  if (close(file) != 0 && error == 0) error = errno;
  if (error == 0 && replace && rename(target.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return arrow::Status::OK();
  unlink(target.c_str());
  return Invalid("{}: cannot be written: {}", path, std::strerror(error));
}

}  // namespace thalweg
