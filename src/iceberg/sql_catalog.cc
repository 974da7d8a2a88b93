#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>

#include "iceberg/catalog.h"
#include "iceberg/metadata_file.h"
#include "util/crash_point.h"
#include "util/edit_distance.h"
#include "util/status.h"
#include "util/uuid.h"

namespace thalweg::iceberg {
namespace {

constexpr int kBusyTimeoutMillis = 30000;

/// The file of a catalog URI, in SQLAlchemy's or JDBC's spelling.
arrow::Result<std::string> DatabasePath(const std::string& uri) {
  std::string_view path;
  if (uri.starts_with("jdbc:sqlite:")) {
    path = std::string_view(uri).substr(std::string_view("jdbc:sqlite:").size());
    if (path.starts_with("file:")) path.remove_prefix(std::string_view("file:").size());
  } else if (uri.starts_with("sqlite://") || uri.starts_with("sqlite+pysqlite://")) {
    // sqlite://<no host>/<path>: an absolute path makes four slashes.
    path = std::string_view(uri).substr(uri.find("://") + 3);
    if (!path.starts_with('/')) path = "";
    if (!path.empty()) path.remove_prefix(1);
  } else {
    return arrow::Status::NotImplemented(fmt::format(
        "catalog URI {}: only SQLite is supported (sqlite:////absolute/path or jdbc:sqlite:/path)",
        uri));
  }
  path = path.substr(0, path.find('?'));
  if (path.empty() || path == ":memory:") {
    return Invalid("catalog URI {}: names no database file (sqlite:////absolute/path)", uri);
  }
  return std::string(path);
}

/// A connection for one operation.
class Database {
 public:
  static arrow::Result<Database> Open(const std::string& uri, bool create) {
    ARROW_ASSIGN_OR_RAISE(const std::string path, DatabasePath(uri));
    if (!create && ::access(path.c_str(), F_OK) != 0) {
      return arrow::Status::IOError("catalog ", uri, ": there is no file ", path);
    }
    sqlite3* handle = nullptr;
    const int flags = SQLITE_OPEN_READWRITE | (create ? SQLITE_OPEN_CREATE : 0);
    const int result = sqlite3_open_v2(path.c_str(), &handle, flags, nullptr);
    Database database(handle, uri);
    if (result != SQLITE_OK) return database.Error("open the catalog", result);
    sqlite3_extended_result_codes(handle, 1);
    sqlite3_busy_timeout(handle, kBusyTimeoutMillis);
    return database;
  }

  sqlite3* get() const { return handle_.get(); }
  const std::string& uri() const { return uri_; }
  bool read_only() const { return sqlite3_db_readonly(handle_.get(), "main") == 1; }

  arrow::Status Error(std::string_view action, int code) const {
    const int primary = code & 0xFF;
    if (primary == SQLITE_NOTADB || primary == SQLITE_CORRUPT) {
      return arrow::Status::IOError("catalog ", uri_,
                                    ": the file is not a SQLite database or is corrupt (",
                                    sqlite3_errmsg(get()), ")");
    }
    if (primary == SQLITE_READONLY) {
      return arrow::Status::IOError("catalog ", uri_, ": the file is read-only");
    }
    if (primary == SQLITE_BUSY || primary == SQLITE_LOCKED) {
      return arrow::Status::IOError("catalog ", uri_,
                                    ": another process held the lock for more than ",
                                    kBusyTimeoutMillis / 1000, " s");
    }
    const int system_error = get() != nullptr ? sqlite3_system_errno(get()) : 0;
    std::string reason = get() != nullptr ? sqlite3_errmsg(get()) : sqlite3_errstr(code);
    if (system_error != 0) {
      reason +=
          fmt::format(" ({})", std::error_code(system_error, std::generic_category()).message());
    }
    return arrow::Status::IOError("catalog ", uri_, ": cannot ", std::string(action), ": ", reason);
  }

