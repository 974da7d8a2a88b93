#pragma once

#include <arrow/result.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "iceberg/file_io.h"
#include "iceberg/metadata.h"

namespace thalweg::iceberg {

/// A property of a catalog; "" when it is not there.
std::string PropertyOf(const std::map<std::string, std::string>& properties,
                       const std::string& key);

/// A table's place in a catalog.
struct TableIdentifier {
  std::vector<std::string> name_space;
  std::string name;
  std::string NamespaceText() const;  ///< joined by dots, as SQL catalogs store it
  std::string ToString() const;       ///< dotted
};

/// Refuses a relative path, which each program would look for in another folder; "" passes. `what`
/// names it in the message.
arrow::Status CheckAbsolute(const std::string& what, const std::string& location);

struct LoadedTable {
  std::string metadata_location;
  TableMetadata metadata;
};

/// One table in one catalog: load its newest metadata, swap it for new metadata. Thread-safe.
class TableStore {
 public:
  virtual ~TableStore() = default;
  /// KeyError when the table does not exist.
  virtual arrow::Result<LoadedTable> Load() = 0;
  /// Writes `updated` as new metadata file and makes it the current one if `base` still is.
  /// Maintains the metadata-log and write.metadata.delete-after-commit.enabled, gzip by
  /// write.metadata.compression-codec. Failure kinds (util/status.h): kConflict, definite: the
  /// table moved, nothing of this attempt is left (the metadata file is deleted); kError, definite:
  /// nothing was committed and nothing is left; kUnknown: outcome not known, nothing was deleted.
  virtual arrow::Result<LoadedTable> Commit(const LoadedTable& base,
                                            const TableMetadata& updated) = 0;
  /// Creates the table with this first metadata; AlreadyExists when there is one.
  virtual arrow::Result<LoadedTable> CreateTable(const TableMetadata& metadata) = 0;
  virtual const std::string& description()
      const = 0;  ///< for messages: "table db.events in SQLite catalog …"
  /// False for a table that can only be looked at; `why` says whom it belongs to and what to do.
  virtual bool writable(std::string* why) const = 0;
  /// What is wrong with the table's location and properties for this catalog, so that no work
  /// begins which could not be committed: relative paths and, where the store writes the metadata
  /// files itself, what is malformed among the properties for them.
  virtual arrow::Status CheckProperties(const TableMetadata& metadata) const;
  /// Where manifests, manifest lists and statistics files go: write.metadata.path, else
  /// <location>/metadata. Hadoop tables always use the latter.
  virtual std::string MetadataFolder(const TableMetadata& metadata) const;
  /// Metadata files of the next commits carry this UUID in their names where the name is still
  /// free, so that what a dead process left can be told by whose it is; "": random ones.
  void NameFilesAfter(std::string uuid) { file_uuid_ = std::move(uuid); }
  const std::shared_ptr<FileIO>& io() const { return io_; }

 protected:
  explicit TableStore(std::shared_ptr<FileIO> io) : io_(std::move(io)) {}
  std::shared_ptr<FileIO> io_;
  std::string file_uuid_;
};

/// A table folder in Hadoop layout: metadata/v<N>.metadata.json (or .gz.metadata.json) and
/// version-hint.text. The newest version is the hint probed forward (a missing or stale or torn
/// hint: the folder is listed). Commit: temporary file, fsync, rename without replacement, hint. A
/// folder with NNNNN-<uuid>.metadata.json, or a path to a metadata file, opens read-only.
arrow::Result<std::unique_ptr<TableStore>> OpenHadoopTable(std::shared_ptr<FileIO> io,
                                                           const std::string& location);
/// The store for a table that is to be created there.
arrow::Result<std::unique_ptr<TableStore>> NewHadoopTable(std::shared_ptr<FileIO> io,
                                                          const std::string& location);

/// A table in a SQL catalog on SQLite (PyIceberg's and the Java JdbcCatalog's schema, V0 and V1).
/// `uri`: "sqlite:////abs/path" or "jdbc:sqlite:/abs/path". `warehouse` gives the location of new
/// tables. With `create`, the catalog's tables and the namespace are created as PyIceberg does it
/// when missing, and a missing table is no error until Load().
arrow::Result<std::unique_ptr<TableStore>> OpenSqlTable(
    std::shared_ptr<FileIO> io, const std::string& catalog_name,
    const std::map<std::string, std::string>& properties, const TableIdentifier& table,
    bool create);
/// Location for a new table of a SQL catalog: <location>/<table> with the namespace's "location"
/// property if any, else <warehouse>/<ns>/<table>, as PyIceberg's SqlCatalog lays it out.
arrow::Result<std::string> NewSqlTableLocation(const std::string& catalog_name,
                                               const std::map<std::string, std::string>& properties,
                                               const TableIdentifier& table);

}  // namespace thalweg::iceberg
