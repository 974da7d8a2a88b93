"""Kills the program at named points and at random moments; the table must always open with exactly its rows.

Sized by THALWEG_CAMPAIGN_SCALE: at 1, 200 kills over both kinds of catalog.
"""

import collections
import os
import random
import signal
import subprocess
import time

import numpy as np
import pytest
from campaign_tools import (
    PROPERTIES,
    SCALE,
    SCHEMA,
    CatalogTable,
    HadoopLake,
    SqliteLake,
    campaign_seeds,
    data_files_on_disk,
    expected,
    ids_and_sum,
    intents,
    make_rows,
    referenced_files,
    start_paused,
)
from rest_tools import RestLake
from thalweg_test_tools import PROGRAM, run, run_to_its_first_bytes

# Where a process that dies there is seen from the commit.
POINTS = {
    "hadoop": {
        "after-data-files": "before",
        "manifests-written": "before",
        "list-written": "before",
        "metadata-written": "in",
        "renamed": "in",
        "committed": "after",
    },
    "sqlite": {
        "after-data-files": "before",
        "manifests-written": "before",
        "list-written": "before",
        "metadata-written": "in",
        "before-sql-update": "in",
        "after-sql-update": "in",
        "committed": "after",
    },
    "rest": {
        "after-data-files": "before",
        "manifests-written": "before",
        "list-written": "before",
        "before-rest-commit": "in",
        "after-rest-commit": "in",
        "committed": "after",
    },
}
CLEAN_POINTS = ["clean-before-delete", "clean-after-delete"]
KILLS = int(50 * SCALE)  # for each kind of catalog and seed, and at least until each point was died at


class RestCampaignLake(CatalogTable, RestLake):
    """A table in a REST catalog."""

    kind = "rest"

    def __init__(self, folder, server):
        super().__init__(folder, server)
        self.make_table("events", SCHEMA, PROPERTIES)
        self.given(self.properties)


def dying_at(point: str) -> dict[str, str]:
    return os.environ | {"THALWEG_CRASH_POINT": point}


def kill_at_point(lake, point: str) -> int:
    return run(*lake.command("optimize"), environment=dying_at(point)).code


