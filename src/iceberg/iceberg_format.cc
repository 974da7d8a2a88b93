// How Iceberg takes part in opening tables by address.

#include "iceberg/catalog.h"
#include "iceberg/iceberg_table.h"
#include "iceberg/rest_catalog.h"
#include "iceberg/rest_http.h"
#include "util/status.h"

namespace thalweg::iceberg {
namespace {

using Properties = std::map<std::string, std::string>;

TableIdentifier IdentifierOf(const TableAddress& address) {
  return {address.name_space, address.table};
}

bool IsRest(const Properties& catalog) { return PropertyOf(catalog, "type") == "rest"; }

/// REST catalogs and SQL catalogs on SQLite are spoken.
arrow::Status CheckCatalogType(const TableAddress& address, const Properties& catalog) {
  const std::string type = PropertyOf(catalog, "type");
  const std::string uri = PropertyOf(catalog, "uri");
  const bool sqlite = uri.starts_with("sqlite:") || uri.starts_with("jdbc:sqlite:");
  if (IsRest(catalog)) return arrow::Status::OK();
  if ((type == "sql" || type == "jdbc" || type.empty()) && sqlite) return arrow::Status::OK();
  if (type == "sql" || type == "jdbc") {
    return Invalid(
        "catalog {}: the SQL catalog at \"{}\" is not supported by this version of Thalweg; it "
        "speaks SQLite "
        "(sqlite:////absolute/path); the Python package opens whatever PyIceberg opens",
        address.catalog, PublicUrl(uri));
  }
  return Invalid(
      "catalog {}: catalogs of type \"{}\" are not supported by this version of Thalweg; it speaks "
      "REST catalogs, SQL catalogs on SQLite and tables in Hadoop layout by path; the Python "
      "package "
      "opens whatever PyIceberg opens",
      address.catalog, type.empty() ? PublicUrl(uri) : type);
}

arrow::Result<std::unique_ptr<TableStore>> OpenStore(const TableAddress& address,
                                                     const Properties& catalog, bool create) {
  if (!address.is_path) {
    ARROW_RETURN_NOT_OK(CheckCatalogType(address, catalog));
    if (IsRest(catalog)) return OpenRestTable(address.catalog, catalog, IdentifierOf(address));
  }
  auto io = std::make_shared<FileIO>(catalog);
  if (address.is_path) {
    return create ? NewHadoopTable(std::move(io), address.path)
                  : OpenHadoopTable(std::move(io), address.path);
  }
  return OpenSqlTable(std::move(io), address.catalog, catalog, IdentifierOf(address), create);
}

/// Where a new table goes; "": the catalog says.
arrow::Result<std::string> NewLocation(const TableAddress& address, const Properties& catalog) {
  if (address.is_path) return address.path;
  if (IsRest(catalog)) return "";
  return NewSqlTableLocation(address.catalog, catalog, IdentifierOf(address));
}

arrow::Result<std::unique_ptr<Table>> Open(const TableAddress& address, const Properties& catalog) {
  ARROW_ASSIGN_OR_RAISE(auto store, OpenStore(address, catalog, /*create=*/false));
  return OpenIcebergTable(address.text, std::move(store));
}

/// The property "format-version", which a new table does not keep; 2 when it is not there.
arrow::Result<int> TakeFormatVersion(Properties* properties) {
  const std::string text = PropertyOf(*properties, "format-version");
  properties->erase("format-version");
  if (text.empty() || text == "2") return 2;
  if (text == "3") return 3;
  return Invalid("format-version \"{}\": new tables are of format version 2 or 3", text);
}

arrow::Result<std::unique_ptr<Table>> Create(const TableAddress& address, const Properties& catalog,
                                             const arrow::Schema& arrow,
                                             const Properties& properties) {
  ARROW_ASSIGN_OR_RAISE(auto store, OpenStore(address, catalog, /*create=*/true));
  ARROW_ASSIGN_OR_RAISE(const std::string location, NewLocation(address, catalog));
  ARROW_RETURN_NOT_OK(
      CheckAbsolute(fmt::format("{}: the location of the new table", address.text), location));
  ARROW_ASSIGN_OR_RAISE(const Schema schema, Schema::FromArrow(arrow));
  Properties all{{"write.parquet.compression-codec", "zstd"}};
  for (const auto& [key, value] : properties) all[key] = value;
  ARROW_ASSIGN_OR_RAISE(const int version, TakeFormatVersion(&all));
  for (const auto& leaf : schema.Leaves()) {
    const TypeKind kind = leaf.field->type->kind;
    if (version < 3 && (kind == TypeKind::kTimestampNs || kind == TypeKind::kTimestampTzNs)) {
      return Invalid(
          "{}: column \"{}\" has timestamps in nanoseconds, which tables of format version 2 do "
          "not have: cast it to microseconds, or make the table of format version 3 "
          "(--format-version 3)",
          address.text, leaf.path);
    }
  }
  ARROW_ASSIGN_OR_RAISE(const auto metadata, TableMetadata::Create(schema, location, all, version));
  ARROW_RETURN_NOT_OK(store->CreateTable(metadata).status());
  return OpenIcebergTable(address.text, std::move(store));
}

}  // namespace

TableFormat IcebergFormat() {
  TableFormat format;
  format.name = "iceberg";
  // Lance datasets end in ".lance"; everything else that is a path or a catalog name is taken as
  // Iceberg.
  format.owns = [](const TableAddress& address, const Properties&) {
    return !address.is_path || !std::string_view(address.path).ends_with(".lance");
  };
  format.open = Open;
  format.create = Create;
  return format;
}

}  // namespace thalweg::iceberg
