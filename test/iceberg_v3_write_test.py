"""`thalweg write` into tables of format version 3: defaults of columns that the input lacks, row ids, new tables."""

import json
from collections import Counter
from pathlib import Path

import duckdb_engine
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import schema_to_pyarrow
from spark_tools import rest_catalog_of
from table_kinds import ROWS, create, rows
from table_readers import READERS, multiset
from thalweg_test_tools import arrow_rows, hadoop_table, local_path, make_rows, newest_hadoop_metadata

NANOSECONDS = pa.schema([pa.field("id", pa.int64()), pa.field("at", pa.timestamp("ns"))])


def nanosecond_rows(count: int, first: int = 0) -> pa.Table:
    ids = range(first, first + count)
    return pa.table([pa.array(ids), pa.array([10**18 + 7919 * x for x in ids], pa.timestamp("ns"))], schema=NANOSECONDS)


def test_a_new_table_of_version_3(lake):
    """Nanoseconds need it: without the option they are refused, and nothing is made."""
    folder, source = lake.folder / "t", lake.write_parquet("rows.parquet", nanosecond_rows(3000))
    message = lake.run("write", folder, source, "--mode", "create").error()
    assert '"at"' in message and "--format-version 3" in message
    assert not folder.exists()
    done = lake.ok("write", folder, source, "--mode", "create", "--format-version", "3", "--cluster-by", "id,at")
    assert (done["outcome"], done["rows"]) == ("committed", 3000)
    metadata = json.loads(newest_hadoop_metadata(folder).read_text())
    assert (metadata["format-version"], metadata["next-row-id"]) == (3, 3000)
    assert "format-version" not in metadata["properties"]
    assert [field["type"] for field in metadata["schemas"][0]["fields"]] == ["long", "timestamp_ns"]
    assert (metadata["snapshots"][-1]["first-row-id"], metadata["snapshots"][-1]["added-rows"]) == (0, 3000)
    lake.ok("write", folder, lake.write_parquet("more.parquet", nanosecond_rows(500, 3000)))
    metadata = json.loads(newest_hadoop_metadata(folder).read_text())
    assert metadata["next-row-id"] == 3500 and metadata["snapshots"][-1]["first-row-id"] == 3000
    assert lake.ok("optimize", folder, "--full")["outcome"] == "committed"
    (files,) = [sorted(local_path(task.file.file_path) for task in hadoop_table(folder).scan().plan_files())]
    found = pa.concat_tables([pq.read_table(path) for path in files])
    assert sorted(found["_row_id"].to_pylist()) == list(range(3500))
    assert set(zip(found["id"].to_pylist(), found["_last_updated_sequence_number"].to_pylist(), strict=True)) == {
        (x, 1 if x < 3000 else 2) for x in range(3500)
    }
    assert found.select(NANOSECONDS.names).sort_by("id").cast(NANOSECONDS).equals(nanosecond_rows(3500))
    metadata_file = newest_hadoop_metadata(folder)
    by_duckdb = duckdb_engine.connect().execute(
        'SELECT count(*), sum(id), count(DISTINCT "at") FROM iceberg_scan(?)', [str(metadata_file)]
    )
    assert by_duckdb.fetchall() == [(3500, sum(range(3500)), 3500)]


def test_the_version_is_for_new_iceberg_tables(lake):
    source = lake.write_parquet("rows.parquet", make_rows(10, 1))
    address = lake.make_events(files=1, rows=10)
    assert "--mode create" in lake.run("write", address, source, "--format-version", "3").error(2)
    assert "Iceberg" in lake.run(
        "write", lake.folder / "t.lance", source, "--mode", "create", "--format-version", "3"
    ).error(2)
    assert not (lake.folder / "t.lance").exists()
    assert lake.run("write", lake.folder / "t", source, "--mode", "create", "--format-version", "4").code == 2
    lake.ok("write", lake.folder / "t", source, "--mode", "create", "--format-version", "2")
    assert hadoop_table(lake.folder / "t").format_version == 2


# Name, type and write default as the metadata has it, and as a reader must see it.
DEFAULTS = [
    ("flag", "boolean", True, True),
    ("level", "int", 8, 8),
    ("ratio", "double", 0.5, 0.5),
    ("price", "decimal(9, 2)", "14.20", "14.20"),
    ("day", "date", "2026-02-03", "2026-02-03"),
    ("moment", "timestamp", "2026-02-03T04:05:06.000007", "2026-02-03 04:05:06.000007"),
    ("label", "string", "none yet", "none yet"),
]


