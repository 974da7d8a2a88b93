#include "util/json.h"

#include "util/status.h"

namespace thalweg {
namespace {

template <typename Test>
arrow::Result<const Json*> Member(const Json& object, const char* key, std::string_view what,
                                  const char* type, Test test) {
  if (!object.is_object()) return Invalid("{}: expected an object", what);
  auto it = object.find(key);
  if (it == object.end() || it->is_null()) return Invalid("{}: \"{}\" is missing", what, key);
  if (!test(*it)) return Invalid("{}: \"{}\" is not {}", what, key, type);
  return &*it;
}

bool Present(const Json& object, const char* key) {
  auto it = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && it != object.end() && !it->is_null();
}

}  // namespace

arrow::Result<Json> ParseJson(std::string_view text, std::string_view what) {
  constexpr int kMaxDepth = 200;
  bool too_deep = false;
  auto guard = [&](int depth, Json::parse_event_t, Json&) {
    too_deep |= depth > kMaxDepth;
    return !too_deep;
  };
  Json json = Json::parse(text, guard, /*allow_exceptions=*/false);
  if (too_deep) return Invalid("{}: JSON nested deeper than {}", what, kMaxDepth);
  if (json.is_discarded()) return Invalid("{}: not valid JSON", what);
  return json;
}

arrow::Result<std::string> GetString(const Json& object, const char* key, std::string_view what) {
  ARROW_ASSIGN_OR_RAISE(const Json* value, Member(object, key, what, "a string",
                                                  [](const Json& j) { return j.is_string(); }));
  return value->get<std::string>();
}

arrow::Result<int64_t> GetInt64(const Json& object, const char* key, std::string_view what) {
  ARROW_ASSIGN_OR_RAISE(
      const Json* value, Member(object, key, what, "an integer", [](const Json& j) {
        return j.is_number_integer() && (!j.is_number_unsigned() || j.get<uint64_t>() <= INT64_MAX);
      }));
  return value->get<int64_t>();
}

arrow::Result<int64_t> GetCount(const Json& object, const char* key, std::string_view what) {
  ARROW_ASSIGN_OR_RAISE(const int64_t count, GetInt64(object, key, what));
  if (count < 0) return Invalid("{}: \"{}\" is negative ({})", what, key, count);
  return count;
}

arrow::Result<bool> GetBool(const Json& object, const char* key, std::string_view what) {
  ARROW_ASSIGN_OR_RAISE(const Json* value, Member(object, key, what, "a boolean",
                                                  [](const Json& j) { return j.is_boolean(); }));
  return value->get<bool>();
}

arrow::Result<double> GetDouble(const Json& object, const char* key, std::string_view what) {
  ARROW_ASSIGN_OR_RAISE(const Json* value, Member(object, key, what, "a number",
                                                  [](const Json& j) { return j.is_number(); }));
  return value->get<double>();
}

arrow::Result<const Json*> GetArray(const Json& object, const char* key, std::string_view what) {
  return Member(object, key, what, "an array", [](const Json& j) { return j.is_array(); });
}

arrow::Result<const Json*> GetObject(const Json& object, const char* key, std::string_view what) {
  return Member(object, key, what, "an object", [](const Json& j) { return j.is_object(); });
}

arrow::Result<std::optional<std::string>> FindString(const Json& object, const char* key,
                                                     std::string_view what) {
  if (!Present(object, key)) return std::nullopt;
  ARROW_ASSIGN_OR_RAISE(auto value, GetString(object, key, what));
  return std::optional<std::string>(std::move(value));
}

arrow::Result<std::optional<int64_t>> FindInt64(const Json& object, const char* key,
                                                std::string_view what) {
  if (!Present(object, key)) return std::nullopt;
  ARROW_ASSIGN_OR_RAISE(auto value, GetInt64(object, key, what));
  return std::optional<int64_t>(value);
}

std::string DumpJson(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace thalweg
