#pragma once

#include <arrow/status.h>

#include <string>
#include <string_view>
#include <vector>

#include "spec/clustering_spec.h"
#include "util/json.h"

namespace thalweg::cli {

/// The message of a failed status as one clean line: without the names of source files, control
/// characters and repeated blanks; the system's reason (errno) is kept.
std::string OneLine(const arrow::Status& status);

/// "usage", "conflict", "unknown" or "error".
std::string_view KindName(const arrow::Status& status);

/// {"format": "thalweg.error/1", "kind": …, "message": …}.
Json ErrorJson(std::string_view kind, const std::string& message);

/// {"format": "thalweg.<command>/1", "table": …}, to be filled further.
Json CommandJson(std::string_view command, const std::string& table);

/// The declaration as JSON: columns (name, field_id), curve, bits, algorithm, sizes, policy, theta,
/// spec_id.
Json SpecJson(const ClusteringSpec& spec);
/// The same as aligned lines.
std::string SpecText(const ClusteringSpec& spec);

/// A depth, null where it is not known (negative).
Json KnownDepth(double depth);

/// "a, b, c".
std::string JoinNames(const std::vector<ClusteringColumn>& columns);

/// "note: …" lines.
std::string NotesText(const std::vector<std::string>& notes);

/// Puts `more` before the notes that are there, without those that are there already.
void AddNotes(const std::vector<std::string>& more, std::vector<std::string>* notes);

/// "1 file", "1,234 files".
std::string Plural(int64_t count, std::string_view noun);

/// Columns of text, aligned; a heading that begins with '>' aligns its column to the right.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> headings) : headings_(std::move(headings)) {}
  void Add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  std::string ToString() const;

 private:
  std::vector<std::string> headings_;
  std::vector<std::vector<std::string>> rows_;
};

/// "label   value" lines with aligned values; empty values are left out.
std::string LabelledLines(const std::vector<std::pair<std::string, std::string>>& lines);

/// Writes all of the text to standard output and flushes. False: it could not be written, except to
/// a reader that has gone away.
bool WriteOut(std::string_view text);

}  // namespace thalweg::cli
