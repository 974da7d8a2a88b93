#include "iceberg/manifest.h"

#include <map>
#include <utility>

#include "iceberg/avro_file.h"
#include "iceberg/avro_partition.h"
#include "util/status.h"

namespace thalweg::iceberg {
namespace {

// ---- Reading ----

// The record behind a field, through a union with null.
const AvroType* RecordOf(const AvroField& field) {
  if (field.type->kind == AvroKind::kRecord) return field.type;
  for (const AvroType* branch : field.type->branches) {
    if (branch->kind == AvroKind::kRecord) return branch;
  }
  return nullptr;
}

// A map with int keys: an array of key-value records.
template <typename Value, typename ReadValue>
void ReadMap(AvroDecoder* in, const AvroField& field, std::map<int32_t, Value>* map,
             ReadValue read_value) {
  map->clear();
  const AvroType* array = in->TypedField(field, AvroKind::kArray);
  if (!array) return;
  const AvroType& pair = *array->items;
  bool valid = pair.kind == AvroKind::kRecord && pair.fields.size() == 2 &&
               pair.fields[0].name == "key" && pair.fields[1].name == "value";
  if (!valid) {
    return in->Fail(fmt::format("field {} ({}): not a map", field.id, field.name));
  }
  in->Array(*array, [&] {
    std::optional<int32_t> key = in->IntField(pair.fields[0]);
    std::optional<Value> value = read_value(pair.fields[1]);
    if (key && value) map->insert_or_assign(map->end(), *key, std::move(*value));
  });
}

void ReadCounts(AvroDecoder* in, const AvroField& field, std::map<int32_t, int64_t>* map) {
  ReadMap(in, field, map, [&](const AvroField& value) { return in->LongField(value); });
}

void ReadBounds(AvroDecoder* in, const AvroField& field, std::map<int32_t, std::string>* map) {
  ReadMap(in, field, map, [&](const AvroField& value) { return in->StringField(value); });
}

template <typename T, typename ReadElement>
void ReadList(AvroDecoder* in, const AvroField& field, std::vector<T>* list, ReadElement read) {
  list->clear();
  const AvroType* array = in->TypedField(field, AvroKind::kArray);
  if (!array) return;
  AvroField element{field.id, field.name, array->items};
  in->Array(*array, [&] {
    if (std::optional<T> value = read(element)) list->push_back(*value);
  });
}

// A count or size: required, never negative.
int64_t ReadCount(AvroDecoder* in, const AvroField& field) {
  std::optional<int64_t> value = in->LongField(field);
  if (in->ok() && value.value_or(-1) < 0) {
    in->Fail(fmt::format("field {} ({}) is {}", field.id, field.name,
                         value ? std::to_string(*value) : "null"));
  }
  return value.value_or(0);
}

// One of 0, 1, 2: a status or content; null counts as 0.
int ReadSmall(AvroDecoder* in, const AvroField& field) {
  int32_t value = in->IntField(field).value_or(0);
  if (value < 0 || value > 2) {
    in->Fail(fmt::format("field {} ({}) is {}", field.id, field.name, value));
    return 0;
  }
  return value;
}

std::string ReadRequiredString(AvroDecoder* in, const AvroField& field) {
  std::optional<std::string> value = in->StringField(field);
  if (in->ok() && !value) in->Fail(fmt::format("field {} ({}) is null", field.id, field.name));
  return std::move(value).value_or("");
}

void ReadDataFile(AvroDecoder* in, const AvroType& record, DataFile* file) {
  for (const AvroField& field : record.fields) {
    switch (field.id) {
      case 134:
        file->content = static_cast<FileContent>(ReadSmall(in, field));
        break;
      case 100:
        file->file_path = ReadRequiredString(in, field);
        break;
      case 101:
        file->file_format = ReadRequiredString(in, field);
        break;
      case 102: {
        const char* begin = in->next();
        in->Skip(*field.type);
        if (in->ok()) file->partition_avro.assign(begin, in->next());
        break;
      }
      case 103:
        file->record_count = ReadCount(in, field);
        break;
      case 104:
        file->file_size_in_bytes = ReadCount(in, field);
        break;
      case 108:
        ReadCounts(in, field, &file->column_sizes);
        break;
      case 109:
        ReadCounts(in, field, &file->value_counts);
        break;
      case 110:
        ReadCounts(in, field, &file->null_value_counts);
        break;
      case 137:
        ReadCounts(in, field, &file->nan_value_counts);
        break;
      case 125:
        ReadBounds(in, field, &file->lower_bounds);
        break;
      case 128:
        ReadBounds(in, field, &file->upper_bounds);
        break;
      case 131:
        file->key_metadata = in->StringField(field);
        break;
      case 132:
        ReadList(in, field, &file->split_offsets,
                 [&](const AvroField& element) { return in->LongField(element); });
        break;
      case 135:
        ReadList(in, field, &file->equality_ids,
                 [&](const AvroField& element) { return in->IntField(element); });
        break;
      case 140:
        file->sort_order_id = in->IntField(field);
        break;
      case 142:
        file->first_row_id = in->LongField(field);
        break;
      case 143:
        file->referenced_data_file = in->StringField(field);
        break;
      case 144:
        file->content_offset = in->LongField(field);
        break;
      case 145:
        file->content_size_in_bytes = in->LongField(field);
        break;
      default:
        in->Skip(*field.type);
    }
    if (!in->ok()) return;
  }
}

void ReadEntry(AvroDecoder* in, const AvroType& record, ManifestEntry* entry) {
  for (const AvroField& field : record.fields) {
    switch (field.id) {
      case 0:
        entry->status = static_cast<EntryStatus>(ReadSmall(in, field));
        break;
      case 1:
        entry->snapshot_id = in->LongField(field);
        break;
      case 3:
        entry->sequence_number = in->LongField(field);
        break;
      case 4:
        entry->file_sequence_number = in->LongField(field);
        break;
      case 2:
        if (const AvroType* file = in->TypedField(field, AvroKind::kRecord)) {
          ReadDataFile(in, *file, &entry->file);
        } else {
          in->Fail("field 2 (data_file) is null");
        }
        break;
      default:
        in->Skip(*field.type);
    }
    if (!in->ok()) return;
  }
}

arrow::Result<ManifestHeader> ReadHeader(const AvroFileReader& file) {
  ManifestHeader header;
  auto text = [&](std::string_view key, const std::string& fallback) {
    auto it = file.metadata().find(key);
    return it == file.metadata().end() ? fallback : it->second;
  };
  auto number = [&](std::string_view key) -> arrow::Result<std::optional<int32_t>> {
    ARROW_ASSIGN_OR_RAISE(auto value, file.IntMetadata(key));
    if (!value) return std::nullopt;
    if (*value < 0 || *value > INT32_MAX) {
      return Invalid("{}: header key {} is {}", file.path(), key, *value);
    }
    return std::optional<int32_t>(static_cast<int32_t>(*value));
  };
  header.schema_json = text("schema", "");
  header.partition_spec_json = text("partition-spec", "");
  header.content = text("content", "data");
  if (header.content != "data" && header.content != "deletes") {
    return Invalid("{}: header key content is neither data nor deletes", file.path());
  }
  ARROW_ASSIGN_OR_RAISE(header.schema_id, number("schema-id"));
  ARROW_ASSIGN_OR_RAISE(auto spec_id, number("partition-spec-id"));
  header.partition_spec_id = spec_id.value_or(0);
  ARROW_ASSIGN_OR_RAISE(auto version, number("format-version"));
  header.format_version = version.value_or(1);
  return header;
}

// ---- Writing ----

Json EntrySchema(int format_version, Json partition_fields) {
  Json file = Json::array();
  auto required = [&](int32_t id, const char* name, Json type) {
    file.push_back(AvroFieldJson(id, name, std::move(type)));
  };
  auto optional = [&](int32_t id, const char* name, Json type) {
    file.push_back(AvroOptionalFieldJson(id, name, std::move(type)));
  };
  required(134, "content", "int");
  required(100, "file_path", "string");
  required(101, "file_format", "string");
  required(102, "partition", AvroRecordJson("r102", std::move(partition_fields)));
  required(103, "record_count", "long");
  required(104, "file_size_in_bytes", "long");
  optional(108, "column_sizes", AvroIntMapJson(117, 118, "long"));
  optional(109, "value_counts", AvroIntMapJson(119, 120, "long"));
  optional(110, "null_value_counts", AvroIntMapJson(121, 122, "long"));
  optional(137, "nan_value_counts", AvroIntMapJson(138, 139, "long"));
  optional(125, "lower_bounds", AvroIntMapJson(126, 127, "bytes"));
  optional(128, "upper_bounds", AvroIntMapJson(129, 130, "bytes"));
  optional(131, "key_metadata", "bytes");
  optional(132, "split_offsets", AvroListJson(133, "long"));
  optional(135, "equality_ids", AvroListJson(136, "int"));
  optional(140, "sort_order_id", "int");
  if (format_version >= 3) optional(142, "first_row_id", "long");
  optional(143, "referenced_data_file", "string");
  if (format_version >= 3) {
    optional(144, "content_offset", "long");
    optional(145, "content_size_in_bytes", "long");
  }
  Json entry = Json::array();
  entry.push_back(AvroFieldJson(0, "status", "int"));
  entry.push_back(AvroOptionalFieldJson(1, "snapshot_id", "long"));
  entry.push_back(AvroOptionalFieldJson(3, "sequence_number", "long"));
  entry.push_back(AvroOptionalFieldJson(4, "file_sequence_number", "long"));
  entry.push_back(AvroFieldJson(2, "data_file", AvroRecordJson("r2", std::move(file))));
  return AvroRecordJson("manifest_entry", std::move(entry));
}

// An optional array: null when empty.
template <typename Container, typename WriteItem>
void WriteArray(AvroEncoder* out, const Container& items, WriteItem write) {
  out->Present(!items.empty());
  if (items.empty()) return;
  out->Long(static_cast<int64_t>(items.size()));
  for (const auto& item : items) write(item);
  out->Long(0);
}

void WriteCounts(AvroEncoder* out, const std::map<int32_t, int64_t>& map) {
  WriteArray(out, map, [&](const auto& pair) {
    out->Long(pair.first);
    out->Long(pair.second);
  });
}

void WriteBounds(AvroEncoder* out, const std::map<int32_t, std::string>& map) {
  WriteArray(out, map, [&](const auto& pair) {
    out->Long(pair.first);
    out->Bytes(pair.second);
  });
}

void WriteEntry(AvroEncoder* out, const ManifestEntry& entry, int format_version,
                size_t void_fields) {
  out->Long(static_cast<int>(entry.status));
  out->OptionalLong(entry.snapshot_id);
  out->OptionalLong(entry.sequence_number);
  out->OptionalLong(entry.file_sequence_number);
  const DataFile& file = entry.file;
  out->Long(static_cast<int>(file.content));
  out->Bytes(file.file_path);
  out->Bytes(file.file_format);
  for (size_t i = 0; i < void_fields; ++i) out->Present(false);
  out->Long(file.record_count);
  out->Long(file.file_size_in_bytes);
  WriteCounts(out, file.column_sizes);
  WriteCounts(out, file.value_counts);
  WriteCounts(out, file.null_value_counts);
  WriteCounts(out, file.nan_value_counts);
  WriteBounds(out, file.lower_bounds);
  WriteBounds(out, file.upper_bounds);
  out->OptionalBytes(file.key_metadata);
  WriteArray(out, file.split_offsets, [&](int64_t offset) { out->Long(offset); });
  WriteArray(out, file.equality_ids, [&](int32_t id) { out->Long(id); });
  out->OptionalLong(file.sort_order_id);
  if (format_version >= 3) out->OptionalLong(file.first_row_id);
  out->OptionalBytes(file.referenced_data_file);
  if (format_version >= 3) {
    out->OptionalLong(file.content_offset);
    out->OptionalLong(file.content_size_in_bytes);
  }
}

arrow::Status CheckEntry(const ManifestEntry& entry, const ManifestHeader& header,
                         size_t void_fields) {
  const DataFile& file = entry.file;
  auto bad = [&](std::string_view what) {
    return Invalid("manifest entry of {}: {}", file.file_path, what);
  };
  if (entry.status != EntryStatus::kAdded &&
      !(entry.snapshot_id && entry.sequence_number && entry.file_sequence_number)) {
    return bad("an existing or deleted entry needs its snapshot id and both sequence numbers");
  }
  if ((file.content == FileContent::kData) != (header.content == "data")) {
    return bad("data and delete files do not share a manifest");
  }
  if (file.record_count < 0 || file.file_size_in_bytes < 0) return bad("a negative count or size");
  if (void_fields == 0 && !file.partition_avro.empty()) {
    return bad("it has a partition, the manifest's spec has none");
  }
  if (header.format_version < 3 &&
      (file.first_row_id || file.content_offset || file.content_size_in_bytes)) {
    return bad("row ids and deletion vectors need format version 3");
  }
  return arrow::Status::OK();
}

}  // namespace

arrow::Result<ManifestHeader> ReadManifest(
    std::string_view bytes, const std::string& path,
    const std::function<arrow::Status(ManifestEntry&&)>& visit) {
  ARROW_ASSIGN_OR_RAISE(auto file, AvroFileReader::Open(bytes, path));
  const AvroType& record = file.schema();
  ARROW_RETURN_NOT_OK(file.RequireFields(record, {0, 2}, "manifest"));
  const AvroType* data_file = RecordOf(*record.FieldById(2));
  if (!data_file) return Invalid("{}: no manifest: field 2 is no record", path);
  ARROW_RETURN_NOT_OK(file.RequireFields(*data_file, {100, 101, 103, 104}, "manifest"));
  ARROW_ASSIGN_OR_RAISE(ManifestHeader header, ReadHeader(file));
  ARROW_RETURN_NOT_OK(file.ForEach([&](AvroDecoder* in) {
    ManifestEntry entry;
    ReadEntry(in, record, &entry);
    return in->ok() ? visit(std::move(entry)) : arrow::Status::OK();
  }));
  return header;
}

arrow::Result<std::string> WriteManifest(const std::vector<ManifestEntry>& entries,
                                         const ManifestWriteOptions& options) {
  const ManifestHeader& header = options.header;
  if (header.format_version != 2 && header.format_version != 3) {
    return Invalid("manifests of format version {} are not written", header.format_version);
  }
  if (header.content != "data" && header.content != "deletes") {
    return Invalid("manifest content \"{}\": data or deletes", header.content);
  }
  ARROW_ASSIGN_OR_RAISE(AvroCodec codec, ParseAvroCodec(options.codec));
  ARROW_ASSIGN_OR_RAISE(Json schema_json, ParseJson(header.schema_json, "manifest schema"));
  ARROW_ASSIGN_OR_RAISE(Schema schema, Schema::FromJson(schema_json));
  ARROW_ASSIGN_OR_RAISE(Json spec, ParseJson(header.partition_spec_json, "partition spec"));
  ARROW_ASSIGN_OR_RAISE(Json partition_fields, VoidPartitionFields(spec, schema));
  const size_t void_fields = partition_fields.size();
  AvroFileWriter writer(EntrySchema(header.format_version, std::move(partition_fields)), codec,
                        {{"schema", header.schema_json},
                         {"schema-id", std::to_string(header.schema_id.value_or(schema.schema_id))},
                         {"partition-spec", header.partition_spec_json},
                         {"partition-spec-id", std::to_string(header.partition_spec_id)},
                         {"format-version", std::to_string(header.format_version)},
                         {"content", header.content}});
  for (const ManifestEntry& entry : entries) {
    ARROW_RETURN_NOT_OK(CheckEntry(entry, header, void_fields));
    WriteEntry(writer.record(), entry, header.format_version, void_fields);
    ARROW_RETURN_NOT_OK(writer.EndRecord());
  }
  return writer.Finish();
}

}  // namespace thalweg::iceberg
