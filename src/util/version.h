#pragma once

namespace thalweg {

/// Version of the program and library; the one that CMakeLists.txt names too.
inline constexpr char kVersion[] = "0.1.0";

}  // namespace thalweg