  using Rows = std::vector<std::vector<std::optional<std::string>>>;
  /// Runs one statement with text parameters and returns all rows.
  arrow::Result<Rows> Run(std::string_view action, const std::string& sql,
                          const std::vector<std::string>& parameters = {}) const {
    int code = SQLITE_OK;
    return Run(action, sql, parameters, &code);
  }
  arrow::Result<Rows> Run(std::string_view action, const std::string& sql,
                          const std::vector<std::string>& parameters, int* code) const {
    sqlite3_stmt* raw = nullptr;
    *code = sqlite3_prepare_v2(get(), sql.c_str(), static_cast<int>(sql.size()), &raw, nullptr);
    std::unique_ptr<sqlite3_stmt, int (*)(sqlite3_stmt*)> statement(raw, sqlite3_finalize);
    if (*code != SQLITE_OK) return Error(action, *code);
    for (size_t i = 0; i < parameters.size(); ++i) {
      *code = sqlite3_bind_text(raw, static_cast<int>(i + 1), parameters[i].data(),
                                static_cast<int>(parameters[i].size()), SQLITE_TRANSIENT);
      if (*code != SQLITE_OK) return Error(action, *code);
    }
    Rows rows;
    while ((*code = sqlite3_step(raw)) == SQLITE_ROW) {
      auto& row = rows.emplace_back();
      for (int i = 0; i < sqlite3_column_count(raw); ++i) {
        const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(raw, i));
        row.push_back(
            text ? std::optional<std::string>(std::in_place, text, sqlite3_column_bytes(raw, i))
                 : std::nullopt);
      }
    }
    if (*code != SQLITE_DONE) return Error(action, *code);
    return rows;
  }
  int changes() const { return sqlite3_changes(get()); }

 private:
  Database(sqlite3* handle, std::string uri)
      : handle_(handle, sqlite3_close_v2), uri_(std::move(uri)) {}
  std::unique_ptr<sqlite3, int (*)(sqlite3*)> handle_;
  std::string uri_;
};

/// Rolls back at the end of the scope unless committed.
class Transaction {
 public:
  explicit Transaction(const Database& database) : database_(database) {}
  ~Transaction() { (void)Rollback(); }
  arrow::Status Begin() {
    // Immediate: the write lock is taken, and waited for, here, so that COMMIT seldom has to.
    ARROW_RETURN_NOT_OK(database_.Run("begin a transaction", "BEGIN IMMEDIATE").status());
    open_ = true;
    return arrow::Status::OK();
  }
  /// `unknown` is set when it failed and SQLite had left the transaction already, or could not roll
  /// it back.
  arrow::Status Commit(bool* unknown) {
    auto status = database_.Run("commit", "COMMIT").status();
    const bool still_open = !status.ok() && !sqlite3_get_autocommit(database_.get());
    *unknown = !status.ok() && !(still_open && Rollback().ok());
    open_ = false;
    return status;
  }
  arrow::Status Rollback() {
    if (!open_ || sqlite3_get_autocommit(database_.get())) return arrow::Status::OK();
    open_ = false;
    return database_.Run("roll back", "ROLLBACK").status();
  }

 private:
  const Database& database_;
  bool open_ = false;
};

/// Version 1 of the catalog's schema has the column iceberg_type (tables and views), version 0 has
/// not.
enum class CatalogSchema { kMissing, kV0, kV1 };

arrow::Result<CatalogSchema> FindSchema(const Database& database) {
  ARROW_ASSIGN_OR_RAISE(auto columns,
                        database.Run("read the schema", "PRAGMA table_info(iceberg_tables)"));
  if (columns.empty()) return CatalogSchema::kMissing;
  const bool typed = std::any_of(columns.begin(), columns.end(), [](const auto& column) {
    return column[1] == "iceberg_type";  // (cid, name, type, …)
  });
  return typed ? CatalogSchema::kV1 : CatalogSchema::kV0;
}

const char* TypeFilter(CatalogSchema schema) {
  return schema == CatalogSchema::kV1 ? " AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)"
                                      : "";
}

arrow::Status MakeCatalog(const Database& database) {
  ARROW_RETURN_NOT_OK(
      database
          .Run("create the catalog's tables",
               "CREATE TABLE IF NOT EXISTS iceberg_tables (catalog_name VARCHAR(255) NOT NULL, "
               "table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL, "
               "metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), "
               "iceberg_type VARCHAR(5), PRIMARY KEY (catalog_name, table_namespace, table_name))")
          .status());
  return database
      .Run("create the catalog's tables",
           "CREATE TABLE IF NOT EXISTS iceberg_namespace_properties "
           "(catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255) NOT NULL, "
           "property_key VARCHAR(255) NOT NULL, property_value VARCHAR(1000) NOT NULL, "
           "PRIMARY KEY (catalog_name, namespace, property_key))")
      .status();
}

class SqlTable : public TableStore {
 public:
  SqlTable(std::shared_ptr<FileIO> io, std::string catalog, std::string uri, TableIdentifier table)
      : TableStore(std::move(io)),
        catalog_(std::move(catalog)),
        uri_(std::move(uri)),
        table_(std::move(table)),
        namespace_(table_.NamespaceText()),
        description_(
            fmt::format("table {} in catalog {} ({})", table_.ToString(), catalog_, uri_)) {}

