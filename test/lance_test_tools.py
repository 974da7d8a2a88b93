"""Lance datasets for the tests: pylance makes and changes them, pylance and DuckDB read them.

The bridge to Lance is looked for where the program looks: beside it, or where THALWEG_LANCE_BRIDGE says.
"""

import importlib.util
import json
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from thalweg_test_tools import BIN, Done, Lake, just_begun, make_rows

lance = pytest.importorskip("lance", reason="pylance is not installed")

BRIDGE = Path(os.environ.get("THALWEG_LANCE_BRIDGE") or BIN.parent / "lib" / "libthalweg_lance.so")
needs_lance = pytest.mark.skipif(not BRIDGE.exists(), reason=f"{BRIDGE} is not built")

KEYS = ["user_id", "event_time"]
DECLARATION = {
    "lance.clustering.columns": '["user_id","event_time"]',
    "lance.clustering.curve": "hilbert",
    "lance.clustering.version": "1",
    "lance.clustering.bits_per_dim": "16",
    "lance.clustering.algorithm": "typed-quantile-rank-v1",
}
RUN_RECORD = "thalweg.run."


def numbered_rows(count: int, first_id: int = 0) -> pa.Table:
    """Rows with an id, and keys that are spread evenly and null here and there; other ids, other rows."""
    ids = pa.array(range(first_id, first_id + count), pa.int64())
    return make_rows(count, 1000 + first_id).add_column(0, pa.field("id", pa.int64()), ids)


