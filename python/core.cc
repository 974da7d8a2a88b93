// The module thalweg._core: commands run inside Python, as the program runs them.

#include <arrow/c/abi.h>
#include <arrow/c/bridge.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "cli/cli.h"
#include "cli/host.h"
#include "iceberg/external_catalog.h"
#include "iceberg/iceberg_table.h"
#include "iceberg/s3_file_io.h"
#include "util/status.h"
#include "util/version.h"

namespace nb = nanobind;

namespace thalweg::python {
namespace {

using iceberg::ExternalCatalog;

constexpr auto kSignalInterval = std::chrono::milliseconds(50);
constexpr auto kProgressInterval = std::chrono::milliseconds(100);

/// One command under way: what its thread and Python's tell one another.
class Call {
 public:
  arrow::StopToken token() { return stop_.token(); }

  /// Keeps the first exception of Python's that a callback met, for the caller, and stops the
  /// command. With the GIL.
  void Fail(std::exception_ptr error) {
    std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
    stop_.RequestStop();
  }

  void Finish() {
    std::lock_guard lock(mutex_);
    done_ = true;
    finished_.notify_all();
  }

  /// Until the command has ended; passes on signals (Ctrl-C) as its end. With the GIL.
  void Wait() {
    for (;;) {
      {
        nb::gil_scoped_release release;
        std::unique_lock lock(mutex_);
        if (finished_.wait_for(lock, kSignalInterval, [this] { return done_; })) return;
      }
      if (PyErr_CheckSignals() != 0) {
        try {
          nb::raise_python_error();
        } catch (...) {
          Fail(std::current_exception());
        }
      }
    }
  }

  void Rethrow() {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  arrow::StopSource stop_;
  std::mutex mutex_;
  std::condition_variable finished_;
  bool done_ = false;
  std::exception_ptr error_;
};

/// Calls `progress(stage, done, total)` of Python's, at most ten times a second within a stage.
class ProgressCallback {
 public:
  ProgressCallback(nb::object progress, Call* call) : progress_(std::move(progress)), call_(call) {}

  void operator()(const Progress& progress) {
    const auto now = std::chrono::steady_clock::now();
    {
      std::lock_guard lock(mutex_);
      const bool ends = progress.total >= 0 && progress.done >= progress.total;
      if (progress.stage == stage_ && !ends && now - told_ < kProgressInterval) return;
      stage_ = progress.stage;
      told_ = now;
    }
    nb::gil_scoped_acquire gil;
    try {
      progress_(progress.stage, progress.done,
                progress.total < 0 ? nb::none() : nb::object(nb::int_(progress.total)));
    } catch (...) {
      call_->Fail(std::current_exception());
    }
  }

 private:
  const nb::object progress_;
  Call* const call_;
  std::mutex mutex_;
  std::string stage_;
  std::chrono::steady_clock::time_point told_;
};

/// A catalog that an object of Python's speaks (thalweg._catalog): its methods give
/// ("ok", metadata location, metadata, properties) or a kind of failure and a message.
class PythonCatalog {
 public:
  PythonCatalog(nb::object object, Call* call) : object_(std::move(object)), call_(call) {}
  ~PythonCatalog() {
    nb::gil_scoped_acquire gil;  // what still reads the table's files may be the last to hold it
    object_.reset();
  }
  PythonCatalog(const PythonCatalog&) = delete;
  PythonCatalog& operator=(const PythonCatalog&) = delete;

