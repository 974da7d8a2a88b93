"""Catalogs that PyIceberg opens: it loads and commits, Thalweg works on the files."""

import pickle

import pyarrow as pa
import pytest
import thalweg
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.expressions import GreaterThanOrEqual
from python_tools import KEYS, expected_rows, of_pyiceberg
from table_readers import multiset
from thalweg_test_tools import EVENTS, SMALL_CUBES, make_rows


def in_memory(folder) -> InMemoryCatalog:
    return InMemoryCatalog("memory", warehouse=f"file://{folder}/warehouse")


def on_sqlite(folder) -> SqlCatalog:
    return SqlCatalog("sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}/warehouse")


def events_in(catalog, namespace: str = "db"):
    catalog.create_namespace_if_not_exists(namespace)
    table = catalog.create_table((namespace, "events"), EVENTS, properties=SMALL_CUBES)
    for seed in range(8):
        table.append(make_rows(500, seed))
    return table


@pytest.fixture(params=[in_memory, on_sqlite])
def table(request, tmp_path):
    return events_in(request.param(tmp_path))


def before_commit(table, monkeypatch, *actions):
    """Does one action before each of the next commits through the table's catalog: those of somebody else."""
    commit, left = table.catalog.commit_table, list(actions)

    def hook(*arguments):
        if left:
            left.pop(0)()
        return commit(*arguments)

    monkeypatch.setattr(table.catalog, "commit_table", hook)
    return left


def somebody_else(table):
    """The same table, as another user of the catalog has it."""
    return lambda: table.catalog.load_table(table.name())


def test_a_table_is_clustered_through_its_catalog(table):
    known = of_pyiceberg(table)
    thalweg.set_clustering(table, KEYS)
    assert table.properties["write.liquid-clustering.columns"] == "user_id,event_time"
    done = thalweg.optimize(table)
    assert done["outcome"] == "committed"
    assert str(table.current_snapshot().snapshot_id) == done["snapshot_after"]
    assert table.current_snapshot().summary.operation.value == "replace"
    assert known.rows() == expected_rows() and known.units() == done["output_units"]
    assert thalweg.optimize(table)["outcome"] == "nothing-to-do"
    thalweg.write_dataset(make_rows(500, 8), table, mode="append")
    assert known.rows() == expected_rows(9)
    table.append(make_rows(500, 9))
    assert thalweg.optimize(table, policy="overlap")["outcome"] == "committed"
    assert known.rows() == expected_rows(10)
    assert len(thalweg.history(table)) == 3


def test_an_append_meanwhile_is_kept_and_the_commit_tried_again(table, monkeypatch):
    thalweg.set_clustering(table, KEYS)
    other = somebody_else(table)
    left = before_commit(table, monkeypatch, lambda: (monkeypatch.undo(), other().append(make_rows(500, 8))))
    done = thalweg.optimize(table)
    assert not left and done["outcome"] == "committed" and done["replans"] == 0
    assert of_pyiceberg(table).rows() == expected_rows(9)


def test_a_delete_meanwhile_is_planned_again(table, monkeypatch):
    thalweg.set_clustering(table, KEYS)
    other = somebody_else(table)

    def delete():
        monkeypatch.undo()
        other().delete(GreaterThanOrEqual("user_id", 900_000))

    left = before_commit(table, monkeypatch, delete)
    done = thalweg.optimize(table)
    assert not left and done["replans"] == 1
    rows = table.scan().to_arrow()
    assert rows.num_rows == done["rows"]
    kept = pa.concat_tables([make_rows(500, seed) for seed in range(8)])
    kept = [row for row in kept.to_pylist() if row["user_id"] is None or row["user_id"] < 900_000]
    assert multiset(rows) == multiset(pa.Table.from_pylist(kept, schema=EVENTS))
    assert 0 < len(kept) < 4000


def refusing(error):
    def commit(*arguments):
        raise error

    return commit


