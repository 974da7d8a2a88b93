#!/usr/bin/env bash
# Builds the Python wheel, with the libraries that it needs beside pyarrow's own inside: build/dist/thalweg-*.whl.
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PWD/.venv/bin:$PATH"
# By the names by which CMake finds them, so that the compiler's cache knows what `make` has compiled.
export CC=cc CXX=c++
mkdir -p build/dist
rm -f build/dist/*.whl build/wheel/*.whl
log=build/wheel.log
excludes=()
for library in libarrow libarrow_compute libarrow_s3 libparquet; do
  excludes+=(--exclude "$library.so.2600")
done
if ! { pip wheel --disable-pip-version-check --no-deps --no-build-isolation --config-settings cmake.define.THALWEG_WHEEL_LANCE=ON \
         -w build/wheel . && auditwheel repair "${excludes[@]}" -w build/dist build/wheel/*.whl; } > "$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
ls build/dist/*.whl
