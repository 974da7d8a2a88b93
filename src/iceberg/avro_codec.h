#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace thalweg::iceberg {

/// Block compression of Avro container files ("avro.codec"); Puffin blobs use zstd too.
enum class AvroCodec { kNull, kDeflate, kZstandard, kSnappy };

/// From "null", "deflate", "zstandard", "snappy", or the names that the table property
/// write.avro.compression-codec uses for them ("uncompressed", "gzip", "zstd"), in any case.
arrow::Result<AvroCodec> ParseAvroCodec(std::string_view name);
/// As "avro.codec" has it.
std::string_view ToString(AvroCodec codec);

/// Compresses one block: deflate is raw (RFC 1951), snappy is followed by the big-endian CRC-32 of
/// the plain bytes.
arrow::Result<std::string> Compress(AvroCodec codec, std::string_view plain);

/// Undoes Compress. Output above DecompressionLimit(bytes.size()) is refused, and memory grows only
/// with the output.
arrow::Status Decompress(AvroCodec codec, std::string_view bytes, std::string* plain);

/// The most that so many compressed bytes may become: 16 MiB plus 256 times their number, at most 2
/// GiB.
int64_t DecompressionLimit(int64_t compressed_bytes);

}  // namespace thalweg::iceberg