def table_with_defaults(lake, *more: dict) -> Path:
    folder = lake.folder / "defaults"
    start = pa.table({"id": pa.array(range(100)), "k": pa.array([x % 7 for x in range(100)], pa.int32())})
    lake.ok("write", folder, lake.write_parquet("start.parquet", start), "--mode", "create", "--format-version", "3")
    metadata_file = newest_hadoop_metadata(folder)
    metadata = json.loads(metadata_file.read_text())
    metadata["schemas"][0]["fields"] += [
        {"id": 10 + i, "name": name, "required": False, "type": kind, "write-default": value}
        for i, (name, kind, value, _) in enumerate(DEFAULTS)
    ] + list(more)
    metadata["last-column-id"] = 40
    metadata_file.write_text(json.dumps(metadata))
    return folder


def test_columns_that_the_input_lacks_have_the_write_default(lake):
    """Old rows have none; a null that is written stays one."""
    needed = {"id": 30, "name": "needed", "required": True, "type": "long", "initial-default": 1, "write-default": 2}
    plain = {"id": 31, "name": "plain", "required": False, "type": "string"}
    folder = table_with_defaults(lake, needed, plain)
    lacking = pa.table({"id": pa.array(range(100, 150)), "k": pa.array([3] * 50, pa.int32())})
    done = lake.ok("write", folder, lake.write_parquet("lacking.parquet", lacking))
    (note,) = [note for note in done["notes"] if "defaults" in note]
    assert all(name in note for name in ("level (8)", "label (none yet)", "needed (2)"))
    assert "plain" not in note
    nulls = lacking.set_column(0, "id", pa.array(range(150, 200))).append_column("level", pa.nulls(50, pa.int32()))
    nulls = nulls.append_column("needed", pa.array([9] * 50))
    done = lake.ok("write", folder, lake.write_parquet("nulls.parquet", nulls))
    assert all("level" not in note and "needed" not in note for note in done["notes"])

    def check() -> None:
        named = ", ".join(f"{name}::VARCHAR" for name, _, _, _ in DEFAULTS)
        query = f"SELECT id, needed, plain, {named} FROM iceberg_scan('{newest_hadoop_metadata(folder)}')"
        found = {row[0]: row[1:] for row in duckdb_engine.connect().execute(f"{query} ORDER BY id").fetchall()}
        given = tuple(str(value).lower() if value is True else str(value) for *_, value in DEFAULTS)
        assert list(found) == list(range(200))
        assert {found[id] for id in range(100)} == {(1, None) + (None,) * len(DEFAULTS)}
        assert {found[id] for id in range(100, 150)} == {(2, None, *given)}
        without_level = tuple(None if name == "level" else v for (name, *_), v in zip(DEFAULTS, given, strict=True))
        assert {found[id] for id in range(150, 200)} == {(9, None, *without_level)}

    check()
    lake.ok("set", folder, "--columns", "k,id")
    assert lake.ok("optimize", folder, "--full")["outcome"] == "committed"
    check()


def test_a_struct_that_the_input_lacks_is_made_of_the_defaults_of_its_fields(lake):
    """Which readers here do not take from metadata: looked at in the file."""
    x = {"id": 33, "name": "x", "required": False, "type": "int", "write-default": 5, "initial-default": 4}
    y = {"id": 34, "name": "y", "required": False, "type": "string"}
    box = {"id": 32, "name": "box", "required": False, "type": {"type": "struct", "fields": [x, y]}}
    folder = table_with_defaults(lake, box | {"write-default": {}})
    rows = pa.table({"id": pa.array(range(5)), "k": pa.array([3] * 5, pa.int32())})
    lake.ok("write", folder, lake.write_parquet("rows.parquet", rows), "--run-id", "with-box")
    (written,) = [path for path in (folder / "data").rglob("*.parquet") if "box" in pq.read_schema(path).names]
    assert pq.read_table(written)["box"].to_pylist() == [{"x": 5, "y": None}] * 5


