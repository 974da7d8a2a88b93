#pragma once

#include <cstring>
#include <string>
#include <string_view>

namespace thalweg {

/// Appends the value's bytes, as they lie in memory.
template <typename T>
void PutValue(T value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

/// Takes a value off the front of `bytes`; false when they are too few.
template <typename T>
bool TakeValue(std::string_view* bytes, T* value) {
  if (bytes->size() < sizeof(T)) return false;
  std::memcpy(value, bytes->data(), sizeof(T));
  bytes->remove_prefix(sizeof(T));
  return true;
}

}  // namespace thalweg
