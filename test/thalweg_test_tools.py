"""Shared helpers: run the program, make small tables with PyIceberg, and look at them with other engines.

THALWEG_BIN names the folder with the program (default: build/bin).
"""

import json
import os
import subprocess
import sysconfig
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable, Table

BIN = Path(os.environ.get("THALWEG_BIN", Path(__file__).parents[1] / "build" / "bin"))
PROGRAM = BIN / "thalweg"

EVENTS = pa.schema(
    [
        pa.field("user_id", pa.int64()),
        pa.field("event_time", pa.timestamp("us")),
        pa.field("country", pa.string()),
        pa.field("amount", pa.float64()),
    ]
)
KEYS = "write.liquid-clustering.columns"
# Small cubes, so that a small table has several.
SMALL_CUBES = {
    "write.liquid-clustering.target-cube-size-bytes": str(64 * 1024),
    "write.liquid-clustering.min-cube-size-bytes": str(32 * 1024),
    "write.target-file-size-bytes": str(16 * 1024),
}


@dataclass
class Done:
    """What a run of the program left."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict:
        """The one object on standard output."""
        return json.loads(self.out)

    def error(self, code: int = 1) -> str:
        """The message of a failure: exactly one clean line on standard error."""
        assert self.code == code, (self.code, self.out, self.err)
        assert self.err.endswith("\n") and self.err.count("\n") == 1, self.err
        assert self.err.startswith("thalweg: "), self.err
        message = self.err.removeprefix("thalweg: ").rstrip("\n")
        assert message and ".cc:" not in message and "Traceback" not in message, message
        return message


def clean_environment(home: Path, **more: str) -> dict[str, str]:
    """The environment without the user's own catalogs."""
    kept = {key: value for key, value in os.environ.items() if not key.upper().startswith("PYICEBERG")}
    return kept | {"HOME": str(home)} | more


def run(*arguments, environment: dict[str, str], cwd: Path | None = None, timeout: float = 300) -> Done:
    """Runs the program to its end with its output in pipes."""
    done = subprocess.run(
        [str(PROGRAM), *map(str, arguments)], env=environment, cwd=cwd, capture_output=True, text=True, timeout=timeout
    )
    return Done(done.returncode, done.stdout, done.stderr)


def make_rows(count: int, seed: int) -> pa.Table:
    """Rows of EVENTS; keys are spread evenly, so that every file covers all of every key. Some are null."""
    rng = np.random.default_rng(seed)
    return pa.table(
        [
            pa.array(rng.integers(0, 1_000_000, count), mask=rng.random(count) < 0.01),
            pa.array(1_767_225_600_000_000 + rng.integers(0, 90 * 86_400_000_000, count), pa.timestamp("us")),
            pa.array(rng.choice(["ch", "de", "fr", "it"], count)),
            pa.array(rng.random(count)),
        ],
        schema=EVENTS,
    )


class Lake:
    """A PyIceberg SQL catalog "lake" with the namespace "db"; commands run with it in their environment."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.uri = f"sqlite:///{folder}/catalog.db"
        self.warehouse = f"file://{folder}/warehouse"
        self.catalog = SqlCatalog("lake", uri=self.uri, warehouse=self.warehouse)
        self.catalog.create_namespace("db")
        self.environment = clean_environment(
            self.home, PYICEBERG_CATALOG__LAKE__URI=self.uri, PYICEBERG_CATALOG__LAKE__WAREHOUSE=self.warehouse
        )

    def run(self, *arguments, **options) -> Done:
        return run(*arguments, environment=self.environment, **options)

    def ok(self, *arguments, **options) -> dict:
        """Runs with --json; the object of a command that must succeed, with nothing on standard error."""
        done = self.run(*arguments, "--json", **options)
        assert (done.code, done.err) == (0, ""), (done.code, done.out, done.err)
        assert done.out.count("\n") == 1, done.out
        assert done.json["format"] == f"thalweg.{arguments[0]}/1"
        return done.json

    def table(self, name: str = "events") -> Table:
        return self.catalog.load_table(f"db.{name}")

    def make_table(self, name: str, schema: pa.Schema, properties: dict[str, str] | None = None, **options) -> Table:
        return self.catalog.create_table(f"db.{name}", schema=schema, properties=properties or {}, **options)

    def make_events(self, files: int = 8, rows: int = 2000, keys: str | None = "user_id,event_time") -> str:
        """A table of overlapping files; its address."""
        properties = SMALL_CUBES | ({KEYS: keys} if keys else {})
        table = self.make_table("events", EVENTS, properties)
        for number in range(files):
            table.append(make_rows(rows, number))
        return "lake.db.events"

    def write_parquet(self, name: str, rows: pa.Table) -> Path:
        path = self.folder / name
        pq.write_table(rows, path)
        return path


def hadoop_table(path: Path) -> Table:
    """The newest version of a table in Hadoop layout, read-only."""
    versions = (path / "metadata").glob("v*.metadata.json")
    return StaticTable.from_metadata(str(max(versions, key=lambda file: int(file.name[1:].split(".")[0]))))


def data_files(table: Table) -> dict[str, tuple[int, int]]:
    """Rows and bytes of the live data files, by path."""
    return {
        task.file.file_path: (task.file.record_count, task.file.file_size_in_bytes)
        for task in table.scan().plan_files()
    }


def duckdb_connection() -> duckdb.DuckDBPyConnection:
    """DuckDB with the extensions from their wheels (avro before iceberg)."""
    connection = duckdb.connect()
    for name in ("avro", "iceberg"):
        folder = Path(sysconfig.get_paths()["purelib"]) / f"duckdb_extension_{name}" / "extensions"
        connection.execute(f"LOAD '{next(folder.rglob(f'{name}.duckdb_extension'))}'")
    return connection


def rows_of(table: Table) -> Counter:
    """The rows as DuckDB reads them, as a multiset."""
    location = table.metadata_location.removeprefix("file://")
    return Counter(duckdb_connection().execute(f"SELECT * FROM iceberg_scan('{location}')").fetchall())


def arrow_rows(rows: pa.Table) -> Counter:
    """The rows of an Arrow table as a multiset, comparable with rows_of()."""
    return Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True))
