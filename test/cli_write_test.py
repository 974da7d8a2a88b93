"""Writing files into tables, the distributed stages and clean-up, through the real program."""

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from thalweg_test_tools import (
    EVENTS,
    KEYS,
    arrow_rows,
    data_files,
    hadoop_table,
    make_rows,
    rows_of,
)

# --- write


def test_write_append_is_clustered(lake):
    address = lake.make_events(files=0)
    rows = make_rows(20000, 1)
    path = lake.write_parquet("rows.parquet", rows)
    done = lake.ok("write", address, path, "--run-id", "load-1")
    assert done["outcome"] == "committed" and done["rows"] == 20000
    assert done["output_units"] == len(data_files(lake.table())) > 4
    assert rows_of(lake.table()) == arrow_rows(rows)
    assert lake.table().current_snapshot().summary.operation.value == "append"
    # Clustered: far fewer files are opened than there are.
    assert lake.ok("status", address)["depth"] < 0.75 * done["output_units"]
    assert lake.ok("write", address, path, "--run-id", "load-1")["outcome"] == "already-committed"
    assert rows_of(lake.table()) == arrow_rows(rows)


def test_write_without_a_declaration_keeps_the_order(lake):
    address = lake.make_events(files=0, keys=None)
    rows = make_rows(3000, 1)
    done = lake.ok("write", address, lake.write_parquet("rows.parquet", rows))
    assert done["outcome"] == "committed"
    files = sorted(data_files(lake.table()))
    written = pa.concat_tables([pq.read_table(path.removeprefix("file://"), schema=EVENTS) for path in files])
    assert written.column("amount").to_pylist() == rows.column("amount").to_pylist()


def test_write_overwrite(lake, events):
    rows = make_rows(500, 99)
    done = lake.ok("write", events, lake.write_parquet("rows.parquet", rows), "--mode", "overwrite")
    assert done["outcome"] == "committed"
    assert rows_of(lake.table()) == arrow_rows(rows)
    assert lake.table().current_snapshot().summary.operation.value == "overwrite"


@pytest.mark.parametrize("form", ["parquet", "csv", "arrows", "feather"])
def test_write_create_hadoop(lake, form):
    rows = make_rows(3000, 5)
    if form == "csv":
        rows = rows.drop_columns(["event_time"]).append_column("day", pa.array([17 + i % 9 for i in range(3000)]))
    parts = []
    for number in range(2):
        part = rows.slice(number * 1500, 1500)
        path = lake.folder / f"part{number}.{form}"
        if form == "parquet":
            pq.write_table(part, path)
        elif form == "csv":
            pa.csv.write_csv(part, path)
        elif form == "arrows":
            with pa.ipc.new_stream(path, part.schema) as writer:
                writer.write_table(part)
        else:
            pa.feather.write_feather(part, path)
        parts.append(path)
    keys = "user_id,day" if form == "csv" else "user_id,event_time"
    table = lake.folder / "created"
    done = lake.ok("write", table, *parts, "--mode", "create", "--cluster-by", keys)
    assert done["outcome"] == "committed" and done["rows"] == 3000
    assert rows_of(hadoop_table(table)) == arrow_rows(rows)
    assert hadoop_table(table).properties[KEYS] == keys
    assert [column["name"] for column in lake.ok("spec", table)["spec"]["columns"]] == keys.split(",")
    assert lake.ok("optimize", table)["outcome"] == "nothing-to-do"
    # Creating again is refused; appending is not.
    assert "--mode append" in lake.run("write", table, *parts, "--mode", "create").error(2)
    lake.ok("write", table, *parts)
    assert rows_of(hadoop_table(table)) == arrow_rows(pa.concat_tables([rows, rows]))


def test_write_create_in_a_catalog(lake):
    rows = make_rows(1000, 5)
    path = lake.write_parquet("rows.parquet", rows)
    arguments = [
        "write",
        "lake.fresh.events",
        path,
        "--mode",
        "create",
        "--cluster-by",
        "user_id,country",
        "--run-id",
        "r1",
    ]
    assert lake.ok(*arguments)["outcome"] == "committed"
    assert rows_of(lake.catalog.load_table("fresh.events")) == arrow_rows(rows)
    assert lake.ok(*arguments)["outcome"] == "already-committed"
    assert "exists" in lake.run(*arguments[:-1], "r2").error(2)


def test_write_cluster_by(lake):
    address = lake.make_events(files=0)
    path = lake.write_parquet("rows.parquet", make_rows(100, 1))
    message = lake.run("write", address, path, "--cluster-by", "country,user_id").error(2)
    assert "user_id, event_time" in message
    assert lake.table().current_snapshot() is None
    lake.ok("write", address, path, "--cluster-by", "user_id,event_time")
    assert "--allow-single" in lake.run("write", address, path, "--cluster-by", "user_id").error(2)
    lake.make_table("plain", EVENTS)
    done = lake.ok("write", "lake.db.plain", path, "--cluster-by", "user_id,country")
    assert any("user_id, country" in note for note in done["notes"])
    assert lake.table("plain").properties[KEYS] == "user_id,country"


