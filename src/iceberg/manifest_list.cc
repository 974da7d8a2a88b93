#include <limits>

#include "iceberg/avro_file.h"
#include "iceberg/manifest.h"
#include "util/status.h"

namespace thalweg::iceberg {
namespace {

using PartitionSummary = ManifestFile::PartitionSummary;

PartitionSummary ReadSummary(AvroDecoder* in, const AvroType& record) {
  PartitionSummary summary;
  for (const AvroField& field : record.fields) {
    switch (field.id) {
      case 509:
        summary.contains_null = in->BooleanField(field).value_or(false);
        break;
      case 518:
        summary.contains_nan = in->BooleanField(field);
        break;
      case 510:
        summary.lower_bound = in->StringField(field);
        break;
      case 511:
        summary.upper_bound = in->StringField(field);
        break;
      default:
        in->Skip(*field.type);
    }
  }
  return summary;
}

void ReadPartitions(AvroDecoder* in, const AvroField& field, ManifestFile* manifest) {
  const AvroType* array = in->TypedField(field, AvroKind::kArray);
  if (!array) return;
  AvroField element{field.id, field.name, array->items};
  auto& partitions = manifest->partitions.emplace();
  in->Array(*array, [&] {
    if (const AvroType* record = in->TypedField(element, AvroKind::kRecord)) {
      partitions.push_back(ReadSummary(in, *record));
    }
  });
}

// A count that is never negative; absent in some manifests of version 1: 0.
template <typename T>
void ReadCount(AvroDecoder* in, const AvroField& field, T* count) {
  int64_t value = in->LongField(field).value_or(0);
  if (value < 0 || value > std::numeric_limits<T>::max()) {
    return in->Fail(fmt::format("field {} ({}) is {}", field.id, field.name, value));
  }
  *count = static_cast<T>(value);
}

void ReadManifestFile(AvroDecoder* in, const AvroType& record, ManifestFile* manifest) {
  for (const AvroField& field : record.fields) {
    switch (field.id) {
      case 500:
        manifest->manifest_path = in->StringField(field).value_or("");
        if (manifest->manifest_path.empty()) in->Fail("a manifest without path");
        break;
      case 501:
        ReadCount(in, field, &manifest->manifest_length);
        break;
      case 502:
        manifest->partition_spec_id = in->IntField(field).value_or(0);
        break;
      case 517:
        manifest->content = in->IntField(field).value_or(0);
        if (manifest->content != 0 && manifest->content != 1) {
          in->Fail(fmt::format("field 517 ({}) is {}", field.name, manifest->content));
        }
        break;
      case 515:
        manifest->sequence_number = in->LongField(field).value_or(0);
        break;
      case 516:
        manifest->min_sequence_number = in->LongField(field).value_or(0);
        break;
      case 503:
        manifest->added_snapshot_id = in->LongField(field).value_or(0);
        break;
      case 504:
        ReadCount(in, field, &manifest->added_files_count);
        break;
      case 505:
        ReadCount(in, field, &manifest->existing_files_count);
        break;
      case 506:
        ReadCount(in, field, &manifest->deleted_files_count);
        break;
      case 512:
        ReadCount(in, field, &manifest->added_rows_count);
        break;
      case 513:
        ReadCount(in, field, &manifest->existing_rows_count);
        break;
      case 514:
        ReadCount(in, field, &manifest->deleted_rows_count);
        break;
      case 507:
        ReadPartitions(in, field, manifest);
        break;
      case 519:
        manifest->key_metadata = in->StringField(field);
        break;
      case 520:
        manifest->first_row_id = in->LongField(field);
        break;
      default:
        in->Skip(*field.type);
    }
    if (!in->ok()) return;
  }
}

Json ListSchema(int format_version) {
  Json summary = Json::array();
  summary.push_back(AvroFieldJson(509, "contains_null", "boolean"));
  summary.push_back(AvroOptionalFieldJson(518, "contains_nan", "boolean"));
  summary.push_back(AvroOptionalFieldJson(510, "lower_bound", "bytes"));
  summary.push_back(AvroOptionalFieldJson(511, "upper_bound", "bytes"));
  Json fields = Json::array();
  auto required = [&](int32_t id, const char* name, const char* type) {
    fields.push_back(AvroFieldJson(id, name, type));
  };
  required(500, "manifest_path", "string");
  required(501, "manifest_length", "long");
  required(502, "partition_spec_id", "int");
  required(517, "content", "int");
  required(515, "sequence_number", "long");
  required(516, "min_sequence_number", "long");
  required(503, "added_snapshot_id", "long");
  required(504, "added_files_count", "int");
  required(505, "existing_files_count", "int");
  required(506, "deleted_files_count", "int");
  required(512, "added_rows_count", "long");
  required(513, "existing_rows_count", "long");
  required(514, "deleted_rows_count", "long");
  fields.push_back(AvroOptionalFieldJson(
      507, "partitions", AvroListJson(508, AvroRecordJson("r508", std::move(summary)))));
  fields.push_back(AvroOptionalFieldJson(519, "key_metadata", "bytes"));
  if (format_version >= 3) fields.push_back(AvroOptionalFieldJson(520, "first_row_id", "long"));
  return AvroRecordJson("manifest_file", std::move(fields));
}

void WriteManifestFile(AvroEncoder* out, const ManifestFile& manifest, int format_version) {
  out->Bytes(manifest.manifest_path);
  out->Long(manifest.manifest_length);
  out->Long(manifest.partition_spec_id);
  out->Long(manifest.content);
  out->Long(manifest.sequence_number);
  out->Long(manifest.min_sequence_number);
  out->Long(manifest.added_snapshot_id);
  out->Long(manifest.added_files_count);
  out->Long(manifest.existing_files_count);
  out->Long(manifest.deleted_files_count);
  out->Long(manifest.added_rows_count);
  out->Long(manifest.existing_rows_count);
  out->Long(manifest.deleted_rows_count);
  out->Present(manifest.partitions.has_value());
  if (manifest.partitions) {
    if (!manifest.partitions->empty()) {
      out->Long(static_cast<int64_t>(manifest.partitions->size()));
      for (const PartitionSummary& summary : *manifest.partitions) {
        out->Boolean(summary.contains_null);
        out->Present(summary.contains_nan.has_value());
        if (summary.contains_nan) out->Boolean(*summary.contains_nan);
        out->OptionalBytes(summary.lower_bound);
        out->OptionalBytes(summary.upper_bound);
      }
    }
    out->Long(0);
  }
  out->OptionalBytes(manifest.key_metadata);
  if (format_version >= 3) out->OptionalLong(manifest.first_row_id);
}

}  // namespace

arrow::Result<std::vector<ManifestFile>> ReadManifestList(std::string_view bytes,
                                                          const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(auto file, AvroFileReader::Open(bytes, path));
  ARROW_RETURN_NOT_OK(file.RequireFields(file.schema(), {500, 501, 502}, "manifest list"));
  std::vector<ManifestFile> manifests;
  ARROW_RETURN_NOT_OK(file.ForEach([&](AvroDecoder* in) {
    ManifestFile manifest;
    ReadManifestFile(in, file.schema(), &manifest);
    manifests.push_back(std::move(manifest));
    return arrow::Status::OK();
  }));
  return manifests;
}

arrow::Result<std::string> WriteManifestList(const std::vector<ManifestFile>& manifests,
                                             const ManifestListHeader& header,
                                             const std::string& codec_name) {
  if (header.format_version != 2 && header.format_version != 3) {
    return Invalid("manifest lists of format version {} are not written", header.format_version);
  }
  ARROW_ASSIGN_OR_RAISE(AvroCodec codec, ParseAvroCodec(codec_name));
  std::vector<std::pair<std::string, std::string>> metadata = {
      {"snapshot-id", std::to_string(header.snapshot_id)},
      {"parent-snapshot-id",
       header.parent_snapshot_id ? std::to_string(*header.parent_snapshot_id) : "null"},
      {"sequence-number", std::to_string(header.sequence_number)},
      {"format-version", std::to_string(header.format_version)}};
  if (header.format_version >= 3) {
    if (!header.first_row_id) {
      return Invalid("a manifest list of format version 3 needs the snapshot's first-row-id");
    }
    metadata.emplace_back("first-row-id", std::to_string(*header.first_row_id));
  }
  AvroFileWriter writer(ListSchema(header.format_version), codec, metadata);
  for (const ManifestFile& manifest : manifests) {
    if (header.format_version < 3 && manifest.first_row_id) {
      return Invalid("manifest {}: row ids need format version 3", manifest.manifest_path);
    }
    WriteManifestFile(writer.record(), manifest, header.format_version);
    ARROW_RETURN_NOT_OK(writer.EndRecord());
  }
  return writer.Finish();
}

}  // namespace thalweg::iceberg
