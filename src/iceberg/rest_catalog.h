#pragma once

#include <arrow/result.h>

#include <map>
#include <memory>
#include <string>

#include "iceberg/catalog.h"
#include "iceberg/s3_file_io.h"
#include "util/json.h"

namespace thalweg::iceberg {

/// A table in a REST catalog. `properties` as PyIceberg names them; the server's own and the
/// credentials that it hands out with the table decide how files are reached. A missing table is no
/// error until Load(). CreateTable() makes the namespace where it is missing; the server chooses
/// the location of the table when the metadata has none ("").
arrow::Result<std::unique_ptr<TableStore>> OpenRestTable(
    const std::string& catalog_name, const std::map<std::string, std::string>& properties,
    const TableIdentifier& table);

/// How the files of a loaded table are reached: the catalog's properties, before them the "config"
/// of the answer, before those its "storage-credentials".
S3Access StorageAccess(const std::map<std::string, std::string>& catalog, const Json& answer);

/// What an answer to a commit means. Definite: kConflict (409), kError; not definite: kUnknown
/// (500, 502, 503, 504 and what no catalog should answer).
enum class CommitVerdict { kCommitted, kConflict, kRefused, kUnknown };
CommitVerdict VerdictOf(int status);

}  // namespace thalweg::iceberg
