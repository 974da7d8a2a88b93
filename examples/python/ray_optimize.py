"""A table optimized by the workers of a Ray cluster: python ray_optimize.py [FOLDER]"""

import sys
import tempfile

import numpy as np
import pyarrow as pa
import ray
import thalweg
import thalweg.ray


def rows(seed: int, count: int = 20_000) -> pa.Table:
    rng = np.random.default_rng(seed)
    start = np.datetime64("2026-01-01", "us")
    return pa.table(
        {
            "user_id": rng.integers(0, 5_000, count),
            "event_time": start + rng.integers(0, 90 * 86_400_000_000, count),
            "amount": rng.random(count).round(2),
        }
    )


def main(folder: str) -> None:
    # A cluster of two workers on this machine; ray.init(address="auto") joins a larger one.
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=128 << 20)

    table = f"{folder}/events"
    for day in range(4):
        thalweg.write_dataset(rows(day), table, mode="append" if day else "create")
    thalweg.set_clustering(table, ["user_id", "event_time"], target_cube_size="512KiB", min_cube_size="256KiB")
    print("depth before", round(thalweg.status(table)["depth"], 2))

    # Two slices of the curve, one for each worker.
    report = thalweg.ray.optimize(table, num_tasks=2, target_file_size="128KiB", memory=256 << 20)
    print(report["outcome"], report["rows"], "rows, depth after", round(report["depth_after"], 2))

    # Once more with each row read once and shuffled to its slice: for what is larger than any node's disk.
    thalweg.write_dataset(rows(9, 80_000), table, mode="append")
    report = thalweg.ray.optimize(table, full=True, shuffle=True, target_file_size="128KiB", memory=256 << 20)
    print(report["outcome"], report["rows"], "rows, depth after", round(report["depth_after"], 2))

    ray.shutdown()


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(folder)
