#include "iceberg/rest_http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "iceberg/canned_server.h"
#include "iceberg/test_util.h"
#include "util/interrupt.h"
#include "util/status.h"

namespace thalweg::iceberg {
namespace {

using testing::HasSubstr;
using testing::Not;

HttpRequest Get(const std::string& url) { return {"GET", url, {}, "", true}; }
HttpRequest Post(const std::string& url, const std::string& body) {
  return {"POST", url, {{"Content-Type", "application/json"}}, body, true};
}

std::string GzipOf(const std::string& text) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string bytes(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  bytes.resize(stream.total_out);
  deflateEnd(&stream);
  return bytes;
}

TEST(RestHttp, Exchanges) {
  CannedServer server;
  HttpClient http({});
  server.Answer(200, "{\"a\":1}", "X-Odd:  two words \r\n");
  ASSERT_OK_AND_ASSIGN(auto answer, http.Send(Get(server.uri() + "/v1/config?a=b%20c")));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "{\"a\":1}");
  EXPECT_EQ(answer.header("x-odd"), "two words");
  EXPECT_EQ(answer.header("missing"), "");
  server.Answer(409, "no");
  ASSERT_OK_AND_ASSIGN(answer, http.Send(Post(server.uri() + "/t", "body\n")));
  EXPECT_EQ(answer.status, 409);
  EXPECT_EQ(answer.body, "no");
  server.Answer(204, "");
  ASSERT_OK_AND_ASSIGN(answer, http.Send(Post(server.uri() + "/t", "")));
  EXPECT_EQ(answer.status, 204);
  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[0].line(), "GET /v1/config?a=b%20c HTTP/1.1");
  EXPECT_EQ(requests[1].line(), "POST /t HTTP/1.1");
  EXPECT_EQ(requests[1].body, "body\n");
  EXPECT_EQ(requests[1].header("Content-Type"), "application/json");
  EXPECT_EQ(requests[1].header("Expect"), "");
}

