#include "iceberg/rest_http.h"

#include <curl/curl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <optional>

#include "util/interrupt.h"
#include "util/status.h"
#include "util/text.h"

namespace thalweg::iceberg {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMostRedirects = 5;
constexpr size_t kLargestHeader = size_t{1} << 20;

/// What the callbacks of one transfer share.
struct Transfer {
  HttpResponse response;
  size_t header_bytes = 0;
  int64_t max_bytes = 0;
  std::chrono::milliseconds grace{0};
  bool interruptible = true;
  bool too_large = false;
  bool interrupted = false;
  std::optional<Clock::time_point> interrupt_seen;
};

std::string Trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1));
}

size_t OnBody(char* data, size_t size, size_t count, void* context) {
  auto& transfer = *static_cast<Transfer*>(context);
  const size_t bytes = size * count;
  if (static_cast<int64_t>(transfer.response.body.size() + bytes) > transfer.max_bytes) {
    transfer.too_large = true;
    return 0;
  }
  try {
    transfer.response.body.append(data, bytes);
  } catch (const std::bad_alloc&) {
    transfer.too_large = true;
    return 0;
  }
  return bytes;
}

size_t OnHeader(char* data, size_t size, size_t count, void* context) {
  auto& transfer = *static_cast<Transfer*>(context);
  const size_t bytes = size * count;
  transfer.header_bytes += bytes;
  if (transfer.header_bytes > kLargestHeader) {
    transfer.too_large = true;
    return 0;
  }
  const std::string_view line(data, bytes);
  if (line.starts_with("HTTP/")) transfer.response.headers.clear();  // after an interim answer
  const auto colon = line.find(':');
  if (colon != std::string_view::npos) {
    transfer.response.headers[Lower(std::string(line.substr(0, colon)))] =
        Trimmed(line.substr(colon + 1));
  }
  return bytes;
}

int OnProgress(void* context, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  auto& transfer = *static_cast<Transfer*>(context);
  if (!transfer.interruptible || !InterruptRequested()) return 0;
  if (!transfer.interrupt_seen) transfer.interrupt_seen = Clock::now();
  if (Clock::now() - *transfer.interrupt_seen < transfer.grace) return 0;
  transfer.interrupted = true;
  return 1;
}

struct UrlDeleter {
  void operator()(CURLU* url) const { curl_url_cleanup(url); }
};
using Url = std::unique_ptr<CURLU, UrlDeleter>;

std::string PartOf(const Url& url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url.get(), part, &text, CURLU_DEFAULT_PORT) != CURLUE_OK) return "";
  std::string copy = text;
  curl_free(text);
  return copy;
}

/// Where a redirect leads, if it stays with the server.
arrow::Result<std::string> Redirected(const std::string& from, const std::string& location) {
  const Url before(curl_url()), after(curl_url());
  if (!before || !after) return arrow::Status::OutOfMemory("libcurl cannot start");
  const bool parsed =
      curl_url_set(before.get(), CURLUPART_URL, from.c_str(), 0) == CURLUE_OK &&
      curl_url_set(after.get(), CURLUPART_URL, from.c_str(), 0) == CURLUE_OK &&
      curl_url_set(after.get(), CURLUPART_URL, location.c_str(), 0) == CURLUE_OK;  // relative to it
  if (!parsed) return Invalid("{}: redirected to something that is no URL", PublicUrl(from));
  for (CURLUPart part : {CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT}) {
    if (Lower(PartOf(before, part)) != Lower(PartOf(after, part))) {
      return Invalid(
          "{}: redirected to another server ({}://{}:{}), which is not followed: configure that "
          "one as uri if it is right",
          PublicUrl(from), PartOf(after, CURLUPART_SCHEME), PartOf(after, CURLUPART_HOST),
          PartOf(after, CURLUPART_PORT));
    }
  }
  return PartOf(after, CURLUPART_URL);
}

