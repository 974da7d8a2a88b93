#include "iceberg/catalog.h"

#include "util/status.h"

namespace thalweg::iceberg {

std::string PropertyOf(const std::map<std::string, std::string>& properties,
                       const std::string& key) {
  const auto found = properties.find(key);
  return found == properties.end() ? "" : found->second;
}

arrow::Status CheckAbsolute(const std::string& what, const std::string& location) {
  if (location.empty() || IsAbsoluteLocation(location)) return arrow::Status::OK();
  return Invalid(
      "{} \"{}\" is a relative path, which other programs would look for elsewhere; make it "
      "absolute first",
      what, location);
}

arrow::Status TableStore::CheckProperties(const TableMetadata& metadata) const {
  ARROW_RETURN_NOT_OK(CheckAbsolute("the table's location", metadata.location()));
  for (const char* key : {"write.data.path", "write.metadata.path"}) {
    ARROW_RETURN_NOT_OK(
        CheckAbsolute(fmt::format("table property {}:", key), metadata.property(key, "")));
  }
  return arrow::Status::OK();
}

std::string TableStore::MetadataFolder(const TableMetadata& metadata) const {
  const std::string path = metadata.property("write.metadata.path", "");
  if (path.empty()) return JoinLocation(metadata.location(), "metadata");
  const auto end = path.find_last_not_of('/');
  return end == std::string::npos ? path : path.substr(0, end + 1);
}

std::string TableIdentifier::NamespaceText() const {
  std::string text;
  for (const auto& part : name_space) text += (text.empty() ? "" : ".") + part;
  return text;
}

std::string TableIdentifier::ToString() const {
  return name_space.empty() ? name : NamespaceText() + "." + name;
}

}  // namespace thalweg::iceberg
