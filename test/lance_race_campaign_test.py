"""Two optimizers, an appender and a deleter at once, on one Lance dataset.

Sized by THALWEG_CAMPAIGN_SCALE: at 1 it runs for a minute, and asks for 5 rewrites of each optimizer and 50 appends.
"""

import multiprocessing
import random
import subprocess
import time

import pyarrow as pa
import pyarrow.compute  # noqa: F401
import pytest
from campaign_tools import SCALE, campaign_seeds
from lance_test_tools import lance, make_events, multiset, needs_lance, numbered_rows
from thalweg_test_tools import PROGRAM

pytestmark = needs_lance

SECONDS = max(12.0, 60.0 * SCALE)
ROWS = 200  # of an append


def append_loop(path: str, first_id: int, until: float, result) -> None:
    appended = 0
    while time.time() < until:
        lance.write_dataset(numbered_rows(ROWS, first_id + appended * ROWS), path, mode="append")
        appended += 1
        time.sleep(0.1)
    result.put(("appends", appended))


def delete_loop(path: str, seed: int, until: float, result) -> None:
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
    result.put(("deletes", deleted))


def optimize_loop(command: list[str], until: float, result) -> None:
    codes, committed = [], 0
    while time.time() < until:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        codes.append((done.returncode, done.stderr.strip()[-300:]))
        committed += done.returncode == 0 and '"committed"' in done.stdout
    result.put(("optimizer", (codes, committed)))


@pytest.mark.campaign
def test_concurrent_writers_lose_and_resurrect_nothing(lake):
    seed = campaign_seeds()[1]
    table = make_events(lake, 4)
    table.dataset.create_scalar_index("id", "BTREE")
    written = [numbered_rows(500, first) for first in range(0, 2000, 500)]
    context = multiprocessing.get_context("spawn")
    result = context.Queue()
    until = time.time() + SECONDS
    command = [str(PROGRAM), "optimize", str(table.path), "--json", "--memory", "256MiB", "--threads", "1"]
    command += ["--target-rows-per-fragment", "400"]
    path = str(table.path)
    processes = [
        context.Process(target=append_loop, args=(path, 2000, until, result)),
        context.Process(target=delete_loop, args=(path, seed, until, result)),
        context.Process(target=optimize_loop, args=(command, until, result)),
        context.Process(target=optimize_loop, args=(command, until, result)),
    ]
    for process in processes:
        process.start()
    reports = [result.get(timeout=SECONDS + 180) for _ in processes]
    for process in processes:
        process.join(timeout=60)
        assert process.exitcode == 0

    appends = next(value for name, value in reports if name == "appends")
    deleted = next(value for name, value in reports if name == "deletes")
    optimizers = [value for name, value in reports if name == "optimizer"]
    print(f"{appends} appends, {len(deleted) // 3} deletes, rewrites {[committed for _, committed in optimizers]}")
    for codes, committed in optimizers:
        wrong = [(code, error) for code, error in codes if code not in (0, 3)]
        assert not wrong, f"seed {seed}: {wrong[:3]}"
        assert committed >= max(1, int(5 * SCALE)), f"seed {seed}: {codes}"
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
