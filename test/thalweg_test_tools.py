"""Shared helpers: run the program, make small tables with PyIceberg, and look at them with other engines.

THALWEG_BIN names the folder with the program (default: build/bin).
"""

import importlib.util
import json
import os
import subprocess
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import duckdb_engine
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable, Table

BIN = Path(os.environ.get("THALWEG_BIN", Path(__file__).parents[1] / "build" / "bin"))
PROGRAM = BIN / "thalweg"
# Its *Interop tests write and read files in the folder that THALWEG_INTEROP_DIR names.
INTEROP = BIN / "thalweg_iceberg_test"
needs_interop = pytest.mark.skipif(not INTEROP.exists(), reason=f"{INTEROP} is not built")

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


def catalog_variables(properties: dict[str, str]) -> dict[str, str]:
    """The environment that gives the catalog "lake" these properties: "_" stands for "-", "__" for "."."""
    return {
        f"PYICEBERG_CATALOG__LAKE__{key.upper().replace('-', '_').replace('.', '__')}": value
        for key, value in properties.items()
    }


def run_interop(test: str, folder: Path) -> None:
    """Runs one of the *Interop tests with its files in the folder."""
    done = subprocess.run(
        [str(INTEROP), f"--gtest_filter={test}"],
        env=os.environ | {"THALWEG_INTEROP_DIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[  PASSED  ] 1 test" in done.stdout, done.stdout


def run(*arguments, environment: dict[str, str] | None = None, cwd: Path | None = None, timeout: float = 300) -> Done:
    """Runs the program to its end with its output in pipes; without an environment in this process's."""
    done = subprocess.run(
        [str(PROGRAM), *map(str, arguments)], env=environment, cwd=cwd, capture_output=True, text=True, timeout=timeout
    )
    return Done(done.returncode, done.stdout, done.stderr)


def run_to_its_first_bytes(*arguments, environment: dict[str, str] | None = None) -> int:
    """Runs the program until it writes into its first file, which kills it; returns its exit code."""
    command = ["prlimit", "--fsize=0", PROGRAM, *arguments]
    return subprocess.run([str(part) for part in command], env=environment, capture_output=True, timeout=300).returncode


def just_begun(path: Path) -> bool:
    """Whether its writer died between making this file and writing into it: whose it was, nobody can tell."""
    return path.suffix == ".tmp" and path.stat().st_size == 0


# Starts the program from a process so small that what the kernel counts as the child's peak is the child's: between
# fork and exec a child counts the pages of its parent as its own.
LAUNCHER = """
import json, os, sys, time
begin = time.monotonic()
pid = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
status, usage = os.wait4(pid, 0)[1:]
with open(sys.argv[1], "w") as file:
    json.dump({"peak_bytes": usage.ru_maxrss * 1024, "seconds": time.monotonic() - begin}, file)
sys.exit(os.waitstatus_to_exitcode(status))
"""


@dataclass
class Measured(Done):
    """What a run of the program left and took: its largest resident set and its wall time."""

    peak_bytes: int
    seconds: float


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

    namespace = "db"

    def __init__(self, folder: Path):
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(parents=True)
        self.uri = f"sqlite:///{folder}/catalog.db"
        self.warehouse = f"file://{folder}/warehouse"
        self.catalog = SqlCatalog("lake", uri=self.uri, warehouse=self.warehouse)
        self.catalog.create_namespace(self.namespace)
        self.environment = clean_environment(
            self.home, PYICEBERG_CATALOG__LAKE__URI=self.uri, PYICEBERG_CATALOG__LAKE__WAREHOUSE=self.warehouse
        )

    def run(self, *arguments, **options) -> Done:
        return run(*arguments, environment=self.environment, **options)

    def measure(self, *arguments) -> Measured:
        """Runs with --json, as run() does, and measures the process."""
        report = self.folder / "usage.json"
        launcher = [sys.executable, "-I", "-S", "-c", LAUNCHER, str(report), str(PROGRAM), *map(str, arguments)]
        done = subprocess.run([*launcher, "--json"], env=self.environment, capture_output=True, text=True, timeout=300)
        return Measured(done.returncode, done.stdout, done.stderr, **json.loads(report.read_text()))

    def files(self) -> dict[str, int]:
        """Every file of the tables, with its size."""
        found = Path(local_path(self.warehouse)).rglob("*")
        return {str(path): path.stat().st_size for path in found if path.is_file()}

    def ok(self, *arguments, **options) -> dict:
        """Runs with --json; the object of a command that must succeed, with nothing on standard error."""
        done = self.run(*arguments, "--json", **options)
        assert (done.code, done.err) == (0, ""), (done.code, done.out, done.err)
        assert done.out.count("\n") == 1, done.out
        assert done.json["format"] == f"thalweg.{arguments[0]}/1"
        return done.json

    def address(self, name: str = "events") -> str:
        """What the program calls a table."""
        return f"lake.{self.namespace}.{name}"

    def table(self, name: str = "events") -> Table:
        return self.catalog.load_table((self.namespace, name))

    def make_table(self, name: str, schema: pa.Schema, properties: dict[str, str] | None = None, **options) -> Table:
        return self.catalog.create_table((self.namespace, name), schema=schema, properties=properties or {}, **options)

    def make_events(self, files: int = 8, rows: int = 2000, keys: str | None = "user_id,event_time") -> str:
        """A table of overlapping files; its address."""
        properties = SMALL_CUBES | ({KEYS: keys} if keys else {})
        table = self.make_table("events", EVENTS, properties)
        for number in range(files):
            table.append(make_rows(rows, number))
        return self.address()

    def write_parquet(self, name: str, rows: pa.Table) -> Path:
        path = self.folder / name
        pq.write_table(rows, path)
        return path


def hadoop_version(metadata: Path) -> int:
    """N of a metadata file vN.metadata.json."""
    return int(metadata.name[1:].split(".")[0])


def newest_hadoop_metadata(path: Path) -> Path:
    return max((path / "metadata").glob("v*.metadata.json"), key=hadoop_version)


def hadoop_table(path: Path) -> Table:
    """The newest version of a table in Hadoop layout, read-only."""
    return StaticTable.from_metadata(str(newest_hadoop_metadata(path)))


def data_files(table: Table) -> dict[str, tuple[int, int]]:
    """Rows and bytes of the live data files, by path."""
    return {
        task.file.file_path: (task.file.record_count, task.file.file_size_in_bytes)
        for task in table.scan().plan_files()
    }


def rows_of(table: Table) -> Counter:
    """The rows as DuckDB reads them, as a multiset."""
    location = local_path(table.metadata_location)
    return Counter(duckdb_engine.connect().execute(f"SELECT * FROM iceberg_scan('{location}')").fetchall())


def arrow_rows(rows: pa.Table) -> Counter:
    """The rows of an Arrow table as a multiset, comparable with rows_of()."""
    return Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def local_path(location: str) -> str:
    return location.removeprefix("file://")


def planned_files(table: Table, condition) -> set[str]:
    """The files that PyIceberg would open for a condition."""
    return {task.file.file_path for task in table.scan(row_filter=condition).plan_files()}


def load_oracle():
    """The slow reference of the keys, a program of its own beside the tests."""
    path = Path(__file__).parent / "oracle" / "quantile_rank_oracle.py"
    spec = importlib.util.spec_from_file_location("quantile_rank_oracle", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def encoder(oracle, kind: pa.DataType):
    """The oracle's encoding of the values that Arrow gives for a type, nulls included."""
    if pa.types.is_string(kind):
        return lambda value: None if value is None else oracle.encode("utf8", value)
    if pa.types.is_floating(kind):
        return lambda value: None if value is None else oracle.encode("float", value, kind.bit_width)
    assert pa.types.is_integer(kind) or pa.types.is_temporal(kind), kind
    return lambda value: None if value is None else oracle.encode("int", value, kind.bit_width)


class OracleKeys:
    """Curve keys of rows by the oracle, with the model of a run that sorted `sources` (paths, without deletes)."""

    def __init__(self, sources: Iterable[str], columns: list[str], bits: int = 16):
        self.oracle = load_oracle()
        self.columns = columns
        self.bits = bits
        paths = sorted(sources)
        schema = pq.read_schema(local_path(paths[0]))
        self.encoders = [encoder(self.oracle, schema.field(name).type) for name in columns]
        candidates = [[] for _ in columns]
        for position, path in enumerate(paths):
            for column, values in enumerate(self.encoded(path)):
                candidates[column] += [
                    (position << 32 | row, value) for row, value in enumerate(values) if value is not None
                ]
        self.models = [
            sorted(value for _, _, value in self.oracle.sample(rows, schema.get_field_index(name)))
            for name, rows in zip(columns, candidates, strict=True)
        ]

    def encoded(self, path: str) -> list[list[bytes | None]]:
        rows = pq.read_table(local_path(path), columns=self.columns)
        columns = []
        for name, encode in zip(self.columns, self.encoders, strict=True):
            column = rows[name]
            if pa.types.is_temporal(column.type):
                column = column.cast(pa.int64())
            columns.append([encode(value) for value in column.to_pylist()])
        return columns

    def coordinate(self, model: list[bytes], value: bytes | None) -> int:
        """As the oracle's coordinate(), but the rank is found by bisection."""
        if value is None or len(model) <= 1:
            return self.oracle.coordinate(model, value, self.bits)
        rank = max(bisect_right(model, value) - 1, 0)
        return rank * ((1 << self.bits) - 2) // (len(model) - 1)

    def of_file(self, path: str) -> list[bytes]:
        """The keys of a file's rows in their order."""
        coordinates = [
            [self.coordinate(model, value) for value in values]
            for model, values in zip(self.models, self.encoded(path), strict=True)
        ]
        return [self.oracle.hilbert(list(row), self.bits) for row in zip(*coordinates, strict=True)]
