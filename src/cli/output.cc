#include "cli/output.h"

#include <arrow/util/io_util.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <sstream>

#include "util/status.h"
#include "util/units.h"

namespace thalweg::cli {
namespace {

/// "/some/file.cc:123  expression": what Arrow adds to a message in builds with error contexts.
bool IsSourceContext(std::string_view line) {
  for (std::string_view ending : {".cc:", ".h:", ".cpp:", ".hpp:", ".cxx:"}) {
    const size_t at = line.find(ending);
    if (at == std::string_view::npos || line.substr(0, at).find(' ') != std::string_view::npos) {
      continue;
    }
    const size_t digit = at + ending.size();
    if (digit < line.size() && line[digit] >= '0' && line[digit] <= '9') return true;
  }
  return false;
}

/// Blanks and control characters, however many, as one blank.
std::string Squeeze(std::string_view text) {
  std::string squeezed;
  for (const char c : text) {
    const bool blank = static_cast<unsigned char>(c) <= ' ' || c == 0x7f;
    if (!blank) squeezed += c;
    if (blank && !squeezed.empty() && squeezed.back() != ' ') squeezed += ' ';
  }
  while (!squeezed.empty() && squeezed.back() == ' ') squeezed.pop_back();
  return squeezed;
}

/// Code points, not bytes: names of columns may hold any.
size_t DisplayWidth(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string Padded(const std::string& text, size_t width, bool right) {
  const size_t used = DisplayWidth(text);
  const std::string blanks(width > used ? width - used : 0, ' ');
  return right ? blanks + text : text + blanks;
}

}  // namespace

std::string OneLine(const arrow::Status& status) {
  std::string line;
  std::stringstream message(status.message());
  for (std::string part; std::getline(message, part);) {
    if (IsSourceContext(part)) continue;
    part = Squeeze(part);
    if (part.empty()) continue;
    if (!line.empty()) line += line.back() == ':' || line.back() == ';' ? " " : "; ";
    line += part;
  }
  if (const int error = arrow::internal::ErrnoFromStatus(status); error != 0) {
    const std::string reason = std::strerror(error);
    if (line.find(reason) == std::string::npos) line += ": " + reason;
  }
  return line.empty() ? status.CodeAsString() : line;
}

std::string_view KindName(const arrow::Status& status) {
  switch (KindOf(status)) {
    case FailureKind::kUsage:
      return "usage";
    case FailureKind::kConflict:
      return "conflict";
    case FailureKind::kUnknown:
      return "unknown";
    case FailureKind::kError:
      break;
  }
  return "error";
}

Json ErrorJson(std::string_view kind, const std::string& message) {
  Json json;
  json["format"] = "thalweg.error/1";
  json["kind"] = kind;
  json["message"] = message;
  return json;
}

Json CommandJson(std::string_view command, const std::string& table) {
  Json json;
  json["format"] = fmt::format("thalweg.{}/1", command);
  json["table"] = table;
  return json;
}

Json SpecJson(const ClusteringSpec& spec) {
  Json json;
  json["columns"] = Json::array();
  for (const auto& column : spec.columns) {
    json["columns"].push_back({{"name", column.name}, {"field_id", column.field_id}});
  }
  json["curve"] = ToString(spec.curve);
  json["bits_per_dim"] = spec.bits_per_dim;
  json["algorithm"] = ToString(spec.algorithm);
  if (spec.version > 0) {
    json["version"] = spec.version;
  } else {
    json["target_cube_bytes"] = spec.target_cube_bytes;
    json["min_cube_bytes"] = spec.min_cube_bytes;
  }
  json["policy"] = ToString(spec.policy);
  json["theta"] = spec.theta;
  json["spec_id"] = spec.SpecId();
  return json;
}

std::string SpecText(const ClusteringSpec& spec) {
  return LabelledLines(
      {{"columns", JoinNames(spec.columns)},
       {"curve", fmt::format("{}, {} bits per column", ToString(spec.curve), spec.bits_per_dim)},
       {"algorithm", std::string(ToString(spec.algorithm))},
       spec.version > 0
           ? std::pair<std::string, std::string>{"version", std::to_string(spec.version)}
           : std::pair<std::string, std::string>{"cubes",
                                                 fmt::format("target {}, minimum {}",
                                                             FormatBytes(spec.target_cube_bytes),
                                                             FormatBytes(spec.min_cube_bytes))},
       {"policy", spec.policy == Policy::kOverlap ? fmt::format("overlap, theta {}", spec.theta)
                                                  : std::string(ToString(spec.policy))},
       {"spec id", spec.SpecId()}});
}

Json KnownDepth(double depth) { return depth < 0 ? Json() : Json(depth); }

std::string JoinNames(const std::vector<ClusteringColumn>& columns) {
  std::string joined;
  for (const auto& column : columns) joined += (joined.empty() ? "" : ", ") + column.name;
  return joined;
}

std::string NotesText(const std::vector<std::string>& notes) {
  std::string text;
  for (const auto& note : notes) text += "note: " + Squeeze(note) + "\n";
  return text;
}

void AddNotes(const std::vector<std::string>& more, std::vector<std::string>* notes) {
  std::vector<std::string> all = more;
  for (auto& note : *notes) {
    if (std::find(more.begin(), more.end(), note) == more.end()) all.push_back(std::move(note));
  }
  *notes = std::move(all);
}

std::string Plural(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", FormatCount(count), noun, count == 1 ? "" : "s");
}

std::string TextTable::ToString() const {
  std::vector<std::string> titles;
  std::vector<bool> right;
  std::vector<size_t> widths;
  for (const auto& heading : headings_) {
    right.push_back(!heading.empty() && heading[0] == '>');
    titles.push_back(right.back() ? heading.substr(1) : heading);
    widths.push_back(DisplayWidth(titles.back()));
  }
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], DisplayWidth(row[i]));
  }
  std::string text;
  auto add = [&](const std::vector<std::string>& row) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += (i == 0 ? "" : "  ") + Padded(row[i], widths[i], right[i]);
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    text += line + "\n";
  };
  add(titles);
  for (const auto& row : rows_) add(row);
  return text;
}

std::string LabelledLines(const std::vector<std::pair<std::string, std::string>>& lines) {
  size_t width = 0;
  for (const auto& [label, value] : lines) {
    if (!value.empty()) width = std::max(width, DisplayWidth(label));
  }
  std::string text;
  for (const auto& [label, value] : lines) {
    if (!value.empty()) text += Padded(label, width, false) + "  " + value + "\n";
  }
  return text;
}

bool WriteOut(std::string_view text) {
  errno = 0;
  const bool written =
      std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  return written || errno == EPIPE;
}

}  // namespace thalweg::cli
