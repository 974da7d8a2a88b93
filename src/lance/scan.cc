// Rows of fragments, and of written files read back.

#include <algorithm>
#include <numeric>

#include "lance/lance_table_internal.h"
#include "util/status.h"

namespace thalweg::lance {
namespace {

// Buffers of one stream; a small budget makes them smaller.
constexpr int64_t kMostBatchBytes = int64_t{16} << 20;
constexpr int64_t kLeastBatchBytes = int64_t{2} << 20;
constexpr int64_t kMostBufferBytes = int64_t{128} << 20;
constexpr int64_t kLeastBufferBytes = int64_t{8} << 20;
constexpr int64_t kMostBatchRows = 64 * 1024;
constexpr int64_t kLeastBatchRows = 256;
// Fragments smaller than this share a part: opening a scan costs about as much as reading it.
constexpr int64_t kPartBytes = int64_t{8} << 20;
constexpr size_t kMostFragmentsPerPart = 64;

/// What one stream holds at most.
struct Buffers {
  int64_t batch_bytes = kLeastBatchBytes;
  int64_t buffer_bytes = 4 * kLeastBufferBytes;

  static Buffers For(const MemoryAccount* memory) {
    Buffers buffers;
    if (memory == nullptr) return buffers;  // verification, beside a sort
    buffers.batch_bytes = std::clamp(memory->limit() / 32, kLeastBatchBytes, kMostBatchBytes);
    buffers.buffer_bytes = std::clamp(memory->limit() / 16, kLeastBufferBytes, kMostBufferBytes);
    return buffers;
  }
  int64_t total() const { return buffer_bytes + 2 * batch_bytes; }
};

/// Rows of a batch, so that even wide rows stay within the bytes. Encoded rows unfold to a few
/// times their size.
int64_t BatchRows(int64_t bytes, int64_t rows, int64_t batch_bytes) {
  if (bytes <= 0 || rows <= 0) return kMostBatchRows / 8;
  const int64_t width = std::max<int64_t>(1, bytes / rows);
  return std::clamp(batch_bytes / (2 * width), kLeastBatchRows, kMostBatchRows);
}

/// Which columns a scan is asked for, and how its batches become those that are wanted.
struct Projection {
  std::shared_ptr<arrow::Schema> schema;  ///< of the batches given
  Json names = Json::array();             ///< of the dataset's columns
  bool address = false, row_id = false, versions = false;

  Projection(const arrow::Schema& all, const std::vector<int>& columns) {
    arrow::FieldVector fields;
    for (const int column : columns) {
      const auto& field = all.field(column);
      fields.push_back(field);
      if (field->name() == kRowAddress) {
        address = true;
      } else if (field->name() == kRowId) {
        row_id = true;
      } else if (IsIdentityColumn(field->name())) {
        versions = true;
      } else {
        names.push_back(field->name());
      }
    }
    schema = arrow::schema(std::move(fields), all.metadata());
  }

  /// The wanted columns of what the library gave, `extra` beside it.
  arrow::Result<std::shared_ptr<arrow::RecordBatch>> Apply(const arrow::RecordBatch& scanned,
                                                           const arrow::RecordBatch* extra) const {
    arrow::ArrayVector arrays;
    for (const auto& field : schema->fields()) {
      auto array = scanned.GetColumnByName(field->name());
      if (array == nullptr && extra != nullptr) array = extra->GetColumnByName(field->name());
      if (array == nullptr) return Invalid("column \"{}\" was not read", field->name());
      if (!array->type()->Equals(*field->type())) {
        return Invalid("column \"{}\" was read as {}, not as {}", field->name(),
                       array->type()->ToString(), field->type()->ToString());
      }
      arrays.push_back(std::move(array));
    }
    return arrow::RecordBatch::Make(schema, scanned.num_rows(), std::move(arrays));
  }
};

/// The rows of the fragments of one part.
class FragmentStream : public RowStream {
 public:
  FragmentStream(std::shared_ptr<arrow::RecordBatchReader> reader, Projection projection,
                 std::unordered_map<uint64_t, uint64_t> positions, uint64_t first_address,
                 Reservation reservation, std::string name)
      : name_(std::move(name)),
        reader_(std::move(reader)),
        projection_(std::move(projection)),
        positions_(std::move(positions)),
        next_address_(first_address),
        reservation_(std::move(reservation)) {}