def data_files(table) -> int:
    from pathlib import Path

    folder = Path(table.location().removeprefix("file://"))
    return len(list((folder / "data").rglob("*.parquet")))


def test_conflicts_without_end_are_a_conflict_and_leave_nothing(table, monkeypatch):
    thalweg.set_clustering(table, KEYS)
    files = data_files(table)
    monkeypatch.setattr(table.catalog, "commit_table", refusing(CommitFailedException("somebody was first")))
    with pytest.raises(thalweg.ConflictError, match="somebody was first"):
        thalweg.set_clustering(table, ["user_id", "amount"])
    with pytest.raises(thalweg.ConflictError, match="somebody was first"):
        thalweg.optimize(table)
    assert data_files(table) == files
    monkeypatch.undo()
    assert thalweg.optimize(table)["outcome"] == "committed"


def test_what_pyiceberg_refuses_is_an_error_and_leaves_nothing(table, monkeypatch):
    thalweg.set_clustering(table, KEYS)
    files = data_files(table)
    monkeypatch.setattr(table.catalog, "commit_table", refusing(NotImplementedError("not on this catalog")))
    with pytest.raises(thalweg.ThalwegError, match="not on this catalog"):
        thalweg.optimize(table)
    assert data_files(table) == files


@pytest.mark.parametrize("error", [CommitStateUnknownException("timed out"), ConnectionError("gone")])
def test_an_unknown_outcome_deletes_nothing_and_can_be_repeated(table, monkeypatch, error):
    thalweg.set_clustering(table, KEYS)
    files = data_files(table)
    monkeypatch.setattr(table.catalog, "commit_table", refusing(error))
    with pytest.raises(thalweg.UnknownOutcomeError, match=str(error)):
        thalweg.optimize(table, run_id="mine")
    assert data_files(table) > files
    monkeypatch.undo()
    assert thalweg.optimize(table, run_id="mine")["outcome"] == "committed"
    assert of_pyiceberg(table).rows() == expected_rows()


def test_a_commit_that_stands_though_its_answer_was_lost(table, monkeypatch):
    thalweg.set_clustering(table, KEYS)
    commit = table.catalog.commit_table

    def loses_its_answer(*arguments):
        commit(*arguments)
        raise ConnectionError("reset by peer")

    monkeypatch.setattr(table.catalog, "commit_table", loses_its_answer)
    assert thalweg.optimize(table)["outcome"] == "committed"
    monkeypatch.undo()
    assert of_pyiceberg(table).rows() == expected_rows()
    assert len([s for s in table.snapshots() if s.summary.operation.value == "replace"]) == 1


def test_a_failure_inside_the_catalog_object_is_raised_as_it_is(table, monkeypatch):
    thalweg.set_clustering(table, KEYS)
    monkeypatch.setattr("thalweg._catalog.PyIcebergCatalog._state", refusing(ZeroDivisionError("a fault of ours")))
    with pytest.raises(ZeroDivisionError):
        thalweg.optimize(table)


def test_a_table_that_is_gone_is_no_table(table):
    table.catalog.drop_table(table.name())
    with pytest.raises(thalweg.InvalidTable, match="there is no table db.events"):
        thalweg.status(table)


def test_tasks_of_a_table_need_no_catalog(table, monkeypatch):
    """Workers have only the pickles: not the catalog, which may live in another process's memory."""
    thalweg.set_clustering(table, KEYS)
    tasks = thalweg.plan(table, max_task_bytes="16KiB").tasks()
    assert len(tasks) > 1
    pickles = [pickle.dumps(task) for task in tasks]
    catalog, table.catalog = table.catalog, None
    results = [pickle.loads(pickle.dumps(thalweg.execute(pickle.loads(data)))) for data in pickles]
    table.catalog = catalog
    assert sum(result.rows for result in results) == 4000
    done = thalweg.commit(table, results)
    assert (done["outcome"], done["rows"]) == ("committed", 4000)
    assert of_pyiceberg(table).rows() == expected_rows()
    with pytest.raises(thalweg.UsageError):
        thalweg.commit(table, [])


