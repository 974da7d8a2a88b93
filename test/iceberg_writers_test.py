"""The program beside writers that nobody here wrote: what they commit while it works, and what they write for it."""

import json
import signal
import subprocess
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from campaign_tools import SCALE, campaign_seeds, data_files_on_disk, start_paused
from pyiceberg.manifest import ManifestEntryStatus
from spark_tools import SparkCatalog
from table_kinds import MERGE_ON_READ, create, rows
from table_readers import READERS, by_duckdb, delete_files, multiset
from thalweg_test_tools import PROGRAM, Lake, local_path

pytestmark = pytest.mark.jvm


@pytest.mark.parametrize("executed_first", [True, False])
def test_an_equality_delete_committed_after_the_plan_survives(lake, spark, executed_first):
    """The rewritten file keeps the sequence number of the plan's snapshot, and the delete the files that it is for."""
    create(spark)
    spark.append(rows(0))
    address, tasks, result = lake.address(), lake.folder / "tasks", lake.folder / "result.json"
    lake.ok("set", address, "--columns", "user_id,event_time")
    lake.ok("plan", address, "--tasks-out", tasks)
    (task,) = tasks.glob("task-*.json")
    if executed_first:
        lake.ok("execute", task, "--out", result)
    spark.delete_equal("SELECT id FROM range(10, 20)")
    if not executed_first:
        lake.ok("execute", task, "--out", result)
    assert lake.ok("commit", address, result)["outcome"] == "committed"

    expected = multiset(rows(0).filter((pc.field("id") < 10) | (pc.field("id") >= 20)))
    assert multiset(spark.read()) == expected
    assert multiset(by_duckdb(lake.table(), spark, "events")) == expected
    assert len(delete_files(lake.table())) == 1
    # A run that rewrites the file applies it for good, and then it is for nothing any more.
    spark.append(rows(1))
    expected += multiset(rows(1))
    done = lake.ok("optimize", address, "--full")
    assert (done["outcome"], done["rows"]) == ("committed", expected.total())
    assert delete_files(lake.table()) == []
    for read in READERS.values():
        assert multiset(read(lake.table(), spark, "events")) == expected


def test_every_command_in_its_own_process_on_a_table_with_deletes(lake, spark):
    """Which rows are deleted is only known by reading: envelopes carry the number that was found."""
    create(spark, **MERGE_ON_READ)
    for number in range(3):
        spark.append(rows(number))
    spark.delete_equal("SELECT id FROM range(10, 20)")
    spark.sql("DELETE FROM {t} WHERE id % 7 = 1")
    address, tasks = lake.address(), lake.folder / "tasks"
    expected = multiset(spark.read())
    lake.ok("set", address, "--columns", "user_id,event_time")
    lake.ok("plan", address, "--tasks-out", tasks, "--max-task-bytes", "20000")
    results = []
    for task in sorted(tasks.glob("task-*.json")):
        results.append(lake.folder / f"result-{task.name}")
        lake.ok("execute", task, "--out", results[-1])
    assert len(results) > 1
    assert lake.ok("commit", address, *results)["rows"] == sum(expected.values())
    assert delete_files(lake.table()) == []
    for read in READERS.values():
        assert multiset(read(lake.table(), spark, "events")) == expected


def paused_optimize(lake):
    given = {"uri": lake.uri, "warehouse": lake.warehouse}
    options = [word for item in given.items() for word in ("--catalog-property", "=".join(item))]
    return start_paused(["optimize", lake.address(), "--full", *options], "after-data-files")


