// Commits of rewrites and writes: what is checked against the latest version at every attempt, and
// the layout record that follows.

#include <algorithm>
#include <chrono>
#include <random>
#include <thread>

#include "lance/declaration.h"
#include "lance/key_ranges.h"
#include "lance/lance_table_internal.h"
#include "lance/property_names.h"
#include "layout/cube_map.h"
#include "layout/depth.h"
#include "util/crash_point.h"
#include "util/number.h"
#include "util/status.h"
#include "util/uuid.h"

namespace thalweg::lance {
namespace {

constexpr char kWhat[] = "the Lance library's answer";
constexpr int kMostAttempts = 6;

arrow::Result<uint64_t> GetVersion(const Json& answer, const char* key) {
  ARROW_ASSIGN_OR_RAISE(const int64_t version, GetCount(answer, key, kWhat));
  return static_cast<uint64_t>(version);
}

void Wait(int attempt) {
  static thread_local std::mt19937 random{std::random_device{}()};
  std::uniform_int_distribution<int> millis(20, 60 << std::min(attempt, 5));
  std::this_thread::sleep_for(std::chrono::milliseconds(millis(random)));
}

/// What a rewrite's groups are called: the whole output of one sort each.
std::string GroupId(const RewriteCommit& commit, size_t selection) {
  return commit.selections.size() == 1 ? commit.run_id
                                       : fmt::format("{}-{}", commit.run_id, selection);
}

/// The written files of a commit, with the ids that were reserved for them.
struct NewFragments {
  std::vector<std::vector<Fragment>> groups;  ///< one a selection
  std::vector<const OutputUnit*> units;       ///< of all of them, in this order

  static arrow::Result<NewFragments> Of(const RewriteCommit& commit) {
    NewFragments fragments;
    for (const auto& selection : commit.selections) {
      auto& group = fragments.groups.emplace_back();
      for (const auto& unit : selection.outputs) {
        ARROW_ASSIGN_OR_RAISE(auto written, ParseWrittenFile(unit));
        group.push_back(std::move(written.fragment));
        fragments.units.push_back(&unit);
      }
    }
    return fragments;
  }

  void Number(uint64_t first_id) {
    for (auto& group : groups) {
      for (auto& fragment : group) {
        fragment.id = first_id++;
        fragment.json["id"] = fragment.id;
      }
    }
  }

  /// "<group>=<first>-<last>;…"
  std::string GroupsText(const RewriteCommit& commit) const {
    std::string text;
    for (size_t i = 0; i < groups.size(); ++i) {
      std::vector<uint64_t> ids;
      for (const auto& fragment : groups[i]) ids.push_back(fragment.id);
      if (ids.empty()) continue;
      text +=
          fmt::format("{}{}={}", text.empty() ? "" : ";", GroupId(commit, i), FragmentRanges(ids));
    }
    return text;
  }
};

/// The identity columns of the rows of all new fragments, one rows file after the other.
class IdentityReader : public arrow::RecordBatchReader {
 public:
  IdentityReader(std::shared_ptr<const Dataset> dataset, std::vector<OutputUnit> units,
                 std::vector<std::string> columns)
      : dataset_(std::move(dataset)), units_(std::move(units)), columns_(std::move(columns)) {
    arrow::FieldVector fields;
    for (const auto& name : columns_) fields.push_back(IdentityField(name));
    schema_ = arrow::schema(std::move(fields));
  }

  std::shared_ptr<arrow::Schema> schema() const override { return schema_; }
  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* batch) override {
    batch->reset();
    if (next_ == units_.size()) return arrow::Status::OK();
    ARROW_ASSIGN_OR_RAISE(*batch, ReadRowsFile(*dataset_, units_[next_++], columns_));
    return arrow::Status::OK();
  }

