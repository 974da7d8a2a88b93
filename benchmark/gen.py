"""Makes the benchmark table: an Iceberg v2 table of many appends in a PyIceberg SQLite catalog.

usage: gen.py WAREHOUSE_DIR [rows=8000000] [appends=40]

Columns: event_time timestamp(us), mostly increasing with 3 % late rows; user_id long, power law; country string (200
values); amount decimal(12,2), skewed; url string with a 40-byte common prefix; payload of random digits. Prints the
metadata location.
"""

import os
import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.catalog.sql import SqlCatalog

SCHEMA = pa.schema(
    [
        ("event_time", pa.timestamp("us")),
        ("user_id", pa.int64()),
        ("country", pa.string()),
        ("amount", pa.decimal128(12, 2)),
        ("url", pa.string()),
        ("payload", pa.string()),
    ]
)
DAY = 86_400_000_000
BASE = 1_767_225_600_000_000
COUNTRIES = np.array([f"{chr(65 + i // 26 % 26)}{chr(65 + i % 26)}" for i in range(200)])


def batch(rng: np.random.Generator, append: int, appends: int, rows: int) -> pa.Table:
    """The rows of one append."""
    times = BASE + ((append + rng.random(rows)) / appends * 90 * DAY).astype(np.int64)
    late = rng.random(rows) < 0.03
    times = np.where(late, BASE + (rng.random(rows) * (append + 1) / appends * 90 * DAY).astype(np.int64), times)
    users = (1e7 * rng.random(rows) ** 3).astype(np.int64)
    countries = COUNTRIES[np.minimum(199, rng.zipf(1.5, rows) - 1)]
    amounts = np.round(rng.lognormal(3, 1.2, rows) * 100).astype(np.int64)
    urls = np.char.add("https://www.example.com/shop/catalogue/it", (rng.integers(0, 50_000, rows)).astype(str))
    digits = rng.integers(0, 2**62, rows).astype(str)
    payloads = pa.array(np.char.add(digits, rng.integers(0, 10**9, rows).astype(str)))
    decimals = pc.cast(pc.divide(pa.array(amounts.astype("float64")), 100.0), pa.decimal128(12, 2), safe=False)
    columns = [pa.array(times, pa.timestamp("us")), users, pa.array(countries), decimals, pa.array(urls), payloads]
    return pa.table(columns, schema=SCHEMA)


def generate(warehouse: str, rows: int = 8_000_000, appends: int = 40, properties: dict[str, str] | None = None) -> str:
    """Makes the table db.events in the catalog "local" below `warehouse`; returns its metadata location."""
    warehouse = os.path.abspath(warehouse)
    os.makedirs(warehouse, exist_ok=True)
    catalog = SqlCatalog("local", uri=f"sqlite:///{warehouse}/catalog.db", warehouse=f"file://{warehouse}")
    catalog.create_namespace_if_not_exists("db")
    rng = np.random.default_rng(20261130)
    table = catalog.create_table(
        "db.events",
        schema=SCHEMA,
        properties={"format-version": "2", "write.parquet.compression-codec": "zstd"} | (properties or {}),
    )
    for append in range(appends):
        table.append(batch(rng, append, appends, rows // appends))
    return catalog.load_table("db.events").metadata_location


if __name__ == "__main__":
    print(generate(sys.argv[1], *[int(argument) for argument in sys.argv[2:]]))
