#include "iceberg/file_io.h"

#include <arrow/buffer.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>

#include "iceberg/test_util.h"

namespace thalweg::iceberg {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

std::string Slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(FileIOTest, LocalPaths) {
  for (const char* location :
       {"/a/b%20c", "file:/a/b%20c", "file:///a/b%20c", "file://localhost/a/b%20c"}) {
    ASSERT_OK_AND_ASSIGN(std::string path, FileIO::LocalPath(location));
    EXPECT_EQ(path, "/a/b%20c") << location;
  }
  ASSERT_OK_AND_ASSIGN(std::string with_colon, FileIO::LocalPath("/a:/b"));
  EXPECT_EQ(with_colon, "/a:/b");
  for (const char* location : {"s3://bucket/x", "hdfs:/x", "gs://b"}) {
    auto status = FileIO::LocalPath(location).status();
    EXPECT_TRUE(status.IsNotImplemented()) << location;
    EXPECT_THAT(status.message(), HasSubstr(location));
  }
  EXPECT_FALSE(FileIO::LocalPath("file://host/x").ok());
  EXPECT_FALSE(FileIO::LocalPath("").ok());
  EXPECT_FALSE(FileIO::LocalPath(std::string("/a\0b", 4)).ok());
}

TEST(FileIOTest, JoinsAndCompares) {
  EXPECT_EQ(JoinLocation("/a/", "b"), "/a/b");
  EXPECT_EQ(JoinLocation("file:///a", "b"), "file:///a/b");
  EXPECT_EQ(JoinLocation("/", "b"), "/b");
  TempFolder folder;
  EXPECT_TRUE(SameLocation("file://" + folder.path(), folder.path() + "/"));
  EXPECT_TRUE(SameLocation("file:" + folder / "x/../y", folder / "y"));
  EXPECT_FALSE(SameLocation(folder / "x", folder / "y"));
  EXPECT_FALSE(SameLocation("s3://a/b", "/a/b"));
}

TEST(FileIOTest, WritesReadsAndDeletes) {
  TempFolder folder;
  FileIO io;
  const std::string location = "file://" + folder / "a/b c/x%41.bin";
  const std::string bytes = std::string(100000, 'q') + std::string("\0\xff", 2);
  ASSERT_OK(io.WriteNew(location, bytes));
  EXPECT_EQ(Slurp(folder / "a/b c/x%41.bin"), bytes);
  ASSERT_OK_AND_ASSIGN(std::string read, io.ReadAll(location));
  EXPECT_EQ(read, bytes);
  ASSERT_OK_AND_ASSIGN(auto size, io.Size(location));
  EXPECT_EQ(size, std::optional<int64_t>(100002));
  ASSERT_OK_AND_ASSIGN(auto input, io.OpenInput(location));
  ASSERT_OK_AND_ASSIGN(auto tail, input->ReadAt(99999, 10));
  EXPECT_EQ(tail->ToString(), std::string("q\0\xff", 3));
  EXPECT_THAT(io.ReadAll(location, 1000).status().message(), HasSubstr("100002 bytes"));

  auto again = io.WriteNew(location, "other");
  EXPECT_TRUE(again.IsAlreadyExists());
  EXPECT_THAT(again.message(), HasSubstr(location));
  EXPECT_EQ(Slurp(folder / "a/b c/x%41.bin"), bytes);

  ASSERT_OK(io.Delete(location));
  ASSERT_OK(io.Delete(location));
  ASSERT_OK(io.Delete(folder / "none/x"));
  ASSERT_OK_AND_ASSIGN(size, io.Size(location));
  EXPECT_EQ(size, std::nullopt);
}

TEST(FileIOTest, Streams) {
  TempFolder folder;
  FileIO io;
  ASSERT_OK_AND_ASSIGN(auto stream, io.Create(folder / "new/file"));
  ASSERT_OK(stream->Write("abc", 3));
  ASSERT_OK(stream->Write("defg", 4));
  ASSERT_OK_AND_ASSIGN(int64_t position, stream->Tell());
  EXPECT_EQ(position, 7);
  ASSERT_OK(stream->Close());
  EXPECT_TRUE(stream->closed());
  ASSERT_OK(stream->Close());
  EXPECT_FALSE(stream->Write("x", 1).ok());
  ASSERT_OK(io.Sync(folder / "new/file"));
  EXPECT_EQ(Slurp(folder / "new/file"), "abcdefg");
  EXPECT_TRUE(io.Create(folder / "new/file").status().IsAlreadyExists());
}

TEST(FileIOTest, ErrorsNameLocationAndReason) {
  TempFolder folder;
  FileIO io;
  auto expect = [&](const arrow::Status& status, const std::string& location, const char* reason) {
    EXPECT_THAT(status.message(), HasSubstr(location));
    EXPECT_THAT(status.message(), HasSubstr(reason));
  };
  expect(io.ReadAll(folder / "none").status(), folder / "none", "No such file or directory");
  expect(io.OpenInput(folder / "none").status(), folder / "none", "No such file or directory");
  expect(io.ReadAll(folder.path()).status(), folder.path(), "Is a directory");
  expect(io.Sync(folder / "none"), folder / "none", "No such file or directory");
  expect(io.RenameNoReplace(folder / "none", folder / "to"), folder / "to",
         "No such file or directory");
  // Nothing can be created in /proc, not even by root.
  expect(io.WriteNew("/proc/thalweg/x", "x"), "/proc/thalweg/x", "No such file or directory");
  ASSERT_OK(io.WriteNew(folder / "file", ""));
  expect(io.WriteNew(folder / "file/x", "x"), folder / "file/x", "Not a directory");
}

TEST(FileIOTest, FailedWritesLeaveNothing) {
  TempFolder folder;
  FileIO io;
  // A limit on the size of files stands in for the full disk.
  struct rlimit before, limited;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  limited = before;
  limited.rlim_cur = 1000;
  auto* handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limited), 0);
  auto whole = io.WriteNew(folder / "x", std::string(5000, 'x'));
  auto replaced = io.Replace(folder / "y", std::string(5000, 'x'));
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(whole.message(), HasSubstr("cannot write " + folder / "x: File too large"));
  EXPECT_FALSE(replaced.ok());
  EXPECT_THAT(FilesIn(folder.path()), ElementsAre()) << "a failed write leaves nothing";
}

