#!/usr/bin/env bash
# Builds the bridge to Lance, build/lib/libthalweg_lance.so. The crates that it needs are compiled once per machine, into
# ${XDG_CACHE_HOME:-~/.cache}/thalweg/cargo, and not once per clone: the first time that takes 20 to 35 minutes on two
# cores and 5 GB of disk, afterwards a minute when the bridge itself has changed, and a second when it has not.
# THALWEG_LANCE_FEATURES are the object stores that it reads, of aws, gcp and azure; aws unless it says otherwise. Each
# set of them compiles most of the crates once more, beside those of the others.
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_TARGET_DIR="${XDG_CACHE_HOME:-$HOME/.cache}/thalweg/cargo"

# The version of Rust that bridge/lance/Cargo.toml asks for, or newer; else Debian's own.
least=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' bridge/lance/Cargo.toml)
cargo_is_new_enough() {
  local have
  have=$(cargo --version 2>/dev/null | sed -n 's/^cargo \([0-9.]*\).*/\1/p')
  [ -n "$have" ] && [ "$(printf '%s\n%s\n' "$least" "$have" | sort -V | head -n 1)" = "$least" ]
}
if ! cargo_is_new_enough && [ -x /usr/bin/cargo ]; then
  PATH="/usr/bin:$PATH"
fi
if ! cargo_is_new_enough; then
  echo "set-up: installing rustc-web cargo-web (Rust $least or newer is needed to build the bridge to Lance)"
  sudo=""
  [ "$(id -u)" -eq 0 ] || sudo="sudo"
  $sudo apt-get update -qq
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends rustc-web cargo-web > /dev/null
  PATH="/usr/bin:$PATH"
  cargo_is_new_enough || { echo "set-up: cargo $least or newer is not to be had" >&2; exit 1; }
fi

features="${THALWEG_LANCE_FEATURES:-aws}"
if [ ! -e "$CARGO_TARGET_DIR/release/libthalweg_lance.so" ]; then
  echo "building the bridge to Lance: its 480 crates are compiled once on this machine, which takes 20 to 35 minutes on" \
       "two cores. Iceberg tables need no bridge: build/bin/thalweg works already"
fi
mkdir -p build/lib
log=build/lib/bridge.log
if ! (cd bridge/lance && cargo build --release --locked --no-default-features --features "$features" "$@") > "$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
library="$CARGO_TARGET_DIR/release/libthalweg_lance.so"
if ! cmp -s "$library" build/lib/libthalweg_lance.so; then
  cp --reflink=auto "$library" build/lib/libthalweg_lance.so.new
  mv -f build/lib/libthalweg_lance.so.new build/lib/libthalweg_lance.so
fi
