"""Others look after a clustered table: status and cubes stay right, and say whether the cube map was rebuilt."""

from datetime import datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from spark_tools import SparkCatalog
from table_kinds import MERGE_ON_READ, ROWS, SMALL, rows
from table_readers import READERS, multiset
from thalweg_test_tools import Lake, local_path

pytestmark = pytest.mark.jvm

FILES = 8
FROM_FILES = "from the files' own metadata"


class Clustered:
    """A table that was clustered in one run, with the files of that run, and the rows that it must hold."""

    def __init__(self, lake: Lake, spark: SparkCatalog):
        self.lake, self.spark = lake, spark
        table = lake.make_table("events", ROWS, SMALL | MERGE_ON_READ)
        self.rows = pa.concat_tables([rows(number) for number in range(FILES)])
        for number in range(FILES):
            table.append(rows(number))
        lake.ok("set", lake.address(), "--columns", "user_id,event_time")
        assert lake.ok("optimize", lake.address())["outcome"] == "committed"
        self.ours = set(self.files())
        self.snapshot = lake.table().metadata.current_snapshot_id

    def files(self) -> dict[str, int]:
        """Rows of the live data files, as Spark lists them."""
        return dict(self.spark.sql("SELECT file_path, record_count FROM {t}.data_files"))

    def append(self) -> None:
        some = rows(FILES)
        self.spark.append(some)
        self.rows = pa.concat_tables([self.rows, some])


def nothing(table: Clustered) -> None:
    """What status says when nobody did anything."""


def expire_snapshots(table: Clustered) -> None:
    table.spark.procedure("expire_snapshots", "older_than => now(), retain_last => 1")
    assert len(table.lake.table().snapshots()) == 1


def expire_all_of_ours(table: Clustered) -> None:
    """The snapshot that holds the cube map is gone, too; its files live on."""
    table.append()
    expire_snapshots(table)


def expire_by_pyiceberg(table: Clustered) -> None:
    table.append()
    soon = datetime.now() + timedelta(seconds=5)
    table.lake.table().maintenance.expire_snapshots().older_than(soon).commit()
    assert len(table.lake.table().snapshots()) == 1


def remove_orphan_files(table: Clustered) -> None:
    orphan = table.lake.folder / "warehouse" / "db" / "events" / "data" / "orphan.parquet"
    orphan.write_bytes(b"nobody's")
    table.spark.age_files(table.lake)
    removed = table.spark.procedure("remove_orphan_files")
    assert [local_path(path).removeprefix("file:") for (path,) in removed] == [str(orphan)]


def rewrite_some_data_files(table: Clustered) -> None:
    table.spark.procedure("rewrite_data_files", "where => 'user_id < 100', options => map('rewrite-all', 'true')")
    assert table.ours & set(table.files()) and set(table.files()) - table.ours


def rewrite_all_data_files(table: Clustered) -> None:
    table.spark.procedure("rewrite_data_files", "options => map('rewrite-all', 'true')")
    assert not table.ours & set(table.files())


def rewrite_manifests(table: Clustered) -> None:
    table.append()
    table.spark.procedure("rewrite_manifests")
    assert len(table.lake.table().current_snapshot().manifests(table.lake.table().io)) == 1


def rewrite_position_delete_files(table: Clustered) -> None:
    table.spark.sql("DELETE FROM {t} WHERE id % 100 = 1")
    table.spark.sql("DELETE FROM {t} WHERE id % 100 = 2")
    table.spark.procedure("rewrite_position_delete_files", "options => map('rewrite-all', 'true')")
    table.rows = table.rows.filter(pa.array([id % 100 not in (1, 2) for id in table.rows["id"].to_pylist()]))


def rollback(table: Clustered) -> None:
    table.append()
    table.spark.procedure("rollback_to_snapshot", f"snapshot_id => {table.snapshot}")
    table.rows = table.rows.filter(pc.field("id") < FILES * 350)


def rollback_before_ours(table: Clustered) -> None:
    """Nothing of ours is live any more."""
    parent = table.lake.table().snapshot_by_id(table.snapshot).parent_snapshot_id
    table.spark.procedure("rollback_to_snapshot", f"snapshot_id => {parent}")


def alter_table(table: Clustered) -> None:
    table.spark.sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.parquet.compression-codec' = 'snappy')")
    table.spark.sql("ALTER TABLE {t} ADD COLUMN more STRING")
    table.spark.sql("ALTER TABLE {t} RENAME COLUMN amount TO total")
    names = [*table.rows.schema.names[:-1], "total"]
    table.rows = table.rows.rename_columns(names).append_column("more", pa.nulls(table.rows.num_rows, pa.string()))


def analyze(table: Clustered) -> None:
    """Statistics of Spark's take the place of the snapshot's statistics file, which is our map."""
    table.spark.procedure("compute_table_stats")


# What is done, and what status says of the cube map afterwards: "", completed or rebuilt.
DONE = {
    nothing: "",
    expire_snapshots: "",
    expire_all_of_ours: "rebuilt",
    expire_by_pyiceberg: "rebuilt",
    remove_orphan_files: "",
    rewrite_some_data_files: "",
    rewrite_all_data_files: "",
    rewrite_manifests: "",
    rewrite_position_delete_files: "",
    rollback: "",
    rollback_before_ours: "",
    alter_table: "",
    analyze: "rebuilt",
}


@pytest.mark.parametrize("act", DONE, ids=lambda act: act.__name__)
def test_status_is_right_after(lake, spark, act):
    table = Clustered(lake, spark)
    act(table)
    assert multiset(spark.read()) == multiset(table.rows)
    live = table.files()
    ours = table.ours & set(live)
    status = lake.ok("status", lake.address())
    assert (status["units"], status["rows"]) == (len(live), table.rows.num_rows)
    assert status["health"]["unclustered_units"] == len(set(live) - ours)
    (cubes, notes) = (lake.ok("cubes", lake.address())["cubes"], [x for x in status["notes"] if FROM_FILES in x])
    assert sum(cube["files"] for cube in cubes) == len(ours)
    assert [word for word in ("completed", "rebuilt") if any(word in note for note in notes)] == [
        word for word in [DONE[act]] if word
    ], notes
    check_optimize(table)


def check_optimize(table: Clustered) -> None:
    """It works on as ever: rows stay, and a second run has nothing to do."""
    lake = table.lake
    done = lake.ok("optimize", lake.address())
    expected = multiset(table.rows)
    for read in READERS.values():
        assert multiset(read(lake.table(), table.spark, "events")) == expected
    assert lake.ok("optimize", lake.address())["outcome"] == "nothing-to-do"
    if done["outcome"] == "committed":  # with a map of its own again
        assert [note for note in lake.ok("status", lake.address())["notes"] if FROM_FILES in note] == []
