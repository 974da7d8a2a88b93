"""Row-level deletes: which rows are left, against the rules applied row by row here, PyIceberg and DuckDB.

Files are written with pyarrow and pyroaring; thalweg_iceberg_test in $THALWEG_BIN reads them: its DeletesInterop.
"""

import dataclasses
import datetime as dt
import decimal
import json
import math
import random
import struct
import zlib
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from campaign_tools import AppendDeletes
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile
from pyiceberg.table.snapshots import Operation
from pyiceberg.typedef import Record
from pyiceberg.types import DecimalType, DoubleType, LongType, StringType
from pyroaring import BitMap
from thalweg_test_tools import local_path, needs_interop, run_interop

pytestmark = needs_interop

PATH_ID, POS_ID = 2147483546, 2147483545
DATA, POSITIONS, EQUALITY = 0, 1, 2


def field(name: str, kind: pa.DataType, id: int, nullable: bool = True) -> pa.Field:
    return pa.field(name, kind, nullable, {"PARQUET:field_id": str(id)})


SCHEMA = pa.schema(
    [
        field("id", pa.int64(), 1),
        field("a", pa.int32(), 2),
        field("s", pa.string(), 3),
        field("d", pa.float64(), 4),
        field("ok", pa.bool_(), 5),
        field("day", pa.date32(), 6),
        field("amount", pa.decimal128(9, 2), 7),
    ]
)
DELETE_SCHEMA = pa.schema(
    [field("file_path", pa.string(), PATH_ID, False), field("pos", pa.int64(), POS_ID, False)],
)


@dataclasses.dataclass
class File:
    """A live file with what the oracle needs to know of it."""

    sequence_number: int
    file: dict  # as Thalweg describes data files
    rows: pa.Table | None = None
    targets: dict[str, set[int]] = dataclasses.field(default_factory=dict)  # of position deletes

    @property
    def path(self) -> str:
        return self.file["file_path"]


def describe(path: Path, content: int, records: int, **more) -> dict:
    return {
        "content": content,
        "file_path": str(path),
        "file_format": "PARQUET",
        "record_count": records,
        "file_size_in_bytes": path.stat().st_size,
        **more,
    }


