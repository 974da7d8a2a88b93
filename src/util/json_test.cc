#include "util/json.h"

#include <gtest/gtest.h>

#include "util/status.h"

namespace thalweg {
namespace {

TEST(Json, KeepsTheOrderOfKeys) {
  const std::string text = R"({"z":1,"a":[true,null,"é"],"m":{"y":-2,"b":1.5}})";
  EXPECT_EQ(DumpJson(ParseJson(text, "x").ValueOrDie()), text);
}

TEST(Json, BrokenTextIsRefusedByName) {
  for (const char* text : {"", "{", "{\"a\":}", "[1,]", "nul", "{} {}", "\"\xff\""}) {
    auto parsed = ParseJson(text, "table metadata");
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_NE(parsed.status().message().find("table metadata"), std::string::npos);
  }
}

TEST(Json, DeepNestingIsRefused) {
  EXPECT_TRUE(ParseJson(std::string(150, '[') + std::string(150, ']'), "x").ok());
  auto deep = ParseJson(std::string(100000, '['), "x");
  ASSERT_FALSE(deep.ok());
  EXPECT_NE(deep.status().message().find("deeper"), std::string::npos);
  EXPECT_FALSE(ParseJson(std::string(300, '[') + std::string(300, ']'), "x").ok());
}

TEST(Json, CheckedMembers) {
  const Json object =
      ParseJson(
          R"({"s":"t","i":-5,"none":0,"big":18446744073709551615,"b":true,"d":2.5,"a":[1],"o":{"k":1},"n":null})",
          "doc")
          .ValueOrDie();
  EXPECT_EQ(*GetString(object, "s", "doc"), "t");
  EXPECT_EQ(*GetInt64(object, "i", "doc"), -5);
  EXPECT_EQ(*GetCount(object, "none", "doc"), 0);
  EXPECT_EQ(*GetBool(object, "b", "doc"), true);
  EXPECT_EQ(*GetDouble(object, "d", "doc"), 2.5);
  EXPECT_EQ(*GetDouble(object, "i", "doc"), -5.0);
  EXPECT_EQ((*GetArray(object, "a", "doc"))->size(), 1u);
  EXPECT_EQ((*GetObject(object, "o", "doc"))->size(), 1u);
  EXPECT_EQ(*FindString(object, "s", "doc"), "t");
  EXPECT_EQ(*FindString(object, "n", "doc"), std::nullopt);
  EXPECT_EQ(*FindInt64(object, "absent", "doc"), std::nullopt);
  EXPECT_EQ(*FindInt64(object, "i", "doc"), -5);
  for (const auto& status :
       {GetString(object, "i", "doc").status(), GetString(object, "absent", "doc").status(),
        GetString(object, "n", "doc").status(), GetInt64(object, "d", "doc").status(),
        GetInt64(object, "big", "doc").status(), GetCount(object, "i", "doc").status(),
        GetBool(object, "i", "doc").status(), GetDouble(object, "s", "doc").status(),
        GetArray(object, "o", "doc").status(), GetObject(object, "a", "doc").status(),
        FindString(object, "i", "doc").status(), FindInt64(object, "s", "doc").status(),
        GetString(object["a"], "s", "doc").status()}) {
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.message().rfind("doc", 0), 0u) << status.message();
  }
}

TEST(Json, DumpReplacesInvalidUtf8) {
  Json object;
  object["k"] = "a\xff";
  EXPECT_EQ(DumpJson(object), "{\"k\":\"a\xef\xbf\xbd\"}");
}

}  // namespace
}  // namespace thalweg
