#pragma once

#include <arrow/array.h>
#include <arrow/result.h>
#include <arrow/scalar.h>

#include <string>
#include <string_view>

#include "key/key_type.h"

namespace thalweg {

/// The order-preserving bytes of one non-null value: compared with memcmp (shorter first on a
/// common prefix) they order as the values do. This is what statistics, models and envelopes hold.
arrow::Result<std::string> EncodeValue(const KeyType& type, const arrow::Array& values,
                                       int64_t row);

/// From the plain value's little-endian bytes (fixed width: exactly bits/8 bytes, bool one byte) or
/// UTF-8 text.
arrow::Result<std::string> EncodePlain(const KeyType& type, std::string_view plain);

/// A short human form for messages and reports: numbers as such, strings quoted and shortened.
std::string DescribeEncoded(const KeyType& type, std::string_view encoded);

}  // namespace thalweg