TEST(FileIOTest, ListsInTheFormAskedFor) {
  TempFolder folder;
  FileIO io;
  ASSERT_OK(io.WriteNew(folder / "a", "12345"));
  ASSERT_OK(io.WriteNew(folder / "sub/b", ""));
  std::filesystem::create_directory_symlink(folder.path(), folder / "sub/loop");
  auto names = [](const std::vector<FileIO::Listed>& files) {
    std::vector<std::string> locations;
    for (const auto& file : files) locations.push_back(file.location);
    return locations;
  };
  const std::string base = "file:" + folder.path();
  ASSERT_OK_AND_ASSIGN(auto flat, io.List(base, false));
  EXPECT_THAT(names(flat), ElementsAre(base + "/a"));
  EXPECT_EQ(flat[0].size, 5);
  struct stat info;
  ASSERT_EQ(::stat((folder / "a").c_str(), &info), 0);
  EXPECT_EQ(flat[0].modified_millis / 1000, info.st_mtim.tv_sec);
  ASSERT_OK_AND_ASSIGN(auto all, io.List(base + "/", true));
  EXPECT_THAT(names(all), UnorderedElementsAre(base + "/a", base + "/sub/b"));
  ASSERT_OK_AND_ASSIGN(auto none, io.List(folder / "none", true));
  EXPECT_TRUE(none.empty());
}

TEST(FileIOTest, RenamesWithoutReplacing) {
  TempFolder folder;
  FileIO io;
  ASSERT_OK(io.WriteNew(folder / "a", "a"));
  ASSERT_OK(io.WriteNew(folder / "b", "b"));
  EXPECT_TRUE(io.RenameNoReplace(folder / "a", folder / "b").IsAlreadyExists());
  EXPECT_EQ(Slurp(folder / "b"), "b");
  ASSERT_OK(io.RenameNoReplace(folder / "a", folder / "c"));
  EXPECT_THAT(FilesIn(folder.path()), ElementsAre("b", "c"));
}

TEST(FileIOTest, OneOfManyRenamesWins) {
  TempFolder folder;
  FileIO io;
  constexpr int kThreads = 8;
  for (int round = 0; round < 20; ++round) {
    const std::string target = folder / ("target" + std::to_string(round));
    std::atomic<int> won{0};
    std::atomic<int> winner{-1};
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        const std::string mine = folder / fmt::format("{}-{}", round, i);
        EXPECT_TRUE(io.WriteNew(mine, std::to_string(i)).ok());
        auto status = io.RenameNoReplace(mine, target);
        EXPECT_TRUE(status.ok() || status.IsAlreadyExists()) << status.ToString();
        if (status.ok()) {
          ++won;
          winner = i;
        }
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(won, 1);
    EXPECT_EQ(Slurp(target), std::to_string(winner));
  }
}

TEST(FileIOTest, Replaces) {
  TempFolder folder;
  FileIO io;
  ASSERT_OK(io.Replace(folder / "x", "first"));
  ASSERT_OK(io.Replace(folder / "x", "2"));
  EXPECT_EQ(Slurp(folder / "x"), "2");
  EXPECT_THAT(FilesIn(folder.path()), ElementsAre("x"));
}

}  // namespace
}  // namespace thalweg::iceberg
