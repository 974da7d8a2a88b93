"""Parquet data files: pyarrow, DuckDB and PyIceberg read what Thalweg writes, and Thalweg reads what they write.

The program thalweg_iceberg_test in $THALWEG_BIN (default: build/bin) writes and reads the files: its ParquetInterop.
"""

import datetime as dt
import decimal
import json
import math
import os
import uuid

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import (
    ArrowScan,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask
from pyiceberg.typedef import Record
from thalweg_test_tools import needs_interop, run_interop

D = decimal.Decimal
EPOCH = dt.datetime(1970, 1, 1)

pytestmark = needs_interop


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parquet")
    run_interop("ParquetInterop.WritesAllTypes", folder)
    return folder


def micros(n):
    return EPOCH + dt.timedelta(microseconds=n)


# The rows of kAllRows in src/iceberg/parquet_test_util.h; each stands twice in the file.
EXPECTED = {
    "b": [True, False, None, True],
    "i": [1, -1, None, 2147483647],
    "l": [10, -10, 0, 9223372036854775807],
    "f": [1.5, -0.0, math.nan, math.inf],
    "d": [-2.5, 0.0, math.nan, -math.inf],
    "dec9": [D("1.23"), D("-9999999.99"), None, D("0.00")],
    "dec18": [D("12345678901234.5678"), D("-0.0001"), None, D("0.0000")],
    "dec38": [
        D("-1234567890123456789012345678.0123456789"),
        D("9999999999999999999999999999.9999999999"),
        None,
        D("0.0000000000"),
    ],
    "day": [dt.date(1970, 1, 1) + dt.timedelta(19000), dt.date(1969, 12, 31), None, dt.date(1970, 1, 1)],
    "tod": [dt.time(1, 0, 0, 1), dt.time(0), None, dt.time(23, 59, 59, 999999)],
    "ts": [micros(1700000000123456), micros(-1), None, micros(0)],
    "tstz": [micros(1700000000123456), micros(-1), None, micros(0)],
    "s": ["größe", "", None, "𝄞 clef"],
    "u": [b"0123456789abcdef", b"ffffffffffffffff", None, b"AAAAAAAAAAAAAAAA"],
    "fx": [b"abc", b"zzz", None, b"aaa"],
    "bin": [b"xyz", b"", None, b"b"],
    "st": [{"x": 7, "y": "in"}, None, {"x": -8, "y": None}, {"x": 1, "y": ""}],
    "li": [[1, None, 3], [], None, [5]],
    "ma": [[("k", 1.5), ("m", None)], [], None, [("", 0.0)]],
    "empty": [None, None, None, None],
}


def plain(name, value):
    """Values of the readers in one form."""
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    if isinstance(value, float):
        return (value, math.copysign(1, value))
    if isinstance(value, uuid.UUID):
        return value.bytes
    if name == "tstz" and value is not None:
        return value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
    if name == "ma" and isinstance(value, dict):
        return list(value.items())
    return value


def check(columns):
    assert set(columns) == set(EXPECTED)
    for name, values in EXPECTED.items():
        assert [plain(name, v) for v in columns[name]] == [plain(name, v) for v in values * 2], name


def test_pyarrow_reads_the_values(written):
    check(pq.read_table(written / "all-types.parquet").to_pydict())


def test_duckdb_reads_the_values(written):
    connection = duckdb.connect()
    relation = connection.execute(
        f"select * replace (tstz at time zone 'UTC' as tstz) from read_parquet('{written}/all-types.parquet')"
    )
    names = [column[0] for column in relation.description]
    check(dict(zip(names, map(list, zip(*relation.fetchall(), strict=True)), strict=True)))


def field_ids(field):
    """Field ids by dotted path."""
    ids = {field.name: int(field.metadata[b"PARQUET:field_id"])}
    nested = field.type
    if pa.types.is_map(nested):
        children = [nested.key_field, nested.item_field]
    else:
        children = [nested.field(i) for i in range(nested.num_fields)]
    for child in children:
        ids |= {f"{field.name}.{path}": id for path, id in field_ids(child).items()}
    return ids


def test_footer(written):
    file = pq.ParquetFile(written / "all-types.parquet")
    ids = {}
    for field in file.schema_arrow:
        ids |= field_ids(field)
    assert sorted(ids.values()) == list(range(1, 26))
    assert (ids["b"], ids["st"], ids["st.y"], ids["li.element"], ids["ma.key"], ids["empty"]) == (1, 17, 19, 21, 23, 25)
    assert file.metadata.created_by.startswith("thalweg")
    assert file.metadata.metadata == {b"thalweg.run": b"r-1"}  # no ARROW:schema: everybody sees plain types
    group = file.metadata.row_group(0)
    for i in range(group.num_columns):
        chunk = group.column(i)
        assert chunk.has_offset_index and chunk.has_column_index and chunk.is_stats_set, chunk.path_in_schema
        assert chunk.compression == "ZSTD"
    physical = {file.schema.column(i).path: file.schema.column(i) for i in range(group.num_columns)}
    assert physical["dec9"].physical_type == "INT32"
    assert physical["dec18"].physical_type == "INT64"
    assert physical["dec38"].physical_type == "FIXED_LEN_BYTE_ARRAY"
    assert str(physical["u"].logical_type) == "UUID"
    assert "isAdjustedToUTC=false" in str(physical["ts"].logical_type)
    assert "isAdjustedToUTC=true" in str(physical["tstz"].logical_type)
    assert not physical["l"].max_definition_level  # required
    assert physical["li.list.element"].max_repetition_level == 1


def test_metrics_equal_those_of_pyiceberg(written):
    schema = Schema.model_validate_json((written / "all-types.schema.json").read_text())
    ours = json.loads((written / "all-types.json").read_text())
    metadata = pq.read_metadata(written / "all-types.parquet")
    statistics = data_file_statistics_from_parquet_metadata(
        metadata,
        stats_columns=compute_statistics_plan(schema, {}),
        parquet_column_mapping=parquet_path_to_id_mapping(schema),
    ).to_serialized_dict()
    assert ours["record_count"] == statistics["record_count"] == 8
    assert ours["split_offsets"] == statistics["split_offsets"]
    for key in ("column_sizes", "value_counts", "null_value_counts"):
        assert {int(k): v for k, v in ours[key].items()} == statistics[key], key
    for key in ("lower_bounds", "upper_bounds"):
        # PyIceberg has no bounds below structs; ours are st.x and st.y.
        top_level = {int(k): v for k, v in ours[key].items() if int(k) not in (18, 19)}
        assert top_level == {k: v.hex() for k, v in statistics[key].items()}, key
    assert {k: ours["lower_bounds"][k] for k in ("18", "19")} == {"18": "f8ffffff", "19": ""}
    assert {k: ours["upper_bounds"][k] for k in ("18", "19")} == {"18": "07000000", "19": b"in".hex()}
    assert ours["nan_value_counts"] == {"4": 2, "5": 2}
    assert ours["file_size_in_bytes"] == (written / "all-types.parquet").stat().st_size
    assert ours["sort_order_id"] == 0


def test_pyiceberg_reads_the_values(written, tmp_path):
    schema = Schema.model_validate_json((written / "all-types.schema.json").read_text())
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", schema=schema)
    # A new table numbers its fields itself; the scan goes by the ids of the file.
    data_file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{written}/all-types.parquet",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=8,
        file_size_in_bytes=(written / "all-types.parquet").stat().st_size,
    )
    data_file.spec_id = 0
    metadata = table.metadata.model_copy(update={"schemas": [schema], "current_schema_id": schema.schema_id})
    read = ArrowScan(metadata, table.io, schema, AlwaysTrue()).to_table([FileScanTask(data_file)])
    check(read.to_pydict())


