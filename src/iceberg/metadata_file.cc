#include "iceberg/metadata_file.h"

#include <zlib.h>

#include <algorithm>
#include <charconv>

#include "util/status.h"
#include "util/text.h"

namespace thalweg::iceberg {
namespace {

constexpr int64_t kLargestMetadata = int64_t{1} << 30;
constexpr int kGzipWindow = 15 + 16;  // zlib: the largest window, with a gzip header
constexpr std::string_view kPlainSuffix = ".metadata.json";
constexpr std::string_view kGzipSuffix = ".gz.metadata.json";

arrow::Result<std::string> Gunzip(std::string_view bytes, const std::string& location) {
  z_stream stream{};
  if (inflateInit2(&stream, kGzipWindow) != Z_OK) {
    return arrow::Status::OutOfMemory("zlib cannot start");
  }
  std::string text;
  std::string buffer(size_t{1} << 18, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  int result = Z_OK;
  while (result == Z_OK && static_cast<int64_t>(text.size()) <= kLargestMetadata) {
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    result = inflate(&stream, Z_NO_FLUSH);
    text.append(buffer, 0, buffer.size() - stream.avail_out);
    // A gzip file may have several members.
    if (result == Z_STREAM_END && stream.avail_in > 0) result = inflateReset(&stream);
  }
  inflateEnd(&stream);
  if (static_cast<int64_t>(text.size()) > kLargestMetadata) {
    return Invalid("{}: more than {} bytes of table metadata", location, kLargestMetadata);
  }
  if (result != Z_STREAM_END) return Invalid("{}: truncated or corrupt gzip data", location);
  return text;
}

arrow::Result<std::string> Gzip(std::string_view text) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindow, 8,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    return arrow::Status::OutOfMemory("zlib cannot start");
  }
  std::string bytes(deflateBound(&stream, static_cast<uLong>(text.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(bytes.size());
  const int result = deflate(&stream, Z_FINISH);
  bytes.erase(std::min<size_t>(stream.total_out, bytes.size()));
  deflateEnd(&stream);
  if (result != Z_STREAM_END) return arrow::Status::IOError("zlib cannot compress");
  return bytes;
}

/// The number that `text` starts with and what follows it.
std::optional<int64_t> LeadingNumber(std::string_view text, std::string_view* rest) {
  if (text.empty() || text[0] < '0' || text[0] > '9') return std::nullopt;
  int64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  *rest = text.substr(static_cast<size_t>(end - text.data()));
  return number;
}

}  // namespace

arrow::Result<LoadedTable> ReadMetadataFile(const FileIO& io, const std::string& location) {
  ARROW_ASSIGN_OR_RAISE(std::string text, io.ReadAll(location, kLargestMetadata));
  if (text.starts_with("\x1f\x8b")) {
    ARROW_ASSIGN_OR_RAISE(text, Gunzip(text, location));
  }
  ARROW_ASSIGN_OR_RAISE(auto metadata, TableMetadata::Parse(text, location));
  return LoadedTable{location, std::move(metadata)};
}

arrow::Result<LoadedTable> ReadCurrentMetadata(
    const FileIO& io, const std::function<arrow::Result<std::string>()>& look_up) {
  constexpr int kTries = 3;
  arrow::Status status;
  for (int i = 0; i < kTries; ++i) {
    ARROW_ASSIGN_OR_RAISE(const std::string location, look_up());
    auto table = ReadMetadataFile(io, location);
    if (table.ok() || !table.status().IsIOError()) return table;
    status = table.status();
  }
  return status;
}

arrow::Result<std::string> MetadataFileSuffix(const TableMetadata& metadata) {
  const std::string codec = Lower(metadata.property("write.metadata.compression-codec", "none"));
  if (codec == "gzip") return std::string(kGzipSuffix);
  if (codec == "none") return std::string(kPlainSuffix);
  return Invalid("table property write.metadata.compression-codec: \"{}\" is neither none nor gzip",
                 codec);
}

arrow::Status CheckMetadataFileProperties(const TableMetadata& metadata) {
  ARROW_RETURN_NOT_OK(MetadataFileSuffix(metadata).status());
  ARROW_RETURN_NOT_OK(metadata.IntProperty("write.metadata.previous-versions-max", 0).status());
  return metadata.BoolProperty("write.metadata.delete-after-commit.enabled", false).status();
}

arrow::Status WriteMetadataFile(const FileIO& io, const std::string& location,
                                const TableMetadata& metadata) {
  std::string bytes = metadata.ToText();
  if (location.ends_with(kGzipSuffix)) {
    ARROW_ASSIGN_OR_RAISE(bytes, Gzip(bytes));
  }
  return io.WriteNew(location, bytes);
}

arrow::Result<TableMetadata> NextMetadata(const LoadedTable& base, const TableMetadata& updated,
                                          std::vector<std::string>* expired) {
  if (base.metadata.table_uuid() != updated.table_uuid()) {
    return Invalid("the new metadata is of table {}, not of {}", updated.table_uuid(),
                   base.metadata.table_uuid());
  }
  TableMetadata next = updated;
  auto dropped = next.AppendMetadataLog(base.metadata_location, base.metadata.last_updated_ms());
  ARROW_ASSIGN_OR_RAISE(const bool remove,
                        next.BoolProperty("write.metadata.delete-after-commit.enabled", false));
  if (remove) *expired = std::move(dropped);
  return next;
}

void DeleteQuietly(const FileIO& io, const std::vector<std::string>& locations) {
  for (const auto& location : locations) (void)io.Delete(location);
}

std::string FileNameOf(const std::string& location) {
  const auto slash = location.rfind('/');
  return slash == std::string::npos ? location : location.substr(slash + 1);
}

std::optional<int64_t> CatalogFileVersion(const std::string& file_name) {
  constexpr size_t kUuidLength = 36;
  std::string_view rest;
  auto version = LeadingNumber(file_name, &rest);
  if (!version || !rest.starts_with('-') || rest.size() <= kUuidLength) return std::nullopt;
  rest.remove_prefix(1 + kUuidLength);
  return rest == kPlainSuffix || rest == kGzipSuffix ? version : std::nullopt;
}

std::optional<int64_t> HadoopFileVersion(const std::string& file_name) {
  if (!file_name.starts_with('v')) return std::nullopt;
  std::string_view rest;
  auto version = LeadingNumber(std::string_view(file_name).substr(1), &rest);
  const bool named = rest == kPlainSuffix || rest == kGzipSuffix || rest == ".metadata.json.gz";
  return version && named ? version : std::nullopt;
}

SwapOutcome OutcomeOfSwap(const LoadedTable& now, const std::string& base,
                          const std::string& location) {
  bool reaches_base = now.metadata_location == base;
  const Json& json = now.metadata.json();
  const auto log = json.find("metadata-log");
  const bool any = log != json.end() && log->is_array() && !log->empty();
  if (now.metadata_location == location) return SwapOutcome::kCommitted;
  if (base.empty()) reaches_base = !any;
  if (any) {
    for (const Json& entry : *log) {
      const auto file = entry.is_object() ? entry.find("metadata-file") : entry.end();
      if (!entry.is_object() || file == entry.end()) continue;
      if (*file == location) return SwapOutcome::kCommitted;
      reaches_base = reaches_base || *file == base;
    }
  }
  return reaches_base ? SwapOutcome::kLost : SwapOutcome::kUnknown;
}

}  // namespace thalweg::iceberg
