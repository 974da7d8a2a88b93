#include "util/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "util/status.h"

namespace thalweg {

arrow::Result<std::string> ReadWholeFile(const std::string& path, int64_t most) {
  const auto error = [] { return std::strerror(errno); };
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return Invalid("{}: cannot be opened: {}", path, error());
  std::string text;
  arrow::Status status;
  struct stat info;
  if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode)) {
    status = Invalid("{}: is not a regular file", path);
  } else if (info.st_size > most) {
    status = Invalid("{}: has {} bytes, too many for what it should be", path, info.st_size);
  } else {
    text.resize(info.st_size);
    size_t done = 0;
    while (status.ok() && done < text.size()) {
      const ssize_t n = read(file, text.data() + done, text.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        status = Invalid("{}: cannot be read: {}", path, n < 0 ? error() : "truncated");
      } else {
        done += n;
      }
    }
  }
  close(file);
  ARROW_RETURN_NOT_OK(status);
  return text;
}

}  // namespace thalweg
