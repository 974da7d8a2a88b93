#include "iceberg/iceberg_table.h"

#include <algorithm>
#include <unordered_map>

#include "iceberg/bounds.h"
#include "iceberg/declaration.h"
#include "iceberg/default_value.h"
#include "iceberg/iceberg_table_internal.h"
#include "iceberg/parquet_reader.h"
#include "iceberg/parquet_writer.h"
#include "iceberg/row_deletes.h"
#include "iceberg/row_lineage.h"
#include "iceberg/support.h"
#include "spec/property_names.h"
#include "table/run_tag.h"
#include "util/number.h"
#include "util/status.h"

namespace thalweg::iceberg {
namespace {

/// No budget makes the batches of a scan smaller than this.
constexpr int64_t kLeastBatchBytes = int64_t{2} << 20;

/// Writes one data file of the table; adds cube and schema to what the Parquet writer gives.
class IcebergOutputFile : public OutputFile {
 public:
  IcebergOutputFile(std::unique_ptr<ParquetFileWriter> writer, std::string cube_id,
                    int32_t schema_id, bool has_lineage)
      : writer_(std::move(writer)),
        cube_id_(std::move(cube_id)),
        schema_id_(schema_id),
        has_lineage_(has_lineage) {}

  arrow::Status Write(const arrow::RecordBatch& batch) override { return writer_->Write(batch); }
  arrow::Status EndRowGroup() override { return writer_->EndRowGroup(); }
  int64_t bytes_estimate() const override { return writer_->bytes_estimate(); }
  arrow::Status Discard() override { return writer_->Discard(); }

  arrow::Result<OutputUnit> Finish() override {
    ARROW_ASSIGN_OR_RAISE(const DataFile file, writer_->Finish());
    OutputUnit unit;
    unit.id = file.file_path;
    unit.rows = file.record_count;
    unit.bytes = file.file_size_in_bytes;
    unit.cube_id = cube_id_;
    unit.json = Json{{"schema-id", schema_id_},
                     {"row-lineage", has_lineage_},
                     {"data-file", DataFileToJson(file)}};
    return unit;
  }

