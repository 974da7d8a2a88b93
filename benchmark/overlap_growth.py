"""What the policies make of a growing table: 64 appends of the rows of gen.py, `optimize` after each, real files.

usage: overlap_growth.py [--format iceberg] [--format lance] [--keys user_id,url] [--folder FOLDER] [--json]

An append is about 16 files' worth of rows. After each `optimize`, the files that an equality opens are counted (mean
over the keys, values drawn from the rows of the whole history): from the bounds that PyIceberg reads out of the
manifests, or by Lance's own scan statistics; given is their mean over time. Written are the rows and bytes of all
`optimize` over those appended: at the end, and of rows also the mean of what was written so far after each of the later
32 appends, because one sort of the whole table near the end weighs almost one. Beside both stands what
thalweg-layout-benchmark predicts of the workload that is named with --workload, files cut as the format has them cut.
At the end the rows are compared with what was appended, and the table is sorted once as a whole.

Policies: overlap with the default theta, and size with the minimum cube at a tenth of the final table (Lance has
groups, which are left alone from the rows of one fragment on). Results are kept in the folder; what is there is not
run again. Exits with 1 when rows are lost or changed.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from gen import SCHEMA, batch
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.conversions import from_bytes
from quality import PROGRAM, ROOT

APPENDS = 64
FILES_PER_APPEND = 16
COLUMNS = "event_time, user_id, country, amount, url, payload"


def thalweg(verb: str, *arguments: str) -> dict:
    done = subprocess.run([str(PROGRAM), verb, "--json", *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


class IcebergTable:
    """Files of a size in bytes, which the table's property says; cubes of a tenth of the final table."""

    FILE_BYTES = 37 << 10
    ROWS_PER_FILE = 1000

    def __init__(self, folder: Path, keys: list[str]):
        self.keys = keys
        self.catalog = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}
        catalog = SqlCatalog("local", **self.catalog)
        catalog.create_namespace("db")
        properties = {
            "format-version": "2",
            "write.parquet.compression-codec": "zstd",
            "write.target-file-size-bytes": str(self.FILE_BYTES),
        }
        catalog.create_table("db.events", schema=SCHEMA, properties=properties)
        final = FILES_PER_APPEND * APPENDS * self.FILE_BYTES
        sizes = ["--min-cube-size", str(final // 10), "--target-cube-size", str(final // 5)]
        self.run("set", "--columns", ",".join(keys), *sizes)

    def run(self, verb: str, *options: str) -> dict:
        catalog = [f"--catalog-property={key}={value}" for key, value in self.catalog.items()]
        return thalweg(verb, "local.db.events", *options, *catalog)

    def load(self):
        return SqlCatalog("local", **self.catalog).load_table("db.events")

    def append(self, rows: pa.Table) -> int:
        """Appends; gives the bytes of the new files."""
        table = self.load()
        table.append(rows)
        return int(table.current_snapshot().summary["added-files-size"])

    def touched(self, values: pa.Table) -> tuple[int, float]:
        """Files, and the mean of those whose bounds hold a value."""
        table = self.load()
        files = [task.file for task in table.scan().plan_files()]
        means = []
        for key in self.keys:
            field = table.schema().find_field(key)
            low = [from_bytes(field.field_type, file.lower_bounds[field.field_id]) for file in files]
            high = [from_bytes(field.field_type, file.upper_bounds[field.field_id]) for file in files]
            drawn = values[key]
            if pa.types.is_timestamp(drawn.type):
                drawn = pc.cast(drawn, pa.int64())
            low, high, drawn = np.array(sorted(low)), np.array(sorted(high)), np.array(drawn.to_pylist())
            # Of each value: the files that begin at or below it, less those that end below it.
            opened = np.searchsorted(low, drawn, "right") - np.searchsorted(high, drawn, "left")
            means.append(float(opened.mean()))
        return len(files), float(np.mean(means))

    def rows(self) -> pa.Table:
        return self.load().scan().to_arrow()


class LanceTable:
    """Fragments of a number of rows, zone maps on the keys.

    A sort makes fragments of 0.67 to 1.0 of that number. Of 2000 rows all of them take within 9 % of the same bytes for
    each row. Below about 750 rows it is 1.56 times as many, whoever writes them.
    """

    ROWS_PER_FILE = 2000
    DRAWS = 40  # each is a scan

    def __init__(self, folder: Path, keys: list[str]):
        import lance

        self.lance = lance
        self.path = str(folder / "events.lance")
        self.keys = keys
        empty = pa.table({name: pa.array([], kind) for name, kind in zip(SCHEMA.names, SCHEMA.types, strict=True)})
        lance.write_dataset(empty, self.path)
        self.run("set", "--columns", ",".join(keys))

    def run(self, verb: str, *options: str) -> dict:
        target = ["--target-rows-per-fragment", str(self.ROWS_PER_FILE)] if verb in ("optimize", "plan") else []
        return thalweg(verb, self.path, *target, *options)

    def bytes(self) -> int:
        return sum(file.stat().st_size for file in (Path(self.path) / "data").glob("*.lance"))

    def append(self, rows: pa.Table) -> int:
        before = self.bytes()
        self.lance.write_dataset(rows, self.path, mode="append", max_rows_per_file=self.ROWS_PER_FILE)
        return self.bytes() - before

    def touched(self, values: pa.Table) -> tuple[int, float]:
        dataset = self.lance.dataset(self.path)
        means = []
        for key in self.keys:
            opened = []
            for value in values[key][: self.DRAWS].to_pylist():
                literal = value if isinstance(value, int) else f"'{value}'"
                if pa.types.is_timestamp(values[key].type):
                    literal = f"timestamp {literal}"
                seen = []
                scanner = dataset.scanner(filter=f"{key} = {literal}", columns=[key], scan_stats_callback=seen.append)
                scanner.to_table()
                opened.append(seen[0].all_counts["fragments_scanned"])
            means.append(float(np.mean(opened)))
        return len(dataset.get_fragments()), float(np.mean(means))

    def rows(self) -> pa.Table:
        return self.lance.dataset(self.path).to_table()


FORMATS = {"iceberg": IcebergTable, "lance": LanceTable}


def multiset(rows: pa.Table) -> tuple:
    """Count, sum and xor of row hashes: equal for equal multisets of rows."""
    sys.path.append(str(ROOT / "tools"))
    import duckdb_engine

    connection = duckdb_engine.connect(threads=2)
    connection.register("rows", rows)
    hashed = f"hash({COLUMNS})"
    return connection.execute(f"SELECT count(*), sum({hashed}::HUGEINT), bit_xor({hashed}) FROM rows").fetchone()


def grow(name: str, policy: str, keys: list[str], folder: Path) -> dict:
    """Drives one table; gives its figures."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    table = FORMATS[name](folder, keys)
    rng = np.random.default_rng(20261130)
    rows_per_append = FILES_PER_APPEND * table.ROWS_PER_FILE
    appends = [batch(rng, append, APPENDS, rows_per_append) for append in range(APPENDS)]
    everything = pa.concat_tables(appends)
    values = everything.take(np.random.default_rng(1).integers(0, len(everything), 4000)).select(keys)
    start = time.monotonic()
    appended = written = rewrites = 0
    opened, files, written_rows = [], [], []
    for rows in appends:
        appended += table.append(rows)
        report = table.run("optimize", "--policy", policy)
        if report["outcome"] == "committed":
            rewrites += 1
            written += report["output_bytes"]
        written_rows.append(report["rows"])
        count, touched = table.touched(values)
        files.append(count)
        opened.append(touched)
    again = table.run("optimize", "--policy", policy)["outcome"]
    seconds = time.monotonic() - start
    same = multiset(table.rows()) == multiset(everything)
    table.run("optimize", "--full")
    full_files, full_touched = table.touched(values)
    return {
        "format": name,
        "policy": policy,
        "keys": keys,
        "rows": len(everything),
        "files": files,
        "touched": opened,
        "rewrites": rewrites,
        "rows_written": written_rows,
        "bytes_written": written / appended,
        "bytes_appended": appended,
        "run_again": again,
        "rows_kept": same,
        "full_sort_files": full_files,
        "full_sort_touched": full_touched,
        "seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "benchmark")
    parser.add_argument("--format", action="append", choices=list(FORMATS), help="all unless given")
    parser.add_argument("--keys", default="user_id,url", help="two keys; of these both are alike in all appends")
    parser.add_argument("--workload", default="uniform", help="of thalweg-layout-benchmark: the nearest to the keys")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    arguments = parser.parse_args()
    keys = arguments.keys.split(",")
    folder = arguments.folder.resolve() / f"growth-{'-'.join(keys)}"
    folder.mkdir(parents=True, exist_ok=True)

    def kept(name: str, make) -> dict:
        path = folder / f"{name}.json"
        if not path.exists():
            made = make()
            path.with_suffix(".new").write_text(json.dumps(made, indent=1))
            os.replace(path.with_suffix(".new"), path)
        return json.loads(path.read_text())

    def predict() -> dict:
        command = [
            str(PROGRAM.parent / "thalweg-layout-benchmark"),
            "--json",
            "--all",
            "--workload",
            arguments.workload,
        ]
        return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    predicted = [row for row in kept(f"predicted-{arguments.workload}", predict)["rows"] if row["keys"] == len(keys)]
    # Lance's groups have no minimum of a tenth of the table, so its policy "size" has no counterpart there.
    predictions = {
        ("iceberg", "overlap"): next(row for row in predicted if row["default"] and row["appends"] == "stock"),
        ("iceberg", "size"): next(row for row in predicted if row["policy"] == "size-10-our-cuts"),
        ("lance", "overlap"): next(row for row in predicted if row["policy"] == "overlap-capped"),
    }
    results = []
    for name in arguments.format or FORMATS:
        for policy in ("overlap", "size"):
            result = kept(f"{name}-{policy}", lambda: grow(name, policy, keys, folder / f"{name}-{policy}"))  # noqa: B023
            shutil.rmtree(folder / f"{name}-{policy}", ignore_errors=True)
            written = np.cumsum(result["rows_written"]) / (np.arange(1, APPENDS + 1) * result["rows"] / APPENDS)
            result["written"] = float(written[-1])
            result["written_later_half"] = float(np.mean(written[APPENDS // 2 :]))
            result["predicted"] = predictions.get((name, policy))
            results.append(result)
    good = all(result["rows_kept"] for result in results)
    if arguments.json:
        print(json.dumps({"results": results}, indent=1))
        sys.exit(0 if good else 1)
    print(
        "| table, policy | files | opened by an equality, mean: measured | predicted | written / appended, bytes "
        "| rows | predicted | rows, mean of the later half | predicted |\n"
        "|---|---|---|---|---|---|---|---|---|"
    )
    for result in results:
        predicted = result["predicted"] or {}
        opened, written, later = (
            f"{predicted[figure]:.2f}" if predicted else "–"
            for figure in ("touched", "write_amplification", "write_amplification_later_half")
        )
        print(
            f"| {result['format']}, {result['policy']} | {result['files'][-1]} | {np.mean(result['touched']):.2f} "
            f"| {opened} | {result['bytes_written']:.2f} | {result['written']:.2f} | {written} "
            f"| {result['written_later_half']:.2f} | {later} |" + ("" if result["rows_kept"] else " ROWS DIFFER")
        )
    print()
    for result in results:
        print(
            f"{result['format']}, {result['policy']}: at the end {result['touched'][-1]:.2f} of {result['files'][-1]} "
            f"files, after one full sort {result['full_sort_touched']:.2f} of {result['full_sort_files']}; "
            f"{result['rewrites']} rewrites; "
            f"run again: {result['run_again']}; {result['seconds']:.0f} s"
        )
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
