#include "iceberg/row_deletes.h"

#include <arrow/compute/initialize.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "iceberg/delete_index.h"
#include "iceberg/parquet_test_util.h"

namespace thalweg::iceberg {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RowDeletesTest : public ParquetTest {
 protected:
  void SetUp() override { ASSERT_OK(arrow::compute::Initialize()); }

  static Schema PathsAndPositions() {
    return SchemaOf(R"([{"id": 2147483546, "name": "file_path", "required": true, "type": "string"},
                        {"id": 2147483545, "name": "pos", "required": true, "type": "long"}])");
  }
  arrow::Result<LiveFile> Write(const Schema& schema, const std::string& name,
                                const std::string& rows, int64_t sequence_number,
                                const ParquetWriteOptions& options = {}) {
    LiveFile live;
    ARROW_ASSIGN_OR_RAISE(live.file,
                          WriteFile(schema, Path(name), {BatchOf(schema, rows)}, options));
    live.sequence_number = sequence_number;
    return live;
  }
  /// A delete file of whole paths, as the tests have them.
  arrow::Result<LiveFile> WritePositions(const std::string& name, const std::string& rows,
                                         int64_t sequence_number) {
    ARROW_ASSIGN_OR_RAISE(LiveFile live, Write(PathsAndPositions(), name, rows, sequence_number));
    live.file.content = FileContent::kPositionDeletes;
    live.file.lower_bounds.clear();
    live.file.upper_bounds.clear();
    return live;
  }
  arrow::Result<TableMetadata> Metadata(const Schema& schema) {
    return TableMetadata::Create(schema, Path("table"), {});
  }
};

constexpr char kFields[] = R"([{"id": 1, "name": "id", "required": false, "type": "long"}])";

TEST_F(RowDeletesTest, BatchesWithoutDeletesAreHandedOnAndEmptyOnesSkipped) {
  const Schema schema = SchemaOf(kFields);
  std::string rows;
  for (int i = 0; i < 1000; ++i) rows += fmt::format("{}[{}]", i == 0 ? "[" : ",", i);
  ASSERT_OK_AND_ASSIGN(LiveFile data, Write(schema, "b.parquet", rows + "]", 1));
  ASSERT_OK_AND_ASSIGN(LiveFile other, Write(schema, "a.parquet", "[[-1], [-2]]", 1));
  // All of rows 200 to 299, and 350 and 399.
  std::string deleted;
  for (int i = 200; i < 300; ++i) deleted += fmt::format("[\"{}\", {}],", data.file.file_path, i);
  ASSERT_OK_AND_ASSIGN(const LiveFile positions,
                       WritePositions("d.parquet",
                                      fmt::format("[{}[\"{}\", 350], [\"{}\", 399]]", deleted,
                                                  data.file.file_path, data.file.file_path),
                                      2));
  MemoryAccount memory(int64_t{1} << 30);
  ASSERT_OK_AND_ASSIGN(const TableMetadata metadata, Metadata(schema));
  ASSERT_OK_AND_ASSIGN(auto found,
                       LoadRowDeletes(io_, metadata, {data, other}, {positions}, &memory));
  EXPECT_EQ(found->deleted_rows(), 102);
  EXPECT_EQ(found->deleted_rows(0), 0);
  EXPECT_GT(memory.held(), 0);
  ScanOptions scan;
  scan.max_batch_rows = 100;
  ASSERT_OK_AND_ASSIGN(auto source,
                       ScanParquetFiles(io_, schema, {data.file, other.file}, &memory, scan));
  source = FilterDeletedRows(std::move(source), std::move(found), &memory);
  EXPECT_EQ(source->num_rows(), 900);
  std::vector<int64_t> sizes;
  for (int part = 0; part < source->num_parts(); ++part) {
    ASSERT_OK_AND_ASSIGN(auto stream, source->OpenPart(part, {0}));
    for (;;) {
      ASSERT_OK_AND_ASSIGN(auto batch, stream->Next());
      if (!batch) break;
      const auto& ids = static_cast<const arrow::Int64Array&>(*batch->batch->column(0));
      sizes.push_back(ids.length());
      EXPECT_EQ(batch->addresses != nullptr, ids.length() == 98);
      for (int64_t i = 0; i < ids.length(); ++i) {
        const uint64_t address =
            batch->addresses ? batch->addresses->Value(i) : batch->first_address + i;
        if (ids.Value(i) < 0) {
          EXPECT_EQ(address, static_cast<uint64_t>(-1 - ids.Value(i)));
        } else {
          EXPECT_EQ(address, (uint64_t{1} << 32) + static_cast<uint64_t>(ids.Value(i)));
        }
      }
    }
  }
  EXPECT_THAT(sizes, ElementsAre(2, 100, 100, 98, 100, 100, 100, 100, 100, 100));
  source.reset();
  EXPECT_EQ(memory.held(), 0);
}

