#include "sort/parallel.h"

#include <algorithm>
#include <exception>
#include <new>
#include <thread>
#include <vector>

namespace thalweg {

arrow::Status SharedStatus::Set(arrow::Status status) {
  if (!status.ok()) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!failed_.exchange(true)) status_ = status;
  }
  return status;
}

arrow::Status SharedStatus::status() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return status_;
}

namespace {

arrow::Status Guarded(const std::function<arrow::Status(int)>& work, int thread) {
  try {
    return work(thread);
  } catch (const std::bad_alloc&) {
    return arrow::Status::OutOfMemory("out of memory while sorting; lower --memory or --threads");
  } catch (const std::exception& error) {
    return arrow::Status::UnknownError("sorting failed: ", error.what());
  }
}

}  // namespace

arrow::Status RunThreads(int threads, SharedStatus& shared,
                         const std::function<arrow::Status(int)>& work) {
  std::vector<std::thread> others;
  others.reserve(std::max(threads - 1, 0));
  for (int thread = 1; thread < threads; ++thread) {
    try {
      others.emplace_back([&, thread] { (void)shared.Set(Guarded(work, thread)); });
    } catch (const std::exception& error) {
      (void)shared.Set(arrow::Status::UnknownError("cannot start a thread: ", error.what()));
      break;
    }
  }
  (void)shared.Set(Guarded(work, 0));
  for (std::thread& other : others) other.join();
  return shared.status();
}

arrow::Status ParallelFor(int threads, int64_t n,
                          const std::function<arrow::Status(int64_t)>& work) {
  SharedStatus shared;
  std::atomic<int64_t> next{0};
  return RunThreads(static_cast<int>(std::min<int64_t>(threads, n)), shared, [&](int) {
    for (int64_t i = next++; i < n && !shared.failed(); i = next++) {
      ARROW_RETURN_NOT_OK(work(i));
    }
    return arrow::Status::OK();
  });
}

}  // namespace thalweg
