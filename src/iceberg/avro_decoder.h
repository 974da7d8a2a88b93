#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "iceberg/avro_schema.h"

namespace thalweg::iceberg {

/// Decodes Avro binary values of a writer's schema from a bounded range of bytes. The first failure
/// sticks: everything read after it is zero or empty and consumes nothing, so callers check ok()
/// once per record and in loops. Never reads outside the range.
class AvroDecoder {
 public:
  explicit AvroDecoder(std::string_view bytes)
      : begin_(bytes.data()), next_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  bool ok() const { return error_.empty(); }
  const std::string& error() const { return error_; }
  /// Of the next byte; after a failure, of the place where it was noticed.
  int64_t position() const { return (ok() ? next_ : failed_at_) - begin_; }
  int64_t remaining() const { return end_ - next_; }
  const char* next() const { return next_; }
  void Fail(std::string message);

  // Encodings, whatever the schema.
  int64_t Long() {
    if (next_ < end_ && !(*next_ & 0x80)) {
      uint8_t byte = static_cast<uint8_t>(*next_++);
      return (byte >> 1) ^ -static_cast<int64_t>(byte & 1);
    }
    return LongVarint();
  }
  std::string_view Bytes();  ///< length and bytes (bytes, string)
  std::string_view Take(int64_t size);
  bool Boolean();

  /// The branch that follows when `type` is a union, else `type` itself; nullptr for a null value
  /// and after a failure.
  const AvroType* Branch(const AvroType& type);

  // Values of a field: nullopt (empty view, false) for null and after a failure. int and long stand
  // for each other, string and bytes too; another type is a failure that names the field.
  std::optional<int64_t> LongField(const AvroField& field);
  std::optional<int32_t> IntField(const AvroField& field);
  std::optional<std::string_view> BytesField(const AvroField& field);
  std::optional<std::string> StringField(const AvroField& field);
  std::optional<bool> BooleanField(const AvroField& field);
  /// The type of a record or array field's value, when it is not null.
  const AvroType* TypedField(const AvroField& field, AvroKind kind);

  /// Calls `item()` for each element of an array. Elements that take no bytes are a failure: their
  /// number would be unbounded.
  template <typename Item>
  void Array(const AvroType& array, Item item) {
    if (array.items->min_size == 0) return Fail("an array of elements without bytes");
    for (int64_t count; (count = BlockCount(array.items->min_size, nullptr)) != 0;) {
      for (int64_t i = 0; i < count && ok(); ++i) item();
    }
  }

  /// Passes over a value of any type.
  void Skip(const AvroType& type);

 private:
  int64_t LongVarint();
  // Starts the next block of an array or map; 0 at its end and after a failure. `byte_size`, if
  // given, receives the block's size when it is stored, -1 when not.
  int64_t BlockCount(int64_t min_size, int64_t* byte_size);
  void SkipBlocks(const AvroType& type, int64_t min_size);
  void Mismatch(const AvroField& field, std::string_view expected, const AvroType& found);

  const char* begin_;
  const char* next_;
  const char* end_;
  const char* failed_at_ = nullptr;
  std::string error_;
  int depth_ = 0;
};

}  // namespace thalweg::iceberg
