#include "lance/bridge.h"

#include <arrow/c/bridge.h>
#include <dlfcn.h>
#include <thalweg_lance.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "util/crash_point.h"
#include "util/status.h"

namespace thalweg::lance {
namespace {

namespace fs = std::filesystem;

constexpr char kLibrary[] = "libthalweg_lance.so";
constexpr char kVariable[] = "THALWEG_LANCE_BRIDGE";
constexpr char kAnswer[] = "the Lance library's answer";

#define THALWEG_LANCE_FUNCTIONS(F) \
  F(abi_version)                   \
  F(crate_version)                 \
  F(last_error)                    \
  F(string_free)                   \
  F(open)                          \
  F(close)                         \
  F(create)                        \
  F(describe)                      \
  F(schema)                        \
  F(latest_version)                \
  F(transactions)                  \
  F(scan)                          \
  F(zones)                         \
  F(writer_open)                   \
  F(writer_write)                  \
  F(writer_bytes)                  \
  F(writer_finish)                 \
  F(writer_close)                  \
  F(data_file_info)                \
  F(commit_fragments)              \
  F(reserve_fragments)             \
  F(commit_rewrite)                \
  F(update_metadata)               \
  F(refresh_zone_maps)             \
  F(check_sources)                 \
  F(unify_indices)                 \
  F(list_files)                    \
  F(read_file)                     \
  F(bytes_free)                    \
  F(write_file)                    \
  F(delete_file)                   \
  F(referenced_files)

/// The functions of the loaded library.
struct Api {
#define THALWEG_LANCE_POINTER(name) decltype(&thalweg_lance_##name) name = nullptr;
  THALWEG_LANCE_FUNCTIONS(THALWEG_LANCE_POINTER)
#undef THALWEG_LANCE_POINTER
};

/// Where the library may be: beside the program, beside the library or module that this code is
/// part of, where the environment says.
std::vector<std::string> Candidates() {
  std::vector<std::string> paths;
  std::error_code error;
  if (const fs::path program = fs::read_symlink("/proc/self/exe", error); !error) {
    paths.push_back((program.parent_path().parent_path() / "lib" / kLibrary).string());
  }
  Dl_info self;
  if (dladdr(kLibrary, &self) != 0 && self.dli_fname != nullptr) {
    const fs::path module = fs::absolute(self.dli_fname, error);
    if (!error) paths.push_back((module.parent_path() / kLibrary).string());
  }
  if (const char* set = std::getenv(kVariable); set != nullptr && *set != '\0') {
    paths.emplace_back(set);
  }
  return paths;
}

arrow::Result<Api> LoadApi() {
  std::string looked;
  std::string path;
  for (const auto& candidate : Candidates()) {
    std::error_code error;
    if (fs::exists(candidate, error)) {
      path = candidate;
      break;
    }
    looked += (looked.empty() ? "" : ", ") + candidate;
  }
  if (path.empty()) {
    return Invalid(
        "Lance datasets need the library {}, which is not there (looked for {}; {} may name it): "
        "`make` builds it, with Rust; Iceberg tables work without it",
        kLibrary, looked, kVariable);
  }
  // Never closed: it has threads of its own.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    return Invalid("the library for Lance datasets cannot be loaded: {}", why ? why : path);
  }
  Api api;
  std::string missing;
#define THALWEG_LANCE_RESOLVE(name)                                                        \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(library, "thalweg_lance_" #name)); \
  if (api.name == nullptr && missing.empty()) missing = "thalweg_lance_" #name;
  THALWEG_LANCE_FUNCTIONS(THALWEG_LANCE_RESOLVE)
#undef THALWEG_LANCE_RESOLVE
  const int found = api.abi_version == nullptr ? 0 : api.abi_version();
  if (found != THALWEG_LANCE_ABI_VERSION) {
    return Invalid(
        "{}: its interface is version {}, this program needs {}: build both anew with `make`", path,
        found, THALWEG_LANCE_ABI_VERSION);
  }
  if (!missing.empty()) return Invalid("{}: it has no function {}", path, missing);
  return api;
}

arrow::Result<const Api*> Load() {
  static const arrow::Result<Api> api = LoadApi();
  ARROW_RETURN_NOT_OK(api.status());
  return &*api;
}

/// Of a process that has a dataset already.
const Api& Loaded() { return **Load(); }

/// The failure of the call that this thread has just made.
arrow::Status Check(const Api& api, int code) {
  if (code == THALWEG_LANCE_OK) return arrow::Status::OK();
  const char* text = api.last_error();
  std::string message = text == nullptr || *text == '\0' ? "the Lance library failed" : text;
  switch (code) {
    case THALWEG_LANCE_CONFLICT:
      return Failure(FailureKind::kConflict, std::move(message));
    case THALWEG_LANCE_UNKNOWN:
      return Failure(FailureKind::kUnknown, std::move(message));
    case THALWEG_LANCE_NOT_FOUND:
      return arrow::Status::KeyError(message);
    case THALWEG_LANCE_ALREADY_EXISTS:
      return arrow::Status::AlreadyExists(message);
    case THALWEG_LANCE_IO:
      return arrow::Status::IOError(message);
    case THALWEG_LANCE_NOT_SUPPORTED:
      return arrow::Status::NotImplemented(message);
    case THALWEG_LANCE_INVALID:
      return arrow::Status::Invalid(message);
    default:
      return Invalid("fault within the Lance library: {}", message);
  }
}

/// The text that a call gave, freed.
std::string Take(const Api& api, char* text) {
  std::string copy = text == nullptr ? "" : text;
  api.string_free(text);
  return copy;
}

/// A call whose last argument receives JSON.
template <typename Call>
arrow::Result<Json> JsonOf(const Call& call) {
  const Api& api = Loaded();
  char* text = nullptr;
  ARROW_RETURN_NOT_OK(Check(api, call(api, &text)));
  return ParseJson(Take(api, text), kAnswer);
}

std::string OptionsText(const Properties& options) {
  Json json = Json::object();
  for (const auto& [key, value] : options) json[key] = value;
  return DumpJson(json);
}

void CrashPointOf(const char* name) { CrashPoint(name); }

}  // namespace

