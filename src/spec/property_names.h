#pragma once

namespace thalweg::property {

// The declaration, as Iceberg table properties. The first three are named as liquid clustering of
// Iceberg tables is declared elsewhere; the others are Thalweg's own.
inline constexpr char kColumns[] = "write.liquid-clustering.columns";
inline constexpr char kTargetCubeSize[] = "write.liquid-clustering.target-cube-size-bytes";
inline constexpr char kMinCubeSize[] = "write.liquid-clustering.min-cube-size-bytes";
inline constexpr char kCurve[] = "write.liquid-clustering.curve";
inline constexpr char kBitsPerDim[] = "write.liquid-clustering.bits-per-dim";
inline constexpr char kAlgorithm[] = "write.liquid-clustering.algorithm";
inline constexpr char kTheta[] = "write.liquid-clustering.overlap-threshold";
inline constexpr char kPolicy[] = "write.liquid-clustering.policy";
/// Which fields the declared names meant when `thalweg set` declared them:
/// "user_id=2,event_time=1". Tells a column that was dropped and added again under the same name
/// from the declared one. Names that it does not hold (declared by another engine) are taken as
/// they stand.
inline constexpr char kFieldIds[] = "write.liquid-clustering.field-ids";
inline constexpr char kAllowSingle[] = "write.liquid-clustering.allow-single-column";

// Keys of the Parquet key-value metadata that stamp each file Thalweg writes (see
// docs/format-notes.md).
inline constexpr char kStampRun[] = "thalweg.run-id";
inline constexpr char kStampCube[] = "thalweg.cube-id";
inline constexpr char kStampSpec[] = "thalweg.spec-id";
inline constexpr char kStampFields[] = "thalweg.field-ids";

// Keys of the snapshot summary.
inline constexpr char kSummaryRun[] = "thalweg.run-id";

}  // namespace thalweg::property
