"""Lance loses rows by zone maps where a zone has nothing but NaN, or NaN has a sign: such keys get none."""

import numpy as np
import pyarrow as pa
import pytest
from lance_test_tools import LanceTable, needs_lance

pytestmark = needs_lance

ROWS = 500
SIGNED = np.copysign(np.nan, -1.0)


def float_table(lake, *fills: tuple[float, float], declare: bool = True) -> LanceTable:
    """One fragment for each share of its rows and what these have instead of a number."""
    rng = np.random.default_rng(31)
    table = LanceTable(lake)
    for number, (share, fill) in enumerate(fills):
        add(table, rng, number * ROWS, share, fill)
    if declare:
        table.ok("set", "--columns", "k1,k2")
    return table


def add(table: LanceTable, rng: np.random.Generator, first: int, share: float, fill: float) -> None:
    values = rng.random(ROWS) * 100
    values[rng.random(ROWS) < share] = fill
    table.append(pa.table({"id": range(first, first + ROWS), "k1": values, "k2": rng.random(ROWS)}))


CONDITIONS = [
    *(f"k1 {operator} {number}" for operator in ("<", "<=", ">", ">=", "=", "<>") for number in (-1000, 0, 50, 1000)),
    *("NOT (k1 < 50)", "NOT (k1 > 50)", "isnan(k1)", "NOT isnan(k1)", "k1 > 50 AND k2 < 0.5", "k2 >= 0.25"),
    *("k1 > 99 OR k1 < 1", "k1 >= arrow_cast('NaN', 'Float64')", "k1 > arrow_cast('Infinity', 'Float64')"),
]


def answers(table: LanceTable, use: bool) -> list[list[int]]:
    """By pylance alone, with and without indexes."""
    found = [
        table.dataset.to_table(columns=["id"], filter=condition, use_scalar_index=use)["id"].to_pylist()
        for condition in CONDITIONS
    ]
    return [sorted(ids) for ids in found]


def zoned(table: LanceTable) -> set[str]:
    """Columns with a zone map."""
    return {column for _, kind, column, _ in table.indexes() if kind == "ZoneMap"}


# What the fragments hold, and whether a zone map on it is right.
FILLS = {
    "no NaN": ([(0, np.nan)] * 4, True),
    "some NaN among numbers": ([(0.001, np.nan)] * 4, True),
    "fragments of NaN": ([(0, np.nan), (1, np.nan), (0, np.nan), (1, np.nan)], False),
    "half NaN": ([(0.5, np.nan)] * 4, False),
    "nothing but NaN": ([(1, np.nan)] * 4, False),
    "some NaN with a sign": ([(0, np.nan), (0.01, SIGNED), (0, np.nan), (0, np.nan)], False),
    "nothing but NaN with a sign": ([(1, SIGNED)] * 4, False),
}


@pytest.mark.parametrize("fills, kept", FILLS.values(), ids=FILLS)
def test_no_zone_map_loses_rows(lake, fills, kept):
    table = float_table(lake, *fills)
    before = answers(table, use=False)
    assert answers(table, use=True) == before
    report = table.ok("optimize", "--target-rows-per-fragment", 300)
    assert report["outcome"] == "committed"
    assert answers(table, use=True) == answers(table, use=False) == before
    assert zoned(table) == ({"k1", "k2"} if kept else {"k2"})
    told = [note for note in report["notes"] if "no zone map" in note]
    assert len(told) == (0 if kept else 1) and all("k1" in note for note in told)
    table.check_no_leftovers()
    built = {path.split("/")[1] for path in table.files("_indices")}
    assert built == {segment.uuid for index in table.dataset.describe_indices() for segment in index.segments}
    # Nothing changes without new rows, and it is told again why.
    version = table.dataset.version
    again = table.ok("optimize", "--target-rows-per-fragment", 300)
    assert (again["outcome"], table.dataset.version) == ("nothing-to-do", version)
    assert [note for note in again["notes"] if "no zone map" in note] == told


@pytest.mark.parametrize("fill", [np.nan, SIGNED], ids=["plain", "signed"])
def test_a_zone_map_goes_and_comes_with_the_rows(lake, fill):
    table = float_table(lake, (0, np.nan), (0, np.nan))
    table.ok("optimize", "--target-rows-per-fragment", 300)
    assert zoned(table) == {"k1", "k2"}
    add(table, np.random.default_rng(32), 2 * ROWS, 0.9, fill)
    table.ok("optimize", "--target-rows-per-fragment", 300, "--full")
    assert zoned(table) == {"k2"}
    assert answers(table, use=True) == answers(table, use=False)
    table.dataset.delete("isnan(k1)")
    table.ok("set", "--version", 2)
    table.ok("optimize", "--target-rows-per-fragment", 300)
    assert zoned(table) == {"k1", "k2"}
    assert answers(table, use=True) == answers(table, use=False)


def test_a_zone_map_of_somebody_else_is_left_and_named(lake):
    table = float_table(lake, (0, np.nan), (1, np.nan))
    table.dataset.create_scalar_index("k1", "ZONEMAP", name="theirs")
    report = table.ok("optimize", "--target-rows-per-fragment", 300)
    told = [note for note in report["notes"] if "theirs" in note and "drop it" in note]
    assert len(told) == 1
    assert "theirs" in {index[0] for index in table.indexes()}
