"""Data files carry what zone maps need of them ("seeds"): Lance makes the same zone maps of these as of the columns."""

import shutil
import signal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lance.file import LanceFileReader
from lance.indices import IndexConfig
from lance_test_tools import LanceTable, lance, needs_lance
from thalweg_test_tools import run

pytestmark = needs_lance

COLUMNS = ["k_float", "k_text", "k_time", "k_flag"]
ZONE = 64


def rows(count: int, first: int) -> pa.Table:
    rng = np.random.default_rng(40 + first)
    missing = rng.random((count, 4)) < [0.1, 0.2, 0.0, 0.05]
    floats = rng.normal(size=count)
    floats[rng.random(count) < 0.01] = np.nan
    texts = [f"{rng.integers(0, 10**6):06}" + "x" * int(length) for length in rng.integers(0, 60, count)]
    values = [floats, np.array(texts, object), rng.integers(0, 10**12, count), rng.random(count) < 0.3]
    types = [pa.float64(), pa.string(), pa.timestamp("us"), pa.bool_()]
    arrays = [pa.array(value, kind, mask=mask) for value, kind, mask in zip(values, types, missing.T, strict=True)]
    ids = pa.array(range(first, first + count))
    return pa.table([ids, *arrays], names=["id", *COLUMNS])


def zones(path: Path, name: str) -> list[dict]:
    """The zones of an index in the file that Lance keeps them in."""
    index = next(index for index in lance.dataset(str(path)).describe_indices() if index.name == name)
    live = {fragment.fragment_id for fragment in lance.dataset(str(path)).get_fragments()}
    assert live == {fragment for segment in index.segments for fragment in segment.fragment_ids} & live
    found = []
    for segment in index.segments:
        file = LanceFileReader(str(path / "_indices" / segment.uuid / "zonemap.lance"))
        found += file.read_all().to_table().to_pylist()
    found = [zone for zone in found if zone["fragment_id"] in live]
    found.sort(key=lambda zone: (zone["fragment_id"], zone["zone_start"]))
    return [{key: "NaN" if value != value else value for key, value in zone.items()} for zone in found]


def seeds(path: Path) -> set[str]:
    return {key.decode() for key in LanceFileReader(str(path)).metadata().schema.metadata or {}}


def blank_columns(path: Path) -> None:
    """Whoever reads the columns of this data file finds nothing; the seeds stay."""
    content = bytearray(path.read_bytes())
    pages = [page for column in LanceFileReader(str(path)).metadata().columns for page in column.pages]
    for buffer in (buffer for page in pages for buffer in page.buffers):
        content[buffer.position : buffer.position + buffer.size] = bytes(buffer.size)
    path.write_bytes(content)


@pytest.fixture
def table(lake) -> LanceTable:
    table = LanceTable(lake)
    for first in range(0, 2000, 500):
        table.append(rows(500, first))
    table.dataset.update_config({"thalweg.rows-per-zone": str(ZONE)})
    table.ok("set", "--columns", ",".join(COLUMNS))
    return table


def full_zones(path: Path, column: str) -> list[dict]:
    """Of a zone map that Lance makes from the column alone."""
    config = IndexConfig("zonemap", {"rows_per_zone": ZONE, "use_seeds": False})
    lance.dataset(str(path)).create_scalar_index(column, config, name=f"full_{column}")
    return zones(path, f"full_{column}")


def test_zones_of_seeds_are_those_of_the_columns(table, tmp_path):
    table.ok("optimize", "--target-rows-per-fragment", 300)  # makes the zone maps: files from now on have seeds
    old = set(table.fragment_rows())
    for first in (2000, 2500):
        table.append(rows(500, first))
    environment = table.lake.environment | {"THALWEG_CRASH_POINT": "after-record"}
    died = run("optimize", table.path, "--target-rows-per-fragment", 300, environment=environment)
    assert died.code == -signal.SIGKILL
    new = [part for part in table.dataset.get_fragments() if part.fragment_id not in old]
    # (Without any old fragment Lance makes an index from the columns alone.)
    assert old <= set(table.fragment_rows()) and len(new) >= 4
    files = [table.path / "data" / file.path for part in new for file in part.data_files()]
    copy = tmp_path / "copy.lance"
    shutil.copytree(table.path, copy)
    for file in files:
        assert seeds(file) == {f"lance.seed.{column}" for column in COLUMNS}
        blank_columns(file)
    # Lance alone makes what is missing.
    table.dataset.optimize.optimize_indices()
    for column in COLUMNS:
        made = zones(table.path, f"thalweg_zonemap_{column}")
        assert len(made) >= 3000 // ZONE
        assert made == full_zones(copy, column), column


def test_what_thalweg_makes_of_seeds_is_the_same(table):
    table.ok("optimize", "--target-rows-per-fragment", 300)
    for column in COLUMNS:
        assert zones(table.path, f"thalweg_zonemap_{column}") == full_zones(table.path, column)
    more = table.lake.folder / "more.parquet"
    pq.write_table(rows(700, 2000), more)
    table.ok("write", more)
    table.append(rows(500, 3000))  # with seeds of Lance's own
    table.ok("optimize", "--target-rows-per-fragment", 300)
    for column in COLUMNS:
        table.dataset.drop_index(f"full_{column}")
        assert zones(table.path, f"thalweg_zonemap_{column}") == full_zones(table.path, column)
        for condition in (f"{column} IS NULL", f"{column} IS NOT NULL"):
            found = [table.dataset.count_rows(condition), len(missing_or_not(table, column, condition))]
            assert found[0] == found[1]


def missing_or_not(table: LanceTable, column: str, condition: str) -> list:
    values = table.dataset.to_table(columns=[column])[column].to_pylist()
    return [value for value in values if (value is None) != ("NOT" in condition)]
