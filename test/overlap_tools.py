"""Tables for the tests of the policy overlap, on both formats, and what other engines see of them.

Tables are made by PyIceberg ("catalog"), by the program in Hadoop layout ("hadoop") or by pylance ("lance"); their
units are so small that few rows make dozens. Other engines count what a query opens and read the rows back.
"""

import json
from pathlib import Path

import duckdb_engine
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from lance_test_tools import LanceTable, scanned
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, LessThanOrEqual
from thalweg_test_tools import (
    Lake,
    data_files,
    hadoop_table,
    local_path,
    newest_hadoop_metadata,
    planned_files,
)

THETA = 0.42
PROMISE = 1 / (1 - THETA)
# Notes of a run that brought Lance's indexes up to date.
TOLD = ("zone maps created: ", "indexes refreshed: ")
FILE_BYTES = 16 * 1024  # of Iceberg files
FRAGMENT_ROWS = 700
KINDS = ["catalog", "hadoop", "lance"]
APPENDED = ["catalog", "lance"]  # by engines that do not cluster


class OverlapTable:
    """A table with a unique "id" and the rows that it should hold."""

    number = 0

    def __init__(self, lake: Lake, kind: str, keys: str = "a,b", *declaration, small_units: bool = True):
        OverlapTable.number += 1
        self.lake, self.kind, self.keys = lake, kind, keys
        self.declaration = declaration or ("--policy", "overlap")
        self.small_units = small_units
        self.name = f"t{OverlapTable.number}"
        self.expected: pa.Table | None = None
        self.lance = LanceTable(lake, self.name) if kind == "lance" else None
        path = lake.folder / self.name
        self.address = {"catalog": f"lake.db.{self.name}", "hadoop": path, "lance": path.with_suffix(".lance")}[kind]

    # --- the program

    def run(self, verb: str, *arguments):
        return self.lake.run(verb, self.address, *arguments)

    def ok(self, verb: str, *arguments) -> dict:
        return self.lake.ok(verb, self.address, *arguments)

    def status(self) -> dict:
        return self.ok("status")

    def optimize(self, *arguments) -> dict:
        """Changes no row, and nothing at all when there is nothing to do."""
        before = self.state()
        report = self.ok("optimize", *arguments)
        if report["outcome"] == "nothing-to-do":
            assert report["reason"] and (report["source_units"], report["output_units"]) == (0, 0)
            # A clustered append leaves fragments that zone maps do not cover: bringing them up to date is a version.
            told = self.kind == "lance" and any(note.startswith(TOLD) for note in report["notes"])
            assert (self.state()[1:] == before[1:]) if told else (self.state() == before), report
        else:
            assert report["source_units"] > 0 and report["snapshot_after"] != report["snapshot_before"]
        self.check_rows()
        return report

    def optimize_to_the_end(self, *arguments, most: int) -> list[dict]:
        """The reports of the runs before the one that has nothing to do."""
        reports = []
        while (report := self.optimize(*arguments))["outcome"] != "nothing-to-do":
            reports.append(report)
            assert len(reports) < most, f"no end within {most} runs: {[r['source_units'] for r in reports]}"
        return reports

    # --- rows

    def append(self, rows: pa.Table) -> "OverlapTable":
        first = self.expected is None
        if first and self.kind == "catalog":
            properties = {"write.target-file-size-bytes": str(FILE_BYTES)} if self.small_units else {}
            self.lake.make_table(self.name, rows.schema, properties)
        if self.kind == "catalog":
            self.iceberg().append(rows)
        elif self.kind == "hadoop":
            self.write(rows, "create" if first else "append")
        else:
            self.lance.append(rows)
        self.expected = rows if first else pa.concat_tables([self.expected, rows])
        if first:
            self.ok("set", "--columns", self.keys, *self.declaration)
            if self.kind == "lance" and self.small_units:
                name = "lance.compaction.target_rows_per_fragment"
                self.lance.dataset.update_config({name: str(FRAGMENT_ROWS)})
        return self

    def write(self, rows: pa.Table, mode: str = "append") -> None:
        """By the program, which clusters what it appends."""
        staged = self.lake.folder / f"{self.name}.parquet"
        pq.write_table(rows, staged)
        size = ["--target-file-size", FILE_BYTES] if self.small_units and self.kind == "hadoop" else []
        self.ok("write", staged, "--mode", mode, *size)
        if mode == "create" and self.small_units:
            newest = newest_hadoop_metadata(self.address)
            document = json.loads(newest.read_text())
            document["properties"]["write.target-file-size-bytes"] = str(FILE_BYTES)
            newest.write_text(json.dumps(document))

    def append_clustered(self, rows: pa.Table) -> None:
        self.write(rows)
        self.expected = pa.concat_tables([self.expected, rows])

    def delete(self, first: int, last: int) -> None:
        """The rows of these ids."""
        if self.kind == "lance":
            self.lance.dataset.delete(f"id BETWEEN {first} AND {last}")
        else:
            self.iceberg().delete(And(GreaterThanOrEqual("id", first), LessThanOrEqual("id", last)))
        ids = self.expected["id"]
        inside = pc.and_(pc.greater_equal(ids, first), pc.less_equal(ids, last))
        self.expected = self.expected.filter(pc.invert(inside))

    def iceberg(self):
        return self.lake.table(self.name) if self.kind == "catalog" else hadoop_table(self.address)

    def rows(self) -> pa.Table:
        """As DuckDB reads Iceberg and pylance reads Lance."""
        if self.kind == "lance":
            return self.lance.dataset.to_table(use_scalar_index=False)
        location = local_path(self.iceberg().metadata_location)
        return duckdb_engine.connect().execute(f"SELECT * FROM iceberg_scan('{location}')").to_arrow_table()

    def check_rows(self) -> None:
        got, expected = (table.sort_by("id").combine_chunks() for table in (self.rows(), self.expected))
        assert got.num_rows == expected.num_rows, f"{got.num_rows} rows, {expected.num_rows} expected"
        assert got.cast(expected.schema).equals(expected)

    # --- the layout, as other engines see it

    def state(self) -> tuple:
        """Whatever a run with nothing to do must leave alone."""
        if self.kind == "lance":
            return self.lance.dataset.version, self.lance.files()
        root = Path(local_path(self.iceberg().location()))
        return self.iceberg().metadata_location, sorted(root.rglob("*"))

    def units(self) -> set:
        if self.kind == "lance":
            return set(self.lance.fragment_rows())
        return set(data_files(self.iceberg()))

    def bounds(self, column: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Smallest and largest value and rows of every unit that has a value."""
        found = []
        if self.kind == "lance":
            for fragment in self.lance.dataset.get_fragments():
                ends = pc.min_max(fragment.to_table(columns=[column])[column])
                found.append((ends["min"].as_py(), ends["max"].as_py(), fragment.count_rows()))
        else:
            for file in self.iceberg().inspect.data_files().to_pylist():
                metrics = file["readable_metrics"][column]
                found.append((metrics["lower_bound"], metrics["upper_bound"], file["record_count"]))
        lower, upper, rows = zip(*(ends for ends in found if ends[0] is not None), strict=True)
        return np.array(lower), np.array(upper), np.array(rows)

    def opened(self, column: str, low, high=None) -> int:
        """Units that the engine itself opens for an equality or a closed range."""
        high = low if high is None else high
        if self.kind == "lance":
            return scanned(self.lance.dataset, f"{column} >= {low} AND {column} <= {high}").fragments
        condition = (
            EqualTo(column, low) if low == high else And(GreaterThanOrEqual(column, low), LessThanOrEqual(column, high))
        )
        return len(planned_files(self.iceberg(), condition))

    def mean_opened(self, column: str, count: int = 25) -> float:
        values = self.expected[column].drop_null()
        return float(np.mean([self.opened(column, values[at].as_py()) for at in spread(len(values), count)]))


def spread(length: int, count: int) -> list[int]:
    return [int(at) for at in np.linspace(0, length - 1, count)]


def make_rows(count: int, seed: int, first_id: int = 0, low: float = 0, high: float = 1) -> pa.Table:
    """Keys spread evenly; those of "a" within a share of their range."""
    rng = np.random.default_rng(seed)
    return pa.table(
        {
            "id": pa.array(np.arange(first_id, first_id + count)),
            "a": pa.array(((low + (high - low) * rng.random(count)) * 1e9).astype(np.int64)),
            "b": pa.array(rng.integers(0, 1_000_000_000, count)),
        }
    )


def grown(lake: Lake, kind: str, parts: list[int], *declaration, **options) -> OverlapTable:
    """A table of appends of so many rows."""
    table = OverlapTable(lake, kind, "a,b", *declaration, **options)
    for number, count in enumerate(parts):
        first = 0 if table.expected is None else table.expected.num_rows
        table.append(make_rows(count, number, first))
    return table


# --- an append costs about what it weighs
