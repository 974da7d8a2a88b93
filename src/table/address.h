#pragma once

#include <arrow/result.h>

#include <map>
#include <string>
#include <vector>

namespace thalweg {

/// What TABLE on a command line means: a path if it contains '/' or "://", ends in ".lance", or
/// exists; otherwise the first dotted part is the catalog, the last the table, the rest the
/// namespace.
struct TableAddress {
  bool is_path = false;
  std::string path;  ///< absolute unless it has a scheme
  std::string catalog;
  std::vector<std::string> name_space;
  std::string table;
  std::string text;  ///< as given
};
arrow::Result<TableAddress> ParseTableAddress(const std::string& text);

/// Properties of a catalog as PyIceberg reads them: `overrides` (--catalog-property key=value)
/// before the environment (PYICEBERG_CATALOG__NAME__KEY: lower-cased, __ is ., _ is -) before the
/// first .pyiceberg.yaml of $PYICEBERG_HOME, home, working directory. "type" is inferred from "uri"
/// when missing. An unknown catalog is an error that says where was looked and what names are
/// known.
arrow::Result<std::map<std::string, std::string>> CatalogProperties(
    const std::string& catalog, const std::map<std::string, std::string>& overrides);

}  // namespace thalweg
