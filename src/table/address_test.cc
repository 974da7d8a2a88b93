#include "table/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "util/json.h"
#include "util/status.h"

namespace thalweg {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::UnorderedElementsAre;

/// A working folder, home and environment of its own for each test.
class Address : public testing::Test {
 protected:
  void SetUp() override {
    old_ = fs::current_path();
    char name[] = "/tmp/thalweg-address-XXXXXX";
    root_ = mkdtemp(name);
    fs::create_directories(root_ / "home");
    fs::create_directories(root_ / "work");
    fs::current_path(root_ / "work");
    setenv("HOME", (root_ / "home").c_str(), 1);
    unsetenv("PYICEBERG_HOME");
  }
  void TearDown() override {
    for (const auto& name : variables_) unsetenv(name.c_str());
    unsetenv("PYICEBERG_HOME");
    fs::current_path(old_);
    fs::remove_all(root_);
  }
  void Set(const std::string& name, const std::string& value) {
    setenv(name.c_str(), value.c_str(), 1);
    variables_.push_back(name);
  }
  void Config(const std::string& folder, const std::string& text) {
    fs::create_directories(root_ / folder);
    std::ofstream(root_ / folder / ".pyiceberg.yaml") << text;
  }
  static std::string Message(const arrow::Status& status) {
    EXPECT_THAT(status.message(), testing::Not(HasSubstr("\n")));
    return status.message();
  }

