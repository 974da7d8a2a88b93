"""Files that queries touch, from manifest bounds alone, as PyIceberg plans them.

usage: touch.py METADATA_JSON_OR_WAREHOUSE KEY…

An equality takes its value from a random row; a box is a window of 1 % or 10 % of the ranks on every key at once.
"""

import sys

import numpy as np
import pyarrow.compute as pc
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, LessThanOrEqual
from pyiceberg.table import StaticTable, Table

DRAWS = 60


def open_table(source: str) -> Table:
    if source.endswith(".json"):
        return StaticTable.from_metadata(source)
    catalog = SqlCatalog("local", uri=f"sqlite:///{source}/catalog.db", warehouse=f"file://{source}")
    return catalog.load_table("db.events")


def literal(scalar):
    value = scalar.as_py()
    return value.isoformat() if hasattr(value, "isoformat") else value


def measure(table: Table, keys: list[str]) -> dict:
    """Files, bytes, rows of the table; under "eq" by key and "box" by width the mean (files, share of rows) touched."""
    values = table.scan(selected_fields=tuple(keys)).to_arrow()
    count = values.num_rows
    files = [task.file for task in table.scan().plan_files()]
    rng = np.random.default_rng(1)

    def touched(expression):
        tasks = list(table.scan(row_filter=expression).plan_files())
        return len(tasks), sum(task.file.record_count for task in tasks) / count

    def mean(draws):
        return tuple(float(np.mean([draw[i] for draw in draws])) for i in range(2))

    equalities = {}
    for key in keys:
        rows = rng.integers(0, count, DRAWS)
        equalities[key] = mean([touched(EqualTo(key, literal(values[key][int(row)]))) for row in rows])
    ordered = {key: values[key].take(pc.sort_indices(values[key])) for key in keys}
    boxes = {}
    for width in (0.01, 0.1):
        draws = []
        for _ in range(DRAWS):
            box = None
            for key in keys:
                first = int(rng.integers(0, int(count * (1 - width))))
                low, high = ordered[key][first], ordered[key][first + int(count * width)]
                side = And(GreaterThanOrEqual(key, literal(low)), LessThanOrEqual(key, literal(high)))
                box = side if box is None else And(box, side)
            draws.append(touched(box))
        boxes[width] = mean(draws)
    return {
        "files": len(files),
        "bytes": sum(file.file_size_in_bytes for file in files),
        "rows": count,
        "eq": equalities,
        "box": boxes,
    }


def main() -> None:
    keys = sys.argv[2:]
    result = measure(open_table(sys.argv[1]), keys)
    print("files", result["files"], "bytes", result["bytes"], "rows", result["rows"])
    for kind in ("eq", "box"):
        for name, (files, rows) in result[kind].items():
            print(f"{kind} {name}: files {files:.2f} rows {100 * rows:.2f}%")


if __name__ == "__main__":
    main()
