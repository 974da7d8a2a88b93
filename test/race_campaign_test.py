"""Two optimizers, an appender, a copy-on-write deleter and one position delete at once, on one table.

Sized by THALWEG_CAMPAIGN_SCALE: at 1 it runs for a minute, and asks for 5 rewrites of each optimizer and 50 appends.
"""

import random
import sys
import time

import numpy as np
import pyarrow as pa
import pytest
from campaign_tools import (
    SCALE,
    Race,
    SqliteLake,
    campaign_seeds,
    check_optimizers,
    commit_position_delete,
    expected,
    ids_and_sum,
    make_rows,
    optimize_loop,
)
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.expressions import And, GreaterThanOrEqual, LessThan
from pyiceberg.table.snapshots import Operation
from thalweg_test_tools import PROGRAM

ROWS = Race.ROWS


def append_loop(folder, seed: int, until: float) -> int:
    lake, rng = reopen(folder), np.random.default_rng(seed)
    appended = 0
    while time.time() < until:
        rows = make_rows(rng, appended * ROWS, ROWS)
        while True:
            try:
                lake.load_table("db.events").append(rows)
                break
            except CommitFailedException:
                continue
        appended += 1
        time.sleep(0.05)
    return appended


def delete_loop(folder, seed: int, until: float) -> list[int]:
    """Deletes a few ids of early appends, rewriting the files that hold them; the first of each three."""
    lake, rng = reopen(folder), random.Random(seed)
    deleted = []
    while time.time() < until:
        first = rng.randrange(0, 10 * ROWS)
        try:
            table = lake.load_table("db.events")
            table.delete(And(GreaterThanOrEqual("id", first), LessThan("id", first + 3)))
            deleted.append(first)
        except (CommitFailedException, ValidationException):
            pass
        time.sleep(0.4)
    return deleted


def reopen(folder):
    """The catalog of a SqliteLake, in another process."""
    return SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")


@pytest.mark.campaign
def test_concurrent_writers_lose_and_resurrect_nothing(tmp_path):
    seed = campaign_seeds()[1]
    lake = SqliteLake(tmp_path)
    rng = np.random.default_rng(seed)
    command = [str(PROGRAM), *lake.command("optimize", "--json", "--memory", "256MiB", "--threads", "1")]
    race = Race()
    race.start("appender", append_loop, tmp_path, seed)
    race.start("deleter", delete_loop, tmp_path, seed + 1)
    race.start("optimizer", optimize_loop, command)
    race.start("optimizer", optimize_loop, command)
    time.sleep(max(0.0, race.until - time.time() - 1.5))
    victim = None
    while victim is None:
        try:
            victim = commit_position_delete(lake.table())
        except (CommitFailedException, StopIteration):
            continue
    done = race.finish()
    (appends,), (deleted,), optimizers = done["appender"], done["deleter"], done["optimizer"]
    print(f"{appends} appends, {len(deleted)} deletes, rewrites {[committed for _, committed in optimizers]}")
    check_optimizers(optimizers, seed)
    assert appends >= int(50 * SCALE)
    assert deleted

    gone = {victim} | {row for first in deleted for row in range(first, first + 3)}
    rng = np.random.default_rng(seed)
    written = [make_rows(rng, number * ROWS, ROWS) for number in range(appends)]
    live = pa.concat_tables(written)
    # A delete hits only rows that were there when it ran: of the early rows the table itself tells which those were.
    ids, digest = ids_and_sum(lake.table())
    assert len(ids) == len(set(ids)), f"seed {seed}: doubled rows"
    missing = set(live["id"].to_pylist()) - set(ids)
    assert missing <= gone, f"seed {seed}: lost rows {sorted(missing - gone)[:5]}"
    mask = pa.array([value not in missing for value in live["id"].to_pylist()])
    assert (ids, digest) == expected([live.filter(mask)]), f"seed {seed}: changed rows"
    returned = resurrected(lake.table(), gone)
    assert not returned, f"seed {seed}: rows came back after a delete: {returned[:5]}"


def resurrected(table, gone: set[int]) -> list[int]:
    """Ids that a snapshot did not hold any more and a later one holds again."""
    seen, absent, back = set(), set(), []
    for entry in sorted(table.snapshots(), key=lambda snapshot: snapshot.sequence_number):
        if entry.summary is not None and entry.summary.operation == Operation.APPEND:
            continue
        ids = (
            set(table.scan(snapshot_id=entry.snapshot_id, selected_fields=("id",)).to_arrow()["id"].to_pylist()) & gone
        )
        back += sorted(ids & absent)
        absent |= seen - ids
        seen |= ids
    return back


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, "-s"]))
