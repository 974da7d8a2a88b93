#include "iceberg/puffin.h"

#include <algorithm>

#include "iceberg/avro_codec.h"
#include "util/json.h"
#include "util/status.h"

namespace thalweg::iceberg {
namespace {

constexpr std::string_view kMagic = "PFA1";
constexpr size_t kTailSize = 12;  // payload size, flags, magic
constexpr uint32_t kCompressedFooter = 1;

uint32_t LoadLittleEndian(std::string_view bytes) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

void AppendLittleEndian(uint32_t value, std::string* out) {
  for (int i = 0; i < 4; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

arrow::Result<std::map<std::string, std::string>> ReadProperties(const Json& json,
                                                                 const std::string& path) {
  std::map<std::string, std::string> properties;
  auto it = json.find("properties");
  if (it == json.end() || it->is_null()) return properties;
  if (!it->is_object()) return Invalid("{}: \"properties\" is no object", path);
  for (const auto& item : it->items()) {
    if (!item.value().is_string()) {
      return Invalid("{}: property \"{}\" is no string", path, item.key());
    }
    properties[item.key()] = item.value().get<std::string>();
  }
  return properties;
}

arrow::Result<PuffinBlob> ReadBlob(const Json& json, std::string_view blobs,
                                   const std::string& path) {
  PuffinBlob blob;
  ARROW_ASSIGN_OR_RAISE(blob.type, GetString(json, "type", path));
  ARROW_ASSIGN_OR_RAISE(const Json* fields, GetArray(json, "fields", path));
  for (const Json& field : *fields) {
    const int64_t id = field.is_number_integer() ? field.get<int64_t>() : INT64_MIN;
    if (id < INT32_MIN || id > INT32_MAX) return Invalid("{}: a field id is no int", path);
    blob.fields.push_back(static_cast<int32_t>(id));
  }
  ARROW_ASSIGN_OR_RAISE(blob.snapshot_id, GetInt64(json, "snapshot-id", path));
  ARROW_ASSIGN_OR_RAISE(blob.sequence_number, GetInt64(json, "sequence-number", path));
  ARROW_ASSIGN_OR_RAISE(blob.offset, GetInt64(json, "offset", path));
  ARROW_ASSIGN_OR_RAISE(blob.length, GetInt64(json, "length", path));
  ARROW_ASSIGN_OR_RAISE(blob.compression_codec, FindString(json, "compression-codec", path));
  ARROW_ASSIGN_OR_RAISE(blob.properties, ReadProperties(json, path));
  const int64_t end = static_cast<int64_t>(blobs.size());
  if (blob.offset < static_cast<int64_t>(kMagic.size()) || blob.offset > end || blob.length < 0 ||
      blob.length > end - blob.offset) {
    return Invalid(
        "{}: blob \"{}\" at offset {} with {} bytes does not lie before the footer at {}", path,
        blob.type, blob.offset, blob.length, end);
  }
  std::string_view stored = blobs.substr(blob.offset, blob.length);
  if (blob.compression_codec == "zstd") {
    if (auto status = Decompress(AvroCodec::kZstandard, stored, &blob.data); !status.ok()) {
      return Invalid("{}: blob \"{}\" at offset {}: {}", path, blob.type, blob.offset,
                     status.message());
    }
  } else {
    blob.data = stored;
    blob.raw = blob.compression_codec.has_value();
  }
  return blob;
}

}  // namespace

arrow::Result<PuffinFile> ReadPuffin(std::string_view bytes, const std::string& path) {
  if (bytes.size() < 2 * kMagic.size() + kTailSize || !bytes.starts_with(kMagic) ||
      !bytes.ends_with(kMagic)) {
    return Invalid("{}: not a Puffin file, or cut short: {} bytes without its magic at both ends",
                   path, bytes.size());
  }
  const std::string_view tail = bytes.substr(bytes.size() - kTailSize);
  const size_t payload_size = LoadLittleEndian(tail);
  const uint32_t flags = LoadLittleEndian(tail.substr(4));
  if (payload_size > bytes.size() - 2 * kMagic.size() - kTailSize) {
    return Invalid("{}: offset {}: a footer of {} bytes in a file of {}", path,
                   bytes.size() - kTailSize, payload_size, bytes.size());
  }
  if (flags == kCompressedFooter) {
    return arrow::Status::NotImplemented(path, ": the Puffin footer is lz4-compressed");
  }
  if (flags != 0) return Invalid("{}: unknown Puffin flags {:#x}", path, flags);
  const size_t payload = bytes.size() - kTailSize - payload_size;
  const size_t footer = payload - kMagic.size();
  if (bytes.substr(footer, kMagic.size()) != kMagic) {
    return Invalid("{}: offset {}: the footer does not start with its magic", path, footer);
  }
  ARROW_ASSIGN_OR_RAISE(Json json, ParseJson(bytes.substr(payload, payload_size), path));
  PuffinFile file;
  ARROW_ASSIGN_OR_RAISE(const Json* blobs, GetArray(json, "blobs", path));
  // Blobs share one limit, so that many small ones cannot grow without bound.
  int64_t total = 0;
  for (const Json& item : *blobs) {
    ARROW_ASSIGN_OR_RAISE(PuffinBlob blob, ReadBlob(item, bytes.substr(0, footer), path));
    total += static_cast<int64_t>(blob.data.size());
    if (total > DecompressionLimit(static_cast<int64_t>(bytes.size()))) {
      return Invalid("{}: its blobs decompress to more than {} bytes", path, total);
    }
    file.blobs.push_back(std::move(blob));
  }
  ARROW_ASSIGN_OR_RAISE(file.properties, ReadProperties(json, path));
  return file;
}

arrow::Result<WrittenPuffin> WritePuffin(const PuffinFile& file) {
  WrittenPuffin written;
  std::string& out = written.bytes;
  out = kMagic;
  Json blobs = Json::array();
  for (const PuffinBlob& blob : file.blobs) {
    const size_t offset = out.size();
    if (blob.raw || !blob.compression_codec) {
      out += blob.data;
    } else if (blob.compression_codec == "zstd") {
      ARROW_ASSIGN_OR_RAISE(std::string packed, Compress(AvroCodec::kZstandard, blob.data));
      out += packed;
    } else {
      return Invalid("Puffin blob \"{}\": codec {} is not written", blob.type,
                     *blob.compression_codec);
    }
    Json json{{"type", blob.type},
              {"fields", blob.fields},
              {"snapshot-id", blob.snapshot_id},
              {"sequence-number", blob.sequence_number},
              {"offset", offset},
              {"length", out.size() - offset}};
    if (blob.compression_codec) json["compression-codec"] = *blob.compression_codec;
    if (!blob.properties.empty()) json["properties"] = blob.properties;
    blobs.push_back(std::move(json));
  }
  Json footer{{"blobs", std::move(blobs)}};
  if (!file.properties.empty()) footer["properties"] = file.properties;
  const std::string payload = DumpJson(footer);
  if (payload.size() > INT32_MAX) return Invalid("a Puffin footer of {} bytes", payload.size());
  const size_t begin = out.size();
  out += kMagic;
  out += payload;
  AppendLittleEndian(static_cast<uint32_t>(payload.size()), &out);
  AppendLittleEndian(0, &out);
  out += kMagic;
  written.footer_size = static_cast<int64_t>(out.size() - begin);
  return written;
}

}  // namespace thalweg::iceberg
