#include "lance/layout_record.h"

#include <arrow/util/base64.h>
#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "key/encoded_value_internal.h"
#include "lance/property_names.h"
#include "table/run_tag.h"
#include "util/json.h"
#include "util/number.h"
#include "util/status.h"

namespace thalweg::lance {
namespace {

constexpr char kFormatPrefix[] = "thalweg.run/";
constexpr char kFormat[] = "thalweg.run/1";
constexpr size_t kMostColumns = 4;
constexpr size_t kMostQuantiles = 256;
constexpr size_t kHashBytes = 8;
constexpr size_t kMostPrefixBytes = 1024;
constexpr size_t kTextBytes = 16;  // of a string after what all quantiles of its column begin with

bool Intersects(const std::vector<int32_t>& a, const std::vector<int32_t>& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](int32_t id) { return std::find(b.begin(), b.end(), id) != b.end(); });
}

std::string Encode64(std::string_view bytes) { return arrow::util::base64_encode(bytes); }

arrow::Result<std::string> Decode64(const Json& json, const std::string& what) {
  if (!json.is_string()) return Invalid("{}: bytes are not a text", what);
  auto bytes = arrow::util::base64_decode(json.get_ref<const std::string&>());
  if (!bytes.ok()) return Invalid("{}: bytes are not base64", what);
  return bytes;
}

size_t CommonPrefix(std::string_view a, std::string_view b) {
  const size_t end = std::min(a.size(), b.size());
  size_t at = 0;
  while (at < end && a[at] == b[at]) ++at;
  return at;
}

/// The first bytes of an encoded string, as an encoded string: order is kept, as characters may be
/// cut. Values of fixed width are given back as they are.
std::string Shorten(const std::string& encoded, size_t bytes) {
  auto text = DecodeText(encoded);
  if (!text.ok() || text->size() <= bytes) return encoded;
  return EncodeText(std::string_view(*text).substr(0, bytes));
}

/// Strings of the column shortened to what tells them apart. A column of strings that begin with
/// too much in common keeps none.
ColumnQuantiles ShortenStrings(ColumnQuantiles column) {
  auto first = column.quantiles.empty() ? arrow::Status::Invalid("none")
                                        : DecodeText(column.quantiles.front());
  if (!first.ok()) return column;
  auto last = DecodeText(column.quantiles.back());
  if (!last.ok()) return column;
  const size_t common = CommonPrefix(*first, *last);
  if (common > kMostPrefixBytes) {
    column.quantiles.clear();
    column.repeated.clear();
    return column;
  }
  for (auto& value : column.quantiles) value = Shorten(value, common + kTextBytes);
  for (auto& repeated : column.repeated) {
    repeated.value = Shorten(repeated.value, common + kTextBytes);
  }
  return column;
}

/// At most `most` of them, evenly, with the first and the last.
std::vector<std::string> Thin(const std::vector<std::string>& values, size_t most) {
  if (values.size() <= most) return values;
  std::vector<std::string> thin;
  for (size_t i = 0; i < most; ++i) {
    thin.push_back(values[most == 1 ? 0 : i * (values.size() - 1) / (most - 1)]);
  }
  return thin;
}

Json QuantilesToJson(const ColumnQuantiles& column, size_t most) {
  const auto quantiles = Thin(column.quantiles, most);
  // What all values begin with stands once.
  const std::string prefix =
      quantiles.empty()
          ? ""
          : quantiles.front().substr(0, CommonPrefix(quantiles.front(), quantiles.back()));
  Json json{{"field-id", column.field_id},
            {"null-share", column.null_share},
            {"prefix", Encode64(prefix)}};
  Json& values = json["quantiles"] = Json::array();
  for (const auto& value : quantiles) values.push_back(Encode64(value.substr(prefix.size())));
  Json& repeated = json["repeated"] = Json::array();
  for (size_t i = 0; i < std::min(most, column.repeated.size()); ++i) {
    const auto& [value, mass] = column.repeated[i];
    if (!value.starts_with(prefix)) continue;
    repeated.push_back(Encode64(value.substr(prefix.size())));
    repeated.push_back(std::round(mass * 1e6) / 1e6);
  }
  return json;
}

arrow::Result<double> GetShare(const Json& json, const std::string& what) {
  if (!json.is_number()) return Invalid("{}: a share is not a number", what);
  const double share = json.get<double>();
  if (!(share >= 0 && share <= 1)) return Invalid("{}: a share is not between 0 and 1", what);
  return share;
}

