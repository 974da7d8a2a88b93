// ThreadSanitizer of g++ 12 does not see pthread_cond_clockwait, by which the standard library
// waits until a time of the steady clock: it misses that the mutex is given back meanwhile.
// Programs built with it wait by a call that it sees.
#ifdef __SANITIZE_THREAD__

#include <pthread.h>
#include <time.h>

#include <cstdint>

namespace {

constexpr int64_t kNanos = 1'000'000'000;

int64_t Nanos(const timespec& time) { return time.tv_sec * kNanos + time.tv_nsec; }

int64_t Now(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return Nanos(now);
}

}  // namespace

extern "C" int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                                      clockid_t clock, const timespec* deadline) {
  const int64_t until = Now(CLOCK_REALTIME) + Nanos(*deadline) - Now(clock);
  const timespec realtime = {until / kNanos, until % kNanos};
  return pthread_cond_timedwait(condition, mutex, &realtime);
}

#endif
