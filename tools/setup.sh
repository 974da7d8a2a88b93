#!/usr/bin/env bash
# Brings a Debian 12 machine to the state that the build and the tests need: Debian packages, and a .venv with the
# pinned wheels (Arrow C++ comes from the pyarrow wheel). Does nothing, quickly, when all is in place.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
while read -r package; do
  [ -n "$package" ] || continue
  dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
done < tools/apt-packages.txt
if [ ${#missing[@]} -gt 0 ]; then
  echo "set-up: installing ${missing[*]}"
  sudo=""
  [ "$(id -u)" -eq 0 ] || sudo="sudo"
  $sudo apt-get update -qq
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" > /dev/null
fi

stamp=.venv/.requirements
if ! cmp -s tools/requirements.txt "$stamp" || ! .venv/bin/python -c 'import pyarrow' 2>/dev/null; then
  echo "set-up: creating .venv with the pinned wheels"
  rm -rf .venv
  /usr/bin/python3 -m venv .venv
  .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r tools/requirements.txt
  cp tools/requirements.txt "$stamp"
fi
