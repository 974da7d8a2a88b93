#pragma once

#include <cstdint>
#include <string>

namespace thalweg {

/// A random (version 4) UUID in lower-case canonical form, from the operating system's random
/// source.
std::string NewUuid();

/// A random positive 63-bit number, never 0: what Iceberg uses as snapshot id.
int64_t NewRandomId();

/// Milliseconds since the Unix epoch.
int64_t NowMillis();

}  // namespace thalweg
