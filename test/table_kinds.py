"""Makers of tables of every kind that people have, by the writers that they have, each with the rows that it must hold.

The rows are worked out here, from what was written, and not read back from anybody.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from spark_tools import SparkCatalog
from thalweg_test_tools import Lake

ROWS = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("user_id", pa.int64()),
        pa.field("event_time", pa.timestamp("us")),
        pa.field("country", pa.string()),
        pa.field("amount", pa.float64()),
    ]
)
COLUMNS = "id BIGINT, user_id BIGINT, event_time TIMESTAMP_NTZ, country STRING, amount DOUBLE"
MERGE_ON_READ = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}
# Small files and cubes, so that a small table has several of each.
SMALL = {
    "write.target-file-size-bytes": str(8 * 1024),
    "write.liquid-clustering.target-cube-size-bytes": str(32 * 1024),
    "write.liquid-clustering.min-cube-size-bytes": str(16 * 1024),
}
FILES, PER_FILE = 12, 350
MONDAY = datetime(2026, 1, 5)


def rows(number: int, count: int = PER_FILE) -> pa.Table:
    """The rows of the file of that number: every key is spread over its whole range, some keys are null."""
    rng = np.random.default_rng(number)
    return pa.table(
        [
            pa.array(np.arange(number * PER_FILE, number * PER_FILE + count)),
            pa.array(rng.integers(0, 1000, count), mask=rng.random(count) < 0.02),
            pa.array([MONDAY + timedelta(microseconds=int(x)) for x in rng.integers(0, 10**13, count)]),
            pa.array(rng.choice(["ch", "de", "fr", "it"], count), mask=rng.random(count) < 0.02),
            pa.array(rng.random(count)),
        ],
        schema=ROWS,
    )


@dataclass
class Known:
    """A table "events" in the lake's namespace, and what it must hold."""

    expected: pa.Table
    keys: str = "user_id,event_time"
    lineage: bool = False  # rows have ids
    others: dict[str, pa.Table] = field(default_factory=dict)  # what its branches and tags hold


Maker = Callable[[Lake, SparkCatalog], Known]


def create(spark: SparkCatalog, columns: str = COLUMNS, version: int = 2, **properties: str) -> None:
    given = SMALL | {"format-version": str(version)} | properties
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in given.items())
    spark.sql(f"CREATE TABLE {{t}} ({columns}) USING iceberg TBLPROPERTIES ({listed})")


def fill(spark: SparkCatalog, files: int = FILES) -> pa.Table:
    """Appends the files, one commit each; all their rows."""
    written = [rows(number) for number in range(files)]
    for some in written:
        spark.append(some)
    return pa.concat_tables(written)


def without(table: pa.Table, condition: pa.compute.Expression) -> pa.Table:
    """The rows for which the condition does not hold; nulls do not make it hold."""
    return table.filter(~pc.coalesce(condition, pc.scalar(False)))


def updated(table: pa.Table, condition: pa.compute.Expression, name: str, value) -> pa.Table:
    hit = pc.coalesce(condition, pc.scalar(False))
    marked = pa.concat_tables([table.filter(hit), table.filter(~hit)])
    count = table.filter(hit).num_rows
    column = pa.array([value] * count + marked[name].to_pylist()[count:], table.schema.field(name).type)
    return marked.set_column(table.schema.get_field_index(name), table.schema.field(name), column)


def position_deletes(lake: Lake, spark: SparkCatalog) -> Known:
    """Of Spark, and of streaming writers: one file of deletes for a data file, and one for several."""
    create(spark, **MERGE_ON_READ)
    table = fill(spark)
    spark.sql("DELETE FROM {t} WHERE user_id < 100")
    spark.sql("UPDATE {t} SET amount = -1 WHERE user_id < 120")
    spark.delete_positions("id % 50 = 7", file_scoped=True)
    spark.delete_positions("id % 50 = 8", file_scoped=False)
    table = updated(without(table, pc.field("user_id") < 100), pc.field("user_id") < 120, "amount", -1.0)
    keep = [row % 50 not in (7, 8) for row in table["id"].to_pylist()]
    return Known(table.filter(pa.array(keep)))


