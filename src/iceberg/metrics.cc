#include "iceberg/metrics.h"

#include <arrow/array.h>
#include <arrow/util/bit_run_reader.h>
#include <parquet/metadata.h>
#include <parquet/statistics.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <type_traits>

#include "iceberg/bounds.h"
#include "util/status.h"

namespace thalweg::iceberg {

namespace {

using Mode = ParquetWriteOptions::MetricsMode;
static_assert(std::endian::native == std::endian::little);

/// Calls visit(begin, length) for every run of non-null positions of the array.
template <typename Visit>
void VisitValidRuns(const arrow::Array& array, Visit&& visit) {
  if (array.null_count() == 0) {
    visit(int64_t{0}, array.length());
    return;
  }
  arrow::internal::VisitSetBitRunsVoid(array.null_bitmap_data(), array.offset(), array.length(),
                                       visit);
}

/// Smallest and largest non-null value of a leaf.
class Bounds {
 public:
  virtual ~Bounds() = default;
  virtual void Update(const arrow::Array& array) = 0;
  virtual std::optional<std::string> Lower() const = 0;
  virtual std::optional<std::string> Upper() const = 0;
  virtual int64_t nan_count() const { return 0; }
};

template <typename T>
std::string LittleEndian(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

template <typename T>
class IntegerBounds : public Bounds {
 public:
  void Update(const arrow::Array& array) override {
    const T* values = array.data()->GetValues<T>(1);
    VisitValidRuns(array, [&](int64_t begin, int64_t length) {
      T lower = min_;
      T upper = max_;
      for (int64_t i = begin; i < begin + length; ++i) {
        lower = std::min(lower, values[i]);
        upper = std::max(upper, values[i]);
      }
      min_ = lower;
      max_ = upper;
      any_ |= length > 0;
    });
  }
  std::optional<std::string> Lower() const override {
    return any_ ? std::optional(LittleEndian(min_)) : std::nullopt;
  }
  std::optional<std::string> Upper() const override {
    return any_ ? std::optional(LittleEndian(max_)) : std::nullopt;
  }

 private:
  bool any_ = false;
  T min_ = std::numeric_limits<T>::max();
  T max_ = std::numeric_limits<T>::min();
};

template <typename T>
class FloatBounds : public Bounds {
 public:
  void Update(const arrow::Array& array) override {
    const T* values = array.data()->GetValues<T>(1);
    VisitValidRuns(array, [&](int64_t begin, int64_t length) {
      T lower = min_;
      T upper = max_;
      int64_t nans = 0;
      for (int64_t i = begin; i < begin + length; ++i) {
        // Comparisons with NaN are false: it never becomes a bound.
        lower = values[i] < lower ? values[i] : lower;
        upper = values[i] > upper ? values[i] : upper;
        nans += values[i] != values[i];
      }
      min_ = lower;
      max_ = upper;
      nans_ += nans;
      values_ += length;
    });
  }
  std::optional<std::string> Lower() const override {
    if (values_ == nans_) return std::nullopt;
    return LittleEndian(min_ == T{0} ? -T{0} : min_);
  }
  std::optional<std::string> Upper() const override {
    if (values_ == nans_) return std::nullopt;
    return LittleEndian(max_ == T{0} ? T{0} : max_);
  }
  int64_t nan_count() const override { return nans_; }

 private:
  int64_t values_ = 0;
  int64_t nans_ = 0;
  T min_ = std::numeric_limits<T>::infinity();
  T max_ = -std::numeric_limits<T>::infinity();
};

class BooleanBounds : public Bounds {
 public:
  void Update(const arrow::Array& array) override {
    const auto& values = static_cast<const arrow::BooleanArray&>(array);
    const int64_t set = values.true_count();
    any_true_ |= set > 0;
    any_false_ |= array.length() - array.null_count() > set;
  }
  std::optional<std::string> Lower() const override {
    if (!any_true_ && !any_false_) return std::nullopt;
    return std::string(1, any_false_ ? '\0' : '\1');
  }
  std::optional<std::string> Upper() const override {
    if (!any_true_ && !any_false_) return std::nullopt;
    return std::string(1, any_true_ ? '\1' : '\0');
  }

 private:
  bool any_true_ = false;
  bool any_false_ = false;
};

class DecimalBounds : public Bounds {
 public:
  void Update(const arrow::Array& array) override {
    const auto& values = static_cast<const arrow::FixedSizeBinaryArray&>(array);
    VisitValidRuns(array, [&](int64_t begin, int64_t length) {
      for (int64_t i = begin; i < begin + length; ++i) {
        __int128 value;
        std::memcpy(&value, values.GetValue(i), sizeof(value));  // buffers need not be aligned
        if (!any_ || value < min_) min_ = value;
        if (!any_ || value > max_) max_ = value;
        any_ = true;
      }
    });
  }
  std::optional<std::string> Lower() const override {
    return any_ ? std::optional(MinimalBigEndian(min_)) : std::nullopt;
  }
  std::optional<std::string> Upper() const override {
    return any_ ? std::optional(MinimalBigEndian(max_)) : std::nullopt;
  }

 private:
  static std::string MinimalBigEndian(__int128 value) {
    std::string bytes;
    for (int shift = 120; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
    size_t skip = 0;
    while (skip + 1 < bytes.size()) {
      const unsigned char first = static_cast<unsigned char>(bytes[skip]);
      const bool next_negative = (bytes[skip + 1] & 0x80) != 0;
      if (!((first == 0x00 && !next_negative) || (first == 0xff && next_negative))) break;
      ++skip;
    }
    return bytes.substr(skip);
  }

  bool any_ = false;
  __int128 min_ = 0;
  __int128 max_ = 0;
};

/// Bytewise (unsigned) order. For UTF-8 that is the order of code points.
class BytesBounds : public Bounds {
 public:
  void Add(std::string_view value) {
    if (!any_) {
      min_ = max_ = value;
      any_ = true;
    } else if (value < min_) {
      min_ = value;
    } else if (value > max_) {
      max_ = value;
    }
  }
  std::optional<std::string> Lower() const override {
    return any_ ? std::optional(min_) : std::nullopt;
  }
  std::optional<std::string> Upper() const override {
    return any_ ? std::optional(max_) : std::nullopt;
  }

 private:
  bool any_ = false;
  std::string min_;
  std::string max_;
};

class BinaryBounds : public BytesBounds {
 public:
  void Update(const arrow::Array& array) override {
    const auto& values = static_cast<const arrow::BinaryArray&>(array);
    VisitValidRuns(array, [&](int64_t begin, int64_t length) {
      for (int64_t i = begin; i < begin + length; ++i) Add(values.GetView(i));
    });
  }
};

class FixedBounds : public BytesBounds {
 public:
  void Update(const arrow::Array& array) override {
    const auto& values = static_cast<const arrow::FixedSizeBinaryArray&>(array);
    VisitValidRuns(array, [&](int64_t begin, int64_t length) {
      for (int64_t i = begin; i < begin + length; ++i) Add(values.GetView(i));
    });
  }
};

std::unique_ptr<Bounds> MakeBounds(TypeKind kind) {
  switch (kind) {
    case TypeKind::kBoolean:
      return std::make_unique<BooleanBounds>();
    case TypeKind::kInt:
    case TypeKind::kDate:
      return std::make_unique<IntegerBounds<int32_t>>();
    case TypeKind::kLong:
    case TypeKind::kTime:
    case TypeKind::kTimestamp:
    case TypeKind::kTimestampTz:
    case TypeKind::kTimestampNs:
    case TypeKind::kTimestampTzNs:
      return std::make_unique<IntegerBounds<int64_t>>();
    case TypeKind::kFloat:
      return std::make_unique<FloatBounds<float>>();
    case TypeKind::kDouble:
      return std::make_unique<FloatBounds<double>>();
    case TypeKind::kDecimal:
      return std::make_unique<DecimalBounds>();
    case TypeKind::kString:
    case TypeKind::kBinary:
      return std::make_unique<BinaryBounds>();
    case TypeKind::kUuid:
    case TypeKind::kFixed:
      return std::make_unique<FixedBounds>();
    default:
      return nullptr;
  }
}

/// Units (code points of strings, bytes of binaries) that both values begin with.
int CommonPrefix(TypeKind kind, std::string_view a, std::string_view b) {
  size_t bytes = 0;
  const size_t end = std::min(a.size(), b.size());
  while (bytes < end && a[bytes] == b[bytes]) ++bytes;
  if (kind == TypeKind::kBinary) return static_cast<int>(std::min<size_t>(bytes, kMaxCommonPrefix));
  int points = 0;
  for (size_t i = 0; i < bytes && points < kMaxCommonPrefix; ++i) points += (a[i] & 0xc0) != 0x80;
  return points;
}

/// Bounds of one string or binary leaf as they go into the manifest.
void TruncateBounds(TypeKind kind, Mode mode, bool clustering, const std::string& lower,
                    const std::string& upper, std::optional<std::string>* lower_bound,
                    std::optional<std::string>* upper_bound) {
  int length = mode.kind == Mode::Kind::kFull ? -1 : mode.length;
  if (clustering && length >= 0) {
    length = lower == upper
                 ? std::max(length, kMaxEqualBoundLength)
                 : std::max(length, CommonPrefix(kind, lower, upper) + kClusteringBoundLength);
  }
  if (length < 0) {
    *lower_bound = lower;
    *upper_bound = upper;
    return;
  }
  *lower_bound = TruncateLower(kind, lower, length);
  *upper_bound = TruncateUpper(kind, upper, length);
  // No truncated upper bound exists (all bytes 0xff): the value itself is one.
  if (clustering && !*upper_bound) *upper_bound = upper;
}

}  // namespace

class MetricsCollector::Leaf {
 public:
  const Field* field = nullptr;
  bool in_repeated = false;
  Mode mode;
  bool clustering = false;
  int columns = 1;  ///< in the file: a variant has two, the first of which counts its values
  std::unique_ptr<Bounds> bounds;  ///< null where neither bounds nor NaN counts are wanted
};

/// The path to the leaves below one field; nothing below lists and maps.
struct MetricsCollector::Node {
  Leaf* leaf = nullptr;
  std::vector<Node> children;
  bool empty() const {
    if (leaf) return leaf->bounds == nullptr;
    for (const Node& child : children) {
      if (!child.empty()) return false;
    }
    return true;
  }
};

MetricsCollector::MetricsCollector(const Schema& schema, const std::map<int32_t, Mode>& modes,
                                   const std::set<int32_t>& clustering_field_ids) {
  std::map<int32_t, Leaf*> by_id;
  for (const auto& found : schema.Leaves()) {
    auto leaf = std::make_unique<Leaf>();
    leaf->field = found.field;
    leaf->in_repeated = found.in_repeated;
    if (found.field->type->kind == TypeKind::kVariant) leaf->columns = 2;
    columns_ += leaf->columns;
    auto mode = modes.find(found.field->id);
    if (mode != modes.end()) leaf->mode = mode->second;
    leaf->clustering = clustering_field_ids.contains(found.field->id);
    if (leaf->clustering && leaf->mode.kind != Mode::Kind::kFull) {
      leaf->mode.kind = Mode::Kind::kTruncate;
    }
    if (leaf->in_repeated && leaf->mode.kind != Mode::Kind::kNone) {
      leaf->mode.kind = Mode::Kind::kCounts;
    }
    const TypeKind kind = found.field->type->kind;
    const bool floating = kind == TypeKind::kFloat || kind == TypeKind::kDouble;
    const bool counted = floating && leaf->mode.kind == Mode::Kind::kCounts;
    const bool bounded =
        leaf->mode.kind == Mode::Kind::kTruncate || leaf->mode.kind == Mode::Kind::kFull;
    if (!leaf->in_repeated && (counted || bounded)) leaf->bounds = MakeBounds(kind);
    by_id[found.field->id] = leaf.get();
    leaves_.push_back(std::move(leaf));
  }
  std::function<Node(const Field&)> make = [&](const Field& field) {
    Node node;
    if (field.type->kind == TypeKind::kStruct) {
      for (const Field& child : field.type->fields) node.children.push_back(make(child));
    } else if (field.type->primitive()) {
      node.leaf = by_id[field.id];
    }
    return node;
  };
  for (const Field& field : schema.fields) nodes_.push_back(make(field));
}

MetricsCollector::~MetricsCollector() = default;

arrow::Status MetricsCollector::Update(const arrow::RecordBatch& batch) {
  if (batch.num_columns() != static_cast<int>(nodes_.size())) {
    return Invalid("a batch of {} columns for a schema of {}", batch.num_columns(), nodes_.size());
  }
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_[i].empty()) continue;
    ARROW_RETURN_NOT_OK(UpdateNode(nodes_[i], *batch.column(static_cast<int>(i))));
  }
  return arrow::Status::OK();
}

arrow::Status MetricsCollector::UpdateNode(const Node& node, const arrow::Array& array) {
  if (node.leaf) {
    if (node.leaf->bounds) node.leaf->bounds->Update(array);
    return arrow::Status::OK();
  }
  const auto& structs = static_cast<const arrow::StructArray&>(array);
  for (size_t i = 0; i < node.children.size(); ++i) {
    if (node.children[i].empty()) continue;
    // Flattened: a child of a null struct is null.
    ARROW_ASSIGN_OR_RAISE(auto child, structs.GetFlattenedField(static_cast<int>(i)));
    ARROW_RETURN_NOT_OK(UpdateNode(node.children[i], *child));
  }
  return arrow::Status::OK();
}

arrow::Status MetricsCollector::Finish(const parquet::FileMetaData& metadata,
                                       DataFile* file) const {
  if (metadata.num_columns() != columns_) {
    return Invalid("a footer of {} leaf columns for a schema of {}", metadata.num_columns(),
                   columns_);
  }
  file->record_count = metadata.num_rows();
  file->sort_order_id = 0;
  std::vector<bool> nulls_known(leaves_.size(), true);
  for (int g = 0; g < metadata.num_row_groups(); ++g) {
    auto group = metadata.RowGroup(g);
    int column = 0;
    for (size_t i = 0; i < leaves_.size(); ++i) {
      auto chunk = group->ColumnChunk(column);
      const int32_t id = leaves_[i]->field->id;
      for (const int end = column + leaves_[i]->columns; column < end; ++column) {
        file->column_sizes[id] += group->ColumnChunk(column)->total_compressed_size();
      }
      if (i == 0) {
        int64_t start = chunk->data_page_offset();
        if (chunk->has_dictionary_page()) start = std::min(start, chunk->dictionary_page_offset());
        file->split_offsets.push_back(start);
      }
      if (leaves_[i]->mode.kind == Mode::Kind::kNone) continue;
      file->value_counts[id] += chunk->num_values();
      auto statistics = chunk->encoded_statistics();
      if (statistics && statistics->has_null_count) {
        file->null_value_counts[id] += statistics->null_count;
      } else {
        nulls_known[i] = false;
      }
    }
  }
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const Leaf& leaf = *leaves_[i];
    const int32_t id = leaf.field->id;
    const TypeKind kind = leaf.field->type->kind;
    if (!nulls_known[i]) file->null_value_counts.erase(id);
    if (!leaf.bounds) continue;
    if (kind == TypeKind::kFloat || kind == TypeKind::kDouble) {
      file->nan_value_counts[id] = leaf.bounds->nan_count();
    }
    if (leaf.mode.kind == Mode::Kind::kCounts) continue;
    std::optional<std::string> lower = leaf.bounds->Lower();
    std::optional<std::string> upper = leaf.bounds->Upper();
    if (!lower || !upper) continue;
    if (kind == TypeKind::kString || kind == TypeKind::kBinary) {
      const std::string smallest = std::move(*lower);
      const std::string largest = std::move(*upper);
      TruncateBounds(kind, leaf.mode, leaf.clustering, smallest, largest, &lower, &upper);
    }
    if (lower) file->lower_bounds[id] = std::move(*lower);
    if (upper) file->upper_bounds[id] = std::move(*upper);
  }
  return arrow::Status::OK();
}

}  // namespace thalweg::iceberg
