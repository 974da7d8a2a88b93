#include "report/page.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <regex>

#include "key/encoded_value.h"
#include "layout/depth.h"

namespace thalweg::report {
namespace {

std::string Encoded(int64_t value) {
  return EncodePlain({KeyType::Kind::kSigned, 64},
                     std::string(reinterpret_cast<const char*>(&value), sizeof(value)))
      .ValueOrDie();
}

/// Units over keys of int64 that take the values 0 to 999,999.
struct Builder {
  ReportInput input;

  explicit Builder(std::vector<std::string> names) {
    input.table = "lake.db.events";
    input.format = "iceberg";
    input.location = "file:///lake/events";
    input.now.snapshot_id = "77";
    for (const auto& name : names) {
      input.now.columns.push_back({name, static_cast<int32_t>(input.now.columns.size()) + 1});
      input.now.types.push_back({KeyType::Kind::kSigned, 64});
      input.types.push_back(arrow::int64());
    }
    for (int k = 0; k < std::min<int>(2, static_cast<int>(names.size())); ++k) {
      input.axes.push_back(k);
    }
  }

  void Add(const std::vector<std::pair<int64_t, int64_t>>& bounds, Layout* layout) {
    Unit unit;
    unit.id = "/lake/events/data/part-" + std::to_string(layout->units.size()) + ".parquet";
    unit.rows = 1000;
    unit.bytes = 4096;
    for (const auto& [lower, upper] : bounds) {
      unit.columns.push_back({.lower = Encoded(lower), .upper = Encoded(upper), .null_count = 0});
    }
    layout->units.push_back(std::move(unit));
  }
  void Add(const std::vector<std::pair<int64_t, int64_t>>& bounds) { Add(bounds, &input.now); }

