#include "iceberg/avro_decoder.h"

#include <fmt/format.h>

#include <algorithm>

namespace thalweg::iceberg {
namespace {

constexpr int kMaxDepth = 64;

}  // namespace

void AvroDecoder::Fail(std::string message) {
  if (!ok()) return;
  error_ = std::move(message);
  failed_at_ = next_;
  next_ = end_;
}

int64_t AvroDecoder::LongVarint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (next_ == end_) {
      Fail("the data ends inside a number");
      return 0;
    }
    uint8_t byte = static_cast<uint8_t>(*next_++);
    if (shift == 63 && byte > 1) break;
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
  }
  Fail("a number of more than 64 bits");
  return 0;
}

std::string_view AvroDecoder::Take(int64_t size) {
  if (size < 0 || size > remaining()) {
    Fail(fmt::format("a length of {} where {} bytes remain", size, remaining()));
    return {};
  }
  std::string_view bytes(next_, static_cast<size_t>(size));
  next_ += size;
  return bytes;
}

std::string_view AvroDecoder::Bytes() { return Take(Long()); }

bool AvroDecoder::Boolean() {
  std::string_view byte = Take(1);
  if (!byte.empty() && static_cast<uint8_t>(byte[0]) > 1) Fail("a boolean that is neither 0 nor 1");
  return ok() && byte[0] == 1;
}

const AvroType* AvroDecoder::Branch(const AvroType& type) {
  const AvroType* branch = &type;
  if (type.kind == AvroKind::kUnion) {
    int64_t index = Long();
    if (index < 0 || index >= static_cast<int64_t>(type.branches.size())) {
      Fail(fmt::format("branch {} of a union of {}", index, type.branches.size()));
    }
    if (!ok()) return nullptr;
    branch = type.branches[index];
  }
  return branch->kind == AvroKind::kNull ? nullptr : branch;
}

void AvroDecoder::Mismatch(const AvroField& field, std::string_view expected,
                           const AvroType& found) {
  Fail(fmt::format("field {} ({}): expected {}, found {}", field.id, field.name, expected,
                   ToString(found.kind)));
}

std::optional<int64_t> AvroDecoder::LongField(const AvroField& field) {
  const AvroType* type = Branch(*field.type);
  if (!type) return std::nullopt;
  if (type->kind != AvroKind::kLong && type->kind != AvroKind::kInt) {
    Mismatch(field, "long", *type);
    return std::nullopt;
  }
  int64_t value = Long();
  if (!ok()) return std::nullopt;
  return value;
}

std::optional<int32_t> AvroDecoder::IntField(const AvroField& field) {
  std::optional<int64_t> value = LongField(field);
  if (!value) return std::nullopt;
  if (*value < INT32_MIN || *value > INT32_MAX) {
    Fail(fmt::format("field {} ({}): {} is no int", field.id, field.name, *value));
    return std::nullopt;
  }
  return static_cast<int32_t>(*value);
}

std::optional<std::string_view> AvroDecoder::BytesField(const AvroField& field) {
  const AvroType* type = Branch(*field.type);
  if (!type) return std::nullopt;
  std::string_view value;
  if (type->kind == AvroKind::kString || type->kind == AvroKind::kBytes) {
    value = Bytes();
  } else if (type->kind == AvroKind::kFixed) {
    value = Take(type->size);
  } else {
    Mismatch(field, "string or bytes", *type);
  }
  if (!ok()) return std::nullopt;
  return value;
}

std::optional<std::string> AvroDecoder::StringField(const AvroField& field) {
  std::optional<std::string_view> bytes = BytesField(field);
  if (!bytes) return std::nullopt;
  return std::string(*bytes);
}

std::optional<bool> AvroDecoder::BooleanField(const AvroField& field) {
  const AvroType* type = Branch(*field.type);
  if (!type) return std::nullopt;
  if (type->kind != AvroKind::kBoolean) {
    Mismatch(field, "boolean", *type);
    return std::nullopt;
  }
  bool value = Boolean();
  if (!ok()) return std::nullopt;
  return value;
}

const AvroType* AvroDecoder::TypedField(const AvroField& field, AvroKind kind) {
  const AvroType* type = Branch(*field.type);
  if (!type) return nullptr;
  if (type->kind != kind) {
    Mismatch(field, ToString(kind), *type);
    return nullptr;
  }
  return type;
}

int64_t AvroDecoder::BlockCount(int64_t min_size, int64_t* byte_size) {
  int64_t count = Long(), size = -1;
  if (count < 0) {
    size = Long();
    if (ok() && (size < 0 || size > remaining())) {
      Fail(fmt::format("an array block of {} bytes where {} remain", size, remaining()));
    }
    count = count == INT64_MIN ? INT64_MAX : -count;
  }
  if (ok() && min_size > 0 && count > remaining() / min_size) {
    Fail(fmt::format("{} elements where {} bytes remain", count, remaining()));
  }
  if (byte_size) *byte_size = size;
  return ok() ? count : 0;
}

void AvroDecoder::SkipBlocks(const AvroType& type, int64_t min_size) {
  int64_t size;
  for (int64_t count; (count = BlockCount(min_size, &size)) != 0;) {
    if (size >= 0) {
      Take(size);
      continue;
    }
    if (min_size == 0) continue;
    for (int64_t i = 0; i < count && ok(); ++i) {
      if (type.kind == AvroKind::kMap) Bytes();
      Skip(*type.items);
    }
  }
}

void AvroDecoder::Skip(const AvroType& type) {
  if (type.min_size == 0 || !ok()) return;
  if (++depth_ > kMaxDepth) return Fail(fmt::format("values nested deeper than {}", kMaxDepth));
  switch (type.kind) {
    case AvroKind::kNull:
      break;
    case AvroKind::kBoolean:
      Boolean();
      break;
    case AvroKind::kInt:
    case AvroKind::kLong:
    case AvroKind::kEnum:
      Long();
      break;
    case AvroKind::kFloat:
      Take(4);
      break;
    case AvroKind::kDouble:
      Take(8);
      break;
    case AvroKind::kBytes:
    case AvroKind::kString:
      Bytes();
      break;
    case AvroKind::kFixed:
      Take(type.size);
      break;
    case AvroKind::kRecord:
      for (const AvroField& field : type.fields) Skip(*field.type);
      break;
    case AvroKind::kArray:
      SkipBlocks(type, type.items->min_size);
      break;
    case AvroKind::kMap:
      SkipBlocks(type, 1 + type.items->min_size);
      break;
    case AvroKind::kUnion:
      if (const AvroType* branch = Branch(type)) Skip(*branch);
      break;
  }
  --depth_;
}

}  // namespace thalweg::iceberg
