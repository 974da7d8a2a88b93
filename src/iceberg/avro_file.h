#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "iceberg/avro_codec.h"
#include "iceberg/avro_decoder.h"
#include "iceberg/avro_schema.h"

namespace thalweg::iceberg {

/// Reads an Avro object container file of records: magic "Obj" 1, header map, sync marker, blocks.
/// Errors are one line with the path and the offset in the file (inside a compressed block: of the
/// block and in its plain bytes).
class AvroFileReader {
 public:
  /// `bytes` must outlive the reader.
  static arrow::Result<AvroFileReader> Open(std::string_view bytes, std::string path);

  const std::string& path() const { return path_; }
  /// Header key-values, "avro.schema" (verbatim) and "avro.codec" among them.
  const std::map<std::string, std::string, std::less<>>& metadata() const { return metadata_; }
  /// The value of a header key as an integer; nullopt when the key is missing or "null".
  arrow::Result<std::optional<int64_t>> IntMetadata(std::string_view key) const;
  /// The record type that the file was written with.
  const AvroType& schema() const { return schema_.root(); }

  /// An error that this is no `what` ("manifest") when `record` lacks a field of these field-ids.
  arrow::Status RequireFields(const AvroType& record, std::initializer_list<int32_t> ids,
                              std::string_view what) const;

  /// Calls `read` once per record. It must consume exactly one record from the decoder; a failure
  /// of either ends the reading.
  arrow::Status ForEach(const std::function<arrow::Status(AvroDecoder*)>& read) const;

 private:
  AvroFileReader(std::string_view bytes, std::string path, AvroSchema schema)
      : bytes_(bytes), path_(std::move(path)), schema_(std::move(schema)) {}

  std::string_view bytes_;
  std::string path_;
  AvroSchema schema_;
  std::map<std::string, std::string, std::less<>> metadata_;
  AvroCodec codec_ = AvroCodec::kNull;
  std::string_view sync_;
  int64_t blocks_begin_ = 0;
};

/// Appends Avro binary values to a buffer.
class AvroEncoder {
 public:
  void Long(int64_t value);
  void Boolean(bool value) { out_.push_back(value ? 1 : 0); }
  void Bytes(std::string_view value) {
    Long(static_cast<int64_t>(value.size()));
    out_.append(value);
  }
  /// The branch of a ["null", T] union.
  void Present(bool present) { Long(present ? 1 : 0); }
  void OptionalLong(const std::optional<int64_t>& value) {
    Present(value.has_value());
    if (value) Long(*value);
  }
  void OptionalBytes(const std::optional<std::string>& value) {
    Present(value.has_value());
    if (value) Bytes(*value);
  }

  int64_t size() const { return static_cast<int64_t>(out_.size()); }
  std::string_view view() const { return out_; }
  void Clear() { out_.clear(); }

 private:
  std::string out_;
};

/// Writes an Avro object container file.
class AvroFileWriter {
 public:
  /// `metadata`: header key-values beside "avro.schema" and "avro.codec".
  AvroFileWriter(const Json& schema, AvroCodec codec,
                 const std::vector<std::pair<std::string, std::string>>& metadata);

  /// Where the next record goes.
  AvroEncoder* record() { return &block_; }
  /// The record is complete.
  arrow::Status EndRecord();
  /// The whole file.
  arrow::Result<std::string> Finish();

 private:
  arrow::Status Flush();

  AvroCodec codec_;
  AvroEncoder block_;
  int64_t block_count_ = 0;
  std::string sync_;
  std::string out_;
};

}  // namespace thalweg::iceberg
