"""What the tests take for granted of Spark and of the deletes that Iceberg's writers write beside it."""

from datetime import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from rest_tools import RestLake
from spark_tools import hadoop_catalog, rest_catalog_of
from table_readers import delete_files
from thalweg_test_tools import EVENTS, arrow_rows, hadoop_table, make_rows, rows_of

pytestmark = pytest.mark.jvm


def test_spark_and_pyiceberg_share_a_catalog(lake, spark):
    lake.make_table("events", EVENTS).append(make_rows(100, 1))
    expected = arrow_rows(make_rows(100, 1))
    assert arrow_rows(spark.read()) == expected
    spark.sql("INSERT INTO {t} VALUES (1, TIMESTAMP_NTZ '2026-01-02 03:04:05.678901', 'ch', 0.5)")
    expected[(1, datetime(2026, 1, 2, 3, 4, 5, 678901), "ch", 0.5)] += 1
    assert rows_of(lake.table()) == expected
    spark.sql("CREATE TABLE {t} (a BIGINT) USING iceberg", "made")
    spark.sql("INSERT INTO {t} VALUES (1), (NULL)", "made")
    assert rows_of(lake.table("made")) == {(1,): 1, (None,): 1}


def test_the_rest_catalog_is_shared_too(rest_catalog: RestLake, spark_session):
    rest_catalog.make_table("events", EVENTS).append(make_rows(100, 1))
    spark = rest_catalog_of(spark_session, rest_catalog)
    spark.sql("DELETE FROM {t} WHERE user_id > 500000")
    assert rows_of(rest_catalog.table()) == arrow_rows(spark.read())
    assert 0 < spark.read().num_rows < 100


def test_hadoop_layout(lake, spark_session):
    spark = hadoop_catalog(spark_session, lake.folder)
    spark.sql("CREATE TABLE {t} (a BIGINT, b STRING) USING iceberg")
    spark.sql("INSERT INTO {t} VALUES (1, 'x'), (2, NULL)")
    assert (
        rows_of(hadoop_table(lake.folder / "db" / "events")) == arrow_rows(spark.read()) == {(1, "x"): 1, (2, None): 1}
    )


def test_equality_deletes_of_any_columns_and_nulls(lake, spark):
    schema = pa.schema(
        [
            pa.field("a", pa.int64()),
            pa.field("b", pa.string()),
            pa.field("c", pa.timestamp("us", tz="UTC")),
            pa.field("d", pa.decimal128(9, 2)),
        ]
    )
    moment = datetime.fromisoformat("2026-01-02T03:04:05.678901+00:00")
    rows = [(1, "x", moment, Decimal("1.50")), (2, None, moment, None), (3, "y", None, None), (None, None, None, None)]
    columns = [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)]
    lake.make_table("events", schema).append(pa.table(columns, schema=schema))
    spark.delete_equal("SELECT 1 AS a, 'x' AS b UNION ALL SELECT 3, 'x'", "SELECT CAST(NULL AS BIGINT) AS a")
    assert arrow_rows(spark.read()) == {row: 1 for row in rows[1:3]}
    spark.sql("INSERT INTO {t} VALUES (NULL, 'later', NULL, NULL)")  # deletes do not reach what comes after them
    spark.delete_equal("SELECT TIMESTAMP_LTZ '2026-01-02 03:04:05.678901' AS c, CAST(NULL AS DECIMAL(9, 2)) AS d")
    assert arrow_rows(spark.read()) == {rows[2]: 1, (None, "later", None, None): 1}
    files = delete_files(lake.table())
    assert [sorted(file.equality_ids) for file in files] == [[3, 4], [1, 2], [1]]


@pytest.mark.parametrize("file_scoped", [True, False])
def test_position_deletes_of_each_scope(lake, spark, file_scoped):
    table = lake.make_table("events", EVENTS)
    written = [make_rows(100, seed) for seed in (1, 2)]
    for rows in written:
        table.append(rows)
    expected = arrow_rows(pa.concat_tables(written))
    spark.delete_positions("country = 'ch'", file_scoped=file_scoped)
    assert arrow_rows(spark.read()) == {row: count for row, count in expected.items() if row[2] != "ch"}
    files = delete_files(lake.table())
    assert len(files) == (2 if file_scoped else 1)
    for file in files:  # the path's bounds are equal, or (of several paths) left out
        lower, upper = ((bounds or {}).get(2147483546) for bounds in (file.lower_bounds, file.upper_bounds))
        assert lower == upper and (lower is not None) == file_scoped
    assert arrow_rows(lake.table().scan().to_arrow()) == arrow_rows(spark.read())
