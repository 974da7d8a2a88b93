"""DuckDB with the extensions that its wheels ship, for the tests, the demo and the benchmarks."""

import importlib.util
from pathlib import Path

import duckdb


def connect(**config) -> duckdb.DuckDBPyConnection:
    """A connection that reads Avro files and Iceberg tables; `config` as duckdb.connect takes it."""
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"} | config)
    for name in ("avro", "iceberg"):  # in this order: the second needs the first
        (folder,) = importlib.util.find_spec(f"duckdb_extension_{name}").submodule_search_locations
        connection.execute(f"LOAD '{next(Path(folder).rglob(f'{name}.duckdb_extension'))}'")
    return connection
