#include "lance/layout_record.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "key/encoded_value_internal.h"
#include "lance/test_util_internal.h"
#include "util/json.h"

namespace thalweg::lance {
namespace {

using testing::HasSubstr;

LayoutRecord SmallRecord() {
  LayoutRecord record;
  record.run.run_id = "nightly-1";
  record.run.spec_id = "0123456789abcdef";
  record.run.snapshot_id = "12";
  record.run.committed_millis = 1700000000000;
  record.run.rows = 300;
  record.run.source_units = 5;
  record.run.source_bytes = 5000;
  record.run.output_units = 4;
  record.run.output_bytes = 4000;
  record.run.depth_before = 5;
  record.run.predicted_depth = 1.75;
  record.version = 3;
  record.field_ids = {0, 2};
  record.groups.push_back({"nightly-1-0", {{7, 0xfedcba9876543210}, {8, 1}, {9, 2}}});
  record.groups.push_back({"nightly-1-1", {{11, UINT64_MAX}}});
  const KeyType type{KeyType::Kind::kSigned, 64};
  ColumnQuantiles column;
  column.field_id = 0;
  column.null_share = 0.25;
  for (int i = 0; i < 5; ++i) column.quantiles.push_back(EncodeMapped(type, (1ull << 63) + i));
  column.repeated.push_back({column.quantiles[2], 0.5});
  record.run.quantiles.push_back(column);
  return record;
}

TEST(LayoutRecord, RoundTrip) {
  const LayoutRecord record = SmallRecord();
  const auto read = ParseRecord(RecordKey("nightly-1"), RecordToText(record));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(RecordKey("nightly-1"), "thalweg.run.nightly-1");
  EXPECT_EQ(read->run.run_id, "nightly-1");
  EXPECT_EQ(read->run.spec_id, record.run.spec_id);
  EXPECT_EQ(read->run.snapshot_id, "12");
  EXPECT_EQ(read->run.committed_millis, 1700000000000);
  EXPECT_EQ(read->run.rows, 300);
  EXPECT_EQ(read->run.output_bytes, 4000);
  EXPECT_EQ(read->run.depth_before, 5);
  EXPECT_EQ(read->run.predicted_depth, 1.75);
  EXPECT_EQ(read->run.achieved_depth, -1);
  EXPECT_EQ(read->version, 3);
  EXPECT_EQ(read->field_ids, (std::vector<int32_t>{0, 2}));
  ASSERT_EQ(read->groups.size(), 2u);
  EXPECT_EQ(read->groups[0].id, "nightly-1-0");
  EXPECT_EQ(read->groups[0].fragments, record.groups[0].fragments);
  EXPECT_EQ(read->groups[1].fragments, record.groups[1].fragments);
  ASSERT_EQ(read->run.quantiles.size(), 1u);
  EXPECT_EQ(read->run.quantiles[0].quantiles, record.run.quantiles[0].quantiles);
  EXPECT_EQ(read->run.quantiles[0].null_share, 0.25);
  ASSERT_EQ(read->run.quantiles[0].repeated.size(), 1u);
  EXPECT_EQ(read->run.quantiles[0].repeated[0].value, record.run.quantiles[0].quantiles[2]);
  EXPECT_EQ(read->run.quantiles[0].repeated[0].mass, 0.5);
}

/// Four columns, each with all quantiles and repeated values that a run can have.
LayoutRecord LargeRecord(const std::function<std::string(int)>& value, int fragments) {
  LayoutRecord record = SmallRecord();
  record.run.quantiles.clear();
  record.field_ids = {0, 1, 2, 3};
  for (int id = 0; id < 4; ++id) {
    ColumnQuantiles column;
    column.field_id = id;
    column.null_share = 1.0 / 3;
    for (int i = 0; i < 256; ++i) column.quantiles.push_back(value(i));
    std::sort(column.quantiles.begin(), column.quantiles.end());
    for (int i = 0; i < 200; ++i) column.repeated.push_back({value(i), 1.0 / 201});
    record.run.quantiles.push_back(std::move(column));
  }
  record.groups.clear();
  LayoutRecord::Group group{"nightly-1", {}};
  std::mt19937_64 random(5);
  for (int i = 0; i < fragments; ++i) group.fragments.push_back({1000000u + i, random()});
  record.groups.push_back(std::move(group));
  return record;
}

void ExpectWithinBound(const LayoutRecord& record, size_t least_quantiles) {
  const std::string text = RecordToText(record);
  EXPECT_LE(text.size(), 16384 + 16 * record.groups[0].fragments.size());
  const auto read = ParseRecord(RecordKey("nightly-1"), text);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->groups[0].fragments, record.groups[0].fragments);
  ASSERT_EQ(read->run.quantiles.size(), 4u);
  for (const auto& column : read->run.quantiles) {
    EXPECT_GE(column.quantiles.size(), least_quantiles);
    EXPECT_TRUE(std::is_sorted(column.quantiles.begin(), column.quantiles.end()));
  }
}

TEST(LayoutRecord, SizeIsBoundedForNumbers) {
  std::mt19937_64 random(1);
  const KeyType type{KeyType::Kind::kSigned, 64};
  auto value = [&](int) { return EncodeMapped(type, random()); };
  for (const int fragments : {0, 1, 5000}) {
    const auto record = LargeRecord(value, fragments);
    ExpectWithinBound(record, 64);
    const auto read = ParseRecord(RecordKey("nightly-1"), RecordToText(record));
    for (int c = 0; c < 4; ++c) {  // the ends of the domain stay
      EXPECT_EQ(read->run.quantiles[c].quantiles.front(),
                record.run.quantiles[c].quantiles.front());
      EXPECT_EQ(read->run.quantiles[c].quantiles.back(), record.run.quantiles[c].quantiles.back());
    }
  }
}

TEST(LayoutRecord, SizeIsBoundedForStrings) {
  std::mt19937_64 random(2);
  // A long common prefix, then long values: the prefix stays, so that they can be told apart.
  const std::string prefix(64, 'p');
  auto text = [&](int i) {
    return prefix + std::to_string(10000 + i * 7) + std::string(500, 'a' + i % 20);
  };
  const auto record = LargeRecord([&](int i) { return EncodeText(text(i)); }, 3);
  ExpectWithinBound(record, 16);
  const auto read = ParseRecord(RecordKey("nightly-1"), RecordToText(record));
  const auto& quantiles = read->run.quantiles[0].quantiles;
  for (size_t i = 1; i < quantiles.size(); ++i) EXPECT_LT(quantiles[i - 1], quantiles[i]);
  EXPECT_THAT(DecodeText(quantiles.front()).ValueOrDie(), HasSubstr(prefix + "10000"));
  // Values of a megabyte each, nothing in common, with bytes above 0x7f.
  auto random_text = [&](int) {
    std::string bytes(1 << 14, ' ');
    for (char& c : bytes) c = static_cast<char>(random());
    return EncodeText(bytes);
  };
  ExpectWithinBound(LargeRecord(random_text, 3), 16);
  // So much in common that nothing fits.
  const std::string huge(1 << 16, 'x');
  const auto unfit = LargeRecord([&](int i) { return EncodeText(huge + std::to_string(i)); }, 3);
  EXPECT_LE(RecordToText(unfit).size(), size_t{16384 + 48});
  EXPECT_TRUE(ParseRecord(RecordKey("nightly-1"), RecordToText(unfit)).ok());
}

TEST(LayoutRecord, HostileTextIsRefused) {
  const std::string key = RecordKey("nightly-1");
  const std::string good = RecordToText(SmallRecord());
  ASSERT_TRUE(ParseRecord(key, good).ok());
  EXPECT_FALSE(ParseRecord(RecordKey("other"), good).ok());
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(ParseRecord(key, good.substr(0, length)).ok()) << length;
  }
  const Json json = *ParseJson(good, "good");
  auto refused = [&](const std::function<void(Json*)>& change) {
    Json changed = json;
    change(&changed);
    const auto read = ParseRecord(key, DumpJson(changed));
    EXPECT_FALSE(read.ok());
    EXPECT_EQ(read.status().message().find('\n'), std::string::npos);
    return !read.ok();
  };
  for (const auto& item : json.items()) {
    if (item.key().ends_with("depth") || item.key() == "depth-before") continue;  // may be absent
    EXPECT_TRUE(refused([&](Json* j) { j->erase(item.key()); })) << item.key();
    EXPECT_TRUE(refused([&](Json* j) { (*j)[item.key()] = -1; })) << item.key();
    EXPECT_TRUE(refused([&](Json* j) { (*j)[item.key()] = Json{{"a", 1}}; })) << item.key();
  }
  refused([](Json* j) { (*j)["format"] = "thalweg.run/2"; });
  refused([](Json* j) { (*j)["version"] = 0; });
  refused([](Json* j) { (*j)["field-ids"] = {0, 1, 2, 3, 4}; });
  refused([](Json* j) { (*j)["groups"][0]["fragments"] = "0-18446744073709551615"; });
  refused([](Json* j) { (*j)["groups"][0]["fragments"] = "7-8"; });
  refused([](Json* j) { (*j)["groups"][0]["hashes"] = "****"; });
  refused([](Json* j) { (*j)["groups"][0]["hashes"] = "AAAA"; });
  refused([](Json* j) { (*j)["groups"][1]["fragments"] = "9"; });  // in two groups
  refused([](Json* j) { (*j)["groups"][1]["id"] = "nightly-1-0"; });
  refused([](Json* j) { (*j)["quantiles"][0]["null-share"] = 2; });
  refused([](Json* j) { (*j)["quantiles"][0]["repeated"][1] = 1.5; });
  refused([](Json* j) { (*j)["quantiles"][0]["repeated"].erase(0); });
  refused([](Json* j) {
    auto& values = (*j)["quantiles"][0]["quantiles"];
    std::reverse(values.begin(), values.end());
  });
  refused([](Json* j) {
    auto& values = (*j)["quantiles"][0]["quantiles"];
    for (int i = 0; i < 300; ++i) values.push_back(values.back());
  });
}

