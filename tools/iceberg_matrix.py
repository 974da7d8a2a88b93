"""Prints the table of docs/iceberg.md from the report of test/iceberg_matrix_test.py: a row for each kind of table.

    .venv/bin/python tools/iceberg_matrix.py [build/reports/iceberg-matrix.json]

With --update it is put into docs/iceberg.md, between the two marks.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
REPORT = ROOT / "build" / "reports" / "iceberg-matrix.json"
DOCUMENT = ROOT / "docs" / "iceberg.md"
BEGIN, END = "<!-- matrix -->", "<!-- end of matrix -->"
READERS = ["PyIceberg", "DuckDB", "Spark"]


def cell(results: list[dict]) -> str:
    """What one reader saw of one kind."""
    refused = next((row["result"] for row in results if row["result"].startswith("refused")), None)
    if refused:
        return "refused"
    cannot = next((row["result"] for row in results if row["result"].startswith("cannot")), None)
    runs = sum(row["result"] == "equal" and row["operation"].startswith("optimize") for row in results)
    equal = f"equal after {runs} runs" if cannot else f"equal before and after {runs} runs"
    return f"{cannot.removeprefix('cannot read: ')} as written; {equal}" if cannot else equal


def render(report: list[dict]) -> str:
    lines = ["| kind of table | rows | " + " | ".join(READERS) + " |", "|---" * (2 + len(READERS)) + "|"]
    for kind in dict.fromkeys(row["kind"] for row in report):
        mine = [row for row in report if row["kind"] == kind]
        rows = sorted({row["rows"] for row in mine} - {None})
        cells = [cell([row for row in mine if row["reader"] == reader]) for reader in READERS]
        lines.append(f"| {kind} | {', '.join(f'{count:,}' for count in rows)} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    arguments = [argument for argument in sys.argv[1:] if argument != "--update"]
    table = render(json.loads(Path(arguments[0] if arguments else REPORT).read_text()))
    if "--update" not in sys.argv:
        print(table)
        return
    text = DOCUMENT.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    DOCUMENT.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}")


if __name__ == "__main__":
    main()
