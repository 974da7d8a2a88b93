#include "iceberg/avro_codec.h"

#include <snappy.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <memory>

#include "util/status.h"

namespace thalweg::iceberg {
namespace {

constexpr int kZstdLevel = 3;
constexpr size_t kFirstStep = 64 << 10;

arrow::Status TooLarge(int64_t limit) {
  return Invalid("decompresses to more than the {} bytes allowed for its size", limit);
}

// Room for more output behind `used` bytes: doubles what is there, so that a lying stream costs no
// more than it delivers.
arrow::Status Grow(std::string* plain, size_t used, int64_t limit) {
  if (used >= static_cast<size_t>(limit)) return TooLarge(limit);
  plain->resize(std::min<size_t>(std::max(kFirstStep, used * 2), limit));
  return arrow::Status::OK();
}

arrow::Status Inflate(std::string_view bytes, int64_t limit, std::string* plain) {
  z_stream stream{};
  if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) return Invalid("zlib could not be initialised");
  std::unique_ptr<z_stream, decltype(&inflateEnd)> guard(&stream, inflateEnd);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  size_t used = 0;
  plain->resize(std::clamp<size_t>(plain->capacity(), kFirstStep, limit));
  for (;;) {
    if (used == plain->size()) ARROW_RETURN_NOT_OK(Grow(plain, used, limit));
    stream.next_out = reinterpret_cast<Bytef*>(plain->data() + used);
    stream.avail_out = static_cast<uInt>(std::min<size_t>(plain->size() - used, 1 << 30));
    uInt room = stream.avail_out;
    int code = inflate(&stream, Z_NO_FLUSH);
    used += room - stream.avail_out;
    if (code == Z_STREAM_END) break;
    bool starved = stream.avail_in == 0 && stream.avail_out != 0;
    if (code != Z_OK || starved) return Invalid("deflate data is corrupt or cut short");
  }
  plain->resize(used);
  return arrow::Status::OK();
}

arrow::Status UnZstd(std::string_view bytes, int64_t limit, std::string* plain) {
  std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context(ZSTD_createDCtx(), ZSTD_freeDCtx);
  if (!context) return arrow::Status::OutOfMemory("zstd context");
  ZSTD_inBuffer in{bytes.data(), bytes.size(), 0};
  plain->resize(std::clamp<size_t>(plain->capacity(), kFirstStep, limit));
  ZSTD_outBuffer out{plain->data(), plain->size(), 0};
  size_t pending = 1;  // 0: a frame has just ended
  while (in.pos < in.size || pending != 0) {
    if (out.pos == out.size) {
      ARROW_RETURN_NOT_OK(Grow(plain, out.pos, limit));
      out.dst = plain->data();
      out.size = plain->size();
    }
    size_t read_before = in.pos, written_before = out.pos;
    pending = ZSTD_decompressStream(context.get(), &out, &in);
    if (ZSTD_isError(pending)) return Invalid("zstd: {}", ZSTD_getErrorName(pending));
    bool stuck = in.pos == read_before && out.pos == written_before && out.pos < out.size;
    if (pending != 0 && stuck) return Invalid("zstd data is cut short");
  }
  plain->resize(out.pos);
  return arrow::Status::OK();
}

uint32_t Crc(std::string_view bytes) {
  return static_cast<uint32_t>(
      crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

arrow::Status UnSnappy(std::string_view bytes, int64_t limit, std::string* plain) {
  if (bytes.size() < 4) return Invalid("snappy block without its checksum");
  std::string_view body = bytes.substr(0, bytes.size() - 4);
  size_t length = 0;
  if (!snappy::GetUncompressedLength(body.data(), body.size(), &length)) {
    return Invalid("snappy data is corrupt");
  }
  // No snappy element of n bytes yields more than 32n: a larger claim is a lie.
  if (length > static_cast<size_t>(limit) || length > body.size() * 32) return TooLarge(limit);
  plain->resize(length);
  if (!snappy::RawUncompress(body.data(), body.size(), plain->data())) {
    return Invalid("snappy data is corrupt");
  }
  uint32_t stored = 0;
  for (char c : bytes.substr(body.size())) stored = stored << 8 | static_cast<uint8_t>(c);
  if (stored != Crc(*plain)) return Invalid("snappy checksum differs");
  return arrow::Status::OK();
}

arrow::Result<std::string> Deflate(std::string_view plain) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    return Invalid("zlib could not be initialised");
  }
  std::unique_ptr<z_stream, decltype(&deflateEnd)> guard(&stream, deflateEnd);
  std::string out(deflateBound(&stream, plain.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) return Invalid("zlib could not compress");
  out.resize(stream.total_out);
  return out;
}

}  // namespace

arrow::Result<AvroCodec> ParseAvroCodec(std::string_view name) {
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
  if (lower == "null" || lower == "uncompressed") return AvroCodec::kNull;
  if (lower == "deflate" || lower == "gzip") return AvroCodec::kDeflate;
  if (lower == "zstandard" || lower == "zstd") return AvroCodec::kZstandard;
  if (lower == "snappy") return AvroCodec::kSnappy;
  return Invalid("unknown Avro codec \"{}\": null, deflate, zstandard or snappy", name);
}

std::string_view ToString(AvroCodec codec) {
  switch (codec) {
    case AvroCodec::kNull:
      return "null";
    case AvroCodec::kDeflate:
      return "deflate";
    case AvroCodec::kZstandard:
      return "zstandard";
    case AvroCodec::kSnappy:
      return "snappy";
  }
  return "";
}

int64_t DecompressionLimit(int64_t compressed_bytes) {
  constexpr int64_t kHard = int64_t{2} << 30, kBase = int64_t{16} << 20;
  return std::min(kHard, kBase + 256 * std::min(compressed_bytes, kHard / 256));
}

arrow::Result<std::string> Compress(AvroCodec codec, std::string_view plain) {
  if (plain.size() > static_cast<size_t>(DecompressionLimit(INT32_MAX))) {
    return Invalid("a block of {} bytes is too large to compress", plain.size());
  }
  switch (codec) {
    case AvroCodec::kNull:
      return std::string(plain);
    case AvroCodec::kDeflate:
      return Deflate(plain);
    case AvroCodec::kZstandard: {
      std::string out(ZSTD_compressBound(plain.size()), '\0');
      size_t size = ZSTD_compress(out.data(), out.size(), plain.data(), plain.size(), kZstdLevel);
      if (ZSTD_isError(size)) return Invalid("zstd: {}", ZSTD_getErrorName(size));
      out.resize(size);
      return out;
    }
    case AvroCodec::kSnappy: {
      std::string out;
      snappy::Compress(plain.data(), plain.size(), &out);
      uint32_t crc = Crc(plain);
      for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(crc >> shift));
      return out;
    }
  }
  return Invalid("unknown codec");
}

arrow::Status Decompress(AvroCodec codec, std::string_view bytes, std::string* plain) {
  int64_t limit = DecompressionLimit(static_cast<int64_t>(bytes.size()));
  if (bytes.size() > static_cast<size_t>(limit)) return TooLarge(limit);
  switch (codec) {
    case AvroCodec::kNull:
      plain->assign(bytes);
      return arrow::Status::OK();
    case AvroCodec::kDeflate:
      return Inflate(bytes, limit, plain);
    case AvroCodec::kZstandard:
      return UnZstd(bytes, limit, plain);
    case AvroCodec::kSnappy:
      return UnSnappy(bytes, limit, plain);
  }
  return Invalid("unknown codec");
}

}  // namespace thalweg::iceberg
