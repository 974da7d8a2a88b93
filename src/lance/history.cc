// Runs: what their transactions say, and the layout record beside them.

#include <algorithm>
#include <charconv>
#include <chrono>
#include <random>
#include <thread>

#include "lance/lance_table_internal.h"
#include "lance/property_names.h"
#include "table/run_tag.h"
#include "util/number.h"
#include "util/status.h"
#include "util/uuid.h"

namespace thalweg::lance {
namespace {

constexpr char kWhat[] = "the dataset's transactions";
constexpr int kMostStoreAttempts = 12;

std::string Get(const Properties& properties, const char* key) {
  const auto found = properties.find(key);
  return found == properties.end() ? "" : found->second;
}

int64_t CountOf(const Properties& properties, const char* key) {
  return ParseCount(Get(properties, key)).value_or(0);
}

double DepthOf(const Properties& properties, const char* key) {
  const std::string text = Get(properties, key);
  double depth = -1;
  std::from_chars(text.data(), text.data() + text.size(), depth);
  return depth >= 0 ? depth : -1;
}

std::string OperationName(const std::string& operation) {
  if (operation == "Rewrite") return "replace";
  if (operation == "Append") return "append";
  if (operation == "Overwrite") return "overwrite";
  return operation;
}

/// The clustering columns of a run's properties; none when they are malformed or not there.
std::vector<int32_t> FieldIdsOf(const Properties& properties) {
  std::vector<int32_t> ids;
  const std::string text = Get(properties, property::kFieldIds);
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    const auto id = ParseCount(one);
    if (!id || *id > INT32_MAX || ids.size() == 4) return {};
    ids.push_back(static_cast<int32_t>(*id));
  }
  return ids;
}

/// True when the columns of this fragment were written by the run, as the files' names say.
bool WrittenBy(const Fragment& fragment, const std::vector<int32_t>& field_ids,
               const std::string& tag) {
  const std::string prefix = "data/thalweg-" + tag + "-";
  for (const auto& file : fragment.files) {
    const bool holds = std::any_of(file.field_ids.begin(), file.field_ids.end(), [&](int32_t id) {
      return std::find(field_ids.begin(), field_ids.end(), id) != field_ids.end();
    });
    if (holds && !file.path.starts_with(prefix)) return false;
  }
  return true;
}

/// Groups by name with the ids that the transaction reserved for them; a run whose ids were not
/// known before its commit has one group, of all its fragments.
std::vector<std::pair<std::string, std::vector<uint64_t>>> GroupsOf(const Properties& properties,
                                                                    size_t most) {
  std::vector<std::pair<std::string, std::vector<uint64_t>>> groups;
  const std::string text = Get(properties, property::kGroups);
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::string_view one = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(rest.size(), one.size() + 1));
    const size_t equals = one.find('=');
    if (equals == std::string_view::npos) return {};
    auto ids = ParseFragmentRanges(one.substr(equals + 1), most);
    if (!ids.ok()) return {};
    groups.emplace_back(std::string(one.substr(0, equals)), *std::move(ids));
  }
  return groups;
}

/// The record that the run would have stored; nullopt when it is not one of stamped fragments, or
/// none of them is live as it was written.
std::optional<LayoutRecord> RebuildRecord(const Description& description, const RunCommit& commit) {
  LayoutRecord record;
  record.run = RunOf(commit);
  record.version = CountOf(commit.properties, property::kSpecVersion);
  record.field_ids = FieldIdsOf(commit.properties);
  if (!CheckRunId(record.run.run_id).ok() || record.run.spec_id.empty() || record.version == 0 ||
      record.field_ids.empty()) {
    return std::nullopt;
  }
  const std::string tag = RunTag(record.run.run_id);
  constexpr size_t kMostFragments = 1 << 24;
  const auto named = GroupsOf(commit.properties, kMostFragments);
  std::map<uint64_t, std::string> group_of;
  for (const auto& [group, ids] : named) {
    for (const uint64_t id : ids) group_of[id] = group;
  }
  std::map<std::string, LayoutRecord::Group> groups;
  for (const auto& fragment : description.fragments) {
    std::string group = record.run.run_id;
    if (!named.empty()) {
      const auto found = group_of.find(fragment.id);
      if (found == group_of.end()) continue;
      group = found->second;
    }
    if (!WrittenBy(fragment, record.field_ids, tag)) continue;
    const auto hash = BindingHash(fragment, record.field_ids);
    if (!hash) continue;
    groups[group].id = group;
    groups[group].fragments.push_back({fragment.id, *hash});
  }
  if (groups.empty()) return std::nullopt;
  for (auto& [id, group] : groups) record.groups.push_back(std::move(group));
  return record;
}