  arrow::Result<std::optional<RowBatch>> Next() override {
    std::shared_ptr<arrow::RecordBatch> scanned;
    do {
      ARROW_RETURN_NOT_OK(Prefixed(name_, reader_->ReadNext(&scanned)));
      if (scanned == nullptr) return std::nullopt;
    } while (scanned->num_rows() == 0);
    RowBatch rows;
    ARROW_ASSIGN_OR_RAISE(rows.batch, projection_.Apply(*scanned, nullptr));
    rows.first_address = next_address_;
    next_address_ += static_cast<uint64_t>(scanned->num_rows());
    if (!positions_.empty()) ARROW_RETURN_NOT_OK(Locate(*scanned, &rows));
    return rows;
  }

 private:
  /// From addresses by fragment id to addresses by the fragment's position.
  arrow::Status Locate(const arrow::RecordBatch& scanned, RowBatch* rows) const {
    const auto column =
        std::dynamic_pointer_cast<arrow::UInt64Array>(scanned.GetColumnByName(kRowAddress));
    if (column == nullptr) return Invalid("the addresses of rows were not read");
    const int64_t n = column->length();
    ARROW_ASSIGN_OR_RAISE(auto buffer, arrow::AllocateBuffer(n * sizeof(uint64_t)));
    auto* out = buffer->mutable_data_as<uint64_t>();
    uint64_t fragment = UINT64_MAX, position = 0;
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t address = column->Value(i);
      if (address >> 32 != fragment) {
        fragment = address >> 32;
        const auto found = positions_.find(fragment);
        if (found == positions_.end()) return Invalid("a row of fragment {} was read", fragment);
        position = found->second << 32;
      }
      out[i] = position | (address & 0xffffffff);
    }
    rows->first_address = out[0];
    rows->addresses =
        std::make_shared<arrow::UInt64Array>(n, std::shared_ptr<arrow::Buffer>(std::move(buffer)));
    return arrow::Status::OK();
  }

  const std::string name_;
  const std::shared_ptr<arrow::RecordBatchReader> reader_;
  const Projection projection_;
  /// Fragment ids to positions; empty where rows follow each other from the first address on.
  const std::unordered_map<uint64_t, uint64_t> positions_;
  uint64_t next_address_;
  const Reservation reservation_;
};

class FragmentSource : public RowSource {
 public:
  FragmentSource(std::string table, std::shared_ptr<const Version> version,
                 std::vector<Fragment> fragments, MemoryAccount* memory)
      : table_(std::move(table)),
        version_(std::move(version)),
        fragments_(std::move(fragments)),
        memory_(memory) {
    arrow::FieldVector fields = version_->schema->fields();
    for (const auto& name : IdentityColumns(version_->description)) {
      fields.push_back(IdentityField(name));
    }
    schema_ = arrow::schema(std::move(fields), version_->schema->metadata());
    std::sort(fragments_.begin(), fragments_.end(),
              [](const Fragment& a, const Fragment& b) { return a.id < b.id; });
    int64_t part_bytes = 0;
    for (size_t i = 0; i < fragments_.size(); ++i) {
      rows_ += fragments_[i].rows();
      bytes_ += fragments_[i].bytes();
      const int64_t bytes = fragments_[i].bytes();
      if (parts_.empty() || part_bytes + bytes > kPartBytes ||
          i - parts_.back().begin >= kMostFragmentsPerPart) {
        parts_.push_back({i, i});
        part_bytes = 0;
      }
      parts_.back().end = i + 1;
      part_bytes += bytes;
    }
  }

  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  int num_parts() const override { return static_cast<int>(parts_.size()); }
  int64_t num_rows() const override { return rows_; }
  int64_t encoded_bytes() const override { return bytes_; }

