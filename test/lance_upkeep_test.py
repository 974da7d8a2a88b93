"""What stands beside the rows is kept after a rewrite: blobs in files of their own, and indexes that Lance drops."""

import os
import signal
from datetime import timedelta

import numpy as np
import pyarrow as pa
import pytest
from lance_test_tools import LanceTable, lance, make_events, needs_lance, numbered_rows
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


# --- indexes that a rewrite cannot take along

# Name: column, type and a filter that uses it.
REBUILT = {
    "bloom_of_id": ("id", "BLOOMFILTER", "id = {}"),
    "zones_of_amount": ("amount", "ZONEMAP", "amount < {} / 10000"),
}


def covered(table: LanceTable, name: str) -> set[int]:
    live = set(table.fragment_rows())
    return {fragment for index in table.indexes() if index[0] == name for fragment in index[3]} & live


def answers(table: LanceTable, **options) -> list[list[int]]:
    filters = [condition.format(value) for _, _, condition in REBUILT.values() for value in (7, 600, 1999)]
    found = [table.dataset.to_table(columns=["id"], filter=condition, **options) for condition in filters]
    return [sorted(rows["id"].to_pylist()) for rows in found]


@pytest.mark.parametrize("stable", [False, True])
def test_indexes_that_lance_drops_cover_the_new_fragments(lake, stable):
    table = make_events(lake, 4, 500, enable_stable_row_ids=stable)
    for name, (column, kind, _) in REBUILT.items():
        table.dataset.create_scalar_index(column, kind, name=name)
    table.dataset.delete("id % 11 = 3")
    right = answers(table, use_scalar_index=False)
    assert any(right) and answers(table) == right
    done = table.optimize("--target-rows-per-fragment", 400)
    assert done["outcome"] == "committed"
    fragments = set(table.fragment_rows())
    assert len(fragments) >= 4
    for name, (_, _, condition) in REBUILT.items():
        assert covered(table, name) == fragments, name
        plan = table.dataset.scanner(columns=["id"], filter=condition.format(7)).explain_plan()
        assert f"@{name}" in plan, plan
    assert answers(table) == right
    assert sum("refreshed" in note and "bloom_of_id" in note for note in done["notes"]) == 1
    table.dataset.validate()
    # Covered by now: nothing is built, nothing committed.
    version = table.dataset.version
    assert table.optimize("--target-rows-per-fragment", 400)["outcome"] == "nothing-to-do"
    assert table.dataset.version == version
    # What others append is covered by the next run.
    table.append(numbered_rows(300, 5000))
    table.optimize("--target-rows-per-fragment", 400)
    assert all(covered(table, name) == set(table.fragment_rows()) for name in REBUILT)
    assert answers(table) == answers(table, use_scalar_index=False)


# --- zone maps without bounds


def test_keys_that_lance_keeps_no_bounds_of(lake):
    """Of a dictionary column Lance counts nulls and knows no bounds: every fragment is read, and people are told."""
    table = LanceTable(lake)
    rng = np.random.default_rng(22)
    for first in range(0, 2000, 500):
        names = pa.array(rng.choice(["a", "b", "c", "d", None], 500)).dictionary_encode()
        table.append(pa.table({"id": range(first, first + 500), "k1": names, "k2": pa.array(rng.random(500))}))
    table.ok("set", "--columns", "k1,k2")
    first = table.ok("optimize", "--target-rows-per-fragment", 250)
    told = [note for note in first["notes"] if "no bounds" in note]
    assert len(told) == 1 and '"k1"' in told[0]
    fragments = len(table.fragment_rows())
    assert table.scanned("k1 = 'a'").fragments == fragments > table.scanned("k2 < 0.1").fragments
    status = table.ok("status")
    assert [note for note in status["notes"] if "no bounds" in note] == told
    keys = {key["name"]: key for key in status["keys"]}
    assert keys["k1"]["unknown_units"] == fragments and keys["k2"]["unknown_units"] == 0
    again = table.ok("optimize", "--target-rows-per-fragment", 250)
    assert again["outcome"] == "nothing-to-do" and [note for note in again["notes"] if "no bounds" in note] == told


# --- what cannot be opened


def newest_manifest(table: LanceTable):
    return min((table.path / "_versions").glob("[0-9]*"))  # names of manifests count downwards


DAMAGES = {
    "empty": lambda content: b"",
    "first byte": lambda content: content[:1],
    "half": lambda content: content[: len(content) // 2],
    "text": lambda content: b"this is no manifest\n" * 20,
    "zeros": lambda content: bytes(len(content)),
    "message": lambda content: content[:4] + bytes(byte ^ 0x55 for byte in content[4:-16]) + content[-16:],
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_manifest_is_named(lake, damage):
    table = make_events(lake, 2, 50)
    path = newest_manifest(table)
    content = path.read_bytes()
    path.unlink()
    path.write_bytes(DAMAGES[damage](content))
    for command in ["status", "optimize", "clean"]:
        message = table.run(command).error()
        assert path.name in message and "is damaged" in message and "fault" not in message, message
    path.unlink()
    path.write_bytes(content)
    assert table.ok("status")["rows"] == 100


def test_a_file_is_no_dataset(lake):
    table = LanceTable(lake)
    table.path.write_bytes(b"rows")
    assert "a file, not the folder of a dataset" in table.run("status").error()
    assert table.path.read_bytes() == b"rows"


# --- zone maps


def test_status_counts_fragments_that_the_zone_maps_do_not_cover(lake):
    table = make_events(lake, 3)
    assert table.optimize()["outcome"] == "committed"
    assert not [note for note in table.ok("status")["notes"] if "cover" in note]
    table.grow(2)
    fragments = len(table.fragment_rows())
    notes = [note for note in table.ok("status")["notes"] if "cover" in note]
    assert len(notes) == 2 and all(f"does not cover 2 of {fragments} fragments" in note for note in notes)
