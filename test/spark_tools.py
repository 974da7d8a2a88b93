"""Spark with Iceberg's runtime: one local session for all tests (see tools/jvm.sh), and catalogs added as tests come.

Deletes that Spark does not write itself are written by Iceberg's own writers in the same JVM (test/jvm/spark).
"""

import os
import shutil
import sys
import time
from pathlib import Path

import pyarrow as pa
from jvm_tools import class_path, java, prepared
from thalweg_test_tools import Lake


def start_session(folder: Path):
    """The session, with all it writes in the folder; SparkSession.stop() ends its JVM's work."""
    sys.path.append(prepared("python.path"))
    os.environ["JAVA_HOME"] = str(Path(shutil.which("javac") or java()).resolve().parents[1])
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession

    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "spark.driver.memory": "1g",
        "spark.driver.extraClassPath": class_path("spark"),
        "spark.driver.extraJavaOptions": f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.io.tmpdir={folder}",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(folder),
        "spark.driver.host": "127.0.0.1",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.default.parallelism": "2",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
        "spark.sql.datetime.java8API.enabled": "true",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }
    builder = SparkSession.builder.master("local[2]").appName("thalweg-test")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


class SparkCatalog:
    """A catalog "lake" of a test, in a Spark session of its own within the one JVM: names are the same everywhere."""

    def __init__(self, session, namespace: str, **properties: str):
        self.session = session.newSession()
        self.namespace = namespace
        self.set("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
        for key, value in ({"cache-enabled": "false"} | properties).items():
            self.set(f"spark.sql.catalog.lake.{key}", value)

    def set(self, key: str, value: str) -> None:
        self.session.conf.set(key, value)

    def address(self, table: str = "events") -> str:
        return f"lake.{self.namespace}.{table}"

    def sql(self, text: str, table: str = "events") -> list[tuple]:
        """Runs a statement, in which {t} is a table's address; its rows."""
        return [tuple(row) for row in self.session.sql(text.replace("{t}", self.address(table))).collect()]

    def procedure(self, name: str, arguments: str = "", table: str = "events") -> list[tuple]:
        """Calls one of Iceberg's procedures for a table."""
        more = f", {arguments}" if arguments else ""
        return self.sql(f"CALL lake.system.{name}(table => '{self.namespace}.{table}'{more})")

    def append(self, rows: pa.Table, table: str = "events") -> None:
        """One commit of one file."""
        self.session.createDataFrame(rows).coalesce(1).writeTo(self.address(table)).append()

    def read(self, columns: str = "*", table: str = "events") -> pa.Table:
        return self.session.sql(f"SELECT {columns} FROM {self.address(table)}").toArrow()

    def age_files(self, lake: Lake) -> None:
        """Makes the files ten days old: what is younger than three days is no orphan to Spark."""
        then = time.time() - 10 * 86400
        for path in (lake.folder / "warehouse").rglob("*"):
            os.utime(path, (then, then))

    def java_table(self, table: str = "events"):
        """The table in Iceberg's Java interface."""
        jvm = self.session._jvm
        jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(self.session._jsparkSession)
        return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(
            self.session._jsparkSession, self.address(table)
        )

    def delete_equal(self, *keys: str, table: str = "events") -> None:
        """Equality deletes: a delete file for each query of keys, all in one commit."""
        rows = self.session._jvm.java.util.ArrayList()
        for query in keys:
            rows.add(self.session.sql(query)._jdf)
        self.session._jvm.Deletes.deleteEqual(self.java_table(table), rows)

    def delete_positions(self, condition: str, file_scoped: bool, table: str = "events") -> None:
        """Position deletes of the rows that a condition holds for."""
        places = self.session.sql(
            f"SELECT _file, _pos FROM {self.address(table)} WHERE {condition} ORDER BY _file, _pos"
        )
        self.session._jvm.Deletes.deletePositions(self.java_table(table), places._jdf, file_scoped)


def sql_catalog(session, lake: Lake, **properties: str) -> SparkCatalog:
    """The PyIceberg SQLite catalog of a lake, shared with it."""
    uri = lake.uri.replace("sqlite:///", "jdbc:sqlite:")
    shared = {"type": "jdbc", "uri": uri, "jdbc.schema-version": "V1", "warehouse": lake.warehouse}
    return SparkCatalog(session, lake.namespace, **(shared | properties))


def rest_catalog_of(session, lake: Lake, **properties: str) -> SparkCatalog:
    """The REST catalog of a RestLake."""
    return SparkCatalog(session, lake.namespace, **({"type": "rest", "uri": lake.uri} | properties))


def hadoop_catalog(session, folder: Path) -> SparkCatalog:
    """A catalog of tables in Hadoop layout: db/NAME in the folder."""
    return SparkCatalog(session, "db", type="hadoop", warehouse=str(folder))
