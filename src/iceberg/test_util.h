#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "iceberg/catalog.h"
#include "iceberg/schema.h"

namespace thalweg::iceberg {

/// A folder that goes away with the object.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "thalweg-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~TempFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// Names of the files in a folder, sorted; empty when it is not there.
inline std::vector<std::string> FilesIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// A schema of one column, "a", an optional long.
inline Schema OneColumn() {
  Schema schema;
  Field field;
  field.id = 1;
  field.name = "a";
  Type type;
  type.kind = TypeKind::kLong;
  field.type = std::make_shared<Type>(type);
  schema.fields.push_back(std::move(field));
  return schema;
}

/// Commits one property on top of `base`.
inline arrow::Result<LoadedTable> SetProperty(TableStore& store, const LoadedTable& base,
                                              const std::string& key, const std::string& value) {
  TableMetadata updated = base.metadata;
  updated.SetProperties({{key, value}});
  return store.Commit(base, updated);
}

}  // namespace thalweg::iceberg

#define ASSERT_OK(expression)                        \
  do {                                               \
    const arrow::Status status_ = (expression);      \
    ASSERT_TRUE(status_.ok()) << status_.ToString(); \
  } while (false)
#define TEST_CONCAT_INNER(a, b) a##b
#define TEST_CONCAT(a, b) TEST_CONCAT_INNER(a, b)
#define ASSERT_OK_AND_ASSIGN_IMPL(result, target, expression) \
  auto result = (expression);                                 \
  ASSERT_TRUE(result.ok()) << result.status().ToString();     \
  target = *std::move(result)
/// Like Arrow's: the value of a Result, or the end of the test.
#define ASSERT_OK_AND_ASSIGN(target, expression) \
  ASSERT_OK_AND_ASSIGN_IMPL(TEST_CONCAT(result_, __LINE__), target, expression)
