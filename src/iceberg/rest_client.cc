#include "iceberg/rest_client.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>
#include <thread>

#include "iceberg/catalog.h"
#include "util/interrupt.h"
#include "util/number.h"
#include "util/status.h"
#include "util/text.h"
#include "util/uuid.h"
#include "util/version.h"

namespace thalweg::iceberg {
namespace {

using Properties = std::map<std::string, std::string>;

constexpr int kMostSends = 5;
constexpr int64_t kFirstWaitMs = 200;
constexpr int64_t kLongestWaitMs = 30'000;

std::string WithoutTrailingSlashes(std::string text) {
  while (text.ends_with('/')) text.pop_back();
  return text;
}

arrow::Status ReadMillis(const Properties& properties, const char* key, int64_t* value) {
  const std::string text = PropertyOf(properties, key);
  if (text.empty()) return arrow::Status::OK();
  const auto number = ParseCount(text);
  if (!number || *number == 0 || *number > INT32_MAX) {
    return Invalid("property {}: \"{}\" is no number of milliseconds", key, text);
  }
  *value = *number;
  return arrow::Status::OK();
}

arrow::Result<HttpOptions> OptionsOf(const Properties& properties) {
  HttpOptions options;
  options.ca_bundle = PropertyOf(properties, "ssl.cabundle");
  for (const char* variable : {"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"}) {
    const char* value = std::getenv(variable);
    if (options.ca_bundle.empty() && value != nullptr) options.ca_bundle = value;
  }
  options.client_certificate = PropertyOf(properties, "ssl.client.cert");
  options.client_key = PropertyOf(properties, "ssl.client.key");
  ARROW_RETURN_NOT_OK(
      ReadMillis(properties, "rest.client.connection-timeout-ms", &options.connect_timeout_ms));
  ARROW_RETURN_NOT_OK(
      ReadMillis(properties, "rest.client.socket-timeout-ms", &options.stall_timeout_ms));
  return options;
}

arrow::Status CheckSigning(const Properties& properties) {
  const std::string value = Lower(PropertyOf(properties, "rest.sigv4-enabled"));
  if (value.empty() || value == "false" || value == "0") return arrow::Status::OK();
  return arrow::Status::NotImplemented(
      "rest.sigv4-enabled: requests signed with AWS Signature Version 4 are not supported by this "
      "version");
}

/// Headers that go with every request: those of the properties header.<name>, then our own.
std::vector<std::pair<std::string, std::string>> HeadersOf(const Properties& properties) {
  constexpr std::string_view kPrefix = "header.";
  std::map<std::string, std::string> own{{"content-type", "application/json"},
                                         {"accept", "application/json"},
                                         {"user-agent", std::string("Thalweg/") + kVersion}};
  std::vector<std::pair<std::string, std::string>> headers;
  bool delegation = false;
  for (const auto& [key, value] : properties) {
    if (!key.starts_with(kPrefix)) continue;
    const std::string name = key.substr(kPrefix.size());
    if (own.contains(Lower(name))) continue;
    delegation |= Lower(name) == "x-iceberg-access-delegation";
    headers.emplace_back(name, value);
  }
  if (!delegation) headers.emplace_back("X-Iceberg-Access-Delegation", "vended-credentials");
  headers.insert(headers.end(), own.begin(), own.end());
  return headers;
}

bool TryLater(int status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

bool IsSuccess(int status) { return status >= 200 && status < 300; }

arrow::Result<Properties> StringsOf(const Json& answer, const char* key) {
  Properties properties;
  const auto found = answer.find(key);
  if (found == answer.end() || found->is_null()) return properties;
  if (!found->is_object()) return Invalid("the catalog's configuration: \"{}\" is no object", key);
  for (const auto& [name, value] : found->items()) {
    if (value.is_null()) continue;
    properties[name] = value.is_string() ? value.get<std::string>() : DumpJson(value);
  }
  return properties;
}

}  // namespace

arrow::Result<RestConfig> MergeConfig(const Properties& properties, const Json& answer) {
  if (!answer.is_object()) return Invalid("the catalog's configuration is no JSON object");
  RestConfig config;
  ARROW_ASSIGN_OR_RAISE(config.properties, StringsOf(answer, "defaults"));
  ARROW_ASSIGN_OR_RAISE(const auto overrides, StringsOf(answer, "overrides"));
  for (const auto& [key, value] : properties) config.properties[key] = value;
  for (const auto& [key, value] : overrides) config.properties[key] = value;
  config.uri = WithoutTrailingSlashes(PropertyOf(config.properties, "uri"));
  config.prefix = WithoutTrailingSlashes(PropertyOf(config.properties, "prefix"));
  if (!config.prefix.empty()) config.prefix += '/';
  const auto separator = config.properties.find("namespace-separator");
  if (separator != config.properties.end()) config.separator = PercentDecode(separator->second);
  if (config.separator.empty()) return Invalid("namespace-separator must not be empty");
  const auto endpoints = answer.find("endpoints");
  if (endpoints != answer.end() && endpoints->is_array()) {
    for (const auto& endpoint : *endpoints) {
      if (endpoint.is_string()) config.endpoints.insert(endpoint.get<std::string>());
    }
  }
  constexpr char kIdempotency[] = "idempotency-key-lifetime";
  const auto lifetime = answer.find(kIdempotency);
  config.idempotency_keys = (lifetime != answer.end() && !lifetime->is_null()) ||
                            !PropertyOf(config.properties, kIdempotency).empty();
  return config;
}

RestClient::RestClient(std::string catalog, HttpOptions options)
    : name_(std::move(catalog)), http_(std::move(options)) {}

arrow::Result<std::shared_ptr<RestClient>> RestClient::Connect(const std::string& catalog,
                                                               const Properties& properties) {
  const std::string uri = WithoutTrailingSlashes(PropertyOf(properties, "uri"));
  if (!uri.starts_with("http://") && !uri.starts_with("https://")) {
    return Invalid("catalog {}: the uri of a REST catalog is http://… or https://…, not \"{}\"",
                   catalog, PublicUrl(uri));
  }
  ARROW_RETURN_NOT_OK(CheckSigning(properties));
  ARROW_ASSIGN_OR_RAISE(auto options, OptionsOf(properties));
  std::shared_ptr<RestClient> client(
      new RestClient(fmt::format("catalog {} ({})", catalog, PublicUrl(uri)), std::move(options)));
  ARROW_ASSIGN_OR_RAISE(client->auth_, RestAuth::Make(properties, uri));
  client->config_.properties = properties;
  client->config_.uri = uri;
  client->headers_ = HeadersOf(properties);

  const std::string warehouse = PropertyOf(properties, "warehouse");
  const std::string query = warehouse.empty() ? "" : FormEncode({{"warehouse", warehouse}});
  ARROW_ASSIGN_OR_RAISE(const auto answer, client->Get("v1/config", query));
  if (!IsSuccess(answer.status)) return client->Refused("get its configuration", answer);
  auto config = MergeConfig(properties, answer.body);
  if (!config.ok()) return Invalid("{}: {}", client->name_, config.status().message());
  ARROW_RETURN_NOT_OK(CheckSigning(config->properties));
  ARROW_ASSIGN_OR_RAISE(auto auth, RestAuth::Make(config->properties, config->uri));
  auth.TakeTokenOf(*client->auth_);
  client->auth_ = std::move(auth);
  client->headers_ = HeadersOf(config->properties);
  client->config_ = *std::move(config);
  return client;
}

std::string RestClient::NamespacePath(const std::vector<std::string>& name_space) const {
  std::string joined;
  for (const auto& part : name_space) {
    joined += (joined.empty() ? "" : PercentEncode(config_.separator)) + PercentEncode(part);
  }
  return "v1/" + config_.prefix + "namespaces/" + joined;
}

arrow::Status RestClient::CheckEndpoint(const std::string& endpoint) const {
  if (config_.endpoints.empty() || config_.endpoints.contains(endpoint)) {
    return arrow::Status::OK();
  }
  return arrow::Status::NotImplemented(
      fmt::format("{} does not offer \"{}\", which this needs", name_, endpoint));
}

std::string RestClient::Url(const std::string& path) const { return config_.uri + "/" + path; }

arrow::Status RestClient::Wait(int attempt, const HttpResponse* response) const {
  int64_t wait = std::min(kFirstWaitMs << attempt, kLongestWaitMs);
  static thread_local std::minstd_rand random(static_cast<uint32_t>(NewRandomId()));
  wait = wait / 2 + static_cast<int64_t>(random() % static_cast<uint64_t>(wait / 2 + 1));
  if (response != nullptr) {
    const auto asked = ParseCount(response->header("retry-after"));
    if (asked) wait = std::max(wait, std::min(*asked, kLongestWaitMs / 1000) * 1000);
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(wait);
  while (std::chrono::steady_clock::now() < end) {
    if (InterruptRequested()) return arrow::Status::Cancelled("interrupted");
    std::this_thread::sleep_for(std::chrono::milliseconds(std::min<int64_t>(wait, 20)));
  }
  return arrow::Status::OK();
}

/// One request and, should the token be refused, the same once more with a new one.
arrow::Result<HttpResponse> RestClient::Authorized(const HttpRequest& request,
                                                   const std::string& token) {
  for (bool again = false;; again = true) {
    std::string header = token.empty() ? "" : "Bearer " + token;
    if (token.empty()) {
      std::lock_guard lock(auth_mutex_);
      ARROW_ASSIGN_OR_RAISE(header, auth_->Header(http_));
    }
    HttpRequest sent = request;
    if (!header.empty()) {
      std::erase_if(sent.headers,
                    [](const auto& other) { return Lower(other.first) == "authorization"; });
      sent.headers.emplace_back("Authorization", header);
    }
    ARROW_ASSIGN_OR_RAISE(auto response, http_.Send(sent));
    if ((response.status != 401 && response.status != 419) || again || !token.empty()) {
      return response;
    }
    std::lock_guard lock(auth_mutex_);
    if (!auth_->Forget()) return response;
  }
}

namespace {

RestAnswer AnswerOf(const HttpResponse& response) {
  RestAnswer answer;
  answer.status = response.status;
  if (!IsSuccess(response.status)) {
    answer.error = RestErrorText(response.status, response.body);
    return answer;
  }
  if (response.body.empty()) return answer;
  auto json = ParseJson(response.body, "the answer");
  if (json.ok()) {
    answer.body = *std::move(json);
  } else {
    answer.error = json.status().message();
  }
  return answer;
}

}  // namespace

arrow::Result<RestAnswer> RestClient::Get(const std::string& path, const std::string& query) {
  HttpRequest request;
  request.method = "GET";
  request.url = Url(path) + (query.empty() ? "" : "?" + query);
  request.headers = headers_;
  for (int attempt = 0;; ++attempt) {
    auto response = Authorized(request, "");
    const bool last = attempt + 1 == kMostSends;
    if (response.ok()) {
      if (!TryLater(response->status) || last) {
        RestAnswer answer = AnswerOf(*std::move(response));
        if (!IsSuccess(answer.status) || answer.error.empty()) return answer;
        return Invalid("{}: {}", name_, answer.error);
      }
    } else {
      const bool transient =
          response.status().IsIOError() || KindOf(response.status()) == FailureKind::kUnknown;
      if (!transient || last || InterruptRequested()) {
        // Nothing was to be changed, so that no outcome is unknown.
        return arrow::Status::IOError(name_, ": ", response.status().message());
      }
    }
    ARROW_RETURN_NOT_OK(Wait(attempt, response.ok() ? &*response : nullptr));
  }
}

arrow::Result<RestAnswer> RestClient::Send(const Post& post) {
  HttpRequest request;
  request.method = "POST";
  request.url = Url(post.path);
  request.headers = headers_;
  request.body = DumpJson(post.body);
  request.interruptible = post.interruptible;
  const bool keyed = !post.idempotency_key.empty();
  if (keyed) request.headers.emplace_back("Idempotency-Key", post.idempotency_key);
  bool in_doubt = false;  // one that was sent may have had its effect
  for (int attempt = 0;; ++attempt) {
    auto response = Authorized(request, post.token);
    const bool last = attempt + 1 == kMostSends;
    bool again = false;
    if (response.ok()) {
      const bool unclear =
          response->status == 500 || (TryLater(response->status) && response->status != 429);
      again = response->status == 429 || (unclear && keyed);
      in_doubt |= unclear && again && !last;
      if (!again || last) {
        RestAnswer answer = AnswerOf(*std::move(response));
        answer.resent = in_doubt;
        return answer;
      }
    } else {
      const bool unclear = KindOf(response.status()) == FailureKind::kUnknown;
      again = unclear ? keyed : response.status().IsIOError();
      in_doubt |= unclear;
      if (!again || last || InterruptRequested()) {
        return Failure(in_doubt ? FailureKind::kUnknown : FailureKind::kError,
                       fmt::format("{}: {}", name_, response.status().message()));
      }
    }
    const auto waited = Wait(attempt, response.ok() ? &*response : nullptr);
    if (!waited.ok()) {
      return in_doubt ? UnknownOutcome("{}: interrupted while the outcome was not known", name_)
                      : waited;
    }
  }
}

arrow::Status RestClient::Refused(const std::string& action, const RestAnswer& answer) const {
  return Invalid("{}: cannot {}: {}", name_, action, answer.error);
}

}  // namespace thalweg::iceberg
