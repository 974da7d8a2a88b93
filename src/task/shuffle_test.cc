#include "task/shuffle.h"

#include <gmock/gmock.h>

#include <random>

#include "task/optimize.h"
#include "task/toy_table_test.h"
#include "task/write.h"

namespace thalweg {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TempFolder;
using testing::ToyRows;
using testing::ToySpec;
using testing::ToyTable;
using testing::Value;

constexpr double kDay = 86400;
constexpr int kUnits = 5;

class ShuffleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < kUnits; ++i) table_.Append(ToyRows(i * 1000, 1000, i));
    table_.Declare(ToySpec());
    table_.DeleteRows(table_.Paths()[1], {0, 17, 18, 999});
    before_ = table_.Rows();
    layout_ = Value(table_.DescribeLayout(ToySpec().columns));
    plan_.selections.push_back(Selection{{4, 1, 3, 0, 2}, 0, 0, 3, 1, ""});
  }

  SelectionEnvelope Select() {
    auto selections = Value(PrepareSelections(table_, ToySpec(), layout_, plan_, prepare_));
    EXPECT_EQ(selections.size(), 1u);
    // As processes send it.
    return Value(SelectionEnvelope::FromJson(
        Value(ParseJson(DumpJson(selections[0].ToJson()), "selection")), "selection"));
  }

  /// Samples of the units between the borders, sent as bytes.
  std::vector<PartialFit> Samples(const SelectionEnvelope& selection,
                                  const std::vector<int>& ends) {
    std::vector<PartialFit> samples;
    int first = 0;
    for (const int end : ends) {
      auto sample = Value(SampleUnits(table_, selection, first, end, options_));
      samples.push_back(
          Value(PartialFit::Deserialize(Value(sample.Serialize()), selection.task.spec.algorithm)));
      first = end;
    }
    return samples;
  }

  SelectionEnvelope Fitted(int slices = 3) {
    auto selection = Select();
    auto samples = Samples(selection, {2, kUnits});
    return Value(FitSelection(std::move(selection), std::move(samples), slices));
  }

  ScanReport Scatter(const SelectionEnvelope& selection, int first, int end,
                     int64_t piece_bytes = 20000) {
    const std::string folder = Folder(first);
    std::filesystem::create_directories(folder);
    const auto report =
        Value(ScatterUnits(table_, selection, first, end, folder, piece_bytes, options_));
    return Value(ScanReport::FromJson(Value(ParseJson(DumpJson(report.ToJson()), "scan")), "scan"));
  }
  std::string Folder(int first) const {
    return (folder_.path() / ("pieces" + std::to_string(first))).string();
  }

  /// The pieces of a slice, but those that are left out.
  std::vector<std::string> Pieces(const std::vector<ScanReport>& scans, int slice,
                                  size_t leave_out = 0) const {
    std::vector<std::string> paths;
    for (const auto& scan : scans) {
      for (const auto& piece : scan.pieces) {
        if (piece.slice == slice) paths.push_back(Folder(scan.first_unit) + "/" + piece.file);
      }
    }
    paths.resize(paths.size() - leave_out);
    return paths;
  }

  ResultEnvelope Execute(const TaskEnvelope& task, const std::vector<std::string>& pieces) {
    return Value(
        ExecuteTaskForCommit(table_, task, options_, kDay, Value(OpenInputFiles(pieces, nullptr))));
  }

  std::vector<ResultEnvelope> ExecuteAll(const SelectionEnvelope& selection,
                                         const std::vector<ScanReport>& scans) {
    std::vector<ResultEnvelope> results;
    for (const auto& task : selection.Tasks()) {
      const auto result = Execute(task, Pieces(scans, task.slice));
      results.push_back(Value(ResultEnvelope::FromJson(
          Value(ParseJson(DumpJson(result.ToJson()), "result")), "result")));
    }
    return results;
  }

  void ExpectRefused(const std::vector<ResultEnvelope>& results,
                     const std::vector<ScanReport>& scans, const char* why) {
    const int snapshots = table_.snapshots();
    const auto status = CommitResults(table_, results, options_, scans).status();
    ASSERT_FALSE(status.ok()) << why;
    EXPECT_THAT(status.message(), HasSubstr(why));
    EXPECT_EQ(table_.snapshots(), snapshots);
  }

  TempFolder folder_;
  ToyTable table_{folder_.path()};
  ExecuteOptions options_;
  PrepareOptions prepare_{"run-1", 20000, -1, 10000};
  Layout layout_;
  Plan plan_;
  std::multiset<std::string> before_;
};

