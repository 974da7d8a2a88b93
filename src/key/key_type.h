#pragma once

#include <arrow/result.h>
#include <arrow/type.h>

#include <memory>
#include <string>

#include "spec/clustering_spec.h"

namespace thalweg {

/// How the values of a clustering column become order-preserving values (step 1 of
/// typed-quantile-rank-v1).
struct KeyType {
  enum class Kind { kBool, kSigned, kUnsigned, kFloat, kDecimal128, kUtf8 };
  Kind kind = Kind::kSigned;
  int bits = 64;  ///< of the value: 8 (bool too), 16, 32, 64 or 128; 0 for strings

  bool fixed_width() const { return kind != Kind::kUtf8; }
  /// Encoded length in bytes of a fixed-width value: one tag byte and the big-endian value.
  int encoded_width() const { return 1 + bits / 8; }
  bool operator==(const KeyType&) const = default;
};

/// The key type of an Arrow type; dictionary types count as their value type. Types that the
/// algorithm does not take are an error that names the type and lists what is accepted.
arrow::Result<KeyType> KeyTypeOf(const arrow::DataType& type, Algorithm algorithm);

}  // namespace thalweg
