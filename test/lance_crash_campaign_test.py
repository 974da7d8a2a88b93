"""Kills runs on a Lance dataset at named points and at random moments; it must always open with exactly its rows.

Sized by THALWEG_CAMPAIGN_SCALE: at 1, 200 kills.
"""

import collections
import random
import signal
import subprocess
import time

import pytest
from campaign_tools import SCALE, campaign_seeds, start_paused
from lance_test_tools import LanceTable, make_events, multiset, needs_lance, numbered_rows
from thalweg_test_tools import PROGRAM, Done, run, run_to_its_first_bytes

pytestmark = needs_lance

# Where a run that dies there is: its commits are those of ids, of the rewrite, of the layout record and of zone maps.
POINTS = {
    "after-data-files": "before the first commit",
    "after-reserve": "between ids and rewrite",
    "after-remap": "between ids and rewrite",
    "after-rewrite": "between rewrite and record",
    "after-record": "between record and zone maps",
    "after-zone-maps": "after the last commit",
}
DONE = ("between rewrite and record", "between record and zone maps", "after the last commit")
CLEAN_POINTS = ["clean-before-delete", "clean-after-delete"]
KILLS = int(100 * SCALE)  # for each seed; over both seeds each point is died at at least once
SMALL = ("--target-rows-per-fragment", "400")


def dying_at(table: LanceTable, point: str, *command: str) -> Done:
    environment = table.lake.environment | {"THALWEG_CRASH_POINT": point}
    return run(command[0], table.path, *command[1:], environment=environment)


