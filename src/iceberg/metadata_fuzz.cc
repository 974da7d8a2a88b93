// libFuzzer: table metadata, read and then changed as a commit would change it.
#include <cstddef>
#include <cstdint>

#include "iceberg/declaration.h"
#include "iceberg/metadata_file.h"
#include "iceberg/support.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace thalweg::iceberg;  // NOLINT
  auto parsed = TableMetadata::Parse({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!parsed.ok()) return 0;
  const TableMetadata& metadata = *parsed;
  (void)metadata.Schemas();
  (void)metadata.Refs();
  (void)metadata.Statistics();
  (void)CheckSupported(metadata, {});
  (void)ReadDeclaration(metadata);
  (void)DeclaredPropertyKeys(metadata);
  if (const auto schema = metadata.CurrentSchema(); schema.ok()) (void)schema->ToArrow();
  if (const auto id = metadata.current_snapshot_id()) (void)metadata.FindSnapshot(*id);

  TableMetadata updated = metadata;
  Snapshot snapshot;
  snapshot.snapshot_id = 1;
  snapshot.sequence_number = 1;
  updated.AddSnapshot(snapshot);
  StatisticsFile statistics;
  statistics.snapshot_id = 1;
  updated.SetStatistics(statistics);
  updated.SetProperties({{"k", "v"}});
  updated.RemoveProperties({"k"});
  std::vector<std::string> expired;
  const auto next = NextMetadata({"v1.metadata.json", metadata}, updated, &expired);
  if (next.ok()) (void)next->ToText();
  return 0;
}
