#pragma once

#include <arrow/result.h>

#include <functional>
#include <string>
#include <vector>

#include "iceberg/catalog.h"
#include "iceberg/file_io.h"
#include "iceberg/metadata.h"

namespace thalweg::iceberg {

/// Reads a table metadata file; gzip is recognised by its magic bytes, whatever the file's name.
arrow::Result<LoadedTable> ReadMetadataFile(const FileIO& io, const std::string& location);

/// Reads the metadata file that `look_up` names. Between the two another process may expire that
/// version: a file that cannot be read is looked up again, three times in all.
arrow::Result<LoadedTable> ReadCurrentMetadata(
    const FileIO& io, const std::function<arrow::Result<std::string>()>& look_up);

/// ".metadata.json" or ".gz.metadata.json", as the table's write.metadata.compression-codec says;
/// an unknown codec is an error.
arrow::Result<std::string> MetadataFileSuffix(const TableMetadata& metadata);

/// What is malformed among the properties that the writer of metadata files reads.
arrow::Status CheckMetadataFileProperties(const TableMetadata& metadata);

/// Writes a new metadata file and syncs it; gzip when the name ends in ".gz.metadata.json".
arrow::Status WriteMetadataFile(const FileIO& io, const std::string& location,
                                const TableMetadata& metadata);

/// The metadata that a commit on `base` writes: `updated` with `base` in its metadata-log.
/// `expired` gets the metadata files to delete once the commit has succeeded
/// (write.metadata.delete-after-commit.enabled). An error when `updated` is another table.
arrow::Result<TableMetadata> NextMetadata(const LoadedTable& base, const TableMetadata& updated,
                                          std::vector<std::string>* expired);

/// Deletes what can be deleted; a failure leaves an old metadata file behind, which is no failure
/// of the commit.
void DeleteQuietly(const FileIO& io, const std::vector<std::string>& locations);

/// The last part of a location.
std::string FileNameOf(const std::string& location);
/// N of "N-<36 characters>[.codec].metadata.json" (catalog tables), nullopt for other names.
std::optional<int64_t> CatalogFileVersion(const std::string& file_name);
/// N of "vN.metadata.json", "vN.gz.metadata.json" or "vN.metadata.json.gz" (Hadoop tables), nullopt
/// for other names.
std::optional<int64_t> HadoopFileVersion(const std::string& file_name);

/// What became of the metadata file `location`, which was to replace `base` ("": to be the first),
/// as the log of the table as it is `now` tells. Where the log no longer reaches back to `base`
/// (write.metadata.previous-versions-max) and does not name the file: kUnknown.
enum class SwapOutcome { kCommitted, kLost, kUnknown };
SwapOutcome OutcomeOfSwap(const LoadedTable& now, const std::string& base,
                          const std::string& location);

}  // namespace thalweg::iceberg