 private:
  const std::shared_ptr<const Dataset> dataset_;
  const std::vector<OutputUnit> units_;
  const std::vector<std::string> columns_;
  std::shared_ptr<arrow::Schema> schema_;
  size_t next_ = 0;
};

/// Files that were written without what an index needs by now: rows must be read again.
arrow::Status CheckIdentity(const std::vector<const OutputUnit*>& units,
                            const std::vector<std::string>& columns) {
  for (const OutputUnit* unit : units) {
    ARROW_ASSIGN_OR_RAISE(const auto written, ParseWrittenFile(*unit));
    for (const auto& column : columns) {
      if (std::find(written.identity.begin(), written.identity.end(), column) ==
          written.identity.end()) {
        return Conflict("an index was made since the plan, which rows of {} cannot be followed in",
                        unit->id);
      }
    }
  }
  return arrow::Status::OK();
}

/// The first of so many new ids. Ids that are reserved and not used do no harm.
arrow::Result<uint64_t> ReserveIds(const Dataset& dataset, size_t count) {
  auto reserved = dataset.ReserveFragments(Json{{"count", count}, {"properties", Json::object()}});
  if (KindOf(reserved.status()) == FailureKind::kUnknown) {
    return arrow::Status::IOError(reserved.status().message());
  }
  ARROW_RETURN_NOT_OK(reserved.status());
  return GetVersion(*reserved, "first_id");
}

Json ToJson(const Properties& properties) {
  Json json = Json::object();
  for (const auto& [key, value] : properties) json[key] = value;
  return json;
}

LayoutRecord::Group StampedGroup(std::string id, const std::vector<Fragment>& fragments,
                                 const std::vector<int32_t>& field_ids) {
  LayoutRecord::Group group;
  group.id = std::move(id);
  for (const auto& fragment : fragments) {
    if (const auto hash = BindingHash(fragment, field_ids)) {
      group.fragments.push_back({fragment.id, *hash});
    }
  }
  return group;
}

LayoutRecord RecordOf(const RunRecord& run, const ClusteringSpec& spec, uint64_t version) {
  LayoutRecord record;
  record.run = run;
  record.run.spec_id = spec.SpecId();
  record.run.snapshot_id = std::to_string(version);
  record.run.committed_millis = NowMillis();
  record.version = spec.version;
  for (const auto& column : spec.columns) record.field_ids.push_back(column.field_id);
  return record;
}

}  // namespace

double LanceTable::DepthAfter(const RewriteCommit& commit) const {
  auto layout = DescribeLayout(commit.spec.columns);
  if (!layout.ok()) return -1;
  const std::vector<char> untold = KeysWithoutStatistics(*layout);
  std::set<std::string> gone;
  CubeMap map;
  map.runs = layout->runs;
  for (const auto& selection : commit.selections) {
    for (const auto& source : selection.sources) gone.insert(source.id);
  }
  for (const auto& cube : layout->cubes) {
    CubeMap::Entry entry{cube.cube_id, cube.run_id, cube.spec_id, cube.field_ids, "", 0, 0, {}};
    for (const int unit : cube.units) {
      const std::string& id = layout->units[unit].id;
      if (!gone.contains(id)) entry.unit_ids.push_back(id);
    }
    map.cubes.push_back(std::move(entry));
  }
  std::erase_if(layout->units, [&](const Unit& unit) { return gone.contains(unit.id); });
  CubeMap::Entry made{commit.run_id, commit.run_id, commit.spec.SpecId(), {}, "", 0, 0, {}};
  for (const auto& column : commit.spec.columns) made.field_ids.push_back(column.field_id);
  for (const auto& selection : commit.selections) {
    for (const auto& output : selection.outputs) {
      Unit unit;
      unit.id = output.id;
      unit.rows = output.rows;
      unit.bytes = output.bytes;
      const auto keys = output.json.find("keys");
      unit.columns = ParseKeyRanges(keys == output.json.end() ? Json() : *keys, layout->columns);
      for (size_t k = 0; k < untold.size(); ++k) {
        if (untold[k]) unit.columns[k].usable = false;
      }
      made.unit_ids.push_back(unit.id);
      layout->units.push_back(std::move(unit));
    }
  }
  map.cubes.push_back(std::move(made));
  map.runs.push_back(commit.run);
  ApplyCubeMap(map, &*layout);
  return MeasureLayout(*layout).depth;
}

arrow::Status LanceTable::CheckSchemaUnchanged(const Version& latest) const {
  const auto& now = latest.description.fields;
  const auto& then = description().fields;
  const bool same_ids =
      std::equal(now.begin(), now.end(), then.begin(), then.end(),
                 [](const Field& a, const Field& b) { return a.id == b.id && a.name == b.name; });
  if (same_ids && latest.schema->Equals(*version_->schema)) return arrow::Status::OK();
  return Conflict("{}: the schema changed since the files were written", name_);
}

