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
    words = []
    for result in dict.fromkeys(row["result"] for row in results):
        operations = [row["operation"] for row in results if row["result"] == result]
        if result == "equal":
            after = [name for name in operations if name.startswith("optimize")]
            words.append(f"equal ({len(after)} runs)" if after else "equal")
        else:
            words.append(f"{result} ({', '.join(operations)})")
    return "; ".join(words)


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
