#pragma once

#include <cstdint>

namespace thalweg {

/// Memory that this process may use: the machine's, or the limit of its control group where that is
/// lower. In bytes.
int64_t AvailableMemory();
/// Processors that this process may run on; at least 1.
int AvailableThreads();
/// Largest resident set of this process so far, in bytes.
int64_t PeakMemory();

}  // namespace thalweg
