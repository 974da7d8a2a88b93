#include "iceberg/rest_client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "iceberg/canned_server.h"
#include "iceberg/test_util.h"
#include "util/status.h"

namespace thalweg::iceberg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::UnorderedElementsAre;

using Properties = std::map<std::string, std::string>;

Json ParsedJson(const std::string& text) { return *ParseJson(text, "test"); }

/// A client of the server, which has been asked for its configuration.
std::shared_ptr<RestClient> Connected(CannedServer& server, Properties properties = {},
                                      const std::string& config = "{}") {
  properties["uri"] = server.uri();
  server.Answer(200, config);
  auto client = RestClient::Connect("prod", properties);
  EXPECT_TRUE(client.ok()) << client.status().ToString();
  return client.ok() ? *client : nullptr;
}

TEST(RestClient, MergesTheConfiguration) {
  const auto answer = ParsedJson(R"({
    "defaults": {"a": "default", "b": "default", "prefix": "theirs", "n": 7},
    "overrides": {"b": "override", "uri": "https://other/api/"},
    "endpoints": ["GET /v1/config", 3]})");
  ASSERT_OK_AND_ASSIGN(auto config,
                       MergeConfig({{"a", "own"}, {"b", "own"}, {"uri", "x"}}, answer));
  EXPECT_EQ(config.properties, (Properties{{"a", "own"},
                                           {"b", "override"},
                                           {"n", "7"},
                                           {"prefix", "theirs"},
                                           {"uri", "https://other/api/"}}));
  EXPECT_EQ(config.uri, "https://other/api");
  EXPECT_EQ(config.prefix, "theirs/");
  EXPECT_EQ(config.separator, "\x1f");
  EXPECT_THAT(config.endpoints, ElementsAre("GET /v1/config"));
  EXPECT_FALSE(config.idempotency_keys);
  ASSERT_OK_AND_ASSIGN(config, MergeConfig({}, ParsedJson(R"({"idempotency-key-lifetime": "PT1H",
    "overrides": {"namespace-separator": "%2E"}, "defaults": null})")));
  EXPECT_TRUE(config.idempotency_keys);
  EXPECT_EQ(config.separator, ".");
  EXPECT_EQ(config.prefix, "");
  for (const char* wrong :
       {"[]", "7", R"({"defaults": []})", R"({"overrides": {"namespace-separator": ""}})"}) {
    EXPECT_FALSE(MergeConfig({}, ParsedJson(wrong)).ok()) << wrong;
  }
}

TEST(RestClient, AsksForItsWarehouseAndUsesThePrefix) {
  CannedServer server;
  const auto client = Connected(server, {{"warehouse", "s3://b/w h"}, {"header.X-Team", "ours"}},
                                R"({"defaults": {"prefix": "p q"},
                                    "endpoints": ["GET /v1/{prefix}/namespaces"]})");
  EXPECT_EQ(client->NamespacePath({"a", "b/c", "ü"}), "v1/p q/namespaces/a%1Fb%2Fc%1F%C3%BC");
  const auto request = server.requests().at(0);
  EXPECT_EQ(request.line(), "GET /v1/config?warehouse=s3%3A%2F%2Fb%2Fw%20h HTTP/1.1");
  EXPECT_EQ(request.header("X-Team"), "ours");
  EXPECT_EQ(request.header("X-Iceberg-Access-Delegation"), "vended-credentials");
  EXPECT_EQ(request.header("Authorization"), "");
  ASSERT_OK(client->CheckEndpoint("GET /v1/{prefix}/namespaces"));
  EXPECT_TRUE(client->CheckEndpoint("POST /v1/{prefix}/namespaces").IsNotImplemented());
}

