// How Lance takes part in opening tables by address.

#include <filesystem>

#include "lance/lance_table_internal.h"
#include "util/status.h"

namespace thalweg::lance {
namespace {

bool HasScheme(const std::string& path) { return path.find(":/") != std::string::npos; }

bool Owns(const TableAddress& address, const Properties&) {
  if (!address.is_path) return false;
  if (address.path.ends_with(".lance")) return true;
  std::error_code error;
  return !HasScheme(address.path) &&
         std::filesystem::is_directory(std::filesystem::path(address.path) / "_versions", error);
}

arrow::Result<std::unique_ptr<Table>> Open(const TableAddress& address, const Properties& options) {
  return OpenLanceTable(address.text, address.path, options);
}

arrow::Result<std::unique_ptr<Table>> Create(const TableAddress& address, const Properties& options,
                                             const arrow::Schema& schema,
                                             const Properties& properties) {
  if (properties.contains("format-version")) {
    return Usage("{}: --format-version is for Iceberg tables", address.text);
  }
  Json config = Json::object();
  for (const auto& [key, value] : properties) config[key] = value;
  auto created = Dataset::Create(address.path, options, schema, Json{{"config", config}});
  ARROW_RETURN_NOT_OK(Prefixed(address.text, created.status()));
  return OpenLanceTable(address.text, address.path, options);
}

}  // namespace

TableFormat LanceFormat() {
  TableFormat format;
  format.name = "lance";
  format.owns = Owns;
  format.open = Open;
  format.create = Create;
  return format;
}

}  // namespace thalweg::lance
