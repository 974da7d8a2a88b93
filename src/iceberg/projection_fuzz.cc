// libFuzzer: what decides how a data file is read. The bytes are taken as the footer of a Parquet
// file, which is matched with a schema, and as JSON: a schema with its defaults, a name mapping.
#include "iceberg/projection.h"

#include <parquet/exception.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "iceberg/default_value.h"
#include "iceberg/parquet_schema.h"
#include "util/json.h"

namespace {

using namespace thalweg::iceberg;  // NOLINT

// Small ids, which mutated footers hit.
constexpr char kSchema[] = R"json({"type": "struct", "schema-id": 0, "fields": [
  {"id": 1, "name": "user_id", "required": false, "type": "long"},
  {"id": 2, "name": "event_time", "required": false, "type": "timestamp"},
  {"id": 3, "name": "s", "required": false, "type": {"type": "struct", "fields": [
    {"id": 4, "name": "d", "required": false, "type": "decimal(20, 2)"},
    {"id": 5, "name": "v", "required": false, "type": "variant"}]}},
  {"id": 6, "name": "l", "required": false, "type": {"type": "list", "element-id": 7,
    "element": "string", "element-required": false}},
  {"id": 8, "name": "m", "required": false, "type": {"type": "map", "key-id": 9, "key": "string",
    "value-id": 10, "value": "double", "value-required": false}},
  {"id": 11, "name": "g", "required": false, "type": "geometry"},
  {"id": 12, "name": "u", "required": false, "type": "unknown"}]})json";
constexpr char kMapping[] = R"([{"field-id": 1, "names": ["user_id", "id"]},
  {"field-id": 3, "names": ["s"], "fields": [{"field-id": 4, "names": ["d"]}]},
  {"field-id": 6, "names": ["l"], "fields": [{"field-id": 7, "names": ["element"]}]}])";

void MatchFooter(const uint8_t* data, size_t size) {
  static const Schema schema = *Schema::FromJson(*thalweg::ParseJson(kSchema, "schema"));
  static const auto arrow_schema = *schema.ToArrow();
  static const NameMapping mapping = *NameMapping::Parse(kMapping);
  (void)WithParquetErrors("footer of", "fuzz", [&]() -> arrow::Status {
    const auto metadata = parquet::FileMetaData::Make(data, static_cast<int64_t>(size));
    return MatchColumns(*metadata, schema, *arrow_schema, &mapping, "fuzz").status();
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  MatchFooter(data, size);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)NameMapping::Parse(text);
  const auto json = thalweg::ParseJson(text, "fuzz");
  if (!json.ok()) return 0;
  const auto schema = Schema::FromJson(*json);
  if (!schema.ok()) return 0;
  (void)StoredSchema(*schema);
  const auto arrow_schema = schema->ToArrow();
  if (!arrow_schema.ok()) return 0;
  for (size_t i = 0; i < schema->fields.size(); ++i) {
    const auto& field = schema->fields[i];
    (void)InitialDefault(field, (*arrow_schema)->field(static_cast<int>(i))->type(), field.name);
  }
  return 0;
}
