"""Tables as Python's libraries know them, for tests of the package: of PyIceberg, pylance and LanceDB."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import lancedb
import pyarrow as pa
from table_readers import multiset
from thalweg_test_tools import EVENTS, SMALL_CUBES, Lake, make_rows

KEYS = ["user_id", "event_time"]


@dataclass
class Known:
    """A table and how its own library sees it."""

    table: Any
    rows: Callable[[], Counter]
    units: Callable[[], int]
    version: Callable[[], object]
    append: Callable[[pa.Table], object]


def of_pyiceberg(table) -> Known:
    return Known(
        table,
        rows=lambda: multiset(table.scan().to_arrow().select(EVENTS.names)),
        units=lambda: len(list(table.scan().plan_files())),
        version=lambda: table.current_snapshot().snapshot_id,
        append=table.append,
    )


def pyiceberg_events(lake: Lake) -> Known:
    table = lake.make_table("events", EVENTS, SMALL_CUBES)
    for seed in range(8):
        table.append(make_rows(500, seed))
    return of_pyiceberg(table)


def lance_events(lake: Lake) -> Known:
    path = str(lake.folder / "events.lance")
    for seed in range(8):
        lance.write_dataset(make_rows(500, seed), path, mode="append" if seed else "create")
    ds = lance.dataset(path)
    return Known(
        ds,
        rows=lambda: multiset(ds.to_table()),
        units=lambda: len(ds.get_fragments()),
        version=lambda: ds.version,
        append=lambda rows: ds.insert(rows, mode="append"),
    )


def lancedb_events(lake: Lake) -> Known:
    table = lancedb.connect(lake.folder / "db").create_table("events", make_rows(500, 0))
    for seed in range(1, 8):
        table.add(make_rows(500, seed))
    return Known(
        table,
        rows=lambda: multiset(table.to_arrow()),
        units=lambda: len(table.to_lance().get_fragments()),
        version=lambda: table.version,
        append=table.add,
    )


def expected_rows(appends: int = 8) -> Counter:
    return multiset(pa.concat_tables([make_rows(500, seed) for seed in range(appends)]))


def leftovers(folder: Path) -> list[Path]:
    """Run intents and half-written files that nobody may have left."""
    return [path for path in folder.rglob("thalweg-run-*") if path.is_file()] + list(folder.rglob("*.tmp"))
