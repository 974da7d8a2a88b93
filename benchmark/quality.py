"""What a clustering of the benchmark table is worth: files opened, file sizes, bytes, memory; checked by stock engines.

usage: quality.py [--folder FOLDER] [--rows 8000000] [--memory 1GiB] [--targets 5MiB 6.5MiB 8MiB 11MiB]

For each target file size: optimize from the same start; files that an equality opens by PyIceberg (touch.py) and by
DuckDB (EXPLAIN ANALYZE over iceberg_scan), relative to sqrt(F); the smallest and largest file against its window; the
multiset of rows before and after by DuckDB; bytes out against bytes in; peak memory. Exits with 1 when something is
lost or changed.
"""

import argparse
import json
import math
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from gen import generate
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from touch import literal, measure

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tools"))
import duckdb_engine  # noqa: E402

PROGRAM = Path(os.environ.get("THALWEG_BIN", ROOT / "build" / "bin")) / "thalweg"
KEYS = ["user_id", "event_time"]
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


class BenchmarkTable:
    """The benchmark table with its keys declared, which can be set back to how it was made."""

    def __init__(self, folder: Path, rows: int):
        self.warehouse = folder.resolve() / f"quality-{rows}"
        self.original = self.warehouse / "catalog.orig"
        if not self.original.exists():
            shutil.rmtree(self.warehouse, ignore_errors=True)
            generate(str(self.warehouse), rows, properties={"write.liquid-clustering.columns": ",".join(KEYS)})
            shutil.copy(self.warehouse / "catalog.db", self.original)
        self.uri = f"sqlite:///{self.warehouse}/catalog.db"

    def load(self) -> Table:
        return SqlCatalog("local", uri=self.uri, warehouse=f"file://{self.warehouse}").load_table("db.events")

    def reset(self) -> Table:
        """As generated; data files that came since are deleted."""
        shutil.copy(self.original, self.warehouse / "catalog.db")
        table = self.load()
        kept = {task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()}
        for path in (Path(table.location().removeprefix("file://")) / "data").rglob("*.parquet"):
            if str(path) not in kept:
                path.unlink()
        return table

    def thalweg(self, verb: str, *arguments: str) -> dict:
        """The JSON object of a command on the table."""
        command = [str(PROGRAM), verb, "local.db.events", "--json", *arguments]
        command += ["--catalog-property", f"uri={self.uri}"]
        command += ["--catalog-property", f"warehouse=file://{self.warehouse}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        return json.loads(done.stdout)


def multiset(connection, location: str) -> tuple:
    """Count, sum and xor of row hashes: equal for equal multisets of rows."""
    columns = "hash(event_time, user_id, country, amount, url, payload)"
    return connection.execute(
        f"SELECT count(*), sum({columns}::HUGEINT), bit_xor({columns}) FROM iceberg_scan('{location}')"
    ).fetchone()


def duckdb_files(connection, table, draws: int = 10) -> float:
    """Mean over the keys of the files that DuckDB reads for an equality."""
    rows = table.scan(selected_fields=tuple(KEYS)).to_arrow()
    rng = np.random.default_rng(2)
    read = []
    for key in KEYS:
        for row in rng.integers(0, rows.num_rows, draws):
            value = literal(rows[key][int(row)])
            profile = connection.execute(
                f"EXPLAIN ANALYZE SELECT count(payload) FROM iceberg_scan('{table.metadata_location}') "
                f"WHERE {key} = '{value}'"
            ).fetchall()[0][1]
            read.append(int(re.search(r"Total Files Read:\s*(\d+)", profile).group(1)))
    return float(np.mean(read))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "benchmark")
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--memory", default="1GiB")
    parser.add_argument("--targets", nargs="*", default=["5MiB", "6.5MiB", "8MiB", "11MiB"])
    arguments = parser.parse_args()
    bench = BenchmarkTable(arguments.folder, arguments.rows)
    connection = duckdb_engine.connect(threads=2)
    before = bench.reset()
    source_bytes = sum(task.file.file_size_in_bytes for task in before.scan().plan_files())
    rows_before = multiset(connection, before.metadata_location)
    print("| target | F | equality, PyIceberg | /√F | equality, DuckDB | /√F | file / target | bytes out / in | peak |")
    print("|---|---|---|---|---|---|---|---|---|")
    good = True
    for target in arguments.targets:
        bench.reset()
        report = bench.thalweg("optimize", "--memory", arguments.memory, "--target-file-size", target)
        table = bench.load()
        touched = measure(table, KEYS)
        files = touched["files"]
        root = math.sqrt(files)
        by_iceberg = float(np.mean([touched["eq"][key][0] for key in KEYS]))
        by_duckdb = duckdb_files(connection, table)
        number, unit = re.fullmatch(r"([\d.]+)(\w+)", target).groups()
        sizes = [task.file.file_size_in_bytes / (float(number) * UNITS[unit]) for task in table.scan().plan_files()]
        same = multiset(connection, table.metadata_location) == rows_before
        good = good and same
        print(
            f"| {target} | {files} | {by_iceberg:.2f} | {by_iceberg / root:.3f} "
            f"| {by_duckdb:.2f} | {by_duckdb / root:.3f} "
            f"| {min(sizes):.3f}–{max(sizes):.3f} | {touched['bytes'] / source_bytes:.3f}x "
            f"| {report['peak_memory_bytes'] / (1 << 20):.0f} MiB |" + ("" if same else " ROWS DIFFER"),
            flush=True,
        )
    bench.reset()
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"\nrows before and after: {'equal' if good else 'DIFFERENT'}; highest peak of any run: {peak:.0f} MiB")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