/// Whether live fragments have files of other runs than these.
bool HasOtherRuns(const Description& description, const std::set<std::string>& runs) {
  constexpr std::string_view kPrefix = "data/thalweg-";
  constexpr size_t kTagLength = 36;
  std::set<std::string> tags;
  for (const auto& run : runs) tags.insert(RunTag(run));
  for (const auto& fragment : description.fragments) {
    for (const auto& file : fragment.files) {
      if (!file.path.starts_with(kPrefix)) continue;
      if (!tags.contains(file.path.substr(kPrefix.size(), kTagLength))) return true;
    }
  }
  return false;
}

std::optional<uint64_t> CheckedVersion(const Description& description) {
  const auto checked = ParseCount(Get(description.table_metadata, property::kChecked));
  if (!checked) return std::nullopt;
  return static_cast<uint64_t>(*checked);
}

}  // namespace

Properties RunProperties(const RunRecord& run, const std::map<std::string, std::string>& summary,
                         const std::optional<ClusteringSpec>& spec, const std::string& groups) {
  Properties properties = summary;
  properties[property::kRun] = run.run_id;
  properties[property::kRows] = std::to_string(run.rows);
  properties[property::kSourceUnits] = std::to_string(run.source_units);
  properties[property::kSourceBytes] = std::to_string(run.source_bytes);
  properties[property::kOutputUnits] = std::to_string(run.output_units);
  properties[property::kOutputBytes] = std::to_string(run.output_bytes);
  auto depth = [&](const char* key, double value) {
    if (value >= 0) properties[key] = fmt::format("{:.4f}", value);
  };
  depth(property::kDepthBefore, run.depth_before);
  depth(property::kPredictedDepth, run.predicted_depth);
  depth(property::kAchievedDepth, run.achieved_depth);
  if (!spec) return properties;
  std::string ids;
  for (const auto& column : spec->columns) {
    ids += fmt::format("{}{}", ids.empty() ? "" : ",", column.field_id);
  }
  properties[property::kSpecId] = spec->SpecId();
  properties[property::kSpecVersion] = std::to_string(spec->version);
  properties[property::kFieldIds] = ids;
  if (!groups.empty()) properties[property::kGroups] = groups;
  return properties;
}

RunRecord RunOf(const RunCommit& commit) {
  const Properties& properties = commit.properties;
  RunRecord run;
  run.run_id = Get(properties, property::kRun);
  run.snapshot_id = std::to_string(commit.version);
  run.spec_id = Get(properties, property::kSpecId);
  run.committed_millis = commit.timestamp_millis;
  run.rows = CountOf(properties, property::kRows);
  run.source_units = CountOf(properties, property::kSourceUnits);
  run.source_bytes = CountOf(properties, property::kSourceBytes);
  run.output_units = CountOf(properties, property::kOutputUnits);
  run.output_bytes = CountOf(properties, property::kOutputBytes);
  run.depth_before = DepthOf(properties, property::kDepthBefore);
  run.predicted_depth = DepthOf(properties, property::kPredictedDepth);
  run.achieved_depth = DepthOf(properties, property::kAchievedDepth);
  return run;
}

arrow::Result<RunCommits> ReadRunCommits(const Dataset& dataset, uint64_t from, uint64_t to) {
  RunCommits read;
  if (from > to) return read;
  ARROW_ASSIGN_OR_RAISE(const Json json, dataset.Transactions(from, to));
  ARROW_ASSIGN_OR_RAISE(const Json* list, GetArray(json, "transactions", kWhat));
  for (const Json& entry : *list) {
    RunCommit commit;
    ARROW_ASSIGN_OR_RAISE(commit.timestamp_millis, GetInt64(entry, "timestamp_millis", kWhat));
    read.newest_millis = std::max(read.newest_millis, commit.timestamp_millis);
    ARROW_ASSIGN_OR_RAISE(const Json* properties, GetObject(entry, "properties", kWhat));
    if (!properties->contains(property::kRun)) continue;
    ARROW_ASSIGN_OR_RAISE(const int64_t version, GetCount(entry, "version", kWhat));
    commit.version = static_cast<uint64_t>(version);
    ARROW_ASSIGN_OR_RAISE(const std::string operation, GetString(entry, "operation", kWhat));
    commit.operation = OperationName(operation);
    for (const auto& [key, value] : properties->items()) {
      if (value.is_string()) commit.properties[key] = value.get<std::string>();
    }
    read.commits.push_back(std::move(commit));
  }
  return read;
}

