#include "iceberg/deletion_vector.h"

#include <arrow/buffer.h>
#include <zlib.h>

#include <bit>
#include <vector>

#include "util/status.h"

namespace thalweg::iceberg {
namespace {

constexpr std::string_view kMagic = "\xD1\xD3\x39\x64";
constexpr size_t kLengthBytes = 4;
constexpr size_t kChecksumBytes = 4;

// Roaring's portable form (RoaringFormatSpec).
constexpr uint32_t kCookieWithoutRuns = 12346;
constexpr uint32_t kCookieWithRuns = 12347;  // in the low half; the high half is containers - 1
constexpr uint32_t kLeastWithOffsets = 4;    // of containers, in the form with runs
constexpr uint32_t kMostContainers = 1 << 16;
constexpr uint32_t kMostInArray = 4096;
constexpr uint32_t kBitsetWords = 1024;

uint32_t LoadBigEndian(std::string_view bytes) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value = value << 8 | static_cast<uint8_t>(bytes[i]);
  return value;
}

/// Reads one 64-bit bitmap; every step is bounded by the bytes that are left.
class BitmapReader {
 public:
  BitmapReader(std::string_view bytes, int64_t rows, const std::string& what)
      : bytes_(bytes), rows_(static_cast<uint64_t>(rows)), what_(what) {}

  arrow::Result<Roaring> Read() {
    ARROW_ASSIGN_OR_RAISE(const uint64_t maps, Load<uint64_t>());
    int64_t previous = -1;
    for (uint64_t i = 0; i < maps; ++i) {
      ARROW_ASSIGN_OR_RAISE(const uint32_t key, Load<uint32_t>());
      if (int64_t{key} <= previous) return Corrupt("its 32-bit keys do not ascend");
      previous = key;
      ARROW_RETURN_NOT_OK(ReadMap(key));
    }
    if (!bytes_.empty()) return Corrupt(fmt::format("{} bytes follow it", bytes_.size()));
    return std::move(positions_);
  }

 private:
  struct Container {
    uint16_t key;
    uint32_t cardinality;
    bool runs;
  };

  arrow::Status Corrupt(std::string_view why) const {
    return Invalid("{}: the bitmap is corrupt: {}", what_, why);
  }

  template <typename T>
  arrow::Result<T> Load() {
    if (bytes_.size() < sizeof(T)) return Corrupt("it is cut short");
    T value = 0;
    for (int i = static_cast<int>(sizeof(T)) - 1; i >= 0; --i) {
      value = static_cast<T>(value << 8 | static_cast<uint8_t>(bytes_[i]));
    }
    bytes_.remove_prefix(sizeof(T));
    return value;
  }

  arrow::Result<std::string_view> Take(size_t size) {
    if (bytes_.size() < size) return Corrupt("it is cut short");
    const std::string_view taken = bytes_.substr(0, size);
    bytes_.remove_prefix(size);
    return taken;
  }

  arrow::Status ReadMap(uint32_t high) {
    ARROW_ASSIGN_OR_RAISE(const uint32_t cookie, Load<uint32_t>());
    uint32_t size = 0;
    std::string_view run_flags;
    if ((cookie & 0xffff) == kCookieWithRuns) {
      size = (cookie >> 16) + 1;
      ARROW_ASSIGN_OR_RAISE(run_flags, Take((size + 7) / 8));
    } else if (cookie == kCookieWithoutRuns) {
      ARROW_ASSIGN_OR_RAISE(size, Load<uint32_t>());
      if (size > kMostContainers) return Corrupt(fmt::format("{} containers", size));
    } else {
      return Corrupt(fmt::format("unknown cookie {:#x}", cookie));
    }
    std::vector<Container> containers;
    int32_t previous = -1;
    for (uint32_t i = 0; i < size; ++i) {
      ARROW_ASSIGN_OR_RAISE(const uint16_t key, Load<uint16_t>());
      ARROW_ASSIGN_OR_RAISE(const uint16_t cardinality, Load<uint16_t>());
      if (key <= previous) return Corrupt("its container keys do not ascend");
      previous = key;
      const bool runs =
          !run_flags.empty() && (static_cast<uint8_t>(run_flags[i / 8]) >> (i % 8) & 1) != 0;
      containers.push_back({key, uint32_t{cardinality} + 1, runs});
    }
    if (run_flags.empty() || size >= kLeastWithOffsets) {
      ARROW_RETURN_NOT_OK(Take(size_t{size} * 4).status());  // offsets: containers lie in order
    }
    for (const Container& container : containers) {
      ARROW_RETURN_NOT_OK(container.runs                          ? ReadRuns(high, container)
                          : container.cardinality <= kMostInArray ? ReadArray(high, container)
                                                                  : ReadBitset(high, container));
    }
    return arrow::Status::OK();
  }

  /// First position of a container; the last one must be of the file.
  arrow::Result<uint32_t> Base(uint32_t high, const Container& container, uint32_t last) const {
    const uint64_t base = uint64_t{high} << 32 | uint64_t{container.key} << 16;
    if (base + last >= rows_) {
      return Invalid("{}: position {} is deleted in a data file of {} rows", what_, base + last,
                     rows_);
    }
    return static_cast<uint32_t>(base);
  }

