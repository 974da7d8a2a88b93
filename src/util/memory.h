#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace thalweg {

/// The one account of the memory that a run may hold. Thread-safe.
///
/// Every large holder (reader row groups, partitions, cut windows, writer buffers) reserves what it
/// is about to hold and releases it afterwards. Going over the limit is not refused here: holders
/// that can spill ask `over()` and do so.
class MemoryAccount {
 public:
  explicit MemoryAccount(int64_t limit_bytes) : limit_(limit_bytes) {}

  int64_t limit() const { return limit_; }
  int64_t held() const { return held_.load(std::memory_order_relaxed); }
  int64_t peak() const { return peak_.load(std::memory_order_relaxed); }
  /// Bytes above the limit if `more` bytes were added now; 0 or less when they fit.
  int64_t over(int64_t more = 0) const { return held() + more - limit_; }

  void Add(int64_t bytes) {
    int64_t now = held_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
    int64_t peak = peak_.load(std::memory_order_relaxed);
    while (now > peak && !peak_.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
    }
  }
  void Release(int64_t bytes) { held_.fetch_sub(bytes, std::memory_order_relaxed); }

 private:
  const int64_t limit_;
  std::atomic<int64_t> held_{0};
  std::atomic<int64_t> peak_{0};
};

/// A reservation on an account, released when it goes out of scope. Movable, not thread-safe.
class Reservation {
 public:
  Reservation() = default;
  Reservation(MemoryAccount* account, int64_t bytes) : account_(account), bytes_(bytes) {
    if (account_) account_->Add(bytes_);
  }
  Reservation(Reservation&& other) noexcept : account_(other.account_), bytes_(other.bytes_) {
    other.account_ = nullptr;
    other.bytes_ = 0;
  }
  Reservation& operator=(Reservation&& other) noexcept {
    if (this != &other) {
      Reset();
      account_ = other.account_;
      bytes_ = other.bytes_;
      other.account_ = nullptr;
      other.bytes_ = 0;
    }
    return *this;
  }
  ~Reservation() { Reset(); }
  void Reset() {
    if (account_) account_->Release(bytes_);
    account_ = nullptr;
    bytes_ = 0;
  }
  int64_t bytes() const { return bytes_; }

 private:
  MemoryAccount* account_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace thalweg
