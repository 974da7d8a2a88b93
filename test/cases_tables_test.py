"""Tables of every accepted type, declarations, sizes, and what other readers find in the metadata that is written."""

import datetime
import json
from decimal import Decimal

import duckdb_engine
import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import EqualTo, IsNull
from thalweg_test_tools import (
    KEYS,
    PROGRAM,
    SMALL_CUBES,
    Lake,
    data_files,
    local_path,
    make_rows,
    planned_files,
    rows_of,
)

MIB = 1 << 20


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One lake for the tables that tests of this module only look at."""
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is not built")
    return Lake(tmp_path_factory.mktemp("tables") / "lake")


# --- nulls and types


def decimals(digits: int):
    return lambda number: Decimal(number * 37 % 10 ** (digits - 2)).scaleb(-2)


# A type and its values by number, in ascending order of the number where that matters.
TYPES = {
    "boolean": (pa.bool_(), lambda number: number % 2 == 1),
    "int": (pa.int32(), lambda number: number - 500),
    "long": (pa.int64(), lambda number: number * 1_000_000_007),
    "float": (pa.float32(), lambda number: number / 8 - 20),
    "double": (pa.float64(), lambda number: number / 7),
    "decimal_9": (pa.decimal128(9, 2), decimals(9)),
    "decimal_18": (pa.decimal128(18, 2), decimals(18)),
    "decimal_38": (pa.decimal128(38, 2), decimals(38)),
    "date": (pa.date32(), lambda number: datetime.date(1960, 1, 1) + datetime.timedelta(days=number * 11)),
    "timestamp": (pa.timestamp("us"), lambda number: number * 3_600_000_001 - 10**12),
    "timestamptz": (pa.timestamp("us", "UTC"), lambda number: number * 3_600_000_001 - 10**12),
    "string": (pa.string(), lambda number: f"v{number:05}"),
}
# Columns that are no keys, all with nulls.
PAYLOAD = {
    "binary": (pa.binary(), lambda number: bytes([number % 256] * (number % 5))),
    "fixed": (pa.binary(4), lambda number: number.to_bytes(4, "big")),
    "time": (pa.time64("us"), lambda number: number * 1_000_003),
    "list": (pa.list_(pa.int32()), lambda number: [number, None, -number][: number % 4]),
    "struct": (pa.struct([("x", pa.int64()), ("y", pa.string())]), lambda number: {"x": None, "y": str(number)}),
    "map": (pa.map_(pa.string(), pa.float64()), lambda number: [(str(number), None), ("b", 0.5)][: number % 3]),
}
COUNT = 2400


def column(rng, kind: pa.DataType, value, share_of_nulls: float) -> pa.Array:
    null = rng.random(COUNT) < share_of_nulls
    numbers = rng.integers(0, 1000, COUNT).tolist()
    return pa.array([None if is_null else value(number) for number, is_null in zip(numbers, null, strict=True)], kind)


@pytest.fixture(scope="module")
def every_type(shared):
    """A table with a nullable column of every type, a third of each null, and one that is null throughout."""
    rng = np.random.default_rng(16)
    columns = {name: column(rng, kind, value, 0.3) for name, (kind, value) in (TYPES | PAYLOAD).items()}
    columns["nothing"] = pa.nulls(COUNT, pa.string())
    columns["id"] = pa.array(range(COUNT))
    rows = pa.table(columns)
    table = shared.make_table("types", rows.schema, SMALL_CUBES)
    for begin in range(0, COUNT, 600):
        table.append(rows.slice(begin, 600))
    # As PyIceberg gives them back before the program had the table.
    return "lake.db.types", {row["id"]: row for row in shared.table("types").scan().to_arrow().to_pylist()}


@pytest.mark.parametrize("name", [*TYPES, "nothing"])
def test_nulls_of_every_accepted_type(shared, every_type, name):
    address, expected = every_type
    shared.ok("set", address, "--columns", f"{name},id")
    report = shared.ok("optimize", address, "--full", "--target-rows-per-file", 120)
    assert report["outcome"] == "committed" and report["rows"] == COUNT
    table = shared.table("types")
    rows = table.scan().to_arrow().to_pylist()
    assert len(rows) == COUNT and {row["id"]: row for row in rows} == expected
    # Null has the end of the curve to itself. Only the largest value's coordinate is next to it, which matters where
    # many rows have that value (booleans).
    nulls = sum(row[name] is None for row in rows)
    largest = max((row[name] for row in rows if row[name] is not None), default=None)
    near = 0 if largest is None else sum(row[name] == largest for row in rows)
    files = len(data_files(table))
    with_null = planned_files(table, IsNull(name))
    assert nulls / COUNT <= len(with_null) / files <= (nulls + near) / COUNT + 0.15
    found = table.scan(row_filter=IsNull(name)).to_arrow()
    assert found.num_rows == nulls
    scan = f"iceberg_scan('{local_path(table.metadata_location)}')"
    connection = duckdb_engine.connect()
    assert connection.execute(f'SELECT count(*) FROM {scan} WHERE "{name}" IS NULL').fetchone() == (nulls,)
    assert connection.execute(f"SELECT sum(id) FROM {scan}").fetchone() == (sum(range(COUNT)),)


@pytest.mark.parametrize("name", ["binary", "fixed", "time", "list", "struct", "map"])
def test_other_types_are_refused_as_keys(shared, every_type, name):
    address, _ = every_type
    location = shared.table("types").metadata_location
    message = shared.run("set", address, "--columns", f"{name},id").error(2)
    assert f'"{name}"' in message or name in message
    assert shared.table("types").metadata_location == location


@pytest.mark.parametrize("zone", [None, "UTC"], ids=["without", "with"])
def test_timestamps_keep_and_use_microseconds(shared, zone):
    # Values that a cut to milliseconds or seconds would make equal.
    rng = np.random.default_rng(17)
    count = 8000
    micros = 1_767_225_600_000_000 + rng.permutation(count)
    kind = pa.timestamp("us", zone)
    rows = pa.table({"at": pa.array(micros, kind), "n": pa.array(rng.permutation(count))})
    name = f"micros_{'zone' if zone else 'plain'}"
    table = shared.make_table(name, rows.schema, SMALL_CUBES | {KEYS: "at,n"})
    for begin in range(0, count, 2000):
        table.append(rows.slice(begin, 2000))
    shared.ok("optimize", f"lake.db.{name}", "--target-rows-per-file", 125)
    table = shared.table(name)
    files = data_files(table)
    scan = f"iceberg_scan('{local_path(table.metadata_location)}')"
    read = duckdb_engine.connect().execute(f'SELECT epoch_us("at"), n FROM {scan}').fetchall()
    assert sorted(read) == sorted(zip(micros.tolist(), rows["n"].to_pylist(), strict=True))
    assert sorted(table.scan().to_arrow()["at"].cast(pa.int64()).to_pylist()) == sorted(micros.tolist())
    opened = []
    for value in micros[:40].tolist():
        literal = f"{np.datetime64(value, 'us')}" + ("+00:00" if zone else "")
        opened.append(len(planned_files(table, EqualTo("at", literal))))
        assert table.scan(row_filter=EqualTo("at", literal)).to_arrow().num_rows == 1
    assert min(opened) >= 1 and np.mean(opened) < 2.5 * len(files) ** 0.5
    # The bounds in the manifests are those of the rows, to the microsecond.
    field = table.schema().find_field("at")
    for task in table.scan().plan_files():
        held = pq.read_table(local_path(task.file.file_path))["at"].cast(pa.int64()).to_pylist()
        bounds = [
            from_bytes(field.field_type, ends[field.field_id])
            for ends in (task.file.lower_bounds, task.file.upper_bounds)
        ]
        assert bounds == [min(held), max(held)]


def test_nanoseconds_are_never_cut(lake):
    # Format version 2 has no nanoseconds: rows that need them are refused, those that do not are written.
    rows = pa.table({"at": pa.array([1, 1_000], pa.timestamp("ns")), "n": pa.array([1, 2])})
    message = lake.run("write", "lake.db.nanos", lake.write_parquet("bad.parquet", rows), "--mode", "create").error(1)
    assert '"at"' in message and "nanoseconds" in message and "microseconds" in message
    assert not lake.catalog.table_exists("db.nanos")
    lake.make_table("t", pa.schema([("at", pa.timestamp("us")), ("n", pa.int64())]), {KEYS: "at,n"})
    before = lake.table("t").metadata_location
    message = lake.run("write", "lake.db.t", lake.folder / "bad.parquet").error(1)
    assert "at" in message
    assert lake.table("t").metadata_location == before
    whole = pa.table({"at": pa.array([1_000, 2_000], pa.timestamp("ns")), "n": pa.array([1, 2])})
    lake.ok("write", "lake.db.t", lake.write_parquet("good.parquet", whole))
    assert lake.table("t").scan().to_arrow()["at"].cast(pa.int64()).to_pylist() == [1, 2]


# --- declarations


def test_declaring_again_commits_nothing(lake):
    address = lake.make_events(keys=None)
    every = [
        "--columns",
        "user_id,event_time",
        "--curve",
        "zorder",
        "--bits",
        "12",
        "--policy",
        "size",
        "--theta",
        "0.5",
    ]
    every += ["--target-cube-size", "64KiB", "--min-cube-size", "32KiB"]
    assert lake.ok("set", address, *every)["outcome"] == "committed"
    location = lake.table().metadata_location
    versions = sorted((lake.folder / "warehouse").rglob("*.metadata.json"))
    for _ in range(3):
        assert lake.ok("set", address, *every)["outcome"] == "nothing-to-do"
    # Each option alone, too, and the sizes in other words.
    for begin in range(0, len(every), 2):
        assert lake.ok("set", address, *every[begin : begin + 2])["outcome"] == "nothing-to-do"
    assert lake.ok("set", address, "--target-cube-size", str(64 * 1024))["outcome"] == "nothing-to-do"
    assert lake.table().metadata_location == location
    assert sorted((lake.folder / "warehouse").rglob("*.metadata.json")) == versions


def test_one_setting_does_not_take_another_away(lake):
    address = lake.make_events(files=2, rows=100, keys=None)
    with lake.table().transaction() as transaction:
        transaction.set_properties({"owner": "someone", "write.metadata.metrics.default": "full"})
    lake.ok("set", address, "--columns", "user_id,event_time", "--bits", "12")
    before = lake.table().properties
    for option, value, key in [
        ("--curve", "zorder", "curve"),
        ("--policy", "overlap", "policy"),
        ("--theta", "0.3", "overlap-threshold"),
        ("--target-cube-size", "96KiB", "target-cube-size-bytes"),
        ("--min-cube-size", "40KiB", "min-cube-size-bytes"),
    ]:
        lake.ok("set", address, option, value)
        after = lake.table().properties
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        assert changed == {f"write.liquid-clustering.{key}"}
        before = after


def test_sizes_set_before_the_columns_stay(lake):
    # As other engines declare: one property at a time, in any order.
    sizes = {
        "write.liquid-clustering.target-cube-size-bytes": str(9 * MIB),
        "write.liquid-clustering.min-cube-size-bytes": str(2 * MIB),
        "write.liquid-clustering.policy": "overlap",
    }
    address = lake.make_events(files=2, rows=100, keys=None)
    with lake.table().transaction() as transaction:
        transaction.set_properties(sizes)
    lake.ok("set", address, "--columns", "user_id,event_time")
    assert sizes.items() <= lake.table().properties.items()
    # Nor does a new choice of columns lose them when a declared one is gone.
    with lake.table().update_schema() as update:
        update.delete_column("event_time")
    lake.ok("set", address, "--columns", "user_id,amount")
    assert sizes.items() <= lake.table().properties.items()
    lake.ok("set", address, "--target-cube-size", "8MiB")
    assert lake.table().properties["write.liquid-clustering.min-cube-size-bytes"] == str(2 * MIB)


@pytest.mark.parametrize("how", ["clear", "property removed", "column dropped"])
def test_losing_a_declaration_is_never_silent(lake, how):
    address = lake.make_events(files=4, rows=1000)
    lake.ok("optimize", address)
    files = data_files(lake.table())
    if how == "clear":
        notes = lake.ok("clear", address)["notes"]
        assert any(f"{len(files)} file" in note for note in notes)
    elif how == "property removed":
        with lake.table().transaction() as transaction:
            transaction.remove_properties(KEYS)
    else:
        with lake.table().update_schema() as update:
            update.delete_column("event_time")
    expected = "event_time" if how == "column dropped" else f"{len(files)} file"
    for command in ["status", "spec", "cubes"]:
        done = lake.run(command, address)
        assert expected in done.out + done.err, (command, done)
    before = lake.table().metadata_location
    for command in [["optimize", address], ["optimize", address, "--full"], ["plan", address]]:
        done = lake.run(*command)
        assert done.code != 0 and expected in done.error(done.code), done
    assert lake.table().metadata_location == before


def test_a_renamed_column_stays_declared(lake):
    address = lake.make_events(files=4, rows=1000)
    lake.ok("set", address, "--columns", "user_id,event_time")
    with lake.table().update_schema() as update:
        update.rename_column("user_id", "visitor")
    status = lake.run("status", address)
    assert status.code == 0 and "visitor" in status.out and "user_id" in status.out
    assert lake.ok("optimize", address)["outcome"] == "committed"
    assert lake.ok("status", address)["declared"]["columns"][0]["name"] == "visitor"
    assert lake.ok("set", address, "--columns", "visitor,event_time")["outcome"] == "committed"
    assert lake.table().properties[KEYS] == "visitor,event_time"
    assert lake.ok("optimize", address)["outcome"] == "nothing-to-do"


# --- metadata for other readers


def fields_without_ids(schema, where: str = "") -> list[str]:
    """Record fields, list elements and maps of an Avro schema that lack the ids of the format."""
    if isinstance(schema, list):
        return [found for branch in schema for found in fields_without_ids(branch, where)]
    if not isinstance(schema, dict):
        return []
    if schema["type"] == "record":
        found = [f"{where}.{field['name']}" for field in schema["fields"] if "field-id" not in field]
        if where.endswith("[]") and schema["name"].startswith("k"):  # a map's entries
            assert [field["name"] for field in schema["fields"]] == ["key", "value"]
        return found + [
            lost for field in schema["fields"] for lost in fields_without_ids(field["type"], f"{where}.{field['name']}")
        ]
    if schema["type"] == "array":
        is_map = schema.get("logicalType") == "map"
        found = [] if is_map or "element-id" in schema else [f"{where}[]"]
        return found + fields_without_ids(schema["items"], f"{where}[]")
    # Primitive types are bare names, unless they carry a logical type.
    return [] if isinstance(schema["type"], str) and len(schema) > 1 else [f"{where}: {schema}"]


@pytest.mark.parametrize("hadoop", [False, True], ids=["catalog", "created here"])
def test_manifests_are_complete_for_every_reader(lake, hadoop):
    rows = pa.concat_tables([make_rows(3000, number) for number in range(2)])
    if hadoop:
        address = "lake.db.events"
        source = lake.write_parquet("rows.parquet", rows)
        lake.ok("write", address, source, "--mode", "create", "--cluster-by", "user_id,event_time")
        lake.ok("write", address, lake.write_parquet("more.parquet", rows))
        lake.ok("optimize", address)
    else:
        address = lake.make_events(files=2, rows=3000)
        lake.ok("optimize", address)
        lake.ok("write", address, lake.write_parquet("more.parquet", rows))
    table = lake.table()
    metadata = json.loads(open(local_path(table.metadata_location)).read())
    (schema,) = [one for one in metadata["schemas"] if one["schema-id"] == metadata["current-schema-id"]]
    snapshot = table.current_snapshot()
    files = data_files(table)

    # fastavro: headers, ids and values of the list and of every manifest.
    with open(local_path(snapshot.manifest_list), "rb") as file:
        reader = fastavro.reader(file)
        assert fields_without_ids(json.loads(reader.metadata["avro.schema"])) == []
        assert reader.metadata["snapshot-id"] == str(snapshot.snapshot_id)
        assert reader.metadata["parent-snapshot-id"] == str(snapshot.parent_snapshot_id or "null")
        assert reader.metadata["sequence-number"] == str(snapshot.sequence_number)
        assert reader.metadata["format-version"] == "2"
        manifests = list(reader)
    ours = 0
    live = {}
    for manifest in manifests:
        with open(local_path(manifest["manifest_path"]), "rb") as file:
            reader = fastavro.reader(file)
            header = reader.metadata
            entries = list(reader)
        for entry in entries:
            if entry["status"] != 2:
                live[entry["data_file"]["file_path"]] = entry["data_file"]
        if "thalweg" not in "".join(entry["data_file"]["file_path"].rsplit("/", 1)[1] for entry in entries):
            continue
        ours += 1
        assert fields_without_ids(json.loads(header["avro.schema"])) == []
        assert json.loads(header["schema"]) == schema
        assert all(isinstance(field["type"], str) for field in json.loads(header["schema"])["fields"])
        assert header["schema-id"] == str(schema["schema-id"])
        assert json.loads(header["partition-spec"]) == [] and header["partition-spec-id"] == "0"
        assert (header["format-version"], header["content"]) == ("2", "data")
    assert ours >= 1
    assert {path: (file["record_count"], file["file_size_in_bytes"]) for path, file in live.items()} == files

    # PyIceberg: its own view of the same, and the rows.
    inspected = table.inspect.files().to_pylist()
    assert {row["file_path"]: (row["record_count"], row["file_size_in_bytes"]) for row in inspected} == files
    assert table.inspect.manifests().num_rows == len(manifests)
    count = 12_000
    assert table.scan().to_arrow().num_rows == table.scan().count() == count

    # DuckDB: the table, its manifests as Avro, and its data files as plain Parquet.
    connection = duckdb_engine.connect()
    location = local_path(table.metadata_location)
    listed = connection.execute(
        f"SELECT file_path, record_count FROM iceberg_metadata('{location}') WHERE status != 'DELETED'"
    ).fetchall()
    assert dict(listed) == {path: rows_in_file for path, (rows_in_file, _) in files.items()}
    assert rows_of(table).total() == count
    for manifest in manifests:
        path = local_path(manifest["manifest_path"])
        assert connection.execute(f"SELECT count(*) FROM read_avro('{path}')").fetchone()[0] >= 1
    paths = [local_path(path) for path in files]
    assert duckdb_engine.connect().execute("SELECT count(*) FROM read_parquet(?)", [paths]).fetchone() == (count,)

    # pyarrow: field ids in every data file, as the schema has them.
    for path in paths:
        ids = {field.name: int(field.metadata[b"PARQUET:field_id"]) for field in pq.read_schema(path)}
        assert ids == {field["name"]: field["id"] for field in schema["fields"]}


# --- sizes


@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip", "uncompressed"])
def test_clustering_does_not_make_a_table_larger(shared, codec):
    # Events as they come: in order of time, with columns that are cheap to store in that order.
    rng = np.random.default_rng(35)
    count = 100_000
    time = 1_767_225_600_000_000 + np.sort(rng.integers(0, 90 * 86_400_000_000, count))
    user = (1e5 * rng.random(count) ** 3).astype(np.int64)
    rows = pa.table(
        {
            "event_time": pa.array(time, pa.timestamp("us")),
            "user_id": pa.array(user),
            "country": pa.array(rng.choice(["ch", "de", "fr", "it"], count)),
            "url": pa.array([f"https://example.org/item/{value}" for value in rng.integers(0, 20_000, count)]),
            "amount": pa.array(np.round(rng.exponential(30, count), 2)),
            "session": pa.array([f"{value:016x}" for value in rng.integers(0, 1 << 62, count)]),
        }
    )
    properties = {
        KEYS: "user_id,event_time",
        "write.parquet.compression-codec": codec,
        "write.target-file-size-bytes": str(8 * MIB),
    }
    name = f"size_{codec}"
    table = shared.make_table(name, rows.schema, properties)
    for begin in range(0, count, 25_000):
        table.append(rows.slice(begin, 25_000))
    report = shared.ok("optimize", f"lake.db.{name}")
    print(f"{codec}: {report['source_bytes']} to {report['output_bytes']} bytes")
    assert report["output_bytes"] <= 1.05 * report["source_bytes"]
    for path in data_files(shared.table(name)):
        used = pq.read_metadata(local_path(path)).row_group(0).column(0).compression
        assert used == codec.upper()
