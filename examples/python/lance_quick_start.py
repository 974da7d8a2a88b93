"""Lance: write clustered, declare, append with Lance's own writer, compact. Needs `pip install thalweg[lance]`."""

import tempfile

import lance
import numpy as np
import pyarrow as pa
import thalweg
import thalweg.lance

rng = np.random.default_rng(7)


def events(rows: int) -> pa.Table:
    return pa.table(
        {
            "user_id": rng.integers(0, 100_000, rows),
            "score": rng.random(rows),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(rng.random(rows * 8, dtype=np.float32)), 8),
        }
    )


with tempfile.TemporaryDirectory() as folder:
    ds = thalweg.lance.write_dataset(events(100_000), f"{folder}/events.lance", cluster_by=["user_id", "score"])
    thalweg.set_clustering(ds, ["user_id", "score"])
    print(thalweg.clustering_spec(ds))

    for _ in range(8):
        ds = lance.write_dataset(events(25_000), ds.uri, mode="append")
    print(f"before: an equality opens {thalweg.status(ds)['depth']:.1f} of {len(ds.get_fragments())} fragments")

    # With a declaration in place clustering is the default mode of compaction.
    metrics = thalweg.lance.compact_files(ds, target_rows_per_fragment=20_000)
    print(f"{metrics.fragments_removed} fragments became {metrics.fragments_added}")
    print(f"after: {thalweg.status(ds)['depth']:.1f} of {len(ds.get_fragments())} fragments")

    found = ds.to_table(filter="user_id = 4242", columns=["user_id", "score"])
    print(f"{found.num_rows} rows of one user")
    assert ds.count_rows() == 300_000