  /// Checks the catalog (making it with `create`) and, without `create`, the table.
  arrow::Status Check(bool create) {
    ARROW_ASSIGN_OR_RAISE(auto database, Database::Open(uri_, create));
    if (create) ARROW_RETURN_NOT_OK(MakeCatalog(database));
    ARROW_ASSIGN_OR_RAISE(const auto schema, RequireSchema(database));
    if (!create) ARROW_RETURN_NOT_OK(CurrentLocation(database, schema).status());
    if (database.read_only()) {
      read_only_ = fmt::format("{}: the catalog's file is read-only", description_);
    }
    return arrow::Status::OK();
  }

  arrow::Result<LoadedTable> Load() override {
    return ReadCurrentMetadata(*io_, [&] { return CurrentLocation(); });
  }

  arrow::Result<LoadedTable> Commit(const LoadedTable& base,
                                    const TableMetadata& updated) override {
    if (!read_only_.empty()) return Invalid("{}", read_only_);
    std::vector<std::string> expired;
    ARROW_ASSIGN_OR_RAISE(auto next, NextMetadata(base, updated, &expired));
    const int64_t version = CatalogFileVersion(FileNameOf(base.metadata_location)).value_or(-1) + 1;
    ARROW_ASSIGN_OR_RAISE(const std::string location, WriteVersion(version, next));
    const auto status = Swap(base.metadata_location, location);
    if (!status.ok()) {
      if (KindOf(status) != FailureKind::kUnknown) DeleteQuietly(*io_, {location});
      return status;
    }
    DeleteQuietly(*io_, expired);
    return LoadedTable{location, std::move(next)};
  }

  arrow::Result<LoadedTable> CreateTable(const TableMetadata& metadata) override {
    if (!read_only_.empty()) return Invalid("{}", read_only_);
    ARROW_ASSIGN_OR_RAISE(const std::string location, WriteVersion(0, metadata));
    const auto status = Insert(location);
    if (!status.ok()) {
      if (KindOf(status) != FailureKind::kUnknown) DeleteQuietly(*io_, {location});
      return status;
    }
    return LoadedTable{location, metadata};
  }

  arrow::Status CheckProperties(const TableMetadata& metadata) const override {
    ARROW_RETURN_NOT_OK(TableStore::CheckProperties(metadata));
    return CheckMetadataFileProperties(metadata);
  }

  const std::string& description() const override { return description_; }

  bool writable(std::string* why) const override {
    if (why != nullptr) *why = read_only_;
    return read_only_.empty();
  }

 private:
  static constexpr const char* kThisTable =
      " WHERE catalog_name = ?1 AND table_namespace = ?2 AND table_name = ?3";

  arrow::Result<CatalogSchema> RequireSchema(const Database& database) const {
    ARROW_ASSIGN_OR_RAISE(const auto schema, FindSchema(database));
    if (schema == CatalogSchema::kMissing) {
      return Invalid(
          "catalog {}: the database is no Iceberg catalog (it has no table iceberg_tables)", uri_);
    }
    return schema;
  }

  arrow::Result<std::string> CurrentLocation() const {
    ARROW_ASSIGN_OR_RAISE(auto database, Database::Open(uri_, /*create=*/false));
    ARROW_ASSIGN_OR_RAISE(const auto schema, RequireSchema(database));
    return CurrentLocation(database, schema);
  }

  arrow::Result<std::string> CurrentLocation(const Database& database, CatalogSchema schema) const {
    ARROW_ASSIGN_OR_RAISE(auto rows,
                          database.Run("look the table up",
                                       std::string("SELECT metadata_location FROM iceberg_tables") +
                                           kThisTable + TypeFilter(schema),
                                       {catalog_, namespace_, table_.name}));
    if (rows.empty()) return NoSuchTable(database, schema);
    if (!rows[0][0]) return Invalid("{}: it has no metadata location", description_);
    return *rows[0][0];
  }