 private:
  const std::unique_ptr<ParquetFileWriter> writer_;
  const std::string cube_id_;
  const int32_t schema_id_;
  const bool has_lineage_;
};

/// Rows of tables of format version 3 have identities, which go along when they are rewritten.
bool HasRowLineage(const TableMetadata& metadata) { return metadata.format_version() >= 3; }

}  // namespace

std::string IcebergTable::snapshot_id() const {
  const auto id = loaded_.metadata.current_snapshot_id();
  return id ? std::to_string(*id) : "";
}

arrow::Status IcebergTable::Named(const arrow::Status& status) const {
  if (status.ok()) return status;
  return Failure(KindOf(status), fmt::format("{}: {}", name_, status.message()));
}

arrow::Status IcebergTable::Refresh() {
  ARROW_ASSIGN_OR_RAISE(loaded_, store_->Load());
  std::lock_guard lock(mutex_);
  files_.reset();
  cubes_.reset();
  return arrow::Status::OK();
}

arrow::Result<std::shared_ptr<const SnapshotFiles>> IcebergTable::Files() const {
  std::lock_guard lock(mutex_);
  if (files_ == nullptr) {
    ARROW_ASSIGN_OR_RAISE(auto files, ReadSnapshotFiles(io(), loaded_.metadata,
                                                        loaded_.metadata.current_snapshot_id()));
    files_ = std::make_shared<const SnapshotFiles>(std::move(files));
  }
  return files_;
}

arrow::Result<std::shared_ptr<const CurrentCubes>> IcebergTable::Cubes() const {
  ARROW_ASSIGN_OR_RAISE(const auto files, Files());
  std::lock_guard lock(mutex_);
  if (cubes_ == nullptr) {
    ARROW_ASSIGN_OR_RAISE(auto cubes, LoadCubes(io(), loaded_.metadata,
                                                loaded_.metadata.current_snapshot_id(), *files,
                                                /*ignore_stored=*/false));
    cubes_ = std::make_shared<const CurrentCubes>(std::move(cubes));
  }
  return cubes_;
}

arrow::Status IcebergTable::CheckWritable() const {
  std::string why;
  if (!store_->writable(&why)) return Invalid("{}: {}", name_, why);
  ARROW_ASSIGN_OR_RAISE(const auto files, Files());
  ARROW_RETURN_NOT_OK(Named(CheckSupported(loaded_.metadata, *files)));
  ARROW_RETURN_NOT_OK(Named(store_->CheckProperties(loaded_.metadata)));
  return Named(CheckProperties(loaded_.metadata));
}

arrow::Result<std::shared_ptr<arrow::Schema>> IcebergTable::schema() const {
  ARROW_ASSIGN_OR_RAISE(const Schema schema, loaded_.metadata.CurrentSchema());
  return schema.ToArrow();
}

arrow::Result<std::map<std::string, std::shared_ptr<arrow::Scalar>>> IcebergTable::WriteDefaults()
    const {
  ARROW_ASSIGN_OR_RAISE(const Schema schema, loaded_.metadata.CurrentSchema());
  ARROW_ASSIGN_OR_RAISE(const auto arrow, schema.ToArrow());
  std::map<std::string, std::shared_ptr<arrow::Scalar>> defaults;
  for (size_t i = 0; i < schema.fields.size(); ++i) {
    const Field& field = schema.fields[i];
    if (field.write_default.is_null()) continue;
    auto value = WriteDefault(field, arrow->field(static_cast<int>(i))->type(), field.name);
    if (!value.ok()) return Named(value.status());
    defaults[field.name] = *std::move(value);
  }
  return defaults;
}

arrow::Result<ClusteringColumn> IcebergTable::ResolveColumn(const std::string& name) const {
  ARROW_ASSIGN_OR_RAISE(const Schema schema, loaded_.metadata.CurrentSchema());
  auto column = ResolveTopLevelColumn(schema, name);
  if (!column.ok()) return Named(column.status());
  return column;
}

arrow::Result<OutputSizes> IcebergTable::output_sizes() const {
  OutputSizes sizes;
  ARROW_ASSIGN_OR_RAISE(
      sizes.target_file_bytes,
      loaded_.metadata.IntProperty("write.target-file-size-bytes", sizes.target_file_bytes));
  ARROW_ASSIGN_OR_RAISE(sizes.target_row_group_bytes,
                        loaded_.metadata.IntProperty("write.parquet.row-group-size-bytes",
                                                     sizes.target_row_group_bytes));
  if (sizes.target_file_bytes <= 0 || sizes.target_row_group_bytes <= 0) {
    return Invalid(
        "{}: the table's write.target-file-size-bytes and write.parquet.row-group-size-bytes must "
        "be positive",
        name_);
  }
  return sizes;
}

arrow::Result<Declaration> IcebergTable::declaration() const {
  Declaration declaration = ReadDeclaration(loaded_.metadata);
  if (!declaration.spec) return declaration;
  // Names that another engine declared: where existing cubes hold another, dropped field of the
  // same name, the column was dropped and added again, and its data is not what was declared.
  const auto declared_ids = DeclaredFieldIds(loaded_.metadata);
  ARROW_ASSIGN_OR_RAISE(const auto cubes, Cubes());
  ARROW_ASSIGN_OR_RAISE(const auto schemas, loaded_.metadata.Schemas());
  ARROW_ASSIGN_OR_RAISE(const Schema current, loaded_.metadata.CurrentSchema());
  std::set<int32_t> dropped;
  for (const auto& cube : cubes->map.cubes) {
    for (int32_t id : cube.field_ids) {
      if (current.FindById(id) == nullptr) dropped.insert(id);
    }
  }
  for (const auto& column : declaration.spec->columns) {
    if (declared_ids.contains(column.name)) continue;
    for (const auto& schema : schemas) {
      const Field* field = schema.FindTopLevel(column.name);
      if (field == nullptr || !dropped.contains(field->id)) continue;
      declaration.problem = fmt::format(
          "clustering column \"{}\" was dropped and added again: existing cubes hold field {} of "
          "that name, the schema now has "
          "field {}; declare again with `thalweg set`",
          column.name, field->id, column.field_id);
      declaration.spec.reset();
      return declaration;
    }
  }
  return declaration;
}

arrow::Result<bool> IcebergTable::SetDeclaration(const ClusteringSpec& spec,
                                                 std::optional<int64_t> version,
                                                 bool allow_single) {
  if (version) {
    return Usage(
        "{}: --version is for formats that number their declarations; Iceberg tables do not",
        name_);
  }
  ARROW_RETURN_NOT_OK(CheckWritable());
  ARROW_ASSIGN_OR_RAISE(const Declaration present, declaration());
  const bool pin_field_ids = !present.problem.empty();
  auto changed = CommitProperties(*store_, [&](TableMetadata* metadata) -> arrow::Result<bool> {
    ARROW_ASSIGN_OR_RAISE(const PropertyChange change,
                          DeclarationProperties(*metadata, spec, allow_single, pin_field_ids));
    if (change.set.empty() && change.remove.empty()) return false;
    metadata->SetProperties(change.set);
    metadata->RemoveProperties(change.remove);
    return true;
  });
  if (!changed.ok()) return Named(changed.status());
  if (*changed) ARROW_RETURN_NOT_OK(Refresh());
  return changed;
}

arrow::Result<bool> IcebergTable::ClearDeclaration() {
  std::string why;
  if (!store_->writable(&why)) return Invalid("{}: {}", name_, why);
  auto changed = CommitProperties(*store_, [&](TableMetadata* metadata) -> arrow::Result<bool> {
    const auto keys = DeclaredPropertyKeys(*metadata);
    if (keys.empty()) return false;
    metadata->RemoveProperties(keys);
    return true;
  });
  if (!changed.ok()) return Named(changed.status());
  if (*changed) ARROW_RETURN_NOT_OK(Refresh());
  return changed;
}

arrow::Result<std::vector<UnitDescriptor>> IcebergTable::Describe(
    const std::vector<std::string>& unit_ids) const {
  ARROW_ASSIGN_OR_RAISE(const auto files, Files());
  std::unordered_map<std::string_view, const LiveFile*> by_path;
  for (const auto& live : files->data_files) by_path.emplace(live.file.file_path, &live);
  ARROW_ASSIGN_OR_RAISE(const auto describer, UnitDescriber::Make(*files));
  std::vector<UnitDescriptor> descriptors;
  descriptors.reserve(unit_ids.size());
  for (const auto& id : unit_ids) {
    auto it = by_path.find(id);
    if (it == by_path.end())
      return Conflict("{}: data file {} is not live in snapshot {}", name_, id, snapshot_id());
    auto descriptor = describer.Describe(*it->second);
    if (!descriptor.ok()) return Named(descriptor.status());
    descriptors.push_back(*std::move(descriptor));
  }
  return descriptors;
}

arrow::Result<std::unique_ptr<RowSource>> IcebergTable::Scan(
    const std::vector<UnitDescriptor>& units, const std::string& snapshot_id,
    const ReadOptions& options) const {
  std::vector<LiveFile> sources;
  sources.reserve(units.size());
  for (const auto& unit : units) {
    ARROW_ASSIGN_OR_RAISE(sources.emplace_back(), LiveFileOf(unit));
  }
  std::sort(sources.begin(), sources.end(), [](const LiveFile& a, const LiveFile& b) {
    return a.file.file_path < b.file.file_path;
  });
  std::vector<DataFile> files;
  std::vector<LineageOfFile> lineage;
  for (const auto& source : sources) {
    files.push_back(source.file);
    const bool stored = source.file.column_sizes.contains(kRowIdFieldId);
    lineage.push_back(
        {source.file.first_row_id, source.sequence_number, stored ? 0 : source.file.record_count});
  }
  const bool has_lineage = HasRowLineage(loaded_.metadata);
  ARROW_ASSIGN_OR_RAISE(auto rows, ScanFiles(std::move(files), has_lineage, options));
  if (has_lineage) {
    ARROW_ASSIGN_OR_RAISE(rows, InheritRowLineage(std::move(rows), std::move(lineage)));
  }
  ARROW_ASSIGN_OR_RAISE(const auto snapshot, FilesAt(snapshot_id));
  const auto& delete_files = snapshot->delete_files;
  if (delete_files.empty()) return rows;
  RowDeleteOptions deletes;
  deletes.threads = options.threads;
  deletes.stop = options.stop;
  ARROW_ASSIGN_OR_RAISE(const auto deleted,
                        LoadRowDeletes(store_->io(), loaded_.metadata, std::move(sources),
                                       delete_files, options.memory, deletes));
  return FilterDeletedRows(std::move(rows), deleted, options.memory);
}

arrow::Result<std::shared_ptr<const SnapshotFiles>> IcebergTable::FilesAt(
    const std::string& snapshot_id) const {
  if (snapshot_id == this->snapshot_id()) return Files();
  const auto id = ParseNumber<int64_t>(snapshot_id);
  if (!id) return Invalid("{}: \"{}\" is not a snapshot id", name_, snapshot_id);
  ARROW_ASSIGN_OR_RAISE(const auto snapshot, loaded_.metadata.FindSnapshot(*id));
  if (!snapshot) {
    return Conflict("{}: snapshot {}, which was planned, is no longer in the table's history",
                    name_, snapshot_id);
  }
  ARROW_ASSIGN_OR_RAISE(auto files, ReadSnapshotFiles(io(), loaded_.metadata, *id));
  return std::make_shared<const SnapshotFiles>(std::move(files));
}

arrow::Result<std::unique_ptr<RowSource>> IcebergTable::ScanFiles(std::vector<DataFile> files,
                                                                  bool with_lineage,
                                                                  const ReadOptions& read) const {
  ARROW_ASSIGN_OR_RAISE(Schema schema, loaded_.metadata.CurrentSchema());
  if (with_lineage) schema = WithRowLineage(schema);
  ScanOptions options;
  ARROW_ASSIGN_OR_RAISE(options.name_mapping,
                        NameMapping::FromProperties(loaded_.metadata.properties()));
  // Each thread holds a batch, in buffers of up to twice its size while it is decoded. Reading back
  // for verification has no account and goes on beside the sort.
  options.max_batch_bytes =
      read.memory == nullptr
          ? kLeastBatchBytes
          : std::clamp(read.memory->limit() / 16, kLeastBatchBytes, options.max_batch_bytes);
  options.stop = read.stop;
  return ScanParquetFiles(store_->io(), schema, std::move(files), read.memory, options);
}

arrow::Result<std::unique_ptr<OutputFile>> IcebergTable::NewOutputFile(const OutputContext& context,
                                                                       const std::string& cube_id,
                                                                       int number) const {
  const TableMetadata& metadata = loaded_.metadata;
  ARROW_ASSIGN_OR_RAISE(Schema schema, metadata.CurrentSchema());
  const bool with_lineage = context.rewrite && HasRowLineage(metadata);
  if (with_lineage) schema = WithRowLineage(schema);
  ARROW_ASSIGN_OR_RAISE(auto options,
                        ParquetWriteOptions::FromProperties(metadata.properties(), schema));
  options.memory = context.memory;
  options.key_values[property::kStampRun] = context.run_id;
  if (context.spec && !cube_id.empty()) {
    std::string ids;
    for (const auto& column : context.spec->columns) {
      options.clustering_field_ids.insert(column.field_id);
      ids += fmt::format("{}{}", ids.empty() ? "" : ",", column.field_id);
    }
    options.key_values[property::kStampCube] = cube_id;
    options.key_values[property::kStampSpec] = context.spec->SpecId();
    options.key_values[property::kStampFields] = ids;
  }
  ARROW_ASSIGN_OR_RAISE(
      auto writer, ParquetFileWriter::Open(store_->io(), schema,
                                           DataFileLocation(metadata, context, number), options));
  return std::make_unique<IcebergOutputFile>(std::move(writer), cube_id,
                                             metadata.current_schema_id(), with_lineage);
}

arrow::Result<std::unique_ptr<RowSource>> IcebergTable::ReadBack(const OutputUnit& unit) const {
  const std::string what = "output unit " + unit.id;
  ARROW_ASSIGN_OR_RAISE(const Json* json, GetObject(unit.json, "data-file", what));
  ARROW_ASSIGN_OR_RAISE(DataFile file, DataFileFromJson(*json));
  ARROW_ASSIGN_OR_RAISE(const bool has_lineage, GetBool(unit.json, "row-lineage", what));
  return ScanFiles({std::move(file)}, has_lineage, {});
}

arrow::Status IcebergTable::CheckOutput(const OutputUnit& unit) const {
  ARROW_ASSIGN_OR_RAISE(const auto size, io().Size(unit.id));
  if (!size) return Invalid("{}: output file {} is missing", name_, unit.id);
  if (*size != unit.bytes)
    return Invalid("{}: output file {} has {} bytes instead of {}", name_, unit.id, *size,
                   unit.bytes);
  ARROW_ASSIGN_OR_RAISE(const ParquetFooter footer, ReadParquetFooter(io(), unit.id));
  if (footer.rows != unit.rows) {
    return Invalid("{}: output file {} has {} rows instead of {}", name_, unit.id, footer.rows,
                   unit.rows);
  }
  return arrow::Status::OK();
}

arrow::Result<std::optional<std::string>> IcebergTable::FindRun(const std::string& run_id) const {
  ARROW_ASSIGN_OR_RAISE(const LoadedTable fresh, store_->Load());
  ARROW_ASSIGN_OR_RAISE(const auto snapshots, fresh.metadata.Snapshots());
  for (const auto& snapshot : snapshots) {
    auto it = snapshot.summary.find(property::kSummaryRun);
    if (it != snapshot.summary.end() && it->second == run_id) {
      return std::optional<std::string>(std::to_string(snapshot.snapshot_id));
    }
  }
  return std::nullopt;
}

arrow::Result<std::unique_ptr<Table>> OpenIcebergTable(std::string name,
                                                       std::unique_ptr<TableStore> store) {
  ARROW_ASSIGN_OR_RAISE(auto loaded, store->Load());
  return std::make_unique<IcebergTable>(std::move(name), std::move(store), std::move(loaded));
}

}  // namespace thalweg::iceberg