  template <typename... Args>
  arrow::Result<ExternalCatalog::State> Ask(const char* method, const Args&... args) const {
    nb::gil_scoped_acquire gil;
    try {
      const auto answer = nb::cast<nb::tuple>(object_.attr(method)(args...));
      const auto kind = nb::cast<std::string>(answer[0]);
      const auto text = nb::cast<std::string>(answer[1]);
      if (kind == "ok") {
        return ExternalCatalog::State{text, nb::cast<std::string>(answer[2]),
                                      nb::cast<std::map<std::string, std::string>>(answer[3])};
      }
      if (kind == "missing") return arrow::Status::KeyError(text);
      if (kind == "conflict") return Failure(FailureKind::kConflict, text);
      if (kind == "unknown") return Failure(FailureKind::kUnknown, text);
      return arrow::Status::Invalid(text);
    } catch (...) {
      call_->Fail(std::current_exception());
      // What a commit did before it failed so is not known.
      return UnknownOutcome("the catalog's library failed unexpectedly");
    }
  }

 private:
  nb::object object_;
  Call* const call_;
};

arrow::Result<std::unique_ptr<Table>> OpenInPython(const std::shared_ptr<PythonCatalog>& python,
                                                   const std::string& description, bool commits,
                                                   const std::string& name) {
  ExternalCatalog catalog;
  catalog.description = description;
  catalog.load = [python] { return python->Ask("load"); };
  if (commits) {
    catalog.commit = [python](const std::string& requirements, const std::string& updates) {
      return python->Ask("commit", requirements, updates);
    };
  }
  ARROW_ASSIGN_OR_RAISE(auto store, iceberg::OpenExternalTable(std::move(catalog)));
  return iceberg::OpenIcebergTable(name, std::move(store));
}

/// The stream in a capsule "arrow_array_stream", which is emptied.
std::shared_ptr<arrow::RecordBatchReader> ReaderOf(const nb::object& capsule) {
  auto* stream =
      static_cast<ArrowArrayStream*>(PyCapsule_GetPointer(capsule.ptr(), "arrow_array_stream"));
  if (stream == nullptr) nb::raise_python_error();
  auto reader = arrow::ImportRecordBatchReader(stream);
  if (!reader.ok()) throw nb::value_error(reader.status().message().c_str());
  return *std::move(reader);
}

/// (kind of failure or "", the result's JSON or the message).
std::tuple<std::string, std::string> Run(const std::vector<std::string>& words,
                                         const nb::object& progress, const nb::object& catalog,
                                         const nb::object& rows) {
  Call call;
  cli::Host host;
  host.stop = call.token();
  if (!progress.is_none()) {
    auto callback = std::make_shared<ProgressCallback>(progress, &call);
    host.progress = [callback](const Progress& made) { (*callback)(made); };
  }
  if (!catalog.is_none()) {
    auto python = std::make_shared<PythonCatalog>(catalog, &call);
    host.open = [python, description = nb::cast<std::string>(catalog.attr("description")),
                 commits = nb::cast<bool>(catalog.attr("commits"))](const std::string& name) {
      return OpenInPython(python, description, commits, name);
    };
  }
  if (!rows.is_none()) host.rows = ReaderOf(rows);

  bool ok = false;
  std::string result;
  cli::CommandFailure failure;
  std::thread worker([&] {
    ok = cli::RunCommand(words, host, &result, &failure);
    call.Finish();
  });
  call.Wait();
  {
    nb::gil_scoped_release release;
    worker.join();
  }
  // A command that was through when it was stopped has its result; the exception is told all the
  // same.
  call.Rethrow();
  if (ok) return {"", result};
  return {failure.kind, failure.message};
}

/// The program itself.
int Main(const std::vector<std::string>& words) {
  std::vector<const char*> argv;
  for (const auto& word : words) argv.push_back(word.c_str());
  nb::gil_scoped_release release;
  return cli::Main(static_cast<int>(argv.size()), argv.data());
}

NB_MODULE(_core, module) {
  module.attr("__version__") = std::string(kVersion);
  module.def("run", &Run, nb::arg("words"), nb::arg("progress").none() = nb::none(),
             nb::arg("catalog").none() = nb::none(), nb::arg("rows").none() = nb::none());
  module.def("main", &Main, nb::arg("words"));
  module.def("finalize", &iceberg::FinalizeS3);
}

}  // namespace
}  // namespace thalweg::python
