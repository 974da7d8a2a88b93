#include "iceberg/delete_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "iceberg/test_util.h"

namespace thalweg::iceberg {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

LiveFile File(FileContent content, std::string path, int64_t sequence_number,
              int64_t records = 10) {
  LiveFile live;
  live.file.content = content;
  live.file.file_path = std::move(path);
  live.file.record_count = records;
  live.sequence_number = sequence_number;
  return live;
}
LiveFile Data(std::string path, int64_t number, int64_t rows = 100) {
  return File(FileContent::kData, std::move(path), number, rows);
}
LiveFile Equality(int64_t number, int64_t records = 10) {
  return File(FileContent::kEqualityDeletes, "eq", number, records);
}
LiveFile Positions(int64_t number, int64_t records = 10) {
  return File(FileContent::kPositionDeletes, "pos", number, records);
}
LiveFile ScopedPositions(const std::string& target, int64_t number, int64_t records = 10) {
  LiveFile file = Positions(number, records);
  file.file.referenced_data_file = target;
  return file;
}
LiveFile BoundedPositions(const std::string& lower, const std::string& upper, int64_t number) {
  LiveFile file = Positions(number);
  file.file.lower_bounds[2147483546] = lower;
  file.file.upper_bounds[2147483546] = upper;
  return file;
}
LiveFile Vector(const std::string& target, int64_t number, int64_t records = 10) {
  LiveFile file = ScopedPositions(target, number, records);
  file.file.file_path = "dv-" + target;
  file.file.file_format = "puffin";
  return file;
}

DeleteTargets Targets(const std::vector<LiveFile>& files) {
  std::vector<DeleteTargets::Target> targets;
  for (const auto& live : files) targets.push_back({live.file.file_path, live.sequence_number});
  return DeleteTargets(targets);
}

TEST(DeleteIndex, WhatAppliesToADataFile) {
  const std::vector<LiveFile> deletes{
      Positions(5),                       // 0: of any file
      ScopedPositions("a", 5),            // 1
      BoundedPositions("b", "b", 5),      // 2: of b alone
      BoundedPositions("a", "c", 5),      // 3: of a to c
      BoundedPositions("data/a", "e", 5)  // 4: of later paths
      ,
      Equality(5),     // 5
      Equality(6),     // 6
      Vector("v", 5),  // 7
  };
  ASSERT_OK_AND_ASSIGN(const auto index, DeleteIndex::Make(deletes));
  ASSERT_OK_AND_ASSIGN(auto found, index.ForDataFile("a", 5));
  EXPECT_EQ(found.deletion_vector, std::nullopt);
  EXPECT_THAT(found.positions, ElementsAre(0, 1, 3));
  EXPECT_THAT(found.equality, ElementsAre(6));  // an equality delete must be younger
  ASSERT_OK_AND_ASSIGN(found, index.ForDataFile("b", 4));
  EXPECT_THAT(found.positions, ElementsAre(0, 2, 3));
  EXPECT_THAT(found.equality, ElementsAre(5, 6));
  ASSERT_OK_AND_ASSIGN(found, index.ForDataFile("b", 6));
  EXPECT_THAT(found.positions, ElementsAre());
  EXPECT_THAT(found.equality, ElementsAre());
  ASSERT_OK_AND_ASSIGN(found, index.ForDataFile("e", 1));
  EXPECT_THAT(found.positions, ElementsAre(0, 4));
  ASSERT_OK_AND_ASSIGN(found, index.ForDataFile("v", 5));
  EXPECT_EQ(found.deletion_vector, 7u);
  EXPECT_THAT(found.positions, ElementsAre());
  EXPECT_THAT(found.equality, ElementsAre(6));
}

TEST(DeleteIndex, ContradictionsAreErrors) {
  const std::vector<LiveFile> twice{Vector("v", 5), Vector("v", 6)};
  const auto two = DeleteIndex::Make(twice);
  ASSERT_FALSE(two.ok());
  EXPECT_THAT(two.status().message(), HasSubstr("data file v has two deletion vectors"));
  const std::vector<LiveFile> old{Vector("v", 5)};
  ASSERT_OK_AND_ASSIGN(const auto index, DeleteIndex::Make(old));
  EXPECT_FALSE(index.ForDataFile("v", 6).ok());
  std::vector<LiveFile> nameless{Vector("v", 5)};
  nameless[0].file.referenced_data_file.reset();
  EXPECT_FALSE(DeleteIndex::Make(nameless).ok());
  const std::vector<LiveFile> data{Data("a", 1)};
  EXPECT_FALSE(DeleteIndex::Make(data).ok());
}

TEST(UnneededDeletes, RulesOfTheCommit) {
  const std::vector<LiveFile> deletes{
      Vector("gone", 9),                    // 0: of a data file that is gone
      Vector("kept", 9),                    // 1
      ScopedPositions("gone", 9),           // 2: the same for positions
      ScopedPositions("kept", 9),           // 3
      ScopedPositions("kept", 2),           // 4: older than its data file
      BoundedPositions("gone", "gone", 9),  // 5: one file by its bounds
      Positions(2),                         // 6: older than every data file
      Positions(3),                         // 7: as old as the oldest
      BoundedPositions("l", "z", 3),        // 8: of none of the paths that are old enough
      BoundedPositions("l", "z", 4),        // 9
      Equality(3),                          // 10: not younger than the oldest
      Equality(4),                          // 11
  };
  const auto live = Targets({Data("kept", 3), Data("later", 4)});
  ASSERT_OK_AND_ASSIGN(auto unneeded, UnneededDeletes(live, deletes));
  EXPECT_THAT(unneeded, ElementsAre(0, 2, 4, 5, 6, 8, 10));
  // Nothing live: nothing is needed.
  ASSERT_OK_AND_ASSIGN(unneeded, UnneededDeletes(Targets({}), deletes));
  EXPECT_EQ(unneeded.size(), deletes.size());
  // The rewritten file has the sequence number of the snapshot that its rewrite started from, so
  // an equality delete that was committed meanwhile stays.
  const std::vector<LiveFile> meanwhile{Equality(2)};
  ASSERT_OK_AND_ASSIGN(unneeded, UnneededDeletes(Targets({Data("new", 1)}), meanwhile));
  EXPECT_THAT(unneeded, ElementsAre());
  ASSERT_OK_AND_ASSIGN(unneeded, UnneededDeletes(Targets({Data("new", 3)}), meanwhile));
  EXPECT_THAT(unneeded, ElementsAre(0));
}

// A delete file is unneeded exactly when it applies to no data file, one by one.
TEST(UnneededDeletes, AgreesWithEveryPair) {
  std::mt19937 random(11);
  auto path = [&] { return std::string(1, static_cast<char>('a' + random() % 12)); };
  for (int round = 0; round < 300; ++round) {
    std::vector<LiveFile> data;
    for (char c = 'a'; c < 'm'; ++c) {
      if (random() % 2 == 0) data.push_back(Data(std::string(1, c), random() % 8));
    }
    std::vector<LiveFile> deletes;
    for (int i = 0; i < 8; ++i) {
      const auto number = static_cast<int64_t>(random() % 10);
      std::string lower = path();
      std::string upper = path();
      if (upper < lower) std::swap(lower, upper);
      switch (random() % 4) {
        case 0:
          deletes.push_back(Equality(number));
          break;
        case 1:
          deletes.push_back(Positions(number));
          if (random() % 2 == 0) deletes.back().file.lower_bounds[2147483546] = lower;
          if (random() % 2 == 0) deletes.back().file.upper_bounds[2147483546] = upper + "~";
          break;
        case 2:
          deletes.push_back(BoundedPositions(lower, upper, number));
          break;
        default:
          deletes.push_back(ScopedPositions(lower, number));
      }
    }
    std::vector<size_t> expected;
    for (size_t i = 0; i < deletes.size(); ++i) {
      const auto& file = deletes[i].file;
      bool needed = false;
      for (const auto& one : data) {
        const std::string& target = one.file.file_path;
        if (file.content == FileContent::kEqualityDeletes) {
          needed |= one.sequence_number < deletes[i].sequence_number;
          continue;
        }
        bool named = true;
        if (file.referenced_data_file) named = *file.referenced_data_file == target;
        if (auto it = file.lower_bounds.find(2147483546); it != file.lower_bounds.end()) {
          named = named && it->second <= target;
        }
        if (auto it = file.upper_bounds.find(2147483546); it != file.upper_bounds.end()) {
          named = named && target <= it->second;
        }
        needed |= named && one.sequence_number <= deletes[i].sequence_number;
      }
      if (!needed) expected.push_back(i);
    }
    ASSERT_OK_AND_ASSIGN(const auto unneeded, UnneededDeletes(Targets(data), deletes));
    EXPECT_EQ(unneeded, expected);
    ASSERT_OK_AND_ASSIGN(const auto index, DeleteIndex::Make(deletes));
    std::vector<bool> applies(deletes.size());
    for (const auto& one : data) {
      ASSERT_OK_AND_ASSIGN(const auto found,
                           index.ForDataFile(one.file.file_path, one.sequence_number));
      for (size_t i : found.positions) applies[i] = true;
      for (size_t i : found.equality) applies[i] = true;
    }
    for (size_t i : expected) EXPECT_FALSE(applies[i]);
    EXPECT_EQ(static_cast<size_t>(std::count(applies.begin(), applies.end(), true)),
              deletes.size() - expected.size());
  }
}

TEST(EstimateDeletedRows, FromMetadata) {
  const std::vector<LiveFile> data{Data("a", 1), Data("b", 2, 300), Data("c", 9), Data("d", 1)};
  ASSERT_OK_AND_ASSIGN(auto none, EstimateDeletedRows(data, {}));
  EXPECT_EQ(none[0].rows, 0);
  EXPECT_TRUE(none[0].exact);
  const std::vector<LiveFile> exact{Vector("a", 3, 40), ScopedPositions("b", 3, 7),
                                    ScopedPositions("c", 3, 7)};
  ASSERT_OK_AND_ASSIGN(auto known, EstimateDeletedRows(data, exact));
  EXPECT_EQ(known[0].rows, 40);
  EXPECT_TRUE(known[0].exact);
  EXPECT_EQ(known[1].rows, 7);
  EXPECT_TRUE(known[1].exact);
  EXPECT_EQ(known[2].rows, 0);  // a younger file of the same path
  // 50 rows by equality over the 500 rows of a, b and d; two files of positions may name the same
  // rows.
  const std::vector<LiveFile> guessed{Equality(5, 50), ScopedPositions("b", 3, 7),
                                      ScopedPositions("b", 4, 1000)};
  ASSERT_OK_AND_ASSIGN(auto guess, EstimateDeletedRows(data, guessed));
  EXPECT_EQ(guess[0].rows, 10);
  EXPECT_FALSE(guess[0].exact);
  EXPECT_EQ(guess[1].rows, 300);
  EXPECT_FALSE(guess[1].exact);
  EXPECT_EQ(guess[2].rows, 0);
  EXPECT_TRUE(guess[2].exact);
}

}  // namespace
}  // namespace thalweg::iceberg
