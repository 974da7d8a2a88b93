#!/usr/bin/env bash
# Builds the Python wheel, with the libraries that it needs beside pyarrow's own inside: build/dist/thalweg-*.whl.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$PWD/.venv/bin/python
mkdir -p build/dist
rm -f build/dist/*.whl build/wheel/*.whl
log=build/wheel.log
if ! "$python" -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation -w build/wheel . > "$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
excludes=()
for library in libarrow libarrow_compute libarrow_s3 libparquet; do
  excludes+=(--exclude "$library.so.2600")
done
PATH="$PWD/.venv/bin:$PATH" "$python" -m auditwheel repair "${excludes[@]}" -w build/dist build/wheel/*.whl >> "$log" 2>&1 || { cat "$log" >&2; exit 1; }
ls build/dist/*.whl