arrow::Status LanceTable::CheckRewrite(const Version& latest, const RewriteCommit& commit) const {
  if (auto supported = CheckSupported(latest.description); !supported.ok()) {
    return Conflict("{}: it cannot be rewritten any more: {}", name_, supported.message());
  }
  ARROW_RETURN_NOT_OK(CheckSchemaUnchanged(latest));
  const Declaration declared = ReadDeclaration(latest.description, *latest.schema);
  if (!declared.problem.empty()) {
    return Conflict("{}: the declaration changed: {}", name_, declared.problem);
  }
  if (!declared.spec) {
    return Conflict("{}: the declaration was cleared since the plan was made", name_);
  }
  if (declared.spec->SpecId() != commit.spec.SpecId()) {
    return Conflict("{}: the declaration changed since the plan was made", name_);
  }
  for (const auto& selection : commit.selections) {
    for (const auto& source : selection.sources) {
      const auto id = ParseCount(source.id);
      const Fragment* fragment =
          id ? latest.description.FindFragment(static_cast<uint64_t>(*id)) : nullptr;
      if (fragment == nullptr) {
        return Conflict("{}: fragment {} was removed since the plan was made", name_, source.id);
      }
      if (fragment->json != source.json) {
        return Conflict("{}: fragment {} is not as it was when the plan was made", name_,
                        source.id);
      }
    }
  }
  return arrow::Status::OK();
}

arrow::Result<uint64_t> LanceTable::Resolve(const arrow::Status& outcome,
                                            const std::string& run_id) const {
  const auto found = FindRun(run_id);
  if (!found.ok()) {
    return UnknownOutcome("{}: {} (and the history cannot be read: {})", name_, outcome.message(),
                          found.status().message());
  }
  if (!*found) return Named(outcome);
  return static_cast<uint64_t>(ParseCount(**found).value_or(0));
}

arrow::Result<LanceTable::Landed> LanceTable::Land(
    const std::string& run_id, int most_attempts,
    const std::function<arrow::Status(const Version& latest)>& check,
    const std::function<arrow::Result<uint64_t>(const Version& latest)>& swap) {
  Landed landed;
  while (true) {
    ++landed.attempts;
    ARROW_ASSIGN_OR_RAISE(const auto latest, Latest());
    ARROW_ASSIGN_OR_RAISE(const auto found, FindRun(run_id));
    if (found) {
      landed.earlier = *found;
      Pin(latest);
      return landed;
    }
    ARROW_RETURN_NOT_OK(check(*latest));
    const auto swapped = swap(*latest);
    if (swapped.ok()) {
      landed.version = *swapped;
      return landed;
    }
    if (KindOf(swapped.status()) == FailureKind::kUnknown) {
      ARROW_ASSIGN_OR_RAISE(landed.version, Resolve(swapped.status(), run_id));
      return landed;
    }
    if (KindOf(swapped.status()) != FailureKind::kConflict || landed.attempts >= most_attempts) {
      return Named(swapped.status());
    }
    // What was written is kept while its sources are as they were: the next round looks at that.
    Wait(landed.attempts);
  }
}

arrow::Result<CommitResult> LanceTable::Finish(const Landed& landed, const std::string& before,
                                               const std::optional<LayoutRecord>& record) {
  CommitResult result;
  result.snapshot_before = before;
  result.snapshot_after = std::to_string(landed.version);
  result.attempts = landed.attempts;
  // The rows are committed. A record that cannot be stored is rebuilt from the transaction by
  // whoever reads the layout next.
  if (record) (void)StoreRecords(uri_, options_, record);
  CrashPoint("after-record");
  if (auto latest = LoadVersion(uri_, options_); latest.ok()) Pin(*std::move(latest));
  return result;
}

