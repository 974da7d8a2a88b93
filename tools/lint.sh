#!/usr/bin/env bash
# Formatting and static checks; changes nothing. `tools/lint.sh FILE.cc …` checks only those files with clang-tidy, and
# not the bridge.
set -euo pipefail
cd "$(dirname "$0")/.."
mapfile -t sources < <(git ls-files '*.h' '*.cc')
clang-format-16 --dry-run --Werror "${sources[@]}"
.venv/bin/ruff format --check -q .
.venv/bin/ruff check -q .
.venv/bin/mypy --ignore-missing-imports --no-error-summary python/thalweg

# The bridge, where Rust is there and the crates are compiled (tools/bridge.sh): clippy stands in for the compiler, for
# the bridge alone. `cargo clippy` would compile the 480 crates once more, as it wants them.
export CARGO_TARGET_DIR="${XDG_CACHE_HOME:-$HOME/.cache}/thalweg/cargo"
if [ $# -eq 0 ]; then
  if cargo fmt --version > /dev/null 2>&1 && clippy=$(command -v clippy-driver) && [ -e "$CARGO_TARGET_DIR/release/libthalweg_lance.so" ]
  then
    cd bridge/lance
    cargo fmt --check
    RUSTC_WORKSPACE_WRAPPER="$clippy" cargo rustc -q --release --locked --lib --crate-type rlib -- -D warnings -C opt-level=0
    cd ../..
  else
    echo "lint: without the bridge, for which cargo, rustfmt, clippy and the compiled crates (make bridge) are needed"
  fi
fi

# clang-tidy wants a build without g++'s precompiled headers.
cmake --preset debug -Wno-dev -DTHALWEG_PRECOMPILED_HEADERS=OFF > /dev/null
if [ $# -gt 0 ]; then
  units=("$@")
else
  mapfile -t units < <(git ls-files 'src/*.cc' | grep -v -E '_(test|benchmark|fuzz)\.cc$')
fi
.venv/bin/python tools/tidy.py "${units[@]}"
echo "lint: ${#sources[@]} files are clean"
