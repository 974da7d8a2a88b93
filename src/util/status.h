#pragma once

#include <arrow/status.h>
#include <fmt/format.h>

#include <string>
#include <utility>

namespace thalweg {

/// What a failure means to the caller, beyond its message: decides the exit code and the retry.
enum class FailureKind {
  kError,     ///< exit code 1
  kUsage,     ///< exit code 2: the request itself is wrong
  kConflict,  ///< exit code 3: somebody else changed the table; plan again and retry
  kUnknown,   ///< exit code 4: a commit was sent and its outcome is not known; nothing may be
              ///< deleted
};

/// Wraps a message as a failure of the given kind. The kind travels as an arrow::StatusDetail.
arrow::Status Failure(FailureKind kind, std::string message);

/// The kind of a failed status; kError for a status that carries none.
FailureKind KindOf(const arrow::Status& status);

template <typename... Args>
arrow::Status Conflict(fmt::format_string<Args...> format, Args&&... args) {
  return Failure(FailureKind::kConflict, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
arrow::Status UnknownOutcome(fmt::format_string<Args...> format, Args&&... args) {
  return Failure(FailureKind::kUnknown, fmt::format(format, std::forward<Args>(args)...));
}
template <typename... Args>
arrow::Status Usage(fmt::format_string<Args...> format, Args&&... args) {
  return Failure(FailureKind::kUsage, fmt::format(format, std::forward<Args>(args)...));
}
/// An arrow::Status::Invalid with a formatted message.
template <typename... Args>
arrow::Status Invalid(fmt::format_string<Args...> format, Args&&... args) {
  return arrow::Status::Invalid(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace thalweg