TEST_F(RowDeletesTest, NothingIsReadThatCannotApply) {
  const Schema schema = SchemaOf(kFields);
  ASSERT_OK_AND_ASSIGN(LiveFile data, Write(schema, "a.parquet", "[[1], [2]]", 5));
  ASSERT_OK_AND_ASSIGN(const TableMetadata metadata, Metadata(schema));
  auto missing = [](FileContent content, int64_t number) {
    LiveFile live;
    live.file.content = content;
    live.file.file_path = "/nowhere/d.parquet";
    live.file.record_count = 1;
    live.file.equality_ids = {1};
    live.sequence_number = number;
    return live;
  };
  LiveFile scoped = missing(FileContent::kPositionDeletes, 9);
  scoped.file.referenced_data_file = "other";
  LiveFile vector = scoped;
  vector.file.file_format = "PUFFIN";
  LiveFile bounded = missing(FileContent::kEqualityDeletes, 9);
  const int64_t three = 3;
  bounded.file.lower_bounds[1] = bounded.file.upper_bounds[1] =
      std::string(reinterpret_cast<const char*>(&three), 8);
  bounded.file.value_counts[1] = 1;
  bounded.file.null_value_counts[1] = 0;
  ASSERT_OK_AND_ASSIGN(auto found, LoadRowDeletes(io_, metadata, {data},
                                                  {missing(FileContent::kPositionDeletes, 4),
                                                   missing(FileContent::kEqualityDeletes, 5),
                                                   scoped, vector, bounded},
                                                  nullptr));
  EXPECT_EQ(found->deleted_rows(), 0);
  for (const auto& needed :
       {missing(FileContent::kPositionDeletes, 5), missing(FileContent::kEqualityDeletes, 6)}) {
    const auto failed = LoadRowDeletes(io_, metadata, {data}, {needed}, nullptr);
    ASSERT_FALSE(failed.ok());
    EXPECT_THAT(failed.status().message(), HasSubstr("/nowhere/d.parquet"));
  }
}

