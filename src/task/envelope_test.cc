#include "task/envelope.h"

#include <gmock/gmock.h>

#include <random>

#include "task/execute.h"
#include "task/row_digest.h"
#include "task/toy_table_test.h"

namespace thalweg {
namespace {

using ::testing::HasSubstr;
using testing::ReadText;
using testing::TempFolder;
using testing::ToyRows;
using testing::ToySpec;
using testing::ToyTable;
using testing::Value;
using testing::WriteText;

class EnvelopeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    table_.Append(ToyRows(0, 800, 1));
    table_.Append(ToyRows(800, 700, 2));
    table_.Declare(ToySpec());
    const auto layout = Value(table_.DescribeLayout(ToySpec().columns));
    Plan plan;
    plan.selections.push_back(Selection{{0, 1}, 1500, 100000, 3, 4, "test"});
    PrepareOptions prepare;
    prepare.run_id = "run-1";
    prepare.target_file_bytes = 20000;
    prepare.target_row_group_bytes = 10000;
    tasks_ = Value(PrepareTasks(table_, ToySpec(), layout, plan, prepare, {}));
    ASSERT_EQ(tasks_.size(), 3u);
    result_ = Value(ExecuteTask(table_, tasks_[1], {}));
  }

  TempFolder folder_;
  ToyTable table_{folder_.path()};
  std::vector<TaskEnvelope> tasks_;
  ResultEnvelope result_;
};

TEST_F(EnvelopeTest, TasksDivideTheCurve) {
  EXPECT_EQ(tasks_[0].key_begin, Key128{0});
  EXPECT_EQ(*tasks_[0].key_end, tasks_[1].key_begin);
  EXPECT_EQ(*tasks_[1].key_end, tasks_[2].key_begin);
  EXPECT_FALSE(tasks_[2].key_end.has_value());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(tasks_[i].task, i);
    EXPECT_EQ(tasks_[i].slice, i);
    EXPECT_EQ(tasks_[i].selection_id, tasks_[0].selection_id);
    EXPECT_EQ(tasks_[i].selection_rows, 1500);
  }
}

TEST_F(EnvelopeTest, TaskRoundTripsThroughText) {
  for (const auto& task : tasks_) {
    const auto json = Value(ParseJson(DumpJson(task.ToJson()), "task"));
    EXPECT_EQ(json["type"], "thalweg.cluster-task/1");
    const auto again = Value(TaskEnvelope::FromJson(json, "task"));
    EXPECT_EQ(again.ToJson(), task.ToJson());
    EXPECT_EQ(again.fitted, task.fitted);
    EXPECT_EQ(again.spec, task.spec);
    EXPECT_TRUE(again.key_begin == task.key_begin && again.key_end == task.key_end);
    ASSERT_EQ(again.sources.size(), 2u);
    EXPECT_EQ(again.sources[1].json, task.sources[1].json);
  }
}

TEST_F(EnvelopeTest, ResultRoundTripsWithoutTheModel) {
  const auto json = Value(ParseJson(DumpJson(result_.ToJson()), "result"));
  EXPECT_EQ(json["type"], "thalweg.cluster-result/1");
  EXPECT_FALSE(json["task"].contains("fitted"));
  const auto again = Value(ResultEnvelope::FromJson(json, "result"));
  EXPECT_EQ(again.ToJson(), result_.ToJson());
  EXPECT_EQ(again.rows, result_.rows);
  EXPECT_EQ(again.input_digest, result_.output_digest);
  EXPECT_EQ(again.run.quantiles.size(), 2u);
  EXPECT_EQ(again.run.quantiles[0].quantiles, result_.run.quantiles[0].quantiles);
}

TEST_F(EnvelopeTest, CredentialsStayOut) {
  tasks_[0].table = "s3://KEY:SECRET@bucket/warehouse/t";
  const std::string text = DumpJson(tasks_[0].ToJson());
  EXPECT_THAT(text, ::testing::Not(HasSubstr("SECRET")));
  EXPECT_THAT(text, HasSubstr("s3://bucket/warehouse/t"));
  tasks_[0].table = "file:///a@b/t";
  EXPECT_EQ(tasks_[0].ToJson()["table"], "file:///a@b/t");
}

