#!/usr/bin/env bash
# Brings what the tests on the JVM need: PySpark (tools/requirements-jvm.txt), the jars that test/jvm/*/pom.xml name, and
# the Java beside each of them, compiled. All of it is kept in ${XDG_CACHE_HOME:-~/.cache}/thalweg/jvm, once per machine and
# not once per clone (1 GB). build/jvm/NAME.classpath and build/jvm/python.path, one line each, say where. Does nothing,
# quickly, when all is in place.
set -euo pipefail
cd "$(dirname "$0")/.."
cache="${XDG_CACHE_HOME:-$HOME/.cache}/thalweg/jvm"
# Pinned like the rest: without it Maven takes the newest.
plugin=org.apache.maven.plugins:maven-dependency-plugin:3.8.1
mkdir -p build/jvm "$cache"

# again LOG COMMAND…: runs it until it succeeds, four times at most; what it said goes into LOG.
again() {
  local log=$1 pause
  shift
  for pause in 5 20 60; do
    "$@" > "$log" 2>&1 && return
    sleep "$pause"
  done
  "$@" > "$log" 2>&1
}

# fail WHAT LOG: one line, with the first error in the log.
fail() {
  echo "set-up: $1: $(grep -m 1 -i error "$2" || tail -n 1 "$2")" >&2
  exit 1
}

digest() { cat "$@" | sha256sum | cut -c1-16; }

point() {  # NAME TEXT: build/jvm/NAME says TEXT
  echo "$2" | cmp -s - "build/jvm/$1" || echo "$2" > "build/jvm/$1"
}

python="$cache/python-$(digest tools/requirements-jvm.txt)"
if [ ! -e "$python/done" ]; then
  echo "set-up: fetching $(tr '\n' ' ' < tools/requirements-jvm.txt)(450 MB, once on this machine)"
  rm -rf "$python" && mkdir "$python"
  again "$python.log" .venv/bin/python -m pip install --disable-pip-version-check --no-deps --upgrade \
    --target "$python" -r tools/requirements-jvm.txt || fail "pip could not install PySpark" "$python.log"
  touch "$python/done"
fi
point python.path "$python"

for folder in test/jvm/*/; do
  name=$(basename "$folder")
  # Spark's own jars come with PySpark; other folders do not see them.
  also=""
  [ "$name" != spark ] || also=":$python/pyspark/jars/*"
  made="$cache/$name-$(digest "$folder"pom.xml "$folder"*.java)"
  if [ ! -e "$made/done" ]; then
    echo "set-up: fetching what test/jvm/$name needs, and compiling it (once on this machine)"
    rm -rf "$made" && mkdir -p "$made/classes"
    again "$made/log" mvn -q -B -f "$folder/pom.xml" -Dmaven.repo.local="$cache/repository" \
      "$plugin:build-classpath" -Dmdep.outputFile="$made/jars" || fail "Maven could not fetch test/jvm/$name" "$made/log"
    javac -Xlint:all,-processing,-classfile,-path -Werror -proc:none -d "$made/classes" -cp "$(cat "$made/jars")$also" \
      "$folder"*.java > "$made/log" 2>&1 || { cat "$made/log" >&2; exit 1; }
    touch "$made/done"
  fi
  point "$name.classpath" "$made/classes:$(cat "$made/jars")"
done
