"""Runs in long histories: a run id is found however far back its commit is, and no more is read for it than needed."""

import random
import time
import uuid

import pyarrow.parquet as pq
from lance_test_tools import LanceTable, needs_lance, numbered_rows

pytestmark = needs_lance


def others(table: LanceTable, count: int = 300) -> None:
    """Versions of other writers."""
    for number in range(count):
        table.dataset.update_config({"other": str(number)})


def damage(table: LanceTable, upto: int) -> None:
    """Makes the versions up to one unreadable. (Their numbers count downwards in the names.)"""
    manifests = {2**64 - 1 - int(path.stem): path for path in (table.path / "_versions").glob("[0-9]*")}
    old = [path for version, path in manifests.items() if version <= upto]
    assert len(old) == upto
    for path in old:
        path.write_bytes(b"this is no manifest")


def id_of(hours_ahead: float) -> str:
    """A run id that says it is of that time: a UUID of version 7."""
    stamp = f"{int((time.time() + 3600 * hours_ahead) * 1000):012x}"
    return f"{stamp[:8]}-{stamp[8:]}-7000-8000-{random.Random(hours_ahead).getrandbits(48):012x}"


def test_a_run_is_found_far_back(lake):
    """Rows that are written without a declaration leave no record: only the history knows of them."""
    table = LanceTable(lake)
    rows = lake.folder / "rows.parquet"
    pq.write_table(numbered_rows(50), rows)
    table.ok("write", rows, "--mode", "create", "--run-id", "first")
    made = table.ok("write", rows)["run_id"]
    assert uuid.UUID(made).version == 7
    others(table)
    for run_id in ("first", made):
        assert table.ok("write", rows, "--run-id", run_id)["outcome"] == "already-committed"
    assert table.dataset.count_rows() == 100
    for run_id in ("second", id_of(0)):
        assert table.ok("write", rows, "--run-id", run_id)["outcome"] == "committed"
    assert table.dataset.count_rows() == 200


def test_a_young_run_is_not_looked_for_in_old_versions(lake):
    table = LanceTable(lake).grow(3)
    others(table)
    table.declare()
    damage(table, 50)
    # Versions of two hours before it: it cannot be there.
    young = ("--run-id", id_of(2))
    assert table.optimize(*young)["outcome"] == "committed"
    assert table.optimize(*young)["outcome"] == "already-committed"
    # A name tells no time.
    assert "manifest" in table.run("optimize", "--run-id", "nightly").error(1)


def test_records_are_not_looked_for_where_none_is_missing(lake):
    """What others did since the last run is not read as long as all files of runs are accounted for."""
    table = LanceTable(lake).grow(3)
    table.declare()
    first = table.optimize()
    others(table, 5)
    damage(table, table.dataset.version - 1)
    status = table.ok("status")
    assert not [note for note in status["notes"] if "looked for" in note]
    assert status["health"]["unclustered_units"] == 0
    assert [cube["run_id"] for cube in table.ok("cubes")["cubes"]] == [first["run_id"]]
