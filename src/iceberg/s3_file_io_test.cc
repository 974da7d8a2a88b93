#include "iceberg/s3_file_io.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "iceberg/test_util.h"
#include "util/status.h"

namespace thalweg::iceberg {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

/// The library must be ended before main() is left.
class S3Environment : public testing::Environment {
  void TearDown() override { FinalizeS3(); }
};
const auto* const environment = testing::AddGlobalTestEnvironment(new S3Environment);

TEST(S3FileIO, Locations) {
  for (const char* s3 : {"s3://b/k", "s3a://b/k", "s3n://b/k"}) {
    EXPECT_TRUE(IsS3Location(s3));
    EXPECT_EQ(*S3PathOf(s3), "b/k");
    EXPECT_EQ(FileIO::Canonical(s3), "s3://b/k");
  }
  for (const char* other : {"/s3://b", "file:/s3", "s3:/b", "s3x://b/k", "gs://b/k"}) {
    EXPECT_FALSE(IsS3Location(other)) << other;
  }
  EXPECT_EQ(*S3PathOf("s3://b/a b%20c/ü/"), "b/a b%20c/ü");  // as it stands
  for (const char* wrong : {"s3://", "s3:///k"}) EXPECT_FALSE(S3PathOf(wrong).ok()) << wrong;
  EXPECT_FALSE(S3PathOf(std::string("s3://b/\0k", 9)).ok());
  EXPECT_TRUE(SameLocation("s3://b/k", "s3a://b/k/"));
  EXPECT_FALSE(SameLocation("s3://b/k", "s3://b/l"));
  EXPECT_FALSE(SameLocation("s3://b/k", "/b/k"));
  EXPECT_THAT(FileIO::Spellings("s3a://b/k"),
              UnorderedElementsAre("s3a://b/k", "s3a://b/k", "s3://b/k", "s3n://b/k"));
  EXPECT_THAT(FileIO::Spellings("file:///x/y"),
              UnorderedElementsAre("file:///x/y", "/x/y", "file:/x/y", "file:///x/y",
                                   "file://localhost/x/y"));
  EXPECT_FALSE(FileIO::LocalPath("s3://b/k").ok());
  EXPECT_TRUE(FileIO().RenameNoReplace("s3://b/k", "s3://b/l").IsNotImplemented());
  EXPECT_FALSE(FileIO().ReadAll("gs://b/k").ok());
}

TEST(S3FileIO, Options) {
  ASSERT_OK_AND_ASSIGN(auto options, S3OptionsFor({{"s3.endpoint", "http://127.0.0.1:9000/"},
                                                   {"s3.access-key-id", "a"},
                                                   {"s3.secret-access-key", "b"},
                                                   {"s3.session-token", "c"},
                                                   {"client.region", "eu-west-1"},
                                                   {"s3.connect-timeout", "2.5"},
                                                   {"s3.proxy-uri", "http://proxy:3128"},
                                                   {"s3.force-virtual-addressing", "True"}}));
  EXPECT_EQ(options.scheme, "http");
  EXPECT_EQ(options.endpoint_override, "127.0.0.1:9000");
  EXPECT_EQ(options.GetAccessKey(), "a");
  EXPECT_EQ(options.GetSecretKey(), "b");
  EXPECT_EQ(options.GetSessionToken(), "c");
  EXPECT_EQ(options.region, "eu-west-1");
  EXPECT_EQ(options.connect_timeout, 2.5);
  EXPECT_EQ(options.proxy_options.host, "proxy");
  EXPECT_EQ(options.proxy_options.port, 3128);
  EXPECT_TRUE(options.force_virtual_addressing);
  ASSERT_OK_AND_ASSIGN(options, S3OptionsFor({{"client.access-key-id", "a"},
                                              {"client.secret-access-key", "b"},
                                              {"s3.endpoint", "host"},
                                              {"s3.region", "r1"},
                                              {"client.region", "r2"}}));
  EXPECT_EQ(options.GetAccessKey(), "a");
  EXPECT_EQ(options.scheme, "https");
  EXPECT_EQ(options.region, "r1");
  ASSERT_OK_AND_ASSIGN(options, S3OptionsFor({{"s3.anonymous", "true"}}));
  EXPECT_EQ(options.credentials_kind, arrow::fs::S3CredentialsKind::Anonymous);
  ASSERT_OK_AND_ASSIGN(options, S3OptionsFor({}));
  EXPECT_EQ(options.credentials_kind, arrow::fs::S3CredentialsKind::Default);
}

TEST(S3FileIO, RefusesWhatItCannotDo) {
  using Properties = S3Access::Properties;
  const std::pair<Properties, const char*> wrong[] = {
      {{{"s3.access-key-id", "a"}}, "go together"},
      {{{"s3.endpoint", "ftp://x"}}, "neither http"},
      {{{"s3.anonymous", "perhaps"}}, "neither true nor false"},
      {{{"s3.connect-timeout", "-1"}}, "no number of seconds"},
      {{{"s3.signer", "S3V4RestSigner"}}, "signed by the catalog"},
      {{{"s3.remote-signing-enabled", "true"}}, "signed by the catalog"},
      {{{"s3.sse.type", "kms"}}, "encryption"},
      {{{"s3.profile-name", "me"}}, "AWS_PROFILE"},
  };
  for (const auto& [properties, message] : wrong) {
    EXPECT_THAT(S3OptionsFor(properties).status().message(), HasSubstr(message));
  }
  EXPECT_TRUE(S3OptionsFor({{"s3.remote-signing-enabled", "true"},
                            {"s3.access-key-id", "a"},
                            {"s3.secret-access-key", "b"}})
                  .ok());
}

TEST(S3FileIO, AccessIsRenewedBeforeItExpires) {
  int renewals = 0;
  S3Access access;
  // A property that is refused shows which access is in use, without a server.
  access.properties = {{"s3.anonymous", "old"}, {"s3.session-token-expires-at-ms", "1"}};
  access.renew = [&renewals]() -> arrow::Result<S3Access> {
    ++renewals;
    if (renewals == 1) return Invalid("not now");
    S3Access renewed;
    renewed.properties = {{"s3.anonymous", "new"}};
    return renewed;
  };
  S3FileIO io(access);
  EXPECT_THAT(io.Size("s3://b/k").status().message(), HasSubstr("not now"));
  // Not asked again at once.
  EXPECT_THAT(io.Size("s3://b/k").status().message(), HasSubstr("\"old\""));
  EXPECT_EQ(renewals, 1);
  S3FileIO other(access);
  EXPECT_THAT(other.Size("s3://b/k").status().message(), HasSubstr("\"new\""));
  EXPECT_THAT(other.Size("s3://b/k").status().message(), HasSubstr("\"new\""));
  EXPECT_EQ(renewals, 2);
}

}  // namespace
}  // namespace thalweg::iceberg
