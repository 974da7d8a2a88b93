#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "iceberg/catalog.h"
#include "iceberg/metadata_file.h"
#include "iceberg/test_util.h"
#include "util/status.h"
#include "util/uuid.h"

namespace thalweg::iceberg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

void Write(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::string Slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

class HadoopCatalogTest : public testing::Test {
 protected:
  std::unique_ptr<TableStore> Create(std::map<std::string, std::string> properties = {}) {
    auto store = NewHadoopTable(io_, location_);
    EXPECT_TRUE(store.ok());
    auto metadata = TableMetadata::Create(OneColumn(), location_, std::move(properties));
    EXPECT_TRUE(metadata.ok());
    auto created = (*store)->CreateTable(*metadata);
    EXPECT_TRUE(created.ok()) << created.status().ToString();
    return *std::move(store);
  }
  std::vector<std::string> Files() const { return FilesIn(location_ + "/metadata"); }

  TempFolder folder_;
  std::string location_ = folder_ / "table";
  std::shared_ptr<FileIO> io_ = std::make_shared<FileIO>();
};

TEST_F(HadoopCatalogTest, CreatesAndCommits) {
  auto store = Create();
  EXPECT_THAT(Files(), ElementsAre("v1.metadata.json", "version-hint.text"));
  EXPECT_EQ(Slurp(location_ + "/metadata/version-hint.text"), "1");
  ASSERT_OK_AND_ASSIGN(auto first, store->Load());
  ASSERT_OK_AND_ASSIGN(auto second, SetProperty(*store, first, "a", "1"));
  EXPECT_EQ(second.metadata_location, location_ + "/metadata/v2.metadata.json");
  EXPECT_EQ(Slurp(location_ + "/metadata/version-hint.text"), "2");
  EXPECT_THAT(Files(), ElementsAre("v1.metadata.json", "v2.metadata.json", "version-hint.text"));
  ASSERT_OK_AND_ASSIGN(auto opened, OpenHadoopTable(io_, "file://" + location_ + "/"));
  ASSERT_OK_AND_ASSIGN(auto loaded, opened->Load());
  EXPECT_EQ(loaded.metadata.property("a", ""), "1");
  EXPECT_EQ(loaded.metadata.ToText(), Slurp(location_ + "/metadata/v2.metadata.json"));
  EXPECT_EQ(loaded.metadata.json()["metadata-log"].size(), 1u);
  EXPECT_EQ(loaded.metadata.json()["metadata-log"][0]["metadata-file"],
            location_ + "/metadata/v1.metadata.json");
  std::string why = "x";
  EXPECT_TRUE(opened->writable(&why));
  EXPECT_EQ(why, "");
  EXPECT_TRUE(store->CreateTable(first.metadata).status().IsAlreadyExists());
}

TEST_F(HadoopCatalogTest, AStaleBaseIsAConflictAndLeavesNothing) {
  auto store = Create();
  ASSERT_OK_AND_ASSIGN(auto base, store->Load());
  ASSERT_OK(SetProperty(*store, base, "a", "1").status());
  const auto before = Files();
  auto status = SetProperty(*store, base, "a", "2").status();
  EXPECT_EQ(KindOf(status), FailureKind::kConflict) << status.ToString();
  EXPECT_EQ(Files(), before);

  // The same, lost to a writer that uses the other codec.
  ASSERT_OK_AND_ASSIGN(base, store->Load());
  ASSERT_OK(SetProperty(*store, base, "write.metadata.compression-codec", "gzip").status());
  EXPECT_THAT(Files(), testing::Contains("v3.gz.metadata.json"));
  status = SetProperty(*store, base, "a", "2").status();
  EXPECT_EQ(KindOf(status), FailureKind::kConflict) << status.ToString();
  ASSERT_OK_AND_ASSIGN(auto loaded, store->Load());
  EXPECT_EQ(loaded.metadata_location, location_ + "/metadata/v3.gz.metadata.json");

  // And to versions of which the next one has expired already.
  ASSERT_OK_AND_ASSIGN(auto later, SetProperty(*store, loaded, "b", "1"));
  ASSERT_OK(SetProperty(*store, later, "b", "2").status());
  ASSERT_OK(io_->Delete(later.metadata_location));
  status = SetProperty(*store, loaded, "b", "3").status();
  EXPECT_EQ(KindOf(status), FailureKind::kConflict) << status.ToString();
}

TEST_F(HadoopCatalogTest, FindsTheNewestVersionWhateverTheHint) {
  auto store = Create();
  ASSERT_OK_AND_ASSIGN(auto table, store->Load());
  for (int i = 0; i < 11; ++i) {
    ASSERT_OK_AND_ASSIGN(table, SetProperty(*store, table, "n", std::to_string(i)));
  }
  const std::string hint = location_ + "/metadata/version-hint.text";
  for (const char* text :
       {"1", "12", "13", "", "x", "3\n", "-7", "99999999999999999999", "9223372036854775807", "1 2",
        "twelve and more than sixty-four letters of hint, all of them nonsense"}) {
    Write(hint, text);
    ASSERT_OK_AND_ASSIGN(auto found, store->Load());
    EXPECT_EQ(found.metadata_location, location_ + "/metadata/v12.metadata.json") << text;
  }
  std::filesystem::remove(hint);
  ASSERT_OK_AND_ASSIGN(auto found, store->Load());
  EXPECT_EQ(found.metadata_location, location_ + "/metadata/v12.metadata.json");
  // A hint to an expired version, with a gap behind it.
  Write(hint, "2");
  ASSERT_OK(io_->Delete(location_ + "/metadata/v2.metadata.json"));
  ASSERT_OK_AND_ASSIGN(found, store->Load());
  EXPECT_EQ(found.metadata_location, location_ + "/metadata/v12.metadata.json");
  // Leftovers of a dead writer are no versions.
  Write(location_ + "/metadata/" + NewUuid() + ".metadata.json", "{}");
  Write(location_ + "/metadata/v99.metadata.json.tmp", "{}");
  std::filesystem::remove(hint);
  ASSERT_OK_AND_ASSIGN(found, store->Load());
  EXPECT_EQ(found.metadata_location, location_ + "/metadata/v12.metadata.json");
}

TEST_F(HadoopCatalogTest, ExpiresOldMetadataWhenAsked) {
  auto store = Create({{"write.metadata.delete-after-commit.enabled", "true"},
                       {"write.metadata.previous-versions-max", "2"}});
  ASSERT_OK_AND_ASSIGN(auto table, store->Load());
  for (int i = 0; i < 4; ++i) {
    ASSERT_OK_AND_ASSIGN(table, SetProperty(*store, table, "n", std::to_string(i)));
  }
  EXPECT_THAT(Files(), ElementsAre("v3.metadata.json", "v4.metadata.json", "v5.metadata.json",
                                   "version-hint.text"));
}

TEST_F(HadoopCatalogTest, MetadataPathIsNotForHadoopTables) {
  auto store = Create({{"write.metadata.path", folder_ / "elsewhere"}});
  ASSERT_OK_AND_ASSIGN(auto table, store->Load());
  EXPECT_EQ(store->MetadataFolder(table.metadata), location_ + "/metadata");
}

TEST_F(HadoopCatalogTest, NoTable) {
  auto status = OpenHadoopTable(io_, folder_ / "none").status();
  EXPECT_TRUE(status.IsKeyError());
  EXPECT_THAT(status.message(), HasSubstr(folder_ / "none"));
  EXPECT_TRUE(OpenHadoopTable(io_, "gs://b/t").status().IsNotImplemented());
  ASSERT_OK_AND_ASSIGN(auto store, NewHadoopTable(io_, folder_ / "none"));
  EXPECT_TRUE(store->Load().status().IsKeyError());
}

TEST_F(HadoopCatalogTest, CorruptMetadataIsAnError) {
  auto store = Create();
  const std::string file = location_ + "/metadata/v1.metadata.json";
  const std::string text = Slurp(file);
  Write(file, text.substr(0, text.size() - 10));
  auto status = OpenHadoopTable(io_, location_).status();
  EXPECT_THAT(status.message(), HasSubstr(file));
}

TEST_F(HadoopCatalogTest, ATableOfACatalogIsReadOnly) {
  auto metadata = *TableMetadata::Create(OneColumn(), location_, {});
  const std::string old_file = location_ + "/metadata/00001-" + NewUuid() + ".metadata.json";
  const std::string file = location_ + "/metadata/00010-" + NewUuid() + ".metadata.json";
  Write(old_file, metadata.ToText());
  metadata.SetProperties({{"a", "new"}});
  Write(file, metadata.ToText());
  for (const std::string& name : {location_, file}) {
    ASSERT_OK_AND_ASSIGN(auto store, OpenHadoopTable(io_, name));
    ASSERT_OK_AND_ASSIGN(auto table, store->Load());
    EXPECT_EQ(table.metadata.property("a", ""), "new");
    std::string why;
    EXPECT_FALSE(store->writable(&why));
    EXPECT_THAT(why, HasSubstr("<catalog>.<namespace>.<table>"));
    auto status = SetProperty(*store, table, "a", "1").status();
    EXPECT_THAT(status.message(), HasSubstr("catalog"));
  }
  ASSERT_OK_AND_ASSIGN(auto store, NewHadoopTable(io_, location_));
  EXPECT_TRUE(store->CreateTable(metadata).status().IsAlreadyExists());
}

TEST_F(HadoopCatalogTest, AMovedTableIsReadOnly) {
  Create();
  std::filesystem::rename(location_, folder_ / "moved");
  ASSERT_OK_AND_ASSIGN(auto store, OpenHadoopTable(io_, folder_ / "moved"));
  std::string why;
  EXPECT_FALSE(store->writable(&why));
  EXPECT_THAT(why, HasSubstr(location_));
  ASSERT_OK_AND_ASSIGN(auto table, store->Load());
  EXPECT_FALSE(SetProperty(*store, table, "a", "1").ok());
}

TEST_F(HadoopCatalogTest, OneVersionIsReadOnly) {
  Create();
  ASSERT_OK_AND_ASSIGN(auto store, OpenHadoopTable(io_, location_ + "/metadata/v1.metadata.json"));
  std::string why;
  EXPECT_FALSE(store->writable(&why));
  EXPECT_THAT(why, HasSubstr("name its folder"));
  ASSERT_OK(store->Load().status());
}

}  // namespace
}  // namespace thalweg::iceberg