TEST_F(EnvelopeTest, EachDefectOfATaskIsRefused) {
  const Json good = tasks_[1].ToJson();
  const auto refused = [&](const char* key, const Json& value, const char* why) {
    Json bad = good;
    bad[key] = value;
    const auto read = TaskEnvelope::FromJson(bad, "t.json");
    ASSERT_FALSE(read.ok()) << key;
    EXPECT_THAT(read.status().message(), HasSubstr(why)) << key;
    EXPECT_EQ(read.status().message().find('\n'), std::string::npos);
  };
  refused("type", "other.task/1", "its type is");
  refused("type", "thalweg.cluster-result/1", "its type is");
  refused("type", "thalweg.cluster-task/2", "unknown version");
  refused("sources", Json::array(), "empty task");
  refused("sources", Json::array({good["sources"][0], good["sources"][0]}), "twice");
  refused("sources", Json::array({good["sources"][0]}), "its source units have");
  refused("slice", 3, "not within");
  refused("slice", -1, "not within");
  refused("slices", 0, "not within");
  refused("slice", 0, "key range");
  refused("key-end", nullptr, "key range");
  refused("key-end", good["key-begin"], "key range is empty");
  refused("key-begin", "xyz", "32 hex digits");
  refused("fitted-hash", std::string(32, '0'), "hash");
  refused("fitted", "!!!", "base64");
  refused("fitted-file", "../../etc/passwd", "beside the envelope");
  refused("run-id", "a/b", "run id");
  refused("selection-id", "../x", "no id");
  refused("selection-rows", -5, "negative");
  refused("target-file-bytes", 0, "positive");
  refused("target-file-rows", 0, "positive");
  refused("schema-id", "12x", "not a number");
  refused("task", "one", "not an integer");
  Json spec = good["spec"];
  spec["bits-per-dim"] = 12;
  refused("spec", spec, "spec id");
  spec["bits-per-dim"] = 99;
  refused("spec", spec, "not within");
  for (const auto& [key, value] : good.items()) {
    if (key == "key-end") continue;  // null for the last slice
    Json bad = good;
    bad.erase(key);
    EXPECT_FALSE(TaskEnvelope::FromJson(bad, "t.json").ok()) << key;
    bad[key] = Json::object({{"x", 1}});
    EXPECT_FALSE(TaskEnvelope::FromJson(bad, "t.json").ok()) << key;
  }
}

TEST_F(EnvelopeTest, EachDefectOfAResultIsRefused) {
  const Json good = result_.ToJson();
  const auto refused = [&](const char* key, const Json& value, const char* why) {
    Json bad = good;
    bad[key] = value;
    const auto read = ResultEnvelope::FromJson(bad, "r.json");
    ASSERT_FALSE(read.ok()) << key;
    EXPECT_THAT(read.status().message(), HasSubstr(why)) << key;
  };
  refused("type", "thalweg.cluster-task/1", "its type is");
  refused("type", "thalweg.cluster-result/9", "unknown version");
  refused("outputs", Json::array(), "empty result");
  refused("rows", result_.rows + 1, "lack 1 of its rows");
  refused("rows", result_.rows - 1, "more rows");
  refused("input-digest", "", "only one");
  refused("output-digest", "zz", "no row digest");
  refused("spilled-bytes", -1, "negative");
  Json doubled = good["outputs"];
  doubled.push_back(doubled[0]);
  refused("outputs", doubled, "twice");
  Json run = good["run"];
  run["rows"] = -4;
  refused("run", run, "its run");
  Json task = good["task"];
  task["type"] = "thalweg.cluster-task/7";
  refused("task", task, "unknown version");
}

TEST_F(EnvelopeTest, TruncatedAndRandomlyChangedTextNeverCrashes) {
  const std::string text = DumpJson(tasks_[0].ToJson());
  std::mt19937_64 random(3);
  for (int i = 0; i < 300; ++i) {
    std::string bad = text;
    if (i % 2 == 0) bad.resize(random() % bad.size());
    for (int k = 0; k < 3 && !bad.empty(); ++k) bad[random() % bad.size()] ^= 1 << random() % 8;
    const auto json = ParseJson(bad, "t.json");
    if (json.ok()) (void)TaskEnvelope::FromJson(*json, "t.json");
  }
}

