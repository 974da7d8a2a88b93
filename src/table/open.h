#pragma once

#include <arrow/result.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "table/address.h"
#include "table/table.h"

namespace thalweg {

/// How a format takes part in opening: which addresses are its own, how one is opened and created.
struct TableFormat {
  std::string name;  ///< "iceberg"
  /// True when this address (a path: what is there; a name: the properties of its catalog) is of
  /// this format.
  std::function<bool(const TableAddress&, const std::map<std::string, std::string>& catalog)> owns;
  std::function<arrow::Result<std::unique_ptr<Table>>(
      const TableAddress&, const std::map<std::string, std::string>& catalog)>
      open;
  /// Creates an empty table of this schema; AlreadyExists when there is one.
  std::function<arrow::Result<std::unique_ptr<Table>>(
      const TableAddress&, const std::map<std::string, std::string>& catalog,
      const arrow::Schema& schema, const std::map<std::string, std::string>& properties)>
      create;
};

/// The formats known to this process, asked in the order in which they were registered.
void RegisterTableFormat(TableFormat format);
arrow::Result<std::unique_ptr<Table>> OpenTable(
    const std::string& text, const std::map<std::string, std::string>& catalog_overrides);
arrow::Result<std::unique_ptr<Table>> CreateTable(
    const std::string& text, const std::map<std::string, std::string>& catalog_overrides,
    const arrow::Schema& schema, const std::map<std::string, std::string>& properties);

}  // namespace thalweg