  /// KeyError with what there is instead: tables of the namespace, else namespaces, else the names
  /// of catalogs in the file.
  arrow::Status NoSuchTable(const Database& database, CatalogSchema schema) const {
    auto names = [&](const std::string& column, const std::string& condition,
                     const std::vector<std::string>& parameters) {
      std::vector<std::string> found;
      auto rows = database.Run("list",
                               "SELECT DISTINCT " + column + " FROM iceberg_tables WHERE " +
                                   condition + TypeFilter(schema) + " ORDER BY 1",
                               parameters);
      if (rows.ok()) {
        for (const auto& row : *rows) found.push_back(row[0].value_or(""));
      }
      return found;
    };
    std::string hint = "the catalog has no tables";
    if (auto tables = names("table_name", "catalog_name = ?1 AND table_namespace = ?2",
                            {catalog_, namespace_});
        !tables.empty()) {
      hint = fmt::format("namespace {} has {}", namespace_, NearestNames(table_.name, tables));
    } else if (auto namespaces = names("table_namespace", "catalog_name = ?1", {catalog_});
               !namespaces.empty()) {
      hint = fmt::format("namespace {} has no tables; there are namespaces {}", namespace_,
                         NearestNames(namespace_, namespaces));
    } else if (auto catalogs = names("catalog_name", "TRUE", {}); !catalogs.empty()) {
      hint = fmt::format("the file holds no catalog of that name but {}",
                         NearestNames(catalog_, catalogs));
    }
    return arrow::Status::KeyError("there is no table ", table_.ToString(), " in catalog ",
                                   catalog_, " (", uri_, "): ", hint);
  }

  arrow::Result<std::string> WriteVersion(int64_t version, const TableMetadata& metadata) const {
    ARROW_ASSIGN_OR_RAISE(const std::string suffix, MetadataFileSuffix(metadata));
    auto name = [&](const std::string& uuid) {
      return JoinLocation(MetadataFolder(metadata),
                          fmt::format("{:05}-{}{}", version, uuid, suffix));
    };
    std::string location = name(file_uuid_.empty() ? NewUuid() : file_uuid_);
    ARROW_ASSIGN_OR_RAISE(const auto taken, io_->Size(location));
    if (taken) location = name(NewUuid());
    ARROW_RETURN_NOT_OK(WriteMetadataFile(*io_, location, metadata));
    CrashPoint("metadata-written");
    return location;
  }

  arrow::Status Swap(const std::string& from, const std::string& to) const {
    ARROW_ASSIGN_OR_RAISE(auto database, Database::Open(uri_, /*create=*/false));
    ARROW_ASSIGN_OR_RAISE(const auto schema, RequireSchema(database));
    Transaction transaction(database);
    ARROW_RETURN_NOT_OK(transaction.Begin());
    CrashPoint("before-sql-update");
    ARROW_RETURN_NOT_OK(database
                            .Run("update the table",
                                 std::string("UPDATE iceberg_tables SET metadata_location = ?4, "
                                             "previous_metadata_location = ?5") +
                                     kThisTable + " AND metadata_location = ?5" +
                                     TypeFilter(schema),
                                 {catalog_, namespace_, table_.name, to, from})
                            .status());
    if (database.changes() != 1) return Conflict("{}: another commit came first", description_);
    bool unknown = false;
    const auto status = transaction.Commit(&unknown);
    CrashPoint("after-sql-update");
    return status.ok() || !unknown ? status : Resolve(from, to, status);
  }

  arrow::Status Insert(const std::string& location) const {
    ARROW_ASSIGN_OR_RAISE(auto database, Database::Open(uri_, /*create=*/false));
    ARROW_ASSIGN_OR_RAISE(const auto schema, RequireSchema(database));
    Transaction transaction(database);
    ARROW_RETURN_NOT_OK(transaction.Begin());
    ARROW_RETURN_NOT_OK(InsertNamespace(database));
    const bool typed = schema == CatalogSchema::kV1;
    int code = SQLITE_OK;
    const auto inserted =
        database.Run("create the table",
                     fmt::format("INSERT INTO iceberg_tables (catalog_name, table_namespace, "
                                 "table_name, metadata_location, previous_metadata_location{}) "
                                 "VALUES (?1, ?2, ?3, ?4, NULL{})",
                                 typed ? ", iceberg_type" : "", typed ? ", 'TABLE'" : ""),
                     {catalog_, namespace_, table_.name, location}, &code);
    if ((code & 0xFF) == SQLITE_CONSTRAINT) {
      return arrow::Status::AlreadyExists("there is already a ", description_);
    }
    ARROW_RETURN_NOT_OK(inserted.status());
    bool unknown = false;
    const auto status = transaction.Commit(&unknown);
    return status.ok() || !unknown ? status : Resolve("", location, status);
  }

