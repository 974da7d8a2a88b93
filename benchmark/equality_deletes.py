"""Optimizes a table on which many equality-delete files lie, within a memory budget.

usage: equality_deletes.py [--folder FOLDER] [--rows 25000000] [--delete-files 500] [--keys 10000] [--memory 2GiB]

Makes the table (50 appends) and the delete files, one commit for all of them, runs `optimize`, and holds the rows that
are left against those that the generator knows to be live (their number, and the sum of their ids), by PyIceberg.
Prints time, peak resident memory and bytes; exits with 1 when rows differ or the budget plus 300 MiB was passed.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.snapshots import Operation
from pyiceberg.typedef import Record

ROOT = Path(__file__).parents[1]
sys.path += [str(ROOT / "test"), str(ROOT / "tools")]
from campaign_tools import AppendDeletes  # noqa: E402
from thalweg_test_tools import PROGRAM, clean_environment  # noqa: E402

APPENDS = 50
USERS = 20_000_000


def make_table(folder: Path, rows: int, delete_files: int, keys: int) -> tuple[SqlCatalog, int, int]:
    """The catalog with the table db.events; how many rows are live, and the sum of their ids."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")
    catalog.create_namespace("db")
    rng = np.random.default_rng(25)
    deleted = rng.choice(USERS, delete_files * keys, replace=False)
    gone = np.zeros(USERS, bool)
    gone[deleted] = True
    schema = pa.schema(
        [("id", pa.int64()), ("user_id", pa.int64()), ("event_time", pa.timestamp("us")), ("text", pa.string())]
    )
    table = catalog.create_table("db.events", schema=schema)
    live = total = 0
    for first in range(0, rows, rows // APPENDS):
        ids = np.arange(first, min(rows, first + rows // APPENDS))
        users = rng.integers(0, USERS, len(ids))
        times = 1_767_225_600_000_000 + rng.integers(0, 90 * 86_400_000_000, len(ids))
        texts = pa.array(ids).cast(pa.string())
        table.append(pa.table([ids, users, pa.array(times, pa.timestamp("us")), texts], schema=schema))
        kept = ids[~gone[users]]
        live, total = live + len(kept), total + int(kept.sum())
    field = pa.field("user_id", pa.int64(), metadata={"PARQUET:field_id": "2"})
    with table.transaction() as transaction:
        with AppendDeletes(operation=Operation.OVERWRITE, transaction=transaction, io=table.io) as producer:
            for number in range(delete_files):
                location = f"{table.location()}/data/{number:05}-deletes.parquet"
                local = location.removeprefix("file://")
                part = deleted[number * keys : (number + 1) * keys]
                pq.write_table(pa.table([part], schema=pa.schema([field])), local)
                file = DataFile.from_args(
                    content=DataFileContent.EQUALITY_DELETES,
                    file_path=location,
                    file_format=FileFormat.PARQUET,
                    partition=Record(),
                    record_count=keys,
                    file_size_in_bytes=os.path.getsize(local),
                    equality_ids=[2],
                )
                file.spec_id = 0
                producer.append_data_file(file)
    return catalog, live, total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "benchmark" / "equality-deletes")
    parser.add_argument("--rows", type=int, default=25_000_000)
    parser.add_argument("--delete-files", type=int, default=500)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--memory", default="2GiB")
    arguments = parser.parse_args()
    catalog, live, total = make_table(arguments.folder, arguments.rows, arguments.delete_files, arguments.keys)
    environment = clean_environment(
        arguments.folder,
        PYICEBERG_CATALOG__LAKE__URI=f"sqlite:///{arguments.folder}/catalog.db",
        PYICEBERG_CATALOG__LAKE__WAREHOUSE=f"file://{arguments.folder}/warehouse",
    )

    def thalweg(*command: str) -> dict:
        done = subprocess.run(
            [str(PROGRAM), *command, "--json"], env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        return json.loads(done.stdout)

    thalweg("set", "lake.db.events", "--columns", "user_id,event_time")
    report = thalweg("optimize", "lake.db.events", "--memory", arguments.memory)
    table = catalog.load_table("db.events")
    count = ids = 0
    for batch in table.scan(selected_fields=("id",)).to_arrow_batch_reader():
        count, ids = count + batch.num_rows, ids + batch["id"].to_numpy().sum()
    left = table.current_snapshot().summary["total-delete-files"]
    peak = report["peak_memory_bytes"]
    print(f"{arguments.rows:,} rows, {arguments.delete_files} x {arguments.keys:,} deleted keys, {arguments.memory}")
    print(f"{report['seconds']:.1f} s, peak {peak / 2**20:,.0f} MiB, spilled {report['spill_bytes'] / 2**20:,.0f} MiB")
    print(f"{count:,} rows of {live:,} live; {left} delete files left")
    budget = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[arguments.memory[-3:]] * int(arguments.memory[:-3])
    sys.exit((count, ids, left) != (live, total, "0") or peak > budget + 300 * 2**20)


if __name__ == "__main__":
    main()
