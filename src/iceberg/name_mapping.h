#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace thalweg::iceberg {

/// What field ids the columns of data files without ids have, by name: the table property
/// "schema.name-mapping.default" (the format's "Name Mapping Serialization"). Names are
/// case-sensitive. Elements of lists are called "element", keys and values of maps "key" and
/// "value", whatever their names in the file.
class NameMapping {
 public:
  struct Entry {
    std::optional<int32_t> field_id;  ///< absent: the names stand for no field
    std::vector<std::string> names;
    std::vector<Entry> fields;
  };

  /// An error names the property. Refused: what is no mapping, a name that stands for two fields of
  /// one parent.
  static arrow::Result<NameMapping> Parse(std::string_view json);
  /// The table's mapping; null when it has none.
  static arrow::Result<std::shared_ptr<const NameMapping>> FromProperties(
      const std::map<std::string, std::string>& properties);

  const std::vector<Entry>& fields() const { return fields_; }
  /// The entry of this name, or nullptr.
  static const Entry* Find(const std::vector<Entry>& fields, std::string_view name);

 private:
  std::vector<Entry> fields_;
};

}  // namespace thalweg::iceberg
