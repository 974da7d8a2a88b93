"""What PyIceberg, DuckDB and Spark read of a table, as multisets that can be compared with each other."""

import datetime
import decimal
import importlib.util
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import duckdb_engine
import pyarrow as pa
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table
from spark_tools import SparkCatalog
from thalweg_test_tools import local_path

EPOCH = datetime.datetime(1970, 1, 1)


def plain(value, kind: pa.DataType):
    """A value without what engines do differently: hashable, floats by their bits, times in nanoseconds."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return tuple((field.name, plain(value[field.name], field.type)) for field in kind)
    if pa.types.is_map(kind):
        pairs = value.items() if isinstance(value, dict) else value
        return frozenset((plain(key, kind.key_type), plain(item, kind.item_type)) for key, item in pairs)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return tuple(plain(item, kind.value_type) for item in value)
    if pa.types.is_floating(kind):
        return float(value).hex()
    if pa.types.is_timestamp(kind):
        return (value, kind.tz is not None)
    if isinstance(value, decimal.Decimal):
        return str(value)
    return value


def in_nanoseconds(column: pa.ChunkedArray) -> list:
    """Timestamps as numbers, which Python's own type would cut to microseconds."""
    scale = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[column.type.unit]
    return [None if value is None else value * scale for value in column.cast(pa.int64()).to_pylist()]


def multiset(rows: pa.Table) -> Counter:
    """The rows with the columns' names; the order of the columns counts, that of the rows does not."""
    names = tuple(rows.schema.names)
    columns = []
    for field, column in zip(rows.schema, rows.columns, strict=True):
        values = in_nanoseconds(column) if pa.types.is_timestamp(field.type) else column.to_pylist()
        columns.append([plain(value, field.type) for value in values])
    return Counter((names, row) for row in zip(*columns, strict=True))


def by_pyiceberg(table: Table, spark: SparkCatalog, name: str) -> pa.Table:
    return table.scan().to_arrow()


def by_duckdb(table: Table, spark: SparkCatalog, name: str) -> pa.Table:
    connection = duckdb_engine.connect()
    location = local_path(table.metadata_location)
    if location.startswith("s3://"):
        (folder,) = importlib.util.find_spec("duckdb_extension_httpfs").submodule_search_locations
        connection.execute(f"LOAD '{next(Path(folder).rglob('httpfs.duckdb_extension'))}'")
        given = table.io.properties
        connection.execute(
            f"CREATE SECRET (TYPE s3, KEY_ID '{given['s3.access-key-id']}', SECRET '{given['s3.secret-access-key']}', "
            f"REGION '{given['s3.region']}', ENDPOINT '{given['s3.endpoint'].removeprefix('http://')}', "
            "URL_STYLE 'path', USE_SSL false)"
        )
    return connection.execute(f"SELECT * FROM iceberg_scan('{location}')").to_arrow_table()


def by_spark(table: Table, spark: SparkCatalog, name: str) -> pa.Table:
    return spark.read(table=name)


def delete_files(table) -> list:
    """Live delete files, as the manifests describe them."""
    return [
        entry.data_file
        for manifest in table.current_snapshot().manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io)
        if entry.data_file.content != DataFileContent.DATA
    ]


Reader = Callable[[Table, SparkCatalog, str], pa.Table]
READERS: dict[str, Reader] = {"PyIceberg": by_pyiceberg, "DuckDB": by_duckdb, "Spark": by_spark}
