#include <filesystem>
#include <memory>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/session.h"
#include "task/shuffle.h"
#include "util/read_file.h"
#include "util/status.h"
#include "util/units.h"
#include "util/write_file.h"

namespace thalweg::cli {
namespace {

constexpr int64_t kPieceBytes = int64_t{8} << 20;
constexpr int64_t kMaxSampleBytes = int64_t{256} << 20;

/// "3:10": units 3 to 9.
struct UnitRange {
  int first = 0, end = 0;
};

arrow::Result<UnitRange> ParseUnits(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon != std::string_view::npos) {
    ARROW_ASSIGN_OR_RAISE(const int64_t first, ParseWhole(text.substr(0, colon)));
    ARROW_ASSIGN_OR_RAISE(const int64_t end, ParseWhole(text.substr(colon + 1)));
    if (first < end && end <= INT32_MAX) {
      return UnitRange{static_cast<int>(first), static_cast<int>(end)};
    }
  }
  return Usage("\"{}\" is no range of units: write FIRST:END, like 0:10 for the first ten", text);
}

arrow::Status MakeFolder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return Invalid("--out {}: the folder cannot be made: {}", folder, error.message());
  if (!std::filesystem::is_empty(folder, error) || error) {
    return Usage("--out {}: the folder is not empty", folder);
  }
  return arrow::Status::OK();
}

// --- sample

struct SampleFlags {
  std::string selection;
  std::optional<UnitRange> units;
  std::string out;
  ExecuteOptions options;
};

arrow::Status RunSample(const Session& session, SampleFlags flags) {
  ARROW_ASSIGN_OR_RAISE(const auto selection, ReadSelection(flags.selection));
  ARROW_ASSIGN_OR_RAISE(auto table, session.Open(selection.task.table));
  int64_t rows = 0;
  std::string bytes;
  {
    const WorkScope work(session, &flags.options);
    ARROW_ASSIGN_OR_RAISE(auto sample, SampleUnits(*table, selection, flags.units->first,
                                                   flags.units->end, flags.options));
    rows = sample.rows();
    ARROW_ASSIGN_OR_RAISE(bytes, sample.Serialize());
  }
  ARROW_RETURN_NOT_OK(WriteWholeFile(flags.out, bytes, /*replace=*/true));
  Json json = CommandJson("sample", table->name());
  json["outcome"] = "sampled";
  json["rows"] = rows;
  json["sample"] = flags.out;
  return session.Print(json, fmt::format("sampled {} into {}\n", Plural(rows, "row"), flags.out));
}

// --- fit

struct FitFlags {
  std::string selection;
  std::vector<std::string> samples;
  int64_t slices = 1;
  int64_t first_task = 0;
  std::string out;
};

arrow::Status RunFit(const Session& session, const FitFlags& flags) {
  ARROW_ASSIGN_OR_RAISE(auto selection, ReadSelection(flags.selection));
  if (flags.slices < 1 || flags.slices > 1000000) {
    return Usage("--slices {}: 1 to 1000000 are possible", flags.slices);
  }
  if (flags.first_task > INT32_MAX - flags.slices) {
    return Usage("--first-task {} is too large", flags.first_task);
  }
  std::vector<PartialFit> samples;
  for (const auto& path : flags.samples) {
    ARROW_ASSIGN_OR_RAISE(const auto bytes, ReadWholeFile(path, kMaxSampleBytes));
    auto sample = PartialFit::Deserialize(bytes, selection.task.spec.algorithm);
    if (!sample.ok()) return Invalid("{}: {}", path, sample.status().message());
    samples.push_back(*std::move(sample));
  }
  selection.task.task = static_cast<int>(flags.first_task);
  ARROW_ASSIGN_OR_RAISE(selection, FitSelection(std::move(selection), std::move(samples),
                                                static_cast<int>(flags.slices)));
  ARROW_RETURN_NOT_OK(MakeFolder(flags.out));
  ARROW_ASSIGN_OR_RAISE(const auto tasks, WriteTasks(selection.Tasks(), flags.out));
  const std::string path = std::filesystem::path(flags.out) / "selection.json";
  ARROW_RETURN_NOT_OK(WriteSelection(selection, path));
  Json json = CommandJson("fit", selection.task.table);
  json["outcome"] = "fitted";
  json["rows"] = selection.task.selection_rows;
  json["fitted_hash"] = selection.task.fitted_hash;
  json["selection"] = path;
  json["tasks"] = tasks;
  return session.Print(
      json,
      fmt::format("{} in {}\n", Plural(static_cast<int64_t>(tasks.size()), "task"), flags.out));
}

