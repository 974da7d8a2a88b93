// Table properties that decide how data files are written.

#include <arrow/util/compression.h>

#include <mutex>
#include <set>

#include "iceberg/metrics.h"
#include "iceberg/parquet_encoding.h"
#include "iceberg/parquet_writer.h"
#include "util/number.h"
#include "util/status.h"
#include "util/text.h"

namespace thalweg::iceberg {

namespace {

using Properties = std::map<std::string, std::string>;
using Mode = ParquetWriteOptions::MetricsMode;

constexpr std::string_view kMetricsColumn = "write.metadata.metrics.column.";
constexpr std::string_view kBloomEnabled = "write.parquet.bloom-filter-enabled.column.";
constexpr std::string_view kBloomFpp = "write.parquet.bloom-filter-fpp.column.";

const std::string* Find(const Properties& properties, const std::string& key) {
  auto it = properties.find(key);
  return it == properties.end() ? nullptr : &it->second;
}

/// Leaves `*value` as it is when the property is absent.
arrow::Status ReadPositive(const Properties& properties, const std::string& key, int64_t most,
                           int64_t* value) {
  const std::string* text = Find(properties, key);
  if (!text) return arrow::Status::OK();
  auto number = ParseNumber<int64_t>(*text);
  if (!number || *number < 1 || *number > most) {
    return Invalid("table property {}: \"{}\" is no number from 1 to {}", key, *text, most);
  }
  *value = *number;
  return arrow::Status::OK();
}

arrow::Result<bool> ParseFlag(const std::string& key, const std::string& text) {
  std::string lower = Lower(text);
  if (lower == "true") return true;
  if (lower == "false") return false;
  return Invalid("table property {}: \"{}\" is neither true nor false", key, text);
}

arrow::Result<Mode> ParseMode(const std::string& key, const std::string& text) {
  std::string lower = Lower(text);
  if (lower == "none") return Mode{Mode::Kind::kNone, 0};
  if (lower == "counts") return Mode{Mode::Kind::kCounts, 0};
  if (lower == "full") return Mode{Mode::Kind::kFull, -1};
  if (lower.starts_with("truncate(") && lower.ends_with(")")) {
    auto length = ParseNumber<int>(lower.substr(9, lower.size() - 10));
    if (length && *length > 0) return Mode{Mode::Kind::kTruncate, *length};
  }
  return Invalid("table property {}: \"{}\" is none of none, counts, truncate(n), full", key, text);
}

/// The first `limit` primitive fields, at each level the primitive ones before the nested ones.
void TakeFields(const std::vector<Field>& fields, size_t limit, std::set<int32_t>* taken) {
  for (const Field& field : fields) {
    if (taken->size() >= limit) return;
    if (field.type->primitive()) taken->insert(field.id);
  }
  for (const Field& field : fields) {
    if (taken->size() >= limit) return;
    if (!field.type->primitive()) TakeFields(field.type->fields, limit, taken);
  }
}

arrow::Status ReadCodec(const Properties& properties, ParquetWriteOptions* options) {
  const std::string codec_key = "write.parquet.compression-codec";
  const std::string level_key = "write.parquet.compression-level";
  static const std::map<std::string, arrow::Compression::type> kCodecs = {
      {"zstd", arrow::Compression::ZSTD},     {"gzip", arrow::Compression::GZIP},
      {"snappy", arrow::Compression::SNAPPY}, {"lz4", arrow::Compression::LZ4},
      {"brotli", arrow::Compression::BROTLI}, {"uncompressed", arrow::Compression::UNCOMPRESSED}};
  if (const std::string* text = Find(properties, codec_key)) options->codec = Lower(*text);
  if (options->codec == "lz4_raw") options->codec = "lz4";
  auto codec = kCodecs.find(options->codec);
  auto available = [](arrow::Compression::type type) {
    return type == arrow::Compression::UNCOMPRESSED || arrow::util::Codec::IsAvailable(type);
  };
  if (codec == kCodecs.end() || !available(codec->second)) {
    std::string accepted;
    for (const auto& [name, type] : kCodecs) {
      if (available(type)) accepted += (accepted.empty() ? "" : ", ") + name;
    }
    return Invalid("table property {}: \"{}\" is not a codec that can be written (accepted: {})",
                   codec_key, options->codec, accepted);
  }
  const std::string* level = Find(properties, level_key);
  if (!level || Lower(*level) == "null") return arrow::Status::OK();
  auto number = ParseNumber<int>(*level);
  if (!number) return Invalid("table property {}: \"{}\" is no whole number", level_key, *level);
  if (codec->second == arrow::Compression::UNCOMPRESSED ||
      !arrow::util::Codec::SupportsCompressionLevel(codec->second)) {
    return arrow::Status::OK();  // as the reference implementation: a level without meaning is
                                 // passed over
  }
  ARROW_ASSIGN_OR_RAISE(int least, arrow::util::Codec::MinimumCompressionLevel(codec->second));
  ARROW_ASSIGN_OR_RAISE(int most, arrow::util::Codec::MaximumCompressionLevel(codec->second));
  if (*number < least || *number > most) {
    return Invalid("table property {}: \"{}\" is not from {} to {}, the levels of {}", level_key,
                   *level, least, most, options->codec);
  }
  options->codec_level = *number;
  return arrow::Status::OK();
}

arrow::Status ReadBloomFilters(const Properties& properties, const Schema& schema,
                               ParquetWriteOptions* options) {
  int64_t max_bytes = ParquetWriteOptions::BloomFilter().max_bytes;
  // The largest filter that Parquet readers accept.
  ARROW_RETURN_NOT_OK(ReadPositive(properties, "write.parquet.bloom-filter-max-bytes",
                                   int64_t{128} << 20, &max_bytes));
  for (const auto& leaf : schema.Leaves()) {
    const std::string enabled_key = std::string(kBloomEnabled) + leaf.path;
    const std::string* enabled = Find(properties, enabled_key);
    if (!enabled) continue;
    ARROW_ASSIGN_OR_RAISE(bool wanted, ParseFlag(enabled_key, *enabled));
    if (!wanted || leaf.field->type->kind == TypeKind::kBoolean) continue;
    ParquetWriteOptions::BloomFilter filter;
    filter.max_bytes = max_bytes;
    const std::string fpp_key = std::string(kBloomFpp) + leaf.path;
    if (const std::string* text = Find(properties, fpp_key)) {
      auto fpp = ParseNumber<double>(*text);
      if (!fpp || !(*fpp > 0) || !(*fpp < 1)) {
        return Invalid("table property {}: \"{}\" is no number between 0 and 1", fpp_key, *text);
      }
      filter.fpp = *fpp;
    }
    options->bloom_filters[leaf.field->id] = filter;
  }
  return arrow::Status::OK();
}

/// The choices of all files with this schema and these options in this process.
std::shared_ptr<ParquetEncodings> SharedEncodings(const Schema& schema,
                                                  const ParquetWriteOptions& options) {
  constexpr size_t kMostKept = 64;
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<ParquetEncodings>> shared;
  const std::string key = fmt::format(
      "{} {} {} {} {} {}", options.codec, options.codec_level.value_or(-1000), options.page_bytes,
      options.page_rows, options.dictionary_bytes, DumpJson(schema.ToJson()));
  std::lock_guard<std::mutex> lock(mutex);
  if (shared.size() >= kMostKept && !shared.contains(key)) shared.clear();
  auto& entry = shared[key];
  if (!entry) entry = std::make_shared<ParquetEncodings>();
  return entry;
}

}  // namespace

arrow::Result<std::map<int32_t, Mode>> MetricsModes(const Properties& properties,
                                                    const Schema& schema) {
  const std::string default_key = "write.metadata.metrics.default";
  const std::string limit_key = "write.metadata.metrics.max-inferred-column-defaults";
  std::optional<Mode> fallback;
  if (const std::string* text = Find(properties, default_key)) {
    ARROW_ASSIGN_OR_RAISE(fallback, ParseMode(default_key, *text));
  }
  int64_t limit = 100;
  if (const std::string* text = Find(properties, limit_key)) {
    auto number = ParseNumber<int64_t>(*text);
    if (!number) return Invalid("table property {}: \"{}\" is no whole number", limit_key, *text);
    limit = *number;
  }
  std::set<int32_t> inferred;
  if (!fallback) {
    // A negative limit means none, as in the reference implementation.
    TakeFields(schema.fields, limit < 0 ? SIZE_MAX : static_cast<size_t>(limit), &inferred);
  }
  std::map<int32_t, Mode> modes;
  for (const auto& leaf : schema.Leaves()) {
    const std::string key = std::string(kMetricsColumn) + leaf.path;
    Mode mode = fallback
                    ? *fallback
                    : (inferred.contains(leaf.field->id) ? Mode() : Mode{Mode::Kind::kNone, 0});
    if (const std::string* text = Find(properties, key)) {
      ARROW_ASSIGN_OR_RAISE(mode, ParseMode(key, *text));
    }
    modes[leaf.field->id] = mode;
  }
  return modes;
}

arrow::Result<ParquetWriteOptions> ParquetWriteOptions::FromProperties(const Properties& properties,
                                                                       const Schema& schema) {
  constexpr int64_t kMost = int64_t{1} << 40;
  constexpr int64_t kMostInPage = int64_t{1} << 30;  // page sizes are 32-bit in the format
  ParquetWriteOptions options;
  ARROW_RETURN_NOT_OK(ReadCodec(properties, &options));
  ARROW_RETURN_NOT_OK(ReadPositive(properties, "write.parquet.row-group-size-bytes", kMost,
                                   &options.row_group_bytes));
  ARROW_RETURN_NOT_OK(
      ReadPositive(properties, "write.parquet.page-size-bytes", kMostInPage, &options.page_bytes));
  ARROW_RETURN_NOT_OK(
      ReadPositive(properties, "write.parquet.page-row-limit", kMost, &options.page_rows));
  ARROW_RETURN_NOT_OK(ReadPositive(properties, "write.parquet.dict-size-bytes", kMostInPage,
                                   &options.dictionary_bytes));
  ARROW_RETURN_NOT_OK(ReadBloomFilters(properties, schema, &options));
  ARROW_ASSIGN_OR_RAISE(options.metrics, MetricsModes(properties, schema));
  options.encodings = SharedEncodings(schema, options);
  return options;
}

}  // namespace thalweg::iceberg
