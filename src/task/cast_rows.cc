#include <arrow/compute/cast.h>
#include <arrow/compute/initialize.h>
#include <arrow/extension_type.h>
#include <arrow/type_traits.h>

#include <algorithm>
#include <set>

#include "task/write.h"
#include "util/status.h"

namespace thalweg {
namespace {

using arrow::Type;

/// Kinds of types; within a kind (and along kSteps) a value can be turned into the other type
/// unchanged, if it fits.
enum class Kind {
  kNull,
  kBool,
  kInteger,
  kFloat,
  kDecimal,
  kDate,
  kTime,
  kTimestamp,    // wall clock
  kTimestampTz,  // instants
  kDuration,
  kText,
  kBinary,
  kList,
  kStruct,
  kOther
};

Kind KindOfType(const arrow::DataType& type) {
  const Type::type id = type.id();
  if (id == Type::NA) return Kind::kNull;
  if (id == Type::BOOL) return Kind::kBool;
  if (arrow::is_integer(id)) return Kind::kInteger;
  if (arrow::is_floating(id)) return Kind::kFloat;
  if (arrow::is_decimal(id)) return Kind::kDecimal;
  switch (id) {
    case Type::DATE32:
    case Type::DATE64:
      return Kind::kDate;
    case Type::TIME32:
    case Type::TIME64:
      return Kind::kTime;
    case Type::TIMESTAMP:
      return arrow::internal::checked_cast<const arrow::TimestampType&>(type).timezone().empty()
                 ? Kind::kTimestamp
                 : Kind::kTimestampTz;
    case Type::DURATION:
      return Kind::kDuration;
    case Type::STRING:
    case Type::LARGE_STRING:
    case Type::STRING_VIEW:
      return Kind::kText;
    case Type::BINARY:
    case Type::LARGE_BINARY:
    case Type::BINARY_VIEW:
    case Type::FIXED_SIZE_BINARY:
      return Kind::kBinary;
    case Type::LIST:
    case Type::LARGE_LIST:
    case Type::FIXED_SIZE_LIST:
    case Type::LIST_VIEW:
    case Type::LARGE_LIST_VIEW:
    case Type::MAP:
      return Kind::kList;
    case Type::STRUCT:
      return Kind::kStruct;
    default:
      return Kind::kOther;
  }
}

bool Castable(const arrow::DataType& from, const arrow::DataType& to) {
  if (from.Equals(to)) return true;
  if (from.id() == Type::DICTIONARY) {
    return Castable(*arrow::internal::checked_cast<const arrow::DictionaryType&>(from).value_type(),
                    to);
  }
  if (from.id() == Type::RUN_END_ENCODED) {
    return Castable(
        *arrow::internal::checked_cast<const arrow::RunEndEncodedType&>(from).value_type(), to);
  }
  if (from.id() == Type::EXTENSION) {
    return Castable(
        *arrow::internal::checked_cast<const arrow::ExtensionType&>(from).storage_type(), to);
  }
  const Kind a = KindOfType(from), b = KindOfType(to);
  if (a == Kind::kNull) return true;
  if (a == Kind::kList && b == Kind::kList) {
    return (from.id() == Type::MAP) == (to.id() == Type::MAP) &&
           Castable(*from.field(0)->type(), *to.field(0)->type());
  }
  if (a == Kind::kStruct && b == Kind::kStruct) {
    if (from.num_fields() != to.num_fields()) return false;
    for (int i = 0; i < from.num_fields(); ++i) {
      // The entries of maps have no names to go by.
      if (from.field(i)->name() != to.field(i)->name()) return false;
      if (!Castable(*from.field(i)->type(), *to.field(i)->type())) return false;
    }
    return true;
  }
  if (a == b) return a != Kind::kOther;
  static const std::set<std::pair<Kind, Kind>> kSteps = {
      {Kind::kInteger, Kind::kFloat},  {Kind::kInteger, Kind::kDecimal},
      {Kind::kFloat, Kind::kInteger},  {Kind::kDecimal, Kind::kInteger},
      {Kind::kDate, Kind::kTimestamp}, {Kind::kText, Kind::kBinary},
      {Kind::kBinary, Kind::kText}};
  return kSteps.contains({a, b});
}

/// Casts that Arrow does not check for loss by itself: what comes back from them must be what went
/// in.
bool NeedsRoundTrip(const arrow::DataType& from, const arrow::DataType& to) {
  const Kind a = KindOfType(from), b = KindOfType(to);
  return a == Kind::kFloat || b == Kind::kFloat || a == Kind::kDecimal || a == Kind::kDate ||
         a == Kind::kList || a == Kind::kStruct;
}

arrow::Result<std::shared_ptr<arrow::Array>> Convert(std::shared_ptr<arrow::Array> values,
                                                     const std::shared_ptr<arrow::DataType>& to) {
  if (values->type_id() == Type::EXTENSION) {
    values = arrow::internal::checked_cast<const arrow::ExtensionArray&>(*values).storage();
  }
  if (values->type()->Equals(to)) return values;
  if (values->type_id() == Type::DICTIONARY || values->type_id() == Type::RUN_END_ENCODED) {
    const auto& type = *values->type();
    const auto plain =
        type.id() == Type::DICTIONARY
            ? arrow::internal::checked_cast<const arrow::DictionaryType&>(type).value_type()
            : arrow::internal::checked_cast<const arrow::RunEndEncodedType&>(type).value_type();
    if (!plain->Equals(to)) {
      ARROW_ASSIGN_OR_RAISE(values, arrow::compute::Cast(*values, plain));
      return Convert(std::move(values), to);
    }
  }
  if (KindOfType(*values->type()) == Kind::kInteger && KindOfType(*to) == Kind::kDecimal) {
    // Directly, Arrow asks for a precision that the integer type's largest value needs.
    const auto whole =
        to->id() == Type::DECIMAL256 ? arrow::decimal256(76, 0) : arrow::decimal128(38, 0);
    ARROW_ASSIGN_OR_RAISE(values, arrow::compute::Cast(*values, whole));
    if (values->type()->Equals(to)) return values;
  }
  ARROW_ASSIGN_OR_RAISE(auto cast, arrow::compute::Cast(*values, to));
  if (NeedsRoundTrip(*values->type(), *to)) {
    ARROW_ASSIGN_OR_RAISE(auto back, arrow::compute::Cast(*cast, values->type()));
    const auto options = arrow::EqualOptions::Defaults().nans_equal(true);
    if (!back->Equals(*values, options)) return Invalid("a value would change");
  }
  return cast;
}

/// Where the values of a column come from.
struct Origin {
  int position = -1;  ///< of the source's columns; -1: it has none of that name
  std::shared_ptr<arrow::Scalar> constant;  ///< what the column has then
};

class CastStream : public RowStream {
 public:
  CastStream(std::unique_ptr<RowStream> stream, std::string name,
             std::shared_ptr<arrow::Schema> schema, std::vector<Origin> origins)
      : stream_(std::move(stream)),
        name_(std::move(name)),
        schema_(std::move(schema)),
        origins_(std::move(origins)) {}