TEST_F(EnvelopeTest, FittedKeysRoundTripAndRefuseDamage) {
  const auto fitted = Value(DeserializeFitted(tasks_[0].fitted));
  EXPECT_EQ(fitted.rows, 1500);
  EXPECT_EQ(fitted.encoder.models().size(), 2u);
  EXPECT_EQ(fitted.row_sample.size(), 1500u);
  EXPECT_TRUE(std::is_sorted(fitted.row_sample.begin(), fitted.row_sample.end()));
  EXPECT_EQ(Value(SerializeFitted(fitted)), tasks_[0].fitted);

  const std::string& good = tasks_[0].fitted;
  for (size_t size = 0; size < good.size(); size += 1 + size / 7) {
    EXPECT_FALSE(DeserializeFitted(std::string_view(good).substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(DeserializeFitted(good + "x").ok());
  std::string other = good;
  other[7] = '2';
  EXPECT_THAT(DeserializeFitted(other).status().message(), HasSubstr("unknown version"));
  std::mt19937_64 random(5);
  for (int i = 0; i < 500; ++i) {  // must not crash nor allocate without bound; it may be taken
    std::string bad = good;
    bad[random() % std::min<size_t>(bad.size(), 4000)] = static_cast<char>(random());
    (void)DeserializeFitted(bad);
  }
}

TEST_F(EnvelopeTest, SmallModelsTravelInline) {
  TempFolder out;
  const auto paths = Value(WriteTasks(tasks_, out.path()));
  ASSERT_EQ(paths.size(), 3u);
  EXPECT_EQ(paths[0], (out.path() / "task-00000.json").string());
  for (size_t i = 0; i < paths.size(); ++i) {
    EXPECT_EQ(Value(ReadTask(paths[i])).ToJson(), tasks_[i].ToJson());
  }
  EXPECT_FALSE(WriteTasks(tasks_, out.path()).ok());  // never over another plan
}

TEST_F(EnvelopeTest, LargeModelsGoIntoOneFilePerSelection) {
  // 20,000 keys of 8 bytes and the models behind them are above 256 KiB.
  TempFolder folder, out;
  ToyTable table(folder.path());
  table.Append(ToyRows(0, 20000, 1));
  Plan plan;
  plan.selections.push_back(Selection{{0}, 20000, 100000, 2, 4, "test"});
  PrepareOptions prepare{"run-2", 1 << 20, -1, 1 << 20};
  const auto tasks =
      Value(PrepareTasks(table, ToySpec(), Value(table.DescribeLayout({})), plan, prepare, {}));
  ASSERT_EQ(tasks.size(), 2u);
  const auto paths = Value(WriteTasks(tasks, out.path()));
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(out.path())) {
    files += entry.path().extension() == ".bin";
  }
  EXPECT_EQ(files, 1);
  EXPECT_LT(std::filesystem::file_size(paths[0]), 16u << 10);
  EXPECT_EQ(Value(ReadTask(paths[1])).fitted, tasks[1].fitted);

  const auto model = out.path() / Value(ReadTask(paths[0])).fitted_file;
  const std::string bytes = ReadText(model);
  WriteText(model, bytes.substr(0, bytes.size() / 2));
  EXPECT_THAT(ReadTask(paths[0]).status().message(), HasSubstr("damaged"));
  std::filesystem::remove(model);
  EXPECT_THAT(ReadTask(paths[0]).status().message(), HasSubstr("cannot be opened"));
}

TEST_F(EnvelopeTest, ResultsAreFilesToo) {
  const auto path = (folder_.path() / "result.json").string();
  ASSERT_OK(WriteResult(result_, path));
  ASSERT_OK(WriteResult(result_, path));  // executed again: replaced
  EXPECT_EQ(Value(ReadResult(path)).ToJson(), result_.ToJson());
  WriteText(path, ReadText(path).substr(0, 500));
  EXPECT_THAT(ReadResult(path).status().message(), HasSubstr("not valid JSON"));
  EXPECT_THAT(ReadResult(folder_.path()).status().message(), HasSubstr("regular file"));
  EXPECT_FALSE(ReadResult(path + ".none").ok());
}

}  // namespace
}  // namespace thalweg
