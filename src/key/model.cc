#include "key/model.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "key/column_values_internal.h"
#include "key/encoded_value_internal.h"
#include "key/rank_tree_internal.h"
#include "key/text_index_internal.h"
#include "util/status.h"

namespace thalweg {
namespace {

constexpr int64_t kMaxSamples = 65536;  // what step 2 of typed-quantile-rank-v1 keeps at most
constexpr int64_t kBlock = 1024;        // rows worked on at a time

// Serialised form, little-endian: "TWCM", version, kind, bits, 1 for a fixed domain (a byte each),
// count (4 bytes), then bits / 8 bytes of mapped value each, or the length of each text (4 bytes
// each) and the texts.
constexpr std::string_view kMagic = "TWCM";
constexpr char kVersion = 1;
constexpr size_t kHeader = kMagic.size() + 8;
static_assert(std::endian::native == std::endian::little);

// floor(rank * (2^bits - 2) / (n - 1)) by the reciprocal m = ceil(2^64 / (n - 1)): the product is
// below 2^48 and n - 1 below 2^16, so that the excess of m adds less than 2^-16 to the quotient,
// less than what it lacks to the next whole number.
class RankScale {
 public:
  RankScale(int64_t n, int bits) {
    const uint64_t top = (uint64_t{1} << bits) - 2;
    if (n <= 1) return;
    const auto divisor = static_cast<uint64_t>(n - 1);
    factor_ = top;
    reciprocal_ = divisor == 1 ? 0 : UINT64_MAX / divisor + 1;
  }
  uint32_t operator()(uint32_t rank) const {
    const uint64_t product = rank * factor_;
    if (reciprocal_ == 0) return static_cast<uint32_t>(product);
    return static_cast<uint32_t>(static_cast<unsigned __int128>(product) * reciprocal_ >> 64);
  }

 private:
  uint64_t factor_ = 0;
  uint64_t reciprocal_ = 0;  // 0 stands for 2^64
};

// The top `bits` bits of a mapped value, which is filled up with zeros below when it has fewer.
uint32_t TopBits(const KeyType& type, MappedValue mapped, int bits) {
  return static_cast<uint32_t>(bits <= type.bits ? mapped >> (type.bits - bits)
                                                 : mapped << (bits - type.bits));
}

bool ValidType(const KeyType& type) {
  const int bits = type.bits;
  switch (type.kind) {
    case KeyType::Kind::kBool:
      return bits == 8;
    case KeyType::Kind::kSigned:
    case KeyType::Kind::kUnsigned:
      return bits == 8 || bits == 16 || bits == 32 || bits == 64;
    case KeyType::Kind::kFloat:
      return bits == 32 || bits == 64;
    case KeyType::Kind::kDecimal128:
      return bits == 128;
    case KeyType::Kind::kUtf8:
      return bits == 0;
  }
  return false;
}

}  // namespace

struct ColumnModel::Impl {
  KeyType type;
  bool fixed_domain = false;
  std::vector<MappedValue> wide;  // decimals
  std::vector<uint64_t> words;    // other fixed-width values
  TextIndex texts;
  // Over `words`, or over `wide` less its first value when all differences fit 64 bits.
  RankTree tree;
  bool tree_is_exact = true;

  int64_t size() const {
    if (!type.fixed_width()) return texts.size();
    return static_cast<int64_t>(type.bits == 128 ? wide.size() : words.size());
  }
  MappedValue mapped(int64_t i) const {
    return type.bits == 128 ? wide[static_cast<size_t>(i)] : words[static_cast<size_t>(i)];
  }

  void BuildTree() {
    if (type.bits != 128) {
      tree = RankTree(words);
    } else if (!wide.empty()) {
      tree_is_exact = wide.back() - wide.front() <= UINT64_MAX;
      if (!tree_is_exact) return;
      std::vector<uint64_t> offsets;
      offsets.reserve(wide.size());
      for (MappedValue value : wide) offsets.push_back(static_cast<uint64_t>(value - wide.front()));
      tree = RankTree(offsets);
    }
  }

  uint32_t WideRank(MappedValue value) const {
    const auto at = std::upper_bound(wide.begin(), wide.end(), value) - wide.begin();
    return static_cast<uint32_t>(std::max<int64_t>(at - 1, 0));
  }