  arrow::Result<std::optional<RowBatch>> Next() override {
    auto next = stream_->Next();
    if (!next.ok()) return next.status().WithMessage(name_, next.status().message());
    if (!*next) return std::nullopt;
    RowBatch rows = std::move(**next);
    arrow::ArrayVector columns;
    for (int i = 0; i < schema_->num_fields(); ++i) {
      const arrow::Field& field = *schema_->field(i);
      std::shared_ptr<arrow::Array> column;
      if (origins_[i].position < 0) {
        ARROW_ASSIGN_OR_RAISE(
            column, arrow::MakeArrayFromScalar(*origins_[i].constant, rows.batch->num_rows()));
      } else {
        const auto& values = rows.batch->column(origins_[i].position);
        auto converted = Convert(values, field.type());
        if (!converted.ok()) {
          return Invalid(
              "{}column \"{}\": cannot be turned from {} into {} without changing values: {}",
              name_, field.name(), values->type()->ToString(), field.type()->ToString(),
              converted.status().message());
        }
        column = std::move(*converted);
        if (!field.nullable() && column->null_count() > 0) {
          return Invalid("{}column \"{}\": holds nulls, but the table's column ({}) is required",
                         name_, field.name(), field.type()->ToString());
        }
      }
      columns.push_back(std::move(column));
    }
    rows.batch = arrow::RecordBatch::Make(schema_, rows.batch->num_rows(), std::move(columns));
    return rows;
  }