  fs::path old_, root_;
  std::vector<std::string> variables_;
};

TEST_F(Address, Paths) {
  const std::string work = fs::current_path().string();
  fs::create_directories("table");
  fs::create_directories("a.b.c");
  const std::pair<std::string, std::string> cases[] = {
      {"/data/t", "/data/t"},
      {"/data//t/./", "/data/t"},
      {"./t", work + "/t"},
      {"x/../t", work + "/x/../t"},
      {"t.lance", work + "/t.lance"},
      {"table", work + "/table"},
      {"a.b.c", work + "/a.b.c"},  // exists: a path, although dotted
      {"s3://bucket/t/", "s3://bucket/t"},
      {"file:/data/t", "file:/data/t"},
      {"file:///data/t", "file:///data/t"},
  };
  for (const auto& [text, path] : cases) {
    auto address = ParseTableAddress(text);
    ASSERT_TRUE(address.ok()) << text << ": " << address.status().ToString();
    EXPECT_TRUE(address->is_path) << text;
    EXPECT_EQ(address->path, path) << text;
    EXPECT_EQ(address->text, text);
  }
}

TEST_F(Address, Names) {
  auto address = ParseTableAddress("prod.web.raw.events").ValueOrDie();
  EXPECT_FALSE(address.is_path);
  EXPECT_EQ(address.catalog, "prod");
  EXPECT_THAT(address.name_space, ElementsAre("web", "raw"));
  EXPECT_EQ(address.table, "events");
  address = ParseTableAddress("prod.events").ValueOrDie();
  EXPECT_EQ(address.catalog, "prod");
  EXPECT_THAT(address.name_space, ElementsAre());
  EXPECT_EQ(address.table, "events");
}

TEST_F(Address, NeitherPathNorName) {
  const auto status = ParseTableAddress("events").status();
  EXPECT_EQ(KindOf(status), FailureKind::kUsage);
  EXPECT_THAT(Message(status), HasSubstr("./events"));
  EXPECT_THAT(Message(status), HasSubstr("CATALOG.NAMESPACE.events"));
  for (const char* text : {"", "a..b", ".a.b", "a.b."}) {
    EXPECT_EQ(KindOf(ParseTableAddress(text).status()), FailureKind::kUsage) << text;
  }
}

TEST_F(Address, EnvironmentBeforeFileAndOverridesBeforeBoth) {
  Config("home",
         "catalog:\n  Prod:\n    URI: sqlite:////file.db\n    warehouse: /file\n    extra: kept\n");
  Set("PYICEBERG_CATALOG__PROD__WAREHOUSE", "/environment");
  Set("PYICEBERG_CATALOG__PROD__S3__ACCESS_KEY_ID", "id");
  auto properties = CatalogProperties("prod", {{"warehouse", "/option"}}).ValueOrDie();
  EXPECT_THAT(properties,
              UnorderedElementsAre(Pair("uri", "sqlite:////file.db"), Pair("warehouse", "/option"),
                                   Pair("extra", "kept"), Pair("s3.access-key-id", "id"),
                                   Pair("type", "sql")));
  properties = CatalogProperties("PROD", {}).ValueOrDie();
  EXPECT_EQ(properties["warehouse"], "/environment");
}

TEST_F(Address, FirstFileCounts) {
  Config("work", "catalog:\n  a:\n    uri: http://work\n");
  EXPECT_EQ(CatalogProperties("a", {}).ValueOrDie()["uri"], "http://work");
  Config("home", "catalog:\n  a:\n    uri: http://home\n");
  EXPECT_EQ(CatalogProperties("a", {}).ValueOrDie()["uri"], "http://home");
  Config("given", "catalog:\n  b:\n    uri: http://given\n");
  Set("PYICEBERG_HOME", (root_ / "given").string());
  EXPECT_EQ(CatalogProperties("b", {}).ValueOrDie()["uri"], "http://given");
  // Only the first file is read.
  const auto status = CatalogProperties("a", {}).status();
  EXPECT_EQ(KindOf(status), FailureKind::kUsage);
  EXPECT_THAT(Message(status), HasSubstr("known: b"));
  EXPECT_THAT(Message(status), HasSubstr((root_ / "given").string()));
}

TEST_F(Address, Types) {
  const std::pair<std::string, std::string> cases[] = {
      {"https://host", "rest"},       {"http://host", "rest"},
      {"thrift://host:9083", "hive"}, {"sqlite:////x.db", "sql"},
      {"jdbc:sqlite:/x.db", "sql"},   {"postgresql+psycopg2://u@h/db", "sql"},
  };
  for (const auto& [uri, type] : cases) {
    EXPECT_EQ(CatalogProperties("c", {{"uri", uri}}).ValueOrDie()["type"], type) << uri;
  }
  EXPECT_EQ(CatalogProperties("c", {{"type", "GLUE"}}).ValueOrDie()["type"], "glue");
  EXPECT_EQ(KindOf(CatalogProperties("c", {{"uri", "ftp://x"}}).status()), FailureKind::kUsage);
  EXPECT_EQ(KindOf(CatalogProperties("c", {{"warehouse", "/x"}}).status()), FailureKind::kUsage);
}

TEST_F(Address, UnknownCatalogNamesPlacesAndVariables) {
  const auto status = CatalogProperties("my-cat", {}).status();
  EXPECT_EQ(KindOf(status), FailureKind::kUsage);
  EXPECT_THAT(Message(status), HasSubstr("PYICEBERG_CATALOG__MY_CAT__"));
  EXPECT_THAT(Message(status), HasSubstr((root_ / "home").string()));
  EXPECT_THAT(Message(status), HasSubstr("known: none"));
}

TEST_F(Address, BadConfigurationFilesAreOneLineWithTheFile) {
  const char* texts[] = {
      "catalog:\n  a: [unclosed\n",
      "catalog:\n\t- a\n  b: :\n",
      "- a\n- b\n",
      "catalog: text\n",
      "catalog:\n  a: text\n",
      "just text",
      "catalog:\n  a: &x\n    b: *x\n",  // an alias to itself
      "\xff\xfe\x00\x01",
  };
  for (const char* text : texts) {
    Config("home", text);
    const auto status = CatalogProperties("a", {}).status();
    ASSERT_FALSE(status.ok()) << text;
    EXPECT_THAT(Message(status), HasSubstr(".pyiceberg.yaml")) << text;
  }
}

TEST_F(Address, AliasesThatExpandWithoutEndAreRefused) {
  std::string text = "a0: &a0 {k: v, l: w}\n";
  for (int i = 1; i < 15; ++i) {
    text += fmt::format("a{0}: &a{0} {{", i);
    for (int j = 0; j < 8; ++j) text += fmt::format("{}k{}: *a{}", j ? ", " : "", j, i - 1);
    text += "}\n";
  }
  Config("home", text + "catalog:\n  a: *a14\n");
  EXPECT_THAT(Message(CatalogProperties("a", {}).status()), HasSubstr("too large"));
}

TEST_F(Address, EmptyFileIsPassedOver) {
  Config("home", "\n");
  Config("work", "catalog:\n  a:\n    uri: http://work\n");
  EXPECT_EQ(CatalogProperties("a", {}).ValueOrDie()["uri"], "http://work");
}

// Prints the properties of the catalog $THALWEG_PROBE as JSON: test/cli_test.py compares them with
// PyIceberg's.
TEST(DISABLED_CatalogProbe, Print) {
  const auto properties = CatalogProperties(std::getenv("THALWEG_PROBE"), {});
  ASSERT_TRUE(properties.ok()) << properties.status().ToString();
  Json json = Json::object();
  for (const auto& [key, value] : *properties) json[key] = value;
  std::cout << "probe: " << DumpJson(json) << std::endl;
}

}  // namespace
}  // namespace thalweg