TEST(LayoutRecord, OtherVersionsOfTheFormatAreToldFromRubbish) {
  EXPECT_TRUE(IsOtherFormat(R"({"format": "thalweg.run/2", "anything": 1})"));
  EXPECT_FALSE(IsOtherFormat(RecordToText(SmallRecord())));
  EXPECT_FALSE(IsOtherFormat(R"({"format": "thalweg.run/1"})"));
  for (const char* rubbish : {"", "{", "[1]", R"({"format": 2})", R"({"format": "x/2"})"}) {
    EXPECT_FALSE(IsOtherFormat(rubbish)) << rubbish;
  }
}

TEST(FragmentRanges, RoundTrip) {
  EXPECT_EQ(FragmentRanges({}), "");
  EXPECT_EQ(FragmentRanges({5}), "5");
  EXPECT_EQ(FragmentRanges({3, 4, 5, 7, 9, 10}), "3-5,7,9-10");
  for (const std::vector<uint64_t>& ids :
       {std::vector<uint64_t>{}, {0}, {0, 1, 2}, {4, 6, 7, 1ull << 40}}) {
    const auto parsed = ParseFragmentRanges(FragmentRanges(ids), ids.size());
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, ids);
  }
  for (const char* bad : {"a", "1-", "-1", "3-2", "1,1", "2,1", "1-4,3", "1;2", "1--2", " 1",
                          "1-99999999999999", "99999999999999999999"}) {
    EXPECT_FALSE(ParseFragmentRanges(bad, 10).ok()) << bad;
  }
}