  // Ranks of `n` (at most kBlock) rows; arbitrary for null rows.
  void BlockRanks(const arrow::Array& values, int64_t begin, int64_t n, uint32_t* ranks) const {
    if (!type.fixed_width()) {
      std::string_view views[kBlock];
      for (int64_t i = 0; i < n; ++i) {
        if (values.IsValid(begin + i)) views[i] = TextAt(values, begin + i);
      }
      texts.Ranks(views, n, ranks);
      return;
    }
    uint64_t block[kBlock] = {};
    if (type.bits < 128) {
      MapValues(type, values, begin, n, block);
      tree.Ranks(block, n, ranks);
      return;
    }
    if (!tree_is_exact) {
      for (int64_t i = 0; i < n; ++i) ranks[i] = WideRank(MappedAt(type, values, begin + i));
      return;
    }
    const MappedValue first = wide.empty() ? 0 : wide.front();
    for (int64_t i = 0; i < n; ++i) {
      const MappedValue value = MappedAt(type, values, begin + i);
      const MappedValue offset = value < first ? 0 : value - first;
      block[i] = offset > UINT64_MAX ? UINT64_MAX : static_cast<uint64_t>(offset);
    }
    tree.Ranks(block, n, ranks);
    for (int64_t i = 0; i < n; ++i) {
      // Below all samples the offset is that of the first one, which may have duplicates.
      if (ranks[i] != 0 && MappedAt(type, values, begin + i) < first) ranks[i] = 0;
    }
  }