arrow::Result<CommitResult> LanceTable::CommitRewrite(
    const RewriteCommit& commit, const std::function<arrow::Status()>& before_swap) {
  ARROW_ASSIGN_OR_RAISE(auto fragments, Named(NewFragments::Of(commit)));
  std::vector<OutputUnit> units;
  units.reserve(fragments.units.size());
  for (const auto* unit : fragments.units) units.push_back(*unit);
  RunRecord run = commit.run;
  run.run_id = commit.run_id;
  run.achieved_depth = DepthAfter(commit);
  std::optional<uint64_t> first_id;
  auto check = [&](const Version& latest) {
    ARROW_RETURN_NOT_OK(CheckRewrite(latest, commit));
    const auto identity = IdentityColumns(latest.description);
    ARROW_RETURN_NOT_OK(Named(CheckIdentity(fragments.units, identity)));
    return before_swap();
  };
  auto swap = [&](const Version& latest) -> arrow::Result<uint64_t> {
    if (!first_id && !units.empty()) {
      ARROW_ASSIGN_OR_RAISE(first_id, ReserveIds(*latest.dataset, units.size()));
      fragments.Number(*first_id);
      CrashPoint("after-reserve");
    }
    Json groups = Json::array();
    for (size_t i = 0; i < commit.selections.size(); ++i) {
      Json old = Json::array(), made = Json::array();
      for (const auto& source : commit.selections[i].sources) {
        old.push_back(ParseCount(source.id).value_or(0));
      }
      for (const auto& fragment : fragments.groups[i]) made.push_back(fragment.json);
      groups.push_back(Json{{"old", std::move(old)}, {"new", std::move(made)}});
    }
    const auto identity = IdentityColumns(latest.description);
    const bool remap = std::find(identity.begin(), identity.end(), kRowAddress) != identity.end();
    const auto properties =
        RunProperties(run, commit.summary, commit.spec, fragments.GroupsText(commit));
    std::shared_ptr<arrow::RecordBatchReader> rows;
    if (!identity.empty()) {
      rows = std::make_shared<IdentityReader>(latest.dataset, units, identity);
    }
    ARROW_ASSIGN_OR_RAISE(const Json answer,
                          latest.dataset->CommitRewrite(Json{{"groups", std::move(groups)},
                                                             {"remap", remap},
                                                             {"properties", ToJson(properties)}},
                                                        rows));
    return GetVersion(answer, "version");
  };
  ARROW_ASSIGN_OR_RAISE(const Landed landed, Land(commit.run_id, kMostAttempts, check, swap));
  if (landed.earlier) {
    return CommitResult{true, commit.base_snapshot, *landed.earlier, landed.attempts};
  }
  CrashPoint("after-rewrite");
  LayoutRecord record = RecordOf(run, commit.spec, landed.version);
  for (size_t i = 0; i < fragments.groups.size(); ++i) {
    if (fragments.groups[i].empty()) continue;
    record.groups.push_back(
        StampedGroup(GroupId(commit, i), fragments.groups[i], record.field_ids));
  }
  for (const auto& unit : units) (void)version_->dataset->DeleteFile(RowsFilePath(unit.id));
  return Finish(landed, commit.base_snapshot, record);
}

arrow::Result<CommitResult> LanceTable::CommitWrite(
    const WriteCommit& commit, const std::function<arrow::Status()>& before_swap) {
  const bool overwrite = commit.mode == WriteMode::kOverwrite;
  RunRecord run = commit.run;
  run.run_id = commit.run_id;
  Json made = Json::array();
  for (const auto& unit : commit.outputs) {
    ARROW_ASSIGN_OR_RAISE(const auto written, Named(ParseWrittenFile(unit)));
    made.push_back(written.fragment.json);
  }
  const Json request{{"mode", overwrite ? "overwrite" : "append"},
                     {"fragments", std::move(made)},
                     {"properties", ToJson(RunProperties(run, commit.summary, commit.spec, ""))}};
  std::vector<Fragment> fragments;
  auto check = [&](const Version& latest) -> arrow::Status {
    ARROW_RETURN_NOT_OK(CheckSchemaUnchanged(latest));
    if (overwrite && SnapshotIdOf(latest.description) != commit.base_snapshot) {
      return Conflict(
          "{}: the dataset moved since it was read; an overwrite replaces only what it has seen: "
          "run it again",
          name_);
    }
    return before_swap();
  };
  auto swap = [&](const Version& latest) -> arrow::Result<uint64_t> {
    ARROW_ASSIGN_OR_RAISE(const Json answer, latest.dataset->CommitFragments(request));
    ARROW_ASSIGN_OR_RAISE(const Json* list, GetArray(answer, "fragments", kWhat));
    for (const Json& fragment : *list) {
      ARROW_ASSIGN_OR_RAISE(fragments.emplace_back(), ParseFragment(fragment));
    }
    return GetVersion(answer, "version");
  };
  ARROW_ASSIGN_OR_RAISE(const Landed landed,
                        Land(commit.run_id, overwrite ? 1 : kMostAttempts, check, swap));
  if (landed.earlier) {
    return CommitResult{true, commit.base_snapshot, *landed.earlier, landed.attempts};
  }
  CrashPoint("after-write");
  std::optional<LayoutRecord> record;
  if (commit.spec && !fragments.empty()) {
    record = RecordOf(run, *commit.spec, landed.version);
    record->groups.push_back(StampedGroup(commit.run_id, fragments, record->field_ids));
  }
  return Finish(landed, commit.base_snapshot, record);
}

}  // namespace thalweg::lance
