#pragma once

#include <arrow/type.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "layout/key_distribution.h"
#include "layout/unit.h"
#include "spec/clustering_spec.h"
#include "table/table.h"

namespace thalweg::report {

/// What a report is made of. All figures come from here; the page only measures the layouts
/// (MeasureLayout, StatusJson) and draws.
struct ReportInput {
  std::string table;   ///< as the user named it
  std::string format;  ///< "iceberg", "lance"
  std::string location;
  int64_t created_millis = 0;
  std::optional<ClusteringSpec> declared;
  Layout now;                                           ///< with at least one column
  std::vector<std::shared_ptr<arrow::DataType>> types;  ///< of the layout's columns
  /// Which of the layout's columns are drawn: one or two, distinct.
  std::vector<int> axes;
  /// The layout before the newest run, of the same columns. nullopt: not to be had; then
  /// `before_missing` may say why.
  std::optional<Layout> before;
  std::string before_missing;
  /// The boxes that the next optimize is predicted to leave: for each unit the rank interval on
  /// each of the layout's columns, in the ranks of `now`. Empty: not known, and not drawn; then
  /// `after_missing` may say why.
  std::vector<std::vector<RankInterval>> after;
  std::string after_missing;
  double after_depth = -1;  ///< predicted, mean over the keys; -1: not known
  std::vector<HistoryEntry> history;
};

/// The report as one HTML page that needs nothing from anywhere else and runs no script.
std::string ReportPage(const ReportInput& input);

}  // namespace thalweg::report