@pytest.mark.parametrize(
    "field, expected",
    [
        ({"type": "int", "write-default": "seven"}, '"seven" is not a value of type int'),
        ({"type": "long", "required": True, "initial-default": 1}, 'required column "odd"'),
    ],
)
def test_what_has_no_default_or_a_wrong_one_is_refused(lake, field, expected):
    folder = table_with_defaults(lake, {"id": 30, "name": "odd", "required": False} | field)
    rows = pa.table({"id": pa.array(range(5)), "k": pa.array([3] * 5, pa.int32())})
    before = sorted(folder.rglob("*"))
    assert expected in lake.run("write", folder, lake.write_parquet("rows.parquet", rows)).error()
    assert sorted(folder.rglob("*")) == before


@pytest.mark.jvm
def test_spark_sees_the_defaults_and_the_row_ids(lake, spark):
    """Defaults as the reference sets them, the second one changed since the column was added."""
    create(spark, version=3)
    spark.append(rows(0))
    jvm = spark.session._jvm
    types, literal = jvm.org.apache.iceberg.types.Types, jvm.org.apache.iceberg.expressions.Expressions.lit
    update = spark.java_table().updateSchema()
    update.addColumn("level", types.IntegerType.get(), None, literal(7))
    update.addColumn("label", types.StringType.get(), None, literal("old"))
    update.commit()
    update = spark.java_table().updateSchema()
    update.updateColumnDefault("label", literal("new"))
    update.commit()
    identity = "id, _row_id, _last_updated_sequence_number"
    before = {row[0]: row[1:] for row in spark.sql(f"SELECT {identity} FROM {{t}}")}
    address = lake.address()
    lake.ok("set", address, "--columns", "user_id,event_time")
    done = lake.ok("write", address, lake.write_parquet("rows.parquet", rows(1)))
    assert any("level (7), label (new)" in note for note in done["notes"])
    number = lake.table().current_snapshot().sequence_number

    def constant(table: pa.Table, label: str) -> pa.Table:
        table = table.append_column("level", pa.array([7] * table.num_rows, pa.int32()))
        return table.append_column("label", pa.array([label] * table.num_rows))

    expected = multiset(pa.concat_tables([constant(rows(0), "old"), constant(rows(1), "new")]))
    for read in READERS.values():
        assert multiset(read(lake.table(), spark, "events")) == expected
    after = {row[0]: row[1:] for row in spark.sql(f"SELECT {identity} FROM {{t}}")}
    assert {id: after[id] for id in before} == before
    new = [after[id] for id in rows(1)["id"].to_pylist()]
    assert sorted(row_id for row_id, _ in new) == list(range(350, 700)) and {last for _, last in new} == {number}
    assert lake.ok("optimize", address, "--full")["outcome"] == "committed"
    assert {row[0]: row[1:] for row in spark.sql(f"SELECT {identity} FROM {{t}}")} == after
    spark.append(constant(rows(2), "theirs"))  # and Spark goes on where we ended
    ids = [row_id for (row_id,) in spark.sql("SELECT _row_id FROM {t}")]
    assert len(set(ids)) == len(ids) == 1050 and None not in ids


@pytest.mark.jvm
@pytest.mark.parametrize("catalog", ["sql", "rest"])
def test_new_tables_of_version_3_in_catalogs(catalog, lake, spark, request, spark_session):
    if catalog == "rest":
        lake = request.getfixturevalue("rest_catalog")
        spark = rest_catalog_of(spark_session, lake)
    for number in range(2):
        options = ("--mode", "create", "--format-version", "3", "--cluster-by", "user_id,event_time")
        source = lake.write_parquet(f"{number}.parquet", rows(number))
        lake.ok("write", lake.address(), source, *(options if number == 0 else ()))
    table = lake.table()
    assert table.format_version == 3 and schema_to_pyarrow(table.schema()).names == ROWS.names
    spark.sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    spark.sql("DELETE FROM {t} WHERE id % 10 = 3")
    identity = "SELECT id, _row_id, _last_updated_sequence_number FROM {t}"
    before = Counter(spark.sql(identity))
    assert len({row_id for _, row_id, _ in before}) == 630
    assert lake.ok("optimize", lake.address(), "--full")["rows"] == 630
    assert Counter(spark.sql(identity)) == before
    left = [rows(number).filter(pa.array([x % 10 != 3 for x in rows(number)["id"].to_pylist()])) for number in (0, 1)]
    assert arrow_rows(spark.read()) == arrow_rows(pa.concat_tables(left))
