#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace thalweg::iceberg {

struct HttpOptions {
  std::string ca_bundle;  ///< file or folder of certificates; "": the system's
  std::string client_certificate, client_key;
  int64_t connect_timeout_ms = 10'000;
  int64_t stall_timeout_ms = 60'000;  ///< without a single byte in either direction
  /// A request may go on for so long after an interrupt: long enough to clean up with a server that
  /// answers.
  int64_t interrupt_grace_ms = 5'000;
  int64_t max_bytes = int64_t{1} << 30;  ///< of a decompressed answer
};

struct HttpRequest {
  std::string method;  ///< "GET", "HEAD", "POST"
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;
  /// Whether an interrupt ends the wait (after a short grace); a commit that was sent is waited
  /// for.
  bool interruptible = true;
};

struct HttpResponse {
  int status = 0;
  std::map<std::string, std::string> headers;  ///< names in lower case
  std::string body;
  std::string header(const std::string& name) const;
};

/// One connection to one server, over HTTP/1.1. Certificates are verified. Thread-safe: requests
/// wait for each other.
class HttpClient {
 public:
  explicit HttpClient(HttpOptions options);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  /// Sends the request and reads the whole answer, whatever its status. Redirects are followed only
  /// where they lead to the same scheme, host and port and only for GET and HEAD (others: 307 and
  /// 308). Failures (no answer): IOError when there was no connection, Invalid for other reasons
  /// for which the request was certainly not sent, and of kind kUnknown when it may have been.
  /// Nothing is sent twice. Messages name scheme, host and path, never headers, bodies, user or
  /// password.
  arrow::Result<HttpResponse> Send(const HttpRequest& request);

 private:
  arrow::Result<HttpResponse> SendOnce(const HttpRequest& request, const std::string& url);

  struct Handle;
  const HttpOptions options_;
  std::mutex mutex_;
  std::unique_ptr<Handle> handle_;
};

/// The URL without user, password, query and fragment, for messages.
std::string PublicUrl(const std::string& url);

/// Everything but letters, digits, '-', '.', '_' and '~' as %XX.
std::string PercentEncode(std::string_view text);
/// The reverse; a '%' that no two hexadecimal digits follow stays.
std::string PercentDecode(std::string_view text);
/// "a=b&c=d" with both sides encoded.
std::string FormEncode(const std::vector<std::pair<std::string, std::string>>& fields);

}  // namespace thalweg::iceberg
