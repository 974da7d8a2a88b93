#pragma once

#include <arrow/result.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace thalweg {

/// JSON that keeps the order of its keys, so that what others wrote is written back as they wrote
/// it.
using Json = nlohmann::ordered_json;

/// Parses without exceptions; `what` names the document in the error. Nesting deeper than 200 is
/// refused.
arrow::Result<Json> ParseJson(std::string_view text, std::string_view what);

/// Typed members of an object. A missing member, a null, or one of another type is an error that
/// names `what` and the key.
arrow::Result<std::string> GetString(const Json& object, const char* key, std::string_view what);
arrow::Result<int64_t> GetInt64(const Json& object, const char* key, std::string_view what);
/// An integer that is not negative.
arrow::Result<int64_t> GetCount(const Json& object, const char* key, std::string_view what);
arrow::Result<bool> GetBool(const Json& object, const char* key, std::string_view what);
arrow::Result<double> GetDouble(const Json& object, const char* key, std::string_view what);
/// The member as an array or object; the pointer is into `object`.
arrow::Result<const Json*> GetArray(const Json& object, const char* key, std::string_view what);
arrow::Result<const Json*> GetObject(const Json& object, const char* key, std::string_view what);
/// The same, nullopt when the member is missing or null.
arrow::Result<std::optional<std::string>> FindString(const Json& object, const char* key,
                                                     std::string_view what);
arrow::Result<std::optional<int64_t>> FindInt64(const Json& object, const char* key,
                                                std::string_view what);

/// Serialises on one line (indent < 0) or indented. Invalid UTF-8 is replaced, never thrown on.
std::string DumpJson(const Json& json, int indent = -1);

}  // namespace thalweg