TEST(BindingHash, HoldsToWhatTheStampWasGivenTo) {
  const std::vector<int32_t> keys{0, 2};
  const Fragment fragment = FragmentOf(4, 100, {{"data/a.lance", {0, 1, 2, 3}}});
  const auto hash = BindingHash(fragment, keys);
  ASSERT_TRUE(hash);
  // Deletions and added columns keep it.
  Fragment deleted = fragment;
  deleted.deleted_rows = 10;
  EXPECT_EQ(BindingHash(deleted, keys), hash);
  Fragment widened = fragment;
  widened.files.push_back({"data/b.lance", {4}, 10});
  EXPECT_EQ(BindingHash(widened, keys), hash);
  Fragment overlaid = fragment;
  overlaid.overlays.push_back({"data/o.lance", {3}, 10});
  EXPECT_EQ(BindingHash(overlaid, keys), hash);
  // Anything else drops it.
  EXPECT_NE(BindingHash(FragmentOf(5, 100, {{"data/a.lance", {0, 1, 2, 3}}}), keys), hash);
  EXPECT_NE(BindingHash(FragmentOf(4, 99, {{"data/a.lance", {0, 1, 2, 3}}}), keys), hash);
  EXPECT_NE(BindingHash(FragmentOf(4, 100, {{"data/c.lance", {0, 1, 2, 3}}}), keys), hash);
  EXPECT_NE(BindingHash(
                FragmentOf(4, 100, {{"data/a.lance", {0, 1, -2, 3}}, {"data/u.lance", {2}}}), keys),
            hash);
  overlaid.overlays[0].field_ids = {2};
  EXPECT_EQ(BindingHash(overlaid, keys), std::nullopt);
  EXPECT_EQ(BindingHash(FragmentOf(4, 100, {{"data/a.lance", {0, 1}}}), keys), std::nullopt);
  // The order in which the manifest lists files does not matter.
  EXPECT_EQ(BindingHash(FragmentOf(4, 100, {{"data/a.lance", {0}}, {"data/b.lance", {2}}}), keys),
            BindingHash(FragmentOf(4, 100, {{"data/b.lance", {2}}, {"data/a.lance", {0}}}), keys));
}

}  // namespace
}  // namespace thalweg::lance
