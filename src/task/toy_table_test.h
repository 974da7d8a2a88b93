#pragma once

// A tiny table format in a folder, for tests: data files are Arrow IPC files, the state is one JSON
// document per version (metadata/v<N>.json), committed by linking it into place. Several processes
// may use one folder.

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/ipc/api.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>

#include "key/encoded_value.h"
#include "table/run_tag.h"
#include "table/table.h"
#include "util/status.h"
#include "util/uuid.h"

namespace thalweg::testing {

namespace fs = std::filesystem;

#define ASSERT_OK(expression)                              \
  do {                                                     \
    const arrow::Status ok_status_ = (expression);         \
    ASSERT_TRUE(ok_status_.ok()) << ok_status_.ToString(); \
  } while (false)
#define EXPECT_OK(expression)                              \
  do {                                                     \
    const arrow::Status ok_status_ = (expression);         \
    EXPECT_TRUE(ok_status_.ok()) << ok_status_.ToString(); \
  } while (false)

template <typename T>
T Value(arrow::Result<T> result) {
  if (!result.ok()) {
    ADD_FAILURE() << result.status().ToString();
    throw std::runtime_error(result.status().ToString());
  }
  return std::move(result).ValueUnsafe();
}

/// A folder that goes away with its owner.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (fs::temp_directory_path() / "thalweg-test-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~TempFolder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

inline std::string ReadText(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline void WriteText(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline std::shared_ptr<arrow::Schema> ToySchema() {
  return arrow::schema({arrow::field("id", arrow::int64(), false),
                        arrow::field("user", arrow::int64()), arrow::field("name", arrow::utf8()),
                        arrow::field("amount", arrow::float64())});
}

/// Random rows of ToySchema; ids from `first_id` on.
inline std::shared_ptr<arrow::RecordBatch> ToyRows(int64_t first_id, int64_t rows, uint64_t seed) {
  std::mt19937_64 random(seed);
  arrow::Int64Builder id, user;
  arrow::StringBuilder name;
  arrow::DoubleBuilder amount;
  for (int64_t i = 0; i < rows; ++i) {
    EXPECT_OK(id.Append(first_id + i));
    EXPECT_OK(random() % 50 == 0 ? user.AppendNull() : user.Append(random() % 100000));
    EXPECT_OK(random() % 70 == 0 ? name.AppendNull()
                                 : name.Append("customer-" + std::to_string(random() % 5000)));
    EXPECT_OK(amount.Append(static_cast<double>(random() % 1000000) / 100));
  }
  return arrow::RecordBatch::Make(ToySchema(), rows,
                                  {id.Finish().ValueOrDie(), user.Finish().ValueOrDie(),
                                   name.Finish().ValueOrDie(), amount.Finish().ValueOrDie()});
}

/// Each row as text: a multiset to compare tables by, independent of the row digest.
inline std::multiset<std::string> RowTexts(const arrow::RecordBatch& batch) {
  std::multiset<std::string> rows;
  for (int64_t i = 0; i < batch.num_rows(); ++i) {
    std::string row;
    for (int c = 0; c < batch.num_columns(); ++c) {
      row += batch.column(c)->GetScalar(i).ValueOrDie()->ToString() + "|";
    }
    rows.insert(std::move(row));
  }
  return rows;
}

/// What a test makes go wrong. Counts are over all files of the table object.
struct ToyFaults {
  std::function<arrow::Status()> before_commit;  ///< at the beginning of each commit
  std::function<arrow::Status()>
      after_commit;  ///< once the new state is in place: its failure is the commit's
  std::function<arrow::Status()> on_write;  ///< at each batch written
  /// May change a batch on its way into the file, unseen by whoever wrote it.
  std::function<std::shared_ptr<arrow::RecordBatch>(std::shared_ptr<arrow::RecordBatch>)> alter;
};

class ToyTable : public Table {
 public:
  explicit ToyTable(fs::path folder, std::shared_ptr<arrow::Schema> schema = ToySchema())
      : folder_(std::move(folder)), name_(folder_.string()), schema_(std::move(schema)) {
    fs::create_directories(folder_ / "data");
    fs::create_directories(folder_ / "metadata");
    if (LatestVersion() == 0) {
      EXPECT_OK(Swap(0, Json{{"spec", nullptr}, {"snapshots", Json::array()}}));
    }
    EXPECT_OK(Refresh());
  }

  ToyFaults faults;
  std::string not_writable;
  OutputSizes sizes{int64_t{64} << 10, int64_t{16} << 10};

  // The state of the table, for tests.
  int snapshots() const { return static_cast<int>(Latest()["snapshots"].size()); }
  std::vector<std::string> FilesIn(const char* sub) const {
    std::vector<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ / sub)) {
      if (entry.is_regular_file()) names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  std::vector<std::string> Intents() const {
    auto names = FilesIn("metadata");
    std::erase_if(names, [](const auto& name) { return !name.starts_with("thalweg-run-"); });
    return names;
  }
  /// All live rows of the newest snapshot.
  std::multiset<std::string> Rows() {
    EXPECT_OK(Refresh());
    std::multiset<std::string> rows;
    for (const auto& unit : UnitsOf(state_)) {
      rows.merge(RowTexts(*ReadUnit(Descriptor(unit), {}, nullptr)));
    }
    return rows;
  }
  /// Another engine's commits: an unclustered file; a row-level delete; one file replaced by an
  /// equal copy.
  void Append(const std::shared_ptr<arrow::RecordBatch>& batch) {
    OutputContext context;
    context.run_id = "foreign";
    context.attempt_id = NewUuid();
    auto file = Value(NewOutputFile(context, "", 0));
    EXPECT_OK(file->Write(*batch));
    const auto unit = Value(file->Finish());
    EXPECT_OK(Change("append", "", [&](Json& files) {
                files.push_back(unit.json);
                return arrow::Status::OK();
              }).status());
    EXPECT_OK(Refresh());
  }
  void DeleteRows(const std::string& path, const std::vector<int64_t>& rows) {
    EXPECT_OK(Change("delete", "", [&](Json& files) {
                for (auto& file : files) {
                  if (file["path"] != path) continue;
                  for (const int64_t row : rows) file["deleted"].push_back(row);
                  return arrow::Status::OK();
                }
                return arrow::Status::Invalid("no such file ", path);
              }).status());
    EXPECT_OK(Refresh());
  }
  std::vector<std::string> Paths() {
    EXPECT_OK(Refresh());
    std::vector<std::string> paths;
    for (const auto& unit : UnitsOf(state_)) paths.push_back(unit["path"]);
    return paths;
  }
  void Declare(const ClusteringSpec& spec) {
    Json columns = Json::array();
    for (const auto& column : spec.columns) columns.push_back(column.name);
    ReplaceSpec(Json{{"columns", columns},
                     {"bits", spec.bits_per_dim},
                     {"target", spec.target_cube_bytes},
                     {"min", spec.min_cube_bytes},
                     {"theta", spec.theta}});
  }

  const std::string& name() const override { return name_; }
  std::string format() const override { return "toy"; }
  std::string location() const override { return folder_; }
  std::string snapshot_id() const override {
    const auto& snapshots = state_["snapshots"];
    return snapshots.empty() ? "" : snapshots.back()["id"].get<std::string>();
  }
  arrow::Status Refresh() override {
    state_ = Latest();
    return arrow::Status::OK();
  }
  arrow::Status CheckWritable() const override {
    return not_writable.empty() ? arrow::Status::OK() : Invalid("{}", not_writable);
  }
  arrow::Result<std::shared_ptr<arrow::Schema>> schema() const override { return schema_; }
  arrow::Result<ClusteringColumn> ResolveColumn(const std::string& name) const override {
    const int at = schema_->GetFieldIndex(name);
    if (at < 0) return Invalid("no column {}", name);
    return ClusteringColumn{name, at + 1};
  }
  arrow::Result<OutputSizes> output_sizes() const override { return sizes; }

  arrow::Result<Declaration> declaration() const override { return DeclarationOf(state_); }
  arrow::Result<bool> SetDeclaration(const ClusteringSpec& spec, std::optional<int64_t>,
                                     bool) override {
    Declare(spec);
    return true;
  }
  arrow::Result<bool> ClearDeclaration() override {
    ReplaceSpec(nullptr);
    return true;
  }

  arrow::Result<Layout> DescribeLayout(
      const std::vector<ClusteringColumn>& columns) const override {
    Layout layout;
    layout.snapshot_id = snapshot_id();
    layout.columns = columns;
    for (const auto& column : columns) {
      ARROW_ASSIGN_OR_RAISE(auto type, KeyTypeOf(*schema_->GetFieldByName(column.name)->type(),
                                                 Algorithm::kTypedQuantileRankV1));
      layout.types.push_back(type);
    }
    std::map<std::string, Cube> cubes;
    for (const auto& file : UnitsOf(state_)) {
      const UnitDescriptor descriptor = Descriptor(file);
      Unit unit{descriptor.id, descriptor.rows, descriptor.bytes, {}, {}};
      const auto rows = ReadUnit(descriptor, {}, nullptr);
      for (size_t k = 0; k < columns.size(); ++k) {
        const auto values = rows->GetColumnByName(columns[k].name);
        UnitColumn bounds;
        bounds.null_count = values->null_count();
        for (int64_t i = 0; i < values->length(); ++i) {
          if (values->IsNull(i)) continue;
          ARROW_ASSIGN_OR_RAISE(auto value, EncodeValue(layout.types[k], *values, i));
          if (!bounds.lower || value < *bounds.lower) bounds.lower = value;
          if (!bounds.upper || value > *bounds.upper) bounds.upper = value;
        }
        unit.columns.push_back(std::move(bounds));
      }
      const std::string cube_id = file["cube"];
      if (!cube_id.empty()) {
        Stamp stamp{file["run"], cube_id, file["spec-id"], file["field-ids"]};
        Cube& cube = cubes[cube_id];
        cube.cube_id = cube_id;
        cube.run_id = stamp.run_id;
        cube.spec_id = stamp.spec_id;
        cube.field_ids = stamp.field_ids;
        cube.rows += unit.rows;
        cube.bytes += unit.bytes;
        cube.units.push_back(static_cast<int>(layout.units.size()));
        unit.stamp = stamp;
      }
      layout.units.push_back(std::move(unit));
    }
    std::set<std::string> runs;
    for (auto& [id, cube] : cubes) {
      if (runs.insert(cube.run_id).second) {
        RunRecord run;
        run.run_id = cube.run_id;
        run.spec_id = cube.spec_id;
        layout.runs.push_back(run);
      }
      layout.cubes.push_back(std::move(cube));
    }
    return layout;
  }

  arrow::Result<std::vector<UnitDescriptor>> Describe(
      const std::vector<std::string>& unit_ids) const override {
    std::vector<UnitDescriptor> out;
    for (const auto& id : unit_ids) {
      bool found = false;
      for (const auto& file : UnitsOf(state_)) {
        if (file["path"] != id) continue;
        out.push_back(Descriptor(file));
        found = true;
      }
      if (!found) return Invalid("no live unit {}", id);
    }
    return out;
  }

  arrow::Result<std::unique_ptr<RowSource>> Scan(const std::vector<UnitDescriptor>& units,
                                                 const std::string&,
                                                 const ReadOptions&) const override {
    return std::make_unique<Source>(this, units);
  }

  arrow::Result<std::unique_ptr<OutputFile>> NewOutputFile(const OutputContext& context,
                                                           const std::string& cube_id,
                                                           int number) const override {
    Json json{{"path", (folder_ / "data" /
                        fmt::format("{}-{}-{}-{}.arrow", RunTag(context.run_id), context.task,
                                    context.attempt_id, number))
                           .string()},
              {"rows", 0},
              {"bytes", 0},
              {"deleted", Json::array()},
              {"run", context.run_id},
              {"cube", cube_id},
              {"spec-id", context.spec ? context.spec->SpecId() : ""},
              {"field-ids", Json::array()}};
    if (context.spec) {
      for (const auto& column : context.spec->columns) json["field-ids"].push_back(column.field_id);
    }
    auto file = std::make_unique<File>(this, std::move(json));
    ARROW_RETURN_NOT_OK(file->Open());
    return file;
  }

  arrow::Result<std::unique_ptr<RowSource>> ReadBack(const OutputUnit& unit) const override {
    return Scan({{unit.id, unit.rows, unit.bytes, unit.json}}, "", {});
  }

  arrow::Status CheckOutput(const OutputUnit& unit) const override {
    std::error_code error;
    const auto size = fs::file_size(unit.id, error);
    if (error) return Invalid("output {} is missing", unit.id);
    if (static_cast<int64_t>(size) != unit.bytes) {
      return Invalid("output {} has {} bytes instead of {}", unit.id, size, unit.bytes);
    }
    ARROW_ASSIGN_OR_RAISE(auto rows, FooterRows(unit.id));
    if (rows != unit.rows) return Invalid("output {} has {} rows", unit.id, rows);
    return arrow::Status::OK();
  }

  arrow::Result<CommitResult> CommitRewrite(
      const RewriteCommit& commit, const std::function<arrow::Status()>& before_swap) override {
    if (faults.before_commit) ARROW_RETURN_NOT_OK(faults.before_commit());
    ARROW_ASSIGN_OR_RAISE(auto earlier, FindRun(commit.run_id));
    if (earlier) return CommitResult{true, "", *earlier, 1};
    last_rewrite = commit;
    return Finish(Change("replace", commit.run_id, [&](Json& files) -> arrow::Status {
      const auto declared = DeclarationOf(Latest());
      if (!declared.spec || *declared.spec != commit.spec) {
        return Conflict("the declaration has changed");
      }
      for (const auto& selection : commit.selections) {
        for (const auto& source : selection.sources) {
          const auto at = std::find_if(files.begin(), files.end(),
                                       [&](const Json& file) { return file["path"] == source.id; });
          if (at == files.end()) return Conflict("source {} is gone", source.id);
          if (*at != source.json) return Conflict("source {} has changed", source.id);
          files.erase(at);
        }
        for (const auto& unit : selection.outputs) files.push_back(unit.json);
      }
      return before_swap();
    }));
  }

  arrow::Result<CommitResult> CommitWrite(
      const WriteCommit& commit, const std::function<arrow::Status()>& before_swap) override {
    if (faults.before_commit) ARROW_RETURN_NOT_OK(faults.before_commit());
    ARROW_ASSIGN_OR_RAISE(auto earlier, FindRun(commit.run_id));
    if (earlier) return CommitResult{true, "", *earlier, 1};
    last_write = commit;
    return Finish(Change(commit.mode == WriteMode::kAppend ? "append" : "overwrite", commit.run_id,
                         [&](Json& files) -> arrow::Status {
                           if (commit.mode == WriteMode::kOverwrite) {
                             const Json now = Latest();
                             const auto& all = now["snapshots"];
                             const std::string parent =
                                 all.empty() ? "" : all.back()["id"].get<std::string>();
                             if (parent != commit.base_snapshot)
                               return Conflict("the table has moved on");
                             files = Json::array();
                           }
                           for (const auto& unit : commit.outputs) files.push_back(unit.json);
                           return before_swap();
                         }));
  }

  arrow::Result<std::optional<std::string>> FindRun(const std::string& run_id) const override {
    const Json latest = Latest();
    for (const auto& snapshot : latest["snapshots"]) {
      if (snapshot["run"] == run_id) {
        return std::optional<std::string>(snapshot["id"].get<std::string>());
      }
    }
    return std::optional<std::string>();
  }
  arrow::Result<std::vector<HistoryEntry>> History() const override {
    return std::vector<HistoryEntry>{};
  }

  arrow::Result<std::vector<RunFile>> ListRunFiles() const override {
    std::vector<RunFile> files;
    for (const auto& name : Intents()) {
      const fs::path path = folder_ / "metadata" / name;
      struct stat info;
      if (stat(path.c_str(), &info) != 0) continue;
      files.push_back({name, ReadText(path),
                       int64_t{info.st_mtim.tv_sec} * 1000 + info.st_mtim.tv_nsec / 1000000});
    }
    return files;
  }
  arrow::Status WriteRunFile(const std::string& name, const std::string& text) const override {
    const fs::path path = folder_ / "metadata" / name;
    const fs::path temporary = folder_ / "metadata" / ("." + name + NewUuid());
    WriteText(temporary, text);
    fs::rename(temporary, path);
    return arrow::Status::OK();
  }
  arrow::Status DeleteRunFile(const std::string& name) const override {
    fs::remove(folder_ / "metadata" / name);
    return arrow::Status::OK();
  }
  arrow::Result<std::vector<FileSize>> FilesOfRun(const std::string& tag) const override {
    std::vector<FileSize> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      if (entry.is_regular_file() &&
          entry.path().filename().string().find(tag) != std::string::npos) {
        files.push_back({entry.path(), static_cast<int64_t>(entry.file_size())});
      }
    }
    return files;
  }
  arrow::Result<std::set<std::string>> ReferencedFiles() const override {
    std::set<std::string> files;
    const Json latest = Latest();
    for (const auto& snapshot : latest["snapshots"]) {
      for (const auto& file : snapshot["files"]) files.insert(file["path"].get<std::string>());
    }
    return files;
  }
  arrow::Status DeleteFile(const std::string& location) const override {
    fs::remove(location);
    return arrow::Status::OK();
  }

  std::optional<RewriteCommit> last_rewrite;
  std::optional<WriteCommit> last_write;

 private:
  /// One IPC file; every batch is a row group.
  class File : public OutputFile {
   public:
    File(const ToyTable* table, Json json) : table_(table), json_(std::move(json)) {}
    ~File() override {
      if (!finished_) (void)Discard();
    }
    arrow::Status Open() {
      ARROW_ASSIGN_OR_RAISE(sink_, arrow::io::FileOutputStream::Open(path()));
      return arrow::ipc::MakeFileWriter(sink_, table_->schema_).Value(&writer_);
    }
    arrow::Status Write(const arrow::RecordBatch& batch) override {
      if (table_->faults.on_write) ARROW_RETURN_NOT_OK(table_->faults.on_write());
      auto out = batch.Slice(0);
      if (table_->faults.alter) out = table_->faults.alter(out);
      return writer_->WriteRecordBatch(*out);
    }
    arrow::Status EndRowGroup() override { return arrow::Status::OK(); }
    int64_t bytes_estimate() const override { return sink_->Tell().ValueOr(0); }
    arrow::Result<OutputUnit> Finish() override {
      ARROW_RETURN_NOT_OK(writer_->Close());
      ARROW_RETURN_NOT_OK(sink_->Close());
      finished_ = true;
      OutputUnit unit;
      unit.id = path();
      ARROW_ASSIGN_OR_RAISE(unit.rows, FooterRows(path()));
      unit.bytes = static_cast<int64_t>(fs::file_size(path()));
      unit.cube_id = json_["cube"];
      json_["rows"] = unit.rows;
      json_["bytes"] = unit.bytes;
      unit.json = json_;
      return unit;
    }
    arrow::Status Discard() override {
      finished_ = true;
      if (!sink_->closed()) (void)sink_->Close();
      fs::remove(path());
      return arrow::Status::OK();
    }

   private:
    std::string path() const { return json_["path"]; }
    const ToyTable* table_;
    Json json_;
    std::shared_ptr<arrow::io::FileOutputStream> sink_;
    std::shared_ptr<arrow::ipc::RecordBatchWriter> writer_;
    bool finished_ = false;
  };

  class Source : public RowSource {
   public:
    Source(const ToyTable* table, std::vector<UnitDescriptor> units)
        : table_(table), units_(std::move(units)) {
      std::sort(units_.begin(), units_.end(),
                [](const auto& a, const auto& b) { return a.id < b.id; });
    }
    const std::shared_ptr<arrow::Schema>& schema() const override { return table_->schema_; }
    int num_parts() const override { return static_cast<int>(units_.size()); }
    int64_t num_rows() const override {
      int64_t rows = 0;
      for (const auto& unit : units_) rows += unit.rows;
      return rows;
    }
    int64_t encoded_bytes() const override {
      int64_t bytes = 0;
      for (const auto& unit : units_) bytes += unit.bytes;
      return bytes;
    }
    arrow::Result<std::unique_ptr<RowStream>> OpenPart(int part,
                                                       const std::vector<int>& columns) override {
      if (!fs::exists(units_[part].id)) return Invalid("{} is gone", units_[part].id);
      std::shared_ptr<arrow::UInt64Array> addresses;
      RowBatch rows;
      rows.batch = table_->ReadUnit(units_[part], columns, &addresses);
      rows.first_address = static_cast<uint64_t>(part) << 32;
      if (!units_[part].json["deleted"].empty()) {
        arrow::UInt64Builder builder;
        for (int64_t i = 0; i < addresses->length(); ++i) {
          ARROW_RETURN_NOT_OK(builder.Append(addresses->Value(i) | rows.first_address));
        }
        std::shared_ptr<arrow::Array> built;
        ARROW_RETURN_NOT_OK(builder.Finish(&built));
        rows.addresses = std::static_pointer_cast<arrow::UInt64Array>(built);
      }
      return std::make_unique<Stream>(std::move(rows));
    }

   private:
    class Stream : public RowStream {
     public:
      explicit Stream(RowBatch rows) : rows_(std::move(rows)) {}
      arrow::Result<std::optional<RowBatch>> Next() override {
        auto rows = std::move(rows_);
        rows_.reset();
        return rows;
      }

     private:
      std::optional<RowBatch> rows_;
    };
    const ToyTable* table_;
    std::vector<UnitDescriptor> units_;
  };

  static arrow::Result<int64_t> FooterRows(const std::string& path) {
    ARROW_ASSIGN_OR_RAISE(auto file, arrow::io::ReadableFile::Open(path));
    ARROW_ASSIGN_OR_RAISE(auto reader, arrow::ipc::RecordBatchFileReader::Open(file));
    return reader->CountRows();
  }

  static UnitDescriptor Descriptor(const Json& file) {
    const int64_t rows = file["rows"].get<int64_t>();
    return {file["path"], rows - static_cast<int64_t>(file["deleted"].size()), file["bytes"], file};
  }

  static Json UnitsOf(const Json& state) {
    return state["snapshots"].empty() ? Json::array() : state["snapshots"].back()["files"];
  }

  /// The live rows of a unit; `addresses`: their positions.
  std::shared_ptr<arrow::RecordBatch> ReadUnit(
      const UnitDescriptor& unit, const std::vector<int>& columns,
      std::shared_ptr<arrow::UInt64Array>* addresses) const {
    auto file = Value(arrow::io::ReadableFile::Open(unit.id));
    auto reader = Value(arrow::ipc::RecordBatchFileReader::Open(file));
    arrow::RecordBatchVector batches;
    for (int i = 0; i < reader->num_record_batches(); ++i) {
      batches.push_back(Value(reader->ReadRecordBatch(i)));
    }
    auto table = Value(arrow::Table::FromRecordBatches(reader->schema(), batches));
    auto all = Value(table->CombineChunksToBatch());
    std::set<int64_t> gone(unit.json["deleted"].begin(), unit.json["deleted"].end());
    arrow::UInt64Builder positions;
    arrow::RecordBatchVector pieces;
    for (int64_t row = 0; row < all->num_rows(); ++row) {
      if (gone.contains(row)) continue;
      EXPECT_OK(positions.Append(row));
      if (!gone.empty()) pieces.push_back(all->Slice(row, 1));
    }
    if (!gone.empty()) {
      all = Value(
          Value(arrow::Table::FromRecordBatches(reader->schema(), pieces))->CombineChunksToBatch());
    }
    if (addresses != nullptr) {
      *addresses = std::static_pointer_cast<arrow::UInt64Array>(positions.Finish().ValueOrDie());
    }
    return columns.empty() ? all : Value(all->SelectColumns(columns));
  }

  int LatestVersion() const {
    int latest = 0;
    for (const auto& name : FilesIn("metadata")) {
      if (name.starts_with("v")) latest = std::max(latest, std::atoi(name.c_str() + 1));
    }
    return latest;
  }
  Json Latest() const {
    return Value(ParseJson(
        ReadText(folder_ / "metadata" / fmt::format("v{}.json", LatestVersion())), "state"));
  }
  /// False when another commit was first.
  arrow::Status Swap(int version, Json state) const {
    const fs::path temporary = folder_ / "metadata" / (".new-" + NewUuid());
    WriteText(temporary, DumpJson(state));
    const fs::path target = folder_ / "metadata" / fmt::format("v{}.json", version + 1);
    const int outcome = link(temporary.c_str(), target.c_str());
    fs::remove(temporary);
    return outcome == 0 ? arrow::Status::OK() : Conflict("another commit was first");
  }
  void ReplaceSpec(Json spec) {
    const int version = LatestVersion();
    Json state = Latest();
    state["spec"] = std::move(spec);
    EXPECT_OK(Swap(version, state));
    EXPECT_OK(Refresh());
  }
  Declaration DeclarationOf(const Json& state) const {
    Declaration declaration;
    const Json& json = state["spec"];
    if (json.is_null()) return declaration;
    ClusteringSpec spec;
    for (const auto& column : json["columns"]) {
      spec.columns.push_back(ResolveColumn(column.get<std::string>()).ValueOrDie());
    }
    spec.bits_per_dim = json["bits"];
    spec.target_cube_bytes = json["target"];
    spec.min_cube_bytes = json["min"];
    spec.theta = json["theta"];
    declaration.spec = spec;
    return declaration;
  }
  arrow::Result<CommitResult> Change(const std::string& operation, const std::string& run_id,
                                     const std::function<arrow::Status(Json&)>& edit) {
    const int version = LatestVersion();
    Json state = Latest();
    Json files = UnitsOf(state);
    CommitResult result;
    result.snapshot_before =
        state["snapshots"].empty() ? "" : state["snapshots"].back()["id"].get<std::string>();
    ARROW_RETURN_NOT_OK(edit(files));
    result.snapshot_after = std::to_string(NewRandomId());
    state["snapshots"].push_back(Json{{"id", result.snapshot_after},
                                      {"run", run_id},
                                      {"operation", operation},
                                      {"files", files}});
    ARROW_RETURN_NOT_OK(Swap(version, state));
    return result;
  }
  arrow::Result<CommitResult> Finish(arrow::Result<CommitResult> result) {
    if (result.ok() && faults.after_commit) ARROW_RETURN_NOT_OK(faults.after_commit());
    if (result.ok()) ARROW_RETURN_NOT_OK(Refresh());
    return result;
  }

  const fs::path folder_;
  const std::string name_;
  const std::shared_ptr<arrow::Schema> schema_;
  Json state_;
};

/// A declaration over user and name with cubes small enough for tests.
inline ClusteringSpec ToySpec() {
  ClusteringSpec spec;
  spec.columns = {{"user", 2}, {"name", 3}};
  spec.target_cube_bytes = 512 << 10;
  spec.min_cube_bytes = 64 << 10;
  return spec;
}

}  // namespace thalweg::testing