TEST(RestHttp, DecodesAndBoundsAnswers) {
  CannedServer server;
  HttpOptions options;
  options.max_bytes = 100'000;
  HttpClient http(options);
  const std::string text(50'000, 'x');
  server.Answer(200, GzipOf(text), "Content-Encoding: gzip\r\n");
  ASSERT_OK_AND_ASSIGN(auto answer, http.Send(Get(server.uri())));
  EXPECT_EQ(answer.body, text);
  server.Raw(
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  ASSERT_OK_AND_ASSIGN(answer, http.Send(Get(server.uri())));
  EXPECT_EQ(answer.body, "abcde");
  // A small answer that would become a large one.
  server.Answer(200, GzipOf(std::string(10'000'000, 'x')), "Content-Encoding: gzip\r\n");
  EXPECT_THAT(http.Send(Get(server.uri())).status().message(), HasSubstr("more than 100000 bytes"));
  server.Answer(200, std::string(200'000, 'x'));
  EXPECT_THAT(http.Send(Get(server.uri())).status().message(), HasSubstr("more than 100000 bytes"));
  std::string headers;
  for (int i = 0; i < 30'000; ++i)
    headers += "X-H" + std::to_string(i) + ": " + text.substr(0, 50) + "\r\n";
  server.Answer(200, "", headers);
  EXPECT_FALSE(http.Send(Get(server.uri())).ok());
}

TEST(RestHttp, FollowsRedirectsToTheSameServerOnly) {
  CannedServer server, other;
  HttpClient http({});
  server.Answer(301, "", "Location: /there?x=1\r\n");
  server.Answer(307, "", "Location: " + server.uri() + "/twice\r\n");
  server.Answer(200, "here");
  ASSERT_OK_AND_ASSIGN(auto answer, http.Send(Get(server.uri() + "/a/b")));
  EXPECT_EQ(answer.body, "here");
  auto requests = server.requests();
  ASSERT_EQ(requests.size(), 3u);
  EXPECT_EQ(requests[1].line(), "GET /there?x=1 HTTP/1.1");
  EXPECT_EQ(requests[2].line(), "GET /twice HTTP/1.1");

  server.Answer(302, "", "Location: " + other.uri() + "/\r\n");
  auto request = Get(server.uri());
  request.headers = {{"Authorization", "Bearer hush"}};
  const auto status = http.Send(request).status();
  EXPECT_THAT(status.message(), HasSubstr("another server"));
  EXPECT_EQ(KindOf(status), FailureKind::kError);
  EXPECT_TRUE(other.requests().empty());

  // A POST that was answered with 302 may have been done: it is not sent elsewhere.
  server.Answer(302, "", "Location: /there\r\n");
  ASSERT_OK_AND_ASSIGN(answer, http.Send(Post(server.uri(), "x")));
  EXPECT_EQ(answer.status, 302);
  server.Answer(308, "", "Location: /there\r\n");
  server.Answer(200, "done");
  ASSERT_OK_AND_ASSIGN(answer, http.Send(Post(server.uri(), "x")));
  EXPECT_EQ(server.requests().back().body, "x");
  for (int i = 0; i < 6; ++i) server.Answer(302, "", "Location: /round\r\n");
  EXPECT_THAT(http.Send(Get(server.uri())).status().message(), HasSubstr("too many redirects"));
}

TEST(RestHttp, SaysWhetherTheRequestMayHaveArrived) {
  CannedServer server;
  HttpOptions options;
  options.connect_timeout_ms = 500;
  options.stall_timeout_ms = 1000;
  HttpClient http(options);
  auto status = http.Send(Post("http://127.0.0.1:1/t", "x")).status();
  EXPECT_TRUE(status.IsIOError()) << status.ToString();
  EXPECT_EQ(KindOf(status), FailureKind::kError);
  status = http.Send(Post("http://no-such-host.invalid/t", "x")).status();
  EXPECT_TRUE(status.IsIOError()) << status.ToString();
  status = http.Send(Get("ftp://127.0.0.1/t")).status();
  EXPECT_TRUE(status.IsInvalid()) << status.ToString();
  EXPECT_EQ(KindOf(status), FailureKind::kError);
  // https at a server that does not speak it: the handshake fails.
  status = http.Send(Post("https" + server.uri().substr(4), "x")).status();
  EXPECT_EQ(KindOf(status), FailureKind::kError) << status.ToString();

  server.Raw("");  // closed without an answer
  EXPECT_EQ(KindOf(http.Send(Post(server.uri(), "x")).status()), FailureKind::kUnknown);
  server.Raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
  EXPECT_EQ(KindOf(http.Send(Post(server.uri(), "x")).status()), FailureKind::kUnknown);
  server.Raw("no HTTP at all\r\n\r\n");
  EXPECT_EQ(KindOf(http.Send(Post(server.uri(), "x")).status()), FailureKind::kUnknown);
  const size_t before = server.requests().size();
  server.Raw("hang");
  status = http.Send(Post(server.uri(), "x")).status();
  EXPECT_EQ(KindOf(status), FailureKind::kUnknown);
  EXPECT_THAT(status.message(), HasSubstr("no answer for 1 s"));
  EXPECT_EQ(server.requests().size(), before + 1);  // and nothing was sent twice
}

TEST(RestHttp, AnInterruptEndsTheWait) {
  CannedServer server;
  HttpOptions options;
  options.interrupt_grace_ms = 100;
  HttpClient http(options);
  SetInterruptCheck([] { return true; });
  server.Answer(200, "quick");
  EXPECT_TRUE(http.Send(Get(server.uri())).ok());
  server.Raw("hang");
  const auto status = http.Send(Get(server.uri())).status();
  SetInterruptCheck(nullptr);
  EXPECT_THAT(status.message(), HasSubstr("interrupted"));
}

TEST(RestHttp, HeadersCannotBeSmuggled) {
  CannedServer server;
  HttpClient http({});
  auto request = Get(server.uri());
  request.headers = {{"X-A", "b\r\nX-C: d"}};
  EXPECT_THAT(http.Send(request).status().message(), HasSubstr("line break"));
  request.headers = {{"X-Empty", ""}};
  server.Answer(200, "");
  EXPECT_TRUE(http.Send(request).ok());
  EXPECT_THAT(server.requests().back().head, HasSubstr("\r\nX-Empty:"));
}

TEST(RestHttp, Encoding) {
  EXPECT_EQ(PercentEncode("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(PercentEncode("a b/c%\x1f\xc3\xbc"), "a%20b%2Fc%25%1F%C3%BC");
  EXPECT_EQ(PercentDecode("a%20b%2fc%25%1F"), "a b/c%\x1f");
  EXPECT_EQ(PercentDecode("100%, %4, %zz%"), "100%, %4, %zz%");
  EXPECT_EQ(FormEncode({{"a b", "c&d"}, {"e", "="}}), "a%20b=c%26d&e=%3D");
  EXPECT_EQ(PublicUrl("https://me:hush@host:1/p?token=hush#x"), "https://host:1/p");
  EXPECT_EQ(PublicUrl("https://host/p@q"), "https://host/p@q");
  HttpClient http({});
  EXPECT_THAT(http.Send(Get("http://me:hush@127.0.0.1:1/p?secret=hush")).status().ToString(),
              Not(HasSubstr("hush")));
}

}  // namespace
}  // namespace thalweg::iceberg
