// How requests to a REST catalog identify themselves.

#include <arrow/util/base64.h>

#include <algorithm>

#include "iceberg/catalog.h"
#include "iceberg/rest_client.h"
#include "util/number.h"
#include "util/status.h"
#include "util/uuid.h"

namespace thalweg::iceberg {
namespace {

using Properties = RestAuth::Properties;

/// A member of "auth.<type>.": names are written with '_', but come with '-' out of the
/// environment.
std::string AuthOption(const Properties& properties, const std::string& type, std::string key) {
  std::string value = PropertyOf(properties, "auth." + type + "." + key);
  if (!value.empty()) return value;
  for (char& c : key) c = c == '_' ? '-' : c;
  return PropertyOf(properties, "auth." + type + "." + key);
}

std::string BasicHeader(const std::string& user, const std::string& password) {
  return "Basic " + arrow::util::base64_encode(user + ":" + password);
}

arrow::Result<int64_t> SecondsOf(const Json& answer) {
  const auto found = answer.find("expires_in");
  if (found == answer.end() || found->is_null()) return 0;
  if (found->is_number()) return static_cast<int64_t>(found->get<double>());
  if (found->is_string()) return ParseCount(found->get<std::string>()).value_or(0);
  return 0;
}

}  // namespace

arrow::Result<RestAuth> RestAuth::Make(const Properties& properties, const std::string& uri) {
  RestAuth auth;
  const std::string type = PropertyOf(properties, "auth.type");
  if (type == "noop") return auth;
  if (type == "basic") {
    auth.fixed_ = BasicHeader(AuthOption(properties, type, "username"),
                              AuthOption(properties, type, "password"));
    return auth;
  }
  if (type == "oauth2") {
    const std::string id = AuthOption(properties, type, "client_id");
    const std::string secret = AuthOption(properties, type, "client_secret");
    auth.server_ = AuthOption(properties, type, "token_url");
    if (id.empty() || secret.empty() || auth.server_.empty()) {
      return Invalid("auth.type oauth2 needs client_id, client_secret and token_url");
    }
    auth.basic_ = BasicHeader(id, secret);
    auth.form_ = {{"grant_type", "client_credentials"}};
    const std::string scope = AuthOption(properties, type, "scope");
    if (!scope.empty()) auth.form_.emplace_back("scope", scope);
    return auth;
  }
  if (!type.empty()) {
    return arrow::Status::NotImplemented(
        fmt::format("auth.type \"{}\" is not supported by this version; it knows noop, basic and "
                    "oauth2, and the properties token and credential",
                    type));
  }
  const std::string credential = PropertyOf(properties, "credential");
  const std::string token = PropertyOf(properties, "token");
  if (credential.empty()) {
    if (!token.empty()) auth.fixed_ = "Bearer " + token;
    return auth;
  }
  auth.server_ = PropertyOf(properties, "oauth2-server-uri");
  if (auth.server_.empty()) auth.server_ = "v1/oauth/tokens";
  if (auth.server_.find("://") == std::string::npos) {
    const bool slash = auth.server_.starts_with('/');
    auth.server_ = uri + (slash ? "" : "/") + auth.server_;
  }
  auth.form_ = {{"grant_type", "client_credentials"}};
  const auto colon = credential.find(':');
  if (colon != std::string::npos) auth.form_.emplace_back("client_id", credential.substr(0, colon));
  auth.form_.emplace_back("client_secret",
                          colon == std::string::npos ? credential : credential.substr(colon + 1));
  const std::string scope = PropertyOf(properties, "scope");
  auth.form_.emplace_back("scope", scope.empty() ? "catalog" : scope);
  for (const char* key : {"audience", "resource"}) {
    const std::string value = PropertyOf(properties, key);
    if (!value.empty()) auth.form_.emplace_back(key, value);
  }
  return auth;
}

arrow::Result<std::string> RestAuth::Header(HttpClient& http) {
  if (server_.empty()) return fixed_;
  if (token_.empty() || (renew_at_ms_ != 0 && NowMillis() >= renew_at_ms_)) {
    ARROW_RETURN_NOT_OK(Fetch(http));
  }
  return "Bearer " + token_;
}

bool RestAuth::Forget() {
  token_.clear();
  return !server_.empty();
}

void RestAuth::TakeTokenOf(const RestAuth& other) {
  if (other.server_ != server_ || other.form_ != form_ || other.basic_ != basic_) return;
  token_ = other.token_;
  renew_at_ms_ = other.renew_at_ms_;
}

arrow::Status RestAuth::Fetch(HttpClient& http) {
  HttpRequest request;
  request.method = "POST";
  request.url = server_;
  request.headers = {{"Content-Type", "application/x-www-form-urlencoded"},
                     {"Accept", "application/json"}};
  if (!basic_.empty()) request.headers.emplace_back("Authorization", basic_);
  request.body = FormEncode(form_);
  const std::string what = "the token server " + PublicUrl(server_);
  auto response = http.Send(request);
  // A token more does no harm.
  if (!response.ok()) response = http.Send(request);
  if (!response.ok()) {
    return arrow::Status::IOError("no token for the catalog: ", response.status().message());
  }
  if (response->status < 200 || response->status > 299) {
    std::string reason = RestErrorText(response->status, response->body);
    for (const auto& [name, value] : form_) {  // a server may quote what it was sent
      const auto at =
          name == "client_secret" && !value.empty() ? reason.find(value) : std::string::npos;
      if (at != std::string::npos) reason = fmt::format("HTTP status {}", response->status);
    }
    return Invalid("no token for the catalog: {} refused the credential: {}", what, reason);
  }
  ARROW_ASSIGN_OR_RAISE(const Json answer, ParseJson(response->body, what));
  ARROW_ASSIGN_OR_RAISE(token_, GetString(answer, "access_token", what));
  ARROW_ASSIGN_OR_RAISE(const int64_t seconds, SecondsOf(answer));
  constexpr int64_t kMostSeconds = int64_t{1} << 32;
  const int64_t lasts = std::min(seconds, kMostSeconds) * 1000;
  renew_at_ms_ = lasts > 0 ? NowMillis() + lasts - std::min<int64_t>(60'000, lasts / 2) : 0;
  return arrow::Status::OK();
}

std::string RestErrorText(int status, const std::string& body) {
  std::string text;
  constexpr size_t kLargest = size_t{1} << 20;
  const Json json =
      body.size() > kLargest ? Json() : Json::parse(body, nullptr, /*allow_exceptions=*/false);
  auto member = [](const Json& object, const char* key) -> std::string {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : "";
  };
  if (json.is_object()) {
    const auto error = json.find("error");
    if (error != json.end() && error->is_object()) {
      text = member(*error, "message");
      const std::string type = member(*error, "type");
      if (!type.empty()) text = text.empty() ? type : type + ": " + text;
    } else if (error != json.end() && error->is_string()) {
      text = error->get<std::string>();
      const std::string description = member(json, "error_description");
      if (!description.empty()) text += ": " + description;
    } else {
      text = member(json, "message");
    }
  }
  constexpr size_t kLongest = 500;
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "…";
  for (char& c : text) c = static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  return text.empty() ? fmt::format("HTTP status {}", status)
                      : fmt::format("{} (HTTP status {})", text, status);
}

}  // namespace thalweg::iceberg
