#include "task/envelope.h"

#include <arrow/util/base64.h>
#include <xxhash.h>

#include <algorithm>
#include <set>

#include "layout/cube_map.h"
#include "table/run_tag.h"
#include "task/hex128.h"
#include "task/row_digest.h"
#include "util/status.h"

namespace thalweg {
namespace {

constexpr char kTaskTag[] = "thalweg.cluster-task/";
constexpr char kResultTag[] = "thalweg.cluster-result/";
constexpr char kSelectionTag[] = "thalweg.cluster-selection/";
constexpr char kScanTag[] = "thalweg.cluster-scan/";
constexpr int kVersion = 1;
constexpr int64_t kMaxSlices = 1000000;

arrow::Status CheckTag(const Json& json, const char* tag, const std::string& what) {
  ARROW_ASSIGN_OR_RAISE(auto type, GetString(json, "type", what));
  const std::string_view prefix(tag);
  if (!type.starts_with(prefix)) {
    return Invalid("{}: its type is \"{}\", not \"{}{}\"", what, type.substr(0, 60), tag, kVersion);
  }
  if (type.substr(prefix.size()) != std::to_string(kVersion)) {
    return Invalid("{}: unknown version \"{}\"; this program knows \"{}{}\"", what,
                   type.substr(0, 60), tag, kVersion);
  }
  return arrow::Status::OK();
}

/// A URI without the user and password that it may carry.
std::string WithoutCredentials(const std::string& name) {
  const size_t scheme = name.find("://");
  if (scheme == std::string::npos) return name;
  const size_t begin = scheme + 3;
  const size_t at = name.substr(0, name.find('/', begin)).rfind('@');
  return at == std::string::npos || at < begin ? name : name.substr(0, begin) + name.substr(at + 1);
}

Json SpecToJson(const ClusteringSpec& spec) {
  Json columns = Json::array();
  for (const auto& column : spec.columns) {
    columns.push_back(Json{{"name", column.name}, {"field-id", column.field_id}});
  }
  return Json{{"spec-id", spec.SpecId()},
              {"columns", std::move(columns)},
              {"curve", ToString(spec.curve)},
              {"bits-per-dim", spec.bits_per_dim},
              {"algorithm", ToString(spec.algorithm)},
              {"target-cube-size-bytes", spec.target_cube_bytes},
              {"min-cube-size-bytes", spec.min_cube_bytes},
              {"policy", ToString(spec.policy)},
              {"theta", spec.theta},
              {"version", spec.version}};
}

arrow::Result<int> GetInt(const Json& json, const char* key, int64_t low, int64_t high,
                          const std::string& what) {
  ARROW_ASSIGN_OR_RAISE(auto value, GetInt64(json, key, what));
  if (value < low || value > high) {
    return Invalid("{}: \"{}\" is {}, not within {}..{}", what, key, value, low, high);
  }
  return static_cast<int>(value);
}

arrow::Result<ClusteringSpec> SpecFromJson(const Json& json, const std::string& what) {
  ClusteringSpec spec;
  ARROW_ASSIGN_OR_RAISE(const Json* columns, GetArray(json, "columns", what));
  for (const Json& column : *columns) {
    ClusteringColumn one;
    ARROW_ASSIGN_OR_RAISE(one.name, GetString(column, "name", what));
    ARROW_ASSIGN_OR_RAISE(one.field_id, GetInt(column, "field-id", INT32_MIN, INT32_MAX, what));
    spec.columns.push_back(std::move(one));
  }
  ARROW_ASSIGN_OR_RAISE(auto curve, GetString(json, "curve", what));
  ARROW_ASSIGN_OR_RAISE(spec.curve, ParseCurve(curve));
  ARROW_ASSIGN_OR_RAISE(spec.bits_per_dim, GetInt(json, "bits-per-dim", 1, 32, what));
  ARROW_ASSIGN_OR_RAISE(auto algorithm, GetString(json, "algorithm", what));
  ARROW_ASSIGN_OR_RAISE(spec.algorithm, ParseAlgorithm(algorithm));
  ARROW_ASSIGN_OR_RAISE(spec.target_cube_bytes, GetInt64(json, "target-cube-size-bytes", what));
  ARROW_ASSIGN_OR_RAISE(spec.min_cube_bytes, GetInt64(json, "min-cube-size-bytes", what));
  ARROW_ASSIGN_OR_RAISE(auto policy, GetString(json, "policy", what));
  ARROW_ASSIGN_OR_RAISE(spec.policy, ParsePolicy(policy));
  ARROW_ASSIGN_OR_RAISE(spec.theta, GetDouble(json, "theta", what));
  ARROW_ASSIGN_OR_RAISE(spec.version, GetInt64(json, "version", what));
  if (auto valid = spec.Validate(); !valid.ok()) return Invalid("{}: {}", what, valid.message());
  ARROW_ASSIGN_OR_RAISE(auto spec_id, GetString(json, "spec-id", what));
  if (spec_id != spec.SpecId()) {
    return Invalid("{}: its spec id {} is not that of its clustering ({})", what,
                   spec_id.substr(0, 40), spec.SpecId());
  }
  return spec;
}

Json SourcesToJson(const std::vector<UnitDescriptor>& sources) {
  Json list = Json::array();
  for (const auto& unit : sources) {
    Json json{
        {"id", unit.id}, {"rows", unit.rows}, {"bytes", unit.bytes}, {"descriptor", unit.json}};
    if (!unit.rows_exact) json["rows-exact"] = false;
    list.push_back(std::move(json));
  }
  return list;
}

arrow::Result<std::vector<UnitDescriptor>> SourcesFromJson(const Json& json,
                                                           const std::string& what) {
  ARROW_ASSIGN_OR_RAISE(const Json* list, GetArray(json, "sources", what));
  if (list->empty()) return Invalid("{}: an empty task: no source units", what);
  std::vector<UnitDescriptor> sources;
  std::set<std::string> ids;
  for (const Json& entry : *list) {
    UnitDescriptor unit;
    ARROW_ASSIGN_OR_RAISE(unit.id, GetString(entry, "id", what));
    ARROW_ASSIGN_OR_RAISE(unit.rows, GetCount(entry, "rows", what));
    ARROW_ASSIGN_OR_RAISE(unit.bytes, GetCount(entry, "bytes", what));
    ARROW_ASSIGN_OR_RAISE(const Json* descriptor, GetObject(entry, "descriptor", what));
    unit.json = *descriptor;
    if (entry.contains("rows-exact")) {
      ARROW_ASSIGN_OR_RAISE(unit.rows_exact, GetBool(entry, "rows-exact", what));
    }
    if (!ids.insert(unit.id).second) return Invalid("{}: source unit {} twice", what, unit.id);
    sources.push_back(std::move(unit));
  }
  return sources;
}

Json PlannedToJson(const PlannedRun& planned) {
  return Json{{"depth-before", planned.depth_before},
              {"predicted-depth", planned.predicted_depth},
              {"correction", planned.correction},
              {"theta", planned.theta},
              {"settled", planned.settled}};
}

arrow::Result<PlannedRun> PlannedFromJson(const Json& json, const std::string& what) {
  PlannedRun planned;
  ARROW_ASSIGN_OR_RAISE(const Json* object, GetObject(json, "planned", what));
  ARROW_ASSIGN_OR_RAISE(planned.depth_before, GetDouble(*object, "depth-before", what));
  ARROW_ASSIGN_OR_RAISE(planned.predicted_depth, GetDouble(*object, "predicted-depth", what));
  ARROW_ASSIGN_OR_RAISE(planned.correction, GetDouble(*object, "correction", what));
  ARROW_ASSIGN_OR_RAISE(planned.theta, GetDouble(*object, "theta", what));
  const auto settled = object->find("settled");
  if (!(planned.correction > 0) || !(planned.theta >= 0 && planned.theta < 1) ||
      settled == object->end() || !settled->is_boolean()) {
    return Invalid("{}: \"planned\" is malformed", what);
  }
  planned.settled = settled->get<bool>();
  return planned;
}

Json TaskToJson(const TaskEnvelope& task, bool with_model) {
  Json json{{"type", fmt::format("{}{}", kTaskTag, kVersion)},
            {"table", WithoutCredentials(task.table)},
            {"snapshot-id", task.snapshot_id},
            {"spec", SpecToJson(task.spec)},
            {"run-id", task.run_id},
            {"selection-id", task.selection_id},
            {"task", task.task},
            {"slice", task.slice},
            {"slices", task.slices},
            {"key-begin", ToHex128(task.key_begin)},
            {"key-end", task.key_end ? Json(ToHex128(*task.key_end)) : Json()},
            {"fitted-hash", task.fitted_hash}};
  if (with_model && !task.fitted_file.empty()) {
    json["fitted-file"] = task.fitted_file;
  } else if (with_model) {
    json["fitted"] = arrow::util::base64_encode(task.fitted);
  }
  json["schema-id"] = std::to_string(task.schema_id);
  json["selection-rows"] = task.selection_rows;
  json["target-file-bytes"] = task.target_file_bytes;
  json["target-file-rows"] = task.target_file_rows;
  json["target-row-group-bytes"] = task.target_row_group_bytes;
  json["planned"] = PlannedToJson(task.planned);
  json["sources"] = SourcesToJson(task.sources);
  return json;
}

arrow::Status ReadSlice(const Json& json, const std::string& what, TaskEnvelope* task) {
  ARROW_ASSIGN_OR_RAISE(task->task, GetInt(json, "task", 0, INT32_MAX, what));
  ARROW_ASSIGN_OR_RAISE(task->slices, GetInt(json, "slices", 1, kMaxSlices, what));
  ARROW_ASSIGN_OR_RAISE(task->slice, GetInt(json, "slice", 0, task->slices - 1, what));
  ARROW_ASSIGN_OR_RAISE(auto begin, GetString(json, "key-begin", what));
  ARROW_ASSIGN_OR_RAISE(task->key_begin, ParseHex128(begin));
  ARROW_ASSIGN_OR_RAISE(auto end, FindString(json, "key-end", what));
  if (end) {
    ARROW_ASSIGN_OR_RAISE(task->key_end, ParseHex128(*end));
    if (*task->key_end <= task->key_begin) return Invalid("{}: its key range is empty", what);
  }
  if ((task->slice == 0) != (task->key_begin == 0) ||
      (task->slice == task->slices - 1) != !task->key_end) {
    return Invalid("{}: its key range is not that of slice {} of {}", what, task->slice,
                   task->slices);
  }
  return arrow::Status::OK();
}

arrow::Status ReadModel(const Json& json, const std::string& what, TaskEnvelope* task) {
  ARROW_ASSIGN_OR_RAISE(auto file, FindString(json, "fitted-file", what));
  if (file) {
    if (file->empty() || file->find('/') != std::string::npos || *file == "..") {
      return Invalid("{}: \"fitted-file\" must name a file beside the envelope", what);
    }
    task->fitted_file = *file;
    return arrow::Status::OK();
  }
  ARROW_ASSIGN_OR_RAISE(auto text, GetString(json, "fitted", what));
  auto bytes = arrow::util::base64_decode(text);
  if (!bytes.ok()) return Invalid("{}: \"fitted\" is not base64", what);
  task->fitted = std::move(*bytes);
  if (FittedHash(task->fitted) != task->fitted_hash) {
    return Invalid("{}: the hash of its key model differs", what);
  }
  return arrow::Status::OK();
}

arrow::Result<TaskEnvelope> TaskFromJson(const Json& json, const std::string& what, bool with_model,
                                         const char* tag = kTaskTag) {
  TaskEnvelope task;
  ARROW_RETURN_NOT_OK(CheckTag(json, tag, what));
  ARROW_ASSIGN_OR_RAISE(task.table, GetString(json, "table", what));
  ARROW_ASSIGN_OR_RAISE(task.snapshot_id, GetString(json, "snapshot-id", what));
  ARROW_ASSIGN_OR_RAISE(const Json* spec, GetObject(json, "spec", what));
  ARROW_ASSIGN_OR_RAISE(task.spec, SpecFromJson(*spec, what));
  ARROW_ASSIGN_OR_RAISE(task.run_id, GetString(json, "run-id", what));
  if (auto good = CheckRunId(task.run_id); !good.ok()) {
    return Invalid("{}: {}", what, good.message());
  }
  ARROW_ASSIGN_OR_RAISE(task.selection_id, GetString(json, "selection-id", what));
  if (!CheckRunId(task.selection_id).ok()) {
    return Invalid("{}: \"selection-id\" is no id", what);  // it becomes part of a file name
  }
  ARROW_RETURN_NOT_OK(ReadSlice(json, what, &task));
  ARROW_ASSIGN_OR_RAISE(task.fitted_hash, GetString(json, "fitted-hash", what));
  if (with_model) ARROW_RETURN_NOT_OK(ReadModel(json, what, &task));
  ARROW_ASSIGN_OR_RAISE(auto schema_id, GetString(json, "schema-id", what));
  task.schema_id = std::strtoll(schema_id.c_str(), nullptr, 10);
  if (std::to_string(task.schema_id) != schema_id) {
    return Invalid("{}: \"schema-id\" is not a number", what);
  }
  ARROW_ASSIGN_OR_RAISE(task.selection_rows, GetCount(json, "selection-rows", what));
  ARROW_ASSIGN_OR_RAISE(task.target_file_bytes, GetCount(json, "target-file-bytes", what));
  ARROW_ASSIGN_OR_RAISE(task.target_file_rows, GetInt64(json, "target-file-rows", what));
  ARROW_ASSIGN_OR_RAISE(task.target_row_group_bytes,
                        GetCount(json, "target-row-group-bytes", what));
  if (task.target_file_bytes == 0 || task.target_file_rows == 0 || task.target_file_rows < -1 ||
      task.target_row_group_bytes == 0) {
    return Invalid("{}: its target sizes must be positive", what);
  }
  ARROW_ASSIGN_OR_RAISE(task.planned, PlannedFromJson(json, what));
  ARROW_ASSIGN_OR_RAISE(task.sources, SourcesFromJson(json, what));
  int64_t rows = 0;
  bool exact = true;
  for (const auto& unit : task.sources) {
    if (unit.rows > INT64_MAX - rows) return Invalid("{}: too many rows", what);
    rows += unit.rows;
    exact = exact && unit.rows_exact;
  }
  if (task.selection_rows > rows || (exact && task.selection_rows < rows)) {
    return Invalid("{}: \"selection-rows\" is {}, its source units have {}{}", what,
                   task.selection_rows, exact ? "" : "at most ", rows);
  }
  return task;
}

Json OutputsToJson(const std::vector<OutputUnit>& outputs) {
  Json list = Json::array();
  for (const auto& unit : outputs) {
    list.push_back(Json{{"id", unit.id},
                        {"rows", unit.rows},
                        {"bytes", unit.bytes},
                        {"cube-id", unit.cube_id},
                        {"descriptor", unit.json}});
  }
  return list;
}

arrow::Result<std::vector<OutputUnit>> OutputsFromJson(const Json& json, int64_t rows,
                                                       const std::string& what) {
  ARROW_ASSIGN_OR_RAISE(const Json* list, GetArray(json, "outputs", what));
  if (list->empty() && rows > 0) {
    return Invalid("{}: an empty result: {} rows but no output units", what, rows);
  }
  std::vector<OutputUnit> outputs;
  std::set<std::string> ids;
  for (const Json& entry : *list) {
    OutputUnit unit;
    ARROW_ASSIGN_OR_RAISE(unit.id, GetString(entry, "id", what));
    ARROW_ASSIGN_OR_RAISE(unit.rows, GetCount(entry, "rows", what));
    ARROW_ASSIGN_OR_RAISE(unit.bytes, GetCount(entry, "bytes", what));
    ARROW_ASSIGN_OR_RAISE(unit.cube_id, GetString(entry, "cube-id", what));
    ARROW_ASSIGN_OR_RAISE(const Json* descriptor, GetObject(entry, "descriptor", what));
    unit.json = *descriptor;
    if (!ids.insert(unit.id).second) return Invalid("{}: output unit {} twice", what, unit.id);
    if (unit.rows > rows) {
      return Invalid("{}: its output units have more rows than it says ({})", what, rows);
    }
    rows -= unit.rows;
    outputs.push_back(std::move(unit));
  }
  if (rows != 0) return Invalid("{}: its output units lack {} of its rows", what, rows);
  return outputs;
}

// A run stands in the same form as in a cube map, whose reader checks it.
Json RunRecordToJson(const RunRecord& run) {
  CubeMap map;
  map.runs.push_back(run);
  return CubeMapToJson(map)["runs"][0];
}

arrow::Result<RunRecord> RunRecordFromJson(const Json& json, const std::string& what) {
  Json map = CubeMapToJson(CubeMap{});
  map["runs"] = Json::array({json});
  auto read = CubeMapFromJson(map);
  if (!read.ok()) return Invalid("{}: its run: {}", what, read.status().message());
  return std::move(read->runs[0]);
}

arrow::Result<DigestText> DigestFromJson(const Json& json, const char* key,
                                         const std::string& what) {
  ARROW_ASSIGN_OR_RAISE(auto text, GetString(json, key, what));
  if (!text.empty() && !RowDigest::FromHex(text).ok()) {
    return Invalid("{}: \"{}\" is no row digest", what, key);
  }
  return text;
}

}  // namespace

Json TaskEnvelope::ToJson() const { return TaskToJson(*this, /*with_model=*/true); }

arrow::Result<TaskEnvelope> TaskEnvelope::FromJson(const Json& json, const std::string& what) {
  return TaskFromJson(json, what, /*with_model=*/true);
}

std::vector<TaskEnvelope> SelectionEnvelope::Tasks() const {
  std::vector<TaskEnvelope> tasks;
  TaskEnvelope one = task;
  one.slices = static_cast<int>(borders.size()) + 1;
  for (int slice = 0; slice < one.slices; ++slice) {
    one.task = task.task + slice;
    one.slice = slice;
    one.key_begin = slice == 0 ? 0 : borders[slice - 1];
    one.key_end = slice + 1 == one.slices ? std::nullopt : std::optional(borders[slice]);
    tasks.push_back(one);
  }
  return tasks;
}

Json SelectionEnvelope::ToJson() const {
  Json json = TaskToJson(task, fitted());
  json["type"] = fmt::format("{}{}", kSelectionTag, kVersion);
  json["borders"] = Json::array();
  for (const Key128 border : borders) json["borders"].push_back(ToHex128(border));
  return json;
}

arrow::Result<SelectionEnvelope> SelectionEnvelope::FromJson(const Json& json,
                                                             const std::string& what) {
  SelectionEnvelope selection;
  ARROW_ASSIGN_OR_RAISE(const auto hash, FindString(json, "fitted-hash", what));
  ARROW_ASSIGN_OR_RAISE(
      selection.task,
      TaskFromJson(json, what, /*with_model=*/hash && !hash->empty(), kSelectionTag));
  if (selection.task.slices != 1) return Invalid("{}: a selection is not a slice", what);
  ARROW_ASSIGN_OR_RAISE(const Json* borders, GetArray(json, "borders", what));
  if (static_cast<int64_t>(borders->size()) >= kMaxSlices) {
    return Invalid("{}: {} borders", what, borders->size());
  }
  for (const Json& text : *borders) {
    if (!text.is_string()) return Invalid("{}: \"borders\" must be texts", what);
    ARROW_ASSIGN_OR_RAISE(const Key128 border, ParseHex128(text.get<std::string>()));
    if (border <= (selection.borders.empty() ? Key128{0} : selection.borders.back())) {
      return Invalid("{}: its borders are not in order", what);
    }
    selection.borders.push_back(border);
  }
  if (!selection.fitted() && !selection.borders.empty()) {
    return Invalid("{}: borders without a key model", what);
  }
  return selection;
}

Json ScanReport::ToJson() const {
  Json list = Json::array();
  for (const auto& piece : pieces) {
    list.push_back(Json{{"file", piece.file},
                        {"slice", piece.slice},
                        {"rows", piece.rows},
                        {"bytes", piece.bytes}});
  }
  return Json{{"type", fmt::format("{}{}", kScanTag, kVersion)},
              {"run-id", run_id},
              {"selection-id", selection_id},
              {"fitted-hash", fitted_hash},
              {"first-unit", first_unit},
              {"end-unit", end_unit},
              {"rows", rows},
              {"digest", digest},
              {"pieces", std::move(list)}};
}

arrow::Result<ScanReport> ScanReport::FromJson(const Json& json, const std::string& what) {
  ScanReport report;
  ARROW_RETURN_NOT_OK(CheckTag(json, kScanTag, what));
  ARROW_ASSIGN_OR_RAISE(report.run_id, GetString(json, "run-id", what));
  ARROW_ASSIGN_OR_RAISE(report.selection_id, GetString(json, "selection-id", what));
  ARROW_ASSIGN_OR_RAISE(report.fitted_hash, GetString(json, "fitted-hash", what));
  ARROW_ASSIGN_OR_RAISE(report.first_unit, GetInt(json, "first-unit", 0, INT32_MAX, what));
  ARROW_ASSIGN_OR_RAISE(report.end_unit,
                        GetInt(json, "end-unit", report.first_unit, INT32_MAX, what));
  ARROW_ASSIGN_OR_RAISE(report.rows, GetCount(json, "rows", what));
  ARROW_ASSIGN_OR_RAISE(report.digest, DigestFromJson(json, "digest", what));
  ARROW_ASSIGN_OR_RAISE(const Json* pieces, GetArray(json, "pieces", what));
  int64_t left = report.rows;
  for (const Json& entry : *pieces) {
    Piece piece;
    ARROW_ASSIGN_OR_RAISE(piece.file, GetString(entry, "file", what));
    ARROW_ASSIGN_OR_RAISE(piece.slice, GetInt(entry, "slice", 0, kMaxSlices, what));
    ARROW_ASSIGN_OR_RAISE(piece.rows, GetCount(entry, "rows", what));
    ARROW_ASSIGN_OR_RAISE(piece.bytes, GetCount(entry, "bytes", what));
    if (piece.rows > left) return Invalid("{}: its pieces have more rows than were read", what);
    left -= piece.rows;
    report.pieces.push_back(std::move(piece));
  }
  if (left != 0) return Invalid("{}: its pieces lack {} of its rows", what, left);
  return report;
}

Json ResultEnvelope::ToJson() const {
  Json json{{"type", fmt::format("{}{}", kResultTag, kVersion)},
            {"task", TaskToJson(task, /*with_model=*/false)},
            {"attempt-id", attempt_id},
            {"rows", rows},
            {"input-digest", input_digest},
            {"output-digest", output_digest},
            {"seconds", seconds},
            {"spilled-bytes", spilled_bytes},
            {"peak-memory-bytes", peak_memory_bytes},
            {"run", RunRecordToJson(run)},
            {"outputs", OutputsToJson(outputs)}};
  if (from_pieces) json["from-pieces"] = true;
  return json;
}

arrow::Result<ResultEnvelope> ResultEnvelope::FromJson(const Json& json, const std::string& what) {
  ResultEnvelope result;
  ARROW_RETURN_NOT_OK(CheckTag(json, kResultTag, what));
  ARROW_ASSIGN_OR_RAISE(const Json* task, GetObject(json, "task", what));
  ARROW_ASSIGN_OR_RAISE(result.task, TaskFromJson(*task, what, /*with_model=*/false));
  ARROW_ASSIGN_OR_RAISE(result.attempt_id, GetString(json, "attempt-id", what));
  ARROW_ASSIGN_OR_RAISE(result.rows, GetCount(json, "rows", what));
  ARROW_ASSIGN_OR_RAISE(result.input_digest, DigestFromJson(json, "input-digest", what));
  ARROW_ASSIGN_OR_RAISE(result.output_digest, DigestFromJson(json, "output-digest", what));
  if (result.input_digest.empty() != result.output_digest.empty()) {
    return Invalid("{}: only one of its two row digests is there", what);
  }
  if (json.contains("from-pieces")) {
    ARROW_ASSIGN_OR_RAISE(result.from_pieces, GetBool(json, "from-pieces", what));
  }
  ARROW_ASSIGN_OR_RAISE(result.seconds, GetDouble(json, "seconds", what));
  ARROW_ASSIGN_OR_RAISE(result.spilled_bytes, GetCount(json, "spilled-bytes", what));
  ARROW_ASSIGN_OR_RAISE(result.peak_memory_bytes, GetCount(json, "peak-memory-bytes", what));
  ARROW_ASSIGN_OR_RAISE(const Json* run, GetObject(json, "run", what));
  ARROW_ASSIGN_OR_RAISE(result.run, RunRecordFromJson(*run, what));
  ARROW_ASSIGN_OR_RAISE(result.outputs, OutputsFromJson(json, result.rows, what));
  return result;
}

int64_t SchemaId(const arrow::Schema& schema) {
  std::string text;
  for (const auto& field : schema.fields()) {
    text += fmt::format("{}:{}|{}|{}\n", field->name().size(), field->name(),
                        field->type()->ToString(), field->nullable());
  }
  return static_cast<int64_t>(XXH3_64bits(text.data(), text.size()) >> 1);
}

}  // namespace thalweg
