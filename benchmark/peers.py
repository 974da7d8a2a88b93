"""One contender of benchmark/run.py, as a process of its own: peers.py NAME INPUT_LIST OUTPUT_FOLDER

INPUT_LIST is a text file with one Parquet path a line. All write zstd level 3 with two threads.
"""

import shutil
import sys
from pathlib import Path

DUCKDB_COPY = (
    "COPY (SELECT * FROM read_parquet({files}) {order}) TO '{folder}' "
    "(FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 3, FILE_SIZE_BYTES '8MB')"
)


def z_order(bits: int = 16) -> str:
    """An interleaving of both keys' top bits, each scaled from its minimum to its maximum, as a SQL expression."""
    top = (1 << bits) - 1
    user = f"((user_id - lo_u) * {top} // greatest(hi_u - lo_u, 1))"
    time = f"((epoch_us(event_time) - lo_t) * {top} // greatest(hi_t - lo_t, 1))"
    terms = [
        f"((({key} >> {bit}) & 1) << {2 * bit + shift})" for bit in range(bits) for key, shift in ((user, 1), (time, 0))
    ]
    return " + ".join(terms)


def duckdb_run(files: list[str], folder: str, kind: str) -> None:
    import duckdb

    connection = duckdb.connect(config={"threads": 2})
    listed = "[" + ",".join(f"'{file}'" for file in files) + "]"
    if kind == "duckdb-order-by":
        connection.execute("SET memory_limit = '1GB'")
        connection.execute(f"SET temp_directory = '{folder}.tmp'")
        connection.execute(DUCKDB_COPY.format(files=listed, order="ORDER BY user_id, event_time", folder=folder))
    elif kind == "duckdb-copy":
        connection.execute(DUCKDB_COPY.format(files=listed, order="", folder=folder))
    else:
        connection.execute(
            f"COPY (SELECT e.* FROM read_parquet({listed}) e, (SELECT min(user_id) lo_u, max(user_id) hi_u, "
            f"epoch_us(min(event_time)) lo_t, epoch_us(max(event_time)) hi_t FROM read_parquet({listed})) "
            f"ORDER BY {z_order()}) TO '{folder}' "
            "(FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 3, FILE_SIZE_BYTES '8MB')"
        )
    shutil.rmtree(f"{folder}.tmp", ignore_errors=True)


def arrow_run(files: list[str], folder: str) -> None:
    """Reads and writes every file as it is: what no sort can be faster than."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pa.set_cpu_count(2)
    Path(folder).mkdir(parents=True)
    for number, file in enumerate(files):
        table = pq.read_table(file)
        pq.write_table(table, f"{folder}/{number}.parquet", compression="zstd", compression_level=3)


def main() -> None:
    kind, inputs, folder = sys.argv[1:]
    files = Path(inputs).read_text().split()
    if kind == "arrow-copy":
        arrow_run(files, folder)
    else:
        duckdb_run(files, folder, kind)


if __name__ == "__main__":
    main()