def bound(kind: pa.DataType, value) -> bytes:
    if pa.types.is_boolean(kind):
        return b"\x01" if value else b"\x00"
    if pa.types.is_int32(kind):
        return struct.pack("<i", value)
    if pa.types.is_date32(kind):
        return struct.pack("<i", pa.scalar(value, pa.date32()).cast(pa.int32()).as_py())
    if pa.types.is_int64(kind):
        return struct.pack("<q", value)
    if pa.types.is_float64(kind):
        return struct.pack("<d", value)
    if pa.types.is_string(kind):
        return value.encode()
    unscaled = int(value.scaleb(kind.scale))
    return unscaled.to_bytes((unscaled + (unscaled < 0)).bit_length() // 8 + 1, "big", signed=True)


def statistics(rows: pa.Table) -> dict:
    """Counts and bounds as the format wants them."""
    found = {
        name: {} for name in ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
    }
    for column, declared in zip(rows.columns, rows.schema, strict=True):
        id = declared.metadata[b"PARQUET:field_id"].decode()
        values = column.to_pylist()
        plain = [v for v in values if v is not None and not (isinstance(v, float) and math.isnan(v))]
        found["value_counts"][id] = len(values)
        found["null_value_counts"][id] = values.count(None)
        if pa.types.is_floating(declared.type):
            found["nan_value_counts"][id] = len(values) - len(plain) - values.count(None)
        if plain:
            found["lower_bounds"][id] = bound(declared.type, min(plain)).hex()
            found["upper_bounds"][id] = bound(declared.type, max(plain)).hex()
    return found


def positions_file(path: Path, number: int, targets: dict[str, set[int]], **more) -> File:
    pairs = sorted((target, position) for target, positions in targets.items() for position in positions)
    table = pa.table([[p for p, _ in pairs], [n for _, n in pairs]], schema=DELETE_SCHEMA)
    pq.write_table(table, path, row_group_size=7)
    return File(number, describe(path, POSITIONS, len(pairs), **more), None, targets)


def deletion_vector(positions: set[int]) -> bytes:
    bitmap = BitMap(positions)
    bitmap.run_optimize()
    body = b"\xd1\xd3\x39\x64" + struct.pack("<QI", 1, 0) + bitmap.serialize()
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def puffin(path: Path, vectors: dict[str, set[int]]) -> dict[str, tuple[int, int]]:
    """Writes deletion vectors; gives offset and size of each."""
    content, places, blobs = b"PFA1", {}, []
    for target, positions in vectors.items():
        blob = deletion_vector(positions)
        places[target] = (len(content), len(blob))
        blobs.append(
            {
                "type": "deletion-vector-v1",
                "fields": [2147483645],
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": len(content),
                "length": len(blob),
                "properties": {"referenced-data-file": target, "cardinality": str(len(positions))},
            }
        )
        content += blob
    footer = json.dumps({"blobs": blobs}).encode()
    path.write_bytes(content + b"PFA1" + footer + struct.pack("<I", len(footer)) + bytes(4) + b"PFA1")
    return places


def vector_files(path: Path, numbers: dict[str, int], vectors: dict[str, set[int]]) -> list[File]:
    places = puffin(path, vectors)
    return [
        File(
            numbers[target],
            describe(
                path,
                POSITIONS,
                len(positions),
                file_format="PUFFIN",
                referenced_data_file=target,
                content_offset=places[target][0],
                content_size_in_bytes=places[target][1],
            ),
            None,
            {target: positions},
        )
        for target, positions in vectors.items()
    ]


def ask(folder: Path, metadata: str, data: list[File] | None = None, deletes: list[File] | None = None, **more) -> dict:
    request = {"metadata": local_path(metadata), **more}
    if data is not None:
        as_json = lambda files: [{"file": f.file, "sequence_number": f.sequence_number} for f in files]  # noqa: E731
        request |= {"data": as_json(data), "deletes": as_json(deletes)}
    (folder / "request.json").write_text(json.dumps(request))
    run_interop("DeletesInterop.Read", folder)
    return json.loads((folder / "result.json").read_text())


def comparable(value):
    """Equal where equality deletes take values as equal: all NaNs are, -0.0 and 0.0 are not."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else (value, math.copysign(1, value))
    return value


def values_by_id(rows: pa.Table) -> list[dict]:
    """Each row's values by field id, those within structs too."""

    def leaves(declared: pa.Field, value, found: dict) -> None:
        if pa.types.is_struct(declared.type):
            for child in declared.type:
                leaves(child, None if value is None else value[child.name], found)
        else:
            found[int(declared.metadata[b"PARQUET:field_id"])] = comparable(value)

    result = []
    for row in rows.to_pylist():
        found = {}
        for declared in rows.schema:
            leaves(declared, row[declared.name], found)
        result.append(found)
    return result


def left_over(data: list[File], deletes: list[File]) -> list[list]:
    """Path, position and id of the rows that the rules leave, one by one."""
    keys = {id(delete): values_by_id(delete.rows) for delete in deletes if delete.rows}
    left = []
    for file in data:
        vector = [d for d in deletes if d.file["file_format"] == "PUFFIN" and file.path in d.targets]
        for position, row in enumerate(values_by_id(file.rows)):
            gone = False
            for delete in deletes:
                number = delete.sequence_number
                if delete.file["content"] == POSITIONS:
                    named = position in delete.targets.get(file.path, ())
                    ignored = bool(vector) and delete not in vector
                    gone |= named and not ignored and file.sequence_number <= number
                elif file.sequence_number < number:
                    gone |= any(all(row.get(n) == value for n, value in key.items()) for key in keys[id(delete)])
            if not gone:
                left.append([file.path, position, row[1]])
    return sorted(left)


class World:
    """A table whose metadata PyIceberg writes; files are made here and not committed."""

    def __init__(self, folder: Path, schema: pa.Schema = SCHEMA):
        self.folder = folder
        self.files = folder / "files"
        self.files.mkdir()
        self.catalog = SqlCatalog("c", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
        self.catalog.create_namespace("ns")
        self.table = self.catalog.create_table("ns.t", schema=schema)
        self.count = 0
        self.next_id = 0

    def path(self, prefix: str) -> Path:
        self.count += 1
        return self.files / f"{prefix}-{self.count:03}.parquet"

    def data_file(self, number: int, rows: pa.Table, stats: bool = True, **options) -> File:
        path = self.path("data")
        pq.write_table(rows, path, **options)
        return File(number, describe(path, DATA, rows.num_rows, **(statistics(rows) if stats else {})), rows)

    def equality_file(self, number: int, keys: pa.Table, stats: bool = True) -> File:
        path = self.path("eq")
        pq.write_table(keys, path)
        ids = list(values_by_id(keys)[0])
        more = statistics(keys) if stats else {}
        return File(number, describe(path, EQUALITY, keys.num_rows, equality_ids=ids, **more), keys)

    def rows(
        self, dice: random.Random, count: int, columns: list[str] | None = None, nulls=tuple(SCHEMA.names)
    ) -> pa.Table:
        """Random rows with many equal values; the id alone is unique."""
        choices = {
            "a": [None, 0, -1, 1, 2, 3, 2**31 - 1],
            "s": [None, "", "a", "b", "aa", "größe", "x" * 40],
            "d": [None, 0.0, -0.0, 1.5, math.nan, math.inf, -2.0],
            "ok": [None, True, False],
            "day": [None, dt.date(1970, 1, 1), dt.date(1969, 12, 31), dt.date(2024, 2, 29)],
            "amount": [None, *map(decimal.Decimal, ("0.00", "-1.25", "1234567.89", "3.00"))],
        }
        choices = {name: of if name in nulls else of[1:] for name, of in choices.items()}
        values = {name: [dice.choice(of) for _ in range(count)] for name, of in choices.items()}
        values["id"] = list(range(self.next_id, self.next_id + count))
        self.next_id += count
        schema = pa.schema([f for f in SCHEMA if columns is None or f.name in columns])
        return pa.table([values[f.name] for f in schema], schema=schema)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def path_bounds(targets: dict[str, set[int]], truncated: bool = False) -> dict:
    lower, upper = min(targets), max(targets)
    if truncated:
        cut = len(upper) - 3
        lower, upper = lower[: len(lower) - 3], upper[: cut - 1] + chr(ord(upper[cut - 1]) + 1)
    return {
        "lower_bounds": {str(PATH_ID): lower.encode().hex()},
        "upper_bounds": {str(PATH_ID): upper.encode().hex()},
    }


def random_deletes(world: World, dice: random.Random, data: list[File]) -> list[File]:
    deletes = []

    def some_positions(file: File) -> set[int]:
        return set(dice.sample(range(file.rows.num_rows), dice.randint(0, file.rows.num_rows // 3) or 1))

    for _ in range(dice.randint(0, 4)):  # of several files, some of which are not live
        chosen = dice.sample(data, dice.randint(1, len(data)))
        targets = {file.path: some_positions(file) for file in chosen} | {str(world.files / "data-gone"): {0, 5}}
        more = dice.choice([{}, path_bounds(targets), path_bounds(targets, truncated=True)])
        deletes.append(positions_file(world.path("pos"), dice.randint(1, 12), targets, **more))
    for _ in range(dice.randint(0, 4)):  # of one file
        file = dice.choice(data)
        targets = {file.path: some_positions(file)}
        more = path_bounds(targets) if dice.random() < 0.5 else {"referenced_data_file": file.path}
        deletes.append(positions_file(world.path("pos"), dice.randint(1, 12), targets, **more))
    for _ in range(dice.randint(0, 6)):
        columns = dice.choice(
            [["a"], ["s"], ["d"], ["a", "s"], ["d", "ok"], ["id"], ["day", "amount"], ["s", "a", "d"]]
        )
        keys = world.rows(dice, dice.randint(1, 4), columns)
        if columns == ["id"]:
            ids = dice.sample(range(world.next_id), min(20, world.next_id))
            keys = pa.table([ids], schema=keys.schema)
        deletes.append(world.equality_file(dice.randint(1, 12), keys, stats=dice.random() < 0.7))
    if dice.random() < 0.5:
        chosen = dice.sample(data, dice.randint(1, len(data)))
        numbers = {file.path: dice.randint(file.sequence_number, 12) for file in chosen}
        vectors = {file.path: some_positions(file) for file in chosen}
        deletes += vector_files(world.files / f"dv-{world.count}.puffin", numbers, vectors)
    dice.shuffle(deletes)
    return deletes


@pytest.mark.parametrize("seed", range(12))
def test_random_deletes_against_the_rules_row_by_row(world, seed):
    dice = random.Random(seed)
    data = [
        world.data_file(
            dice.randint(1, 10),
            world.rows(dice, dice.randint(1, 120)),
            stats=dice.random() < 0.7,
            row_group_size=dice.choice([10, 50, 1000]),
            use_dictionary=dice.random() < 0.5,
        )
        for _ in range(dice.randint(1, 6))
    ]
    deletes = random_deletes(world, dice, data)
    expected = left_over(data, deletes)
    # Tables of one key and of a few keys take many passes.
    for table_bytes in (0, 1, 200):
        options = {"table-bytes": table_bytes, "batch-rows": dice.choice([7, 1000])}
        result = ask(world.folder, world.table.metadata_location, data, deletes, **options)
        assert sorted(result["rows"]) == expected
        assert result["num-rows"] == len(expected)
        assert result["deleted"] == sum(file.rows.num_rows for file in data) - len(expected)
    for index in result["unneeded"]:
        others = [delete for delete in deletes if delete is not deletes[index]]
        assert left_over(data, others) == expected, "an unneeded delete file deletes rows"
    gone = {}
    for path, *_ in expected:
        gone[path] = gone.get(path, 0) + 1
    for file in data:
        rows, exact = result["estimates"][file.path]
        assert not exact or rows == file.rows.num_rows - gone.get(file.path, 0)
        assert 0 <= rows <= file.rows.num_rows


def test_positions_reach_files_as_old_as_themselves_and_keys_older_ones(world):
    dice = random.Random(2)
    data = [world.data_file(number, world.rows(dice, 5)) for number in (2, 3, 4)]
    named = {file.path: {1} for file in data}
    positions = positions_file(world.path("pos"), 3, named)
    keys = world.equality_file(3, pa.table([[2, 7, 12]], schema=pa.schema([SCHEMA.field("id")])))
    result = ask(world.folder, world.table.metadata_location, data, [positions, keys])
    assert sorted(id for *_, id in result["rows"]) == [0, 3, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14]
    # A deletion vector stands for all position deletes of its file, older and younger ones.
    vector = vector_files(world.files / "dv.puffin", {data[0].path: 2}, {data[0].path: {4}})
    result = ask(world.folder, world.table.metadata_location, data, [positions, keys, *vector])
    assert sorted(id for *_, id in result["rows"]) == [0, 1, 3, 5, 7, 8, 9, 10, 11, 12, 13, 14]


def test_dense_and_far_positions(world):
    """Bitmaps of every kind of container, read as PyIceberg reads them."""
    rows = pa.table([range(150_000), *([None] * 150_000 for _ in SCHEMA.names[1:])], schema=SCHEMA)
    data = [world.data_file(1, rows, stats=False) for _ in range(2)]
    dice = random.Random(5)
    vectors = {
        data[0].path: {n for n in range(70_000) if dice.random() < 0.5} | set(range(100_000, 140_000)) | {149_999},
        data[1].path: {0},
    }
    path = world.files / "dv.puffin"
    deletes = vector_files(path, {target: 2 for target in vectors}, vectors)
    result = ask(world.folder, world.table.metadata_location, data, deletes)
    seen = deletion_vectors_from_puffin_file(PuffinFile(path.read_bytes()))
    for vector in seen:
        deleted = set(vector.to_vector().to_pylist())
        assert deleted == vectors[vector.referenced_data_file]
        left = {position for p, position, _ in result["rows"] if p == vector.referenced_data_file}
        assert left == set(range(150_000)) - deleted
    assert result["estimates"][data[1].path] == [1, True]


def test_deletes_and_files_of_older_schemas(world):
    """Keys are compared by field id in the current type; dropped columns count, columns that are not there are NULL."""
    old = pa.schema(
        [
            field("id", pa.int64(), 1),
            field("a", pa.int32(), 2),
            field("f", pa.float32(), 3),
            field("amount", pa.decimal128(5, 2), 4),
            field("b", pa.string(), 5),
            field("st", pa.struct([field("x", pa.int32(), 7), field("y", pa.string(), 8)]), 6),
        ]
    )
    world.catalog.create_table("ns.evolved", schema=old)
    table = world.catalog.load_table("ns.evolved")
    assert [f.field_id for f in table.schema().fields] == [1, 2, 3, 4, 5, 6]
    assert [f.field_id for f in table.schema().find_field("st").field_type.fields] == [7, 8]
    with table.update_schema() as update:
        update.delete_column("b")
        update.update_column("a", LongType())
        update.update_column("f", DoubleType())
        update.update_column("amount", DecimalType(18, 2))
        update.rename_column(("st", "y"), "z")
    with table.update_schema() as update:
        update.add_column("b", LongType())
        update.add_column(("st", "x2"), StringType())
        update.delete_column(("st", "x"))
    new = pa.schema(
        [
            field("f", pa.float64(), 3),
            field("id", pa.int64(), 1),
            field("a", pa.int64(), 2),
            field("amount", pa.decimal128(18, 2), 4),
            field("st", pa.struct([field("z", pa.string(), 8), field("x2", pa.string(), 10)]), 6),
            field("b", pa.int64(), 9),
        ]
    )
    table.refresh()
    assert table.schema().find_field("b").field_id == 9
    assert table.schema().find_field("st.x2").field_id == 10
    dice = random.Random(9)
    numbers = [None, 0, 1, -1, 7]

    def old_rows(count: int) -> pa.Table:
        rows = [
            {
                "id": world.next_id + i,
                "a": dice.choice(numbers),
                "f": dice.choice([None, 0.1, math.nan, 0.0, -0.0]),
                "amount": dice.choice([None, decimal.Decimal("1.25"), decimal.Decimal("-999.99")]),
                "b": dice.choice([None, "p", "q"]),
                "st": dice.choice([None, {"x": 1, "y": "p"}, {"x": None, "y": "q"}, {"x": 2, "y": None}]),
            }
            for i in range(count)
        ]
        world.next_id += count
        return pa.Table.from_pylist(rows, schema=old)

    def new_rows(count: int) -> pa.Table:
        rows = [
            {
                "id": world.next_id + i,
                "a": dice.choice([*numbers, 2**40]),
                "f": dice.choice([None, 0.1, struct.unpack("f", struct.pack("f", 0.1))[0], math.nan, 0.0, -0.0]),
                "amount": dice.choice([None, decimal.Decimal("1.25"), decimal.Decimal("12345678.90")]),
                "b": dice.choice(numbers),
                "st": dice.choice([None, {"z": "p", "x2": "q"}, {"z": None, "x2": None}]),
            }
            for i in range(count)
        ]
        world.next_id += count
        return pa.Table.from_pylist(rows, schema=new)

    data = [
        world.data_file(n, rows, stats=False) for n, rows in ((1, old_rows(80)), (2, new_rows(80)), (5, old_rows(80)))
    ]
    of_y = pa.schema([field("st", pa.struct([field("y", pa.string(), 8)]), 6)])
    of_x = pa.schema([field("st", pa.struct([field("x", pa.int32(), 7)]), 6)])
    of_x2 = pa.schema([field("st", pa.struct([field("x2", pa.string(), 10)]), 6)])
    cases = {
        "narrow keys": [old.field("a")],
        "wide keys": [new.field("a")],
        "narrow floats": [old.field("f")],
        "wide floats": [new.field("f")],
        "decimals": [old.field("amount"), new.field("a")],
        "a dropped column": [old.field("b")],
        "dropped and new columns of one name": [old.field("b"), new.field("b")],
        "a column that old files do not have": [new.field("b")],
        "within a struct": [of_y.field("st")],
        "dropped from a struct": [of_x.field("st"), old.field("a")],
        "new in a struct": [of_x2.field("st")],
    }
    for name, fields in cases.items():
        values = {
            2: [7, None],
            3: [struct.unpack("f", struct.pack("f", 0.1))[0], -0.0],
            4: [decimal.Decimal("1.25"), None],
            5: ["p", None],
            9: [None, 1],
            6: {"x": [{"x": 1}, None], "y": [{"y": "p"}, {"y": None}], "x2": [{"x2": "q"}, None]},
        }
        columns = []
        for declared in fields:
            of_field = values[int(declared.metadata[b"PARQUET:field_id"])]
            if isinstance(of_field, dict):
                of_field = of_field[declared.type[0].name]
            columns.append(pa.array(of_field, declared.type))
        # Two columns of one name are no table that pyarrow writes by name: by position it does.
        keys = pa.Table.from_arrays(columns, schema=pa.schema([f.with_name(f"c{i}") for i, f in enumerate(fields)]))
        deletes = [world.equality_file(4, keys, stats=False)]
        expected = left_over(data, deletes)
        result = ask(world.folder, table.metadata_location, data, deletes)
        assert sorted(result["rows"]) == expected, name
        assert 0 < result["deleted"] == 240 - len(expected), name
        assert {row[0] for row in expected} >= {data[2].path}, name


def test_what_is_refused(world):
    """One line that names the file, and no rows."""
    rows = world.rows(random.Random(1), 10)
    data = [world.data_file(1, rows)]
    keys = rows.select(["a"])
    lacking = world.equality_file(2, keys)
    lacking.file["equality_ids"] = [2, 3]  # a field that would be read as NULL
    truncated = world.equality_file(2, keys)
    Path(truncated.path).write_bytes(Path(truncated.path).read_bytes()[:-20])
    bare = world.equality_file(2, keys)
    pq.write_table(keys.cast(pa.schema([("a", pa.int32())])), bare.path)
    bare.file["file_size_in_bytes"] = Path(bare.path).stat().st_size
    for broken in (lacking, truncated, bare):
        with pytest.raises(AssertionError, match=Path(broken.path).name):
            ask(world.folder, world.table.metadata_location, data, [broken])
        assert not (world.folder / "result.json").exists()


def commit_deletes(table, file: File) -> None:
    """Commits a delete file as a snapshot of its own."""
    more = {key: file.file[key] for key in ("equality_ids",) if key in file.file}
    for key in ("lower_bounds", "upper_bounds"):
        if key in file.file:
            more[key] = {int(id): bytes.fromhex(text) for id, text in file.file[key].items()}
    entry = DataFile.from_args(
        content=DataFileContent(file.file["content"]),
        file_path=file.path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=file.file["record_count"],
        file_size_in_bytes=file.file["file_size_in_bytes"],
        **more,
    )
    entry.spec_id = 0
    with table.transaction() as transaction:
        with AppendDeletes(operation=Operation.OVERWRITE, transaction=transaction, io=table.io) as producer:
            producer.append_data_file(entry)


def duck_ids(table) -> list[int]:
    connection = duckdb.connect()
    for name in ("avro", "iceberg"):
        module = __import__(f"duckdb_extension_{name}")
        folder = Path(module.__file__).parent / "extensions"
        connection.execute(f"load '{next(folder.rglob(f'{name}.duckdb_extension'))}'")
    location = local_path(table.metadata_location)
    return sorted(id for (id,) in connection.execute(f"select id from iceberg_scan('{location}')").fetchall())


def test_tables_of_pyiceberg_with_deletes_as_other_engines_read_them(world):
    # DuckDB 1.5.5 takes rows with NULL in a compared column for deleted, whatever the keys: there are none here.
    nulls = ()
    dice = random.Random(3)
    table = world.table

    def read() -> list[int]:
        table.refresh()
        return sorted(id for *_, id in ask(world.folder, table.metadata_location)["rows"])

    for _ in range(3):
        table.append(world.rows(dice, 200, nulls=nulls))
    tasks = list(table.scan().plan_files())
    paths = sorted(task.file.file_path for task in tasks)
    targets = {path: set(dice.sample(range(200), 30)) for path in paths[:2]}
    commit_deletes(table, positions_file(world.path("pos"), 0, targets))
    scoped = {paths[2]: {0, 7, 199}}
    commit_deletes(table, positions_file(world.path("pos"), 0, scoped, **path_bounds(scoped)))
    assert len(read()) == 600 - 63
    assert read() == sorted(table.scan().to_arrow()["id"].to_pylist()) == duck_ids(table)
    # PyIceberg refuses equality deletes.
    for columns in (["a"], ["s", "ok"], ["day", "amount"]):
        commit_deletes(table, world.equality_file(0, world.rows(dice, 3, columns, nulls)))
        table.append(world.rows(dice, 50, nulls=nulls))
        left = read()
        assert left == duck_ids(table)
    assert 0 < len(left) < 600
    result = ask(world.folder, table.metadata_location)
    assert result["unneeded"] == []
    assert len(result["delete-files"]) == 5