  /// side × side boxes that tile the plane.
  void AddTiles(int side) {
    const int64_t step = 1'000'000 / side;
    for (int x = 0; x < side; ++x) {
      for (int y = 0; y < side; ++y) {
        Add({{x * step, (x + 1) * step - 1}, {y * step, (y + 1) * step - 1}});
      }
    }
  }
  std::string Page() const { return ReportPage(input); }
};

int64_t CountOf(const std::string& text, const std::string& what) {
  int64_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

/// From `<figure id="ID"` to its end.
std::string FigureOf(const std::string& page, const std::string& id) {
  const size_t from = page.find("<figure id=\"" + id + "\"");
  if (from == std::string::npos) return "";
  return page.substr(from, page.find("</figure>", from) - from);
}

bool Holds(const std::string& text, const std::string& what) {
  return text.find(what) != std::string::npos;
}

TEST(ReportPage, FiguresAreThoseOfTheLayout) {
  Builder builder({"user_id", "event_time"});
  builder.AddTiles(4);
  builder.Add({{0, 999'999}, {0, 999'999}});
  const std::string page = builder.Page();
  const LayoutHealth health = MeasureLayout(builder.input.now);
  // By hand: the value of an equality lies in 4 of the 16 tiles, and in the box over all of them.
  EXPECT_NEAR(health.depth, 5, 0.01);
  EXPECT_TRUE(Holds(page, fmt::format("opens <b><data value=\"{}\">5.00</data> of "
                                      "<data value=\"17\">17</data> files</b>",
                                      health.depth)));
  EXPECT_TRUE(Holds(page, "<data value=\"17000\">17,000</data>"));
  EXPECT_TRUE(Holds(page, "<data value=\"69632\">68.0 KiB</data>"));
  for (const KeyHealth& key : health.keys) {
    EXPECT_TRUE(Holds(page, fmt::format("<data value=\"{}\">", key.depth_mean)));
    EXPECT_TRUE(Holds(page, fmt::format("<data value=\"{}\">", key.ideal)));
    EXPECT_TRUE(Holds(page, fmt::format("<data value=\"{}\">", key.efficiency)));
  }
  // Every step of both histograms is five deep.
  EXPECT_EQ(CountOf(page, "<title>5 of 17</title>"), 64);
  EXPECT_EQ(CountOf(FigureOf(page, "now"), "<rect "), 17);
  EXPECT_EQ(FigureOf(page, "before"), "");
  EXPECT_EQ(FigureOf(page, "after"), "");
}

TEST(ReportPage, BoxesLieAtTheirRanks) {
  Builder builder({"x", "y"});
  builder.Add({{0, 249'999}, {0, 999'999}});
  builder.Add({{250'000, 999'999}, {0, 999'999}});
  // Rows are spread evenly between the bounds: half of the rows are in either file.
  const std::string figure = FigureOf(builder.Page(), "now");
  EXPECT_TRUE(Holds(figure, "<rect x=\"0\" y=\"0\" width=\"500\" height=\"1000\">")) << figure;
  EXPECT_TRUE(Holds(figure, "<rect x=\"500\" y=\"0\" width=\"500\" height=\"1000\">")) << figure;
  EXPECT_TRUE(Holds(figure, "part-1.parquet: 1,000 rows, 4.00 KiB</title>"));
}

TEST(ReportPage, TheFirstKeyIsBelowAndRanksGrowUpwards) {
  Builder builder({"x", "y"});
  builder.Add({{0, 499'999}, {0, 499'999}});
  builder.Add({{500'000, 999'999}, {500'000, 999'999}});
  const std::string figure = FigureOf(builder.Page(), "now");
  EXPECT_TRUE(Holds(figure, "<rect x=\"0\" y=\"500\" width=\"500\" height=\"500\">")) << figure;
  EXPECT_TRUE(Holds(figure, "<rect x=\"500\" y=\"0\" width=\"500\" height=\"500\">")) << figure;
  // The axes name the values at the ends and in between.
  EXPECT_TRUE(Holds(figure, "left:0.00%\"><bdi>0</bdi>")) << figure;
  EXPECT_TRUE(Holds(figure, "left:100.00%\"><bdi>999,999</bdi>")) << figure;
  EXPECT_TRUE(Holds(figure, "bottom:50.00%\"><bdi>")) << figure;
}

TEST(ReportPage, ThreePanelsShareTheAxes) {
  Builder builder({"x", "y"});
  builder.AddTiles(2);
  builder.input.before = builder.input.now;
  builder.input.before->units.clear();
  for (int i = 0; i < 7; ++i) {
    builder.Add({{0, 499'999}, {0, 999'999}}, &*builder.input.before);
  }
  for (int i = 0; i < 3; ++i) {
    builder.input.after.push_back(
        {{.below = i / 4.0, .upto = (i + 1) / 4.0}, {.below = 0, .upto = 1}});
  }
  builder.input.after_depth = 1.5;
  const std::string page = builder.Page();
  const std::string before = FigureOf(page, "before");
  // Files over the lower half of the values of now, whatever share of their own rows that was.
  EXPECT_EQ(CountOf(before, "<rect x=\"0\" y=\"0\" width=\"500\" height=\"1000\">"), 7) << before;
  EXPECT_TRUE(Holds(before, fmt::format("<data value=\"{}\">7.00</data> of <data value=\"7\">",
                                        MeasureLayout(*builder.input.before).depth)));
  EXPECT_EQ(CountOf(FigureOf(page, "now"), "<rect "), 4);
  const std::string after = FigureOf(page, "after");
  EXPECT_EQ(CountOf(after, "<rect "), 3);
  EXPECT_TRUE(Holds(after, "<rect x=\"250\" y=\"0\" width=\"250\" height=\"1000\"")) << after;
  EXPECT_TRUE(Holds(after, "<data value=\"1.5\">1.50</data> of <data value=\"3\">3</data> files"));
  EXPECT_TRUE(Holds(page, "mean before the last run</dt><dd><data value=\""));
}

TEST(ReportPage, WhyNothingIsPredictedIsSaid) {
  Builder builder({"x", "y"});
  builder.AddTiles(2);
  builder.input.after_missing = "An optimize now would do nothing: 1 < 2.";
  const std::string page = builder.Page();
  EXPECT_EQ(FigureOf(page, "after"), "");
  EXPECT_TRUE(Holds(page, "An optimize now would do nothing: 1 &lt; 2."));
}

TEST(ReportPage, OverlappingCubesAreCountedOfTheDeclaredKeysAlone) {
  Builder builder({"x", "y"});
  builder.AddTiles(2);
  for (int i = 0; i < 3; ++i) {
    builder.input.now.cubes.emplace_back().overlapping = i > 0;
  }
  EXPECT_FALSE(Holds(builder.Page(), "overlapping cubes"));
  builder.input.declared = ClusteringSpec{.columns = builder.input.now.columns};
  EXPECT_TRUE(Holds(builder.Page(), "overlapping cubes</th><td><data value=\"2\">2</data></td>"));
  std::swap(builder.input.declared->columns[0], builder.input.declared->columns[1]);
  EXPECT_FALSE(Holds(builder.Page(), "overlapping cubes"));
}

TEST(ReportPage, NamesAreText) {
  const std::string hostile = "</style><script>alert('1')</script>\"&";
  const std::string escaped =
      "&lt;/style&gt;&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&quot;&amp;";
  Builder builder({hostile, "y\xff\x01"});
  builder.AddTiles(2);
  builder.input.now.units[0].id = hostile;
  builder.input.now.notes = {hostile};
  builder.input.table = builder.input.location = hostile;
  builder.input.before_missing = hostile;
  builder.input.after_missing = hostile;
  builder.input.now.snapshot_id = hostile;
  builder.input.format = hostile;
  builder.input.declared = ClusteringSpec{.columns = builder.input.now.columns};
  HistoryEntry entry;
  entry.run.run_id = hostile;
  entry.operation = hostile;
  builder.input.history = {entry};
  const std::string page = builder.Page();
  EXPECT_FALSE(Holds(page, "<script"));
  EXPECT_EQ(CountOf(page, "</style>"), 1);
  EXPECT_GE(CountOf(page, escaped), 16);
  EXPECT_TRUE(Holds(page, "<bdi>y\xef\xbf\xbd\xef\xbf\xbd</bdi>"));
  EXPECT_FALSE(Holds(page, "\xff"));
}

TEST(ReportPage, StringsOfTheTableAreText) {
  Builder builder({"x", "y"});
  builder.input.now.types[0] = {KeyType::Kind::kUtf8, 0};
  builder.input.types[0] = arrow::utf8();
  builder.AddTiles(2);
  for (size_t i = 0; i < 4; ++i) {
    auto& column = builder.input.now.units[i].columns[0];
    column.lower = EncodePlain(builder.input.now.types[0], "<b>a").ValueOrDie();
    column.upper = EncodePlain(builder.input.now.types[0], "<i>z").ValueOrDie();
  }
  const std::string page = builder.Page();
  EXPECT_TRUE(Holds(page, "<bdi>&quot;&lt;b&gt;a&quot;</bdi>"));
  EXPECT_TRUE(Holds(page, "<bdi>&quot;&lt;i&gt;z&quot;</bdi>"));
}

TEST(ReportPage, AnEmptyTableSaysSo) {
  Builder builder({"x", "y"});
  const std::string page = builder.Page();
  EXPECT_TRUE(Holds(page, "The table is empty"));
  EXPECT_FALSE(Holds(page, "<figure"));
  EXPECT_TRUE(Holds(page, "No run of thalweg has written this table yet."));
}

TEST(ReportPage, OneKeyIsDrawnAsIntervalsInLanes) {
  Builder builder({"x"});
  builder.Add({{0, 399'999}});
  builder.Add({{400'000, 999'999}});
  builder.Add({{200'000, 799'999}});
  const std::string figure = FigureOf(builder.Page(), "now");
  EXPECT_EQ(CountOf(figure, "<rect "), 3);
  // Two lanes: the first two files side by side, the third over them.
  const std::regex rect("<rect x=\"(\\d+)\" y=\"(\\d+)\" width=\"(\\d+)\"");
  std::vector<int> heights;
  for (std::sregex_iterator it(figure.begin(), figure.end(), rect), end; it != end; ++it) {
    heights.push_back(std::stoi((*it)[2]));
  }
  std::sort(heights.begin(), heights.end());
  ASSERT_EQ(heights.size(), 3u);
  EXPECT_LT(heights[0], heights[1]);
  EXPECT_EQ(heights[1], heights[2]);
}

TEST(ReportPage, UnitsThatCannotBePlacedAreCounted) {
  Builder builder({"x", "y"});
  builder.AddTiles(2);
  builder.input.now.units[0].columns[1] = {.lower = {}, .upper = {}, .null_count = 1000};
  builder.input.now.units[1].columns[0] = {
      .lower = {}, .upper = {}, .null_count = -1, .usable = false};
  const std::string figure = FigureOf(builder.Page(), "now");
  EXPECT_EQ(CountOf(figure, "<rect "), 3);
  EXPECT_EQ(CountOf(figure, "class=\"unknown\""), 1);
  EXPECT_TRUE(Holds(figure, "<data value=\"1\">1</data> file without a value of a key here"));
  EXPECT_TRUE(Holds(figure, "<data value=\"1\">1</data> file without statistics"));
}

TEST(ReportPage, ManyUnitsBecomeADensity) {
  Builder builder({"x", "y"});
  std::mt19937_64 random(7);
  for (int i = 0; i < 30'000; ++i) {
    const auto x = static_cast<int64_t>(random() % 900'000),
               y = static_cast<int64_t>(random() % 900'000);
    builder.Add({{x, x + 50'000}, {y, y + 50'000}});
  }
  builder.input.before = builder.input.now;
  const std::string page = builder.Page();
  EXPECT_LT(page.size(), size_t{4} << 20);
  EXPECT_TRUE(Holds(page, "With more than 20,000 files, the plots show how many of them overlap"));
  EXPECT_LE(CountOf(FigureOf(page, "now"), "<rect "), 64 * 64);
  EXPECT_GT(CountOf(FigureOf(page, "now"), "<rect "), 60 * 60);
}

TEST(ReportPage, AsManyBoxesAsAreDrawnStaySmall) {
  Builder builder({"x", "y"});
  builder.AddTiles(141);  // 19,881
  builder.input.before = builder.input.now;
  const LayoutHealth health = MeasureLayout(builder.input.now);
  const std::string page = builder.Page();
  EXPECT_EQ(CountOf(FigureOf(page, "now"), "<rect "), 141 * 141);
  EXPECT_LT(page.size(), size_t{4} << 20);
}

TEST(ReportPage, HistoryHasEveryRunWithItsFigures) {
  Builder builder({"x", "y"});
  builder.AddTiles(2);
  for (int i = 0; i < 60; ++i) {
    HistoryEntry entry;
    entry.operation = i % 2 ? "append" : "replace";
    entry.run.run_id = "run-" + std::to_string(i);
    entry.run.committed_millis = 1'700'000'000'000 + i * 60'000;
    entry.run.rows = 1000 + i;
    entry.run.source_units = 10 + i;
    entry.run.source_bytes = int64_t{1} << 30;
    entry.run.output_units = 5;
    entry.run.output_bytes = int64_t{1} << 29;
    if (i % 2 == 0) {
      entry.run.depth_before = 35.25 + i;
      entry.run.predicted_depth = 3.75;
      entry.run.achieved_depth = 3.125;
    }
    builder.input.history.push_back(std::move(entry));
  }
  const std::string page = builder.Page();
  // The newest fifty, newest first.
  EXPECT_EQ(CountOf(page, "title=\"run run-"), 50);
  EXPECT_LT(page.find("title=\"run run-59\""), page.find("title=\"run run-58\""));
  EXPECT_TRUE(Holds(page, "<data value=\"10\">10</data> earlier runs not shown"));
  EXPECT_TRUE(Holds(page, "2023-11-14 22:13:20") == false);  // the oldest
  EXPECT_TRUE(Holds(page, "2023-11-14 23:12:20"));           // the newest
  EXPECT_TRUE(Holds(page, "<data value=\"93.25\">93.2</data>"));
  EXPECT_EQ(CountOf(page, "<data value=\"3.125\">3.12</data>"), 25);
  EXPECT_EQ(CountOf(page, "<td>–</td>"), 75);  // depths that are not known
  // Half as much written as read.
  EXPECT_EQ(CountOf(page,
                    "class=\"bar written\" viewBox=\"0 0 100 6\" preserveAspectRatio=\"none\" "
                    "aria-hidden=\"true\"><rect width=\"50.0\""),
            50);
}

TEST(ReportPage, LoadsNothingAndRunsNothing) {
  Builder builder({"x", "y"});
  builder.AddTiles(3);
  const std::string page = builder.Page();
  EXPECT_TRUE(Holds(page, "content=\"default-src 'none'; style-src 'unsafe-inline'\""));
  for (const char* what :
       {"<script", "<img", "<link", "@import", "url(", "http://", "https://", " src="}) {
    EXPECT_FALSE(Holds(page, what)) << what;
  }
}

}  // namespace
}  // namespace thalweg::report