def test_write_refusals(lake, events):
    location = lake.table().metadata_location
    good = make_rows(10, 1)
    cases = {
        "missing.parquet": None,
        "unknown.xyz": b"x",
        "broken.parquet": b"PAR1 this is not Parquet PAR1",
        "empty.parquet": b"",
        "broken.arrow": b"ARROW1\0\0nonsense",
    }
    for name, content in cases.items():
        path = lake.folder / name
        if content is not None:
            path.write_bytes(content)
        done = lake.run("write", events, path)
        assert name in done.error(done.code) and done.code in (1, 2), name
    extra = lake.write_parquet("extra.parquet", good.append_column("surplus", pa.array(range(10))))
    assert "surplus" in lake.run("write", events, extra).err
    wrong = lake.write_parquet("wrong.parquet", good.set_column(0, "user_id", pa.array(["x"] * 10)))
    assert "user_id" in lake.run("write", events, wrong).err
    other = lake.write_parquet("other.parquet", good.drop_columns(["amount"]))
    assert lake.run("write", events, lake.write_parquet("good.parquet", good), other).code in (1, 2)
    assert lake.table().metadata_location == location
    # Nothing is created for columns that cannot be declared.
    for columns in ["user_id,nope", "user_id,user_id"]:
        assert lake.run("write", "lake.db.new", extra, "--mode", "create", "--cluster-by", columns).code == 2
        assert not lake.catalog.table_exists("db.new")
    deep = lake.write_parquet("deep.parquet", pa.table({"a": [1], "b": [[1, 2]]}))
    assert "b" in lake.run("write", "lake.db.new", deep, "--mode", "create", "--cluster-by", "a,b").error(2)
    assert not lake.catalog.table_exists("db.new")


# --- tables that belong to somebody else


def test_read_only_addresses(lake, events):
    metadata = lake.table().metadata_location.removeprefix("file://")
    folder = str(Path(metadata).parent.parent)
    data = lake.write_parquet("rows.parquet", make_rows(10, 1))
    for address in [metadata, folder, lake.table().metadata_location]:
        assert lake.ok("status", address)["units"] == len(data_files(lake.table()))
        assert lake.ok("plan", address)["outcome"] == "planned"
        for command in [
            ["set", address, "--columns", "user_id,country"],
            ["optimize", address],
            ["clear", address],
            ["write", address, data],
        ]:
            assert "catalog" in lake.run(*command).error(1)


# --- the distributed stages


def test_tasks(lake, events):
    rows = rows_of(lake.table())
    tasks = lake.folder / "tasks"
    plan = lake.ok("plan", events, "--tasks-out", tasks, "--max-task-bytes", "60KB")
    names = sorted(path.name for path in tasks.glob("task-*.json"))
    assert names == [f"task-{number:05}.json" for number in range(len(names))] and len(names) >= 2
    assert [Path(path).name for path in plan["tasks"]] == names
    assert "another folder" in lake.run("plan", events, "--tasks-out", tasks).error(2)
    location = lake.table().metadata_location
    results = []
    for name in names:
        out = lake.folder / name.replace("task", "result")
        done = lake.ok("execute", tasks / name, "--out", out)
        assert (done["outcome"], done["run_id"]) == ("executed", plan["run_id"])
        results.append(out)
        again = lake.ok("execute", tasks / name, "--out", out)
        assert again["outcome"] == "nothing-to-do"
    assert lake.table().metadata_location == location

    # Another file in the place of a result is not overwritten.
    note = lake.folder / "note.json"
    note.write_text("{}")
    assert "--out" in lake.run("execute", tasks / names[0], "--out", note).error(1)
    assert note.read_text() == "{}"

    # Too few, doubled, foreign and damaged results are refused.
    assert lake.run("commit", events, *results[1:]).code == 1
    assert lake.run("commit", events, *results, results[0]).code == 1
    assert "task" in lake.run("commit", events, tasks / names[0]).error(1)
    (lake.folder / "half.json").write_text(results[0].read_text()[:-200])
    assert "half.json" in lake.run("commit", events, *results[1:], lake.folder / "half.json").error(1)
    assert "nowhere.json" in lake.run("commit", events, lake.folder / "nowhere.json").error(1)
    assert lake.table().metadata_location == location

    done = lake.ok("commit", events, *results)
    assert done["outcome"] == "committed" and done["run_id"] == plan["run_id"]
    assert rows_of(lake.table()) == rows
    assert lake.ok("commit", events, *results)["outcome"] == "already-committed"
    assert lake.ok("optimize", events)["outcome"] == "nothing-to-do"


def test_tasks_out_that_cannot_be_written(lake, events):
    blocked = lake.folder / "file"
    blocked.write_text("x")
    assert str(blocked) in lake.run("plan", events, "--tasks-out", blocked / "tasks").error(1)
    assert str(blocked) in lake.run("plan", events, "--tasks-out", blocked).error(1)


# --- leftovers


def test_clean(lake, events):
    assert lake.ok("clean", events)["outcome"] == "nothing-to-do"
    assert lake.run("clean", events).out.startswith("nothing to do: ")
