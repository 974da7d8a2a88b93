"""Two optimizers, an appender and a deleter at once, on one Lance dataset.

Sized by THALWEG_CAMPAIGN_SCALE: at 1 it runs for a minute, and asks for 5 rewrites of each optimizer and 50 appends.
"""

import random
import time

import pyarrow as pa
import pyarrow.compute  # noqa: F401
import pytest
from campaign_tools import SCALE, Race, campaign_seeds, check_optimizers, optimize_loop
from lance_test_tools import lance, make_events, multiset, needs_lance, numbered_rows
from thalweg_test_tools import PROGRAM

pytestmark = needs_lance

ROWS = Race.ROWS


def append_loop(path: str, first_id: int, until: float) -> int:
    appended = 0
    while time.time() < until:
        lance.write_dataset(numbered_rows(ROWS, first_id + appended * ROWS), path, mode="append")
        appended += 1
        time.sleep(0.1)
    return appended


def delete_loop(path: str, seed: int, until: float) -> list[int]:
    """Deletes three rows at a time of those that are there; which ones it got through with."""
    rng, deleted = random.Random(seed), []
    while time.time() < until:
        dataset = lance.dataset(path)
        ids = rng.sample(dataset.to_table(columns=["id"])["id"].to_pylist(), 3)
        try:
            dataset.delete(f"id IN ({', '.join(map(str, ids))})")
            deleted += ids
        except OSError:
            pass  # another commit was in the way, again and again
        time.sleep(0.8)
    return deleted


@pytest.mark.campaign
def test_concurrent_writers_lose_and_resurrect_nothing(lake):
    seed = campaign_seeds()[1]
    table = make_events(lake, 4)
    table.dataset.create_scalar_index("id", "BTREE")
    written = [numbered_rows(500, first) for first in range(0, 2000, 500)]
    command = [str(PROGRAM), "optimize", str(table.path), "--json", "--memory", "256MiB", "--threads", "1"]
    command += ["--target-rows-per-fragment", "400"]
    race = Race()
    race.start("appender", append_loop, str(table.path), 2000)
    race.start("deleter", delete_loop, str(table.path), seed)
    race.start("optimizer", optimize_loop, command)
    race.start("optimizer", optimize_loop, command)
    done = race.finish()
    (appends,), (deleted,), optimizers = done["appender"], done["deleter"], done["optimizer"]
    print(f"{appends} appends, {len(deleted) // 3} deletes, rewrites {[committed for _, committed in optimizers]}")
    check_optimizers(optimizers, seed)
    assert appends >= int(50 * SCALE) and deleted

    written += [numbered_rows(ROWS, 2000 + number * ROWS) for number in range(appends)]
    live = pa.concat_tables(written)
    live = live.filter(pa.compute.invert(pa.compute.is_in(live["id"], pa.array(deleted, pa.int64()))))
    assert table.rows() == multiset(live), f"seed {seed}"
    gone = random.Random(seed).sample(sorted(deleted), min(20, len(deleted)))
    for value in gone:
        assert table.dataset.to_table(filter=f"id = {value}").num_rows == 0, f"seed {seed}: {value} came back"
    for value in live["id"].to_pylist()[::50]:
        found = table.dataset.to_table(columns=["id"], filter=f"id = {value}")["id"].to_pylist()
        assert found == [value], f"seed {seed}: the index finds {found} for {value}"
    table.dataset.validate()

    # In peace a last run brings it all together, and nothing of the others is left.
    last = table.ok("optimize", "--target-rows-per-fragment", "400")
    assert last["outcome"] in ("committed", "nothing-to-do")
    assert table.unclustered() == 0
    assert table.rows() == multiset(live)
    table.check_no_leftovers()
