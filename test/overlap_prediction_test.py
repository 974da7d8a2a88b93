"""The policy overlap: predictions against what a rewrite gives, and random histories."""

import random

import numpy as np
import pyarrow as pa
import pytest
from campaign_tools import SCALE, campaign_seeds
from overlap_tools import APPENDED, KINDS, OverlapTable, make_rows
from thalweg_test_tools import PROGRAM, Lake

needs_program = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
pytestmark = needs_program


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """One for all tests: each makes a table of its own."""
    return Lake(tmp_path_factory.mktemp("overlap") / "lake")


def key_column(rng: np.random.Generator, kind: str, skew: str, count: int, low: float, high: float) -> pa.Array:
    """Values of the part from low to high of their range."""
    share = rng.random(count)
    if skew == "cubic":
        share = share**3
    elif skew == "few":
        share = np.floor(share * 25) / 25
    elif skew == "hot":
        share = np.where(rng.random(count) < 0.3, 0.37, share)
    share = low + (high - low) * share
    null = rng.random(count) < (0.05 if skew == "cubic" else 0)
    whole = (share * 1e9).astype(np.int64)
    if kind == "string":
        return pa.array([f"key-{value:010}" for value in whole], mask=null)
    if kind == "timestamp":
        return pa.array(1_767_225_600_000_000 + whole * 1000, pa.timestamp("us"), mask=null)
    if kind == "double":
        return pa.array(np.exp(share * 20), mask=null)
    if kind == "date":
        return pa.array((share * 2000).astype(np.int32), pa.date32(), mask=null)
    return pa.array(whole.astype(np.int32) if kind == "int" else whole, mask=null)


TYPES = ["long", "string", "timestamp", "double", "date", "int"]
RANDOM_TABLES = 10


@pytest.mark.parametrize("number", range(RANDOM_TABLES))
def test_a_prediction_is_within_a_tenth(lake, number):
    rng = np.random.default_rng(20261130 + number)
    keys = [(TYPES[rng.integers(len(TYPES))], ["even", "even", "cubic", "few", "hot"][rng.integers(5)])]
    for _ in range(number % 4):
        keys.append((TYPES[rng.integers(len(TYPES))], ["even", "cubic", "few", "hot"][rng.integers(4)]))
    kind = APPENDED[number % 2]
    names = [f"k{place}" for place in range(len(keys))]
    declaration = ["--policy", "overlap"] + (["--allow-single"] if len(keys) == 1 else [])
    table = OverlapTable(lake, kind, ",".join(names), *declaration)

    def append(count: int, low: float = 0, high: float = 1) -> None:
        first = 0 if table.expected is None else table.expected.num_rows
        columns = [pa.array(np.arange(first, first + count))]
        for place, (of_type, skew) in enumerate(keys):
            ends = (low, high) if place == 0 else (0, 1)
            columns.append(key_column(rng, of_type, skew, count, *ends))
        table.append(pa.table(columns, ["id", *names]))

    base = int(rng.integers(8000, 25_000))
    append(base)
    first = table.optimize()
    ratios, corrections = [], []
    for low, high in ((0, 1), (0.6, 1.0)):
        for _ in range(2):
            append(int(base * rng.uniform(0.1, 0.3)), low, high)
        plan = table.ok("plan")
        report = table.optimize()
        assert plan["depth_after"] == pytest.approx(report["predicted_depth"], rel=1e-6)
        assert report["depth_after"] == pytest.approx(table.status()["depth"], rel=1e-6)
        ratios.append(plan["depth_after"] / report["depth_after"])
        corrections.append(plan["prediction_correction"])
    text = (
        f"{kind}, {keys}, {base} rows in {first['output_units']}: predicted/measured "
        f"{first['predicted_depth'] / first['depth_after']:.3f} without a run before, then {np.round(ratios, 3)} "
        f"with corrections of {np.round(corrections, 3)}"
    )
    print(text)
    assert all(abs(ratio - 1) <= 0.1 for ratio in ratios), text


# --- any history


class History:
    """Appends, deletes and rewrites in random order; the table checks its rows after each rewrite."""

    def __init__(self, lake: Lake, kind: str, seed: int):
        self.rng = random.Random(seed)
        self.table = OverlapTable(lake, kind)
        self.next_id = 0
        self.append()

    def append(self) -> str:
        count = self.rng.randrange(50, 2500)
        low = self.rng.choice([0, 0, 0.4, 0.8])
        rows = make_rows(count, self.rng.randrange(1 << 30), self.next_id, low, low + self.rng.choice([0.02, 0.2]))
        self.next_id += count
        if self.table.expected is None or self.rng.random() < 0.7:
            self.table.append(rows)
            return "append"
        self.table.append_clustered(rows)
        return "clustered append"

    def delete(self) -> str:
        if self.table.kind == "hadoop":
            return self.append()  # no engine of ours deletes there
        first = self.rng.randrange(self.next_id)
        self.table.delete(first, first + self.rng.randrange(400))
        return "delete"

    def optimize(self) -> str:
        most = self.rng.choice([60_000, 200_000])
        budget = ["--max-source-bytes", most]
        options = self.rng.choice(
            [[], [], ["--theta", "0.2"], ["--theta", "0.7"], ["--policy", "size"], ["--full"], budget]
        )
        if self.rng.random() < 0.3:
            options = [*options, "--max-task-bytes", "50KB"]
        report = self.table.optimize(*options)
        assert report["source_bytes"] <= most or "--max-source-bytes" not in options, report
        return f"optimize {' '.join(map(str, options))}: {report['source_units']}"

    def step(self) -> str:
        return self.rng.choice([self.append, self.append, self.delete, self.optimize, self.optimize])()


@pytest.mark.campaign
@pytest.mark.parametrize("kind", KINDS)
def test_random_histories_change_no_row(lake, kind):
    for seed in campaign_seeds():
        history = History(lake, kind, seed)
        done = []
        try:
            for _ in range(max(15, int(100 * SCALE))):
                done.append(history.step())
            runs = history.table.optimize_to_the_end(most=4)
            done.append(f"{len(runs)} more")
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, after {done}: {error}") from error
        print(f"seed {seed}: {', '.join(done)}")
