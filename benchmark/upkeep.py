"""What appends cost afterwards: the benchmark table is clustered in cubes and grows twice by 2.5 %.

usage: upkeep.py [--folder FOLDER] [--rows 8000000] [--target-cube-size 32MiB] [--min-cube-size 16MiB]
                 [--target-file-size 8MiB] [--memory 1GiB]

Prints, for each run, what it read and wrote and which cubes it left as they were. Files are those that PyIceberg
plans, put to cubes by the stamps in their footers. Exits with 1 when a healthy cube was touched, a file stayed
unclustered, rows were lost or changed, or the last run, without new data, did anything.
"""

import argparse
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from gen import batch
from pyiceberg.table import Table
from quality import ROOT, BenchmarkTable, multiset

sys.path.append(str(ROOT / "tools"))
import duckdb_engine  # noqa: E402

APPENDS = 40


def files_by_cube(table: Table) -> dict[str, set[str]]:
    """Live files by the cube that their own footers name; "" for files of no cube."""
    cubes = defaultdict(set)
    for task in table.scan().plan_files():
        path = task.file.file_path.removeprefix("file://")
        stamps = pq.read_metadata(path).metadata or {}
        cubes[stamps.get(b"thalweg.cube-id", b"").decode()].add(path)
    return cubes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "benchmark")
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--target-cube-size", default="32MiB")
    parser.add_argument("--min-cube-size", default="16MiB")
    parser.add_argument("--target-file-size", default="8MiB")
    parser.add_argument("--memory", default="1GiB")
    arguments = parser.parse_args()
    bench = BenchmarkTable(arguments.folder, arguments.rows)
    bench.reset()
    sizes = ["--target-cube-size", arguments.target_cube_size, "--min-cube-size", arguments.min_cube_size]
    bench.thalweg("set", "--columns", "user_id,event_time", *sizes)
    options = ["--memory", arguments.memory, "--target-file-size", arguments.target_file_size]
    connection = duckdb_engine.connect(threads=2)
    problems = []
    print("| run | healthy before, kept | files, MB read | files, MB written | of the table | cubes after | s |")
    print("|---|---|---|---|---|---|---|")

    def optimize(title: str) -> dict:
        before = files_by_cube(bench.load())
        healthy = {cube["cube_id"] for cube in bench.thalweg("cubes")["cubes"] if cube["health"] == "healthy"}
        rows = multiset(connection, bench.load().metadata_location)
        report = bench.thalweg("optimize", *options)
        table = bench.load()
        after = files_by_cube(table)
        kept = {cube for cube in healthy if after.get(cube) == before[cube]}
        size = sum(task.file.file_size_in_bytes for task in table.scan().plan_files())
        states = [cube["health"] for cube in bench.thalweg("cubes")["cubes"]]
        print(
            f"| {title} | {len(healthy)}, {len(kept)} "
            f"| {report['source_units']}, {report['source_bytes'] / 1e6:.1f} "
            f"| {report['output_units']}, {report['output_bytes'] / 1e6:.1f} "
            f"| {report['output_bytes'] / size:.1%} "
            f"| {states.count('healthy')} healthy, {len(states) - states.count('healthy')} other "
            f"| {report['seconds']:.2f} |",
            flush=True,
        )
        if kept != healthy:
            problems.append(f"{title}: healthy cubes were touched: {sorted(healthy - kept)}")
        if after.get(""):
            problems.append(f"{title}: {len(after[''])} files are unclustered")
        if multiset(connection, table.metadata_location) != rows:
            problems.append(f"{title}: rows differ")
        return report

    optimize("first")
    for number, title in enumerate(("after an append", "after another")):
        bench.load().append(batch(np.random.default_rng(number), APPENDS + number, APPENDS, arguments.rows // APPENDS))
        optimize(title)
    snapshot = bench.load().current_snapshot().snapshot_id
    last = optimize("again")
    if last["outcome"] != "nothing-to-do" or bench.load().current_snapshot().snapshot_id != snapshot:
        problems.append(f"without new data: {last['outcome']}")
    print(f"\nagain: {last['outcome']}: {last['reason']}")
    bench.reset()
    sys.exit("\n".join(problems) if problems else 0)


if __name__ == "__main__":
    main()
