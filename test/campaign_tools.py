"""Small real tables for the crash and race campaigns, in both kinds of catalog, and what is asked of them."""

import json
import multiprocessing
import os
import random
import sqlite3
import subprocess
import time
import uuid
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestWriterV2
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record
from thalweg_test_tools import (
    PROGRAM,
    Lake,
    hadoop_table,
    hadoop_version,
    just_begun,
    local_path,
    newest_hadoop_metadata,
    run,
)

SCALE = float(os.environ.get("THALWEG_CAMPAIGN_SCALE", "0.1"))

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("user_id", pa.int64()),
        pa.field("event_time", pa.timestamp("us")),
        pa.field("text", pa.string()),
    ]
)
# Small files and cubes, so that a small table has several of each.
PROPERTIES = {
    "write.target-file-size-bytes": str(24 * 1024),
    "write.liquid-clustering.columns": "user_id,event_time",
    "write.liquid-clustering.target-cube-size-bytes": str(96 * 1024),
    "write.liquid-clustering.min-cube-size-bytes": str(48 * 1024),
}


def campaign_seeds() -> list[int]:
    """A fixed seed and a printed fresh one, so that every run also looks somewhere new."""
    fresh = random.SystemRandom().randrange(1 << 32)
    print(f"campaign seeds: 20261130 and {fresh}")
    return [20261130, fresh]


def make_rows(rng: np.random.Generator, first_id: int, count: int) -> pa.Table:
    base = 1_767_225_600_000_000
    return pa.table(
        [
            pa.array(np.arange(first_id, first_id + count)),
            pa.array((1e5 * rng.random(count) ** 3).astype(np.int64)),
            pa.array(base + rng.integers(0, 90 * 86_400_000_000, count), pa.timestamp("us")),
            pa.array([f"row {value}" for value in rng.integers(0, 1 << 40, count)]),
        ],
        schema=SCHEMA,
    )