TEST_F(ShuffleTest, TheModelIsThatOfOneProcess) {
  const auto tasks = Value(PrepareTasks(table_, ToySpec(), layout_, plan_, prepare_, options_));
  ASSERT_EQ(tasks.size(), 3u);
  for (const std::vector<int>& ends : {std::vector<int>{5}, {1, 5}, {1, 2, 3, 4, 5}, {3, 4, 5}}) {
    auto selection = Select();
    EXPECT_FALSE(selection.fitted());
    auto samples = Samples(selection, ends);
    std::reverse(samples.begin(), samples.end());
    selection = Value(FitSelection(std::move(selection), std::move(samples), 3));
    EXPECT_EQ(selection.task.fitted_hash, tasks[0].fitted_hash);
    const auto slices = selection.Tasks();
    ASSERT_EQ(slices.size(), tasks.size());
    for (size_t i = 0; i < slices.size(); ++i) {
      EXPECT_EQ(slices[i].key_begin, tasks[i].key_begin);
      EXPECT_EQ(slices[i].key_end, tasks[i].key_end);
      EXPECT_EQ(slices[i].selection_rows, tasks[i].selection_rows);
      EXPECT_EQ(slices[i].target_file_rows, tasks[i].target_file_rows);
      EXPECT_EQ(slices[i].sources, tasks[i].sources);
    }
  }
}

TEST_F(ShuffleTest, SamplesOfMoreRowsThanAreKept) {
  // 65,536 is the most that a sample holds: what is left out must not depend on the split.
  ToyTable table(folder_.path() / "large");
  for (int i = 0; i < 3; ++i) table.Append(ToyRows(i * 60000, 60000, 10 + i));
  table.Declare(ToySpec());
  Plan plan;
  plan.selections.push_back(Selection{{0, 1, 2}, 0, 0, 4, 1, ""});
  const auto layout = Value(table.DescribeLayout(ToySpec().columns));
  const auto tasks = Value(PrepareTasks(table, ToySpec(), layout, plan, prepare_, options_));
  auto selection = Value(PrepareSelections(table, ToySpec(), layout, plan, prepare_))[0];
  std::vector<PartialFit> samples;
  for (int unit = 2; unit >= 0; --unit) {
    auto sample = Value(SampleUnits(table, selection, unit, unit + 1, options_));
    EXPECT_EQ(sample.rows(), 60000);
    samples.push_back(
        Value(PartialFit::Deserialize(Value(sample.Serialize()), ToySpec().algorithm)));
  }
  EXPECT_EQ(Value(FitSelection(selection, std::move(samples), 4)).task.fitted_hash,
            tasks[0].fitted_hash);
}

TEST_F(ShuffleTest, SamplesMustBeOfAllRows) {
  auto selection = Select();
  auto samples = Samples(selection, {2, 4});
  const auto status = FitSelection(selection, std::move(samples), 3).status();
  EXPECT_THAT(status.message(),
              HasSubstr("4,996 live rows in the selected units, reading finds 3,996"));
}