TEST(RestClient, FetchesTokensWithClientCredentials) {
  CannedServer server;
  server.Answer(200, R"({"access_token": "first", "token_type": "bearer"})");
  const auto client = Connected(server, {{"credential", "me:hu:sh"}, {"audience", "them"}});
  auto requests = server.requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].line(), "POST /v1/oauth/tokens HTTP/1.1");
  EXPECT_EQ(requests[0].header("Content-Type"), "application/x-www-form-urlencoded");
  EXPECT_EQ(requests[0].body,
            "grant_type=client_credentials&client_id=me&client_secret=hu%3Ash&scope=catalog&"
            "audience=them");
  EXPECT_EQ(requests[1].header("Authorization"), "Bearer first");
  // Refused once: another token, the same request.
  server.Answer(401, "{}");
  server.Answer(200, R"({"access_token": "second", "expires_in": 1})");
  server.Answer(200, "{}");
  ASSERT_OK_AND_ASSIGN(auto answer, client->Send({"t", Json{{"x", 1}}, "", "", true}));
  EXPECT_EQ(answer.status, 200);
  EXPECT_FALSE(answer.resent);
  requests = server.requests();
  ASSERT_EQ(requests.size(), 5u);
  EXPECT_EQ(requests[4].header("Authorization"), "Bearer second");
  EXPECT_EQ(requests[4].body, requests[2].body);
  // Before it expires a new one is fetched.
  std::this_thread::sleep_for(std::chrono::milliseconds(550));
  server.Answer(200, R"({"access_token": "third", "expires_in": "3600"})");
  server.Answer(419, "{}");
  server.Answer(200, R"({"access_token": "fourth"})");
  server.Answer(401, R"({"error": {"message": "still not", "type": "NotAuthorizedException"}})");
  ASSERT_OK_AND_ASSIGN(answer, client->Get("t", ""));
  EXPECT_EQ(answer.status, 401);
  EXPECT_EQ(answer.error, "NotAuthorizedException: still not (HTTP status 401)");
  EXPECT_EQ(server.requests().size(), 9u);
}

TEST(RestClient, KeepsSecretsOutOfMessages) {
  CannedServer server;
  Properties properties{{"uri", server.uri()}, {"credential", "me:hush"}};
  server.Answer(400, R"({"error": "invalid_client", "error_description": "me:hush is wrong"})");
  auto status = RestClient::Connect("prod", properties).status();
  EXPECT_THAT(status.message(), HasSubstr("refused the credential"));
  EXPECT_THAT(status.message(), Not(HasSubstr("hush")));
  server.Answer(401, R"({"error": "invalid_client", "error_description": "unknown client"})");
  status = RestClient::Connect("prod", properties).status();
  EXPECT_THAT(status.message(), HasSubstr("invalid_client: unknown client (HTTP status 401)"));
  server.Answer(200, "[]");
  EXPECT_THAT(RestClient::Connect("prod", properties).status().message(),
              HasSubstr("the token server"));
}

