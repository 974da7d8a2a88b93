#pragma once

#include <arrow/result.h>
#include <arrow/type.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lance/bridge.h"
#include "spec/clustering_spec.h"
#include "util/json.h"

namespace thalweg::lance {

/// A top-level column.
struct Field {
  int32_t id = -1;
  std::string name;
  bool blob = false;  ///< its values may stand in files of their own
};

struct DataFile {
  std::string path;                ///< below the dataset's root
  std::vector<int32_t> field_ids;  ///< of the columns, nested ones included, that it holds
  int64_t bytes = -1;              ///< -1: the manifest does not say
};

/// What one fragment is, as the manifest says.
struct Fragment {
  uint64_t id = 0;
  int64_t physical_rows = 0;
  int64_t deleted_rows = 0;
  std::vector<DataFile> files;
  std::vector<DataFile> overlays;
  Json json;  ///< as the library gave it: equal for an unchanged fragment

  int64_t rows() const { return physical_rows - deleted_rows; }
  int64_t bytes() const;  ///< of data files and overlays, as far as known
};

/// One segment of a secondary index.
struct IndexSegment {
  std::string name;
  std::string uuid;
  std::string type;
  std::vector<int32_t> field_ids;
  bool system = false;
  bool remappable = false;
  bool usable = true;
  std::optional<std::vector<uint64_t>> fragments;  ///< that it covers; nullopt: not known

  bool zone_map() const { return type == "ZoneMap"; }
  /// Its entries name rows in a way that a rewrite has to follow.
  bool follows_rows() const { return remappable && !system && !zone_map(); }
};

/// One version of a dataset.
struct Description {
  uint64_t version = 0;
  std::string storage_version;
  bool stable_row_ids = false;
  std::string unwritable;  ///< why this library cannot write it; "" when it can
  Properties config;
  Properties table_metadata;
  std::vector<Field> fields;
  std::vector<Fragment> fragments;  ///< in the manifest's order
  std::vector<IndexSegment> indices;

  const Fragment* FindFragment(uint64_t id) const;
  bool has_blobs() const;
  /// The value of a config key that is a positive integer; an error when it is anything else.
  arrow::Result<std::optional<int64_t>> PositiveConfig(const char* key) const;
};

arrow::Result<Fragment> ParseFragment(const Json& json);
arrow::Result<Description> ParseDescription(const Json& json);

/// A version, read.
struct Version {
  std::shared_ptr<const Dataset> dataset;
  Description description;
  std::shared_ptr<arrow::Schema> schema;  ///< fields as in the description
};
/// `version` 0 is the latest.
arrow::Result<std::shared_ptr<const Version>> LoadVersion(const std::string& uri,
                                                          const Properties& options,
                                                          uint64_t version = 0);
arrow::Result<std::shared_ptr<const Version>> ReadVersion(std::shared_ptr<const Dataset> dataset);

}  // namespace thalweg::lance