bool IsFolder(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

/// What a proxy answered when it was asked for a tunnel to the server; 0 without one.
long ProxyAnswer(CURL* curl) {
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_HTTP_CONNECTCODE, &status);
  return status;
}

/// False when a request failed before its connection was secured: nothing of it was sent then.
bool Reached(CURL* curl, const std::string& url) {
  if (!url.starts_with("https://")) return true;
  long connections = 0;  // that were made for this request
  curl_off_t secured = 0;
  curl_easy_getinfo(curl, CURLINFO_NUM_CONNECTS, &connections);
  curl_easy_getinfo(curl, CURLINFO_APPCONNECT_TIME_T, &secured);
  return connections == 0 || secured > 0;
}

}  // namespace

struct HttpClient::Handle {
  CURL* curl = nullptr;
  ~Handle() {
    if (curl != nullptr) curl_easy_cleanup(curl);
  }
};

std::string HttpResponse::header(const std::string& name) const {
  const auto found = headers.find(name);
  return found == headers.end() ? "" : found->second;
}

HttpClient::HttpClient(HttpOptions options) : options_(std::move(options)) {}
HttpClient::~HttpClient() = default;

arrow::Result<HttpResponse> HttpClient::Send(const HttpRequest& request) {
  std::lock_guard lock(mutex_);
  const bool reads = request.method == "GET" || request.method == "HEAD";
  std::string url = request.url;
  for (int hops = 0;; ++hops) {
    ARROW_ASSIGN_OR_RAISE(auto response, SendOnce(request, url));
    const int status = response.status;
    const bool redirects = status == 307 || status == 308 ||
                           (reads && (status == 301 || status == 302 || status == 303));
    const std::string location = response.header("location");
    if (!redirects || location.empty()) return response;
    if (hops == kMostRedirects) return Invalid("{}: too many redirects", PublicUrl(request.url));
    ARROW_ASSIGN_OR_RAISE(url, Redirected(url, location));
  }
}

