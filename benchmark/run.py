"""Thalweg's optimize against DuckDB and a plain Arrow copy on the benchmark table, interleaved, median of several runs.

usage: run.py [--folder FOLDER] [--rows 8000000] [--runs 5] [--only NAME …]

Wall and CPU seconds and peak memory are the operating system's own figures of each finished process. Ratios are
between the runs of one round. Prints a Markdown table.
"""

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

from gen import generate
from pyiceberg.catalog.sql import SqlCatalog

ROOT = Path(__file__).resolve().parent.parent
HERE = Path(__file__).resolve().parent
# Ours: zstd at its default (level 3, but 1 for columns where 3 gains under 1 %), and level 3 by a table property.
OURS = {"thalweg": "catalog.orig", "thalweg, level 3 forced": "catalog.level-3"}
PEERS = ["duckdb-order-by", "duckdb-z-order", "duckdb-copy", "arrow-copy"]


class Measured:
    def __init__(self, wall: float, cpu: float, peak: int, size: int, files: int):
        self.wall, self.cpu, self.peak, self.size, self.files = wall, cpu, peak, size, files


def timed(command: list[str], environment: dict[str, str] | None = None) -> tuple[float, float, int]:
    start = time.monotonic()
    process = subprocess.Popen(command, env=os.environ | (environment or {}), stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - start
    if status != 0:
        sys.exit(f"failed: {' '.join(command)[:200]}")
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def warm(files: list[str]) -> None:
    for file in files:
        Path(file).read_bytes()


class Bench:
    def __init__(self, folder: Path, rows: int):
        self.folder = folder
        self.warehouse = folder / f"events-{rows}"
        if not (self.warehouse / "catalog.orig").exists():
            shutil.rmtree(self.warehouse, ignore_errors=True)
            properties = {
                "write.target-file-size-bytes": str(8 << 20),
                "write.liquid-clustering.columns": "user_id,event_time",
            }
            generate(str(self.warehouse), rows, properties=properties)
            shutil.copy(self.warehouse / "catalog.db", self.warehouse / "catalog.orig")
            self.uri = f"sqlite:///{self.warehouse}/catalog.db"
            with self.load().transaction() as transaction:
                transaction.set_properties({"write.parquet.compression-level": "3"})
            shutil.copy(self.warehouse / "catalog.db", self.warehouse / "catalog.level-3")
        shutil.copy(self.warehouse / "catalog.orig", self.warehouse / "catalog.db")
        self.uri = f"sqlite:///{self.warehouse}/catalog.db"
        self.original = self.live_files()
        self.inputs = folder / "inputs.txt"
        self.inputs.write_text("\n".join(self.original))

    def load(self):
        return SqlCatalog("local", uri=self.uri, warehouse=f"file://{self.warehouse}").load_table("db.events")

    def live_files(self) -> list[str]:
        return [task.file.file_path.removeprefix("file://") for task in self.load().scan().plan_files()]

    def thalweg(self, name: str) -> Measured:
        shutil.copy(self.warehouse / OURS[name], self.warehouse / "catalog.db")
        command = [str(ROOT / "build/bin/thalweg"), "optimize", "local.db.events", "--memory", "1GiB", "--threads", "2"]
        command += ["--verify", "digest", "--json", "--catalog-property", f"uri={self.uri}"]
        wall, cpu, peak = timed(command + ["--catalog-property", f"warehouse=file://{self.warehouse}"])
        written = self.live_files()
        measured = Measured(wall, cpu, peak, sum(os.path.getsize(file) for file in written), len(written))
        for file in written:
            os.remove(file)
        return measured

    def peer(self, name: str) -> Measured:
        output = self.folder / "output"
        shutil.rmtree(output, ignore_errors=True)
        wall, cpu, peak = timed([sys.executable, str(HERE / "peers.py"), name, str(self.inputs), str(output)])
        files = list(output.rglob("*.parquet")) if output.is_dir() else [output]
        measured = Measured(wall, cpu, peak, sum(file.stat().st_size for file in files), len(files))
        shutil.rmtree(output, ignore_errors=True)
        return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "benchmark")
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=PEERS)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    bench = Bench(arguments.folder.resolve(), arguments.rows)
    names = [*OURS, *arguments.only]
    results: dict[str, list[Measured]] = {name: [] for name in names}
    for number in range(arguments.runs + 1):  # the first round warms up and is not counted
        for name in names:
            warm(bench.original)
            measured = bench.thalweg(name) if name in OURS else bench.peer(name)
            if number > 0:
                results[name].append(measured)
            print(f"round {number} {name}: {measured.wall:.2f} s", file=sys.stderr)

    print("| | wall s (min–max) | CPU s | peak MiB | output MB | files | thalweg / it | level 3 forced / it |")
    print("|---|---|---|---|---|---|---|---|")
    for name in names:
        runs = results[name]
        walls = [run.wall for run in runs]
        ratios = [
            statistics.median(ours.wall / run.wall for ours, run in zip(results[us], runs, strict=True)) for us in OURS
        ]
        print(
            f"| {name} | {statistics.median(walls):.2f} ({min(walls):.2f}–{max(walls):.2f}) "
            f"| {statistics.median(run.cpu for run in runs):.2f} "
            f"| {statistics.median(run.peak for run in runs) / (1 << 20):.0f} "
            f"| {statistics.median(run.size for run in runs) / 1e6:.1f} "
            f"| {statistics.median(run.files for run in runs):.0f} | {ratios[0]:.2f} | {ratios[1]:.2f} |"
        )


if __name__ == "__main__":
    main()
