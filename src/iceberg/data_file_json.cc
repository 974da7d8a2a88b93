#include <limits>

#include "iceberg/parquet_writer.h"
#include "util/hex.h"
#include "util/json.h"
#include "util/number.h"
#include "util/status.h"

namespace thalweg::iceberg {

namespace {

constexpr char kWhat[] = "data file description";

arrow::Result<std::string> BytesOf(std::string_view hex, const char* key) {
  auto bytes = HexToBytes(hex);
  if (!bytes) return Invalid("{}: \"{}\" is not hexadecimal", kWhat, key);
  return *std::move(bytes);
}

void PutCounts(Json* json, const char* key, const std::map<int32_t, int64_t>& counts) {
  if (counts.empty()) return;
  Json object = Json::object();
  for (const auto& [id, count] : counts) object[std::to_string(id)] = count;
  (*json)[key] = std::move(object);
}

void PutBounds(Json* json, const char* key, const std::map<int32_t, std::string>& bounds) {
  if (bounds.empty()) return;
  Json object = Json::object();
  for (const auto& [id, bound] : bounds) object[std::to_string(id)] = BytesToHex(bound);
  (*json)[key] = std::move(object);
}

arrow::Result<int32_t> NarrowToInt32(int64_t value, const char* key) {
  if (value < std::numeric_limits<int32_t>::min() || value > std::numeric_limits<int32_t>::max()) {
    return Invalid("{}: \"{}\" is out of range", kWhat, key);
  }
  return static_cast<int32_t>(value);
}

/// Calls take(id, value) for every member of an object of field ids; nothing when the object is
/// absent.
template <typename Take>
arrow::Status ForEachField(const Json& json, const char* key, Take&& take) {
  if (!json.contains(key) || json[key].is_null()) return arrow::Status::OK();
  ARROW_ASSIGN_OR_RAISE(const Json* object, GetObject(json, key, kWhat));
  for (const auto& [name, value] : object->items()) {
    const auto id = ParseNumber<int32_t>(name);
    if (!id) return Invalid("{}: \"{}\" has a key that is no field id", kWhat, key);
    ARROW_RETURN_NOT_OK(take(*id, value));
  }
  return arrow::Status::OK();
}

arrow::Status TakeCounts(const Json& json, const char* key, std::map<int32_t, int64_t>* counts) {
  return ForEachField(json, key, [&](int32_t id, const Json& value) -> arrow::Status {
    if (!value.is_number_integer()) {
      return Invalid("{}: \"{}\" has a value that is no whole number", kWhat, key);
    }
    (*counts)[id] = value.get<int64_t>();
    return arrow::Status::OK();
  });
}

arrow::Status TakeBounds(const Json& json, const char* key,
                         std::map<int32_t, std::string>* bounds) {
  return ForEachField(json, key, [&](int32_t id, const Json& value) -> arrow::Status {
    if (!value.is_string()) return Invalid("{}: \"{}\" has a value that is no text", kWhat, key);
    return BytesOf(value.get_ref<const std::string&>(), key).Value(&(*bounds)[id]);
  });
}

template <typename T>
arrow::Status TakeNumbers(const Json& json, const char* key, std::vector<T>* numbers) {
  if (!json.contains(key) || json[key].is_null()) return arrow::Status::OK();
  ARROW_ASSIGN_OR_RAISE(const Json* array, GetArray(json, key, kWhat));
  for (const Json& value : *array) {
    if (!value.is_number_integer()) {
      return Invalid("{}: \"{}\" has a value that is no whole number", kWhat, key);
    }
    const int64_t number = value.get<int64_t>();
    if constexpr (sizeof(T) == 4) {
      ARROW_ASSIGN_OR_RAISE(int32_t narrow, NarrowToInt32(number, key));
      numbers->push_back(narrow);
    } else {
      numbers->push_back(number);
    }
  }
  return arrow::Status::OK();
}

}  // namespace

Json DataFileToJson(const DataFile& file) {
  Json json = Json::object();
  json["content"] = static_cast<int>(file.content);
  json["file_path"] = file.file_path;
  json["file_format"] = file.file_format;
  if (!file.partition_avro.empty()) json["partition"] = BytesToHex(file.partition_avro);
  json["record_count"] = file.record_count;
  json["file_size_in_bytes"] = file.file_size_in_bytes;
  PutCounts(&json, "column_sizes", file.column_sizes);
  PutCounts(&json, "value_counts", file.value_counts);
  PutCounts(&json, "null_value_counts", file.null_value_counts);
  PutCounts(&json, "nan_value_counts", file.nan_value_counts);
  PutBounds(&json, "lower_bounds", file.lower_bounds);
  PutBounds(&json, "upper_bounds", file.upper_bounds);
  if (file.key_metadata) json["key_metadata"] = BytesToHex(*file.key_metadata);
  if (!file.split_offsets.empty()) json["split_offsets"] = file.split_offsets;
  if (!file.equality_ids.empty()) json["equality_ids"] = file.equality_ids;
  if (file.sort_order_id) json["sort_order_id"] = *file.sort_order_id;
  if (file.first_row_id) json["first_row_id"] = *file.first_row_id;
  if (file.referenced_data_file) json["referenced_data_file"] = *file.referenced_data_file;
  if (file.content_offset) json["content_offset"] = *file.content_offset;
  if (file.content_size_in_bytes) json["content_size_in_bytes"] = *file.content_size_in_bytes;
  return json;
}

arrow::Result<DataFile> DataFileFromJson(const Json& json) {
  if (!json.is_object()) return Invalid("{}: not a JSON object", kWhat);
  DataFile file;
  ARROW_ASSIGN_OR_RAISE(int64_t content, GetInt64(json, "content", kWhat));
  if (content < 0 || content > 2) return Invalid("{}: \"content\" is {}", kWhat, content);
  file.content = static_cast<FileContent>(content);
  ARROW_ASSIGN_OR_RAISE(file.file_path, GetString(json, "file_path", kWhat));
  ARROW_ASSIGN_OR_RAISE(file.file_format, GetString(json, "file_format", kWhat));
  ARROW_ASSIGN_OR_RAISE(auto partition, FindString(json, "partition", kWhat));
  if (partition) {
    ARROW_ASSIGN_OR_RAISE(file.partition_avro, BytesOf(*partition, "partition"));
  }
  ARROW_ASSIGN_OR_RAISE(file.record_count, GetInt64(json, "record_count", kWhat));
  ARROW_ASSIGN_OR_RAISE(file.file_size_in_bytes, GetInt64(json, "file_size_in_bytes", kWhat));
  if (file.record_count < 0 || file.file_size_in_bytes < 0) {
    return Invalid("{}: a negative count or size", kWhat);
  }
  ARROW_RETURN_NOT_OK(TakeCounts(json, "column_sizes", &file.column_sizes));
  ARROW_RETURN_NOT_OK(TakeCounts(json, "value_counts", &file.value_counts));
  ARROW_RETURN_NOT_OK(TakeCounts(json, "null_value_counts", &file.null_value_counts));
  ARROW_RETURN_NOT_OK(TakeCounts(json, "nan_value_counts", &file.nan_value_counts));
  ARROW_RETURN_NOT_OK(TakeBounds(json, "lower_bounds", &file.lower_bounds));
  ARROW_RETURN_NOT_OK(TakeBounds(json, "upper_bounds", &file.upper_bounds));
  ARROW_ASSIGN_OR_RAISE(auto key_metadata, FindString(json, "key_metadata", kWhat));
  if (key_metadata) {
    ARROW_ASSIGN_OR_RAISE(file.key_metadata, BytesOf(*key_metadata, "key_metadata"));
  }
  ARROW_RETURN_NOT_OK(TakeNumbers(json, "split_offsets", &file.split_offsets));
  ARROW_RETURN_NOT_OK(TakeNumbers(json, "equality_ids", &file.equality_ids));
  ARROW_ASSIGN_OR_RAISE(auto sort_order, FindInt64(json, "sort_order_id", kWhat));
  if (sort_order) {
    ARROW_ASSIGN_OR_RAISE(file.sort_order_id, NarrowToInt32(*sort_order, "sort_order_id"));
  }
  ARROW_ASSIGN_OR_RAISE(file.first_row_id, FindInt64(json, "first_row_id", kWhat));
  ARROW_ASSIGN_OR_RAISE(file.referenced_data_file, FindString(json, "referenced_data_file", kWhat));
  ARROW_ASSIGN_OR_RAISE(file.content_offset, FindInt64(json, "content_offset", kWhat));
  ARROW_ASSIGN_OR_RAISE(file.content_size_in_bytes,
                        FindInt64(json, "content_size_in_bytes", kWhat));
  return file;
}

}  // namespace thalweg::iceberg
