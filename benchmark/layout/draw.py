"""Draws what thalweg-layout-benchmark prints: relative depth against what is written, one panel a workload.

usage: thalweg-layout-benchmark | draw.py OUT.svg

Both axes are logarithmic; each is better to the left and below. Settings of one policy are joined by a line. Prints the
same figures as a Markdown table.
"""

import math
import re
import sys

WIDTH, HEIGHT, COLUMNS = 250, 190, 4
LEFT, TOP, GAP_X, GAP_Y = 46, 92, 40, 54
X_RANGE, Y_RANGE = (0.5, 45), (0.65, 16)
X_TICKS, Y_TICKS = (0.5, 1, 2, 5, 10, 20), (1, 1.5, 2, 3, 5, 10)
# Policies by how their names begin, with the class of their marks.
FAMILIES = {
    "full re-sort": "full",
    "cubes sealed": "size",
    "depth sweep": "sweep",
    "overlap": "overlap",
}
LEGEND = {
    "overlap": "overlap (θ 0.5, 0.42, 0.35)",
    "default": "its default",
    "size": "cubes sealed by size (1/4, 1/10, 1/32 of the table)",
    "sweep": "depth sweep",
    "full": "full re-sort each time",
}
STYLE = (
    "text{fill:#777}.title{font-weight:bold}.frame{fill:none;stroke:#999}.grid{stroke:#999;stroke-opacity:.25}"
    ".overlap{fill:#2a78b8;stroke:#2a78b8}.default{fill:#d1495b;stroke:#d1495b}.size{fill:#e09f3e;stroke:#e09f3e}"
    ".sweep{fill:#6a994e;stroke:#6a994e}.full{fill:#888;stroke:#888}polyline{fill:none!important;stroke-width:1.5;"
    "stroke-opacity:.6}.equal{fill-opacity:.25}.axis{text-anchor:middle}.tick{font-size:10px}"
)


def read(lines) -> dict[str, list[tuple[str, str, float, float]]]:
    """Of each workload the (policy, appends, relative depth, written)."""
    workloads: dict[str, list] = {}
    rows: list = []
    for line in lines:
        row = re.fullmatch(r"  (.+?) +(stock|clustered) +([\d.]+)x +([\d.]+) written\s*", line)
        if row and "hard cap" not in row[1]:
            rows.append((row[1], row[2], float(row[3]), float(row[4])))
        elif not row and line.strip():
            rows = workloads[line.strip()] = []
    return workloads


def place(value: float, within: tuple[float, float], size: int) -> float:
    low, high = (math.log(bound) for bound in within)
    return size * (math.log(min(max(value, within[0]), within[1])) - low) / (high - low)


def family(policy: str) -> str:
    return next(style for begin, style in FAMILIES.items() if policy.startswith(begin))


def panel(title: str, rows: list, x0: float, y0: float) -> list[str]:
    lines = [f'<text x="{x0}" y="{y0 - 8}" class="title">{title}</text>']
    for tick in X_TICKS:
        x = x0 + place(tick, X_RANGE, WIDTH)
        lines.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y0}" y2="{y0 + HEIGHT}" class="grid"/>')
        lines.append(f'<text x="{x:.1f}" y="{y0 + HEIGHT + 13}" class="axis tick">{tick}</text>')
    for tick in Y_TICKS:
        y = y0 + HEIGHT - place(tick, Y_RANGE, HEIGHT)
        lines.append(f'<line x1="{x0}" x2="{x0 + WIDTH}" y1="{y:.1f}" y2="{y:.1f}" class="grid"/>')
        lines.append(f'<text x="{x0 - 5}" y="{y + 3:.1f}" text-anchor="end" class="tick">{tick}</text>')
    lines.append(f'<rect x="{x0}" y="{y0}" width="{WIDTH}" height="{HEIGHT}" class="frame"/>')
    curves: dict[tuple, list] = {}
    for policy, appends, relative, written in rows:
        equal = "equal cuts" in policy
        x, y = x0 + place(written, X_RANGE, WIDTH), y0 + HEIGHT - place(relative, Y_RANGE, HEIGHT)
        curves.setdefault((family(policy), equal, appends), []).append((x, y, policy))
    for (style, equal, appends), points in curves.items():
        if len(points) > 1:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in points)
            dashes = ' stroke-dasharray="3 3"' if appends == "clustered" else ""
            lines.append(f'<polyline points="{path}" class="{style}"{dashes}/>')
        for x, y, policy in points:
            chosen = "default" if "(default)" in policy else style
            if appends == "clustered" or equal:
                chosen += " equal"
            lines.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" class="{chosen}"/>')
    return lines


def draw(workloads: dict[str, list]) -> str:
    panels = math.ceil(len(workloads) / COLUMNS)
    width, height = LEFT + COLUMNS * (WIDTH + GAP_X), TOP + panels * (HEIGHT + GAP_Y) + 4
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="13">',
        f"<style>{STYLE}</style>",
        '<text x="10" y="18">Files opened by an equality, mean over time, relative to a full re-sort after each append '
        "(up), against rows written for each row appended (right)</text>",
    ]
    x = 14.0
    for style, text in LEGEND.items():
        lines.append(f'<circle cx="{x}" cy="36" r="4" class="{style}"/><text x="{x + 9}" y="40">{text}</text>')
        x += 36 + 7 * len(text)
    lines.append(
        f'<text x="10" y="62">Full marks: files cut as this program cuts them, plain appends; pale: equal cuts; pale '
        f"and dashed: clustered appends. What is below {X_RANGE[0]} is drawn at the border.</text>"
    )
    for number, (title, rows) in enumerate(workloads.items()):
        down, across = divmod(number, COLUMNS)
        title = re.sub(r", (\d+) appends.*", "", title)
        lines += panel(title, rows, LEFT + across * (WIDTH + GAP_X), TOP + down * (HEIGHT + GAP_Y))
    return "\n".join([*lines, "</svg>"]) + "\n"


def tables(workloads: dict[str, list]) -> str:
    """For each size of tables a line for each policy, a column for each workload."""
    sizes: dict[str, list[str]] = {}
    for workload in workloads:
        sizes.setdefault(re.sub(r".*, (\d+ appends)", r"\1", workload), []).append(workload)
    texts = []
    for size, names in sizes.items():
        lines = [" | ".join([f"| {size}", *(name.removesuffix(f", {size}") for name in names)]) + " |"]
        lines.append("|---" * (len(names) + 1) + "|")
        for policy, appends, *_ in workloads[names[0]]:
            cells = []
            for name in names:
                relative, written = next(row[2:] for row in workloads[name] if row[:2] == (policy, appends))
                cells.append(f"{relative:.2f}x at {written:.2f}")
            shown = policy + (", clustered appends" if appends == "clustered" else "")
            lines.append(" | ".join([f"| {shown}", *cells]) + " |")
        texts.append("\n".join(lines))
    return "\n\n".join(texts)


def main() -> None:
    workloads = read(sys.stdin)
    with open(sys.argv[1], "w") as file:
        file.write(draw(workloads))
    print(tables(workloads))


if __name__ == "__main__":
    main()