def kill_at_random(lake, rng: random.Random, duration: float) -> int:
    process = subprocess.Popen(
        [str(PROGRAM), *lake.command("optimize")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    time.sleep(rng.random() * duration)
    process.send_signal(signal.SIGKILL)
    return process.wait()


@pytest.mark.campaign
@pytest.mark.parametrize("make_lake", [SqliteLake, HadoopLake], ids=["sqlite", "hadoop"])
def test_killed_runs_lose_nothing(make_lake, tmp_path):
    deaths = collections.Counter()
    for number, seed in enumerate(campaign_seeds()):
        run_campaign(make_lake(tmp_path / str(number)), seed, deaths)
    print(f"{make_lake.kind}: {sum(deaths.values())} kills died {dict(deaths)}")
    assert all(deaths[kind] > 0 for kind in ("before", "in", "after", "clean-up")), deaths


@pytest.mark.jvm
@pytest.mark.campaign
def test_runs_on_a_rest_catalog_that_are_killed_lose_nothing(rest_server, tmp_path):
    deaths = collections.Counter()
    for number, seed in enumerate(campaign_seeds()):
        run_campaign(RestCampaignLake(tmp_path / str(number), rest_server), seed, deaths)
    print(f"rest: {sum(deaths.values())} kills died {dict(deaths)}")
    assert all(deaths[kind] > 0 for kind in ("before", "in", "after", "clean-up")), deaths


def run_campaign(lake, seed: int, deaths: collections.Counter) -> None:
    rng, rows = random.Random(seed), np.random.default_rng(seed)
    batches, next_id = [], 0

    def grow(count: int) -> None:
        nonlocal next_id
        batches.append(make_rows(rows, next_id, count))
        next_id += count
        lake.append(batches[-1])

    for _ in range(4):
        grow(1000)
    start = time.monotonic()
    whole = run(*lake.command("optimize"))
    duration = time.monotonic() - start
    assert whole.code == 0, whole.err
    points = list(POINTS[lake.kind])

    killed = turn = named = 0
    while killed < KILLS or named < len(points) or deaths["clean-up"] == 0:
        assert turn < 20 * len(points) + 4 * KILLS, f"seed {seed}: too few of the killed die: {dict(deaths)}"
        grow(200)
        before = len(lake.table().snapshots())
        if turn % 5 < 3:  # every named point comes in turn
            point = points[named % len(points)]
            named += 1
            code, where = kill_at_point(lake, point), POINTS[lake.kind][point]
            assert code == -signal.SIGKILL, f"seed {seed}: nothing died at {point}: exit {code}"
        else:
            code = kill_at_random(lake, rng, duration)
            committed = len(lake.table().snapshots()) > before
            where = "after" if committed else "before"
        if code == -signal.SIGKILL:
            killed += 1
            deaths[where] += 1
        assert ids_and_sum(lake.table()) == expected(batches), (
            f"seed {seed}: rows differ after a death {where} the commit"
        )

        if turn % 4 == 3:  # the one that cleans up dies too
            point = rng.choice(CLEAN_POINTS)
            if run(*lake.command("clean"), environment=dying_at(point)).code < 0:
                killed += 1
                deaths["clean-up"] += 1
            assert ids_and_sum(lake.table()) == expected(batches), f"seed {seed}: rows differ after a death in clean-up"

        # A later run finishes the work and reclaims what the dead one left.
        later = run(*lake.command("optimize"))
        assert later.code == 0, f"seed {seed}: {later.err}"
        table = lake.table()
        assert ids_and_sum(table) == expected(batches), f"seed {seed}: rows differ after the later run"
        assert data_files_on_disk(lake.root()) <= referenced_files(table), f"seed {seed}: files of dead runs stayed"
        assert intents(lake.root()) == [], f"seed {seed}: an intent stayed"
        turn += 1


@pytest.mark.parametrize("make_lake", [SqliteLake, HadoopLake], ids=["sqlite", "hadoop"])
def test_files_of_a_living_run_stay(make_lake, tmp_path):
    """A run that is stopped, not dead, keeps its files while others clean and commit; then it commits or conflicts."""
    lake = make_lake(tmp_path)
    rows = np.random.default_rng(7)
    batches = [make_rows(rows, first, 1000) for first in range(0, 4000, 1000)]
    for batch in batches:
        lake.append(batch)
    stopped = start_paused(lake.command("optimize"), "after-data-files")
    unfinished = data_files_on_disk(lake.root()) - referenced_files(lake.table())
    assert unfinished and intents(lake.root())
    cleaned = run(*lake.command("clean", "--orphan-age", "24h"))
    assert cleaned.code == 0, cleaned.err
    other = run(*lake.command("optimize"))
    assert other.code == 0, other.err
    assert unfinished <= data_files_on_disk(lake.root()), "files of a living run were deleted"
    stopped.send_signal(signal.SIGCONT)
    assert stopped.wait(timeout=120) in (0, 3)
    assert ids_and_sum(lake.table()) == expected(batches)
    assert data_files_on_disk(lake.root()) <= referenced_files(lake.table())
    assert intents(lake.root()) == []


@pytest.mark.parametrize("make_lake", [SqliteLake, HadoopLake], ids=["sqlite", "hadoop"])
def test_a_death_in_writing_the_intent(make_lake, tmp_path):
    """What it leaves has the name of the run, waits for its owner and goes when it is old."""
    lake = make_lake(tmp_path)
    rows = np.random.default_rng(7)
    for first in (0, 1000):
        lake.append(make_rows(rows, first, 1000))
    there = set((lake.root() / "metadata").iterdir())
    assert run_to_its_first_bytes(*lake.command("optimize")) == -signal.SIGXFSZ
    (left,) = set((lake.root() / "metadata").iterdir()) - there
    assert left.name.startswith("thalweg-run-") and left.name.endswith(".tmp")
    assert "unknown owner" in run(*lake.command("clean")).out and left.exists()
    time.sleep(0.1)
    assert run(*lake.command("clean", "--orphan-age", "0.05s")).code == 0
    assert not left.exists()
