#!/usr/bin/env bash
# Formatting and static checks; changes nothing. `tools/lint.sh FILE.cc …` checks only those files with clang-tidy.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t sources < <(git ls-files '*.h' '*.cc')
clang-format-16 --dry-run --Werror "${sources[@]}"
.venv/bin/ruff format --check -q .
.venv/bin/ruff check -q .
# clang-tidy wants a build without g++'s precompiled headers.
# The compile commands are g++'s: what only g++ knows is passed over.
cmake --preset debug -Wno-dev -DTHALWEG_PRECOMPILED_HEADERS=OFF > /dev/null
if [ $# -gt 0 ]; then
  units=("$@")
else
  mapfile -t units < <(git ls-files 'src/*.cc' | grep -v -E '_(test|benchmark|fuzz)\.cc$')
fi
printf '%s\n' "${units[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy-16 --quiet -p build/debug --warnings-as-errors='*' --extra-arg=-Wno-unknown-warning-option
echo "lint: ${#sources[@]} files are clean"