TEST_F(ShuffleTest, DamagedSamplesAreRefused) {
  auto selection = Select();
  auto sample = Value(SampleUnits(table_, selection, 0, 2, options_));
  const std::string bytes = Value(sample.Serialize());
  const Algorithm algorithm = ToySpec().algorithm;
  EXPECT_FALSE(PartialFit::Deserialize("", algorithm).ok());
  EXPECT_FALSE(PartialFit::Deserialize("THWFIT01" + bytes.substr(8), algorithm).ok());
  for (const size_t size : {8ul, 20ul, 100ul, bytes.size() / 2}) {
    EXPECT_FALSE(PartialFit::Deserialize(bytes.substr(0, size), algorithm).ok()) << size;
  }
  std::mt19937_64 random(1);
  for (int i = 0; i < 300; ++i) {  // ends in a value or in an error
    std::string damaged = bytes;
    damaged[random() % damaged.size()] ^= static_cast<char>(1 + random() % 255);
    damaged[random() % 64] ^= static_cast<char>(random() % 2);
    (void)PartialFit::Deserialize(damaged, algorithm);
  }
}

TEST_F(ShuffleTest, RowsComeThrough) {
  const auto selection = Fitted();
  const std::vector<ScanReport> scans{Scatter(selection, 2, 5), Scatter(selection, 0, 2)};
  EXPECT_EQ(scans[0].rows + scans[1].rows, 4996);
  EXPECT_GT(scans[0].pieces.size(), 3u);  // several of a slice
  const auto results = ExecuteAll(selection, scans);
  for (const auto& result : results) EXPECT_TRUE(result.from_pieces);
  const auto report = Value(CommitResults(table_, results, options_, scans));
  EXPECT_EQ(report.outcome, "committed");
  EXPECT_EQ(report.rows, 4996);
  EXPECT_EQ(table_.Rows(), before_);
  EXPECT_THAT(table_.Intents(), IsEmpty());
}

TEST_F(ShuffleTest, PiecesAreTheSameEachTime) {
  const auto selection = Fitted();
  const auto first = Scatter(selection, 0, 2);
  std::vector<std::string> contents;
  for (const auto& piece : first.pieces) {
    contents.push_back(testing::ReadText(Folder(0) + "/" + piece.file));
  }
  std::filesystem::remove_all(Folder(0));
  const auto again = Scatter(selection, 0, 2);
  EXPECT_EQ(again.ToJson(), first.ToJson());
  for (size_t i = 0; i < contents.size(); ++i) {
    EXPECT_EQ(testing::ReadText(Folder(0) + "/" + again.pieces[i].file), contents[i]);
  }
}

TEST_F(ShuffleTest, LostAndDoubledRowsAreRefused) {
  const auto selection = Fitted();
  const auto tasks = selection.Tasks();
  const std::vector<ScanReport> scans{Scatter(selection, 0, 2), Scatter(selection, 2, 5)};
  auto results = ExecuteAll(selection, scans);

  ExpectRefused(results, {}, "do not name each of its 5 source units once");
  ExpectRefused(results, {scans[0]}, "do not name each of its 5 source units once");
  ExpectRefused(results, {scans[0], scans[1], scans[1]},
                "do not name each of its 5 source units once");
  auto other = scans;
  other[1].fitted_hash = "x";
  ExpectRefused(results, other, "a scan report is of another plan");
  other = scans;
  other[0].digest = scans[1].digest;
  ExpectRefused(results, other, "the rows sorted differ from the rows read");
  other[0].digest = "";
  ExpectRefused(results, other, "a scan report has no row digest");
  auto mixed = results;
  mixed[1].from_pieces = false;
  ExpectRefused(mixed, scans, "only some of its slices were sorted from pieces");

  auto short_of_one = results;
  short_of_one[1] = Execute(tasks[1], Pieces(scans, 1, 1));
  ExpectRefused(short_of_one, scans, "rows were written");
  // A piece twice in the place of another one: the counts may even be right.
  auto pieces = Pieces(scans, 1, 1);
  pieces.push_back(pieces[0]);
  auto doubled = results;
  doubled[1] = Execute(tasks[1], pieces);
  doubled[1].rows = results[1].rows;
  EXPECT_FALSE(CommitResults(table_, doubled, options_, scans).ok());

  auto strange = Pieces(scans, 1);
  strange.push_back(Pieces(scans, 0)[0]);
  const auto status =
      ExecuteTask(table_, tasks[1], options_, Value(OpenInputFiles(strange, nullptr))).status();
  EXPECT_THAT(status.message(), HasSubstr("rows given are not of its slice"));

  EXPECT_EQ(Value(CommitResults(table_, results, options_, scans)).outcome, "committed");
  EXPECT_EQ(table_.Rows(), before_);
}

