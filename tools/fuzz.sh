#!/usr/bin/env bash
# Builds the libFuzzer targets with clang and runs each for SECONDS_EACH (default 60) seconds.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset fuzz -Wno-dev > /dev/null
cmake --build build/fuzz --parallel "$(nproc)"
for fuzzer in build/fuzz/bin/*_fuzz; do
  corpus="build/fuzz/corpus/$(basename "$fuzzer")"
  mkdir -p "$corpus"
  "$fuzzer" -max_total_time="${SECONDS_EACH:-60}" -max_len=65536 -rss_limit_mb=2048 "$corpus"
done