arrow::Result<ColumnQuantiles> QuantilesFromJson(const Json& json, const std::string& what) {
  ColumnQuantiles column;
  ARROW_ASSIGN_OR_RAISE(const int64_t field_id, GetCount(json, "field-id", what));
  if (field_id > INT32_MAX) return Invalid("{}: a field id is too large", what);
  column.field_id = static_cast<int32_t>(field_id);
  ARROW_ASSIGN_OR_RAISE(column.null_share, GetDouble(json, "null-share", what));
  if (!(column.null_share >= 0 && column.null_share <= 1)) {
    return Invalid("{}: a share is not between 0 and 1", what);
  }
  ARROW_ASSIGN_OR_RAISE(const Json* quantiles, GetArray(json, "quantiles", what));
  ARROW_ASSIGN_OR_RAISE(const Json* repeated, GetArray(json, "repeated", what));
  if (!json.contains("prefix") || quantiles->size() > kMostQuantiles ||
      repeated->size() > 2 * kMostQuantiles || repeated->size() % 2 != 0) {
    return Invalid("{}: its quantiles are malformed", what);
  }
  ARROW_ASSIGN_OR_RAISE(const std::string prefix, Decode64(json["prefix"], what));
  for (const Json& value : *quantiles) {
    ARROW_ASSIGN_OR_RAISE(std::string bytes, Decode64(value, what));
    bytes.insert(0, prefix);
    if (!column.quantiles.empty() && bytes < column.quantiles.back()) {
      return Invalid("{}: quantiles are not in ascending order", what);
    }
    column.quantiles.push_back(std::move(bytes));
  }
  for (size_t i = 0; i < repeated->size(); i += 2) {
    ARROW_ASSIGN_OR_RAISE(const std::string value, Decode64((*repeated)[i], what));
    ARROW_ASSIGN_OR_RAISE(const double mass, GetShare((*repeated)[i + 1], what));
    column.repeated.push_back({prefix + value, mass});
  }
  return column;
}

void PutDepth(const char* key, double depth, Json* json) {
  if (depth >= 0 && std::isfinite(depth)) (*json)[key] = depth;
}

arrow::Result<double> FindDepth(const Json& json, const char* key, const std::string& what) {
  if (!json.contains(key)) return -1;
  ARROW_ASSIGN_OR_RAISE(const double depth, GetDouble(json, key, what));
  if (!(depth >= 0) || !std::isfinite(depth)) return Invalid("{}: \"{}\" is no depth", what, key);
  return depth;
}

Json GroupToJson(const LayoutRecord::Group& group) {
  std::vector<StampedFragment> fragments = group.fragments;
  std::sort(fragments.begin(), fragments.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  std::vector<uint64_t> ids;
  std::string hashes;
  for (const auto& fragment : fragments) {
    ids.push_back(fragment.id);
    for (size_t i = 0; i < kHashBytes; ++i) {
      hashes += static_cast<char>(fragment.hash >> (8 * i) & 0xff);
    }
  }
  return Json{{"id", group.id}, {"fragments", FragmentRanges(ids)}, {"hashes", Encode64(hashes)}};
}

arrow::Result<LayoutRecord::Group> GroupFromJson(const Json& json, const std::string& what) {
  LayoutRecord::Group group;
  ARROW_ASSIGN_OR_RAISE(group.id, GetString(json, "id", what));
  ARROW_ASSIGN_OR_RAISE(const std::string ranges, GetString(json, "fragments", what));
  if (!json.contains("hashes")) return Invalid("{}: \"hashes\" is missing", what);
  ARROW_ASSIGN_OR_RAISE(const std::string hashes, Decode64(json["hashes"], what));
  const size_t count = hashes.size() / kHashBytes;
  auto ids = ParseFragmentRanges(ranges, count);
  if (!ids.ok()) return Invalid("{}: {}", what, ids.status().message());
  if (ids->size() != count || hashes.size() % kHashBytes != 0) {
    return Invalid("{}: {} fragments have {} bytes of hashes", what, ids->size(), hashes.size());
  }
  for (size_t i = 0; i < count; ++i) {
    StampedFragment fragment{(*ids)[i], 0};
    for (size_t byte = 0; byte < kHashBytes; ++byte) {
      fragment.hash |= static_cast<uint64_t>(static_cast<uint8_t>(hashes[i * kHashBytes + byte]))
                       << (8 * byte);
    }
    group.fragments.push_back(fragment);
  }
  return group;
}

}  // namespace