arrow::Status RunHistory::ReadNewer(const Dataset& dataset) {
  ARROW_ASSIGN_OR_RAISE(const uint64_t latest, dataset.LatestVersion());
  if (!started_ || latest < upto_) {  // the latter: another dataset stands there now
    commits_.clear();
    from_ = latest + 1;
    upto_ = latest;
    started_ = true;
    return arrow::Status::OK();
  }
  ARROW_ASSIGN_OR_RAISE(auto newer, ReadRunCommits(dataset, upto_ + 1, latest));
  commits_.insert(commits_.end(), newer.commits.begin(), newer.commits.end());
  upto_ = latest;
  return arrow::Status::OK();
}

arrow::Result<int64_t> RunHistory::ReadOlder(const Dataset& dataset, uint64_t count) {
  const uint64_t from = from_ > count ? from_ - count : 1;
  ARROW_ASSIGN_OR_RAISE(auto older, ReadRunCommits(dataset, from, from_ - 1));
  commits_.insert(commits_.begin(), older.commits.begin(), older.commits.end());
  from_ = from;
  return older.newest_millis;
}

arrow::Result<std::vector<RunCommit>> RunHistory::All(const Dataset& dataset) {
  ARROW_RETURN_NOT_OK(ReadNewer(dataset));
  if (from_ > 1) ARROW_RETURN_NOT_OK(ReadOlder(dataset, from_ - 1).status());
  return commits_;
}

arrow::Result<std::optional<RunCommit>> RunHistory::Find(const Dataset& dataset,
                                                         const std::string& run_id) {
  constexpr uint64_t kFirstLook = 64;  // versions
  constexpr int64_t kClocksDiffer = 3'600'000;
  const auto made = TimeOfUuid(run_id);
  ARROW_RETURN_NOT_OK(ReadNewer(dataset));
  bool before = false;  // the versions read are older than the run
  for (uint64_t count = kFirstLook;; count *= 2) {
    const auto found = std::find_if(commits_.begin(), commits_.end(), [&](const auto& commit) {
      return Get(commit.properties, property::kRun) == run_id;
    });
    if (found != commits_.end()) return *found;
    if (from_ <= 1 || before) return std::nullopt;
    // Each look has the double size, so that versions that are gone take few.
    ARROW_ASSIGN_OR_RAISE(const int64_t newest, ReadOlder(dataset, count));
    before = made && newest >= 0 && newest < *made - kClocksDiffer;
  }
}

std::vector<uint64_t> BoundFragments(const Description& description, const LayoutRecord& record) {
  std::vector<uint64_t> bound;
  for (const auto& group : record.groups) {
    for (const auto& stamped : group.fragments) {
      const Fragment* fragment = description.FindFragment(stamped.id);
      if (fragment != nullptr && BindingHash(*fragment, record.field_ids) == stamped.hash) {
        bound.push_back(stamped.id);
      }
    }
  }
  return bound;
}

Records LoadRecords(const Version& version) {
  const Description& description = version.description;
  Records records;
  std::set<std::string> known;
  bool declared = false;
  for (const auto& [key, text] : description.table_metadata) {
    if (!key.starts_with(property::kRunPrefix)) continue;
    auto record = ParseRecord(key, text);
    if (!record.ok()) {
      records.notes.push_back(fmt::format("a layout record cannot be read and counts as absent: {}",
                                          record.status().message()));
      if (!IsOtherFormat(text)) records.broken.push_back(key);
      continue;
    }
    known.insert(record->run.run_id);
    records.records.push_back(*std::move(record));
  }
  for (const auto& [key, text] : description.config)
    declared |= key.starts_with(property::kNamespace);

  const auto checked = CheckedVersion(description);
  // A dataset that was never declared nor written by this program has no runs.
  if ((checked || declared || !known.empty()) && HasOtherRuns(description, known)) {
    auto commits = ReadRunCommits(*version.dataset, checked.value_or(0) + 1, description.version);
    if (!commits.ok()) {
      records.notes.push_back(fmt::format(
          "runs without a layout record could not be looked for: {}", commits.status().message()));
    } else {
      for (const auto& commit : commits->commits) {
        auto record = RebuildRecord(description, commit);
        if (!record || !known.insert(record->run.run_id).second) continue;
        records.notes.push_back(fmt::format(
            "the layout record of run {} was rebuilt from its transaction", record->run.run_id));
        records.rebuilt.insert(record->run.run_id);
        records.records.push_back(*std::move(record));
      }
    }
  }
  std::stable_sort(
      records.records.begin(), records.records.end(),
      [](const auto& a, const auto& b) { return a.run.committed_millis < b.run.committed_millis; });
  return records;
}

