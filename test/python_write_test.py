"""Data into the package: whatever gives an Arrow stream, read once and batch by batch."""

import duckdb
import lance
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import thalweg
from table_readers import multiset
from thalweg_test_tools import make_rows

KEYS = ["user_id", "event_time"]
ROWS = make_rows(1000, 3)


class Foreign:
    """Something of a library that nobody here knows."""

    def __init__(self, rows: pa.Table):
        self.rows = rows

    def __arrow_c_stream__(self, requested_schema=None):
        return self.rows.__arrow_c_stream__(requested_schema)


def relation(rows: pa.Table):
    return duckdb.connect().from_arrow(rows)


SOURCES = {
    "table": lambda rows: rows,
    "reader": lambda rows: rows.to_reader(max_chunksize=100),
    "batch": lambda rows: rows.combine_chunks().to_batches()[0],
    "dataset": lambda rows: pa.dataset.dataset(rows),
    "polars": pl.from_arrow,
    "pandas": lambda rows: rows.to_pandas(types_mapper=pd.ArrowDtype),
    "duckdb": relation,
    "foreign": Foreign,
}


def read(uri: str) -> pa.Table:
    if uri.endswith(".lance"):
        return lance.dataset(uri).to_table()
    return duckdb.sql(f"SELECT * FROM '{uri}/data/**/*.parquet'").to_arrow_table()


@pytest.mark.parametrize("ending", ["", ".lance"])
@pytest.mark.parametrize("source", SOURCES)
def test_rows_of_any_library_are_written(tmp_path, source, ending):
    import pyarrow.dataset  # noqa: F401  (pa.dataset)

    uri = str(tmp_path / f"events{ending}")
    done = thalweg.write_dataset(SOURCES[source](ROWS), uri, cluster_by=KEYS)
    assert (done["outcome"], done["rows"]) == ("committed", 1000)
    assert multiset(read(uri).select(ROWS.schema.names).cast(ROWS.schema)) == multiset(ROWS)


def test_files_are_written_by_their_paths(tmp_path):
    pq.write_table(ROWS.slice(0, 400), tmp_path / "a.parquet")
    pq.write_table(ROWS.slice(400), tmp_path / "b.parquet")
    thalweg.write_dataset([tmp_path / "a.parquet", str(tmp_path / "b.parquet")], tmp_path / "events", cluster_by=KEYS)
    thalweg.write_dataset(tmp_path / "a.parquet", tmp_path / "events", mode="append")
    expected = multiset(pa.concat_tables([ROWS, ROWS.slice(0, 400)]))
    assert multiset(read(str(tmp_path / "events")).select(ROWS.schema.names)) == expected


def test_a_stream_is_read_batch_by_batch(tmp_path):
    made = []

    def batches():
        for number in range(200):
            made.append(number)
            yield pa.record_batch({"a": range(number * 1000, number * 1000 + 1000), "b": [number] * 1000})

    schema = pa.schema({"a": pa.int64(), "b": pa.int64()})
    stream = pa.RecordBatchReader.from_batches(schema, batches())
    done = thalweg.write_dataset(stream, tmp_path / "events", cluster_by=["a", "b"], memory="16MiB")
    assert done["rows"] == 200_000 and made == list(range(200))


def test_a_stream_that_fails_leaves_no_rows(tmp_path):
    def batches():
        yield pa.record_batch({"a": [1, 2], "b": [3, 4]})
        raise OSError("the source went away")

    schema = pa.schema({"a": pa.int64(), "b": pa.int64()})
    thalweg.write_dataset(pa.table({"a": [7], "b": [8]}), tmp_path / "events", cluster_by=["a", "b"])
    with pytest.raises(thalweg.ThalwegError, match="the source went away"):
        stream = pa.RecordBatchReader.from_batches(schema, batches())
        thalweg.write_dataset(stream, tmp_path / "events", mode="append")
    assert read(str(tmp_path / "events")).num_rows == 1
    assert len(list((tmp_path / "events" / "data").rglob("*.parquet"))) == 1


def test_what_is_no_data_is_said(tmp_path):
    with pytest.raises(thalweg.UsageError, match="builtins.int gives no Arrow data"):
        thalweg.write_dataset(7, tmp_path / "events", cluster_by=KEYS)
    assert not (tmp_path / "events").exists()
    with pytest.raises(thalweg.UsageError, match='no column "x"'):
        thalweg.write_dataset(ROWS, tmp_path / "events", cluster_by=["x", "user_id"])
    assert not (tmp_path / "events").exists()
    thalweg.write_dataset(ROWS, tmp_path / "events", cluster_by=KEYS)
    with pytest.raises(thalweg.UsageError, match="exists already"):
        thalweg.write_dataset(ROWS, tmp_path / "events", cluster_by=KEYS)


def test_a_repeated_write_of_one_run_is_one_write(tmp_path):
    thalweg.write_dataset(ROWS, tmp_path / "events", cluster_by=KEYS, run_id="first")
    again = thalweg.write_dataset(ROWS, tmp_path / "events", cluster_by=KEYS, run_id="first")
    assert again["outcome"] == "already-committed"
    assert read(str(tmp_path / "events")).num_rows == 1000