TEST(RestClient, KnowsTheWaysToAuthenticate) {
  CannedServer server;
  auto header = [&](Properties properties) {
    (void)Connected(server, std::move(properties));
    return server.requests().back().header("Authorization");
  };
  EXPECT_EQ(header({{"token", "t"}}), "Bearer t");
  EXPECT_EQ(header({{"auth.type", "noop"}, {"token", "t"}}), "");
  EXPECT_EQ(header({{"auth.type", "basic"},
                    {"auth.basic.username", "Aladdin"},
                    {"auth.basic.password", "open sesame"}}),
            "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");  // RFC 7617
  server.Answer(200, R"({"access_token": "x"})");
  EXPECT_EQ(header({{"auth.type", "oauth2"},
                    {"auth.oauth2.client_id", "Aladdin"},
                    {"auth.oauth2.client-secret", "open sesame"},
                    {"auth.oauth2.token_url", server.uri() + "/token"}}),
            "Bearer x");
  const auto requests = server.requests();
  EXPECT_EQ(requests[requests.size() - 2].line(), "POST /token HTTP/1.1");
  EXPECT_EQ(requests[requests.size() - 2].header("Authorization"),
            "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
  for (Properties wrong : {Properties{{"auth.type", "google"}}, Properties{{"auth.type", "oauth2"}},
                           Properties{{"rest.sigv4-enabled", "true"}},
                           Properties{{"rest.client.socket-timeout-ms", "soon"}}}) {
    wrong["uri"] = server.uri();
    EXPECT_FALSE(RestClient::Connect("prod", wrong).ok());
  }
  EXPECT_FALSE(RestClient::Connect("prod", {{"uri", "thrift://x"}}).ok());
  EXPECT_EQ(server.requests().size(), requests.size());
}

TEST(RestClient, TheServersOverridesDecideTheToken) {
  CannedServer server;
  const auto client =
      Connected(server, {{"token", "mine"}}, R"({"overrides": {"token": "theirs"}})");
  server.Answer(200, "{}");
  ASSERT_OK(client->Get("t", "").status());
  EXPECT_EQ(server.requests().back().header("Authorization"), "Bearer theirs");
  server.Answer(200, "{}");
  ASSERT_OK(client->Send({"t", Json::object(), "", "the table's", true}).status());
  EXPECT_EQ(server.requests().back().header("Authorization"), "Bearer the table's");
}

TEST(RestClient, ReadsAreTriedAgain) {
  CannedServer server;
  const auto client = Connected(server);
  server.Answer(503, "{}", "Retry-After: 0\r\n");
  server.Raw("");
  server.Answer(200, R"({"a": 1})");
  ASSERT_OK_AND_ASSIGN(auto answer, client->Get("t", ""));
  EXPECT_EQ(answer.body["a"], 1);
  EXPECT_EQ(server.requests().size(), 4u);
  server.Answer(500, "{}");  // not this one: it is no sign of a server that is busy
  ASSERT_OK_AND_ASSIGN(answer, client->Get("t", ""));
  EXPECT_EQ(answer.status, 500);
  server.Answer(200, "<html>");
  const auto status = client->Get("t", "").status();
  EXPECT_THAT(status.message(), HasSubstr("not valid JSON"));
  EXPECT_EQ(KindOf(status), FailureKind::kError);
  server.Answer(404, "<html>");
  ASSERT_OK_AND_ASSIGN(answer, client->Get("t", ""));
  EXPECT_EQ(answer.error, "HTTP status 404");
}

TEST(RestClient, WritesAreSentAgainOnlyWhereThatIsSafe) {
  CannedServer server;
  const auto client = Connected(server);
  size_t before = server.requests().size();
  auto sent = [&] {
    const size_t count = server.requests().size() - before;
    before += count;
    return count;
  };
  const RestClient::Post plain{"t", Json{{"x", 1}}, "", "", true};
  server.Answer(503, "{}");
  ASSERT_OK_AND_ASSIGN(auto answer, client->Send(plain));
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(sent(), 1u);
  server.Raw("");
  EXPECT_EQ(KindOf(client->Send(plain).status()), FailureKind::kUnknown);
  EXPECT_EQ(sent(), 1u);
  server.Answer(429, "{}");
  server.Answer(200, "{}");
  ASSERT_OK_AND_ASSIGN(answer, client->Send(plain));
  EXPECT_FALSE(answer.resent);
  EXPECT_EQ(sent(), 2u);
  server.Answer(200, "it worked");  // done, whatever it says
  ASSERT_OK_AND_ASSIGN(answer, client->Send(plain));
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.body.is_null());

  const RestClient::Post keyed{"t", Json{{"x", 1}}, "key-1", "", true};
  server.Raw("");
  server.Answer(500, "{}");
  server.Answer(200, "{}");
  ASSERT_OK_AND_ASSIGN(answer, client->Send(keyed));
  EXPECT_TRUE(answer.resent);
  const auto requests = server.requests();
  for (size_t i = requests.size() - 3; i < requests.size(); ++i) {
    EXPECT_EQ(requests[i].header("Idempotency-Key"), "key-1");
    EXPECT_EQ(requests[i].body, R"({"x":1})");
  }
}

}  // namespace
}  // namespace thalweg::iceberg
