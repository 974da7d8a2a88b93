"""The Python package against the program: the same optimize of the benchmark table, interleaved, median of some runs.

usage: python_overhead.py [--folder FOLDER] [--rows 8000000] [--runs 7] [--pyarrow-first]

A run is a whole process: for Python, the interpreter and its imports too, and then the call alone beside it. With
--pyarrow-first pyarrow is imported before thalweg, so that Arrow uses its own allocator. Prints a Markdown table.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from run import ROOT, Bench, warm

CALL = """
import json, sys, time
begin = time.monotonic()
{first}
import thalweg
properties = json.loads(sys.argv[1])
start = time.monotonic()
done = thalweg.optimize("local.db.events", memory="1GiB", threads=2, catalog_properties=properties, progress=print)
assert done["outcome"] == "committed", done
print(time.monotonic() - start, file=sys.stderr)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "benchmark")
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--pyarrow-first", action="store_true")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    bench = Bench(arguments.folder.resolve(), arguments.rows)
    properties = {"uri": bench.uri, "warehouse": f"file://{bench.warehouse}"}
    code = CALL.format(first="import pyarrow.parquet" if arguments.pyarrow_first else "")
    binaries = Path(os.environ.get("THALWEG_BIN", ROOT / "build" / "bin"))
    environment = os.environ | {"PYTHONPATH": str(binaries.parent / "python")}

    def python() -> tuple[float, float]:
        shutil.copy(bench.warehouse / "catalog.orig", bench.warehouse / "catalog.db")
        start = time.monotonic()
        command = [sys.executable, "-c", code, json.dumps(properties)]
        done = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wall = time.monotonic() - start
        if done.returncode:
            sys.exit(done.stderr)
        for file in bench.live_files():
            os.remove(file)
        return wall, float(done.stderr.split()[-1])

    rounds = []
    for number in range(arguments.runs + 1):  # the first round warms up and is not counted
        warm(bench.original)
        program = bench.thalweg("thalweg").wall
        warm(bench.original)
        rounds.append((program, *python()))
        print(f"round {number}: {rounds[-1]}", file=sys.stderr)
    rounds = rounds[1:]
    print("| | wall s (median, min–max) | / the program, median of rounds |")
    print("|---|---|---|")
    for name, column in [("thalweg optimize", 0), ("Python, whole process", 1), ("Python, the call alone", 2)]:
        walls = [figures[column] for figures in rounds]
        ratio = statistics.median(figures[column] / figures[0] for figures in rounds)
        print(f"| {name} | {statistics.median(walls):.2f} ({min(walls):.2f}–{max(walls):.2f}) | {ratio:.3f} |")


if __name__ == "__main__":
    main()
