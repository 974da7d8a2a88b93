"""Each call of the package against tables of PyIceberg, pylance and LanceDB, seen through those libraries."""

import pickle

import lance
import matplotlib
import pyarrow as pa
import pytest
import thalweg
import thalweg.lance
from python_tools import KEYS, expected_rows, lance_events, lancedb_events, pyiceberg_events
from thalweg_test_tools import make_rows

matplotlib.use("agg")
MAKERS = {"pyiceberg": pyiceberg_events, "lance": lance_events, "lancedb": lancedb_events}


@pytest.fixture(params=MAKERS)
def known(request, lake):
    return MAKERS[request.param](lake)


@pytest.fixture
def options(known):
    """Small fragments where sizes are in rows; Iceberg's are in the table's properties."""
    return {} if isinstance(known.table, pyiceberg_table()) else {"target_rows_per_fragment": 500}


def pyiceberg_table():
    from pyiceberg.table import Table

    return Table


def test_a_table_is_declared_optimized_and_cleared_and_the_object_shows_it(known, options):
    table, before = known.table, known.rows()
    assert before == expected_rows()
    assert thalweg.clustering_spec(table) is None
    assert thalweg.set_clustering(table, KEYS) is True
    assert thalweg.set_clustering(table, KEYS) is False
    spec = thalweg.clustering_spec(table)
    assert set(spec) == {"columns", "curve", "version", "bits_per_dim", "algorithm"}
    assert (spec["columns"], spec["curve"], spec["bits_per_dim"]) == (KEYS, "hilbert", 16)
    assert spec["algorithm"] in ("quantile-rank-v1", "typed-quantile-rank-v1")
    assert spec["version"] == (None if isinstance(table, pyiceberg_table()) else 1)

    status = thalweg.status(table)
    assert status["units"] == known.units() == 8 and status["depth"] > 7.5
    assert [key["name"] for key in thalweg.status(table, ["amount", "country"])["keys"]] == ["amount", "country"]

    plan = thalweg.plan(table, **options)
    assert plan and plan["source_units"] == 8 and plan["depth_after"] < 5
    version = known.version()
    done = thalweg.optimize(table, **options)
    assert (done["outcome"], done["rows"], done["source_units"]) == ("committed", 4000, 8)
    assert known.version() != version, "the object was not refreshed"
    assert done["output_units"] == known.units()
    assert done["depth_after"] == pytest.approx(thalweg.status(table)["depth"])
    assert known.rows() == before

    version = known.version()
    again = thalweg.optimize(table, **options)
    assert again["outcome"] == "nothing-to-do" and again["reason"]
    assert not thalweg.plan(table, **options)
    assert known.version() == version

    assert thalweg.clear_clustering(table) is True
    assert thalweg.clear_clustering(table) is False
    assert thalweg.clustering_spec(table) is None


def test_cubes_history_report_and_plot(known, options, tmp_path):
    table = known.table
    thalweg.set_clustering(table, KEYS)
    done = thalweg.optimize(table, **options)
    cubes = thalweg.cubes(table)
    assert isinstance(cubes, pa.Table)
    assert sum(cubes["rows"].to_pylist()) == 4000
    assert sum(cubes["files"].to_pylist()) == known.units()
    assert set(cubes["run_id"].to_pylist()) == {done["run_id"]}
    (run,) = thalweg.history(table)
    assert (run["run_id"], run["rows"], run["source_units"]) == (done["run_id"], 4000, 8)
    page = tmp_path / "layout.html"
    assert thalweg.report(table, page) == str(page)
    assert done["run_id"] in page.read_text()
    axes = thalweg.plot(table)
    (boxes,) = axes.collections
    assert len(boxes.get_paths()) == known.units()
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("rank of user_id", "rank of event_time")
    (axis,) = (thalweg.plot(table, ["amount"]),)
    assert axis.get_xlabel() == "rank of amount" and axis.get_ylabel() == "files"
    assert thalweg.clean(table)["outcome"] == "nothing-to-do"


def test_rows_are_appended_to_an_object_and_clustered(known):
    table = known.table
    thalweg.set_clustering(table, KEYS)
    done = thalweg.write_dataset(make_rows(500, 8), table, mode="append")
    assert (done["outcome"], done["rows"]) == ("committed", 500)
    assert known.rows() == expected_rows(9)
    done = thalweg.write_dataset(make_rows(500, 0), table, mode="overwrite")
    assert known.rows() == expected_rows(1)