def equality_deletes(lake: Lake, spark: SparkCatalog) -> Known:
    """Of an upserting stream: by one column and by two, and of rows that came back afterwards."""
    create(spark)
    table = fill(spark)
    spark.delete_equal("SELECT id FROM range(100)", "SELECT id FROM range(350, 400)")
    again = rows(0)
    spark.append(again)
    spark.delete_equal("SELECT id, amount FROM {t} WHERE id % 10 = 3".replace("{t}", spark.address()))
    last = rows(1).slice(0, 20)
    spark.append(last)
    survived = without(without(table, pc.field("id") < 100), (pc.field("id") >= 350) & (pc.field("id") < 400))
    survived = pa.concat_tables([survived, again])
    keep = [row % 10 != 3 for row in survived["id"].to_pylist()]
    return Known(pa.concat_tables([survived.filter(pa.array(keep)), last]))


def equality_deletes_and_nulls(lake: Lake, spark: SparkCatalog) -> Known:
    """Null equals null, and nothing else."""
    create(spark)
    table = fill(spark)
    spark.delete_equal("SELECT CAST(NULL AS BIGINT) AS user_id")
    spark.delete_equal(
        "SELECT 'ch' AS country, id AS user_id FROM range(300) UNION ALL SELECT NULL, id FROM range(100)"
    )
    table = table.filter(~pc.is_null(pc.field("user_id")))
    table = without(table, (pc.field("country") == "ch") & (pc.field("user_id") < 300))
    return Known(table.filter(~(pc.is_null(pc.field("country")) & (pc.field("user_id") < 100))))


def deletion_vectors(lake: Lake, spark: SparkCatalog) -> Known:
    create(spark, version=3, **MERGE_ON_READ)
    table = fill(spark)
    spark.sql("DELETE FROM {t} WHERE user_id < 100")
    spark.sql("DELETE FROM {t} WHERE country = 'de' AND user_id < 300")  # replaces vectors by larger ones
    table = without(table, pc.field("user_id") < 100)
    gone = (pc.field("country") == "de") & (pc.field("user_id") < 300)
    return Known(without(table, gone), lineage=True)


def row_lineage(lake: Lake, spark: SparkCatalog) -> Known:
    """Ids in files of their own (rows that were updated in place) beside inherited ones."""
    create(spark, version=3)
    table = fill(spark)
    spark.sql("UPDATE {t} SET amount = -1 WHERE id < 700")
    spark.sql("DELETE FROM {t} WHERE id BETWEEN 1500 AND 1600")
    table = updated(table, pc.field("id") < 700, "amount", -1.0)
    gone = (pc.field("id") >= 1500) & (pc.field("id") <= 1600)
    return Known(without(table, gone), lineage=True)


def upgraded(lake: Lake, spark: SparkCatalog) -> Known:
    """Written in version 2, with deletes, and upgraded: some rows have no id yet."""
    create(spark, **MERGE_ON_READ)
    table = fill(spark)
    spark.sql("DELETE FROM {t} WHERE user_id < 100")
    spark.sql("ALTER TABLE {t} SET TBLPROPERTIES ('format-version' = '3')")
    more = rows(FILES)
    spark.append(more)
    return Known(pa.concat_tables([without(table, pc.field("user_id") < 100), more]), lineage=True)


def nested(lake: Lake, spark: SparkCatalog) -> Known:
    """Structs, lists and maps in each other; nulls and emptiness at every level, but no null list of structs.

    PyIceberg reads those as empty.
    """
    where = pa.struct([("city", pa.string()), ("at", pa.struct([("x", pa.int32()), ("y", pa.float32())]))])
    columns = {
        "place": where,
        "tags": pa.list_(pa.string()),
        "stops": pa.list_(where),
        "counts": pa.map_(pa.string(), pa.int64()),
        "grid": pa.map_(pa.string(), pa.list_(pa.struct([("a", pa.int64())]))),
    }
    create(
        spark,
        "user_id BIGINT, event_time TIMESTAMP_NTZ, place STRUCT<city: STRING, at: STRUCT<x: INT, y: FLOAT>>, "
        "tags ARRAY<STRING>, stops ARRAY<STRUCT<city: STRING, at: STRUCT<x: INT, y: FLOAT>>>, "
        "counts MAP<STRING, BIGINT>, grid MAP<STRING, ARRAY<STRUCT<a: BIGINT>>>",
    )
    rng = np.random.default_rng(1)

    def maybe(value):
        return None if rng.random() < 0.1 else value

    def place():
        at = maybe({"x": maybe(int(rng.integers(0, 9))), "y": maybe(0.5 * int(rng.integers(0, 9)))})
        return maybe({"city": maybe(str(rng.integers(0, 99))), "at": at})

    def some(make):
        return maybe([make() for _ in range(rng.integers(0, 4))])

    def pairs(make):
        return maybe([(f"k{number}", make()) for number in range(rng.integers(0, 4))])

    written = []
    for number in range(FILES):
        plain = rows(number, 200).select(["user_id", "event_time"])
        values = {
            "place": [place() for _ in range(200)],
            "tags": [some(lambda: maybe(str(rng.integers(0, 99)))) for _ in range(200)],
            "stops": [some(place) or [] for _ in range(200)],
            "counts": [pairs(lambda: maybe(int(rng.integers(0, 99)))) for _ in range(200)],
            "grid": [pairs(lambda: some(lambda: maybe({"a": maybe(int(rng.integers(9)))}))) for _ in range(200)],
        }
        for name, kind in columns.items():
            plain = plain.append_column(name, pa.array(values[name], kind))
        spark.append(plain)
        written.append(plain)
    return Known(pa.concat_tables(written))