TEST_F(ShuffleTest, RowsOfOtherColumnsAreRefused) {
  const auto selection = Fitted();
  Scatter(selection, 0, 5);
  const auto batch = ToyRows(0, 10, 1);
  const auto fewer = Value(batch->RemoveColumn(3));
  const auto reader = Value(arrow::RecordBatchReader::Make({fewer}));
  const auto status =
      ExecuteTask(table_, selection.Tasks()[0], options_, RowsOfReader(reader)).status();
  EXPECT_THAT(status.message(), HasSubstr("the rows given have the columns"));
}

TEST_F(ShuffleTest, SelectionsWithoutModelAndStrangeRanges) {
  const auto selection = Select();
  EXPECT_THAT(
      ScatterUnits(table_, selection, 0, 1, folder_.path(), 1000, options_).status().message(),
      HasSubstr("has no key model yet"));
  for (const auto& [first, end] : {std::pair{0, 0}, {-1, 2}, {0, 6}, {5, 6}}) {
    EXPECT_THAT(SampleUnits(table_, selection, first, end, options_).status().message(),
                HasSubstr("of a selection of 5"));
  }
}

TEST_F(ShuffleTest, DiscardDeletesTheFilesOfResultsAndNoOthers) {
  const auto files = table_.FilesIn("data");
  const auto selection = Fitted();
  const std::vector<ScanReport> scans{Scatter(selection, 0, 5)};
  auto results = ExecuteAll(selection, scans);
  EXPECT_GT(table_.FilesIn("data").size(), files.size());
  EXPECT_EQ(table_.Intents().size(), 3u);

  // What a result names is not believed: neither a live file nor one of another run goes.
  auto forged = results[0];
  forged.outputs = {forged.outputs[0]};
  forged.outputs[0].id = table_.Paths()[0];
  auto report = Value(DiscardResults(table_, {forged}));
  EXPECT_EQ(report.files, 0);
  EXPECT_EQ(report.committed, 1);
  const std::string foreign = folder_.path() / "data" / "foreign.arrow";
  testing::WriteText(foreign, "x");
  forged.outputs[0].id = foreign;
  EXPECT_EQ(Value(DiscardResults(table_, {forged})).missing, 1);
  EXPECT_TRUE(std::filesystem::exists(foreign));
  std::filesystem::remove(foreign);
  EXPECT_EQ(table_.Intents().size(), 3u);  // they lead to files that are there

  report = Value(DiscardResults(table_, results));
  EXPECT_GT(report.files, 2);
  EXPECT_GT(report.bytes, 0);
  EXPECT_EQ(table_.FilesIn("data"), files);
  EXPECT_THAT(table_.Intents(), IsEmpty());
  EXPECT_EQ(table_.Rows(), before_);
}

TEST_F(ShuffleTest, DiscardKeepsWhatIsCommitted) {
  const auto selection = Fitted();
  const std::vector<ScanReport> scans{Scatter(selection, 0, 5)};
  const auto results = ExecuteAll(selection, scans);
  Value(CommitResults(table_, results, options_, scans));
  const auto report = Value(DiscardResults(table_, results));
  EXPECT_EQ(report.files, 0);
  EXPECT_GT(report.committed, 2);
  EXPECT_EQ(table_.Rows(), before_);
}

}  // namespace
}  // namespace thalweg