std::optional<uint64_t> BindingHash(const Fragment& fragment,
                                    const std::vector<int32_t>& field_ids) {
  for (const auto& overlay : fragment.overlays) {
    if (overlay.field_ids.empty() || Intersects(overlay.field_ids, field_ids)) return std::nullopt;
  }
  std::vector<std::string_view> paths;
  for (const auto& file : fragment.files) {
    if (Intersects(file.field_ids, field_ids)) paths.push_back(file.path);
  }
  const bool all_there = std::all_of(field_ids.begin(), field_ids.end(), [&](int32_t id) {
    return std::any_of(fragment.files.begin(), fragment.files.end(),
                       [&](const DataFile& file) { return Intersects(file.field_ids, {id}); });
  });
  if (paths.empty() || !all_there) return std::nullopt;
  std::sort(paths.begin(), paths.end());
  std::string text = fmt::format("{}|{}", fragment.id, fragment.physical_rows);
  for (const auto path : paths) text += fmt::format("|{}:{}", path.size(), path);
  return XXH3_64bits(text.data(), text.size());
}

std::string RecordKey(const std::string& run_id) { return property::kRunPrefix + run_id; }

std::string FragmentRanges(const std::vector<uint64_t>& ids) {
  std::string text;
  for (size_t begin = 0; begin < ids.size();) {
    size_t end = begin + 1;
    while (end < ids.size() && ids[end] == ids[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ",", ids[begin]);
    if (end > begin + 1) text += fmt::format("-{}", ids[end - 1]);
    begin = end;
  }
  return text;
}

arrow::Result<std::vector<uint64_t>> ParseFragmentRanges(std::string_view text, size_t most) {
  auto malformed = [&] {
    return Invalid("\"{}\" are no ranges of fragment ids", text.substr(0, 60));
  };
  std::vector<uint64_t> ids;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view range = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), range.size() + 1));
    const size_t dash = range.find('-');
    const auto first = ParseCount(range.substr(0, dash));
    const auto last = dash == std::string_view::npos ? first : ParseCount(range.substr(dash + 1));
    if (!first || !last || *last < *first) return malformed();
    const auto begin = static_cast<uint64_t>(*first), end = static_cast<uint64_t>(*last);
    if (!ids.empty() && begin <= ids.back()) return malformed();
    if (end - begin >= most - ids.size()) return malformed();
    for (uint64_t id = begin; id <= end; ++id) ids.push_back(id);
  }
  return ids;
}

std::string RecordToText(const LayoutRecord& record) {
  const RunRecord& run = record.run;
  Json json{{"format", kFormat},
            {"run-id", run.run_id},
            {"version", record.version},
            {"spec-id", run.spec_id},
            {"field-ids", record.field_ids},
            {"snapshot-id", run.snapshot_id},
            {"committed-ms", run.committed_millis},
            {"rows", run.rows},
            {"source-units", run.source_units},
            {"source-bytes", run.source_bytes},
            {"output-units", run.output_units},
            {"output-bytes", run.output_bytes}};
  PutDepth("depth-before", run.depth_before, &json);
  PutDepth("predicted-depth", run.predicted_depth, &json);
  PutDepth("achieved-depth", run.achieved_depth, &json);
  if (run.prediction_correction != 1) {
    PutDepth("prediction-correction", run.prediction_correction, &json);
  }
  if (run.theta > 0) {
    json["theta"] = run.theta;
    json["settled"] = run.settled;
  }
  size_t fragments = 0;
  Json& groups = json["groups"] = Json::array();
  for (const auto& group : record.groups) {
    groups.push_back(GroupToJson(group));
    fragments += group.fragments.size();
  }
  // Ids and hashes take less than 16 bytes a fragment; the rest is the model's.
  const size_t bound = kMostRecordBytes + 12 * fragments;
  std::vector<ColumnQuantiles> columns;
  columns.reserve(run.quantiles.size());
  for (const auto& column : run.quantiles) columns.push_back(ShortenStrings(column));
  std::string text;
  for (size_t most = kMostQuantiles;; most /= 2) {
    Json& quantiles = json["quantiles"] = Json::array();
    for (const auto& column : columns) {
      if (most >= 2) quantiles.push_back(QuantilesToJson(column, most));
    }
    text = DumpJson(json);
    if (text.size() <= bound || most < 2) return text;
  }
}