 private:
  const std::unique_ptr<RowStream> stream_;
  const std::string name_;  // "file: ", or empty
  const std::shared_ptr<arrow::Schema> schema_;
  const std::vector<Origin> origins_;  // in the stream's batches
};

class CastSource : public RowSource {
 public:
  CastSource(std::unique_ptr<RowSource> source, std::shared_ptr<arrow::Schema> schema,
             std::vector<Origin> origins)
      : source_(std::move(source)), schema_(std::move(schema)), origins_(std::move(origins)) {}

  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  int num_parts() const override { return source_->num_parts(); }
  int64_t num_rows() const override { return source_->num_rows(); }
  int64_t encoded_bytes() const override { return source_->encoded_bytes(); }
  bool rereadable() const override { return source_->rereadable(); }
  std::string part_name(int part) const override { return source_->part_name(part); }

  arrow::Result<std::unique_ptr<RowStream>> OpenPart(int part,
                                                     const std::vector<int>& columns) override {
    arrow::FieldVector fields;
    std::vector<int> wanted;      // of the source
    std::vector<Origin> origins;  // in what the source gives
    for (const int column : columns) {
      fields.push_back(schema_->field(column));
      Origin& origin = origins.emplace_back(origins_[column]);
      if (origin.position < 0 || !rereadable()) continue;
      wanted.push_back(origin.position);
      origin.position = static_cast<int>(wanted.size()) - 1;
    }
    if (!rereadable()) {
      for (int i = 0; i < source_->schema()->num_fields(); ++i) wanted.push_back(i);
    } else if (wanted.empty() && source_->schema()->num_fields() > 0) {
      wanted.push_back(0);  // for the number of rows
    }
    std::string name = source_->part_name(part);
    if (!name.empty()) name += ": ";
    auto stream = source_->OpenPart(part, wanted);
    if (!stream.ok()) return stream.status().WithMessage(name, stream.status().message());
    return std::make_unique<CastStream>(std::move(*stream), std::move(name),
                                        arrow::schema(std::move(fields), schema_->metadata()),
                                        std::move(origins));
  }

 private:
  const std::unique_ptr<RowSource> source_;
  const std::shared_ptr<arrow::Schema> schema_;
  const std::vector<Origin> origins_;  // in the source's schema, of each column
};

}  // namespace

arrow::Result<std::unique_ptr<RowSource>> CastRows(
    std::unique_ptr<RowSource> source, const std::shared_ptr<arrow::Schema>& schema,
    const std::map<std::string, std::shared_ptr<arrow::Scalar>>& defaults) {
  ARROW_RETURN_NOT_OK(arrow::compute::Initialize());
  const arrow::Schema& from = *source->schema();
  std::string where = source->num_parts() > 0 ? source->part_name(0) : "";
  if (!where.empty()) where += ": ";
  for (const auto& field : from.fields()) {
    const auto known = schema->GetAllFieldIndices(field->name()).size();
    if (known == 0) {
      return Invalid("{}column \"{}\" ({}) is not a column of the table", where, field->name(),
                     field->type()->ToString());
    }
  }
  std::vector<Origin> origins;
  for (const auto& field : schema->fields()) {
    const auto found = from.GetAllFieldIndices(field->name());
    if (found.size() > 1) return Invalid("{}column \"{}\" is there twice", where, field->name());
    Origin& origin = origins.emplace_back();
    if (found.empty()) {
      const auto given = defaults.find(field->name());
      origin.constant =
          given == defaults.end() ? arrow::MakeNullScalar(field->type()) : given->second;
      if (field->nullable() || origin.constant->is_valid) continue;
      return Invalid("{}required column \"{}\" ({}) is missing", where, field->name(),
                     field->type()->ToString());
    }
    origin.position = found[0];
    const auto& type = *from.field(found[0])->type();
    if (!Castable(type, *field->type())) {
      return Invalid(
          "{}column \"{}\": {} cannot be turned into the table's {} without changing values", where,
          field->name(), type.ToString(), field->type()->ToString());
    }
  }
  return std::make_unique<CastSource>(std::move(source), schema, std::move(origins));
}

}  // namespace thalweg
