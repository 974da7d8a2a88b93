"""The demo on Lance datasets: the real data of tools/demo.py, clustered, then asked by pylance before and after.

Run it as `make demo-lance`. Everything goes to build/demo-lance; nothing outside of it is touched.
"""

import re
import shutil
import sys
import time

import demo
import lance
import pyarrow as pa

FOLDER = demo.ROOT / "build" / "demo-lance"


def counter(plan: str, name: str) -> int:
    """A counter of an analysed plan; it writes large ones as "268.7 K"."""
    number, unit = re.search(rf"{name}=([\d.]+) ?([KMG]?)", plan).groups()
    return round(float(number) * {"": 1, "K": 10**3, "M": 10**6, "G": 10**9}[unit])


def ask(dataset: lance.LanceDataset, sql_filter: str) -> tuple[tuple, int, int]:
    """The number of rows and the sum of a number over them; the fragments and the rows that Lance scanned for it."""
    numbers = [f.name for f in dataset.schema if pa.types.is_integer(f.type) or pa.types.is_floating(f.type)]
    rows = dataset.to_table(filter=sql_filter, columns=numbers[:1])
    answer = rows.num_rows, sum(value or 0 for value in rows.column(0).to_pylist())
    plan = dataset.scanner(filter=sql_filter, columns=numbers[:1]).analyze_plan()
    return answer, counter(plan, "fragments_scanned"), counter(plan, "rows_scanned")


def cluster(name: str, parts: list[pa.Table], columns: str, rows: str, questions: dict[str, str]) -> None:
    path = str(FOLDER / f"{name}.lance")
    for number, part in enumerate(parts):
        lance.write_dataset(part, path, mode="append" if number else "create")
    demo.thalweg("set", path, "--columns", columns)
    dataset = lance.dataset(path)
    before = {title: ask(dataset, question) for title, question in questions.items()}
    fragments = len(dataset.get_fragments())
    demo.thalweg("optimize", path, "--target-rows-per-fragment", rows)
    demo.thalweg("status", path)
    dataset = lance.dataset(path)
    after = {title: ask(dataset, question) for title, question in questions.items()}
    left = len(dataset.get_fragments())
    demo.say(f"{name}: the same queries before and after (of {fragments} and of {left} fragments)")
    print(f"{'query':38} {'rows':>7}   {'fragments scanned':>17}   {'rows scanned':>24}   same answer")
    for title in questions:
        old, new = before[title], after[title]
        fragments_read, rows_read = f"{old[1]} → {new[1]}", f"{old[2]:,} → {new[2]:,}"
        same = "yes" if old[0] == new[0] else "NO"
        print(f"{title:38} {old[0][0]:>7}   {fragments_read:>17}   {rows_read:>24}   {same}")
        if old[0] != new[0]:
            sys.exit("the answers differ: this is a fault in Thalweg")
    demo.report(path, FOLDER / f"{name}.html")


def main() -> None:
    start = time.monotonic()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    demo.FOLDER = FOLDER
    demo.say("1. Flights from New York in 2013, appended month by month")
    cluster(
        "flights",
        demo.flights(),
        "dest,time_hour",
        "20000",
        {
            "to Honolulu": "dest = 'HNL'",
            "on one day": "time_hour >= timestamp '2013-03-08 00:00:00' "
            "AND time_hour < timestamp '2013-03-09 00:00:00'",
            "to Denver in the first week of July": "dest = 'DEN' AND time_hour >= timestamp '2013-07-01 00:00:00' "
            "AND time_hour < timestamp '2013-07-08 00:00:00'",
        },
    )
    demo.say("2. TPC-H lineitem, 6,001,215 rows in ten appends")
    cluster(
        "lineitem",
        demo.lineitem(),
        "l_shipdate,l_partkey",
        "200000",
        {
            "one part": "l_partkey = 155190",
            "shipped in one week": "l_shipdate >= date '1995-03-01' AND l_shipdate < date '1995-03-08'",
            "some parts in one quarter": "l_partkey >= 10000 AND l_partkey < 12000 "
            "AND l_shipdate >= date '1996-01-01' AND l_shipdate < date '1996-04-01'",
        },
    )
    demo.say(f"Done in {time.monotonic() - start:.0f} s. The datasets are in {FOLDER.relative_to(demo.ROOT)}.")


if __name__ == "__main__":
    main()
