#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "iceberg/rest_http.h"
#include "util/json.h"

namespace thalweg::iceberg {

/// How requests identify themselves: a bearer token as given, OAuth2 client credentials (the token
/// is fetched when it is first needed and again before it expires), user and password, or nothing.
/// Thread-safe.
class RestAuth {
 public:
  using Properties = std::map<std::string, std::string>;
  /// From properties as PyIceberg reads them: token, credential, oauth2-server-uri, scope,
  /// audience, resource, auth.type and its like. `uri`: of the catalog.
  static arrow::Result<RestAuth> Make(const Properties& properties, const std::string& uri);

  /// The value of the header Authorization, "" for none.
  arrow::Result<std::string> Header(HttpClient& http);
  /// Called when the server refused the token: true when another one may be tried.
  bool Forget();
  /// The fields of the request for a token.
  const std::vector<std::pair<std::string, std::string>>& form() const { return form_; }
  const std::string& server() const { return server_; }
  /// Takes over a token that was fetched in the same way.
  void TakeTokenOf(const RestAuth& other);

 private:
  arrow::Status Fetch(HttpClient& http);

  std::string fixed_;   ///< of the header, as it is
  std::string server_;  ///< where tokens are fetched; "": they are not
  std::string basic_;   ///< of the header of the request for a token
  std::vector<std::pair<std::string, std::string>> form_;
  std::string token_;
  int64_t renew_at_ms_ = 0;  ///< by the clock; 0: not before it is refused
};

/// What the body of an error answer says, in one line: Iceberg's form, OAuth2's, or the status
/// alone.
std::string RestErrorText(int status, const std::string& body);

/// What GET /v1/config settled.
struct RestConfig {
  std::map<std::string, std::string> properties;  ///< defaults < the client's own < overrides
  std::string uri;                                ///< without trailing slash
  std::string prefix;                             ///< "" or "name/"
  std::string separator = "\x1f";                 ///< between the parts of a namespace
  std::set<std::string> endpoints;                ///< "GET /v1/{prefix}/…"; empty: the usual ones
  bool idempotency_keys = false;                  ///< the server knows Idempotency-Key
};
/// Merges a server's answer with the client's properties.
arrow::Result<RestConfig> MergeConfig(const std::map<std::string, std::string>& properties,
                                      const Json& answer);

/// An answer of status 2xx, or the failure that another status means.
struct RestAnswer {
  int status = 0;
  Json body;            ///< null when there was none
  std::string error;    ///< for other statuses: what the server said, in one line
  bool resent = false;  ///< sent more than once: an earlier one may have had its effect
};

/// A client of one REST catalog: configuration, authentication, and which requests are sent again.
/// Thread-safe.
class RestClient {
 public:
  /// Asks for the configuration. `catalog`: its name, for messages. `properties` as PyIceberg names
  /// them (uri, warehouse, token, credential, header.…, ssl.…, rest.client.…-timeout-ms).
  static arrow::Result<std::shared_ptr<RestClient>> Connect(
      const std::string& catalog, const std::map<std::string, std::string>& properties);

  const RestConfig& config() const { return config_; }
  /// "v1/<prefix>namespaces/<a%1Fb>"
  std::string NamespacePath(const std::vector<std::string>& name_space) const;
  /// NotImplemented when the server said what it offers and this is not among it.
  arrow::Status CheckEndpoint(const std::string& endpoint) const;

  /// GET, sent again (with growing waits, Retry-After respected) after 429, 502, 503, 504 and
  /// connection errors, five times in all.
  arrow::Result<RestAnswer> Get(const std::string& path, const std::string& query);
  /// POST. Sent again when the request certainly had no effect (no connection, 401 once with a new
  /// token, 429), and, with an idempotency key, when its outcome is not known. A failure of kind
  /// kUnknown: it may have had its effect.
  struct Post {
    std::string path;
    Json body;
    std::string idempotency_key;  ///< "": none
    std::string token;            ///< instead of the catalog's own; "": that
    bool interruptible = true;
  };
  arrow::Result<RestAnswer> Send(const Post& post);

  /// A failure for an answer that is not 2xx: "catalog …: cannot <action>: <what the server said>".
  arrow::Status Refused(const std::string& action, const RestAnswer& answer) const;
  const std::string& name() const { return name_; }

 private:
  RestClient(std::string catalog, HttpOptions options);
  arrow::Result<HttpResponse> Authorized(const HttpRequest& request, const std::string& token);
  std::string Url(const std::string& path) const;
  arrow::Status Wait(int attempt, const HttpResponse* response) const;

  std::string name_;  ///< for messages: "catalog prod (https://host/api)"
  HttpClient http_;
  std::mutex auth_mutex_;
  std::optional<RestAuth> auth_;
  RestConfig config_;
  std::vector<std::pair<std::string, std::string>> headers_;
};

}  // namespace thalweg::iceberg
