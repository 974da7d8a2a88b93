"""polars in, DuckDB out: a data frame becomes a clustered Parquet table, and DuckDB reads some of its files."""

import tempfile

import duckdb
import numpy as np
import polars as pl
import thalweg

rng = np.random.default_rng(7)
frame = pl.DataFrame(
    {
        "sensor": rng.integers(0, 5_000, 400_000),
        "day": rng.integers(0, 365, 400_000),
        "place": rng.choice(["attic", "cellar", "garden"], 400_000),
        "value": rng.random(400_000),
    }
)

with tempfile.TemporaryDirectory() as folder:
    uri = f"{folder}/readings"  # an Iceberg table in Hadoop layout
    thalweg.write_dataset(frame, uri, cluster_by=["sensor", "day"], target_file_size="256KiB")
    status = thalweg.status(uri)
    print(f"{status['rows']} rows in {status['units']} files; an equality opens {status['depth']:.1f}")

    # DuckDB skips files and row groups by their own statistics.
    files = f"{folder}/readings/data/**/*.parquet"
    query = f"SELECT count(*), avg(value) FROM '{files}' WHERE sensor = 4242"
    count, mean = duckdb.sql(query).fetchone()
    print(f"sensor 4242: {count} readings, {mean:.3f} on average")
    assert count == frame.filter(pl.col("sensor") == 4242).height

    # And back: what DuckDB computes is written as it streams out of it.
    relation = duckdb.sql(f"SELECT sensor, day, max(value) AS top FROM '{files}' GROUP BY ALL")
    done = thalweg.write_dataset(relation, f"{folder}/tops", cluster_by=["sensor", "day"])
    print(f"{done['rows']} rows of daily tops")
