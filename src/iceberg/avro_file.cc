#include "iceberg/avro_file.h"

#include <algorithm>

#include "util/number.h"
#include "util/status.h"
#include "util/uuid.h"

namespace thalweg::iceberg {
namespace {

constexpr std::string_view kMagic{"Obj\x01", 4};
constexpr int64_t kSyncSize = 16;
constexpr int64_t kBlockSize = 64 << 10;  // plain bytes after which a block is closed

}  // namespace

arrow::Result<AvroFileReader> AvroFileReader::Open(std::string_view bytes, std::string path) {
  if (bytes.substr(0, kMagic.size()) != kMagic) {
    return Invalid("{}: not an Avro file (offset 0: wrong magic)", path);
  }
  AvroDecoder decoder(bytes);
  decoder.Take(kMagic.size());
  // A map is encoded like an array of (key, value).
  AvroType key_type, entries;
  key_type.min_size = 1;
  entries.items = &key_type;
  std::map<std::string, std::string, std::less<>> metadata;
  decoder.Array(entries, [&] {
    std::string_view key = decoder.Bytes();
    std::string_view value = decoder.Bytes();
    if (decoder.ok()) metadata.insert_or_assign(std::string(key), std::string(value));
  });
  std::string_view sync = decoder.Take(kSyncSize);
  if (!decoder.ok()) {
    return Invalid("{}: offset {}: {} in the header", path, decoder.position(), decoder.error());
  }
  auto text = metadata.find("avro.schema");
  if (text == metadata.end()) return Invalid("{}: the header has no avro.schema", path);
  auto schema = AvroSchema::Parse(text->second);
  if (!schema.ok()) return Invalid("{}: {}", path, schema.status().message());
  if (schema->root().kind != AvroKind::kRecord) {
    return Invalid("{}: the Avro schema is no record", path);
  }
  AvroFileReader reader(bytes, std::move(path), schema.MoveValueUnsafe());
  if (auto name = metadata.find("avro.codec"); name != metadata.end()) {
    auto codec = ParseAvroCodec(name->second);
    if (!codec.ok()) return Invalid("{}: {}", reader.path_, codec.status().message());
    reader.codec_ = *codec;
  }
  reader.metadata_ = std::move(metadata);
  reader.sync_ = sync;
  reader.blocks_begin_ = decoder.position();
  return reader;
}

arrow::Result<std::optional<int64_t>> AvroFileReader::IntMetadata(std::string_view key) const {
  auto it = metadata_.find(key);
  if (it == metadata_.end() || it->second == "null") return std::nullopt;
  const auto value = ParseNumber<int64_t>(it->second);
  if (!value) return Invalid("{}: header key {} is no integer", path_, key);
  return value;
}

arrow::Status AvroFileReader::RequireFields(const AvroType& record,
                                            std::initializer_list<int32_t> ids,
                                            std::string_view what) const {
  for (int32_t id : ids) {
    if (!record.FieldById(id)) {
      return Invalid("{}: no {}: its Avro schema has no field with field-id {}", path_, what, id);
    }
  }
  return arrow::Status::OK();
}

arrow::Status AvroFileReader::ForEach(
    const std::function<arrow::Status(AvroDecoder*)>& read) const {
  const int64_t min_size = std::max<int64_t>(1, schema_.root().min_size);
  // One limit for the sum of all blocks, so that many small ones cannot expand without bound.
  const int64_t limit = DecompressionLimit(static_cast<int64_t>(bytes_.size()));
  int64_t total = 0;
  std::string plain;
  AvroDecoder file(bytes_);
  file.Take(blocks_begin_);
  while (file.remaining() > 0) {
    const int64_t offset = file.position();
    const int64_t count = file.Long();
    std::string_view block = file.Bytes();
    std::string_view sync = file.Take(kSyncSize);
    if (file.ok() && sync != sync_) file.Fail("the sync marker differs");
    if (!file.ok()) {
      return Invalid("{}: offset {}: {}", path_, file.position(), file.error());
    }
    if (codec_ != AvroCodec::kNull) {
      if (auto status = Decompress(codec_, block, &plain); !status.ok()) {
        return Invalid("{}: block at offset {}: {}", path_, offset, status.message());
      }
      block = plain;
      total += static_cast<int64_t>(plain.size());
      if (total > limit) {
        return Invalid("{}: block at offset {}: the blocks decompress to more than {} bytes", path_,
                       offset, limit);
      }
    }
    // A file of empty records needs no bytes for any number of them; nothing that we read is like
    // that.
    if (count < 0 || count > static_cast<int64_t>(block.size()) / min_size) {
      return Invalid("{}: block at offset {}: {} records in {} bytes", path_, offset, count,
                     block.size());
    }
    AvroDecoder records(block);
    arrow::Status status;
    for (int64_t i = 0; i < count && records.ok() && status.ok(); ++i) status = read(&records);
    if (records.ok()) {
      ARROW_RETURN_NOT_OK(status);
      if (records.remaining() > 0) records.Fail("bytes after the last record");
    }
    if (!records.ok()) {
      return Invalid("{}: block at offset {}, byte {}: {}", path_, offset, records.position(),
                     records.error());
    }
  }
  return arrow::Status::OK();
}

void AvroEncoder::Long(int64_t value) {
  uint64_t zigzag = static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63);
  for (; zigzag >= 0x80; zigzag >>= 7) out_.push_back(static_cast<char>(zigzag | 0x80));
  out_.push_back(static_cast<char>(zigzag));
}

AvroFileWriter::AvroFileWriter(const Json& schema, AvroCodec codec,
                               const std::vector<std::pair<std::string, std::string>>& metadata)
    : codec_(codec) {
  for (int64_t part : {NewRandomId(), NewRandomId()}) {
    sync_.append(reinterpret_cast<const char*>(&part), sizeof part);
  }
  AvroEncoder header;
  header.Long(static_cast<int64_t>(metadata.size()) + 2);
  auto put = [&](std::string_view key, std::string_view value) {
    header.Bytes(key);
    header.Bytes(value);
  };
  put("avro.schema", DumpJson(schema));
  put("avro.codec", ToString(codec));
  for (const auto& [key, value] : metadata) put(key, value);
  header.Long(0);
  out_ = kMagic;
  out_.append(header.view()).append(sync_);
}

arrow::Status AvroFileWriter::EndRecord() {
  ++block_count_;
  return block_.size() >= kBlockSize ? Flush() : arrow::Status::OK();
}

arrow::Status AvroFileWriter::Flush() {
  if (block_count_ == 0) return arrow::Status::OK();
  ARROW_ASSIGN_OR_RAISE(std::string packed, Compress(codec_, block_.view()));
  AvroEncoder prefix;
  prefix.Long(block_count_);
  prefix.Bytes(packed);
  out_.append(prefix.view()).append(sync_);
  block_.Clear();
  block_count_ = 0;
  return arrow::Status::OK();
}

arrow::Result<std::string> AvroFileWriter::Finish() {
  ARROW_RETURN_NOT_OK(Flush());
  return std::move(out_);
}

}  // namespace thalweg::iceberg