def kill_at_random(table: LanceTable, rng: random.Random, duration: float) -> int:
    process = subprocess.Popen(
        [str(PROGRAM), "optimize", str(table.path), *SMALL], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    time.sleep(rng.random() * duration)
    process.send_signal(signal.SIGKILL)
    return process.wait()


class Campaign:
    """A dataset that grows, and what is known of its rows."""

    def __init__(self, lake, seed: int, points: list[str], deaths: collections.Counter):
        self.seed, self.points, self.deaths = seed, points, deaths
        self.rng = random.Random(seed)
        stable = self.rng.random() < 0.5
        self.table = LanceTable(lake, f"events-{seed}", enable_stable_row_ids=stable)
        self.expected = collections.Counter()
        self.next_id = 0
        for _ in range(3):
            self.grow(400)
        self.table.declare()
        self.table.dataset.create_scalar_index("id", "BTREE")
        start = time.monotonic()
        self.table.ok("optimize", *SMALL)
        self.duration = time.monotonic() - start
        self.killed = 0

    def grow(self, count: int) -> None:
        rows = numbered_rows(count, self.next_id)
        self.table.append(rows)
        self.expected += multiset(rows)
        self.next_id += count

    def check(self, when: str) -> None:
        assert self.table.rows() == self.expected, f"seed {self.seed}: rows differ {when}"
        for value in self.rng.sample(range(self.next_id), 8):
            found = self.table.dataset.to_table(columns=["id"], filter=f"id = {value}")["id"].to_pylist()
            assert found == [value], f"seed {self.seed}: the index finds {found} for {value} {when}"

    def died(self, where: str) -> None:
        self.killed += 1
        self.deaths[where] += 1

    def turn(self, number: int) -> None:
        self.grow(100)
        before = self.table.dataset.version
        if number % 4 < 3 and self.points:
            point = self.points.pop(0)
            code, where = dying_at(self.table, point, "optimize", *SMALL).code, POINTS[point]
            assert code == -signal.SIGKILL, f"seed {self.seed}: nothing died at {point}: exit {code}"
            self.died(where)
        else:
            code = kill_at_random(self.table, self.rng, self.duration)
            rewritten = "Rewrite" in self.table.operations(before)
            where = "at random, after the rewrite" if rewritten else "at random, before the rewrite"
            if code == -signal.SIGKILL:
                self.died(where)
        self.check(f"after a death {where}")

        if number % 4 == 2:  # the one that cleans up dies too
            if dying_at(self.table, self.rng.choice(CLEAN_POINTS), "clean").code < 0:
                self.died("clean-up")
            self.check("after a death in clean-up")

        # Stamps hold without their record; a later run finishes the work and reclaims what the dead one left.
        assert where not in DONE or self.table.unclustered() == 0, f"seed {self.seed}: stamps are lost {where}"
        later = self.table.run("optimize", *SMALL, "--json")
        assert later.code == 0, f"seed {self.seed}: {later.err}"
        assert where not in DONE or later.json["outcome"] == "nothing-to-do", f"seed {self.seed}: sorted again"
        self.check("after the later run")
        self.table.check_no_leftovers()
        assert self.table.ok("optimize", *SMALL)["outcome"] == "nothing-to-do"
        covered = [fragments for _, kind, _, fragments in self.table.indexes() if kind == "ZoneMap"]
        assert covered == [set(self.table.fragment_rows())] * 2, f"seed {self.seed}: zone maps cover {covered}"


@pytest.mark.campaign
def test_killed_runs_lose_nothing(lake):
    deaths: collections.Counter = collections.Counter()
    seeds = campaign_seeds()
    rounds = max(1, KILLS * 2 // (2 * len(POINTS)))
    points = list(POINTS) * rounds
    random.Random(seeds[0]).shuffle(points)
    for at, seed in enumerate(seeds):
        mine = points[at :: len(seeds)]
        campaign = Campaign(lake, seed, mine, deaths)
        number = 0
        while mine or campaign.killed < KILLS:
            campaign.turn(number)
            number += 1
            assert number < 20 * (len(POINTS) + KILLS), f"seed {seed}: too few of the killed die: {dict(deaths)}"
    print(f"lance: {sum(deaths.values())} kills died {dict(deaths)}")
    assert all(deaths[where] > 0 for where in {*POINTS.values(), "clean-up"}), deaths


def test_a_dying_extension_of_indexes(lake):
    """Before a sort, indexes are brought to cover all that is sorted: a commit of its own."""
    table = make_events(lake, 3)
    table.dataset.create_scalar_index("id", "BTREE")
    table.grow(1)
    expected = table.rows()
    assert dying_at(table, "after-unify-indexes", "optimize", *SMALL).code == -signal.SIGKILL
    assert table.rows() == expected
    assert table.optimize()["rows"] == 2000
    assert table.rows() == expected
    table.check_no_leftovers()


@pytest.mark.parametrize("point", ["after-data-files", "after-write", "after-record"])
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_dying_write(lake, point, mode):
    table = make_events(lake, 2)
    rows = numbered_rows(900, 5000)
    expected = multiset(rows) + (table.rows() if mode == "append" else collections.Counter())
    source = lake.write_parquet("rows.parquet", rows)
    command = ["write", source, "--mode", mode, "--run-id", "load", *SMALL]
    assert dying_at(table, point, *command).code == -signal.SIGKILL
    # The same command again is safe, wherever the first one died.
    again = table.ok(*command)
    assert again["outcome"] == ("committed" if point == "after-data-files" else "already-committed")
    assert table.rows() == expected
    new = [fragment for fragment in table.dataset.get_fragments() if fragment.to_table()["id"][0].as_py() >= 5000]
    assert len(new) >= 3 and table.unclustered() == len(table.fragment_rows()) - len(new)
    table.ok("clean")
    table.check_no_leftovers()


def test_a_death_in_writing_the_intent(lake):
    """What it leaves has the name of the run, waits for its owner and goes when it is old."""
    table = make_events(lake, 2)
    code = run_to_its_first_bytes("optimize", table.path, *SMALL, environment=table.lake.environment)
    assert code == -signal.SIGXFSZ
    (left,) = table.files("_thalweg")
    assert left.startswith("_thalweg/thalweg-run-") and left.endswith(".tmp")
    assert "unknown owner" in table.run("clean").out and table.files("_thalweg") == {left}
    time.sleep(0.1)
    assert table.run("clean", "--orphan-age", "0.05s").code == 0
    assert table.files("_thalweg") == set()


def test_clean(lake):
    table = make_events(lake, 4)
    assert table.ok("clean")["outcome"] == "nothing-to-do"
    assert dying_at(table, "after-reserve", "optimize", *SMALL).code == -signal.SIGKILL
    left = table.files("data") - table.referenced()
    assert left and table.files("_thalweg")
    dry = table.ok("clean", "--dry-run")
    assert dry["outcome"] == "planned" and dry["files_deleted"] >= len(left)
    assert left <= table.files("data")
    assert table.ok("clean")["outcome"] == "cleaned"
    assert not left & table.files("data")
    table.check_no_leftovers()
    assert table.ok("clean")["outcome"] == "nothing-to-do"
    # Files of anybody else are not touched.
    stranger = table.path / "data" / "stranger.lance"
    stranger.write_bytes(b"mine")
    assert dying_at(table, "after-data-files", "optimize", *SMALL).code == -signal.SIGKILL
    table.ok("clean")
    assert stranger.read_bytes() == b"mine"


def test_files_of_a_living_run_stay(lake):
    """A run that is stopped, not dead, keeps its files while others clean and commit; then it commits or conflicts."""
    table = make_events(lake, 4)
    expected = table.rows()
    stopped = start_paused(["optimize", str(table.path), *SMALL], "after-data-files")
    try:
        unfinished = table.files("data") - table.referenced()
        assert unfinished and table.files("_thalweg")
        assert table.ok("clean", "--orphan-age", "24h")
        assert table.ok("optimize", *SMALL)["outcome"] == "committed"
        assert unfinished <= table.files("data"), "files of a living run were deleted"
        stopped.send_signal(signal.SIGCONT)
        assert stopped.wait(timeout=120) in (0, 3)
    finally:
        stopped.kill()
    assert table.rows() == expected
    table.check_no_leftovers()
