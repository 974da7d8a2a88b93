"""Draws the boxes of a table's files over two keys, before and after, as an SVG picture.

usage: draw_boxes.py BEFORE.metadata.json AFTER.metadata.json KEY KEY OUT.svg

Both axes are ranks: the share of the table's rows below a value. Bounds are the ones in the manifests.
"""

import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import from_bytes
from pyiceberg.table import StaticTable, Table

SIDE, GAP, TOP = 400, 60, 40


def ranks(table: Table, key: str):
    """A function from a stored bound (as an integer of the column's physical type) to its share of rows below."""
    values = np.sort(pc.cast(table.scan(selected_fields=(key,)).to_arrow()[key], pa.int64()).to_numpy())
    return lambda value, side: np.searchsorted(values, value, side=side) / len(values)


def boxes(table: Table, keys: list[str], scales) -> list[tuple[float, float, float, float]]:
    fields = [table.schema().find_field(key) for key in keys]
    found = []
    for task in table.scan().plan_files():
        sides = []
        for field, scale in zip(fields, scales, strict=True):
            low = from_bytes(field.field_type, task.file.lower_bounds[field.field_id])
            high = from_bytes(field.field_type, task.file.upper_bounds[field.field_id])
            sides += [float(scale(low, "left")), float(scale(high, "right"))]
        found.append(tuple(sides))
    return found


def panel(title: str, found, x0: int, keys: list[str]) -> list[str]:
    lines = [f'<text x="{x0}" y="{TOP - 14}" class="title">{title}</text>']
    lines.append(f'<rect x="{x0}" y="{TOP}" width="{SIDE}" height="{SIDE}" class="frame"/>')
    for left, right, bottom, top in found:
        lines.append(
            f'<rect x="{x0 + left * SIDE:.1f}" y="{TOP + (1 - top) * SIDE:.1f}" width="{(right - left) * SIDE:.1f}" '
            f'height="{(top - bottom) * SIDE:.1f}" class="box"/>'
        )
    lines.append(f'<text x="{x0 + SIDE / 2}" y="{TOP + SIDE + 22}" class="axis">{keys[0]} (rank)</text>')
    middle = TOP + SIDE / 2
    lines.append(
        f'<text x="{x0 - 12}" y="{middle}" class="axis" transform="rotate(-90 {x0 - 12} {middle})">'
        f"{keys[1]} (rank)</text>"
    )
    return lines


def main() -> None:
    before, after = (StaticTable.from_metadata(path) for path in sys.argv[1:3])
    keys, out = sys.argv[3:5], sys.argv[5]
    scales = [ranks(after, key) for key in keys]
    drawn = [boxes(table, keys, scales) for table in (before, after)]
    width, height = 2 * SIDE + 2 * GAP, TOP + SIDE + 40
    svg = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        'font-family="sans-serif" font-size="14">',
        "<style>.frame{fill:#fff;stroke:#888}.box{fill:#2a78b8;fill-opacity:.1;stroke:#1b5583;stroke-width:1}"
        ".title{font-weight:bold;fill:#777}.axis{text-anchor:middle;fill:#777}</style>",
    ]
    titles = [f"before: {len(drawn[0])} files, as appended", f"after: {len(drawn[1])} files, clustered"]
    for number, (title, found) in enumerate(zip(titles, drawn, strict=True)):
        svg += panel(title, found, GAP // 2 + 10 + number * (SIDE + GAP), keys)
    svg.append("</svg>")
    with open(out, "w") as file:
        file.write("\n".join(svg) + "\n")


if __name__ == "__main__":
    main()
