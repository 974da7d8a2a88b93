"""Tables of LanceDB, with its own indexes and its own optimize(), before and after Thalweg; polars reads them too."""

import numpy as np
import pyarrow as pa
import pytest
from lance_index_test import DIMENSIONS, WORDS, indexed_rows
from lance_test_tools import KEYS, LanceTable, multiset, needs_lance

lancedb = pytest.importorskip("lancedb")
from lancedb import index as kinds  # noqa: E402

pytestmark = needs_lance

TARGET = ("--target-rows-per-fragment", 700)
# Column, and the index as LanceDB makes it.
INDEXES = {
    "BTree": ("id", lambda: kinds.BTree()),
    "Bitmap": ("country", lambda: kinds.Bitmap()),
    "LabelList": ("tags", lambda: kinds.LabelList()),
    "Fm": ("text", lambda: kinds.Fm()),
    "FTS": ("text", lambda: kinds.FTS(with_position=True)),
    "IvfFlat": ("vector", lambda: kinds.IvfFlat(num_partitions=4)),
    "IvfPq": ("vector", lambda: kinds.IvfPq(num_partitions=4, num_sub_vectors=4)),
    "IvfSq": ("vector", lambda: kinds.IvfSq(num_partitions=4)),
    "IvfRq": ("vector", lambda: kinds.IvfRq(num_partitions=4)),
    "HnswFlat": ("vector", lambda: kinds.HnswFlat(num_partitions=2)),
    "HnswPq": ("vector", lambda: kinds.HnswPq(num_partitions=2, num_sub_vectors=4)),
    "HnswSq": ("vector", lambda: kinds.HnswSq(num_partitions=2)),
}
# Graphs are built anew around the moved rows, and estimates of RaBitQ depend on which codes share a block: as near, and
# not always the same.
APPROXIMATE = ("HnswFlat", "HnswPq", "HnswSq", "IvfRq")


class Table(LanceTable):
    """A table of LanceDB as a dataset of the tests."""

    def __init__(self, lake, name: str, stable: bool):
        super().__init__(lake)
        options = {"new_table_enable_stable_row_ids": "true"} if stable else None
        self.connection = lancedb.connect(lake.folder / "db", storage_options=options)
        self.path = lake.folder / "db" / "events.lance"
        self.name = name
        self.column, make = INDEXES[name]
        made = self.connection.create_table("events", indexed_rows(500, 0))
        for first in (500, 1000, 1500):
            made.add(indexed_rows(500, first))
        made.create_index(self.column, config=make())
        assert self.dataset.has_stable_row_ids == stable

    @property
    def open(self):
        return self.connection.open_table("events")

    def answers(self) -> list[list]:
        """What LanceDB finds by the index: ids, with distances for vectors."""
        if self.column == "vector":
            vectors = np.random.default_rng(5).random((6, DIMENSIONS), dtype=np.float32)
            asked = [self.open.search(vector).nprobes(4).limit(10) for vector in vectors]
            found = [[(round(row["_distance"], 3), row["id"]) for row in query.to_list()] for query in asked]
            return [sorted(rows) for rows in found]
        if self.name == "FTS":
            asked = [
                self.open.search(word, query_type="fts", fts_columns="text") for word in ("amber", "number77", "fjord")
            ]
        else:
            conditions = {
                "id": ["id = 77", "id BETWEEN 480 AND 1520"],
                "country": ["country = 'ch'"],
                "tags": [f"array_has_any(tags, ['{word}'])" for word in WORDS[:2]],
                "text": ["contains(text, 'umber77')", "contains(text, 'fjor')"],
            }
            asked = [self.open.search().where(condition) for condition in conditions[self.column]]
        return [sorted(row["id"] for row in query.limit(100_000).to_list()) for query in asked]

    def exact(self) -> list[set[int]]:
        """The ids of the nearest rows without an index."""
        vectors = np.random.default_rng(5).random((6, DIMENSIONS), dtype=np.float32)
        nearest = [{"column": "vector", "q": vector, "k": 10, "use_index": False} for vector in vectors]
        return [set(self.dataset.to_table(columns=["id"], nearest=one)["id"].to_pylist()) for one in nearest]

    def recall(self, answers: list[list]) -> float:
        pairs = zip(answers, self.exact(), strict=True)
        return sum(len({row[1] for row in found} & exact) for found, exact in pairs) / 60

    def same(self, before: list[list], after: list[list]) -> None:
        if self.name in APPROXIMATE:
            assert self.recall(after) >= 0.8 * self.recall(before) > 0
        else:
            assert after == before

    def unindexed(self) -> int:
        return self.open.index_stats(f"{self.column}_idx").num_unindexed_rows


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable-row-ids"])
@pytest.mark.parametrize("name", INDEXES)
def test_tables_of_lancedb(lake, name, stable):
    table = Table(lake, name, stable)
    table.open.delete("id % 10 = 3")
    rows, before = table.rows(), table.answers()
    assert all(before)
    table.declare()
    assert table.ok("optimize", *TARGET)["outcome"] == "committed"
    table.same(before, table.answers())
    assert (table.rows(), table.unindexed()) == (rows, 0)

    # LanceDB goes on: rows come and go, and it compacts and extends its index itself.
    table.open.add(indexed_rows(400, 2000))
    table.open.delete("id % 10 = 4")
    table.open.optimize()
    rows, before = table.rows(), table.answers()
    assert table.ok("optimize", *TARGET)["outcome"] == "committed"
    table.same(before, table.answers())
    assert (table.rows(), table.unindexed()) == (rows, 0)
    table.open.optimize()
    assert table.rows() == rows
    if name not in APPROXIMATE:
        assert table.answers() == before
    table.dataset.validate()


def test_polars_reads_what_was_clustered(lake):
    polars = pytest.importorskip("polars")
    table = LanceTable(lake).grow(4)
    table.declare()
    table.optimize("--target-rows-per-fragment", 300)
    frame = polars.scan_pyarrow_dataset(table.dataset)
    assert multiset(pa.Table.from_batches(frame.collect().to_arrow().to_batches())) == table.rows()
    middle = sorted(table.dataset.to_table(columns=KEYS)["user_id"].drop_null().to_pylist())[1000]
    found = frame.filter(polars.col("user_id") < middle).select("id").collect()["id"].to_list()
    right = table.dataset.to_table(columns=["id"], filter=f"user_id < {middle}", use_scalar_index=False)
    assert sorted(found) == sorted(right["id"].to_pylist()) != []