def hashable(value):
    """Nested values as something that a Counter takes; NaNs count as equal."""
    if isinstance(value, dict):
        return tuple((key, hashable(inner)) for key, inner in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(hashable(inner) for inner in value)
    return "NaN" if isinstance(value, float) and value != value else value


def multiset(rows: pa.Table) -> Counter:
    columns = [rows[name].combine_chunks().to_pylist() for name in sorted(rows.schema.names)]
    return Counter(tuple(hashable(value) for value in row) for row in zip(*columns, strict=True))


@dataclass
class Scanned:
    """What answering a filter took, by Lance's own scan statistics (those of its analyze_plan)."""

    fragments: int
    rows: int


class LanceTable:
    """A dataset in the folder of a lake, empty at first: it is made by the first append."""

    def __init__(self, lake: Lake, name: str = "events", **options):
        self.lake = lake
        self.path = lake.folder / f"{name}.lance"
        self.options = options  # of pylance's writer

    # --- the program

    def run(self, verb: str, *arguments, **options) -> Done:
        return self.lake.run(verb, self.path, *arguments, **options)

    def ok(self, verb: str, *arguments) -> dict:
        return self.lake.ok(verb, self.path, *arguments)

    def declare(self, *arguments) -> dict:
        return self.ok("set", "--columns", ",".join(KEYS), *arguments)

    def optimize(self, *arguments) -> dict:
        """Fragments of at most 1000 rows, unless the arguments say otherwise."""
        if "--target-rows-per-fragment" not in arguments:
            arguments += ("--target-rows-per-fragment", 1000)
        return self.ok("optimize", *arguments)

    def unclustered(self) -> int:
        """The number of fragments that are clustered by no declaration at all or by another one."""
        health = self.ok("status")["health"]
        stale = health.get("stale", 0) + health.get("other_spec", 0)
        return health["unclustered_units"] + sum(
            cube["files"] for cube in self.ok("cubes")["cubes"] if stale and not cube["same_spec"]
        )

    def execute_all(self, tasks: Path, *arguments) -> list[Path]:
        """Plans into a folder and executes each task; the result envelopes."""
        self.ok("plan", "--tasks-out", tasks, "--target-rows-per-fragment", 1000, *arguments)
        results = []
        for task in sorted(tasks.glob("task-*.json")):
            results.append(tasks / task.name.replace("task", "result"))
            self.lake.ok("execute", task, "--out", results[-1])
        return results

    # --- pylance

    @property
    def dataset(self):
        """The newest version."""
        return lance.dataset(str(self.path))

    def append(self, rows: pa.Table, **options) -> None:
        mode = "append" if self.path.exists() else "create"
        lance.write_dataset(rows, str(self.path), mode=mode, **(self.options | options))

    def grow(self, appends: int, count: int = 500) -> "LanceTable":
        """Appends numbered rows, one fragment each time."""
        first = self.dataset.count_rows() if self.path.exists() else 0
        for number in range(appends):
            self.append(numbered_rows(count, first + number * count))
        return self

    def config(self) -> dict[str, str]:
        return {key: value for key, value in self.dataset.config().items() if "clustering" in key}

    def rows(self, **options) -> Counter:
        """All rows, as a multiset, as a scan without indexes reads them."""
        options = {"use_scalar_index": False} | options
        return multiset(self.dataset.to_table(**options))

    def rows_by_duckdb(self) -> Counter:
        rows = connect_duckdb().execute(f"SELECT * FROM '{self.path}'").to_arrow_table()
        return multiset(rows)

    def fragment_rows(self) -> dict[int, int]:
        """Live rows of each fragment."""
        return {fragment.fragment_id: fragment.count_rows() for fragment in self.dataset.get_fragments()}

    def scanned(self, condition: str, **options) -> Scanned:
        return scanned(self.dataset, condition, **options)

    def indexes(self) -> list[tuple[str, str, str, set[int]]]:
        """Name, type, column ("" for none) and fragments of each index; also fragments that are gone."""
        return [
            (index.name, index.index_type, "".join(index.field_names[:1]), ids_of(index))
            for index in self.dataset.describe_indices()
        ]

    # --- what stands in storage

    def files(self, folder: str = "data") -> set[str]:
        """Paths of the files below a folder of the dataset."""
        return {str(path.relative_to(self.path)) for path in (self.path / folder).rglob("*") if path.is_file()}

    def referenced(self) -> set[str]:
        """Paths of all files that any version names, by Lance itself."""
        return {path for batch in self.dataset.tracked_files() for path in batch.column("path").to_pylist()}

    def check_no_leftovers(self) -> None:
        # (Blobs that stand below data/<stem>/ are those of data/<stem>.lance.)
        owners = {str(Path(path).parent) + ".lance" if path.count("/") > 1 else path for path in self.files("data")}
        assert owners <= self.referenced()
        assert [path for path in self.files("_thalweg") if not just_begun(self.path / path)] == []

    def records(self) -> dict[str, dict]:
        """The layout record: one entry of the table's metadata for each run."""
        entries = self.dataset.metadata
        return {key: json.loads(text) for key, text in entries.items() if key.startswith(RUN_RECORD)}

    def operations(self, since: int) -> list[str]:
        """The names of the operations that made the versions after one."""
        return [type(operation_of(self.dataset, v)).__name__ for v in range(since + 1, self.dataset.version + 1)]

    def created_indexes(self, since: int) -> set[str]:
        """The names of the indexes that were built, or extended, in the versions after one."""
        operations = [operation_of(self.dataset, version) for version in range(since + 1, self.dataset.version + 1)]
        return {
            index.name
            for operation in operations
            if isinstance(operation, lance.LanceOperation.CreateIndex)
            for index in operation.new_indices
        }


def ids_of(index) -> set[int]:
    return {fragment for segment in index.segments for fragment in segment.fragment_ids}


def operation_of(dataset, version: int):
    try:
        return dataset.read_transaction(version).operation
    except TypeError as error:
        # pylance 14.0.2 cannot show a rewrite that took indexes along.
        assert "RewrittenIndex" in str(error)
        return lance.LanceOperation.Rewrite(groups=[], rewritten_indices=[])


def scanned(dataset, condition: str, **options) -> Scanned:
    """Zone maps of all keys are used where there are any, for conditions on any of them."""
    seen = []
    options = {"columns": ["id"]} | options  # little enough to be read at once, so that nothing counts twice
    dataset.scanner(filter=condition, scan_stats_callback=seen.append, **options).to_table()
    (counts,) = (statistics.all_counts for statistics in seen)
    return Scanned(counts["fragments_scanned"], counts["rows_scanned"])


def connect_duckdb() -> duckdb.DuckDBPyConnection:
    """A connection that reads Lance datasets by their path."""
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    (folder,) = importlib.util.find_spec("duckdb_extension_lance").submodule_search_locations
    connection.execute(f"LOAD '{next(Path(folder).rglob('lance.duckdb_extension'))}'")
    return connection


def make_events(lake: Lake, appends: int = 6, count: int = 500, **options) -> LanceTable:
    """A declared dataset of fragments that all overlap."""
    table = LanceTable(lake, **options).grow(appends, count)
    table.declare()
    return table


def seen_times(dataset, ids: list[int] | None = None) -> dict[int, tuple]:
    """Row id and version columns of every row, by its id."""
    columns = ["id", "_row_created_at_version", "_row_last_updated_at_version"]
    rows = dataset.to_table(columns=columns, with_row_id=True)
    return {row["id"]: tuple(row[name] for name in (*columns[1:], "_rowid")) for row in rows.to_pylist()}
