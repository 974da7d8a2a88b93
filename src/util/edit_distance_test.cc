#include "util/edit_distance.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace thalweg {
namespace {

TEST(EditDistance, CountsEditsAndPassesOverCase) {
  EXPECT_EQ(EditDistance("", ""), 0);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("abc", ""), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
  EXPECT_EQ(EditDistance("Event_Time", "event_time"), 0);
  EXPECT_EQ(EditDistance("ab", "ba"), 2);
}

TEST(NamesInstead, SimilarOnesElseAll) {
  const std::vector<std::string> names{"user_id", "event_time", "userid", "text"};
  EXPECT_EQ(NamesInstead("user_ib", names, "table"), "similar: user_id, userid");
  EXPECT_EQ(NamesInstead("TEXT", names, "table"), "similar: text");
  EXPECT_EQ(NamesInstead("price", names, "dataset"),
            "the dataset has: user_id, event_time, userid, text");
}

TEST(NamesInstead, ShortNamesMayDifferInOneByte) {
  EXPECT_EQ(NamesInstead("a", {"b", "bc"}, "table"), "similar: b");
}

TEST(NamesInstead, ListsTwentyAtMost) {
  std::vector<std::string> names;
  std::string twenty;
  for (int i = 0; i < 20; ++i) {
    names.push_back("column_" + std::to_string(i));
    twenty += (i == 0 ? "" : ", ") + names.back();
  }
  EXPECT_EQ(NamesInstead("x", names, "table"), "the table has: " + twenty);
  names.emplace_back("column_20");
  EXPECT_EQ(NamesInstead("x", names, "table"), "the table has: " + twenty + ", …");
}

TEST(NearestNames, MostLikeFirstThenInTheirOrder) {
  EXPECT_EQ(NearestNames("events", {}), "");
  EXPECT_EQ(NearestNames("events", {"zz", "Events", "event"}), "Events, event, zz");
  EXPECT_EQ(NearestNames("b", {"a", "c", "d", "e", "b"}), "b, a, c, d, e");
  EXPECT_EQ(NearestNames("b", {"a", "c", "d", "e", "f", "g", "b"}), "b, a, c, d, e and 2 more");
}

}  // namespace
}  // namespace thalweg