bool IsNotFound(const arrow::Status& status) { return status.IsKeyError(); }

DataWriter::~DataWriter() {
  if (handle_ != nullptr) Loaded().writer_close(handle_);
}

arrow::Status DataWriter::Write(const arrow::RecordBatch& batch) {
  ArrowArray array;
  ArrowSchema schema;
  ARROW_RETURN_NOT_OK(arrow::ExportRecordBatch(batch, &array, &schema));
  return Check(Loaded(), Loaded().writer_write(handle_, &array, &schema));
}

arrow::Result<int64_t> DataWriter::bytes() const {
  int64_t bytes = 0;
  ARROW_RETURN_NOT_OK(Check(Loaded(), Loaded().writer_bytes(handle_, &bytes)));
  return bytes;
}

arrow::Result<Json> DataWriter::Finish() {
  return JsonOf([&](const Api& api, char** out) { return api.writer_finish(handle_, out); });
}

arrow::Result<std::shared_ptr<const Dataset>> Dataset::Open(const std::string& uri,
                                                            const Properties& options,
                                                            uint64_t version) {
  ARROW_ASSIGN_OR_RAISE(const Api* api, Load());
  ThalwegLanceDataset* handle = nullptr;
  ARROW_RETURN_NOT_OK(
      Check(*api, api->open(uri.c_str(), OptionsText(options).c_str(), version, &handle)));
  return std::make_shared<const Dataset>(handle);
}

arrow::Result<std::shared_ptr<const Dataset>> Dataset::Create(const std::string& uri,
                                                              const Properties& options,
                                                              const arrow::Schema& schema,
                                                              const Json& request) {
  ARROW_ASSIGN_OR_RAISE(const Api* api, Load());
  ArrowSchema exported;
  ARROW_RETURN_NOT_OK(arrow::ExportSchema(schema, &exported));
  ThalwegLanceDataset* handle = nullptr;
  ARROW_RETURN_NOT_OK(Check(*api, api->create(uri.c_str(), OptionsText(options).c_str(), &exported,
                                              DumpJson(request).c_str(), &handle)));
  return std::make_shared<const Dataset>(handle);
}

Dataset::~Dataset() { Loaded().close(handle_); }

arrow::Result<Json> Dataset::Describe() const {
  return JsonOf([&](const Api& api, char** out) { return api.describe(handle_, out); });
}

arrow::Result<std::shared_ptr<arrow::Schema>> Dataset::Schema() const {
  ArrowSchema schema;
  ARROW_RETURN_NOT_OK(Check(Loaded(), Loaded().schema(handle_, &schema)));
  return arrow::ImportSchema(&schema);
}

arrow::Result<uint64_t> Dataset::LatestVersion() const {
  uint64_t version = 0;
  ARROW_RETURN_NOT_OK(Check(Loaded(), Loaded().latest_version(handle_, &version)));
  return version;
}

arrow::Result<Json> Dataset::Transactions(uint64_t from, uint64_t to) const {
  return JsonOf(
      [&](const Api& api, char** out) { return api.transactions(handle_, from, to, out); });
}

arrow::Result<std::shared_ptr<arrow::RecordBatchReader>> Dataset::Scan(const Json& request) const {
  ArrowArrayStream stream;
  ARROW_RETURN_NOT_OK(Check(Loaded(), Loaded().scan(handle_, DumpJson(request).c_str(), &stream)));
  return arrow::ImportRecordBatchReader(&stream);
}

arrow::Result<std::shared_ptr<arrow::RecordBatchReader>> Dataset::Zones(
    const std::string& column) const {
  ArrowArrayStream stream;
  ARROW_RETURN_NOT_OK(Check(Loaded(), Loaded().zones(handle_, column.c_str(), &stream)));
  return arrow::ImportRecordBatchReader(&stream);
}

