// The public interface on top of the stages.

#include <mutex>

#include "iceberg/iceberg_table.h"
#include "lance/lance_table.h"
#include "layout/plan_json.h"
#include "table/open.h"
#include "task/optimize.h"
#include "thalweg/thalweg.h"
#include "util/status.h"

namespace thalweg::api {
namespace {

arrow::Result<std::unique_ptr<Table>> Open(const TableName& table) {
  static std::once_flag registered;
  std::call_once(registered, [] {
    RegisterTableFormat(lance::LanceFormat());
    RegisterTableFormat(iceberg::IcebergFormat());
  });
  return OpenTable(table.name, table.catalog_properties);
}

arrow::Result<std::optional<ClusteringSpec>> DeclaredSpec(const Table& table) {
  ARROW_ASSIGN_OR_RAISE(auto declaration, table.declaration());
  if (!declaration.problem.empty()) return Invalid("{}: {}", table.name(), declaration.problem);
  return declaration.spec;
}

}  // namespace

FailureKind KindOfFailure(const arrow::Status& status) {
  switch (KindOf(status)) {
    case thalweg::FailureKind::kUsage:
      return FailureKind::kUsage;
    case thalweg::FailureKind::kConflict:
      return FailureKind::kConflict;
    case thalweg::FailureKind::kUnknown:
      return FailureKind::kUnknownOutcome;
    default:
      return FailureKind::kError;
  }
}

arrow::Result<bool> SetClustering(const TableName& table, const Clustering& clustering) {
  ARROW_ASSIGN_OR_RAISE(auto opened, Open(table));
  ClusteringSpec spec;
  for (const auto& name : clustering.columns) {
    ARROW_ASSIGN_OR_RAISE(auto column, opened->ResolveColumn(name));
    spec.columns.push_back(std::move(column));
  }
  ARROW_ASSIGN_OR_RAISE(spec.curve, ParseCurve(clustering.curve));
  ARROW_ASSIGN_OR_RAISE(spec.algorithm, ParseAlgorithm(clustering.algorithm));
  spec.bits_per_dim = clustering.bits_per_dim;
  if (clustering.target_cube_bytes) {
    spec.target_cube_bytes = *clustering.target_cube_bytes;
    spec.min_cube_bytes = spec.target_cube_bytes / 2;
  }
  if (clustering.min_cube_bytes) spec.min_cube_bytes = *clustering.min_cube_bytes;
  ARROW_ASSIGN_OR_RAISE(spec.policy, ParsePolicy(clustering.policy));
  spec.theta = clustering.theta;
  return opened->SetDeclaration(spec, std::nullopt, /*allow_single=*/false);
}

arrow::Result<std::optional<Clustering>> GetClustering(const TableName& table) {
  ARROW_ASSIGN_OR_RAISE(auto opened, Open(table));
  ARROW_ASSIGN_OR_RAISE(const auto spec, DeclaredSpec(*opened));
  if (!spec) return std::nullopt;
  Clustering clustering;
  for (const auto& column : spec->columns) clustering.columns.push_back(column.name);
  clustering.curve = ToString(spec->curve);
  clustering.bits_per_dim = spec->bits_per_dim;
  clustering.algorithm = ToString(spec->algorithm);
  clustering.target_cube_bytes = spec->target_cube_bytes;
  clustering.min_cube_bytes = spec->min_cube_bytes;
  clustering.policy = ToString(spec->policy);
  clustering.theta = spec->theta;
  return std::optional<Clustering>(std::move(clustering));
}

arrow::Result<bool> ClearClustering(const TableName& table) {
  ARROW_ASSIGN_OR_RAISE(auto opened, Open(table));
  return opened->ClearDeclaration();
}

arrow::Result<OptimizeResult> Optimize(const TableName& table, const OptimizeOptions& options) {
  ARROW_ASSIGN_OR_RAISE(auto opened, Open(table));
  thalweg::OptimizeOptions request;
  request.plan.full = options.full;
  if (!options.policy.empty()) {
    ARROW_ASSIGN_OR_RAISE(request.plan.policy, ParsePolicy(options.policy));
  }
  if (options.theta != 0) request.plan.theta = options.theta;
  request.plan.budgets = {options.max_source_files, options.max_source_rows,
                          options.max_source_bytes};
  request.execute.memory_bytes = options.memory_bytes;
  request.execute.spill_dir = options.spill_dir;
  request.execute.threads = options.threads;
  request.execute.stop = options.stop;
  if (options.progress) {
    request.execute.progress = [&](const Progress& at) {
      options.progress(at.stage, at.done, at.total);
    };
  }
  request.run_id = options.run_id;
  request.target_file_bytes = options.target_file_bytes;
  ARROW_ASSIGN_OR_RAISE(const OptimizeReport report, thalweg::Optimize(*opened, request));
  OptimizeResult result;
  result.outcome = report.outcome;
  result.reason = report.reason;
  result.run_id = report.run_id;
  result.snapshot_before = report.snapshot_before;
  result.snapshot_after = report.snapshot_after;
  result.rows = report.rows;
  result.source_files = report.source_units;
  result.source_bytes = report.source_bytes;
  result.output_files = report.output_units;
  result.output_bytes = report.output_bytes;
  result.depth_before = report.depth_before;
  result.depth_after = report.depth_after;
  return result;
}

arrow::Result<std::string> StatusJson(const TableName& table,
                                      const std::vector<std::string>& columns) {
  ARROW_ASSIGN_OR_RAISE(auto opened, Open(table));
  ARROW_ASSIGN_OR_RAISE(const auto spec, DeclaredSpec(*opened));
  std::vector<ClusteringColumn> keys;
  for (const auto& name : columns) {
    ARROW_ASSIGN_OR_RAISE(auto column, opened->ResolveColumn(name));
    keys.push_back(std::move(column));
  }
  if (keys.empty() && spec) keys = spec->columns;
  ARROW_ASSIGN_OR_RAISE(const Layout layout, opened->DescribeLayout(keys));
  return DumpJson(thalweg::StatusJson(layout, spec ? &*spec : nullptr, MeasureLayout(layout)));
}

}  // namespace thalweg::api
