"""Schema evolution and name mapping: Thalweg reads every data file as PyIceberg does in the same table.

The program thalweg_iceberg_test in $THALWEG_BIN (default: build/bin) reads the files: its ParquetInterop.
"""

import datetime as dt
import decimal
import json
import random
import struct

import duckdb
import duckdb_engine
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan, schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
)
from thalweg_test_tools import SMALL_CUBES, needs_interop, newest_hadoop_metadata, run_interop

pytestmark = needs_interop


@pytest.fixture
def catalog(tmp_path):
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/lake")
    catalog.create_namespace("db")
    return catalog


def describe_scan(table, folder, name):
    """What the program shall read: the table's current schema, its name mapping, and its live files."""
    files = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
    scan = {
        "schema": json.loads(table.schema().model_dump_json(by_alias=True)),
        "name-mapping": table.properties.get("schema.name-mapping.default"),
        "files": sorted(files),
    }
    (folder / f"{name}.scan.json").write_text(json.dumps(scan))


def plain(value):
    """Values in one form: maps as sorted pairs, floats with the sign of zero."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, tuple):
        return tuple(plain(item) for item in value)
    if isinstance(value, float):
        return value.hex()
    return value


def rows_of(table):
    return sorted(repr(plain(row)) for row in table.to_pylist())


def check(table, folder, name):
    """The program's rewrite of the table's files has the rows that PyIceberg reads in the table."""
    expected = table.scan().to_arrow()
    got = pq.read_table(folder / f"{name}.out.parquet")
    assert got.column_names == expected.column_names == [field.name for field in table.schema().fields]
    assert rows_of(got) == rows_of(expected)
    return got


def compare(table, folder, name="table"):
    describe_scan(table, folder, name)
    run_interop("ParquetInterop.ScansTables", folder)
    return check(table, folder, name)


def append(table, rows):
    table.append(pa.Table.from_pylist(rows, schema=schema_to_pyarrow(table.schema(), include_field_ids=False)))


def test_evolved_table(catalog, tmp_path):
    point = StructType(NestedField(10, "x", IntegerType()), NestedField(11, "y", FloatType()))
    table = catalog.create_table(
        "db.t",
        Schema(
            NestedField(1, "id", LongType(), required=True),
            NestedField(2, "name", StringType()),
            NestedField(3, "amount", DecimalType(9, 2)),
            NestedField(4, "count", IntegerType()),
            NestedField(5, "ratio", FloatType()),
            NestedField(6, "point", point),
            NestedField(7, "points", ListType(12, point, element_required=False)),
            NestedField(8, "named", MapType(13, StringType(), 14, point, value_required=False)),
            NestedField(9, "numbers", ListType(15, IntegerType(), element_required=False)),
        ),
    )
    p = {"x": 1, "y": 0.1}
    append(
        table,
        [
            {
                "id": 1,
                "name": "a",
                "amount": decimal.Decimal("1.25"),
                "count": -(2**31),
                "ratio": 0.1,
                "point": p,
                "points": [p, None, {"x": None, "y": -0.0}],
                "named": [("k", p), ("n", None)],
                "numbers": [1, None],
            },
            {"id": 2},
        ],
    )
    with table.update_schema() as update:
        update.rename_column("name", "title")
        update.update_column("amount", DecimalType(20, 2))
        update.update_column("count", LongType())
        update.update_column("ratio", DoubleType())
        update.update_column("point.x", LongType())
        update.update_column("points.element.y", DoubleType())
        update.update_column("numbers.element", LongType())
        update.add_column(("named", "value", "z"), BooleanType())
        update.delete_column("named.value.x")
        update.move_first("ratio")
    with table.update_schema() as update:
        update.add_column("name", StringType())
    append(table, [{"id": 3, "title": "c", "name": "new", "count": 2**40, "numbers": [2**40]}])
    with table.update_schema() as update:
        update.delete_column("title")
        update.rename_column("point.y", "Y")
        update.add_column("ID", IntegerType())
    with table.update_schema() as update:
        update.add_column(("point", "y"), StringType())
        update.move_before("point.Y", "point.x")
    append(table, [{"id": 4, "name": "d", "ID": 7, "point": {"x": 5, "Y": 2.5, "y": "text"}}])
    got = compare(table, tmp_path)
    assert got.num_rows == 4
    assert {(row["id"], row["ID"], row["name"]) for row in got.to_pylist()} == {
        (1, None, None),
        (2, None, None),
        (3, None, "new"),
        (4, 7, "d"),
    }


def test_files_without_ids_go_by_the_name_mapping(catalog, tmp_path):
    rows = pa.table(
        {
            "id": pa.array([1, 2], pa.int64()),
            "st": pa.array([{"a": 1, "b": "x"}, None], pa.struct([("a", pa.int32()), ("b", pa.string())])),
            # Not NULL: PyIceberg reads a NULL list of structs as an empty one.
            "li": pa.array([[{"c": 1}], []], pa.list_(pa.struct([("c", pa.int64())]))),
            "ma": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        }
    )
    table = catalog.create_table("db.t", rows.schema)
    pq.write_table(rows, tmp_path / "added.parquet")
    table.add_files([f"file://{tmp_path}/added.parquet"])
    assert table.properties["schema.name-mapping.default"]
    with table.update_schema() as update:
        update.rename_column("id", "key")
        update.rename_column("st.a", "A")
        update.rename_column("li.element.c", "d")
        update.update_column("st.a", LongType())
        update.move_first("ma")
        update.add_column("extra", StringType())
    append(table, [{"key": 3, "extra": "three", "st": {"A": 2**40, "b": "y"}, "li": [], "ma": []}])
    got = compare(table, tmp_path)
    assert {(row["key"], row["extra"]) for row in got.to_pylist()} == {(1, None), (2, None), (3, "three")}

    (tmp_path / "refused").mkdir()
    with table.transaction() as transaction:
        transaction.remove_properties("schema.name-mapping.default")
    describe_scan(table, tmp_path / "refused", "table")
    run_interop("ParquetInterop.ScansTables", tmp_path / "refused")
    message = (tmp_path / "refused" / "table.error").read_text()
    assert "added.parquet" in message and "no field ids" in message and "schema.name-mapping.default" in message


# ---- random schemas and random steps ----

PRIMITIVES = [
    BooleanType(),
    IntegerType(),
    LongType(),
    FloatType(),
    DoubleType(),
    DecimalType(7, 2),
    DecimalType(25, 3),
    DateType(),
    TimeType(),
    TimestampType(),
    TimestamptzType(),
    StringType(),
    BinaryType(),
    FixedType(3),
]
EPOCH = dt.datetime(1970, 1, 1)


class Evolution:
    """A table of random columns that are changed at random; its rows are random as well."""

    def __init__(self, catalog, name, seed):
        self.random = random.Random(seed)
        self.names = 0
        fields = [NestedField(1000 + i, self.name(), self.type(2)) for i in range(self.random.randint(2, 5))]
        self.next_id = 2000
        self.table = catalog.create_table(name, Schema(*fields))

    def name(self):
        self.names += 1
        return self.random.choice("aAbB") + str(self.names)

    def type(self, depth):
        kind = self.random.random() if depth else 1
        if kind < 0.2:
            fields = [
                NestedField(self.id(), self.name(), self.type(depth - 1)) for _ in range(self.random.randint(1, 3))
            ]
            return StructType(*fields)
        if kind < 0.35:
            return ListType(self.id(), self.type(depth - 1), element_required=False)
        if kind < 0.45:
            return MapType(self.id(), StringType(), self.id(), self.type(depth - 1), value_required=False)
        return self.random.choice(PRIMITIVES)

    def id(self):
        self.last_id = getattr(self, "last_id", 3000) + 1
        return self.last_id

    def value(self, kind):
        chance = self.random
        if chance.random() < 0.2:
            return None
        if isinstance(kind, StructType):
            return {field.name: self.value(field.field_type) for field in kind.fields}
        if isinstance(kind, ListType):
            return [self.value(kind.element_type) for _ in range(chance.randint(0, 3))]
        if isinstance(kind, MapType):
            return [(f"k{i}", self.value(kind.value_type)) for i in range(chance.randint(0, 3))]
        if isinstance(kind, BooleanType):
            return chance.random() < 0.5
        if isinstance(kind, IntegerType):
            return chance.randint(-(2**31), 2**31 - 1)
        if isinstance(kind, LongType):
            return chance.randint(-(2**63), 2**63 - 1)
        if isinstance(kind, FloatType):
            return chance.choice([0.5, -0.0, 1e30, float("inf"), chance.randint(-1000, 1000) / 8])
        if isinstance(kind, DoubleType):
            return chance.choice([0.1, -0.0, 1e300, chance.random()])
        if isinstance(kind, DecimalType):
            most = 10**kind.precision - 1
            return decimal.Decimal(chance.randint(-most, most)).scaleb(-kind.scale, decimal.Context(prec=40))
        if isinstance(kind, DateType):
            return (EPOCH + dt.timedelta(days=chance.randint(-20000, 20000))).date()
        if isinstance(kind, TimeType):
            return (EPOCH + dt.timedelta(microseconds=chance.randint(0, 86_399_999_999))).time()
        if isinstance(kind, TimestampType):
            return EPOCH + dt.timedelta(microseconds=chance.randint(-(2**55), 2**55))
        if isinstance(kind, TimestamptzType):
            return (EPOCH + dt.timedelta(microseconds=chance.randint(-(2**55), 2**55))).replace(tzinfo=dt.UTC)
        if isinstance(kind, FixedType):
            return chance.randbytes(3)
        if isinstance(kind, BinaryType):
            return chance.randbytes(chance.randint(0, 5))
        return chance.choice(["", "é", "text " * 3, str(chance.random())])

    def append(self):
        rows = [
            {field.name: self.value(field.field_type) for field in self.table.schema().fields}
            for _ in range(self.random.randint(1, 20))
        ]
        append(self.table, rows)

    def fields(self):
        """Every field with its path, and whether it stands in a struct or at the top."""

        def walk(field, path, of_struct):
            kind = field.field_type
            yield path, kind, of_struct
            if isinstance(kind, StructType):
                for child in kind.fields:
                    yield from walk(child, (*path, child.name), True)
            elif isinstance(kind, ListType):
                yield from walk(kind.element_field, (*path, "element"), False)
            elif isinstance(kind, MapType):
                yield from walk(kind.value_field, (*path, "value"), False)

        for field in self.table.schema().fields:
            yield from walk(field, (field.name,), True)

    def step(self):
        chance = self.random
        everything = list(self.fields())
        path, kind, named = chance.choice(everything)
        choice = chance.randint(0, 4)
        with self.table.update_schema() as update:
            if choice == 0:
                parents = [()] + [p for p, k, _ in everything if isinstance(k, StructType)]
                update.add_column((*chance.choice(parents), self.name()), self.type(1))
            elif choice == 1 and named:
                update.rename_column(path, self.name())
            elif choice == 2 and named:
                siblings = [p for p, _, n in everything if n and p[:-1] == path[:-1]]
                if len(siblings) > 1:
                    update.delete_column(path)
            elif choice == 3:
                wider = {IntegerType(): LongType(), FloatType(): DoubleType()}.get(kind)
                if isinstance(kind, DecimalType):
                    wider = DecimalType(kind.precision + 6, kind.scale)
                if wider:
                    update.update_column(path, wider)
            elif named:
                update.move_first(path)


def test_random_evolutions(catalog, tmp_path):
    seed = 20261130
    evolutions = []
    for number in range(16):
        evolution = Evolution(catalog, f"db.t{number}", seed + number)
        for _ in range(4):
            evolution.append()
            evolution.step()
            evolution.step()
        evolution.append()
        describe_scan(evolution.table, tmp_path, f"t{number}")
        evolutions.append(evolution)
    run_interop("ParquetInterop.ScansTables", tmp_path)
    rows = 0
    for number, evolution in enumerate(evolutions):
        rows += check(evolution.table, tmp_path, f"t{number}").num_rows
    assert rows > 500


# ---- types of format version 3 ----


def with_ids(schema, ids):
    return pa.schema(
        [field.with_metadata({"PARQUET:field_id": str(id)}) for field, id in zip(schema, ids, strict=True)]
    )


def scan_of(folder, name, fields, files):
    schema = {
        "type": "struct",
        "schema-id": 0,
        "fields": [{"id": i, "name": n, "required": False, "type": t} for i, n, t in fields],
    }
    scan = {"schema": schema, "name-mapping": None, "files": [str(file) for file in files]}
    (folder / f"{name}.scan.json").write_text(json.dumps(scan))


def test_nanoseconds(tmp_path):
    values = [-1, None, 1_700_000_000_123_456_789, -(2**63) + 1, 2**63 - 1]
    schema = pa.schema([pa.field("a", pa.timestamp("ns")), pa.field("b", pa.timestamp("ns", "UTC"))])
    table = pa.table(
        [pa.array(values, pa.int64()).cast(field.type) for field in schema], schema=with_ids(schema, [1, 2])
    )
    pq.write_table(table, tmp_path / "in.parquet")
    scan_of(tmp_path, "t", [(2, "zoned", "timestamptz_ns"), (1, "local", "timestamp_ns")], [tmp_path / "in.parquet"])
    run_interop("ParquetInterop.ScansTables", tmp_path)
    read = pq.read_table(tmp_path / "t.out.parquet")
    assert read.schema.field("local").type == pa.timestamp("ns")
    assert read.schema.field("zoned").type == pa.timestamp("ns", "UTC")
    assert read["local"].cast(pa.int64()).to_pylist() == read["zoned"].cast(pa.int64()).to_pylist() == values
    written = json.loads((tmp_path / "t.out.json").read_text())
    for bounds, value in (("lower_bounds", values[3]), ("upper_bounds", values[4])):
        assert written[bounds] == dict.fromkeys("12", value.to_bytes(8, "little", signed=True).hex())
    connection = duckdb.connect()
    nanos = connection.execute(f"select epoch_ns(local) from read_parquet('{tmp_path}/t.out.parquet')").fetchall()
    assert [row[0] for row in nanos] == values


def test_variants_and_geometries(tmp_path):
    # By the encodings' specifications: 42, {"a": 1}, NULL, and points as well-known binary.
    empty, one_name = bytes.fromhex("010000"), bytes.fromhex("0101000161")
    variants = [
        {"metadata": empty, "value": bytes.fromhex("0c2a")},
        {"metadata": one_name, "value": bytes.fromhex("0201000002") + bytes.fromhex("0c01")},
        None,
    ]
    points = [bytes.fromhex("0101000000") + struct.pack("<dd", 1, 2), None, bytes.fromhex("0101000000") + bytes(16)]
    variant = pa.struct([pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)])
    schema = pa.schema([pa.field("v", variant), pa.field("g", pa.binary())])
    table = pa.table([pa.array(variants, variant), pa.array(points)], schema=with_ids(schema, [1, 2]))
    pq.write_table(table, tmp_path / "in.parquet")
    fields = [(1, "v", "variant"), (2, "g", "geometry")]
    scan_of(tmp_path, "first", fields, [tmp_path / "in.parquet"])
    run_interop("ParquetInterop.ScansTables", tmp_path)
    # What was written is read again, and DuckDB knows what it is.
    again = tmp_path / "again"
    again.mkdir()
    scan_of(again, "second", fields, [tmp_path / "first.out.parquet"])
    connection = duckdb.connect()
    connection.execute(
        "copy (select 1 as id, {'a': 1, 'b': 'x'}::variant as v) "
        f"to '{again}/shredded.parquet' (format parquet, field_ids {{id: 9, v: 1}})"
    )
    scan_of(again, "shredded", fields, [again / "shredded.parquet"])
    run_interop("ParquetInterop.ScansTables", again)
    for file in (tmp_path / "first.out.parquet", again / "second.out.parquet"):
        assert pq.read_table(file).to_pylist() == table.to_pylist()
        rows = connection.execute(f"select v, typeof(v), g, typeof(g) from read_parquet('{file}')").fetchall()
        assert [row[0] for row in rows] == [42, {"a": 1}, None]
        assert {row[1] for row in rows} == {"VARIANT"}
        assert [row[2] for row in rows] == points
        assert {row[3] for row in rows} == {"GEOMETRY"}
    refusal = (again / "shredded.error").read_text()
    assert 'column "v" is a variant that is stored as' in refusal and "shredded.parquet" in refusal


# By type: the default as the format's JSON form has it, and as PyIceberg does.
DEFAULTS = [
    (BooleanType(), True, True),
    (IntegerType(), -5, -5),
    (LongType(), 2**40, 2**40),
    (FloatType(), 1.5, 1.5),
    (DoubleType(), 0.1, 0.1),
    (DecimalType(9, 2), "14.20", decimal.Decimal("14.20")),
    (DateType(), "2017-11-16", dt.date(2017, 11, 16)),
    (TimeType(), "22:31:08.123456", dt.time(22, 31, 8, 123456)),
    (TimestampType(), "1917-11-16T22:31:08.123456", dt.datetime(1917, 11, 16, 22, 31, 8, 123456)),
    (TimestamptzType(), "2017-11-16T22:31:08+00:00", dt.datetime(2017, 11, 16, 22, 31, 8, tzinfo=dt.UTC)),
    (StringType(), "größe", "größe"),
    (BinaryType(), "005aff", b"\x00Z\xff"),
    (FixedType(3), "414243", b"ABC"),
]


def test_initial_defaults(catalog, tmp_path):
    table = catalog.create_table(
        "db.t",
        Schema(NestedField(1, "id", LongType()), NestedField(2, "st", StructType(NestedField(3, "x", LongType())))),
    )
    append(table, [{"id": 1, "st": {"x": 1}}, {"id": 2, "st": None}])
    before = json.loads(table.schema().model_dump_json(by_alias=True))
    fields, inner, ours, ours_inner = [], [NestedField(3, "x", LongType())], [], []
    for number, (kind, text, value) in enumerate(DEFAULTS):
        for into, mine, first in ((fields, ours, 10), (inner, ours_inner, 100)):
            into.append(NestedField(first + number, f"f{number}", kind, initial_default=value))
            as_json = {"id": first + number, "name": f"f{number}", "required": False, "type": str(kind)}
            mine.append(as_json | {"initial-default": text})
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, "st", StructType(*inner)), *fields, schema_id=1)
    before["fields"][1]["type"]["fields"] += ours_inner
    before["fields"] += ours
    scan = {
        "schema": before,
        "name-mapping": None,
        "files": [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()],
    }
    (tmp_path / "t.scan.json").write_text(json.dumps(scan))
    run_interop("ParquetInterop.ScansTables", tmp_path)
    metadata = table.metadata.model_copy(update={"schemas": [schema], "current_schema_id": 1})
    expected = ArrowScan(metadata, table.io, schema, AlwaysTrue()).to_table(table.scan().plan_files())
    got = pq.read_table(tmp_path / "t.out.parquet")
    assert rows_of(got) == rows_of(expected)
    assert got.to_pylist()[0]["st"] == {"x": 1} | {f"f{i}": value for i, (_, _, value) in enumerate(DEFAULTS)}
    assert got.to_pylist()[1]["st"] is None


def test_optimize_brings_every_file_to_the_current_schema(lake):
    table = lake.make_table(
        "t",
        Schema(
            NestedField(1, "user", IntegerType()),
            NestedField(2, "price", DecimalType(7, 2)),
            NestedField(3, "ratio", FloatType()),
            NestedField(4, "point", StructType(NestedField(5, "x", IntegerType()))),
            NestedField(6, "old", StringType()),
        ),
        SMALL_CUBES,
    )
    chance = random.Random(7)

    def add(names):
        every = {
            "user": lambda: chance.randint(0, 1000),
            "price": lambda: decimal.Decimal(chance.randint(-99999, 99999)).scaleb(-2),
            "ratio": lambda: chance.randint(-1000, 1000) / 8,
            "point": lambda: {"x": chance.randint(-5, 5)} if chance.random() < 0.8 else None,
            "old": lambda: "x" * chance.randint(0, 9),
            "region": lambda: chance.choice(["de", "fr", None]),
            "visitor": lambda: chance.randint(0, 2**40),
        }
        append(table, [{name: every[name]() for name in names} for _ in range(1500)])

    add(["user", "price", "ratio", "point", "old"])
    # A file without ids; PyIceberg sets the name mapping and keeps it right.
    table.add_files([f"file://{lake.write_parquet('plain.parquet', pa.table({'user': pa.array([5, 6], pa.int32())}))}"])
    with table.update_schema() as update:
        update.rename_column("user", "visitor")
        update.update_column("user", LongType())
        update.update_column("price", DecimalType(20, 2))
        update.update_column("ratio", DoubleType())
        update.add_column("region", StringType())
        update.add_column(("point", "y"), LongType())
        update.delete_column("old")
        update.move_first("ratio")
    add(["visitor", "price", "ratio", "point", "region"])
    table = lake.table("t")
    before = rows_of(table.scan().to_arrow())
    address = lake.address("t")
    lake.ok("set", address, "--columns", "visitor,region")
    done = lake.ok("optimize", address, "--verify", "full")
    assert (done["outcome"], done["rows"]) == ("committed", 3002)
    table = lake.table("t")
    assert rows_of(table.scan().to_arrow()) == before
    engine = duckdb_engine.connect()
    location = table.metadata_location.removeprefix("file://")
    assert rows_of(engine.execute(f"select * from iceberg_scan('{location}')").to_arrow_table()) == before
    names = ["ratio", "visitor", "price", "point", "region"]
    for task in table.scan().plan_files():
        schema = pq.read_schema(task.file.file_path.removeprefix("file://"))
        assert schema.names == names
        assert [schema.field(name).type for name in names[:3]] == [pa.float64(), pa.int64(), pa.decimal128(20, 2)]
        assert [field.name for field in schema.field("point").type] == ["x", "y"]
        assert 1 in task.file.lower_bounds
    assert lake.ok("optimize", address)["outcome"] == "nothing-to-do"


def test_optimize_carries_the_types_of_version_3(lake):
    """A table in Hadoop layout whose metadata and only data file are replaced: no writer here knows these types."""
    count = 2000
    start = pa.table({"id": pa.array(range(count)), "k": pa.array([i * 7919 % 1000 for i in range(count)], pa.int32())})
    folder = lake.folder / "t"
    lake.ok("write", folder, lake.write_parquet("in.parquet", start), "--mode", "create")
    metadata_file = newest_hadoop_metadata(folder)
    metadata = json.loads(metadata_file.read_text())
    variant = {"id": 32, "name": "v", "required": False, "type": "variant"}
    unknown = {"id": 31, "name": "u", "required": False, "type": "unknown"}
    metadata["schemas"][0]["fields"] += [
        {"id": 10, "name": "u", "required": False, "type": "unknown"},
        {"id": 11, "name": "d", "required": False, "type": "long", "initial-default": 7, "write-default": 7},
        {"id": 12, "name": "v", "required": False, "type": "variant"},
        {"id": 13, "name": "g", "required": False, "type": "geometry"},
        {"id": 14, "name": "ns", "required": False, "type": "timestamp_ns"},
        {"id": 15, "name": "st", "required": False, "type": {"type": "struct", "fields": [unknown, variant]}},
    ]
    metadata |= {"format-version": 3, "next-row-id": 0, "last-column-id": 32}
    metadata_file.write_text(json.dumps(metadata))

    (data_file,) = (folder / "data").rglob("*.parquet")
    kind = pa.struct([pa.field("metadata", pa.binary(), False), pa.field("value", pa.binary(), False)])
    inner = pa.struct([pa.field("v", kind, metadata={"PARQUET:field_id": "32"})])
    variants = [None if i % 5 == 0 else {"metadata": b"\1\0\0", "value": bytes([0x0C, i % 128])} for i in range(count)]
    points = [None if i % 7 == 0 else b"\1\1\0\0\0" + struct.pack("<dd", i, -i) for i in range(count)]
    columns = {
        "id": start["id"],
        "k": start["k"],
        "v": pa.array(variants, kind),
        "g": pa.array(points, pa.binary()),
        "ns": pa.array(range(10**18, 10**18 + count), pa.timestamp("ns")),
        "st": pa.array([None if i % 3 == 0 else {"v": variants[i]} for i in range(count)], inner),
    }
    source = pa.table(columns)
    source = source.cast(with_ids(source.schema, [1, 2, 12, 13, 14, 15]))
    pq.write_table(source, data_file, row_group_size=300)

    lake.ok("set", folder, "--columns", "k,ns")
    assert lake.ok("optimize", folder, "--verify", "full")["rows"] == count
    (new_file,) = set((folder / "data").rglob("*.parquet")) - {data_file}
    written = pq.read_table(new_file).sort_by("id")
    assert written.select(source.column_names).to_pylist() == source.to_pylist()
    assert set(written["d"].to_pylist()) == {7}
    assert written.column_names == ["id", "k", "d", "v", "g", "ns", "st", "_row_id", "_last_updated_sequence_number"]
    assert set(written["_row_id"].to_pylist()) == {None}  # no row of an upgraded table has an id yet
    rows = duckdb.connect().execute(f"select v, st.v, typeof(g) from read_parquet('{new_file}') order by id").fetchall()
    numbers = [None if i % 5 == 0 else i % 128 for i in range(count)]
    assert [row[0] for row in rows] == numbers
    assert [row[1] for row in rows] == [None if i % 3 == 0 else number for i, number in enumerate(numbers)]
    assert {row[2] for row in rows} == {"GEOMETRY"}