arrow::Result<LayoutRecord> ParseRecord(const std::string& key, std::string_view text) {
  const std::string& what = key;
  ARROW_ASSIGN_OR_RAISE(const Json json, ParseJson(text, what));
  ARROW_ASSIGN_OR_RAISE(const std::string format, GetString(json, "format", what));
  if (format != kFormat) {
    return Invalid("{}: format \"{}\" is not {}", what, format.substr(0, 60), kFormat);
  }
  LayoutRecord record;
  RunRecord& run = record.run;
  ARROW_ASSIGN_OR_RAISE(run.run_id, GetString(json, "run-id", what));
  if (!CheckRunId(run.run_id).ok() || RecordKey(run.run_id) != key) {
    return Invalid("{}: it is the record of another run", what);
  }
  ARROW_ASSIGN_OR_RAISE(record.version, GetCount(json, "version", what));
  if (record.version == 0) return Invalid("{}: its version is 0", what);
  ARROW_ASSIGN_OR_RAISE(run.spec_id, GetString(json, "spec-id", what));
  ARROW_ASSIGN_OR_RAISE(const Json* field_ids, GetArray(json, "field-ids", what));
  if (field_ids->empty() || field_ids->size() > kMostColumns) {
    return Invalid("{}: it has {} clustering columns", what, field_ids->size());
  }
  for (const Json& id : *field_ids) {
    if (!id.is_number_integer() || id.get<double>() < 0 || id.get<double>() > INT32_MAX) {
      return Invalid("{}: a field id is not a number", what);
    }
    record.field_ids.push_back(id.get<int32_t>());
  }
  ARROW_ASSIGN_OR_RAISE(run.snapshot_id, GetString(json, "snapshot-id", what));
  ARROW_ASSIGN_OR_RAISE(run.committed_millis, GetCount(json, "committed-ms", what));
  ARROW_ASSIGN_OR_RAISE(run.rows, GetCount(json, "rows", what));
  ARROW_ASSIGN_OR_RAISE(run.source_units, GetCount(json, "source-units", what));
  ARROW_ASSIGN_OR_RAISE(run.source_bytes, GetCount(json, "source-bytes", what));
  ARROW_ASSIGN_OR_RAISE(run.output_units, GetCount(json, "output-units", what));
  ARROW_ASSIGN_OR_RAISE(run.output_bytes, GetCount(json, "output-bytes", what));
  ARROW_ASSIGN_OR_RAISE(run.depth_before, FindDepth(json, "depth-before", what));
  ARROW_ASSIGN_OR_RAISE(run.predicted_depth, FindDepth(json, "predicted-depth", what));
  ARROW_ASSIGN_OR_RAISE(run.achieved_depth, FindDepth(json, "achieved-depth", what));
  ARROW_ASSIGN_OR_RAISE(const double correction, FindDepth(json, "prediction-correction", what));
  if (correction > 0) run.prediction_correction = correction;
  ARROW_ASSIGN_OR_RAISE(const double theta, FindDepth(json, "theta", what));
  if (theta > 0 && theta < 1) {
    run.theta = theta;
    const auto settled = json.find("settled");
    run.settled = settled != json.end() && settled->is_boolean() && settled->get<bool>();
  }
  ARROW_ASSIGN_OR_RAISE(const Json* groups, GetArray(json, "groups", what));
  std::set<std::string> group_ids;
  std::set<uint64_t> fragment_ids;
  for (const Json& entry : *groups) {
    ARROW_ASSIGN_OR_RAISE(auto group, GroupFromJson(entry, what));
    if (!group_ids.insert(group.id).second) return Invalid("{}: group {} twice", what, group.id);
    for (const auto& fragment : group.fragments) {
      if (!fragment_ids.insert(fragment.id).second) {
        return Invalid("{}: fragment {} twice", what, fragment.id);
      }
    }
    record.groups.push_back(std::move(group));
  }
  ARROW_ASSIGN_OR_RAISE(const Json* quantiles, GetArray(json, "quantiles", what));
  if (quantiles->size() > kMostColumns) {
    return Invalid("{}: quantiles of {} columns", what, quantiles->size());
  }
  for (const Json& column : *quantiles) {
    ARROW_ASSIGN_OR_RAISE(auto one, QuantilesFromJson(column, what));
    run.quantiles.push_back(std::move(one));
  }
  return record;
}

bool IsOtherFormat(std::string_view text) {
  const auto json = ParseJson(text, "");
  if (!json.ok()) return false;
  const auto format = GetString(*json, "format", "");
  return format.ok() && format->starts_with(kFormatPrefix) && *format != kFormat;
}

}  // namespace thalweg::lance
