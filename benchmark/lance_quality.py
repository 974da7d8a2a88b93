"""What clustering a Lance dataset is worth, and what it costs: the rows of gen.py as a dataset of 40 appends.

usage: lance_quality.py [--folder FOLDER] [--rows 8000000] [--targets 50000 200000] [--repeats 3]
                        [--only skipping|speed]

1. Skipping, by Lance's own scan statistics: fragments and rows scanned by an equality on each key, by a range of 1 %
   of its ranks and by a box of 10 % x 10 %, with zone maps on both keys: as appended, after one sort (`optimize`), and
   after one sort per stretch (`--sort-scope group`); relative to sqrt(F), and to the rows that zones of a perfect
   Hilbert order would give (exact ranks, sorted by the curve, cut into zones of the same size).
2. Speed, interleaved: `optimize`, zone maps included, against pylance's `compact_files` at the same target, which does
   not sort; a clustered append of 2,000,000 rows against pylance's append of the same rows.

Exits with 1 when rows are lost or changed.
"""

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path

import lance
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from gen import batch

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build" / "bin" / "thalweg"
KEYS = ["user_id", "event_time"]
APPENDS = 40


def thalweg(*arguments: str) -> dict:
    done = subprocess.run([str(PROGRAM), *arguments, "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def make(path: Path, rows: int) -> None:
    """40 appends of four fragments each."""
    shutil.rmtree(path, ignore_errors=True)
    rng = np.random.default_rng(20261130)
    for append in range(APPENDS):
        table = batch(rng, append, APPENDS, rows // APPENDS)
        mode = "append" if append else "create"
        lance.write_dataset(table, str(path), mode=mode, max_rows_per_file=math.ceil(rows / APPENDS / 4))


def multiset(path: Path) -> tuple:
    """Row count and sums over the columns, equal for equal multisets of rows."""
    count, total = 0, 0
    for part in lance.dataset(str(path)).to_batches():
        count += part.num_rows
        frame = pa.Table.from_batches([part]).to_pandas()
        total = (total + int(pd.util.hash_pandas_object(frame, index=False).to_numpy().sum(dtype=np.uint64))) % 2**64
    return count, total


def scanned(dataset: lance.LanceDataset, condition: str) -> tuple[int, int]:
    seen = []
    dataset.scanner(filter=condition, columns=["amount"], scan_stats_callback=seen.append).to_table()
    counts = seen[0].all_counts
    return counts["fragments_scanned"], counts["rows_scanned"]


def literal(value) -> str:
    value = value.item() if isinstance(value, np.generic) else value
    return str(value) if isinstance(value, int) else f"timestamp '{value}'"


def questions(values: dict[str, list], count: int) -> dict[str, list[str]]:
    """Equalities on values drawn by rows, ranges of a hundredth of each key's ranks, boxes of a tenth of both."""
    rng = np.random.default_rng(7)
    asked = {key: [f"{key} = {literal(v)}" for v in rng.choice(values[key], count)] for key in KEYS}
    ordered = {key: np.sort(np.array(values[key])) for key in KEYS}
    for key in KEYS:
        starts = [int(rng.random() * 0.99 * len(ordered[key])) for _ in range(count)]
        bounds = [(ordered[key][at], ordered[key][at + len(ordered[key]) // 100 - 1]) for at in starts]
        asked[f"{key} 1 %"] = [f"{key} >= {literal(low)} AND {key} < {literal(high)}" for low, high in bounds]
    boxes = []
    for _ in range(count):
        parts = []
        for key in KEYS:
            low = rng.random() * 0.9
            bounds = [
                ordered[key][int(low * len(ordered[key]))],
                ordered[key][int((low + 0.1) * (len(ordered[key]) - 1))],
            ]
            parts.append(f"{key} >= {literal(bounds[0])} AND {key} < {literal(bounds[1])}")
        boxes.append(" AND ".join(parts))
    return asked | {"box 10 %": boxes}


def measure(path: Path, asked: dict[str, list[str]]) -> dict[str, tuple[float, float]]:
    dataset = lance.dataset(str(path))
    result = {}
    for name, conditions in asked.items():
        counts = [scanned(dataset, condition) for condition in conditions]
        result[name] = tuple(statistics.fmean(column) for column in zip(*counts, strict=True))
    return result


def hilbert(x: np.ndarray, y: np.ndarray, bits: int) -> np.ndarray:
    """Distance along the Hilbert curve of points on a grid of 2^bits x 2^bits."""
    x, y, distance = x.astype(np.int64), y.astype(np.int64), np.zeros(len(x), np.int64)
    side = 1 << (bits - 1)
    while side:
        right, up = (x & side) > 0, (y & side) > 0
        distance += side * side * ((3 * right) ^ up)
        flip = ~up & right
        x, y = (
            np.where(flip, side - 1 - (x & (side - 1)), x & (side - 1)),
            np.where(flip, side - 1 - (y & (side - 1)), y & (side - 1)),
        )
        x, y = np.where(~up, y, x), np.where(~up, x, y)
        side //= 2
    return distance


def perfect_order(path: Path) -> dict[str, np.ndarray]:
    """The keys in a perfect order: exact ranks, 16 bits a key, sorted by the curve."""
    table = lance.dataset(str(path)).to_table(columns=KEYS)
    columns = [np.asarray(pc.cast(table[key], pa.int64())) for key in KEYS]
    ranks = []
    for column in columns:
        order = np.argsort(column, kind="stable")
        ordered = column[order]
        first = np.searchsorted(ordered, ordered, "left")
        rank = np.empty(len(column), np.int64)
        rank[order] = first * 65536 // len(column)
        ranks.append(rank)
    order = np.argsort(hilbert(ranks[0], ranks[1], 16), kind="stable")
    return {key: column[order] for key, column in zip(KEYS, columns, strict=True)}


def perfect_rows(ordered: dict[str, np.ndarray], values: dict[str, list], count: int, zone: int) -> dict[str, float]:
    """Rows that an equality reads of zones of a perfect order."""
    rng = np.random.default_rng(7)
    result = {}
    for key, column in ordered.items():
        edges = np.arange(0, len(column), zone)
        low, high = np.minimum.reduceat(column, edges), np.maximum.reduceat(column, edges)
        drawn = np.asarray(pc.cast(pa.array(rng.choice(values[key], count)), pa.int64()))
        result[key] = float(np.mean([((low <= v) & (v <= high)).sum() * zone for v in drawn]))
    return result


def zone_rows(dataset: lance.LanceDataset) -> int:
    (rows,) = {
        segment["rows_per_zone"]
        for index in dataset.describe_indices()
        if index.index_type == "ZoneMap"
        for segment in dataset.stats.index_stats(index.name)["segments"]
    }
    return rows


def skipping(folder: Path, rows: int, targets: list[int]) -> None:
    source = folder / "source.lance"
    table = lance.dataset(str(source)).to_table(columns=KEYS)
    sample = np.random.default_rng(3).choice(len(table), 100_000, replace=False)
    values = {
        "user_id": table["user_id"].take(sample).to_pylist(),
        "event_time": table["event_time"].take(sample).to_pylist(),
    }
    asked = questions(values, 100)
    ordered = perfect_order(source)
    before = multiset(source)
    print(
        "| dataset | fragments F | user_id = | event_time = | mean / sqrt(F) | rows, user_id = | rows, event_time = |"
        " rows of a zone | of perfect zones | user_id 1 %: fragments, rows | event_time 1 % | box 10 % |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for target in targets:
        for name, options in (
            ("as appended", None),
            ("one sort", []),
            ("a sort per stretch", ["--sort-scope", "group"]),
        ):
            path = folder / "work.lance"
            shutil.rmtree(path, ignore_errors=True)
            shutil.copytree(source, path)
            thalweg("set", str(path), "--columns", ",".join(KEYS))
            if options is None:
                dataset = lance.dataset(str(path))
                for key in KEYS:
                    dataset.create_scalar_index(key, index_type="ZONEMAP")
            else:
                report = thalweg("optimize", str(path), "--target-rows-per-fragment", str(target), *options)
                assert report["outcome"] == "committed", report
                if multiset(path) != before:
                    sys.exit("rows were lost or changed")
                again = thalweg("optimize", str(path), "--target-rows-per-fragment", str(target))
                if not options and again["outcome"] != "nothing-to-do":
                    sys.exit(f"a second run did something: {again}")
            fragments = len(lance.dataset(str(path)).get_fragments())
            found = measure(path, asked)
            mean = statistics.fmean(found[key][0] for key in KEYS) / math.sqrt(fragments)
            zone = zone_rows(lance.dataset(str(path)))
            perfect = perfect_rows(ordered, values, 100, zone)
            ratio = statistics.fmean(found[key][1] / perfect[key] for key in KEYS)
            others = (f"{found[name][0]:.1f}, {found[name][1]:,.0f}" for name in asked if name not in KEYS)
            print(
                f"| {name}, target {target:,} | {fragments} | {found['user_id'][0]:.1f} | "
                f"{found['event_time'][0]:.1f} | "
                f"{mean:.2f} | {found['user_id'][1]:,.0f} | {found['event_time'][1]:,.0f} | {zone:,} | {ratio:.2f} | "
                f"{' | '.join(others)} |",
                flush=True,
            )


def timed(action) -> float:
    os.sync()
    start = time.monotonic()
    action()
    return time.monotonic() - start


def speed(folder: Path, targets: list[int], repeats: int) -> None:
    source = folder / "source.lance"
    seconds = {}
    append = folder / "append.parquet"
    pq.write_table(batch(np.random.default_rng(5), 0, 1, 2_000_000), append)
    for _ in range(repeats):
        for target in targets:
            for name in ("thalweg optimize", "pylance compact_files"):
                path = folder / "work.lance"
                shutil.rmtree(path, ignore_errors=True)
                shutil.copytree(source, path)
                if name.startswith("thalweg"):
                    thalweg("set", str(path), "--columns", ",".join(KEYS))
                    took = timed(lambda: thalweg("optimize", str(path), "--target-rows-per-fragment", str(target)))  # noqa: B023
                else:
                    code = (
                        f"import lance; lance.dataset({str(path)!r}).optimize.compact_files("
                        f"target_rows_per_fragment={target})"
                    )
                    took = timed(lambda: subprocess.run([sys.executable, "-c", code], check=True))  # noqa: B023
                seconds.setdefault(f"{name}, target {target:,}", []).append(took)
        path = folder / "append.lance"
        for name in ("thalweg write (clustered)", "pylance append"):
            shutil.rmtree(path, ignore_errors=True)
            lance.write_dataset(batch(np.random.default_rng(6), 0, 1, 1000), str(path))
            if name.startswith("thalweg"):
                thalweg("set", str(path), "--columns", ",".join(KEYS))
                took = timed(lambda: thalweg("write", str(path), str(append)))  # noqa: B023
            else:
                code = (
                    f"import lance, pyarrow.parquet as pq; "
                    f"lance.write_dataset(pq.read_table({str(append)!r}), {str(path)!r}, mode='append')"
                )
                took = timed(lambda: subprocess.run([sys.executable, "-c", code], check=True))  # noqa: B023
            seconds.setdefault(f"{name}, 2,000,000 rows", []).append(took)
    print("\n| job (wall seconds of the whole process) | least | median | most |\n|---|---|---|---|")
    for name, all_of in seconds.items():
        print(f"| {name} | {min(all_of):.2f} | {statistics.median(all_of):.2f} | {max(all_of):.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/thalweg-benchmark"))
    parser.add_argument("--rows", type=int, default=8_000_000)
    parser.add_argument("--targets", type=int, nargs="+", default=[50_000, 200_000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=["skipping", "speed"])
    arguments = parser.parse_args()
    folder = arguments.folder.resolve() / f"lance-{arguments.rows}"
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "source.lance").exists():
        make(folder / "source.lance", arguments.rows)
    if arguments.only != "speed":
        skipping(folder, arguments.rows, arguments.targets)
    if arguments.only != "skipping":
        speed(folder, arguments.targets, arguments.repeats)


if __name__ == "__main__":
    main()