arrow::Result<std::unique_ptr<DataWriter>> Dataset::NewDataFile(const std::string& name,
                                                                int64_t buffer_bytes) const {
  const std::string request = DumpJson(Json{{"name", name}, {"buffer_bytes", buffer_bytes}});
  ThalwegLanceWriter* writer = nullptr;
  ARROW_RETURN_NOT_OK(Check(Loaded(), Loaded().writer_open(handle_, request.c_str(), &writer)));
  return std::make_unique<DataWriter>(writer);
}

arrow::Result<Json> Dataset::DataFileInfo(const std::string& path) const {
  return JsonOf(
      [&](const Api& api, char** out) { return api.data_file_info(handle_, path.c_str(), out); });
}

arrow::Result<Json> Dataset::CommitFragments(const Json& request) const {
  return JsonOf([&](const Api& api, char** out) {
    return api.commit_fragments(handle_, DumpJson(request).c_str(), out);
  });
}

arrow::Result<Json> Dataset::ReserveFragments(const Json& request) const {
  return JsonOf([&](const Api& api, char** out) {
    return api.reserve_fragments(handle_, DumpJson(request).c_str(), out);
  });
}

arrow::Result<Json> Dataset::CommitRewrite(
    const Json& request, const std::shared_ptr<arrow::RecordBatchReader>& rows) const {
  ArrowArrayStream stream;
  if (rows != nullptr) ARROW_RETURN_NOT_OK(arrow::ExportRecordBatchReader(rows, &stream));
  return JsonOf([&](const Api& api, char** out) {
    return api.commit_rewrite(handle_, DumpJson(request).c_str(),
                              rows == nullptr ? nullptr : &stream, CrashPointOf, out);
  });
}

arrow::Result<Json> Dataset::UpdateMetadata(const Json& request) const {
  return JsonOf([&](const Api& api, char** out) {
    return api.update_metadata(handle_, DumpJson(request).c_str(), out);
  });
}

arrow::Result<Json> Dataset::RefreshZoneMaps(const Json& request) const {
  return JsonOf([&](const Api& api, char** out) {
    return api.refresh_zone_maps(handle_, DumpJson(request).c_str(), out);
  });
}

arrow::Status Dataset::CheckSources(const Json& request) const {
  return Check(Loaded(), Loaded().check_sources(handle_, DumpJson(request).c_str()));
}

arrow::Result<Json> Dataset::UnifyIndices(const Json& request) const {
  return JsonOf([&](const Api& api, char** out) {
    return api.unify_indices(handle_, DumpJson(request).c_str(), out);
  });
}

arrow::Result<std::vector<Dataset::File>> Dataset::ListFiles(const std::string& folder) const {
  ARROW_ASSIGN_OR_RAISE(const Json json, JsonOf([&](const Api& api, char** out) {
                          return api.list_files(handle_, folder.c_str(), out);
                        }));
  std::vector<File> files;
  for (const Json& entry : json) {
    File file;
    ARROW_ASSIGN_OR_RAISE(file.path, GetString(entry, "path", kAnswer));
    ARROW_ASSIGN_OR_RAISE(file.bytes, GetInt64(entry, "bytes", kAnswer));
    ARROW_ASSIGN_OR_RAISE(file.modified_millis, GetInt64(entry, "modified_millis", kAnswer));
    files.push_back(std::move(file));
  }
  return files;
}

arrow::Result<std::string> Dataset::ReadFile(const std::string& path) const {
  const Api& api = Loaded();
  uint8_t* bytes = nullptr;
  uint64_t size = 0;
  ARROW_RETURN_NOT_OK(Check(api, api.read_file(handle_, path.c_str(), &bytes, &size)));
  std::string copy;
  if (bytes != nullptr) copy.assign(reinterpret_cast<const char*>(bytes), size);
  api.bytes_free(bytes, size);
  return copy;
}

arrow::Status Dataset::WriteFile(const std::string& path, std::string_view bytes) const {
  return Check(Loaded(),
               Loaded().write_file(handle_, path.c_str(),
                                   reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()));
}

arrow::Status Dataset::DeleteFile(const std::string& path) const {
  return Check(Loaded(), Loaded().delete_file(handle_, path.c_str()));
}

arrow::Result<std::vector<std::string>> Dataset::ReferencedFiles() const {
  ARROW_ASSIGN_OR_RAISE(const Json json, JsonOf([&](const Api& api, char** out) {
                          return api.referenced_files(handle_, out);
                        }));
  std::vector<std::string> paths;
  for (const Json& path : json) {
    if (!path.is_string()) return Invalid("{}: a path is not a string", kAnswer);
    paths.push_back(path.get<std::string>());
  }
  return paths;
}

}  // namespace thalweg::lance
