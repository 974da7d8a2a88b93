"""What the program takes: memory within its budget, temporary disk, and neither by the size of the table."""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path

import duckdb_engine
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, TimestampType
from thalweg_test_tools import EVENTS, KEYS, PROGRAM, Lake, local_path, make_rows

MIB = 1 << 20
# What the process may hold beside its budget: code, libraries and fixed buffers.
BESIDE = 300 * MIB


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One lake for the large tables of this module."""
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is not built")
    lake = Lake(tmp_path_factory.mktemp("resources") / "lake")
    yield lake
    shutil.rmtree(lake.folder)


def digest(table) -> list[tuple]:
    """Count and per-column order-free hash of the rows, as DuckDB reads them."""
    sums = ", ".join(f'bit_xor(hash("{name}"))' for name in table.schema().as_arrow().names)
    location = local_path(table.metadata_location)
    return duckdb_engine.connect().execute(f"SELECT count(*), {sums} FROM iceberg_scan('{location}')").fetchall()


def append_all(lake, name: str, batches) -> int:
    """Appends every batch as it is; their uncompressed size."""
    size = 0
    for rows in batches:
        lake.table(name).append(rows)
        size += rows.nbytes
    return size


# --- memory


def check_optimize(lake, name: str, size: int, budget: int, *options) -> None:
    """Rewrites a table of `size` uncompressed bytes within the budget, and within 1.2 times its size of disk."""
    before = digest(lake.table(name))
    limit = int(1.2 * size)
    done = lake.measure("optimize", f"lake.db.{name}", "--memory", budget, "--max-spill-bytes", limit, *options)
    assert (done.code, done.err) == (0, "") and done.json["outcome"] == "committed"
    assert done.json["spill_bytes"] > 0
    print(
        f"{name}: {size / MIB:.0f} MiB, {done.seconds:.1f} s, peak {done.peak_bytes / MIB:.0f} MiB, "
        f"spilled {done.json['spill_bytes'] / MIB:.0f} MiB in all"
    )
    assert done.peak_bytes < budget + BESIDE
    # What it says of itself is what the system counts.
    assert done.json["peak_memory_bytes"] == pytest.approx(done.peak_bytes, rel=0.1)
    assert digest(lake.table(name)) == before


def test_four_hundred_columns_stay_within_the_budget(shared):
    rng = np.random.default_rng(6)
    names = [f"c{number}" for number in range(400)]
    shared.make_table("wide", pa.schema([pa.field(name, pa.float64()) for name in names]), {KEYS: "c7,c399"})
    # Four row groups of 25 MiB each; whole numbers in every other column, so that dictionaries pay there.
    batches = (
        pa.table(
            [pa.array(rng.integers(0, 5000, 8000) / 1.0 if i % 2 else rng.random(8000)) for i in range(400)],
            names=names,
        )
        for _ in range(4)
    )
    check_optimize(shared, "wide", append_all(shared, "wide", batches), 32 * MIB, "--verify", "counts")


def test_strings_at_a_hundred_times_the_budget(shared):
    budget = 4 * MIB
    rng = np.random.default_rng(34)
    schema = pa.schema([("url", pa.string()), ("id", pa.int64()), ("text", pa.string())])
    properties = {
        KEYS: "url,id",
        "write.target-file-size-bytes": str(32 * MIB),
        "write.parquet.row-group-limit": "20000",
    }
    shared.make_table("text", schema, properties)

    def batches():
        # Half of every text is random, so that neither Parquet nor the spill files shrink it much.
        filler = "0123456789" * 40
        for number in range(5):
            letters = rng.integers(97, 123, (100_000, 400), np.uint8).reshape(-1)
            offsets = np.arange(0, 400 * 100_000 + 1, 400, dtype=np.int32)
            random = pa.StringArray.from_buffers(100_000, pa.py_buffer(offsets), pa.py_buffer(letters))
            text = pa.compute.binary_join_element_wise(random, filler, "-")
            url = pa.array([f"https://example.org/{value:x}" for value in rng.integers(0, 1 << 40, 100_000)])
            yield pa.table([url, pa.array(np.arange(100_000) + number), text], schema=schema)

    size = append_all(shared, "text", batches())
    assert size > 100 * budget
    check_optimize(shared, "text", size, budget)


def test_memory_does_not_grow_with_the_rows(shared):
    budget = 16 * MIB
    peaks = []
    for name, batches in [("few", 4), ("many", 16)]:
        shared.make_table(name, EVENTS, {KEYS: "user_id,event_time", "write.target-file-size-bytes": str(8 * MIB)})
        append_all(shared, name, (make_rows(250_000, number) for number in range(batches)))
        done = shared.measure("optimize", f"lake.db.{name}", "--memory", budget)
        assert (done.code, done.err) == (0, "") and done.json["rows"] == 250_000 * batches
        assert done.json["spill_bytes"] > 0
        peaks.append(done.peak_bytes)
        print(f"{name}: peak {done.peak_bytes / MIB:.0f} MiB in {done.seconds:.1f} s")
    assert max(peaks) < budget + BESIDE
    assert peaks[1] < 1.5 * peaks[0]  # four times the rows


# --- temporary disk


@pytest.mark.parametrize("limit", [1, 4 * MIB])
def test_the_spill_limit_is_a_limit_on_disk_and_named(lake, limit):
    address = lake.make_events(files=2, rows=100_000)
    table = lake.table()
    files = sorted(Path(lake.folder, "warehouse").rglob("*"))
    spill = lake.folder / "spill"
    spill.mkdir()
    options = ["--memory", "4MiB", "--spill-dir", spill]
    message = lake.run("optimize", address, *options, "--max-spill-bytes", limit).error(1)
    assert "--max-spill-bytes" in message and str(spill) in message
    # Nothing is left behind, and nothing was committed.
    assert lake.table().metadata_location == table.metadata_location
    assert sorted(Path(lake.folder, "warehouse").rglob("*")) == files
    assert list(spill.iterdir()) == []
    # The same memory without that limit is enough: it never was one on memory.
    assert lake.ok("optimize", address, *options)["outcome"] == "committed"


@pytest.mark.parametrize("by", ["--spill-dir", "TMPDIR"])
def test_spill_files_lie_where_it_says(lake, by):
    address = lake.make_events(files=2, rows=150_000)
    spill = lake.folder / "spill"
    spill.mkdir()
    option = [by, str(spill)] if by.startswith("--") else []
    environment = lake.environment | ({} if option else {by: str(spill)})
    command = [str(PROGRAM), "optimize", address, "--memory", "4MiB", "--json", *option]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    folders = set()
    while process.poll() is None:
        try:
            opened = [os.readlink(entry) for entry in Path(f"/proc/{process.pid}/fd").iterdir()]
        except OSError:  # it ended, or closed the file meanwhile
            continue
        folders |= {str(Path(path).parent) for path in opened if path.endswith(" (deleted)")}
        time.sleep(0.001)
    report = json.loads(process.communicate()[0])
    assert process.returncode == 0 and report["spill_bytes"] > 0
    assert report["spill_dir"] == str(spill)
    # Unlinked from the start, so that nothing outlives the process; and nowhere else.
    assert folders == {str(spill)}
    assert list(spill.iterdir()) == []


# --- many files


def add_linked_files(lake, name: str, count: int) -> None:
    """Commits `count` data files that are one small file under as many names, each with its own bounds."""
    table = lake.table(name)
    folder = Path(local_path(table.location())) / "data"
    folder.mkdir(parents=True)
    template = folder / "template.parquet"
    pq.write_table(make_rows(10, 1).cast(schema_to_pyarrow(table.schema())), template)
    rng = np.random.default_rng(20)
    low = rng.integers(0, 1_000_000, (count, 2))
    high = low + rng.integers(0, 100_000, (count, 2))
    types = [LongType(), TimestampType()]

    def bounds(values) -> dict[int, bytes]:
        return {field + 1: to_bytes(types[field], int(value)) for field, value in enumerate(values)}

    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for number in range(count):
            path = folder / f"{number:05}.parquet"
            os.link(template, path)
            file = DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=f"file://{path}",
                file_format=FileFormat.PARQUET,
                partition=Record(),
                record_count=10,
                file_size_in_bytes=template.stat().st_size,
                null_value_counts={1: 0, 2: 0},
                lower_bounds=bounds(low[number]),
                upper_bounds=bounds(high[number]),
            )
            file.spec_id = 0
            append.append_data_file(file)


def test_twenty_thousand_files(shared):
    count = 20_000
    shared.make_table("files", EVENTS, {KEYS: "user_id,event_time"})
    add_linked_files(shared, "files", count)
    for command, key in [("status", "units"), ("plan", "source_units"), ("cubes", "unclustered_units")]:
        done = shared.measure(command, "lake.db.files")
        assert (done.code, done.err) == (0, "") and done.json[key] == count
        print(f"{command}: {done.seconds:.2f} s, {done.peak_bytes / MIB:.0f} MiB for {count} files")
        assert done.peak_bytes < 500_000_000