  arrow::Result<std::unique_ptr<RowStream>> OpenPart(int part,
                                                     const std::vector<int>& columns) override {
    const auto [begin, end] = parts_[part];
    Json ids = Json::array();
    std::unordered_map<uint64_t, uint64_t> positions;
    bool counted = end - begin == 1;
    int64_t bytes = 0, rows = 0;
    for (size_t i = begin; i < end; ++i) {
      const Fragment& fragment = fragments_[i];
      ids.push_back(fragment.id);
      positions[fragment.id] = i;
      counted = counted && fragment.deleted_rows == 0;
      bytes += fragment.bytes();
      rows += fragment.physical_rows;
    }
    Projection projection(*schema_, columns);
    if (counted) positions.clear();
    const Buffers buffers = Buffers::For(memory_);
    const Json request{{"fragments", std::move(ids)},
                       {"columns", projection.names},
                       {"row_address", projection.address || !counted ||
                                           (projection.names.empty() && !projection.row_id)},
                       {"row_id", projection.row_id},
                       {"row_versions", projection.versions},
                       {"batch_rows", BatchRows(bytes, rows, buffers.batch_bytes)},
                       {"batch_bytes", buffers.batch_bytes},
                       {"io_buffer_bytes", buffers.buffer_bytes}};
    Reservation reservation(memory_, buffers.total());
    auto scanned = version_->dataset->Scan(request);
    ARROW_RETURN_NOT_OK(Prefixed(part_name(part), scanned.status()));
    auto reader = *std::move(scanned);
    return std::make_unique<FragmentStream>(std::move(reader), std::move(projection),
                                            std::move(positions), uint64_t{begin} << 32,
                                            std::move(reservation), part_name(part));
  }

  std::string part_name(int part) const override {
    const auto [begin, end] = parts_[part];
    return end - begin == 1 ? fmt::format("{}: fragment {}", table_, fragments_[begin].id)
                            : fmt::format("{}: fragments {} to {}", table_, fragments_[begin].id,
                                          fragments_[end - 1].id);
  }

 private:
  struct Part {
    size_t begin, end;  ///< positions in fragments_
  };
  const std::string table_;
  const std::shared_ptr<const Version> version_;
  std::vector<Fragment> fragments_;  ///< by id
  MemoryAccount* const memory_;
  std::shared_ptr<arrow::Schema> schema_;
  std::vector<Part> parts_;
  int64_t rows_ = 0, bytes_ = 0;
};

/// A written file beside its rows file.
class WrittenStream : public RowStream {
 public:
  WrittenStream(std::shared_ptr<arrow::RecordBatchReader> reader, Projection projection,
                std::shared_ptr<arrow::RecordBatch> identity, std::string name)
      : name_(std::move(name)),
        reader_(std::move(reader)),
        projection_(std::move(projection)),
        identity_(std::move(identity)) {}

  arrow::Result<std::optional<RowBatch>> Next() override {
    std::shared_ptr<arrow::RecordBatch> scanned;
    ARROW_RETURN_NOT_OK(Prefixed(name_, reader_->ReadNext(&scanned)));
    if (scanned == nullptr) return std::nullopt;
    const int64_t n = scanned->num_rows();
    if (identity_ != nullptr && row_ + n > identity_->num_rows()) {
      return Invalid("the file has more rows than its rows file ({})", identity_->num_rows());
    }
    const auto identity = identity_ == nullptr ? nullptr : identity_->Slice(row_, n);
    RowBatch rows;
    ARROW_ASSIGN_OR_RAISE(rows.batch, projection_.Apply(*scanned, identity.get()));
    rows.first_address = static_cast<uint64_t>(row_);
    row_ += n;
    return rows;
  }

