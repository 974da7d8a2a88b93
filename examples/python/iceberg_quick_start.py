"""Iceberg, with PyIceberg: declare, look, optimize, append, optimize again. Needs `pip install thalweg[iceberg]`."""

import tempfile

import numpy as np
import pyarrow as pa
import thalweg
from pyiceberg.catalog import load_catalog
from pyiceberg.expressions import EqualTo

rng = np.random.default_rng(7)


def events(rows: int) -> pa.Table:
    return pa.table(
        {
            "user_id": rng.integers(0, 100_000, rows),
            "event_time": pa.array(
                1_767_225_600_000_000 + rng.integers(0, 90 * 86_400_000_000, rows), pa.timestamp("us")
            ),
            "amount": rng.random(rows),
        }
    )


with tempfile.TemporaryDirectory() as folder:
    # Any catalog that PyIceberg opens will do: REST, Glue, Hive, SQL, …
    catalog = load_catalog("demo", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("web")
    table = catalog.create_table("web.events", events(0).schema)
    for _ in range(12):
        table.append(events(50_000))

    thalweg.set_clustering(table, ["user_id", "event_time"])
    print(f"before: an equality opens {thalweg.status(table)['depth']:.1f} of {len(table.inspect.files())} files")

    done = thalweg.optimize(table, target_file_size="1MiB")
    print(f"after: {done['depth_after']:.1f} of {done['output_units']} files")

    one_user = table.scan(row_filter=EqualTo("user_id", 4242))
    print(f"PyIceberg plans {len(list(one_user.plan_files()))} files for one user, {one_user.to_arrow().num_rows} rows")

    table.append(events(50_000))
    again = thalweg.optimize(table, target_file_size="1MiB", policy="overlap")
    print(f"after an append: {again['outcome']}, {again['source_units']} files read")
    assert table.scan().to_arrow().num_rows == 13 * 50_000