def test_budgets_and_policies_reach_the_planner(known, options):
    table = known.table
    thalweg.set_clustering(table, KEYS, policy="overlap", theta=0.5)
    assert thalweg.plan(table, **options)["policy"] == "overlap"
    assert thalweg.plan(table, policy="size", max_source_files=3, **options)["source_units"] == 3
    assert thalweg.plan(table, max_source_bytes=1, **options)["outcome"] == "nothing-to-do"
    assert thalweg.optimize(table, full=True, memory="256MiB", threads=1, verify="full", **options)["rows"] == 4000


def test_an_older_version_of_a_dataset_is_not_what_is_worked_on(lake):
    known = lance_events(lake)
    old = lance.dataset(known.table.uri, version=2)
    assert old.count_rows() == 1000
    thalweg.set_clustering(old, KEYS)
    assert old.count_rows() == 4000


def test_compaction_of_lance_is_clustered_where_columns_are_declared(lake):
    known = lance_events(lake)
    ds = known.table
    with pytest.raises(thalweg.UsageError, match="no clustering columns are declared"):
        thalweg.lance.compact_files(ds, compaction_mode="cluster")
    plain = thalweg.lance.compact_files(ds, target_rows_per_fragment=1000)
    assert plain.fragments_removed == 8 and "clustering" not in str(ds.config())
    thalweg.set_clustering(ds, KEYS)
    fragments = {fragment.fragment_id for fragment in ds.get_fragments()}
    clustered = thalweg.lance.compact_files(ds, target_rows_per_fragment=500)
    now = {fragment.fragment_id for fragment in ds.get_fragments()}
    assert (clustered.fragments_removed, clustered.fragments_added) == (len(fragments - now), len(now - fragments))
    assert thalweg.status(ds)["depth"] < 5 and known.rows() == expected_rows()
    with pytest.raises(thalweg.UsageError, match="defer_index_remap"):
        thalweg.lance.compact_files(ds, defer_index_remap=True)
    # A mode of Lance's own passes through, declaration or not.
    again = thalweg.lance.compact_files(ds, compaction_mode="reencode", target_rows_per_fragment=4000)
    assert (again.fragments_removed, again.fragments_added) == (len(now), 1)
    assert known.rows() == expected_rows()


def test_a_written_dataset_of_lance_comes_back(tmp_path):
    ds = thalweg.lance.write_dataset(make_rows(500, 0), str(tmp_path / "new.lance"), cluster_by=KEYS)
    assert isinstance(ds, lance.LanceDataset) and ds.count_rows() == 500


def test_by_path_and_by_catalog_name_as_on_the_command_line(lake, monkeypatch, tmp_path):
    known = pyiceberg_events(lake)
    for key, value in lake.environment.items():
        if key.startswith("PYICEBERG"):
            monkeypatch.setenv(key, value)
    assert thalweg.set_clustering("lake.db.events", KEYS)
    assert lake.ok("spec", "lake.db.events")["spec"]["columns"][0]["name"] == "user_id"
    assert thalweg.optimize("lake.db.events")["rows"] == 4000
    known.table.refresh()
    assert known.rows() == expected_rows()
    path = tmp_path / "hadoop"
    thalweg.write_dataset(make_rows(500, 0), path, cluster_by=KEYS)
    assert thalweg.status(path)["table"] == str(path)
    # Without the environment, the catalog's properties as arguments.
    for key in lake.environment:
        monkeypatch.delenv(key, raising=False) if key.startswith("PYICEBERG") else None
    properties = {"type": "sql", "uri": lake.uri}
    assert thalweg.status("lake.db.events", catalog_properties=properties)["rows"] == 4000


def test_the_stages_apart_are_one_run(known, options):
    """Plan, tasks, execute and commit, each task and result through a pickle."""
    table, before = known.table, known.rows()
    thalweg.set_clustering(table, KEYS)
    plan = thalweg.plan(table, max_task_bytes="16KiB", **options)
    tasks = pickle.loads(pickle.dumps(plan.tasks()))
    assert len(tasks) > 1 and len({task.json["selection-id"] for task in tasks}) == 1
    assert "of run" in repr(tasks[0]) and dict(pickle.loads(pickle.dumps(plan))) == dict(plan)
    version = known.version()
    results = [pickle.loads(pickle.dumps(thalweg.execute(task, memory="64MiB"))) for task in tasks]
    assert sum(result.rows for result in results) == 4000 and known.version() == version
    with pytest.raises(thalweg.ThalwegError):
        thalweg.commit(table, results[1:])
    assert known.rows() == before
    done = thalweg.commit(table, results)
    assert (done["outcome"], done["rows"], done["source_units"]) == ("committed", 4000, 8)
    assert known.rows() == before and thalweg.status(table)["depth"] < 5
    assert thalweg.commit(table, results)["outcome"] == "already-committed"
