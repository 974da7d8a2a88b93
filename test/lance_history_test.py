"""Random histories of a Lance dataset: what everybody does to it, in any order; its answers are always right.

Sized by THALWEG_CAMPAIGN_SCALE: at 1, 500 predicates after each of 25 steps.
"""

import random

import pyarrow as pa
import pytest
from campaign_tools import SCALE, campaign_seeds
from lance_test_tools import LanceTable, lance, multiset, needs_lance, numbered_rows

pytestmark = needs_lance

STEPS = max(12, int(25 * SCALE))
PREDICATES = max(30, int(500 * SCALE))
KEYS = ["user_id", "event_time", "country", "amount"]


class History:
    """A dataset with indexes, and a random generator that decides what happens to it."""

    def __init__(self, lake, seed: int):
        self.rng = random.Random(seed)
        self.next_id = 0
        self.next_column = 0
        self.declared = True
        self.table = LanceTable(lake, f"history-{seed}", enable_stable_row_ids=self.rng.random() < 0.5)
        for _ in range(3):
            self.append()
        self.table.declare()
        self.table.dataset.create_scalar_index("id", "BTREE")
        self.table.dataset.create_scalar_index("country", "BITMAP")

    @property
    def dataset(self):
        return self.table.dataset

    def rows(self, count: int, first_id: int) -> pa.Table:
        """Rows of the current schema."""
        rows = numbered_rows(count, first_id)
        if not self.table.path.exists():
            return rows
        for field in self.dataset.schema:
            if field.name.startswith("extra"):
                rows = rows.append_column(field, pa.array(range(count), field.type))
        return rows.select(self.dataset.schema.names)

    # --- what happens

    def append(self) -> None:
        count = self.rng.randrange(50, 500)
        self.table.append(self.rows(count, self.next_id))
        self.next_id += count

    def some_ids(self, most: int) -> str:
        first = self.rng.randrange(self.next_id)
        return f"id BETWEEN {first} AND {first + self.rng.randrange(most)}"

    def delete(self) -> None:
        self.dataset.delete(self.rng.choice([self.some_ids(200), f"id % 10 = {self.rng.randrange(10)}"]))

    def update(self) -> None:
        change = self.rng.choice([{"amount": "amount + 1"}, {"user_id": "user_id + 7"}, {"country": "'at'"}])
        self.dataset.update(change, where=self.some_ids(120))

    def merge_insert(self) -> None:
        first = self.rng.randrange(max(1, self.next_id - 40), self.next_id + 1)
        self.dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(
            self.rows(80, first)
        )
        self.next_id = max(self.next_id, first + 80)

    def add_column(self) -> None:
        self.dataset.add_columns({f"extra{self.next_column}": "id % 100"})
        self.next_column += 1

    def drop_column(self) -> None:
        extra = [name for name in self.dataset.schema.names if name.startswith("extra")]
        if extra:
            self.dataset.drop_columns([self.rng.choice(extra)])

    def compact(self) -> None:
        self.dataset.optimize.compact_files(target_rows_per_fragment=600)

    def optimize(self) -> None:
        options = self.rng.choice(
            [[], ["--max-source-fragments", 3], ["--full"], ["--no-index-update"], ["--sort-scope", "group"]]
        )
        if self.declared:
            self.unchanged("optimize", "--target-rows-per-fragment", self.rng.choice([200, 400, 800]), *options)

    def declare(self) -> None:
        self.unchanged("set", "--columns", ",".join(self.rng.sample(KEYS, self.rng.randrange(2, 5))))
        self.declared = True

    def clear(self) -> None:
        self.unchanged("clear")
        self.declared = False

    def unchanged(self, *command) -> None:
        before = self.table.rows(with_row_id=self.dataset.has_stable_row_ids)
        self.table.ok(*command)
        assert self.table.rows(with_row_id=self.dataset.has_stable_row_ids) == before

    def step(self) -> str:
        # A sort follows every other step, so that most changes meet clustered fragments.
        names = [
            "append",
            "delete",
            "update",
            "merge_insert",
            "add_column",
            "drop_column",
            "compact",
            "declare",
            "clear",
        ]
        name = self.rng.choice(names)
        getattr(self, name)()
        self.check(name)
        if not self.declared and self.rng.random() < 0.7:
            self.declare()
        self.optimize()
        self.check(f"{name}, optimize")
        return name

    # --- what is asked

    def predicate(self) -> str:
        rng = self.rng
        user, amount = rng.randrange(1_000_000), round(rng.random(), 3)
        day = f"timestamp '2026-0{rng.randrange(1, 4)}-{rng.randrange(1, 29):02} {rng.randrange(24):02}:00:00'"
        simple = [
            f"user_id = {user}",
            f"user_id < {user}",
            f"user_id BETWEEN {user} AND {user + 20_000}",
            f"user_id IN ({user}, {user + 1}, {rng.randrange(1_000_000)})",
            "user_id IS NULL",
            "user_id IS NOT NULL",
            f"NOT (user_id > {user})",
            f"event_time > {day}",
            f"event_time <= {day}",
            f"country = '{rng.choice(['ch', 'de', 'at', 'xx'])}'",
            f"country <> '{rng.choice(['ch', 'it'])}'",
            f"amount < {amount}",
            f"amount BETWEEN {amount} AND {amount + 0.01:.3f}",
            f"id = {rng.randrange(self.next_id)}",
            self.some_ids(100),
        ]
        parts = rng.sample(simple, rng.randrange(1, 4))
        return rng.choice([" AND ", " OR "]).join(f"({part})" for part in parts)

    def check(self, what: str) -> None:
        dataset = self.dataset
        everything = dataset.to_table(columns=["id", *KEYS])
        ids = everything["id"].to_pylist()
        assert len(ids) == len(set(ids)) == dataset.count_rows(), what
        dataset.validate()
        for _ in range(PREDICATES):
            condition = self.predicate()
            answers = [
                sorted(dataset.to_table(columns=["id"], filter=condition, use_scalar_index=use)["id"].to_pylist())
                for use in (True, False)
            ]
            assert answers[0] == answers[1], f"after {what}: {condition}: {len(answers[0])} and {len(answers[1])} rows"


@pytest.mark.campaign
def test_random_histories(lake):
    for seed in campaign_seeds():
        history = History(lake, seed)
        done = []
        try:
            for _ in range(STEPS // 2):
                done.append(history.step())
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, after {done}: {error}") from error
        assert history.table.rows_by_duckdb() == history.table.rows()
        history.table.check_no_leftovers()
        print(f"seed {seed}: {', '.join(done)}")


def test_answers_follow_every_single_change(lake):
    """Each kind of change, once, between two sorts."""
    history = History(lake, 1)
    history.unchanged("optimize", "--target-rows-per-fragment", 300)
    for change in (
        history.append,
        history.delete,
        history.update,
        history.merge_insert,
        history.add_column,
        history.drop_column,
        history.compact,
    ):
        change()
        history.check(change.__name__)
        history.unchanged("optimize", "--target-rows-per-fragment", 300)
        history.check(f"{change.__name__}, optimize")
    assert multiset(lance.dataset(str(history.table.path)).to_table()) == history.table.rows_by_duckdb()
