#pragma once

#include <arrow/result.h>

#include <optional>
#include <string>
#include <string_view>

#include "iceberg/schema.h"
#include "key/key_type.h"

namespace thalweg::iceberg {

/// Upper bound of strings/binaries truncated to `length` code points (strings) or bytes (binary):
/// the first `length` units with the last one incremented, skipping the surrogates; nullopt when
/// impossible. Equal to the input when not longer.
std::optional<std::string> TruncateUpper(TypeKind kind, std::string_view value, int length);
std::string TruncateLower(TypeKind kind, std::string_view value, int length);

/// The key type of an Iceberg type (int, long, float, double, decimal, date, timestamps, string,
/// boolean); an error for others.
arrow::Result<KeyType> KeyTypeOf(const Type& type, Algorithm algorithm);

/// A bound in single-value binary form as the order-preserving bytes that layout compares. `type`
/// is the type in the current schema; a bound stored before a promotion (int in a long column: 4
/// bytes; float in a double column; a narrower decimal) is accepted. A malformed bound is an error.
arrow::Result<std::string> BoundToEncoded(const Type& type, std::string_view bound);

}  // namespace thalweg::iceberg
