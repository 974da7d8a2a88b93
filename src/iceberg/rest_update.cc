#include "iceberg/rest_update.h"

#include <map>
#include <set>
#include <string_view>

#include "util/status.h"

namespace thalweg::iceberg {
namespace {

/// What the server derives itself from snapshots, refs and the commit.
const std::set<std::string_view> kDerived = {"last-updated-ms",     "last-sequence-number",
                                             "current-snapshot-id", "snapshot-log",
                                             "metadata-log",        "next-row-id"};

/// Members of the list, by their snapshot-id.
std::map<int64_t, Json> BySnapshot(const Json& document, const char* key) {
  std::map<int64_t, Json> members;
  const auto list = document.find(key);
  if (list == document.end() || !list->is_array()) return members;
  for (const Json& member : *list) {
    if (!member.is_object()) continue;
    const auto id = member.find("snapshot-id");
    if (id != member.end() && id->is_number_integer()) members[id->get<int64_t>()] = member;
  }
  return members;
}

Json ObjectOf(const Json& document, const char* key) {
  const auto found = document.find(key);
  return found != document.end() && found->is_object() ? *found : Json::object();
}

/// Equal whatever the order of the members.
bool SameJson(const Json& a, const Json& b) { return nlohmann::json(a) == nlohmann::json(b); }

arrow::Status Unexpressed(const std::string& what) {
  return Invalid("internal error: a commit to a REST catalog cannot change {}", what);
}

class Difference {
 public:
  Difference(const TableMetadata& base, const TableMetadata& updated)
      : base_(base), updated_(updated), before_(base.json()), after_(updated.json()) {}

  arrow::Result<RestUpdate> Make() {
    ARROW_RETURN_NOT_OK(CheckOthers());
    ARROW_RETURN_NOT_OK(AddSnapshots());
    ARROW_RETURN_NOT_OK(SetRefs());
    SetStatistics();
    const bool guarded = !update_.updates.empty();
    SetProperties();
    if (guarded && properties_) return Unexpressed("properties together with snapshots");
    update_.requirements.push_back(
        Json{{"type", "assert-table-uuid"}, {"uuid", base_.table_uuid()}});
    if (guarded) {
      const auto main = base_.current_snapshot_id();
      update_.requirements.push_back(Json{{"type", "assert-ref-snapshot-id"},
                                          {"ref", "main"},
                                          {"snapshot-id", main ? Json(*main) : Json()}});
    }
    return std::move(update_);
  }

 private:
  arrow::Status CheckOthers() const {
    static const std::set<std::string_view> kExpressed = {"snapshots", "refs", "statistics",
                                                          "properties"};
    std::set<std::string> keys;
    for (const Json* document : {&before_, &after_}) {
      for (const auto& [key, value] : document->items()) keys.insert(key);
    }
    for (const auto& key : keys) {
      if (kDerived.contains(key) || kExpressed.contains(key)) continue;
      const auto old = before_.find(key), now = after_.find(key);
      const bool same = old != before_.end() && now != after_.end() && SameJson(*old, *now);
      if (!same) return Unexpressed("\"" + key + "\"");
    }
    return arrow::Status::OK();
  }

  arrow::Status AddSnapshots() {
    const auto old = BySnapshot(before_, "snapshots");
    const auto now = BySnapshot(after_, "snapshots");
    for (const auto& [id, snapshot] : old) {
      const auto kept = now.find(id);
      if (kept == now.end() || !SameJson(kept->second, snapshot)) {
        return Unexpressed(fmt::format("the existing snapshot {}", id));
      }
    }
    for (const auto& [id, snapshot] : now) {
      if (old.contains(id)) continue;
      if (update_.snapshot_id) return Unexpressed("more than one snapshot at a time");
      update_.snapshot_id = id;
      Json added = snapshot;
      update_.updates.push_back(Json{{"action", "add-snapshot"}, {"snapshot", std::move(added)}});
    }
    return arrow::Status::OK();
  }

  arrow::Status SetRefs() {
    const Json old = ObjectOf(before_, "refs"), now = ObjectOf(after_, "refs");
    for (const auto& [name, ref] : old.items()) {
      if (!now.contains(name)) return Unexpressed("the ref " + name + " into nothing");
    }
    for (const auto& [name, ref] : now.items()) {
      const auto before = old.find(name);
      if (before != old.end() && SameJson(*before, ref)) continue;
      // Metadata of old writers has the current snapshot alone.
      if (before == old.end() && name == "main" && base_.current_snapshot_id() &&
          base_.current_snapshot_id() == updated_.current_snapshot_id()) {
        continue;
      }
      if (name != "main" || !ref.is_object()) return Unexpressed("the ref " + name);
      Json set{{"action", "set-snapshot-ref"}, {"ref-name", name}};
      for (const auto& [key, value] : ref.items()) set[key] = value;  // with its retention
      if (update_.snapshot_id != updated_.current_snapshot_id()) {
        return Unexpressed("main to a snapshot that was there before");
      }
      update_.updates.push_back(std::move(set));
    }
    return arrow::Status::OK();
  }

  void SetStatistics() {
    const auto old = BySnapshot(before_, "statistics");
    const auto now = BySnapshot(after_, "statistics");
    for (const auto& [id, file] : now) {
      const auto before = old.find(id);
      if (before != old.end() && SameJson(before->second, file)) continue;
      update_.updates.push_back(
          Json{{"action", "set-statistics"}, {"snapshot-id", id}, {"statistics", file}});
    }
    for (const auto& [id, file] : old) {
      if (now.contains(id)) continue;
      update_.updates.push_back(Json{{"action", "remove-statistics"}, {"snapshot-id", id}});
    }
  }

  void SetProperties() {
    const Json old = ObjectOf(before_, "properties"), now = ObjectOf(after_, "properties");
    Json changed = Json::object(), removed = Json::array();
    for (const auto& [key, value] : now.items()) {
      const auto before = old.find(key);
      if (before == old.end() || *before != value) changed[key] = value;
    }
    for (const auto& [key, value] : old.items()) {
      if (!now.contains(key)) removed.push_back(key);
    }
    properties_ = !changed.empty() || !removed.empty();
    if (!changed.empty()) {
      update_.updates.push_back(Json{{"action", "set-properties"}, {"updates", changed}});
    }
    if (!removed.empty()) {
      update_.updates.push_back(Json{{"action", "remove-properties"}, {"removals", removed}});
    }
  }

  const TableMetadata& base_;
  const TableMetadata& updated_;
  const Json& before_;
  const Json& after_;
  RestUpdate update_;
  bool properties_ = false;
};

}  // namespace

arrow::Result<bool> HoldsSnapshotOf(const RestUpdate& update, const TableMetadata& table) {
  if (!update.snapshot_id) return false;
  ARROW_ASSIGN_OR_RAISE(const auto found, table.FindSnapshot(*update.snapshot_id));
  return found.has_value();
}

arrow::Result<RestUpdate> MakeRestUpdate(const TableMetadata& base, const TableMetadata& updated) {
  return Difference(base, updated).Make();
}

}  // namespace thalweg::iceberg
