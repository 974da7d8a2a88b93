#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "key/key_type.h"

namespace thalweg {

/// The value bits of an encoded fixed-width value as a number ("mapped value"): orders as the
/// values do.
using MappedValue = unsigned __int128;

/// Tag byte and big-endian mapped value.
std::string EncodeMapped(const KeyType& type, MappedValue mapped);
/// UTF-8 text in blocks.
std::string EncodeText(std::string_view text);
/// Length of EncodeText for a text of `bytes` bytes.
int64_t EncodedTextLength(int64_t bytes);

/// The inverses; bytes that no value encodes to are an error.
arrow::Result<MappedValue> DecodeMapped(const KeyType& type, std::string_view encoded);
arrow::Result<std::string> DecodeText(std::string_view encoded);

/// The mapped value of a plain one, both in the low `type.bits` bits.
MappedValue MapPlain(const KeyType& type, MappedValue plain);

}  // namespace thalweg
