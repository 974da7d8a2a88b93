#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace thalweg::iceberg {

/// One blob of a Puffin file (Puffin specification: magic PFA1, blobs, footer).
struct PuffinBlob {
  std::string type;
  std::vector<int32_t> fields;
  int64_t snapshot_id = -1;
  int64_t sequence_number = -1;
  std::map<std::string, std::string> properties;
  std::optional<std::string>
      compression_codec;  ///< "zstd" or "lz4" as found; on writing "zstd" compresses `data`
  std::string data;       ///< uncompressed when `compression_codec` could be undone
  int64_t offset = 0;     ///< in the file, on reading
  int64_t length = 0;
  bool raw =
      false;  ///< data is still compressed (a codec we do not speak): written back byte for byte
};

struct PuffinFile {
  std::vector<PuffinBlob> blobs;
  std::map<std::string, std::string> properties;
};

/// Whole-file forms; statistics files are small. Footer payloads may be uncompressed or lz4 (flag
/// bit 0; refused when lz4).
arrow::Result<PuffinFile> ReadPuffin(std::string_view bytes, const std::string& path);
struct WrittenPuffin {
  std::string bytes;
  int64_t footer_size = 0;  ///< file-footer-size-in-bytes of the statistics entry
};
arrow::Result<WrittenPuffin> WritePuffin(const PuffinFile& file);

}  // namespace thalweg::iceberg
