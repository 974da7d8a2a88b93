#include "task/selection_check.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "task/output_collector.h"
#include "task/row_digest.h"
#include "util/status.h"
#include "util/units.h"

namespace thalweg {
namespace {

/// Deletes that leave the unit itself as it is, and still apply to what it was rewritten into, may
/// change what is known of its rows.
bool SameUnit(const UnitDescriptor& a, const UnitDescriptor& b) {
  return a.id == b.id && a.bytes == b.bytes && a.json == b.json;
}

/// Live rows of units: how many there are, or the most there can be.
struct LiveRows {
  int64_t rows = 0;
  bool exact = true;
};

std::vector<std::string> SourceIds(const TaskEnvelope& task) {
  std::vector<std::string> ids;
  ids.reserve(task.sources.size());
  for (const auto& unit : task.sources) ids.push_back(unit.id);
  return ids;
}

/// What all results of one commit must have in common.
arrow::Status CheckAlike(const std::vector<ResultEnvelope>& results) {
  const TaskEnvelope& first = results.front().task;
  for (const auto& result : results) {
    const TaskEnvelope& task = result.task;
    const auto differ = [&](const char* what, const std::string& a, const std::string& b) {
      return Invalid(
          "results of different {} cannot be committed together: {} (task {}) and {} (task {})",
          what, a, first.task, b, task.task);
    };
    if (task.run_id != first.run_id) return differ("runs", first.run_id, task.run_id);
    if (task.snapshot_id != first.snapshot_id) {
      return differ("snapshots", first.snapshot_id, task.snapshot_id);
    }
    if (task.spec != first.spec) {
      return differ("clustering specs", first.spec.SpecId(), task.spec.SpecId());
    }
    if (task.schema_id != first.schema_id) {
      return differ("schemas", std::to_string(first.schema_id), std::to_string(task.schema_id));
    }
  }
  return arrow::Status::OK();
}

/// Slices 0..k-1 once each, of one selection, that divide the curve without gap or overlap.
arrow::Status CheckSlices(SelectionResults* selection) {
  auto& slices = selection->slices;
  const std::string id = slices.front()->task.selection_id;
  std::sort(slices.begin(), slices.end(),
            [](const auto* a, const auto* b) { return a->task.slice < b->task.slice; });
  const TaskEnvelope& first = slices.front()->task;
  for (size_t i = 0; i < slices.size(); ++i) {
    const TaskEnvelope& task = slices[i]->task;
    if (i > 0 && task.slice == slices[i - 1]->task.slice) {
      return Invalid("selection {}: slice {} is there twice", id, task.slice);
    }
    if (task.slices != first.slices || task.fitted_hash != first.fitted_hash ||
        task.selection_rows != first.selection_rows || task.sources != first.sources) {
      return Invalid("selection {}: slices {} and {} are not of one plan", id, first.slice,
                     task.slice);
    }
  }
  for (int slice = 0; slice < first.slices; ++slice) {
    if (static_cast<size_t>(slice) >= slices.size() || slices[slice]->task.slice != slice) {
      return Invalid("selection {}: the result of slice {} of {} is missing", id, slice,
                     first.slices);
    }
  }
  Key128 begin = 0;
  for (const auto* result : slices) {
    const TaskEnvelope& task = result->task;
    if (task.key_begin != begin || (task.slice + 1 == task.slices) != !task.key_end) {
      return Invalid("selection {}: the key range of slice {} does not meet its neighbours'", id,
                     task.slice);
    }
    begin = task.key_end.value_or(0);
  }
  return arrow::Status::OK();
}

/// The table's own descriptors of the sources; their live rows.
arrow::Result<LiveRows> CheckSources(const Table& table, const TaskEnvelope& task) {
  const bool moved = table.snapshot_id() != task.snapshot_id;
  auto found = table.Describe(SourceIds(task));
  if (!found.ok()) {
    if (!moved) return found.status();
    return Conflict("{}: source units of selection {} are no longer live: {}", table.name(),
                    task.selection_id, found.status().message());
  }
  LiveRows live;
  for (size_t i = 0; i < task.sources.size(); ++i) {
    if (i >= found->size() || !SameUnit((*found)[i], task.sources[i])) {
      const auto text = fmt::format("{}: source unit {} is not as the task describes it",
                                    table.name(), task.sources[i].id);
      return moved ? Conflict("{}: the table has changed since the plan", text)
                   : Invalid("{}", text);
    }
    live.rows += (*found)[i].rows;
    live.exact = live.exact && (*found)[i].rows_exact;
  }
  return live;
}

arrow::Status CheckDigests(const SelectionResults& selection, Verify verify) {
  RowDigest input, output;
  size_t without = 0;
  for (const auto* result : selection.slices) {
    if (result->input_digest.empty() || result->output_digest.empty()) {
      ++without;
      continue;
    }
    ARROW_ASSIGN_OR_RAISE(auto in, RowDigest::FromHex(result->input_digest));
    ARROW_ASSIGN_OR_RAISE(auto out, RowDigest::FromHex(result->output_digest));
    input.Merge(in);
    output.Merge(out);
  }
  const std::string& id = selection.task().selection_id;
  if (without == selection.slices.size() && verify == Verify::kCounts) return arrow::Status::OK();
  if (without > 0) {
    return Invalid(
        "selection {}: {} of {} results have no row digest: execute them with --verify digest, or "
        "commit "
        "with --verify counts if none has",
        id, without, selection.slices.size());
  }
  if (input != output) {
    return Invalid(
        "selection {}: the rows written differ from the rows read (digest {} instead of {})", id,
        output.ToHex(), input.ToHex());
  }
  return arrow::Status::OK();
}

arrow::Status CheckRows(const SelectionResults& selection, const LiveRows& live) {
  int64_t rows = 0;
  for (const auto* result : selection.slices) {
    int64_t written = 0;
    for (const auto& unit : result->outputs) written += unit.rows;
    if (written != result->rows) {
      return Invalid("selection {}: slice {} says {} rows, its output units have {}",
                     selection.task().selection_id, result->task.slice, FormatCount(result->rows),
                     FormatCount(written));
    }
    rows += written;
  }
  if (rows > live.rows || (live.exact && rows < live.rows)) {
    return Invalid(
        "selection {}: {} rows were written, the table's metadata counts {} live rows in its "
        "source units",
        selection.task().selection_id, FormatCount(rows), FormatCount(live.rows));
  }
  if (rows != selection.task().selection_rows) {
    return Invalid("selection {}: {} rows were written, {} were planned",
                   selection.task().selection_id, FormatCount(rows),
                   FormatCount(selection.task().selection_rows));
  }
  return arrow::Status::OK();
}

}  // namespace

RewriteSelection SelectionResults::Rewrite() const {
  RewriteSelection rewrite{task().sources, {}};
  for (const auto* result : slices) {
    rewrite.outputs.insert(rewrite.outputs.end(), result->outputs.begin(), result->outputs.end());
  }
  return rewrite;
}

arrow::Result<std::vector<SelectionResults>> CheckResults(
    const Table& table, const std::vector<ResultEnvelope>& results, Verify verify) {
  if (results.empty()) return Invalid("no results to commit");
  ARROW_RETURN_NOT_OK(CheckAlike(results));
  std::vector<SelectionResults> selections;
  std::map<std::string, size_t> by_id;
  std::set<std::string> outputs;
  for (const auto& result : results) {
    const auto [at, added] = by_id.emplace(result.task.selection_id, selections.size());
    if (added) selections.emplace_back();
    selections[at->second].slices.push_back(&result);
    if (result.outputs.empty() && result.rows > 0) {
      return Invalid("task {}: an empty result: {} rows but no output units", result.task.task,
                     result.rows);
    }
    for (const auto& unit : result.outputs) {
      if (!outputs.insert(unit.id).second) return Invalid("output unit {} is there twice", unit.id);
    }
  }
  std::set<std::string> sources;
  for (auto& selection : selections) {
    ARROW_RETURN_NOT_OK(CheckSlices(&selection));
    if (selection.task().sources.empty()) {
      return Invalid("selection {}: an empty task: no source units", selection.task().selection_id);
    }
    for (const auto& unit : selection.task().sources) {
      if (!sources.insert(unit.id).second) {
        return Invalid("source unit {} is in two selections, or twice in one", unit.id);
      }
    }
  }
  for (const auto& selection : selections) {
    ARROW_ASSIGN_OR_RAISE(const auto live, CheckSources(table, selection.task()));
    ARROW_RETURN_NOT_OK(CheckRows(selection, live));
    ARROW_RETURN_NOT_OK(CheckDigests(selection, verify));
  }
  return selections;
}

arrow::Status CheckScans(const std::vector<SelectionResults>& selections,
                         const std::vector<ScanReport>& scans) {
  for (const auto& selection : selections) {
    const TaskEnvelope& task = selection.task();
    const size_t from_pieces =
        std::count_if(selection.slices.begin(), selection.slices.end(),
                      [](const auto* result) { return result->from_pieces; });
    if (from_pieces == 0) continue;
    if (from_pieces < selection.slices.size()) {
      return Invalid("selection {}: only some of its slices were sorted from pieces",
                     task.selection_id);
    }
    std::vector<const ScanReport*> own;
    for (const auto& scan : scans) {
      if (scan.selection_id == task.selection_id) own.push_back(&scan);
    }
    std::sort(own.begin(), own.end(),
              [](const auto* a, const auto* b) { return a->first_unit < b->first_unit; });
    std::vector<int64_t> rows(selection.slices.size(), 0);
    RowDigest read, sorted;
    bool digests = true;
    int next_unit = 0;
    size_t taken = 0;
    for (const auto* scan : own) {
      if (scan->run_id != task.run_id || scan->fitted_hash != task.fitted_hash) {
        return Invalid("selection {}: a scan report is of another plan", task.selection_id);
      }
      if (scan->first_unit != next_unit) break;
      next_unit = scan->end_unit;
      ++taken;
      for (const auto& piece : scan->pieces) {
        if (static_cast<size_t>(piece.slice) >= rows.size()) {
          return Invalid("selection {}: a scan report tells of slice {} of {}", task.selection_id,
                         piece.slice, rows.size());
        }
        rows[piece.slice] += piece.rows;
      }
      digests = digests && !scan->digest.empty();
      if (!digests) continue;
      ARROW_ASSIGN_OR_RAISE(const auto digest, RowDigest::FromHex(scan->digest));
      read.Merge(digest);
    }
    if (static_cast<size_t>(next_unit) != task.sources.size() || taken != own.size()) {
      return Invalid(
          "selection {}: its rows were read elsewhere, and its scan reports do not name each of "
          "its {} source units once",
          task.selection_id, task.sources.size());
    }
    for (const auto* result : selection.slices) {
      if (rows[result->task.slice] != result->rows) {
        return Invalid("selection {}: slice {} has {} rows, its scans read {}", task.selection_id,
                       result->task.slice, FormatCount(result->rows),
                       FormatCount(rows[result->task.slice]));
      }
      if (result->input_digest.empty()) continue;
      ARROW_ASSIGN_OR_RAISE(const auto digest, RowDigest::FromHex(result->input_digest));
      sorted.Merge(digest);
    }
    if (selection.slices.front()->input_digest.empty()) continue;  // --verify counts
    if (!digests) {
      return Invalid("selection {}: a scan report has no row digest", task.selection_id);
    }
    if (read != sorted) {
      return Invalid(
          "selection {}: the rows sorted differ from the rows read (digest {} instead of {})",
          task.selection_id, sorted.ToHex(), read.ToHex());
    }
  }
  return arrow::Status::OK();
}

bool SourcesUnchanged(const Table& table, const TaskEnvelope& task) {
  return CheckSources(table, task).ok();
}

arrow::Status CheckOutputs(const Table& table, const std::vector<SelectionResults>& selections) {
  for (const auto& selection : selections) {
    for (const auto* result : selection.slices) {
      for (const auto& unit : result->outputs) ARROW_RETURN_NOT_OK(table.CheckOutput(unit));
    }
  }
  return arrow::Status::OK();
}

arrow::Status ReadOutputsBack(const Table& table, const std::vector<SelectionResults>& selections) {
  for (const auto& selection : selections) {
    for (const auto* result : selection.slices) {
      RowDigest digest;
      for (const auto& unit : result->outputs) {
        ARROW_ASSIGN_OR_RAISE(auto one, DigestOfUnit(table, unit, unit.rows));
        digest.Merge(one);
      }
      if (digest.ToHex() != result->output_digest) {
        return Invalid("task {}: read back, its output units differ from what was written",
                       result->task.task);
      }
    }
  }
  return arrow::Status::OK();
}

RunRecord MergeRuns(const std::vector<SelectionResults>& selections) {
  RunRecord merged;
  int64_t most = -1;
  for (const auto& selection : selections) {
    int64_t rows = 0;
    for (const auto* result : selection.slices) {
      const RunRecord& run = result->run;
      rows += result->rows;
      merged.output_units += static_cast<int64_t>(result->outputs.size());
      for (const auto& unit : result->outputs) merged.output_bytes += unit.bytes;
      merged.run_id = result->task.run_id;
      merged.spec_id = result->task.spec.SpecId();
      if (selection.task().selection_rows > most) {
        most = selection.task().selection_rows;
        merged.quantiles = run.quantiles;
      }
    }
    merged.rows += rows;
    merged.source_units += static_cast<int64_t>(selection.task().sources.size());
    for (const auto& unit : selection.task().sources) merged.source_bytes += unit.bytes;
  }
  return merged;
}

}  // namespace thalweg