TEST_F(RowDeletesTest, ContradictionsAreErrors) {
  const Schema schema = SchemaOf(kFields);
  ASSERT_OK_AND_ASSIGN(LiveFile data, Write(schema, "a.parquet", "[[1], [2]]", 1));
  ASSERT_OK_AND_ASSIGN(const TableMetadata metadata, Metadata(schema));
  auto message = [&](const std::vector<LiveFile>& deletes) {
    const auto failed = LoadRowDeletes(io_, metadata, {data}, deletes, nullptr);
    EXPECT_FALSE(failed.ok());
    return failed.ok() ? "" : failed.status().message();
  };
  const std::string& path = data.file.file_path;
  ASSERT_OK_AND_ASSIGN(auto beyond, WritePositions("d1", fmt::format("[[\"{}\", 2]]", path), 2));
  EXPECT_THAT(message({beyond}), HasSubstr("deletes position 2"));
  ASSERT_OK_AND_ASSIGN(auto negative, WritePositions("d2", fmt::format("[[\"{}\", -1]]", path), 2));
  EXPECT_THAT(message({negative}), HasSubstr("deletes position -1"));
  ASSERT_OK_AND_ASSIGN(auto miscounted,
                       WritePositions("d3", fmt::format("[[\"{}\", 0]]", path), 2));
  miscounted.file.record_count = 2;
  EXPECT_THAT(message({miscounted}), HasSubstr("manifest 2"));
  ASSERT_OK_AND_ASSIGN(auto no_positions, Write(schema, "d4", "[[1]]", 2));
  no_positions.file.content = FileContent::kPositionDeletes;
  EXPECT_THAT(message({no_positions}), HasSubstr("no field 2147483546"));
  const Schema optional = SchemaOf(
      R"([{"id": 2147483546, "name": "file_path", "required": false, "type": "string"},
          {"id": 2147483545, "name": "pos", "required": false, "type": "long"}])");
  ASSERT_OK_AND_ASSIGN(auto null, Write(optional, "d5", fmt::format("[[\"{}\", null]]", path), 2));
  null.file.content = FileContent::kPositionDeletes;
  null.file.lower_bounds.clear();
  null.file.upper_bounds.clear();
  EXPECT_THAT(message({null}), HasSubstr("null"));
  const Schema wrong = SchemaOf(
      R"([{"id": 2147483546, "name": "file_path", "required": true, "type": "string"},
          {"id": 2147483545, "name": "pos", "required": true, "type": "int"}])");
  ASSERT_OK_AND_ASSIGN(auto narrow, Write(wrong, "d6", fmt::format("[[\"{}\", 0]]", path), 2));
  narrow.file.content = FileContent::kPositionDeletes;
  narrow.file.lower_bounds.clear();
  narrow.file.upper_bounds.clear();
  EXPECT_THAT(message({narrow}), HasSubstr("field 2147483545 (pos) is of type INT32"));
  beyond.file.file_format = "AVRO";
  EXPECT_THAT(message({beyond}), HasSubstr("is AVRO"));
  LiveFile equality = no_positions;
  equality.file.content = FileContent::kEqualityDeletes;
  equality.file.equality_ids = {};
  EXPECT_THAT(message({equality}), HasSubstr("no fields"));
  equality.file.equality_ids = {4};
  EXPECT_THAT(message({equality}), HasSubstr("field 4"));
  equality.file.equality_ids = {1};
  equality.file.file_format = "ORC";
  EXPECT_THAT(message({equality}), HasSubstr("is ORC"));
  ASSERT_OK_AND_ASSIGN(auto twice, Write(schema, "a2.parquet", "[[1]]", 1));
  EXPECT_FALSE(LoadRowDeletes(io_, metadata, {data, data}, {}, nullptr).ok());
}

// Driven by test/iceberg_deletes_test.py: request.json in $THALWEG_INTEROP_DIR names a metadata
// file and, unless all of its current snapshot's are meant, the data and delete files; result.json
// tells which rows are left. Skipped without that variable.
class DeletesInterop : public RowDeletesTest {};

arrow::Status LiveFilesFromJson(const Json& list, std::vector<LiveFile>* files) {
  for (const Json& item : list) {
    LiveFile& live = files->emplace_back();
    ARROW_ASSIGN_OR_RAISE(live.file, DataFileFromJson(item["file"]));
    live.sequence_number = item["sequence_number"];
  }
  return arrow::Status::OK();
}

Json PathsOf(const std::vector<LiveFile>& files) {
  Json paths = Json::array();
  for (const auto& live : files) paths.push_back(live.file.file_path);
  return paths;
}

