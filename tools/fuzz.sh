#!/usr/bin/env bash
# Builds the libFuzzer targets with clang and runs each for SECONDS_EACH (default 60) seconds, from small real files on.
# `tools/fuzz.sh NAME…` builds and runs only those.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset fuzz -Wno-dev > /dev/null
names=("$@")
[ $# -gt 0 ] || mapfile -t names < <(git ls-files 'src/*_fuzz.cc' | xargs -n 1 basename -s .cc)
cmake --build build/fuzz --parallel "${JOBS:-$(nproc)}" --target "${names[@]}"
.venv/bin/python tools/fuzz_seeds.py build/fuzz/corpus
# Arrow from the wheel is not instrumented, and its own allocator would hide what is wrong with its memory.
export ARROW_DEFAULT_MEMORY_POOL=system LSAN_OPTIONS="suppressions=$PWD/tools/lsan.supp"
for name in "${names[@]}"; do
  corpus="build/fuzz/corpus/$name"
  mkdir -p "$corpus"
  echo "$name"
  "build/fuzz/bin/$name" -max_total_time="${SECONDS_EACH:-60}" -max_len=65536 -rss_limit_mb=2048 -timeout=10 \
    -artifact_prefix="build/fuzz/$name-" -print_final_stats=1 "$corpus" 2> "build/fuzz/$name.log" ||
    { tail -60 "build/fuzz/$name.log"; exit 1; }
  grep -E 'number_of_executed_units|peak_rss_mb' "build/fuzz/$name.log"
done
