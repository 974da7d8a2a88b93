#pragma once

namespace thalweg {

/// In builds with THALWEG_CRASH_POINTS, kills this process with SIGKILL when the environment
/// variable THALWEG_CRASH_POINT equals `name` (or `name:N`: at the N-th time it is reached), and
/// stops it with SIGSTOP for THALWEG_PAUSE_POINT. In other builds it does nothing.
void CrashPoint(const char* name);

}  // namespace thalweg
