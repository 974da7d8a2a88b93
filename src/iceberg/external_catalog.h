#pragma once

#include <arrow/result.h>

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "iceberg/catalog.h"

namespace thalweg::iceberg {

/// One table of a catalog that another library speaks (PyIceberg opens Glue, Hive, DynamoDB, …).
/// Thalweg reads and writes the files; whether a commit stands is the library's to say. The calls
/// come from one thread at a time, which is not that of the library's user.
struct ExternalCatalog {
  struct State {
    std::string metadata_location;  ///< "": only `metadata` is there
    std::string metadata;           ///< JSON; read only without a location
    std::map<std::string, std::string>
        properties;  ///< how files are reached, as PyIceberg names it
  };
  std::string description;  ///< for messages: "table db.events in PyIceberg's catalog prod"
  /// KeyError when there is no such table.
  std::function<arrow::Result<State>()> load;
  /// `requirements` and `updates`: JSON lists in the words of the REST specification. Failure kinds
  /// (util/status.h): kConflict, a requirement does not hold; kError, nothing was committed;
  /// kUnknown. Empty for a table that is only worked on, not committed to.
  std::function<arrow::Result<State>(const std::string& requirements, const std::string& updates)>
      commit;
};

arrow::Result<std::unique_ptr<TableStore>> OpenExternalTable(ExternalCatalog catalog);

}  // namespace thalweg::iceberg
