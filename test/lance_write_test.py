"""Clustered create, append and overwrite of Lance datasets, and the distributed stages."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from cases_layout_test import check_curve
from lance_test_tools import DECLARATION, KEYS, LanceTable, make_events, multiset, needs_lance, numbered_rows

pytestmark = needs_lance

SMALL = ("--target-rows-per-fragment", 1000)


def dump_fragments(table: LanceTable, ids=None) -> list[str]:
    """The rows of each fragment in a Parquet file, for check_curve()."""
    paths = []
    for fragment in table.dataset.get_fragments():
        if ids is None or fragment.fragment_id in ids:
            paths.append(str(table.lake.folder / f"fragment-{fragment.fragment_id:04}.parquet"))
            pq.write_table(fragment.to_table(), paths[-1])
    return paths


def is_sorted_by(table: LanceTable, source, fragments, columns: list[str]) -> bool:
    try:
        check_curve([str(source)], dump_fragments(table, fragments), columns)
    except AssertionError:
        return False
    return True


# --- create, append, overwrite


@pytest.mark.parametrize("form", ["parquet", "csv", "arrows", "feather"])
def test_create(lake, form):
    table = LanceTable(lake, "made")
    rows = numbered_rows(3000)
    if form == "csv":
        rows = rows.drop_columns(["event_time"]).append_column("day", pa.array([17 + i % 9 for i in range(3000)]))
    path = lake.folder / f"rows.{form}"
    if form == "parquet":
        pq.write_table(rows, path)
    elif form == "csv":
        pa.csv.write_csv(rows, path)
    elif form == "arrows":
        with pa.ipc.new_stream(path, rows.schema) as writer:
            writer.write_table(rows)
    else:
        pa.feather.write_feather(rows, path)
    done = table.ok("write", path, "--mode", "create", *SMALL)
    assert (done["outcome"], done["rows"]) == ("committed", 3000)
    assert table.rows() == multiset(rows) == table.rows_by_duckdb()
    assert table.config() == {}
    assert table.dataset.to_table()["id"].to_pylist() == rows["id"].to_pylist()
    table.dataset.validate()
    table.check_no_leftovers()
    assert "exists" in table.run("write", path, "--mode", "create").error(2)
    assert table.rows() == multiset(rows)


def test_columns_of_a_new_dataset_are_a_sort_of_this_write_alone(lake):
    table = LanceTable(lake, "made")
    rows = numbered_rows(3000)
    source = lake.write_parquet("rows.parquet", rows)
    done = table.ok("write", source, "--mode", "create", "--cluster-by", ",".join(KEYS), *SMALL)
    assert done["outcome"] == "committed" and any("not declared" in note for note in done["notes"])
    assert table.config() == {} and table.records() == {}
    assert table.ok("cubes")["cubes"] == []
    assert is_sorted_by(table, source, None, KEYS) and len(table.fragment_rows()) >= 3
    assert max(table.fragment_rows().values()) <= 1000
    assert table.rows() == multiset(rows)
    # And so is another one, by other columns.
    more = lake.write_parquet("more.parquet", numbered_rows(1500, 3000))
    before = set(table.fragment_rows())
    table.ok("write", more, "--cluster-by", "amount,country", *SMALL)
    assert is_sorted_by(table, more, set(table.fragment_rows()) - before, ["amount", "country"])
    assert table.config() == {} and table.records() == {}


def test_appends_are_clustered_as_declared(lake):
    table = make_events(lake, 2)
    table.optimize()
    before = set(table.fragment_rows())
    rows = numbered_rows(2500, 5000)
    source = lake.write_parquet("rows.parquet", rows)
    expected = table.rows() + multiset(rows)
    done = table.ok("write", source, "--run-id", "load-1", *SMALL)
    assert (done["outcome"], done["rows"], done["run_id"]) == ("committed", 2500, "load-1")
    new = set(table.fragment_rows()) - before
    assert before < set(table.fragment_rows()) and done["output_units"] == len(new)
    assert is_sorted_by(table, source, new, KEYS)
    assert table.rows() == expected == table.rows_by_duckdb()
    assert table.unclustered() == 0
    assert table.optimize()["outcome"] == "nothing-to-do"

    again = table.ok("write", source, "--run-id", "load-1", *SMALL)
    assert again["outcome"] == "already-committed"
    assert table.rows() == expected


def test_explicit_columns_must_be_the_declared_ones(lake):
    table = make_events(lake, 1)
    source = lake.write_parquet("rows.parquet", numbered_rows(300, 5000))
    version, data = table.dataset.version, table.files("data")
    for columns in ["event_time,user_id", "user_id,amount", "user_id,event_time,amount"]:
        message = table.run("write", source, "--cluster-by", columns).error(2)
        assert "user_id" in message and "declares" in message
    assert (table.dataset.version, table.files("data")) == (version, data)
    assert table.ok("write", source, "--cluster-by", "user_id,event_time")["outcome"] == "committed"
    assert table.dataset.count_rows() == 800


def test_undeclared_appends_keep_their_order(lake):
    table = LanceTable(lake).grow(1)
    rows = numbered_rows(700, 5000)
    table.ok("write", lake.write_parquet("rows.parquet", rows))
    assert table.dataset.to_table()["id"].to_pylist() == [*range(500), *range(5000, 5700)]
    assert table.ok("cubes")["cubes"] == []


@pytest.mark.parametrize("declared", [True, False])
def test_overwrite(lake, declared):
    table = make_events(lake, 3) if declared else LanceTable(lake).grow(3)
    rows = numbered_rows(2000, 9000)
    source = lake.write_parquet("rows.parquet", rows)
    done = table.ok("write", source, "--mode", "overwrite", "--run-id", "all", *SMALL)
    assert done["outcome"] == "committed"
    assert table.rows() == multiset(rows) == table.rows_by_duckdb()
    assert table.config() == (DECLARATION if declared else {})
    assert is_sorted_by(table, source, None, KEYS) == declared
    if declared:
        assert table.unclustered() == 0 and len(table.records()) == 1
    version = table.dataset.version
    assert table.ok("write", source, "--mode", "overwrite", "--run-id", "all")["outcome"] == "already-committed"
    assert table.dataset.version == version


def test_create_again_with_the_same_run_id(lake):
    table = LanceTable(lake, "made")
    rows = numbered_rows(800)
    source = lake.write_parquet("rows.parquet", rows)
    first = table.ok("write", source, "--mode", "create", "--run-id", "first")
    assert first["outcome"] == "committed"
    assert table.ok("write", source, "--mode", "create", "--run-id", "first")["outcome"] == "already-committed"
    assert table.rows() == multiset(rows)


def test_one_column_needs_a_word(lake):
    table = LanceTable(lake, "made")
    source = lake.write_parquet("rows.parquet", numbered_rows(300))
    command = ["write", source, "--mode", "create", "--cluster-by", "user_id"]
    assert "--allow-single" in table.run(*command).error(2)
    assert not table.path.exists()
    assert table.ok(*command, "--allow-single")["outcome"] == "committed"


def test_refused_input(lake):
    table = make_events(lake, 1)
    before, data = table.rows(), table.files("data")
    good = numbered_rows(10)
    bad = {
        "surplus": good.append_column("surplus", pa.array(range(10))),
        "user_id": good.set_column(1, "user_id", pa.array(["x"] * 10)),
        "event_time": good.set_column(2, "event_time", pa.array([[1]] * 10)),
    }
    for word, rows in bad.items():
        done = table.run("write", lake.write_parquet(f"{word}.parquet", rows))
        assert word in done.error(done.code) and done.code in (1, 2)
    (lake.folder / "broken.parquet").write_bytes(b"PAR1 this is not Parquet PAR1")
    done = table.run("write", lake.folder / "broken.parquet")
    assert "broken.parquet" in done.error(done.code)
    assert (table.rows(), table.files("data")) == (before, data)
    table.check_no_leftovers()
    new = LanceTable(lake, "new")
    for columns in ["user_id,nope", "user_id,user_id"]:
        source = lake.write_parquet("good.parquet", good)
        assert new.run("write", source, "--mode", "create", "--cluster-by", columns).code == 2
        assert not new.path.exists()
    missing = new.run("write", source)
    assert "new.lance" in missing.error(missing.code)


# --- memory


def wide_rows(count: int, width: int) -> pa.Table:
    rng = np.random.default_rng(11)
    text = [rng.bytes(width // 2).hex() for _ in range(count)]
    return pa.table({"id": range(count), "n": rng.random(count), "text": text})


def test_more_than_the_memory_is_spilled(lake):
    table = LanceTable(lake, "wide")
    rows = wide_rows(3000, 8000)
    source = lake.write_parquet("rows.parquet", rows)
    spill = lake.folder / "spill"
    spill.mkdir()
    options = ["--memory", "8MiB", "--spill-dir", spill]
    done = table.ok("write", source, "--mode", "create", "--cluster-by", "n,text", *options)
    assert done["spill_bytes"] > 0 and done["spill_dir"] == str(spill)
    assert list(spill.iterdir()) == []
    assert table.rows() == multiset(rows)
    message = table.run("write", source, "--cluster-by", "n,text", *options, "--max-spill-bytes", "1MiB").error(1)
    assert "--max-spill-bytes" in message
    table.check_no_leftovers()
    table.ok("set", "--columns", "n,text")
    assert table.ok("optimize", *options)["spill_bytes"] > 0
    assert table.rows() == multiset(rows)


def test_a_row_above_the_cap_is_refused(lake):
    table = LanceTable(lake, "wide")
    rows = pa.concat_tables([wide_rows(10, 100), wide_rows(1, 40_000_000)])
    source = lake.write_parquet("rows.parquet", rows)
    done = table.run("write", source, "--mode", "create", "--cluster-by", "n,id", "--memory", "8MiB")
    message = done.error(1)
    assert "row" in message and "--memory" in message, message


# --- the distributed stages


def test_tasks(lake):
    table = make_events(lake, 6)
    before, tasks = table.rows(), lake.folder / "tasks"
    size = sum((table.path / name).stat().st_size for name in table.files("data"))
    plan = table.ok("plan", "--tasks-out", tasks, "--max-task-bytes", size // 3, *SMALL)
    names = sorted(path.name for path in tasks.glob("task-*.json"))
    assert len(names) >= 3
    version = table.dataset.version
    results = []
    for name in names:
        task = json.loads((tasks / name).read_text())
        assert task["type"] == "thalweg.cluster-task/1" and str(version) in json.dumps(task)
        out = lake.folder / name.replace("task", "result")
        done = lake.ok("execute", tasks / name, "--out", out)
        assert (done["outcome"], done["run_id"]) == ("executed", plan["run_id"])
        assert lake.ok("execute", tasks / name, "--out", out)["outcome"] == "nothing-to-do"
        assert json.loads(out.read_text())["type"] == "thalweg.cluster-result/1"
        results.append(out)
    assert table.dataset.version == version and table.rows() == before

    for wrong in [results[1:], [*results, results[0]], [results[0], results[0], *results[2:]]]:
        done = table.run("commit", *wrong)
        assert done.error(1)
    assert table.dataset.version == version

    done = table.ok("commit", *results)
    assert (done["outcome"], done["run_id"]) == ("committed", plan["run_id"])
    assert table.rows() == before == table.rows_by_duckdb()
    assert table.unclustered() == 0
    # The slices of one sort are one group.
    assert len(table.ok("cubes")["cubes"]) == 1
    table.check_no_leftovers()
    version = table.dataset.version
    assert table.ok("commit", *results)["outcome"] == "already-committed"
    assert table.dataset.version == version
    assert table.optimize()["outcome"] == "nothing-to-do"


def test_slices_of_a_large_selection_make_one_order(lake):
    table = make_events(lake, 6)
    (lake.folder / "sources").mkdir()
    sources = dump_fragments(table)
    size = sum((table.path / name).stat().st_size for name in table.files("data"))
    table.optimize("--max-task-bytes", size // 3)
    outputs = dump_fragments(table)
    assert not set(sources) & set(outputs)
    check_curve(sources, outputs, KEYS)
    assert len(table.ok("cubes")["cubes"]) == 1


def test_optimize_is_done_once_for_a_run_id(lake):
    table = make_events(lake, 3)
    assert table.optimize("--run-id", "nightly.1")["outcome"] == "committed"
    table.grow(1)
    version = table.dataset.version
    assert table.optimize("--run-id", "nightly.1")["outcome"] == "already-committed"
    assert table.dataset.version == version
    assert table.optimize("--run-id", "nightly.2")["outcome"] == "committed"


def test_deletions_and_tasks(lake):
    table = make_events(lake, 4)
    table.dataset.delete("id % 4 = 1")
    before = table.rows()
    results = table.execute_all(lake.folder / "tasks")
    assert table.ok("commit", *results)["rows"] == 1500
    assert table.rows() == before
