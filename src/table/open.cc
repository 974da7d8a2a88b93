#include "table/open.h"

#include <filesystem>
#include <mutex>
#include <utility>

#include "util/status.h"

namespace thalweg {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<TableFormat> formats;
};

Registry& Formats() {
  static Registry registry;
  return registry;
}

struct Resolved {
  TableAddress address;
  std::map<std::string, std::string> catalog;
  TableFormat format;
};

arrow::Result<Resolved> Resolve(const std::string& text,
                                const std::map<std::string, std::string>& overrides) {
  Resolved resolved;
  ARROW_ASSIGN_OR_RAISE(resolved.address, ParseTableAddress(text));
  const TableAddress& address = resolved.address;
  resolved.catalog = overrides;
  if (!address.is_path) {
    ARROW_ASSIGN_OR_RAISE(resolved.catalog, CatalogProperties(address.catalog, overrides));
  }
  std::string known;
  {
    Registry& registry = Formats();
    std::lock_guard lock(registry.mutex);
    for (const auto& format : registry.formats) {
      if (format.owns(address, resolved.catalog)) {
        resolved.format = format;
        return resolved;
      }
      known += (known.empty() ? "" : ", ") + format.name;
    }
  }
  if (!address.is_path) {
    return Usage("{}: catalogs of type \"{}\" are not available in this version", text,
                 resolved.catalog["type"]);
  }
  std::error_code error;
  if (address.path.find(":/") == std::string::npos &&
      !std::filesystem::exists(address.path, error)) {
    return Invalid("{}: there is no table; check the path, or name it CATALOG.NAMESPACE.TABLE",
                   address.path);
  }
  return Invalid("{}: not a table of a format that this version knows ({})", address.path, known);
}

}  // namespace

void RegisterTableFormat(TableFormat format) {
  Registry& registry = Formats();
  std::lock_guard lock(registry.mutex);
  registry.formats.push_back(std::move(format));
}

arrow::Result<std::unique_ptr<Table>> OpenTable(
    const std::string& text, const std::map<std::string, std::string>& catalog_overrides) {
  ARROW_ASSIGN_OR_RAISE(Resolved resolved, Resolve(text, catalog_overrides));
  return resolved.format.open(resolved.address, resolved.catalog);
}

arrow::Result<std::unique_ptr<Table>> CreateTable(
    const std::string& text, const std::map<std::string, std::string>& catalog_overrides,
    const arrow::Schema& schema, const std::map<std::string, std::string>& properties) {
  ARROW_ASSIGN_OR_RAISE(Resolved resolved, Resolve(text, catalog_overrides));
  return resolved.format.create(resolved.address, resolved.catalog, schema, properties);
}

}  // namespace thalweg