def renamed(lake: Lake, spark: SparkCatalog) -> Known:
    """Columns renamed, dropped, added, moved, and made again under the name of one that was dropped."""
    create(spark)
    old = fill(spark, FILES // 2)
    spark.sql("ALTER TABLE {t} RENAME COLUMN user_id TO uid")
    spark.sql("ALTER TABLE {t} DROP COLUMN amount")
    spark.sql("ALTER TABLE {t} ADD COLUMN amount STRING")  # another column of that name
    spark.sql("ALTER TABLE {t} ADD COLUMN score DOUBLE AFTER id")
    spark.sql("ALTER TABLE {t} ALTER COLUMN country FIRST")
    nothing = pa.nulls(old.num_rows)
    old = pa.table(
        {
            "country": old["country"],
            "id": old["id"],
            "score": nothing.cast(pa.float64()),
            "uid": old["user_id"],
            "event_time": old["event_time"],
            "amount": nothing.cast(pa.string()),
        }
    )
    written = [old]
    for number in range(FILES // 2, FILES):
        some = rows(number)
        new = pa.table(
            {
                "country": some["country"],
                "id": some["id"],
                "score": some["amount"],
                "uid": some["user_id"],
                "event_time": some["event_time"],
                "amount": pa.array([f"{value:.3f}" for value in some["amount"].to_pylist()]),
            }
        )
        spark.append(new)
        written.append(new)
    return Known(pa.concat_tables(written), keys="uid,event_time")


def promoted(lake: Lake, spark: SparkCatalog) -> Known:
    """int to bigint, float to double, a decimal of more digits; old values and new ones that need the new type."""
    create(spark, "small INT, ratio FLOAT, price DECIMAL(9, 2), note STRING")
    rng = np.random.default_rng(2)

    def make(number: int, wide: bool) -> pa.Table:
        factor = 1 << 33 if wide else 1
        ratio = rng.integers(0, 1000, PER_FILE) / (1000.0 if wide else 8.0)  # the latter are floats, too
        kinds = (
            [pa.int64(), pa.float64(), pa.decimal128(18, 2)]
            if wide
            else [pa.int32(), pa.float32(), pa.decimal128(9, 2)]
        )
        price = [Decimal(int(x)) * (10**7 if wide else 1) / 100 for x in rng.integers(-9999, 9999, PER_FILE)]
        return pa.table(
            {
                "small": pa.array(rng.integers(-500, 500, PER_FILE) * factor).cast(kinds[0]),
                "ratio": pa.array(ratio).cast(kinds[1]),
                "price": pa.array([x.quantize(Decimal("0.01")) for x in price], kinds[2]),
                "note": pa.array([f"n{number}"] * PER_FILE),
            }
        )

    written = [make(number, False) for number in range(FILES // 2)]
    for some in written:
        spark.append(some)
    spark.sql("ALTER TABLE {t} ALTER COLUMN small TYPE BIGINT")
    spark.sql("ALTER TABLE {t} ALTER COLUMN ratio TYPE DOUBLE")
    spark.sql("ALTER TABLE {t} ALTER COLUMN price TYPE DECIMAL(18, 2)")
    later = [make(number, True) for number in range(FILES // 2, FILES)]
    for some in later:
        spark.append(some)
    wide = later[0].schema
    return Known(pa.concat_tables([*(some.cast(wide) for some in written), *later]), keys="small,price")


def defaults(lake: Lake, spark: SparkCatalog) -> Known:
    """Columns added in version 3 with a default, which old files do not hold; set as the reference does."""
    create(spark, version=3)
    old = fill(spark, FILES // 2)
    jvm = spark.session._jvm
    types, literal = jvm.org.apache.iceberg.types.Types, jvm.org.apache.iceberg.expressions.Expressions.lit
    update = spark.java_table().updateSchema()
    update.addColumn("level", types.IntegerType.get(), None, literal(7))
    update.addColumn("label", types.StringType.get(), None, literal("none yet"))
    day = literal("2026-02-03").to(types.DateType.get())
    update.addColumn("day", types.DateType.get(), None, day)
    update.commit()
    count = old.num_rows
    old = old.append_column("level", pa.array([7] * count, pa.int32()))
    old = old.append_column("label", pa.array(["none yet"] * count))
    old = old.append_column("day", pa.array([date(2026, 2, 3)] * count))
    written = [old]
    for number in range(FILES // 2, FILES):
        some, ids = rows(number), range(PER_FILE)
        some = some.append_column("level", pa.array([None if x % 9 == 0 else x % 5 for x in ids], pa.int32()))
        some = some.append_column("label", pa.array([None if x % 7 == 0 else str(x) for x in ids]))
        some = some.append_column("day", pa.array([None if x % 5 == 0 else date(2026, 3, 1 + x % 30) for x in ids]))
        spark.append(some)
        written.append(some)
    return Known(pa.concat_tables(written), keys="user_id,level", lineage=True)


def name_mapping(lake: Lake, spark: SparkCatalog) -> Known:
    """Files that came without field ids, adopted by PyIceberg, beside files with ids; then a column is renamed."""
    table = lake.make_table("events", ROWS, SMALL)
    paths = []
    for number in range(FILES // 2):
        paths.append(str(lake.folder / f"plain-{number}.parquet"))
        pq.write_table(rows(number), paths[-1])
    table.add_files(paths)
    spark.sql("ALTER TABLE {t} RENAME COLUMN user_id TO uid")
    written = [rows(number).rename_columns(["id", "uid", *ROWS.names[2:]]) for number in range(FILES)]
    for some in written[FILES // 2 :]:
        spark.append(some)
    return Known(pa.concat_tables(written), keys="uid,event_time")


def plain_files(lake: Lake, spark: SparkCatalog) -> Known:
    """Nothing but appends: what REST and S3 are about is where the table lives."""
    create(spark)
    return Known(fill(spark))


def branches(lake: Lake, spark: SparkCatalog) -> Known:
    """A branch that went its own way and a tag: neither is the main branch, and both must stay as they are."""
    create(spark)
    before = fill(spark, FILES // 2)
    spark.sql("ALTER TABLE {t} CREATE TAG early")
    spark.sql("ALTER TABLE {t} CREATE BRANCH audit")
    spark.sql("INSERT INTO {t}.branch_audit SELECT id + 100000, user_id, event_time, country, amount FROM {t}")
    branch = pa.concat_tables([before, before.set_column(0, "id", pc.add(before["id"], 100000))])
    later = [rows(number) for number in range(FILES // 2, FILES)]
    for some in later:
        spark.append(some)
    return Known(pa.concat_tables([before, *later]), others={"early": before, "audit": branch})


def foreign_maintenance(lake: Lake, spark: SparkCatalog) -> Known:
    """Clustered by the program, and then looked after by Spark."""
    create(spark)
    table = fill(spark)
    lake.ok("set", lake.address(), "--columns", "user_id,event_time")
    assert lake.ok("optimize", lake.address())["outcome"] == "committed"
    for number in range(FILES, FILES + 7):
        spark.append(rows(number))
    spark.procedure("rewrite_data_files", "options => map('rewrite-all', 'true'), where => 'user_id < 10'")
    spark.procedure("rewrite_manifests")
    spark.age_files(lake)
    spark.procedure("expire_snapshots", "older_than => now(), retain_last => 1")
    spark.procedure("remove_orphan_files")
    spark.append(rows(FILES + 7))
    more = [rows(number) for number in range(FILES, FILES + 8)]
    return Known(pa.concat_tables([table, *more]))


KINDS: dict[str, Maker] = {
    "position deletes": position_deletes,
    "equality deletes": equality_deletes,
    "equality deletes and nulls": equality_deletes_and_nulls,
    "deletion vectors": deletion_vectors,
    "row lineage": row_lineage,
    "upgraded to v3": upgraded,
    "nested": nested,
    "renamed": renamed,
    "promoted": promoted,
    "defaults": defaults,
    "name mapping": name_mapping,
    "branches": branches,
    "REST": plain_files,
    "S3": plain_files,
    "foreign maintenance": foreign_maintenance,
}