  arrow::Status ReadRuns(uint32_t high, const Container& container) {
    ARROW_ASSIGN_OR_RAISE(const uint16_t count, Load<uint16_t>());
    uint64_t cardinality = 0;
    int64_t previous_end = -1;  // last value of the run before
    for (uint32_t i = 0; i < count; ++i) {
      ARROW_ASSIGN_OR_RAISE(const uint16_t start, Load<uint16_t>());
      ARROW_ASSIGN_OR_RAISE(const uint16_t more, Load<uint16_t>());
      const uint32_t end = uint32_t{start} + more;
      if (int64_t{start} <= previous_end || end > 0xffff) return Corrupt("its runs do not ascend");
      previous_end = end;
      cardinality += uint64_t{more} + 1;
      ARROW_ASSIGN_OR_RAISE(const uint32_t base, Base(high, container, end));
      positions_.addRange(uint64_t{base} + start, uint64_t{base} + end + 1);
    }
    if (cardinality != container.cardinality) return Corrupt("a container's cardinality is wrong");
    return arrow::Status::OK();
  }

  arrow::Status ReadArray(uint32_t high, const Container& container) {
    values_.clear();
    int32_t previous = -1;
    for (uint32_t i = 0; i < container.cardinality; ++i) {
      ARROW_ASSIGN_OR_RAISE(const uint16_t value, Load<uint16_t>());
      if (value <= previous) return Corrupt("its values do not ascend");
      previous = value;
      values_.push_back(value);
    }
    return AddValues(high, container);
  }

  arrow::Status ReadBitset(uint32_t high, const Container& container) {
    values_.clear();
    for (uint32_t word = 0; word < kBitsetWords; ++word) {
      ARROW_ASSIGN_OR_RAISE(uint64_t bits, Load<uint64_t>());
      for (; bits != 0; bits &= bits - 1) {
        values_.push_back(word * 64 + static_cast<uint32_t>(std::countr_zero(bits)));
      }
    }
    if (values_.size() != container.cardinality) {
      return Corrupt("a container's cardinality is wrong");
    }
    return AddValues(high, container);
  }

  arrow::Status AddValues(uint32_t high, const Container& container) {
    ARROW_ASSIGN_OR_RAISE(const uint32_t base, Base(high, container, values_.back()));
    for (uint32_t& value : values_) value += base;
    positions_.addMany(values_.size(), values_.data());
    return arrow::Status::OK();
  }

  std::string_view bytes_;
  const uint64_t rows_;
  const std::string& what_;
  Roaring positions_;
  std::vector<uint32_t> values_;
};

}  // namespace

arrow::Result<Roaring> ParsePositionBitmap(std::string_view bitmap, int64_t rows,
                                           const std::string& what) {
  if (rows < 0 || rows > int64_t{1} << 32) {
    return Invalid("{}: a data file of {} rows cannot have deletes applied", what, rows);
  }
  return BitmapReader(bitmap, rows, what).Read();
}

arrow::Result<Roaring> ParseDeletionVector(std::string_view blob, int64_t rows, int64_t cardinality,
                                           const std::string& what) {
  if (blob.size() < kLengthBytes + kMagic.size() + kChecksumBytes) {
    return Invalid("{}: a deletion vector of {} bytes is cut short", what, blob.size());
  }
  const uint32_t length = LoadBigEndian(blob);
  if (length != blob.size() - kLengthBytes - kChecksumBytes) {
    return Invalid("{}: a deletion vector of {} bytes says that it has {}", what, blob.size(),
                   uint64_t{length} + kLengthBytes + kChecksumBytes);
  }
  const std::string_view checked = blob.substr(kLengthBytes, length);
  if (!checked.starts_with(kMagic)) return Invalid("{}: not a deletion vector (magic)", what);
  const uint32_t checksum = LoadBigEndian(blob.substr(kLengthBytes + length));
  const auto computed = static_cast<uint32_t>(
      ::crc32_z(0, reinterpret_cast<const Bytef*>(checked.data()), checked.size()));
  if (checksum != computed) {
    return Invalid("{}: the deletion vector is corrupt: its checksum is {:08x}, stored {:08x}",
                   what, computed, checksum);
  }
  ARROW_ASSIGN_OR_RAISE(Roaring positions,
                        ParsePositionBitmap(checked.substr(kMagic.size()), rows, what));
  const auto found = static_cast<int64_t>(positions.cardinality());
  if (found != cardinality) {
    return Invalid("{}: the deletion vector has {} positions, the table's manifest tells {}", what,
                   found, cardinality);
  }
  return positions;
}

arrow::Result<Roaring> ReadDeletionVector(const FileIO& io, const DataFile& vector, int64_t rows,
                                          MemoryAccount* memory) {
  if (!vector.content_offset || !vector.content_size_in_bytes) {
    return Invalid("deletion vector {}: its manifest entry has no content offset or size",
                   vector.file_path);
  }
  const int64_t offset = *vector.content_offset;
  const int64_t size = *vector.content_size_in_bytes;
  const std::string what =
      fmt::format("deletion vector {} at offset {} for data file {}", vector.file_path, offset,
                  vector.referenced_data_file.value_or("?"));
  ARROW_ASSIGN_OR_RAISE(const auto input, io.OpenInput(vector.file_path));
  ARROW_ASSIGN_OR_RAISE(const int64_t file_size, input->GetSize());
  if (offset < 0 || size < 0 || offset > file_size || size > file_size - offset ||
      size > INT32_MAX) {
    return Invalid("{}: {} bytes do not lie in a file of {}", what, size, file_size);
  }
  const Reservation held(memory, size);
  ARROW_ASSIGN_OR_RAISE(const auto blob, input->ReadAt(offset, size));
  return ParseDeletionVector(
      {reinterpret_cast<const char*>(blob->data()), static_cast<size_t>(blob->size())}, rows,
      vector.record_count, what);
}

}  // namespace thalweg::iceberg