def start_paused(arguments: list[str], point: str) -> subprocess.Popen:
    """Starts the program and returns once it has stopped itself at the named point; SIGCONT lets it go on."""
    process = subprocess.Popen(
        [str(PROGRAM), *arguments],
        env=os.environ | {"THALWEG_PAUSE_POINT": point},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "T":
        assert process.poll() is None and time.monotonic() < deadline, "the run did not reach its pause"
        time.sleep(0.02)
    return process


class Race:
    """Loops that work on one table at once, each in a process of its own; at scale 1 for a minute."""

    ROWS = 200  # of an append

    def __init__(self):
        self.context = multiprocessing.get_context("spawn")
        self.results = self.context.Queue()
        self.until = time.time() + max(12.0, 60.0 * SCALE)
        self.processes = []

    def start(self, role: str, loop: Callable, *arguments: Any) -> None:
        """Runs loop(*arguments, until), which returns what it did when that time has come."""
        process = self.context.Process(target=run_loop, args=(role, loop, (*arguments, self.until), self.results))
        self.processes.append(process)
        process.start()

    def finish(self) -> dict[str, list]:
        """What the loops did, by their roles."""
        patience = max(0.0, self.until - time.time()) + 180
        done = defaultdict(list)
        for _ in self.processes:
            role, result = self.results.get(timeout=patience)
            done[role].append(result)
        for process in self.processes:
            process.join(timeout=60)
            assert process.exitcode == 0
        return done


def run_loop(role: str, loop: Callable, arguments: tuple, results) -> None:
    results.put((role, loop(*arguments)))


def optimize_loop(command: list[str], until: float) -> tuple[list[tuple[int, str]], int]:
    """Exit code and error of each run, and how many committed."""
    codes, committed = [], 0
    while time.time() < until:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        codes.append((done.returncode, done.stderr.strip()[-300:]))
        committed += done.returncode == 0 and '"committed"' in done.stdout
    return codes, committed


def check_optimizers(optimizers: list, seed: int, also: Callable[[int, str], bool] = lambda code, error: False) -> None:
    """Each committed often enough, and ended otherwise only in a conflict, or as `also` allows.

    In a short race on a busy machine one may find each time that the other has done all the work.
    """
    for codes, committed in optimizers:
        wrong = [(code, error) for code, error in codes if code not in (0, 3) and not also(code, error)]
        assert not wrong, f"seed {seed}: {wrong[:3]}"
        assert SCALE < 1 or committed >= 5, f"seed {seed}: {codes}"
    assert sum(committed for _, committed in optimizers) >= len(optimizers) * 5 * SCALE, f"seed {seed}: {optimizers}"


class CatalogTable:
    """What the campaigns do with the table "events" of a Lake."""

    def given(self, properties: dict[str, str]) -> None:
        """Commands name the catalog's properties: they run in any environment."""
        self.options = [word for item in properties.items() for word in ("--catalog-property", "=".join(item))]

    def append(self, rows: pa.Table) -> None:
        self.table().append(rows)

    def command(self, verb: str, *arguments: str) -> list[str]:
        return [verb, self.address(), *self.options, *arguments]

    def root(self) -> Path:
        return Path(local_path(self.table().location()))


class SqliteLake(CatalogTable, Lake):
    """A table in a PyIceberg SQLite catalog."""

    kind = "sqlite"

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.make_table("events", SCHEMA, PROPERTIES)
        self.given({"uri": self.uri, "warehouse": self.warehouse})

    def upgrade_to_version_3(self) -> None:
        """As another engine does it (PyIceberg does not): new metadata, swapped in the catalog."""
        table = self.table()
        document = json.loads(Path(local_path(table.metadata_location)).read_text())
        document |= {"format-version": 3, "next-row-id": 0}
        location = (
            f"{table.location()}/metadata/{table.metadata.last_sequence_number + 90:05}-{uuid.uuid4()}.metadata.json"
        )
        Path(local_path(location)).write_text(json.dumps(document))
        with sqlite3.connect(self.folder / "catalog.db") as catalog:
            catalog.execute("UPDATE iceberg_tables SET metadata_location = ?", (location,))


class HadoopLake:
    """A table in Hadoop layout, made and appended to by the program itself."""

    kind = "hadoop"

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "events"
        self.staging = folder / "staging"
        self.staging.mkdir()
        self.options: list[str] = []
        self.batch = 0
        empty = self.stage(SCHEMA.empty_table())
        made = run("write", self.path, empty, "--mode", "create")
        assert made.code == 0, made.err
        self.set_properties(PROPERTIES)

    def set_properties(self, properties: dict[str, str]) -> None:
        """As another engine would: the next metadata file with the properties in it."""
        newest = newest_hadoop_metadata(self.path)
        document = json.loads(newest.read_text())
        document["properties"] |= properties
        version = hadoop_version(newest) + 1
        (newest.parent / f"v{version}.metadata.json").write_text(json.dumps(document))
        (newest.parent / "version-hint.text").write_text(str(version))

    def table(self) -> Table:
        return hadoop_table(self.path)

    def stage(self, rows: pa.Table) -> str:
        self.batch += 1
        path = str(self.staging / f"{self.batch}.parquet")
        pq.write_table(rows, path)
        return path

    def append(self, rows: pa.Table) -> None:
        # What the program appends is clustered, a small cube of one run: two of them are what a later run merges.
        half = rows.num_rows // 2
        for part in (rows.slice(0, half), rows.slice(half)):
            done = run("write", self.path, self.stage(part))
            assert done.code == 0, done.err

    def command(self, verb: str, *arguments: str) -> list[str]:
        return [verb, str(self.path), *arguments]

    def root(self) -> Path:
        return self.path


class DeleteManifestWriter(ManifestWriterV2):
    """PyIceberg writes no manifests of delete files itself."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class AppendDeletes(_FastAppendFiles):
    def new_manifest_writer(self, spec):
        return DeleteManifestWriter(
            spec, self._transaction.table_metadata.schema(), self.new_manifest_output(), self._snapshot_id, "deflate"
        )


def commit_position_delete(table) -> int:
    """Deletes the first row of a live file by a position delete file; returns its id."""
    data_file = next(iter(table.scan().plan_files())).file
    path = data_file.file_path
    victim = pq.read_table(local_path(path), columns=["id"])["id"][0].as_py()
    rows = pa.table(
        [pa.array([path]), pa.array([0], pa.int64())],
        schema=pa.schema(
            [
                pa.field("file_path", pa.string(), False, {"PARQUET:field_id": "2147483546"}),
                pa.field("pos", pa.int64(), False, {"PARQUET:field_id": "2147483545"}),
            ]
        ),
    )
    commit_delete_files(table, [rows], DataFileContent.POSITION_DELETES)
    return victim


def commit_equality_deletes(table, *ids: np.ndarray) -> None:
    """Deletes the rows with these ids: a file for each array, in one commit."""
    schema = pa.schema([pa.field("id", pa.int64(), False, {"PARQUET:field_id": "1"})])
    files = [pa.table([pa.array(each)], schema=schema) for each in ids]
    commit_delete_files(table, files, DataFileContent.EQUALITY_DELETES, equality_ids=[1])


def commit_delete_files(table, files: list[pa.Table], content: DataFileContent, **more) -> None:
    with table.transaction() as transaction:
        with AppendDeletes(operation=Operation.OVERWRITE, transaction=transaction, io=table.io) as producer:
            for rows in files:
                location = f"{table.location()}/data/{uuid.uuid4()}-deletes.parquet"
                pq.write_table(rows, local_path(location))
                delete_file = DataFile.from_args(
                    content=content,
                    file_path=location,
                    file_format=FileFormat.PARQUET,
                    partition=Record(),
                    record_count=rows.num_rows,
                    file_size_in_bytes=os.path.getsize(local_path(location)),
                    **more,
                )
                delete_file.spec_id = 0
                producer.append_data_file(delete_file)


def ids_and_sum(table: Table) -> tuple[list[int], int]:
    """Every row's id in order, so that a lost or doubled row shows, and an order-free hash over whole rows."""
    return expected([table.scan().to_arrow()])


def expected(batches: list[pa.Table]) -> tuple[list[int], int]:
    """What ids_and_sum() gives for a table of these rows."""
    rows = pa.concat_tables(batches)
    columns = [rows[name].to_pylist() for name in SCHEMA.names]
    digest = sum(hash(row) for row in zip(*columns, strict=True)) & ((1 << 128) - 1)
    return sorted(columns[0]), digest


def referenced_files(table: Table) -> set[str]:
    """Local paths of the data files that any snapshot names."""
    found = set()
    for snapshot in table.snapshots():
        for manifest in snapshot.manifests(table.io):
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
                found.add(local_path(entry.data_file.file_path))
    return found


def data_files_on_disk(root: Path) -> set[str]:
    return {str(path) for path in (root / "data").rglob("*.parquet")}


def intents(root: Path) -> list[Path]:
    return sorted(path for path in (root / "metadata").glob("thalweg-run-*") if not just_begun(path))