TEST_F(DeletesInterop, Read) {
  const char* folder = std::getenv("THALWEG_INTEROP_DIR");
  if (folder == nullptr) GTEST_SKIP() << "THALWEG_INTEROP_DIR is not set";
  ASSERT_OK_AND_ASSIGN(auto text, io_->ReadAll(std::string(folder) + "/request.json"));
  ASSERT_OK_AND_ASSIGN(const Json request, ParseJson(text, "request.json"));
  const std::string location = request["metadata"];
  ASSERT_OK_AND_ASSIGN(text, io_->ReadAll(location));
  ASSERT_OK_AND_ASSIGN(const auto metadata, TableMetadata::Parse(text, location));
  SnapshotFiles files;
  if (request.contains("data")) {
    ASSERT_OK(LiveFilesFromJson(request["data"], &files.data_files));
    ASSERT_OK(LiveFilesFromJson(request["deletes"], &files.delete_files));
  } else {
    ASSERT_OK_AND_ASSIGN(files, ReadSnapshotFiles(*io_, metadata, metadata.current_snapshot_id()));
  }
  RowDeleteOptions options;
  options.table_bytes = request.value("table-bytes", int64_t{0});
  MemoryAccount memory(request.value("memory", int64_t{1} << 30));
  ASSERT_OK_AND_ASSIGN(auto found, LoadRowDeletes(io_, metadata, files.data_files,
                                                  files.delete_files, &memory, options));
  Json result{{"deleted", found->deleted_rows()}, {"peak", memory.peak()}};
  std::vector<DeleteTargets::Target> targets;
  for (const auto& live : files.data_files) {
    targets.push_back({live.file.file_path, live.sequence_number});
  }
  ASSERT_OK_AND_ASSIGN(const auto unneeded,
                       UnneededDeletes(DeleteTargets(targets), files.delete_files));
  result["unneeded"] = unneeded;
  result["delete-files"] = PathsOf(files.delete_files);
  ASSERT_OK_AND_ASSIGN(const auto estimates,
                       EstimateDeletedRows(files.data_files, files.delete_files));
  for (size_t i = 0; i < estimates.size(); ++i) {
    const std::string& path = files.data_files[i].file.file_path;
    result["estimates"][path] = Json{estimates[i].rows, estimates[i].exact};
  }
  if (!request.value("count", false)) {
    std::vector<DataFile> data;
    std::vector<std::string> paths;
    for (const auto& live : files.data_files) {
      data.push_back(live.file);
      paths.push_back(live.file.file_path);
    }
    std::sort(paths.begin(), paths.end());
    ASSERT_OK_AND_ASSIGN(const Schema schema, metadata.CurrentSchema());
    ScanOptions scan;
    scan.max_batch_rows = request.value("batch-rows", int64_t{1000});
    ASSERT_OK_AND_ASSIGN(auto source, ScanParquetFiles(io_, schema, data, &memory, scan));
    source = FilterDeletedRows(std::move(source), found, &memory);
    result["num-rows"] = source->num_rows();
    // One row: path, position, value of the column "id".
    Json rows = Json::array();
    for (int part = 0; part < source->num_parts(); ++part) {
      ASSERT_OK_AND_ASSIGN(auto stream, source->OpenPart(part, {schema.TopLevelPosition(1)}));
      for (;;) {
        ASSERT_OK_AND_ASSIGN(auto batch, stream->Next());
        if (!batch) break;
        ASSERT_GT(batch->batch->num_rows(), 0);
        const auto& ids = static_cast<const arrow::Int64Array&>(*batch->batch->column(0));
        for (int64_t i = 0; i < ids.length(); ++i) {
          const uint64_t address =
              batch->addresses ? batch->addresses->Value(i) : batch->first_address + i;
          rows.push_back({paths[address >> 32], address & 0xffffffff, ids.Value(i)});
        }
      }
    }
    result["rows"] = std::move(rows);
  }
  ASSERT_OK(io_->Replace(std::string(folder) + "/result.json", DumpJson(result)));
}

}  // namespace
}  // namespace thalweg::iceberg
