"""What stands beside the rows is kept after a rewrite: blobs in files of their own, and indexes that Lance drops."""

import os
import signal
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest
from lance_test_tools import LanceTable, lance, needs_lance
from thalweg_test_tools import run

pytestmark = needs_lance


# --- blobs in files of their own


def blob_table(lake, appends: int = 2, count: int = 40) -> tuple[LanceTable, dict[int, bytes | None]]:
    """A declared dataset with nulls, empty, small (in the data file) and large blobs (beside it), and what it holds."""
    rng = np.random.default_rng(21)
    table = LanceTable(lake, data_storage_version="2.2")
    held = {}
    for first in range(0, appends * count, count):
        values = [os.urandom(int(size)) for size in rng.choice([1, 300, 70_000, 200_000], count)]
        values = [None if at % 9 == 3 else b"" if at % 9 == 4 else value for at, value in enumerate(values)]
        ids = range(first, first + count)
        schema = pa.schema([("id", pa.int64()), ("k1", pa.int64()), ("k2", pa.float64()), lance.blob_field("blob")])
        keys = [pa.array(ids, pa.int64()), pa.array(rng.integers(0, 1000, count)), pa.array(rng.random(count))]
        table.append(pa.table([*keys, lance.blob_array(values)], schema=schema))
        held |= dict(zip(ids, values, strict=True))
    table.ok("set", "--columns", "k1,k2")
    return table, held


def read_blobs(table: LanceTable) -> dict[int, bytes | None]:
    dataset = table.dataset
    ids = dataset.to_table(columns=["id"])["id"].to_pylist()
    files = [dataset.take_blobs("blob", indices=[at]) for at in range(len(ids))]
    return {row: found[0].readall() if found[0] else None for row, found in zip(ids, files, strict=True)}


def stems(table: LanceTable) -> set[str]:
    """What has blobs beside it."""
    return {path.split("/")[1] for path in table.files("data") if path.count("/") > 1}


@pytest.mark.parametrize("verify", ["digest", "full"])
def test_blobs_survive_a_rewrite_and_the_cleanup_of_lance(lake, verify):
    table, held = blob_table(lake)
    table.dataset.delete("id % 10 = 7")
    held = {row: value for row, value in held.items() if row % 10 != 7}
    assert read_blobs(table) == held
    sources = stems(table)
    done = table.ok("optimize", "--target-rows-per-fragment", 30, "--verify", verify)
    assert (done["outcome"], done["rows"]) == ("committed", len(held))
    assert read_blobs(table) == held
    table.check_no_leftovers()
    table.dataset.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert not stems(table) & sources
    assert read_blobs(table) == held
    table.dataset.validate()


def test_clean_finds_blobs_of_a_run_that_died(lake):
    table, held = blob_table(lake)
    sources = stems(table)
    environment = lake.environment | {"THALWEG_CRASH_POINT": "after-data-files"}
    died = run("optimize", table.path, "--target-rows-per-fragment", 30, environment=environment)
    assert died.code == -signal.SIGKILL
    left = stems(table) - sources
    assert left
    # Also where only the blobs or only parts of a data file were written.
    first, second, *_ = sorted(left)
    (table.path / "data" / f"{first}.lance").unlink()
    parts = table.path / "data" / "_parts" / f"{second}.lance"
    parts.mkdir(parents=True)
    (table.path / "data" / f"{second}.lance").rename(parts / "part-0.lance")
    table.ok("clean")
    assert stems(table) == sources
    table.check_no_leftovers()
    assert read_blobs(table) == held