 private:
  const std::string name_;
  const std::shared_ptr<arrow::RecordBatchReader> reader_;
  const Projection projection_;
  const std::shared_ptr<arrow::RecordBatch> identity_;
  int64_t row_ = 0;
};

class WrittenSource : public RowSource {
 public:
  WrittenSource(std::shared_ptr<const Version> version, OutputUnit unit, WrittenFile file)
      : version_(std::move(version)), unit_(std::move(unit)), file_(std::move(file)) {
    arrow::FieldVector fields = version_->schema->fields();
    for (const auto& name : file_.identity) fields.push_back(IdentityField(name));
    schema_ = arrow::schema(std::move(fields), version_->schema->metadata());
  }

  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  int num_parts() const override { return 1; }
  int64_t num_rows() const override { return unit_.rows; }
  int64_t encoded_bytes() const override { return unit_.bytes; }

  arrow::Result<std::unique_ptr<RowStream>> OpenPart(int,
                                                     const std::vector<int>& columns) override {
    Projection projection(*schema_, columns);
    const Buffers buffers = Buffers::For(nullptr);
    const Json request{{"new_fragment", file_.fragment.json},
                       {"columns", projection.names},
                       {"batch_rows", BatchRows(unit_.bytes, unit_.rows, buffers.batch_bytes)},
                       {"batch_bytes", buffers.batch_bytes},
                       {"io_buffer_bytes", buffers.buffer_bytes}};
    std::shared_ptr<arrow::RecordBatch> identity;
    if (!file_.identity.empty()) {
      ARROW_ASSIGN_OR_RAISE(identity, ReadRowsFile(*version_->dataset, unit_, file_.identity));
    }
    auto scanned = version_->dataset->Scan(request);
    ARROW_RETURN_NOT_OK(Prefixed(unit_.id, scanned.status()));
    auto reader = *std::move(scanned);
    return std::make_unique<WrittenStream>(std::move(reader), std::move(projection),
                                           std::move(identity), unit_.id);
  }

  std::string part_name(int) const override { return unit_.id; }

 private:
  const std::shared_ptr<const Version> version_;
  const OutputUnit unit_;
  const WrittenFile file_;
  std::shared_ptr<arrow::Schema> schema_;
};

}  // namespace

std::vector<std::string> IdentityColumns(const Description& description) {
  std::vector<std::string> columns;
  const bool followed = std::any_of(description.indices.begin(), description.indices.end(),
                                    [](const IndexSegment& index) { return index.follows_rows(); });
  if (followed) columns.emplace_back(kRowAddress);
  if (description.stable_row_ids) {
    columns.insert(columns.end(), {kRowId, kRowCreated, kRowUpdated});
  }
  return columns;
}

bool IsIdentityColumn(const std::string& name) {
  return name == kRowAddress || name == kRowId || name == kRowCreated || name == kRowUpdated;
}

std::shared_ptr<arrow::Field> IdentityField(const std::string& name) {
  return arrow::field(name, arrow::uint64());
}

arrow::Result<std::unique_ptr<RowSource>> ScanFragments(const std::string& table,
                                                        std::shared_ptr<const Version> version,
                                                        std::vector<Fragment> fragments,
                                                        MemoryAccount* memory) {
  return std::make_unique<FragmentSource>(table, std::move(version), std::move(fragments), memory);
}

arrow::Result<std::unique_ptr<RowSource>> ReadDataFile(std::shared_ptr<const Version> version,
                                                       const OutputUnit& unit) {
  ARROW_ASSIGN_OR_RAISE(auto file, ParseWrittenFile(unit));
  return std::make_unique<WrittenSource>(std::move(version), unit, std::move(file));
}

}  // namespace thalweg::lance