  /// A namespace exists when it has a property or a table; without properties PyIceberg writes
  /// exists=true.
  arrow::Status InsertNamespace(const Database& database) const {
    ARROW_ASSIGN_OR_RAISE(
        auto rows,
        database.Run("look the namespace up",
                     "SELECT 1 FROM iceberg_namespace_properties WHERE catalog_name = ?1 AND "
                     "namespace = ?2 LIMIT 1",
                     {catalog_, namespace_}));
    if (!rows.empty()) return arrow::Status::OK();
    return database
        .Run("create the namespace",
             "INSERT INTO iceberg_namespace_properties (catalog_name, namespace, property_key, "
             "property_value) VALUES (?1, ?2, 'exists', 'true')",
             {catalog_, namespace_})
        .status();
  }

  /// After a failure that leaves it open whether `location` was committed upon `base`: looks.
  arrow::Status Resolve(const std::string& base, const std::string& location,
                        const arrow::Status& failure) const {
    auto current = CurrentLocation();
    if (current.ok() && *current == location) return arrow::Status::OK();
    if (current.ok() && *current == base) return failure;
    // An INSERT that did not happen; a table that had been there was dropped, perhaps upon ours.
    if (current.status().IsKeyError() && base.empty()) return failure;
    if (current.ok()) {
      const auto table = ReadMetadataFile(*io_, *current);
      const auto outcome =
          table.ok() ? OutcomeOfSwap(*table, base, location) : SwapOutcome::kUnknown;
      if (outcome == SwapOutcome::kCommitted) return arrow::Status::OK();
      if (outcome == SwapOutcome::kLost) return failure;
    }
    return UnknownOutcome("{}: {}; whether {} was committed is not known", description_,
                          failure.message(), location);
  }

  const std::string catalog_;
  const std::string uri_;
  const TableIdentifier table_;
  const std::string namespace_;
  const std::string description_;
  std::string read_only_;
};

arrow::Result<std::string> CatalogProperty(const std::map<std::string, std::string>& properties,
                                           const std::string& catalog_name,
                                           const std::string& key) {
  auto it = properties.find(key);
  if (it == properties.end() || it->second.empty()) {
    return Invalid("catalog {}: the property {} is not set", catalog_name, key);
  }
  return it->second;
}

}  // namespace

arrow::Result<std::unique_ptr<TableStore>> OpenSqlTable(
    std::shared_ptr<FileIO> io, const std::string& catalog_name,
    const std::map<std::string, std::string>& properties, const TableIdentifier& table,
    bool create) {
  ARROW_ASSIGN_OR_RAISE(const auto uri, CatalogProperty(properties, catalog_name, "uri"));
  if (table.name_space.empty() || table.name.empty()) {
    return Invalid("table {} of catalog {}: a namespace and a name are needed", table.ToString(),
                   catalog_name);
  }
  auto store = std::make_unique<SqlTable>(std::move(io), catalog_name, uri, table);
  ARROW_RETURN_NOT_OK(store->Check(create));
  return store;
}

arrow::Result<std::string> NewSqlTableLocation(const std::string& catalog_name,
                                               const std::map<std::string, std::string>& properties,
                                               const TableIdentifier& table) {
  ARROW_ASSIGN_OR_RAISE(const auto uri, CatalogProperty(properties, catalog_name, "uri"));
  ARROW_ASSIGN_OR_RAISE(const std::string path, DatabasePath(uri));
  const std::string name_space = table.NamespaceText();
  if (::access(path.c_str(), F_OK) == 0) {
    ARROW_ASSIGN_OR_RAISE(auto database, Database::Open(uri, /*create=*/false));
    ARROW_ASSIGN_OR_RAISE(const auto schema, FindSchema(database));
    if (schema != CatalogSchema::kMissing) {
      ARROW_ASSIGN_OR_RAISE(
          auto rows,
          database.Run("look the namespace up",
                       "SELECT property_value FROM iceberg_namespace_properties WHERE "
                       "catalog_name = ?1 AND namespace = ?2 AND property_key = 'location'",
                       {catalog_name, name_space}));
      if (!rows.empty() && rows[0][0]) return JoinLocation(*rows[0][0], table.name);
    }
  }
  ARROW_ASSIGN_OR_RAISE(const auto warehouse,
                        CatalogProperty(properties, catalog_name, "warehouse"));
  return JoinLocation(JoinLocation(warehouse, name_space), table.name);
}

}  // namespace thalweg::iceberg
