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
#include <functional>
#include <map>
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

/// One command under way, in a thread of its own. What it asks of Python is done by the thread that
/// called it, which waits: catalogs and bars often belong to one thread.
class Call {
 public:
  arrow::StopToken token() { return stop_.token(); }

  /// From the command's threads: has `work` done with the GIL, and waits for it. What it throws
  /// ends the command, and is thrown to the caller. False: it was not done, or not to its end.
  bool InPython(const std::function<void()>& work) {
    Request request{work};
    std::unique_lock lock(mutex_);
    if (finished_) return false;
    requests_.push_back(&request);
    changed_.notify_all();
    changed_.wait(lock, [&] { return request.done; });
    return request.succeeded;
  }

  void Finish() {
    std::lock_guard lock(mutex_);
    finished_ = true;
    changed_.notify_all();
  }

  /// Until the command has ended; signals (Ctrl-C) end it. With the GIL.
  void Wait() {
    std::vector<Request*> requests;
    for (bool finished = false; !finished;) {
      {
        nb::gil_scoped_release release;
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, kSignalInterval, [&] { return finished_ || !requests_.empty(); });
        requests.swap(requests_);
        finished = finished_;
      }
      for (Request* request : requests) {
        const bool succeeded = Try(request->work);
        std::lock_guard lock(mutex_);
        request->succeeded = succeeded;
        request->done = true;
        changed_.notify_all();
      }
      requests.clear();
      Try([] {
        if (PyErr_CheckSignals() != 0) nb::raise_python_error();
      });
    }
  }

  void Rethrow() {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  struct Request {
    const std::function<void()>& work;
    bool done = false;
    bool succeeded = false;
  };

  /// The first exception is kept; any stops the command.
  bool Try(const std::function<void()>& work) {
    try {
      work();
      return true;
    } catch (...) {
      if (!error_) error_ = std::current_exception();
      stop_.RequestStop();
      return false;
    }
  }

  arrow::StopSource stop_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool finished_ = false;
  std::vector<Request*> requests_;
  std::exception_ptr error_;
};

/// Calls `progress(stage, done, total)` of Python's, at most ten times a second within a stage.
class ProgressCallback {
 public:
  ProgressCallback(const nb::object& progress, Call* call) : progress_(progress), call_(call) {}

  void operator()(const Progress& progress) {
    const auto now = std::chrono::steady_clock::now();
    {
      std::lock_guard lock(mutex_);
      const bool ends = progress.total >= 0 && progress.done >= progress.total;
      if (progress.stage == stage_ && !ends && now - told_ < kProgressInterval) return;
      stage_ = progress.stage;
      told_ = now;
    }
    call_->InPython([&] {
      progress_(progress.stage, progress.done,
                progress.total < 0 ? nb::none() : nb::object(nb::int_(progress.total)));
    });
  }

 private:
  const nb::object& progress_;
  Call* const call_;
  std::mutex mutex_;
  std::string stage_;
  std::chrono::steady_clock::time_point told_;
};

template <typename... Args>
nb::object Method(const nb::object& object, const char* name, const Args&... args) {
  return object.attr(name)(args...);
}

/// A catalog that an object of Python's speaks (thalweg._catalog): its methods give
/// ("ok", metadata location, metadata, properties) or a kind of failure and a message.
ExternalCatalog CatalogOf(const nb::object& object, Call* call) {
  auto ask = [&object, call](const auto&... words) -> arrow::Result<ExternalCatalog::State> {
    std::string kind, text;
    ExternalCatalog::State state;
    const bool answered = call->InPython([&] {
      const auto answer = nb::cast<nb::tuple>(Method(object, words...));
      kind = nb::cast<std::string>(answer[0]);
      text = nb::cast<std::string>(answer[1]);
      if (kind != "ok") return;
      state = {text, nb::cast<std::string>(answer[2]),
               nb::cast<std::map<std::string, std::string>>(answer[3])};
    });
    // What a commit did before it failed so is not known.
    if (!answered) return UnknownOutcome("the catalog's library failed unexpectedly");
    if (kind == "ok") return state;
    if (kind == "missing") return arrow::Status::KeyError(text);
    if (kind == "conflict") return Failure(FailureKind::kConflict, text);
    if (kind == "unknown") return Failure(FailureKind::kUnknown, text);
    return arrow::Status::Invalid(text);
  };
  ExternalCatalog catalog;
  catalog.description = nb::cast<std::string>(object.attr("description"));
  catalog.load = [ask] { return ask("load"); };
  if (nb::cast<bool>(object.attr("commits"))) {
    catalog.commit = [ask](const std::string& requirements, const std::string& updates) {
      return ask("commit", requirements, updates);
    };
  }
  return catalog;
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

/// (kind of failure or "", the result's JSON or the message). The arguments outlive the command.
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
    host.open = [external = CatalogOf(catalog, &call)](
                    const std::string& name) -> arrow::Result<std::unique_ptr<Table>> {
      ARROW_ASSIGN_OR_RAISE(auto store, iceberg::OpenExternalTable(external));
      return iceberg::OpenIcebergTable(name, std::move(store));
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