  void PlainCoordinates(const arrow::Array& values, int bits, uint32_t* out) const {
    const int64_t length = values.length();
    const auto null = static_cast<uint32_t>((uint64_t{1} << bits) - 1);
    if (values.null_count() == length) {
      std::fill(out, out + length, null);
      return;
    }
    const RankScale scale(size(), bits);
    for (int64_t begin = 0; begin < length; begin += kBlock) {
      const int64_t n = std::min(kBlock, length - begin);
      uint32_t* to = out + begin;
      if (fixed_domain) {
        for (int64_t i = 0; i < n; ++i)
          to[i] = TopBits(type, MappedAt(type, values, begin + i), bits);
      } else {
        BlockRanks(values, begin, n, to);
        for (int64_t i = 0; i < n; ++i) to[i] = scale(to[i]);
      }
      if (values.null_count() != 0) {
        for (int64_t i = 0; i < n; ++i) to[i] = values.IsNull(begin + i) ? null : to[i];
      }
    }
  }
};

ColumnModel::ColumnModel(std::unique_ptr<const Impl> impl) : impl_(std::move(impl)) {}
ColumnModel::ColumnModel(ColumnModel&&) noexcept = default;
ColumnModel& ColumnModel::operator=(ColumnModel&&) noexcept = default;
ColumnModel::~ColumnModel() = default;

arrow::Result<ColumnModel> ColumnModel::Make(KeyType type, std::vector<std::string> sorted) {
  if (!ValidType(type))
    return Invalid("a key type of kind {} and {} bits", int(type.kind), type.bits);
  const auto n = static_cast<int64_t>(sorted.size());
  if (n > kMaxSamples)
    return Invalid("a model of {} values; at most {} are possible", n, kMaxSamples);
  if (!std::is_sorted(sorted.begin(), sorted.end()))
    return Invalid("the values of a model are not in order");
  auto impl = std::make_unique<Impl>();
  impl->type = type;
  if (type.fixed_width()) {
    for (const std::string& encoded : sorted) {
      ARROW_ASSIGN_OR_RAISE(MappedValue mapped, DecodeMapped(type, encoded));
      if (type.bits == 128) {
        impl->wide.push_back(mapped);
      } else {
        impl->words.push_back(static_cast<uint64_t>(mapped));
      }
    }
    impl->BuildTree();
  } else {
    uint64_t total = 0;
    for (std::string& encoded : sorted) {
      ARROW_ASSIGN_OR_RAISE(encoded, DecodeText(encoded));
      total += encoded.size();
    }
    if (total > UINT32_MAX) return Invalid("the texts of a model take {} bytes: too many", total);
    impl->texts = TextIndex(sorted);
  }
  return ColumnModel(std::move(impl));
}

arrow::Result<ColumnModel> ColumnModel::FixedDomain(KeyType type) {
  if (!ValidType(type))
    return Invalid("a key type of kind {} and {} bits", int(type.kind), type.bits);
  if (!type.fixed_width()) return Invalid("a string column has no fixed domain: it needs a model");
  auto impl = std::make_unique<Impl>();
  impl->type = type;
  impl->fixed_domain = true;
  return ColumnModel(std::move(impl));
}

const KeyType& ColumnModel::type() const { return impl_->type; }
int64_t ColumnModel::size() const { return impl_->size(); }
bool ColumnModel::fixed_domain() const { return impl_->fixed_domain; }

std::string ColumnModel::value(int64_t i) const {
  return impl_->type.fixed_width() ? EncodeMapped(impl_->type, impl_->mapped(i))
                                   : EncodeText(impl_->texts.text(i));
}

arrow::Status ColumnModel::Coordinates(const arrow::Array& values, int bits, uint32_t* out) const {
  if (bits < 1 || bits > 32) return Invalid("{} bits per column: 1 to 32 are possible", bits);
  ARROW_RETURN_NOT_OK(CheckKeyType(impl_->type, *values.type()));
  if (values.type_id() != arrow::Type::DICTIONARY) {
    impl_->PlainCoordinates(values, bits, out);
    return arrow::Status::OK();
  }
  const auto& array = static_cast<const arrow::DictionaryArray&>(values);
  std::vector<uint32_t> coords(static_cast<size_t>(array.dictionary()->length()));
  ARROW_RETURN_NOT_OK(Coordinates(*array.dictionary(), bits, coords.data()));
  if (array.indices()->null_count() != 0) {
    std::fill(out, out + array.length(), static_cast<uint32_t>((uint64_t{1} << bits) - 1));
  }
  VisitDictionaryIndices(
      array, [&](int64_t row, int64_t at) { out[row] = coords[static_cast<size_t>(at)]; });
  return arrow::Status::OK();
}

uint32_t ColumnModel::Coordinate(std::string_view encoded, int bits) const {
  if (impl_->fixed_domain) {
    auto mapped = DecodeMapped(impl_->type, encoded);
    return mapped.ok() ? TopBits(impl_->type, *mapped, bits) : 0;
  }
  int64_t low = 0;
  int64_t high = size();
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (value(middle) <= encoded) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return RankScale(size(), bits)(static_cast<uint32_t>(std::max<int64_t>(low - 1, 0)));
}

arrow::Result<std::string> ColumnModel::Serialize() const {
  const auto count = static_cast<uint32_t>(size());
  std::string bytes(kMagic);
  bytes += {kVersion, static_cast<char>(type().kind), static_cast<char>(type().bits),
            static_cast<char>(fixed_domain())};
  bytes.append(reinterpret_cast<const char*>(&count), sizeof(count));
  if (type().fixed_width()) {
    for (int64_t i = 0; i < size(); ++i) {
      const MappedValue mapped = impl_->mapped(i);
      bytes.append(reinterpret_cast<const char*>(&mapped), static_cast<size_t>(type().bits / 8));
    }
    return bytes;
  }
  for (int64_t i = 0; i < size(); ++i) {
    const auto length = static_cast<uint32_t>(impl_->texts.text(i).size());
    bytes.append(reinterpret_cast<const char*>(&length), sizeof(length));
  }
  for (int64_t i = 0; i < size(); ++i) bytes += impl_->texts.text(i);
  // Envelopes carry lengths of models in 32 bits.
  if (bytes.size() > UINT32_MAX) return Invalid("a model of {} bytes is too large", bytes.size());
  return bytes;
}

arrow::Result<ColumnModel> ColumnModel::Deserialize(std::string_view bytes) {
  if (bytes.size() < kHeader || bytes.substr(0, kMagic.size()) != kMagic) {
    return Invalid("not a serialised column model");
  }
  if (bytes[4] != kVersion) {
    return Invalid("serialised column model of version {}; this program knows {}", int{bytes[4]},
                   int{kVersion});
  }
  const KeyType type{static_cast<KeyType::Kind>(bytes[5]), static_cast<unsigned char>(bytes[6])};
  if (!ValidType(type) || (bytes[7] != 0 && bytes[7] != 1)) {
    return Invalid("serialised column model: unknown type ({}, {} bits)", int{bytes[5]}, type.bits);
  }
  const bool fixed_domain = bytes[7] == 1;
  uint32_t count = 0;
  std::memcpy(&count, bytes.data() + 8, sizeof(count));
  bytes.remove_prefix(kHeader);
  const size_t per_value =
      type.fixed_width() ? static_cast<size_t>(type.bits / 8) : sizeof(uint32_t);
  if (count > kMaxSamples || bytes.size() < count * per_value || (fixed_domain && count > 0)) {
    return Invalid("serialised column model: {} values in {} bytes", count, bytes.size());
  }
  std::string_view texts = bytes.substr(count * per_value);
  std::vector<std::string> sorted;
  for (uint32_t i = 0; i < count; ++i) {
    if (type.fixed_width()) {
      MappedValue mapped = 0;
      std::memcpy(&mapped, bytes.data() + i * per_value, per_value);
      sorted.push_back(EncodeMapped(type, mapped));
      continue;
    }
    uint32_t length = 0;
    std::memcpy(&length, bytes.data() + i * per_value, sizeof(length));
    if (length > texts.size()) return Invalid("serialised column model is truncated");
    sorted.push_back(EncodeText(texts.substr(0, length)));
    texts.remove_prefix(length);
  }
  if (!texts.empty()) return Invalid("serialised column model: {} bytes too many", texts.size());
  return fixed_domain ? FixedDomain(type) : Make(type, std::move(sorted));
}

}  // namespace thalweg
