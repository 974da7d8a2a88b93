#include "iceberg/catalog.h"

#include <fmt/format.h>

namespace thalweg::iceberg {

std::string TableStore::MetadataFolder(const TableMetadata& metadata) const {
  const std::string path = metadata.property("write.metadata.path", "");
  if (path.empty()) return JoinLocation(metadata.location(), "metadata");
  const auto end = path.find_last_not_of('/');
  return end == std::string::npos ? path : path.substr(0, end + 1);
}

std::string TableIdentifier::ToString() const {
  return name_space.empty() ? name : fmt::format("{}.{}", fmt::join(name_space, "."), name);
}

}  // namespace thalweg::iceberg
