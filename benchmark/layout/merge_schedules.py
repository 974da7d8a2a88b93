"""The best schedules of merges for a table that grows by equal appends: what no policy that merges whole runs can beat.

usage: merge_schedules.py [--appends 64] [--keys 2] [--written 3.25 3.5 4 4.5 5]

After each append the table is a stack of runs; an append is sorted, alone or with the newest runs below it. Sorting
costs the rows of what it writes; a run of m rows opens m^(1 - 1/N) files for an equality, as much as rows that lie
evenly over N keys let it. For a price on what is written, dynamic programming over the bottom run of the stack gives
the schedule with the least sum of both; for each of --written the price is searched. Printed is the mean over time of
what is opened, relative to one run of everything after each append, and the rows written for each row appended.
"""

import argparse
from functools import cache


def best_schedule(appends: int, keys: int, price: float) -> tuple[float, float]:
    """Opened (summed over time) and written (rows, in appends) of the best schedule at this price."""

    def opened(rows: int) -> float:
        return rows ** (1 - 1 / keys)

    def weigh(cost: tuple[float, float]) -> float:
        return cost[0] + price * cost[1]

    @cache
    def from_empty(count: int) -> tuple[float, float]:
        """The least for `count` appends that begin on an empty table, or on runs that stay as they are."""
        best: list[tuple[float, float]] = [(0.0, 0.0)] * (count + 1)
        for bottom in range(count, 0, -1):
            # The bottom run holds the first `bottom` appends: until the end, or until it is merged at the append
            # `merged`; in between the rest above it is a table of its own.
            above = from_empty(count - bottom)
            choices = [(opened(bottom) * (count - bottom + 1) + above[0], above[1])]
            for merged in range(bottom + 1, count + 1):
                above, later = from_empty(merged - bottom - 1), best[merged]
                held = opened(bottom) * (merged - bottom)
                choices.append((held + above[0] + later[0], above[1] + merged + later[1]))
            best[bottom] = min(choices, key=weigh)
        return (best[1][0], best[1][1] + 1) if count else (0.0, 0.0)

    return from_empty(appends)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--appends", type=int, default=64)
    parser.add_argument("--keys", type=int, default=2)
    parser.add_argument("--written", type=float, nargs="+", default=[3.25, 3.5, 4, 4.5, 5])
    arguments = parser.parse_args()
    full = sum(count ** (1 - 1 / arguments.keys) for count in range(1, arguments.appends + 1))
    for wanted in arguments.written:
        low, high = 0.0, 10.0  # of the price: the higher, the less is written
        for _ in range(30):
            price = (low + high) / 2
            opened, written = best_schedule(arguments.appends, arguments.keys, price)
            low, high = (price, high) if written / arguments.appends > wanted else (low, price)
        opened, written = best_schedule(arguments.appends, arguments.keys, high)
        print(f"{arguments.keys} keys: {opened / full:.2f}x at {written / arguments.appends:.2f} written")


if __name__ == "__main__":
    main()