def iceberg_schema(*fields):
    return {
        "type": "struct",
        "schema-id": 0,
        "fields": [{"id": i, "name": n, "required": False, "type": t} for i, n, t in fields],
    }


def test_reads_files_of_others(tmp_path):
    rows = 5000
    table = pa.table(
        {
            "id": pa.array(range(rows), pa.int64()),
            "name": pa.array([None if i % 5 == 0 else f"name {i % 40}" for i in range(rows)]),
            "amount": pa.array([D(i) / 100 for i in range(rows)], pa.decimal128(12, 2)),
            "moment": pa.array([micros(i * 1000) for i in range(rows)], pa.timestamp("us")),
        }
    )
    schema = iceberg_schema(
        (1, "id", "long"), (2, "name", "string"), (3, "amount", "decimal(12, 2)"), (4, "moment", "timestamp")
    )

    # PyIceberg
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("db")
    made = catalog.create_table("db.t", schema=table.schema)
    made.append(table)
    (path,) = made.inspect.files()["file_path"].to_pylist()
    os.link(path.removeprefix("file://"), tmp_path / "pyiceberg.in.parquet")

    # pyarrow: field ids in the metadata, several dialects
    with_ids = table.cast(
        pa.schema([f.with_metadata({"PARQUET:field_id": str(i + 1)}) for i, f in enumerate(table.schema)])
    )
    pq.write_table(with_ids, tmp_path / "pyarrow.in.parquet", row_group_size=700)
    pq.write_table(
        with_ids,
        tmp_path / "pyarrow-v2.in.parquet",
        data_page_version="2.0",
        use_dictionary=False,
        column_encoding={"id": "DELTA_BINARY_PACKED", "name": "DELTA_LENGTH_BYTE_ARRAY"},
        compression="brotli",
        store_schema=False,
    )
    pq.write_table(
        with_ids, tmp_path / "pyarrow-int96.in.parquet", use_deprecated_int96_timestamps=True, compression="gzip"
    )

    # DuckDB
    connection = duckdb.connect()
    connection.register("t", table)
    connection.execute(
        f"copy t to '{tmp_path}/duckdb.in.parquet' (format parquet, field_ids {{id: 1, name: 2, amount: 3, moment: 4}})"
    )
    names = ["pyiceberg", "pyarrow", "pyarrow-v2", "pyarrow-int96", "duckdb"]
    for name in names:
        (tmp_path / f"{name}.schema.json").write_text(json.dumps(schema))
    run_interop("ParquetInterop.RewritesFilesOfOthers", tmp_path)
    for name in names:
        assert pq.read_table(tmp_path / f"{name}.out.parquet").to_pydict() == table.to_pydict(), name
