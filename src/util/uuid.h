#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace thalweg {

/// A UUID in lower-case canonical form that begins with the time in milliseconds (version 7 of RFC
/// 9562); the rest is from the operating system's random source.
std::string NewUuid();

/// When a UUID of version 7 was made, in milliseconds since the Unix epoch; nullopt for any other
/// text.
std::optional<int64_t> TimeOfUuid(std::string_view uuid);

/// A random positive 63-bit number, never 0: what Iceberg uses as snapshot id.
int64_t NewRandomId();

/// Milliseconds since the Unix epoch.
int64_t NowMillis();

}  // namespace thalweg
