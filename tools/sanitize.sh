#!/usr/bin/env bash
# Builds the unit tests with AddressSanitizer and UndefinedBehaviorSanitizer, then with ThreadSanitizer, and runs them;
# with the former also the test of the border to the bridge to Lance, when that is built.
set -euo pipefail
cd "$(dirname "$0")/.."
export ASAN_OPTIONS="detect_leaks=1:strict_string_checks=1"
export UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1"
# Arrow from the wheel is not instrumented: what TSan sees of its internals is not ours.
# Mutexes that it takes out of sight seem to be given back untaken. Its own allocator hands memory from thread to thread unseen; the system's is watched.
export ARROW_DEFAULT_MEMORY_POOL=system
export TSAN_OPTIONS="halt_on_error=1:report_mutex_bugs=0:detect_deadlocks=0:die_after_fork=0:suppressions=$PWD/tools/tsan.supp"
export LSAN_OPTIONS="suppressions=$PWD/tools/lsan.supp"
for preset in "${@:-asan-ubsan tsan}"; do
  for one in $preset; do
    cmake --preset "$one" -Wno-dev > /dev/null
    cmake --build "build/$one" --parallel "$(nproc)"
    ctest --test-dir "build/$one" --output-on-failure -L unit
    if [ "$one" = asan-ubsan ] && [ -e build/lib/libthalweg_lance.so ]; then
      border="build/$one/bin/thalweg_lance_border_test"
      cc -std=c11 -g -fsanitize=address,undefined -Ibridge/lance/include bridge/lance/test/border_test.c \
        -o "$border" build/lib/libthalweg_lance.so -Wl,-rpath,"$PWD/build/lib"
      folder=$(mktemp -d)
      "$border" "$folder"
      rm -rf "$folder"
    fi
  done
done
