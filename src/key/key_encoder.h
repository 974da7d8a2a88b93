#pragma once

#include <arrow/array.h>
#include <arrow/result.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "key/model.h"
#include "spec/clustering_spec.h"

namespace thalweg {

using Key64 = uint64_t;
using Key128 = unsigned __int128;

/// Columns of one batch -> curve keys. Immutable and thread-safe.
class KeyEncoder {
 public:
  static arrow::Result<KeyEncoder> Make(Curve curve, int bits_per_dim,
                                        std::vector<ColumnModel> models);

  /// bits_per_dim times the number of columns, at most 128. Keys are right-aligned: below
  /// 2^key_bits.
  int key_bits() const { return bits_ * static_cast<int>(models_.size()); }
  /// Keys of more than 64 bits travel as Key128.
  bool wide() const { return key_bits() > 64; }
  Curve curve() const { return curve_; }
  int bits_per_dim() const { return bits_; }
  const std::vector<ColumnModel>& models() const { return models_; }

  /// `columns[k]` is the array of key column k, all of the same length. Call Encode when !wide(),
  /// EncodeWide otherwise.
  arrow::Status Encode(const std::vector<std::shared_ptr<arrow::Array>>& columns, Key64* out) const;
  arrow::Status EncodeWide(const std::vector<std::shared_ptr<arrow::Array>>& columns,
                           Key128* out) const;

  /// Models, curve and bits, serialised and bounds-checked on reading.
  arrow::Result<std::string> Serialize() const;
  static arrow::Result<KeyEncoder> Deserialize(std::string_view bytes);

 private:
  KeyEncoder(Curve curve, int bits, std::vector<ColumnModel> models)
      : curve_(curve), bits_(bits), models_(std::move(models)) {}
  Curve curve_;
  int bits_;
  std::vector<ColumnModel> models_;
};

}  // namespace thalweg