// --- scatter

struct ScatterFlags {
  std::string selection;
  std::optional<UnitRange> units;
  std::string out;
  int64_t piece_bytes = kPieceBytes;
  ExecuteOptions options;
};

arrow::Status RunScatter(const Session& session, ScatterFlags flags) {
  ARROW_ASSIGN_OR_RAISE(const auto selection, ReadSelection(flags.selection));
  ARROW_ASSIGN_OR_RAISE(auto table, session.Open(selection.task.table));
  ARROW_RETURN_NOT_OK(MakeFolder(flags.out));
  arrow::Result<ScanReport> report = arrow::Status::Invalid("");
  {
    const WorkScope work(session, &flags.options);
    report = ScatterUnits(*table, selection, flags.units->first, flags.units->end, flags.out,
                          flags.piece_bytes, flags.options);
  }
  ARROW_RETURN_NOT_OK(report.status());
  const std::string path = std::filesystem::path(flags.out) / "scan.json";
  ARROW_RETURN_NOT_OK(WriteScanReport(*report, path));
  Json json = CommandJson("scatter", table->name());
  json["outcome"] = "scattered";
  json["rows"] = report->rows;
  json["scan"] = path;
  json["pieces"] = report->ToJson()["pieces"];
  return session.Print(
      json, fmt::format("{} in {}\n", Plural(static_cast<int64_t>(report->pieces.size()), "piece"),
                        flags.out));
}

template <typename Flags>
void AddUnitOptions(CLI::App* command, Flags* flags) {
  command
      ->add_option("SELECTION", flags->selection,
                   "selection envelope (JSON) of plan --selections-out, or of fit")
      ->required()
      ->option_text(" ");
  AddParsed(command, "--units", &flags->units, "FIRST:END", &ParseUnits,
            "these of the selection's source units, counted from 0, END not among them")
      ->required();
}

}  // namespace

void AddShuffleCommands(CLI::App& app, Session& session) {
  const std::string example =
      "  thalweg plan ./events --selections-out s\n"
      "  thalweg sample s/selection-00000.json --units 0:40 --out 0.sample     # anywhere\n"
      "  thalweg fit s/selection-00000.json *.sample --slices 8 --out f\n"
      "  thalweg scatter f/selection.json --units 0:40 --out p0                # anywhere\n"
      "  thalweg execute f/task-00003.json --rows p*/slice-00003-*.arrows --out 3.json\n"
      "  thalweg commit ./events *.json --scan p*/scan.json";

  auto sample = std::make_shared<SampleFlags>();
  CLI::App* command = AddCommand(
      app, "sample", "Sample the keys of some units, for a sort over machines.", example);
  AddUnitOptions(command, sample.get());
  command->add_option("--out", sample->out, "where the sample goes")
      ->required()
      ->option_text("FILE");
  AddExecuteOptions(command, &sample->options, /*verify=*/false);
  command->callback([&session, sample] {
    session.action = [&session, sample] { return RunSample(session, *sample); };
  });

  auto fit = std::make_shared<FitFlags>();
  command = AddCommand(app, "fit", "Make the key model and the tasks out of samples.", example);
  command->add_option("SELECTION", fit->selection, "selection envelope (JSON)")
      ->required()
      ->option_text(" ");
  command->add_option("SAMPLE", fit->samples, "samples of all units, each unit in one")
      ->required()
      ->option_text(" ");
  AddCount(command, "--slices", &fit->slices,
           "slices of the curve, of about equal rows (default: 1)");
  AddCount(command, "--first-task", &fit->first_task,
           "number of the first task, where a plan has several selections (default: 0)");
  command->add_option("--out", fit->out, "folder for the tasks and the fitted selection")
      ->required()
      ->option_text("DIR");
  command->callback(
      [&session, fit] { session.action = [&session, fit] { return RunFit(session, *fit); }; });

  auto scatter = std::make_shared<ScatterFlags>();
  command = AddCommand(app, "scatter", "Read some units and divide their rows by slices.", example);
  AddUnitOptions(command, scatter.get());
  command->add_option("--out", scatter->out, "folder for the pieces and scan.json")
      ->required()
      ->option_text("DIR");
  AddBytes(command, "--piece-size", &scatter->piece_bytes,
           "size of a piece before compression (default: 8MiB)");
  AddExecuteOptions(command, &scatter->options, /*verify=*/true);
  command->callback([&session, scatter] {
    session.action = [&session, scatter] { return RunScatter(session, *scatter); };
  });
}

}  // namespace thalweg::cli