def finish(process) -> None:
    process.send_signal(signal.SIGCONT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, out + err


def test_a_rollback_meanwhile_brings_rows_back(lake, spark):
    """What was read had deletes that do not hold any more."""
    create(spark)
    for number in range(2):
        spark.append(rows(number))
    lake.ok("set", lake.address(), "--columns", "user_id,event_time")
    expected, before = multiset(spark.read()), lake.table().current_snapshot().snapshot_id
    spark.delete_equal("SELECT id FROM range(10, 20)")
    process = paused_optimize(lake)
    spark.procedure("rollback_to_snapshot", f"snapshot_id => {before}")
    finish(process)
    assert multiset(spark.read()) == expected


def test_another_branch_in_the_place_of_main_keeps_its_deletes(lake, spark):
    create(spark)
    for number in range(2):
        spark.append(rows(number))
    lake.ok("set", lake.address(), "--columns", "user_id,event_time")
    spark.sql("ALTER TABLE {t} CREATE BRANCH audit")
    main = lake.table().current_snapshot().snapshot_id
    spark.delete_equal("SELECT id FROM range(10, 20)")
    audit, expected = lake.table().current_snapshot().snapshot_id, multiset(spark.read())
    spark.sql(f"CALL lake.system.set_current_snapshot(table => '{lake.namespace}.events', snapshot_id => {main})")
    spark.append(rows(2))  # main goes on, to a higher sequence number than the delete's
    process = paused_optimize(lake)
    spark.sql(f"CALL lake.system.set_current_snapshot(table => '{lake.namespace}.events', snapshot_id => {audit})")
    finish(process)
    assert multiset(spark.read()) == expected


TYPED = {
    "flag": ("BOOLEAN", pa.bool_(), [True, False]),
    "small": ("INT", pa.int32(), list(range(-50, 50))),
    "big": ("BIGINT", pa.int64(), [x << 40 for x in range(-50, 50)]),
    "real": ("FLOAT", pa.float32(), [x / 8 for x in range(-50, 50)]),
    "double": ("DOUBLE", pa.float64(), [x / 7 for x in range(-50, 50)]),
    "price": ("DECIMAL(20, 3)", pa.decimal128(20, 3), [Decimal(x * 10**12) / 1000 for x in range(-50, 50)]),
    "day": ("DATE", pa.date32(), [date.fromordinal(738000 + x) for x in range(100)]),
    "local": ("TIMESTAMP_NTZ", pa.timestamp("us"), [datetime(2026, 1, 1, 0, x % 60, 1, x) for x in range(100)]),
    "zoned": (
        "TIMESTAMP_LTZ",
        pa.timestamp("us", tz="UTC"),
        [datetime.fromisoformat(f"1969-12-31T23:{x % 60:02}:59.{x:06}+00:00") for x in range(100)],
    ),
    "text": ("STRING", pa.string(), [f"https://a.long/and/common/prefix/{x}" for x in range(100)]),
    "nothing": ("STRING", pa.string(), [None]),
}


@pytest.mark.parametrize(
    "keys", ["flag,zoned", "local,zoned", "small,day", "big,price", "real,double", "text,flag", "nothing,local"]
)
def test_keys_of_every_type_with_nulls_written_by_spark(lake, spark, keys):
    create(spark, ", ".join(f"{name} {sql}" for name, (sql, _, _) in TYPED.items()))
    rng, written = np.random.default_rng(7), []
    for _ in range(6):
        columns = {
            name: pa.array([values[x] for x in rng.integers(0, len(values), 200)], kind, mask=rng.random(200) < 0.1)
            for name, (_, kind, values) in TYPED.items()
        }
        written.append(pa.table(columns))
        spark.append(written[-1])
    expected = multiset(pa.concat_tables(written))
    lake.ok("set", lake.address(), "--columns", keys)
    assert lake.ok("optimize", lake.address())["outcome"] == "committed"
    for read in READERS.values():
        assert multiset(read(lake.table(), spark, "events")) == expected
    for key in keys.split(","):  # microseconds count: pruning by bounds finds as many rows as reading everything
        condition = f"{key} IS NULL"
        assert spark.sql(f"SELECT count(*) FROM {{t}} WHERE {condition}") == [
            (sum(table[key].null_count for table in written),)
        ]
        value = next((x for x in written[0][key].to_pylist() if x is not None), None)
        if value is not None:
            literal = spark.session.createDataFrame(written[0].select([key])).where(f"{key} IS NOT NULL").limit(1)
            literal.createOrReplaceTempView("wanted")
            found = spark.sql(f"SELECT count(*) FROM {{t}} t WHERE t.{key} = (SELECT {key} FROM wanted)")
            assert found == [(sum(table[key].to_pylist().count(value) for table in written),)]


class Round:
    """A table on which optimize and a foreign commit meet, and the rows that it must hold."""

    def __init__(self, lake: Lake, spark: SparkCatalog, version: int, rng: np.random.Generator, appends: int = 4):
        self.lake, self.spark, self.version, self.rng = lake, spark, version, rng
        create(spark, version=version, **MERGE_ON_READ)
        self.next = 0
        self.live: dict[int, dict] = {}
        for _ in range(appends):
            self.append()
        lake.ok("set", lake.address(), "--columns", "user_id,event_time")
        given = {"uri": lake.uri, "warehouse": lake.warehouse}
        self.command = ["optimize", lake.address(), "--json", "--threads", "1", "--memory", "256MiB"]
        self.command += [word for pair in given.items() for word in ("--catalog-property", "=".join(pair))]

    def append(self) -> None:
        """By PyIceberg, which does not write version 3, or by Spark."""
        some = rows(self.next, 60)
        self.next += 1
        if self.version == 2 and self.rng.random() < 0.5:
            self.lake.table().append(some)
        else:
            self.spark.append(some)
        self.live |= {row["id"]: row for row in some.to_pylist()}

    def victims(self) -> list[int]:
        return [int(id) for id in self.rng.choice(list(self.live), 5, replace=False)]

    def forget(self, ids: list[int]) -> None:
        for id in ids:
            del self.live[id]

    def insist(self, statement: str) -> None:
        """Spark gives up where the program was faster, and is asked again."""
        for _ in range(5):
            try:
                self.spark.sql(statement)
                return
            except Exception as error:  # py4j's own
                if "Cannot commit, " not in str(error):
                    raise
        raise AssertionError(f"Spark came too late five times: {statement}")

    def merge_on_read_delete(self) -> None:
        ids = self.victims()
        self.insist(f"DELETE FROM {{t}} WHERE id IN ({', '.join(map(str, ids))})")
        self.forget(ids)

    def equality_delete(self) -> None:
        ids = self.victims()
        self.spark.delete_equal(" UNION ALL ".join(f"SELECT {id} AS id" for id in ids))
        self.forget(ids)

    def update(self) -> None:
        ids = self.victims()
        self.insist(f"UPDATE {{t}} SET amount = -1 WHERE id IN ({', '.join(map(str, ids))})")
        for id in ids:
            self.live[id] = self.live[id] | {"amount": -1.0}

    def files_on_disk(self) -> set[str]:
        return data_files_on_disk(self.lake.folder / "warehouse" / self.lake.namespace / "events")

    def check_numbers(self, since: int, planned: set[str] | None) -> int:
        """Files of each rewrite since that snapshot have the sequence number of the snapshot that was read for them.

        `planned`: the files of the first plan, which was made there; those of later plans were read at the parent of
        their commit. Not given: who came when is not known. Returns how many rewrites there were.
        """
        table = self.lake.table()
        numbers = {snapshot.snapshot_id: snapshot.sequence_number for snapshot in table.snapshots()}
        rewrites = 0
        for snapshot in table.snapshots():
            if snapshot.sequence_number <= numbers[since] or snapshot.summary.operation.value != "replace":
                continue
            rewrites += 1
            for manifest in snapshot.manifests(table.io):
                if manifest.added_snapshot_id != snapshot.snapshot_id or manifest.content != 0:
                    continue
                for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
                    if entry.status != ManifestEntryStatus.ADDED:
                        continue
                    if planned is None:
                        assert numbers[since] <= entry.sequence_number < snapshot.sequence_number
                        continue
                    first = local_path(entry.data_file.file_path) in planned
                    read = since if first else snapshot.parent_snapshot_id
                    assert entry.sequence_number == numbers[read], (entry.data_file.file_path, first)
        return rewrites

    def check(self, reader=by_duckdb) -> None:
        expected = multiset(pa.Table.from_pylist(list(self.live.values()), schema=rows(0, 0).schema))
        got = multiset(reader(self.lake.table(), self.spark, "events"))
        assert got == expected, (list((expected - got).items())[:3], list((got - expected).items())[:3])


@pytest.mark.campaign
@pytest.mark.parametrize("version", [2, 3])
def test_collisions_lose_double_and_resurrect_nothing(lake, spark, version):
    """Half of the rounds for each version. Two of three meet for sure: the program waits with its files written."""
    seed = campaign_seeds()[1]
    rng = np.random.default_rng(seed)
    table = Round(lake, spark, version, rng)
    foreign = [table.append, table.merge_on_read_delete, table.equality_delete, table.update]
    collided = committed = 0
    count = max(12, round(150 * SCALE))
    for number in range(count):
        table.append()  # something to do
        act = foreign[number % len(foreign)]
        start, planned = lake.table().current_snapshot().snapshot_id, None
        if number % 3 < 2:
            before = table.files_on_disk()
            process = start_paused(table.command, "after-data-files")
            planned = table.files_on_disk() - before
            act()
            collided += act != table.append
            process.send_signal(signal.SIGCONT)
        else:
            process = subprocess.Popen(
                [str(PROGRAM), *table.command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            act()
        out, err = process.communicate(timeout=120)
        assert process.returncode in (0, 3), (seed, number, act.__name__, out, err)
        rewrites = table.check_numbers(start, planned)
        assert (process.returncode == 0 and '"committed"' in out) == (rewrites > 0), (seed, number, out)
        committed += rewrites > 0
        table.check()
    print(f"{count} rounds, {collided} collisions with deletes and updates, {committed} rewrites")
    assert 3 * collided >= count and 2 * committed >= count
    table.check(READERS["Spark"])


QUARTERS = [(left, right) for left in (0, 1) for right in (0, 1)]


def rows_of_a_quarter(number: int, quarter: tuple[int, int], count: int) -> pa.Table:
    """Rows whose keys lie in one quarter of the plane of both keys."""
    some, (left, right) = rows(number, count), quarter
    user_id = pc.add(pc.fill_null(some["user_id"], 7), left * 1_000_000)
    seconds = pc.cast(pc.add(pc.cast(some["event_time"], pa.int64()), right * 10**15), pa.timestamp("us"))
    return some.set_column(1, some.schema.field(1), user_id).set_column(2, some.schema.field(2), seconds)


@pytest.mark.campaign
@pytest.mark.parametrize("version", [2, 3])
def test_survivors_of_a_partly_hit_plan_keep_the_number_that_they_were_read_at(lake, spark, version):
    """A plan of a selection for each quarter, some of which deletes hit: those are planned anew, the others commit."""
    seed = campaign_seeds()[1]
    rng = np.random.default_rng(seed)
    source, count = lake.folder / "quarter.parquet", max(4, round(20 * SCALE))
    for number in range(count):
        spark.sql("DROP TABLE IF EXISTS {t} PURGE")
        table = Round(lake, spark, version, rng, appends=0)
        spark.sql("ALTER TABLE {t} SET TBLPROPERTIES ('write.target-file-size-bytes' = '4096')")
        for _ in range(3):  # sorts that lie over each other
            for quarter in QUARTERS:
                some = rows_of_a_quarter(table.next, quarter, 300)
                table.next += 1
                pq.write_table(some, source)
                lake.ok("write", lake.address(), source)
                table.live |= {row["id"]: row for row in some.to_pylist()}
        # A budget that the whole plane is too large for: so it is done in parts.
        files = len(lake.table().inspect.data_files())
        options = ["--policy", "overlap", "--theta", "0.2", "--max-source-files", str(files * 4 // 5)]
        tasks = lake.folder / f"tasks-{number}"
        lake.ok("plan", lake.address(), *options, "--tasks-out", tasks)
        selections = [json.loads(path.read_text()) for path in sorted(tasks.glob("task-*.json"))]
        assert len(selections) > 1, (seed, number)
        start, before = lake.table().current_snapshot().snapshot_id, table.files_on_disk()
        process = start_paused([*table.command, *options, "--run-id", f"round-{number}"], "after-data-files")
        planned = table.files_on_disk() - before
        hit = selections[int(rng.integers(len(selections)))]["sources"]
        path = local_path(hit[int(rng.integers(len(hit)))]["id"])
        victims = [id for id in pq.read_table(path, columns=["id"])["id"].to_pylist() if id in table.live][:3]
        table.insist(f"DELETE FROM {{t}} WHERE id IN ({', '.join(map(str, victims))})")
        table.forget(victims)
        victims = table.victims()  # of all selections; hits none: it applies to what they become as well
        spark.delete_equal(" UNION ALL ".join(f"SELECT {id} AS id" for id in victims))
        table.forget(victims)
        process.send_signal(signal.SIGCONT)
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, (seed, number, out, err)
        done = json.loads(out)
        assert any(f"1 of {len(selections)} selections were planned anew" in note for note in done["notes"]), done
        assert table.check_numbers(start, planned) == 2, (seed, number, done)  # the survivors, then the others
        table.check()
    print(f"{count} plans, each hit in one of its selections")
    table.check(READERS["Spark"])
