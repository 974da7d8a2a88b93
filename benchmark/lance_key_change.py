"""A key change on a large Lance dataset that converges in bounded runs, with queries running throughout.

usage: lance_key_change.py [--folder FOLDER] [--rows 10000000] [--target 200000]

Clusters a dataset by user_id and event_time, declares url and event_time instead, and runs `optimize` under
`--max-source-bytes` of a tenth of the dataset until nothing is left to do. A reader asks the same questions all the
while and compares the answers with those before. Prints the number of runs, the bytes that each read, and the depth
(fragments that an equality is expected to open, mean over the keys) reached beside that of one full sort. Exits with 1
when an answer differs, when a run reads more than its budget, or when more than 12 runs are needed.
"""

import argparse
import json
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import lance
from lance_quality import make, multiset

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "build" / "bin" / "thalweg"
QUESTIONS = [
    "user_id < 1000",
    "url > 'https://www.example.com/shop/catalogue/it4' "
    "AND event_time >= timestamp '2026-02-01 00:00:00' AND event_time < timestamp '2026-02-03 00:00:00'",
    "country = 'AA' AND user_id % 1000 = 7",
]


def thalweg(*arguments: str) -> dict:
    done = subprocess.run([str(PROGRAM), *arguments, "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def answers(path: Path) -> list[int]:
    dataset = lance.dataset(str(path))
    return [dataset.count_rows(filter=question) for question in QUESTIONS]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/thalweg-benchmark"))
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--target", type=int, default=200_000)
    arguments = parser.parse_args()
    folder = arguments.folder.resolve() / f"key-change-{arguments.rows}"
    folder.mkdir(parents=True, exist_ok=True)
    path, whole = folder / "events.lance", folder / "whole.lance"
    target = ["--target-rows-per-fragment", str(arguments.target)]
    make(path, arguments.rows)
    thalweg("set", str(path), "--columns", "user_id,event_time")
    thalweg("optimize", str(path), *target)
    rows, expected = multiset(path), answers(path)
    shutil.rmtree(whole, ignore_errors=True)
    shutil.copytree(path, whole)
    thalweg("set", str(path), "--columns", "url,event_time")
    budget = thalweg("status", str(path))["bytes"] // 10

    stop, asked, wrong = threading.Event(), [0], []

    def ask() -> None:
        while not stop.is_set():
            asked[0] += 1
            if (found := answers(path)) != expected:
                wrong.append(found)

    reader = threading.Thread(target=ask)
    reader.start()
    runs = []
    try:
        while (report := thalweg("optimize", str(path), "--max-source-bytes", str(budget), *target))[
            "outcome"
        ] == "committed":
            runs.append(report)
    finally:
        stop.set()
        reader.join()
    status = thalweg("status", str(path))
    thalweg("set", str(whole), "--columns", "url,event_time")
    thalweg("optimize", str(whole), *target)
    full = thalweg("status", str(whole))
    print(f"budget {budget:,} bytes a run; {len(runs)} runs read {[run['source_bytes'] for run in runs]} bytes")
    print(f"at the end: {report['reason']}; health {status['health']}")
    print(f"the reader asked {asked[0]} times, {len(wrong)} wrong answers")
    for name, reached in (("bounded runs", status), ("one full sort", full)):
        print(f"depth after {name}: {reached['depth']:.2f} of {reached['units']} fragments")
    if wrong or len(runs) > 12 or any(run["source_bytes"] > budget for run in runs) or multiset(path) != rows:
        sys.exit("this is a fault")


if __name__ == "__main__":
    main()
