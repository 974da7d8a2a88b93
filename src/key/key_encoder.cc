#include "key/key_encoder.h"

#include <bit>
#include <cstring>

#include "curve/curve.h"
#include "util/status.h"

namespace thalweg {
namespace {

// Serialised form: "TWKE", version, curve, bits per column, columns (a byte each), then for each
// column the length of its model (little-endian, four bytes) and the model.
constexpr std::string_view kMagic = "TWKE";
constexpr char kVersion = 1;
constexpr size_t kHeader = kMagic.size() + 4;
static_assert(std::endian::native == std::endian::little);

template <typename Key>
arrow::Status EncodeColumns(const KeyEncoder& encoder,
                            const std::vector<std::shared_ptr<arrow::Array>>& columns, Key* out) {
  const auto& models = encoder.models();
  if (columns.size() != models.size()) {
    return Invalid("{} columns where the encoder has {}", columns.size(), models.size());
  }
  const int64_t n = columns[0]->length();
  std::unique_ptr<uint32_t[]> coords[4];
  const uint32_t* pointers[4] = {};
  for (size_t k = 0; k < models.size(); ++k) {
    if (columns[k]->length() != n) {
      return Invalid("key columns of {} and {} rows", n, columns[k]->length());
    }
    coords[k] = std::make_unique_for_overwrite<uint32_t[]>(static_cast<size_t>(n));
    pointers[k] = coords[k].get();
    ARROW_RETURN_NOT_OK(
        models[k].Coordinates(*columns[k], encoder.bits_per_dim(), coords[k].get()));
  }
  CurveKeys(encoder.curve(), pointers, static_cast<int>(models.size()), encoder.bits_per_dim(), n,
            out);
  return arrow::Status::OK();
}

}  // namespace

arrow::Result<KeyEncoder> KeyEncoder::Make(Curve curve, int bits_per_dim,
                                           std::vector<ColumnModel> models) {
  if (models.empty() || models.size() > 4) {
    return Invalid("{} clustering columns: one to four are possible", models.size());
  }
  if (bits_per_dim < 1 || bits_per_dim > 32) {
    return Invalid("{} bits per column: 1 to 32 are possible", bits_per_dim);
  }
  return KeyEncoder(curve, bits_per_dim, std::move(models));
}

arrow::Status KeyEncoder::Encode(const std::vector<std::shared_ptr<arrow::Array>>& columns,
                                 Key64* out) const {
  if (wide()) return Invalid("keys of {} bits do not fit 64", key_bits());
  return EncodeColumns(*this, columns, out);
}

arrow::Status KeyEncoder::EncodeWide(const std::vector<std::shared_ptr<arrow::Array>>& columns,
                                     Key128* out) const {
  return EncodeColumns(*this, columns, out);
}

arrow::Result<std::string> KeyEncoder::Serialize() const {
  std::string bytes(kMagic);
  bytes += {kVersion, static_cast<char>(curve_), static_cast<char>(bits_),
            static_cast<char>(models_.size())};
  for (const ColumnModel& model : models_) {
    ARROW_ASSIGN_OR_RAISE(std::string body, model.Serialize());
    const auto length = static_cast<uint32_t>(body.size());
    bytes.append(reinterpret_cast<const char*>(&length), sizeof(length)).append(body);
  }
  return bytes;
}

arrow::Result<KeyEncoder> KeyEncoder::Deserialize(std::string_view bytes) {
  if (bytes.size() < kHeader || bytes.substr(0, kMagic.size()) != kMagic) {
    return Invalid("not a serialised key encoder");
  }
  if (bytes[4] != kVersion) {
    return Invalid("serialised key encoder of version {}; this program knows {}", int{bytes[4]},
                   int{kVersion});
  }
  if (bytes[5] != static_cast<char>(Curve::kHilbert) &&
      bytes[5] != static_cast<char>(Curve::kZOrder)) {
    return Invalid("serialised key encoder: unknown curve {}", int{bytes[5]});
  }
  const auto curve = static_cast<Curve>(bytes[5]);
  const int bits = static_cast<uint8_t>(bytes[6]);
  const int columns = static_cast<uint8_t>(bytes[7]);
  if (columns < 1 || columns > 4) return Invalid("serialised key encoder: {} columns", columns);
  bytes.remove_prefix(kHeader);
  std::vector<ColumnModel> models;
  for (int k = 0; k < columns; ++k) {
    uint32_t length = 0;
    if (bytes.size() < sizeof(length)) return Invalid("serialised key encoder is truncated");
    std::memcpy(&length, bytes.data(), sizeof(length));
    bytes.remove_prefix(sizeof(length));
    if (bytes.size() < length) return Invalid("serialised key encoder is truncated");
    ARROW_ASSIGN_OR_RAISE(auto model, ColumnModel::Deserialize(bytes.substr(0, length)));
    models.push_back(std::move(model));
    bytes.remove_prefix(length);
  }
  if (!bytes.empty()) return Invalid("serialised key encoder: {} bytes too many", bytes.size());
  return Make(curve, bits, std::move(models));
}

}  // namespace thalweg
