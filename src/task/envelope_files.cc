#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "task/envelope.h"
#include "task/hex128.h"
#include "util/binary.h"
#include "util/read_file.h"
#include "util/status.h"
#include "util/write_file.h"

namespace thalweg {
namespace {

constexpr char kFittedMagic[] = "THWFIT01";  // eight bytes; the last two are the version
constexpr size_t kMagicSize = 8;
constexpr uint32_t kMaxSample = 65536;
constexpr size_t kInlineLimit = 256 << 10;
constexpr int64_t kMaxFileBytes = int64_t{1} << 30;

/// Takes values off the front of `bytes`; an error when it is too short.
template <typename T>
arrow::Status Take(std::string_view* bytes, T* value) {
  return TakeValue(bytes, value) ? arrow::Status::OK() : Invalid("key model: truncated");
}

/// The name of the file for a large model.
std::string ModelFile(const TaskEnvelope& task) {
  return fmt::format("fitted-{}.bin", task.selection_id);
}

}  // namespace

std::string FittedHash(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return ToHex128(static_cast<unsigned __int128>(hash.high64) << 64 | hash.low64);
}

arrow::Result<std::string> SerializeFitted(const FittedKeys& fitted) {
  ARROW_ASSIGN_OR_RAISE(auto encoder, fitted.encoder.Serialize());
  std::string out(kFittedMagic, kMagicSize);
  PutValue<int64_t>(fitted.rows, &out);
  for (const int64_t nulls : fitted.null_rows_per_column) PutValue<int64_t>(nulls, &out);
  PutValue<uint64_t>(encoder.size(), &out);
  out += encoder;
  PutValue<uint32_t>(static_cast<uint32_t>(fitted.row_sample.size()), &out);
  for (const Key128 key : fitted.row_sample) {
    if (fitted.encoder.wide()) {
      PutValue<Key128>(key, &out);
    } else {
      PutValue<Key64>(static_cast<Key64>(key), &out);
    }
  }
  return out;
}

arrow::Result<FittedKeys> DeserializeFitted(std::string_view bytes) {
  if (!bytes.starts_with(std::string_view(kFittedMagic, kMagicSize))) {
    return Invalid("key model: not one, or of an unknown version");
  }
  bytes.remove_prefix(kMagicSize);
  int64_t rows = 0;
  int64_t nulls[4];
  uint64_t encoder_size = 0;
  ARROW_RETURN_NOT_OK(Take(&bytes, &rows));
  for (int64_t& null_rows : nulls) ARROW_RETURN_NOT_OK(Take(&bytes, &null_rows));
  ARROW_RETURN_NOT_OK(Take(&bytes, &encoder_size));
  if (encoder_size > bytes.size()) return Invalid("key model: truncated");
  ARROW_ASSIGN_OR_RAISE(auto encoder, KeyEncoder::Deserialize(bytes.substr(0, encoder_size)));
  bytes.remove_prefix(encoder_size);
  FittedKeys fitted{std::move(encoder), {}, rows, {}};
  std::copy_n(nulls, 4, fitted.null_rows_per_column);
  for (const int64_t null_rows : nulls) {
    if (null_rows < 0 || null_rows > rows) return Invalid("key model: impossible row counts");
  }
  uint32_t sample = 0;
  ARROW_RETURN_NOT_OK(Take(&bytes, &sample));
  const bool wide = fitted.encoder.wide();
  if (sample > kMaxSample || bytes.size() != sample * (wide ? sizeof(Key128) : sizeof(Key64))) {
    return Invalid("key model: a row sample of {} keys in {} bytes", sample, bytes.size());
  }
  const int bits = fitted.encoder.key_bits();
  for (uint32_t i = 0; i < sample; ++i) {
    Key128 key = 0;
    if (wide) {
      ARROW_RETURN_NOT_OK(Take(&bytes, &key));
    } else {
      Key64 narrow = 0;
      ARROW_RETURN_NOT_OK(Take(&bytes, &narrow));
      key = narrow;
    }
    if ((bits < 128 && key >> bits != 0) || (i > 0 && key < fitted.row_sample.back())) {
      return Invalid("key model: its row sample is not in order");
    }
    fitted.row_sample.push_back(key);
  }
  return fitted;
}

arrow::Result<std::vector<std::string>> WriteTasks(const std::vector<TaskEnvelope>& tasks,
                                                   const std::string& folder) {
  const std::filesystem::path base(folder);
  std::vector<std::string> paths;
  std::set<std::string> models;
  for (const TaskEnvelope& task : tasks) {
    TaskEnvelope out = task;
    if (out.fitted.size() > kInlineLimit) {
      out.fitted_file = ModelFile(out);
      if (models.insert(out.fitted_file).second) {
        ARROW_RETURN_NOT_OK(WriteWholeFile(base / out.fitted_file, out.fitted, /*replace=*/false));
      }
      out.fitted.clear();
    }
    paths.push_back(base / fmt::format("task-{:05}.json", out.task));
    ARROW_RETURN_NOT_OK(WriteWholeFile(paths.back(), DumpJson(out.ToJson(), 1), /*replace=*/false));
  }
  return paths;
}

namespace {

arrow::Result<Json> ReadJsonFile(const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(auto text, ReadWholeFile(path, kMaxFileBytes));
  return ParseJson(text, path);
}

/// The model that stands in a file of its own beside the envelope.
arrow::Status ReadModelFile(const std::string& path, TaskEnvelope* task) {
  if (task->fitted_file.empty()) return arrow::Status::OK();
  const std::string model = std::filesystem::path(path).parent_path() / task->fitted_file;
  ARROW_ASSIGN_OR_RAISE(task->fitted, ReadWholeFile(model, kMaxFileBytes));
  if (FittedHash(task->fitted) != task->fitted_hash) {
    return Invalid("{}: the hash of {} differs: it belongs to another plan or is damaged", path,
                   model);
  }
  return arrow::Status::OK();
}

}  // namespace

arrow::Result<TaskEnvelope> ReadTask(const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(auto json, ReadJsonFile(path));
  ARROW_ASSIGN_OR_RAISE(auto task, TaskEnvelope::FromJson(json, path));
  ARROW_RETURN_NOT_OK(ReadModelFile(path, &task));
  return task;
}

arrow::Status WriteSelection(const SelectionEnvelope& selection, const std::string& path) {
  SelectionEnvelope out = selection;
  if (out.task.fitted.size() > kInlineLimit) {
    out.task.fitted_file = ModelFile(out.task);
    const auto model = std::filesystem::path(path).parent_path() / out.task.fitted_file;
    ARROW_RETURN_NOT_OK(WriteWholeFile(model, out.task.fitted, /*replace=*/true));
    out.task.fitted.clear();
  }
  return WriteWholeFile(path, DumpJson(out.ToJson(), 1), /*replace=*/false);
}

arrow::Result<SelectionEnvelope> ReadSelection(const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(auto json, ReadJsonFile(path));
  ARROW_ASSIGN_OR_RAISE(auto selection, SelectionEnvelope::FromJson(json, path));
  ARROW_RETURN_NOT_OK(ReadModelFile(path, &selection.task));
  return selection;
}

arrow::Status WriteScanReport(const ScanReport& report, const std::string& path) {
  return WriteWholeFile(path, DumpJson(report.ToJson(), 1), /*replace=*/false);
}

arrow::Result<ScanReport> ReadScanReport(const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(auto json, ReadJsonFile(path));
  return ScanReport::FromJson(json, path);
}

arrow::Status WriteResult(const ResultEnvelope& result, const std::string& path) {
  return WriteWholeFile(path, DumpJson(result.ToJson(), 1), /*replace=*/true);
}

arrow::Result<ResultEnvelope> ReadResult(const std::string& path) {
  ARROW_ASSIGN_OR_RAISE(auto json, ReadJsonFile(path));
  return ResultEnvelope::FromJson(json, path);
}

}  // namespace thalweg