arrow::Result<HttpResponse> HttpClient::SendOnce(const HttpRequest& request,
                                                 const std::string& url) {
  static const CURLcode started = curl_global_init(CURL_GLOBAL_DEFAULT);
  if (!handle_) handle_ = std::make_unique<Handle>();
  if (started == CURLE_OK && handle_->curl == nullptr) handle_->curl = curl_easy_init();
  CURL* const curl = handle_->curl;
  if (curl == nullptr) return arrow::Status::OutOfMemory("libcurl cannot start");

  curl_slist* list = nullptr;
  bool listed = true;
  auto add = [&](const std::string& line) {
    curl_slist* longer = curl_slist_append(list, line.c_str());
    listed = listed && longer != nullptr;
    if (longer != nullptr) list = longer;
  };
  for (const auto& [name, value] : request.headers) {
    if ((name + value).find_first_of(std::string_view("\r\n\0", 3)) != std::string::npos) {
      curl_slist_free_all(list);
      return Invalid("the header {} holds a line break", name.substr(0, name.find('\n')));
    }
    add(value.empty() ? name + ";" : fmt::format("{}: {}", name, value));
  }
  add("Expect:");  // bodies are sent at once
  const std::unique_ptr<curl_slist, void (*)(curl_slist*)> headers(list, curl_slist_free_all);
  if (!listed) return arrow::Status::OutOfMemory("libcurl has no memory for the headers");

  Transfer transfer;
  transfer.max_bytes = options_.max_bytes;
  transfer.grace = std::chrono::milliseconds(options_.interrupt_grace_ms);
  transfer.interruptible = request.interruptible;
  char reason[CURL_ERROR_SIZE] = "";

  curl_easy_reset(curl);  // keeps the connection
  curl_easy_setopt(curl, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, reason);
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_ACCEPT_ENCODING, "gzip, deflate");
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(options_.connect_timeout_ms));
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME,
                   static_cast<long>(std::max<int64_t>(1, options_.stall_timeout_ms / 1000)));
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, OnBody);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, OnHeader);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, OnProgress);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &transfer);
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  if (!options_.ca_bundle.empty()) {
    // These authorities instead of the system's, not beside them.
    const bool folder = IsFolder(options_.ca_bundle);
    curl_easy_setopt(curl, folder ? CURLOPT_CAPATH : CURLOPT_CAINFO, options_.ca_bundle.c_str());
    curl_easy_setopt(curl, folder ? CURLOPT_CAINFO : CURLOPT_CAPATH, nullptr);
  }
  if (!options_.client_certificate.empty()) {
    curl_easy_setopt(curl, CURLOPT_SSLCERT, options_.client_certificate.c_str());
  }
  if (!options_.client_key.empty()) {
    curl_easy_setopt(curl, CURLOPT_SSLKEY, options_.client_key.c_str());
  }
  if (request.method == "HEAD") {
    curl_easy_setopt(curl, CURLOPT_NOBODY, 1L);
  } else if (request.method != "GET") {
    curl_easy_setopt(curl, CURLOPT_POST, 1L);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.body.data());
    // On a connection that was used before, libcurl sends again by itself what the server may have
    // taken already.
    curl_easy_setopt(curl, CURLOPT_FRESH_CONNECT, 1L);
  }

  const CURLcode code = curl_easy_perform(curl);
  if (code == CURLE_OK) {
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    transfer.response.status = static_cast<int>(status);
    return std::move(transfer.response);
  }
  long sent = 0;
  curl_easy_getinfo(curl, CURLINFO_REQUEST_SIZE, &sent);
  // What went to a proxy to reach the server counts as sent, but is not the request.
  if (!Reached(curl, url)) sent = 0;
  std::string why = reason[0] != '\0' ? reason : curl_easy_strerror(code);
  if (transfer.too_large) {
    why = fmt::format("the answer has more than {} bytes", options_.max_bytes);
  } else if (transfer.interrupted) {
    why = "interrupted while waiting for the answer";
  } else if (code == CURLE_OPERATION_TIMEDOUT && sent != 0) {
    why = fmt::format("no answer for {} s", options_.stall_timeout_ms / 1000);
  }
  const std::string message = fmt::format("{}: {}", PublicUrl(url), why);
  if (sent != 0) return UnknownOutcome("{}", message);
  const bool no_connection = code == CURLE_COULDNT_RESOLVE_HOST ||
                             code == CURLE_COULDNT_RESOLVE_PROXY || code == CURLE_COULDNT_CONNECT ||
                             code == CURLE_OPERATION_TIMEDOUT || ProxyAnswer(curl) >= 500;
  return no_connection ? arrow::Status::IOError(message) : Invalid("{}", message);
}

std::string PublicUrl(const std::string& url) {
  std::string shown = url.substr(0, url.find_first_of("?#"));
  const auto scheme = shown.find("://");
  if (scheme == std::string::npos) return shown;
  const auto host = scheme + 3;
  const auto at = shown.substr(0, shown.find('/', host)).rfind('@');
  if (at != std::string::npos && at >= host) shown.erase(host, at + 1 - host);
  return shown;
}

std::string PercentEncode(std::string_view text) {
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '.' || c == '_' || c == '~') {
      encoded += c;
    } else {
      encoded += fmt::format("%{:02X}", byte);
    }
  }
  return encoded;
}

std::string PercentDecode(std::string_view text) {
  auto digit = [](char c) {
    if (c >= '0' && c <= '9') return c - '0';
    const char lower = static_cast<char>(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
  };
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape =
        text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0;
    if (!escape) {
      decoded += text[i];
    } else {
      decoded += static_cast<char>(digit(text[i + 1]) * 16 + digit(text[i + 2]));
      i += 2;
    }
  }
  return decoded;
}

std::string FormEncode(const std::vector<std::pair<std::string, std::string>>& fields) {
  std::string form;
  for (const auto& [name, value] : fields) {
    form += (form.empty() ? "" : "&") + PercentEncode(name) + "=" + PercentEncode(value);
  }
  return form;
}

}  // namespace thalweg::iceberg