arrow::Status StoreRecords(const std::string& uri, const Properties& options,
                           const std::optional<LayoutRecord>& record) {
  std::mt19937 random{std::random_device{}()};
  arrow::Status last;
  for (int attempt = 0; attempt < kMostStoreAttempts; ++attempt) {
    if (attempt > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(
          std::uniform_int_distribution<int>(10, 40 << std::min(attempt, 5))(random)));
    }
    ARROW_ASSIGN_OR_RAISE(const auto version, LoadVersion(uri, options));
    const Description& description = version->description;
    const Records records = LoadRecords(*version);
    Json changes = Json::object();
    if (record) changes[RecordKey(record->run.run_id)] = RecordToText(*record);
    for (const auto& known : records.records) {
      const std::string key = RecordKey(known.run.run_id);
      if (record && known.run.run_id == record->run.run_id) continue;
      const bool live = !BoundFragments(description, known).empty();
      const bool stored = !records.rebuilt.contains(known.run.run_id);
      if (live && !stored) changes[key] = RecordToText(known);
      if (!live && stored) changes[key] = nullptr;
    }
    for (const auto& key : records.broken) {
      if (!changes.contains(key)) changes[key] = nullptr;
    }
    if (changes.empty()) return arrow::Status::OK();
    changes[property::kChecked] = std::to_string(description.version);
    auto updated = version->dataset->UpdateMetadata(
        Json{{"table_metadata", std::move(changes)}, {"properties", Json::object()}});
    last = updated.status();
    if (last.ok() || KindOf(last) != FailureKind::kConflict) return last;
  }
  return last;
}

std::shared_ptr<const Records> LanceTable::LayoutRecords() const {
  std::lock_guard lock(mutex_);
  if (records_ == nullptr) records_ = std::make_shared<const Records>(LoadRecords(*version_));
  return records_;
}

arrow::Result<std::optional<std::string>> LanceTable::FindRun(const std::string& run_id) const {
  // Also where its version is gone from the history: its fragments are not.
  const auto records = LayoutRecords();
  for (const auto& record : records->records) {
    if (record.run.run_id == run_id) return std::optional<std::string>(record.run.snapshot_id);
  }
  std::lock_guard lock(mutex_);
  ARROW_ASSIGN_OR_RAISE(const auto found, Named(run_history_.Find(*version_->dataset, run_id)));
  return found ? std::optional<std::string>(std::to_string(found->version)) : std::nullopt;
}

arrow::Result<std::vector<HistoryEntry>> LanceTable::History() const {
  std::vector<RunCommit> commits;
  {
    std::lock_guard lock(mutex_);
    ARROW_ASSIGN_OR_RAISE(commits, Named(run_history_.All(*version_->dataset)));
  }
  const auto records = LayoutRecords();
  std::vector<HistoryEntry> history;
  std::set<std::string> seen;
  for (const auto& commit : commits) {
    HistoryEntry entry;
    entry.operation = commit.operation;
    entry.summary = commit.properties;
    entry.run = RunOf(commit);
    if (commit.version > 1) entry.snapshot_before = std::to_string(commit.version - 1);
    seen.insert(entry.run.run_id);
    for (const auto& record : records->records) {
      if (record.run.run_id != entry.run.run_id) continue;
      entry.run.quantiles = record.run.quantiles;
      entry.run.prediction_correction = record.run.prediction_correction;
    }
    history.push_back(std::move(entry));
  }
  for (const auto& record : records->records) {
    if (seen.contains(record.run.run_id)) continue;
    HistoryEntry entry;
    entry.run = record.run;
    entry.operation = "replace";
    history.push_back(std::move(entry));
  }
  std::stable_sort(history.begin(), history.end(), [](const auto& a, const auto& b) {
    return a.run.committed_millis < b.run.committed_millis;
  });
  return history;
}

}  // namespace thalweg::lance
