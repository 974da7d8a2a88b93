#pragma once

namespace thalweg::lance::property {

// The declaration, in the dataset's `config`: all five keys, or none.
inline constexpr char kNamespace[] = "lance.clustering.";
inline constexpr char kColumns[] = "lance.clustering.columns";  ///< a JSON array of names
inline constexpr char kCurve[] = "lance.clustering.curve";
inline constexpr char kVersion[] = "lance.clustering.version";
inline constexpr char kBitsPerDim[] = "lance.clustering.bits_per_dim";
inline constexpr char kAlgorithm[] = "lance.clustering.algorithm";

// Thalweg's own settings, in `config` too.
inline constexpr char kPolicy[] = "thalweg.policy";
inline constexpr char kTheta[] = "thalweg.theta";
inline constexpr char kRowsPerZone[] = "thalweg.rows-per-zone";  ///< of zone maps that are made

// Settings of compaction that Lance reads too.
inline constexpr char kTargetRows[] = "lance.compaction.target_rows_per_fragment";
inline constexpr char kMaxFileBytes[] = "lance.compaction.max_bytes_per_file";
inline constexpr char kMaxFragments[] = "lance.compaction.max_source_fragments";
inline constexpr char kMaxRows[] = "lance.compaction.max_source_rows";
inline constexpr char kMaxBytes[] = "lance.compaction.max_source_bytes";

// The layout record, in `table_metadata`.
inline constexpr char kRunPrefix[] = "thalweg.run.";  ///< followed by the run id: one key a run
/// The version up to which every run in the history has its record (or has no fragment left).
inline constexpr char kChecked[] = "thalweg.layout.checked";

// Properties of the transactions that commit a run's fragments. The run id is there always, the
// next four where the fragments are stamped.
inline constexpr char kRun[] = "thalweg.run-id";
inline constexpr char kSpecId[] = "thalweg.spec-id";
inline constexpr char kSpecVersion[] = "thalweg.spec-version";
inline constexpr char kFieldIds[] = "thalweg.field-ids";  ///< "1,3"
inline constexpr char kGroups[] = "thalweg.groups";       ///< "<group>=<first id>-<last id>;…"
inline constexpr char kRows[] = "thalweg.rows";
inline constexpr char kSourceUnits[] = "thalweg.source-units";
inline constexpr char kSourceBytes[] = "thalweg.source-bytes";
inline constexpr char kOutputUnits[] = "thalweg.output-units";
inline constexpr char kOutputBytes[] = "thalweg.output-bytes";
inline constexpr char kDepthBefore[] = "thalweg.depth-before";
inline constexpr char kPredictedDepth[] = "thalweg.predicted-depth";
inline constexpr char kAchievedDepth[] = "thalweg.achieved-depth";

}  // namespace thalweg::lance::property