def test_a_plan_of_a_table_that_has_moved_gives_no_tasks(table):
    thalweg.set_clustering(table, KEYS)
    plan = thalweg.plan(table)
    somebody_else(table)().append(make_rows(500, 8))
    with pytest.raises(thalweg.ConflictError, match="moved since it was planned"):
        plan.tasks()


def test_a_catalog_that_only_pyiceberg_speaks_is_opened_by_its_name(tmp_path, monkeypatch):
    """The SQL catalog on another URI scheme stands for Glue, Hive and the others: the engine refuses it."""
    uri = f"sqlite+pysqlite:///{tmp_path}/catalog.db"
    monkeypatch.setenv("PYICEBERG_CATALOG__OTHER__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__OTHER__URI", uri)
    monkeypatch.setenv("PYICEBERG_CATALOG__OTHER__WAREHOUSE", f"file://{tmp_path}/warehouse")
    table = events_in(SqlCatalog("other", uri=uri, warehouse=f"file://{tmp_path}/warehouse"))
    with pytest.raises(thalweg.ThalwegError, match="Python package opens whatever PyIceberg opens"):
        # Properties of one's own are for the engine's catalogs.
        thalweg.status("other.db.events", catalog_properties={"x": "y"})
    thalweg.set_clustering("other.db.events", KEYS)
    assert thalweg.optimize("other.db.events")["rows"] == 4000
    table.refresh()
    assert of_pyiceberg(table).rows() == expected_rows()
    with pytest.raises(thalweg.InvalidTable, match="there is no table db.nothing"):
        thalweg.status("other.db.nothing")
    # Created there too, in a namespace that is made for it.
    done = thalweg.write_dataset(make_rows(500, 0).to_reader(), "other.new.events", cluster_by=KEYS)
    assert done["rows"] == 500 and thalweg.clustering_spec("other.new.events")["columns"] == KEYS
    assert of_pyiceberg(table.catalog.load_table("new.events")).rows() == expected_rows(1)
    with pytest.raises(thalweg.UsageError, match="exists already"):
        thalweg.write_dataset(make_rows(500, 0), "other.new.events")
    with pytest.raises(thalweg.UsageError, match="exists already"):
        thalweg.write_dataset(make_rows(500, 0), table)


@pytest.mark.jvm
def test_through_pyicebergs_rest_client(rest_catalog, monkeypatch):
    table = events_in(rest_catalog.catalog, rest_catalog.namespace)
    known = of_pyiceberg(table)
    thalweg.set_clustering(table, KEYS)
    other = somebody_else(table)
    left = before_commit(table, monkeypatch, lambda: (monkeypatch.undo(), other().append(make_rows(500, 8))))
    done = thalweg.optimize(table)
    assert not left and done["outcome"] == "committed"
    assert known.rows() == expected_rows(9)
    assert thalweg.optimize(table, policy="overlap")["outcome"] == "committed"
    assert thalweg.optimize(table)["outcome"] == "nothing-to-do"
    assert known.rows() == expected_rows(9)


def test_properties_of_the_file_io_reach_the_engine(tmp_path, s3_server, monkeypatch):
    """Credentials that only PyIceberg knows: nothing of S3 is in the environment."""
    from s3_tools import S3Lake

    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_REGION"):
        monkeypatch.delenv(key, raising=False)
    table = events_in(S3Lake(tmp_path / "lake", s3_server).catalog)
    thalweg.set_clustering(table, KEYS)
    tasks = [pickle.loads(pickle.dumps(task)) for task in thalweg.plan(table).tasks()]
    assert thalweg.commit(table, [thalweg.execute(task) for task in tasks])["outcome"] == "committed"
    assert of_pyiceberg(table).rows() == expected_rows()
    shown = repr(tasks) + str(tasks[0].json)
    assert "secret" not in shown and "access-key" not in shown
