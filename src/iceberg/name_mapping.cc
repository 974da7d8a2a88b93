#include "iceberg/name_mapping.h"

#include <algorithm>
#include <set>
#include <utility>

#include "util/json.h"
#include "util/status.h"

namespace thalweg::iceberg {
namespace {

constexpr char kProperty[] = "schema.name-mapping.default";
const std::string kWhat = std::string("table property ") + kProperty;

arrow::Result<std::vector<NameMapping::Entry>> ParseFields(const Json& list) {
  if (!list.is_array()) return Invalid("{}: a mapping that is no array", kWhat);
  std::vector<NameMapping::Entry> fields;
  std::set<std::string> taken;
  for (const Json& item : list) {
    NameMapping::Entry entry;
    ARROW_ASSIGN_OR_RAISE(const Json* names, GetArray(item, "names", kWhat));
    for (const Json& name : *names) {
      if (!name.is_string()) return Invalid("{}: a name that is no text", kWhat);
      entry.names.push_back(name.get<std::string>());
      if (!taken.insert(entry.names.back()).second) {
        return Invalid("{}: \"{}\" is the name of two fields", kWhat, entry.names.back());
      }
    }
    ARROW_ASSIGN_OR_RAISE(const auto id, FindInt64(item, "field-id", kWhat));
    if (id && (*id < 0 || *id > INT32_MAX)) return Invalid("{}: field id {}", kWhat, *id);
    if (id) entry.field_id = static_cast<int32_t>(*id);
    if (auto nested = item.find("fields"); nested != item.end() && !nested->is_null()) {
      ARROW_ASSIGN_OR_RAISE(entry.fields, ParseFields(*nested));
    }
    fields.push_back(std::move(entry));
  }
  return fields;
}

}  // namespace

arrow::Result<NameMapping> NameMapping::Parse(std::string_view text) {
  ARROW_ASSIGN_OR_RAISE(const Json json, ParseJson(text, kWhat));
  NameMapping mapping;
  ARROW_ASSIGN_OR_RAISE(mapping.fields_, ParseFields(json));
  return mapping;
}

arrow::Result<std::shared_ptr<const NameMapping>> NameMapping::FromProperties(
    const std::map<std::string, std::string>& properties) {
  auto property = properties.find(kProperty);
  if (property == properties.end()) return nullptr;
  ARROW_ASSIGN_OR_RAISE(auto mapping, Parse(property->second));
  return std::make_shared<const NameMapping>(std::move(mapping));
}

const NameMapping::Entry* NameMapping::Find(const std::vector<Entry>& fields,
                                            std::string_view name) {
  for (const Entry& entry : fields) {
    if (std::find(entry.names.begin(), entry.names.end(), name) != entry.names.end()) return &entry;
  }
  return nullptr;
}

}  // namespace thalweg::iceberg
