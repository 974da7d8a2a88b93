"""thalweg.ray on a local Ray cluster: results like those of one process, lost workers, conflicts, cancellation."""

import json
import os
import signal
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from lance_test_tools import LanceTable, multiset, needs_lance, numbered_rows
from thalweg_test_tools import (
    BIN,
    EVENTS,
    PROGRAM,
    SMALL_CUBES,
    OracleKeys,
    hadoop_table,
    local_path,
    make_rows,
    rows_of,
)

PACKAGE = Path(BIN).parent / "python"
if not any((PACKAGE / "thalweg").glob("_core*.so")):
    pytest.skip(f"{PACKAGE} is not built", allow_module_level=True)
ray = pytest.importorskip("ray", reason="Ray is not installed")
if str(PACKAGE) not in sys.path:
    sys.path.insert(0, str(PACKAGE))

import thalweg  # noqa: E402
import thalweg.ray  # noqa: E402
from thalweg import _shuffle  # noqa: E402

KEYS = ["user_id", "event_time"]
pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")


def start(workers: int) -> None:
    """Starts Ray, which gives its processes half a minute: not always enough on a machine with other work."""
    for tries_left in (3, 2, 1, 0):
        try:
            ray.init(
                num_cpus=workers,
                include_dashboard=False,
                object_store_memory=100 << 20,
                log_to_driver=False,
                configure_logging=False,
            )
            return
        except Exception as error:
            if "timed out during startup" not in str(error) or not tries_left:
                raise
            ray.shutdown()


@contextmanager
def cluster(workers: int):
    """A Ray of its own with so many CPUs, which are worker processes."""
    with pytest.MonkeyPatch.context() as patch:
        # Workers inherit it; a table's catalog is not theirs to know.
        patch.setenv("PYTHONPATH", os.pathsep.join([str(PACKAGE), os.environ.get("PYTHONPATH", "")]))
        patch.setenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        start(workers)
        try:
            yield workers
        finally:
            ray.shutdown()


@pytest.fixture(scope="module")
def two_workers():
    with cluster(2) as workers:
        yield workers


def declared(lake, name: str = "events", files: int = 6, rows: int = 2000):
    """A PyIceberg table whose files all overlap."""
    table = lake.make_table(name, EVENTS, SMALL_CUBES)
    for number in range(files):
        table.append(make_rows(rows, number))
    thalweg.set_clustering(table, KEYS)
    return table


def run_files(table) -> list[Path]:
    return list(Path(local_path(table.location()), "metadata").glob("thalweg-run-*.json"))


def files_below(table) -> set[str]:
    return {str(path) for path in Path(local_path(table.location()), "data").rglob("*") if path.is_file()}


def live_files(table) -> set[str]:
    """The files of the newest snapshot."""
    return {local_path(task.file.file_path) for task in table.refresh().scan().plan_files()}


def slices_of(table) -> dict[str, list]:
    """Files of the newest snapshot by the task that wrote them: the part of the name behind the run."""
    by_task = {}
    for task in table.refresh().scan().plan_files():
        name = task.file.file_path.rsplit("/", 1)[1]
        by_task.setdefault(name.removeprefix("thalweg-")[37:].split("-")[0], []).append(task.file)
    return by_task


def optimize(table, **options):
    return thalweg.ray.optimize(table, memory=256 << 20, **options)


def check_like_one_process(table, report, twin) -> None:
    """The same rows as before, and a layout as good as that of one process on a copy of the table."""
    local = thalweg.optimize(twin)
    assert (report["outcome"], local["outcome"]) == ("committed", "committed")
    assert report["format"] == "thalweg.optimize/1"
    assert set(local) <= set(report)
    assert report["rows"] == local["rows"]
    assert report["source_units"] == local["source_units"]
    assert report["depth_before"] == pytest.approx(local["depth_before"])
    here, there = thalweg.status(table), thalweg.status(twin)
    assert here["rows"] == there["rows"]
    # Slices end their last files apart from one another.
    assert here["depth"] <= 1.25 * there["depth"] + 0.5
    assert report["depth_after"] == pytest.approx(here["depth"])


def test_one_worker(lake):
    """Before the others: they share a cluster of two."""
    table, twin = declared(lake), declared(lake, "twin")
    before = rows_of(table)
    with cluster(1):
        report = optimize(table, num_tasks=2)
        check_like_one_process(table, report, twin)
        assert rows_of(table) == before
        table.append(make_rows(2000, 99))
        before = rows_of(table)
        assert optimize(table, full=True, shuffle=True, num_tasks=2)["rows"] == 14000
    assert rows_of(table) == before


def test_tasks_of_two_workers_are_one_commit(lake, two_workers):
    table = declared(lake)
    twin = declared(lake, "twin")
    before = rows_of(table)
    told = []
    report = optimize(table, num_tasks=4, progress=lambda *step: told.append(step))
    assert rows_of(table) == before == rows_of(twin)
    check_like_one_process(table, report, twin)
    assert len(table.snapshots()) == 6 + 1
    assert len(slices_of(table)) >= 3
    written = [step for step in told if step[0] == "write"]
    assert len(written) >= 3 and written[-1] == ("write", 12000, 12000)
    assert [step[1] for step in written] == sorted(step[1] for step in written)
    assert run_files(table) == []
    assert optimize(table)["outcome"] == "nothing-to-do"


def test_a_table_by_its_path(tmp_path, two_workers):
    path = str(tmp_path / "events")
    for number in range(4):
        thalweg.write_dataset(make_rows(2000, number), path, mode="append" if number else "create")
    before = rows_of(hadoop_table(Path(path)))
    thalweg.set_clustering(path, KEYS, target_cube_size=65536, min_cube_size=32768)
    report = optimize(path, num_tasks=2, num_cpus=2, target_file_size=16384)
    assert (report["outcome"], report["rows"]) == ("committed", 8000)
    assert rows_of(hadoop_table(Path(path))) == before


def test_the_same_run_twice_is_committed_once(lake, two_workers):
    table = declared(lake, files=3)
    assert optimize(table, run_id="nightly")["outcome"] == "committed"
    table.append(make_rows(2000, 77))
    snapshots = len(table.refresh().snapshots())
    assert optimize(table, run_id="nightly")["outcome"] == "already-committed"
    assert len(table.refresh().snapshots()) == snapshots


def test_wrong_arguments(lake, two_workers):
    table = declared(lake, files=2)
    with pytest.raises(thalweg.UsageError, match="give one"):
        optimize(table, num_tasks=2, max_task_bytes=1000)
    with pytest.raises(thalweg.UsageError, match="at least one"):
        optimize(table, num_tasks=0)
    with pytest.raises(thalweg.ThalwegError):
        thalweg.ray.optimize(table, memory=256 << 20, spill_dir="/nowhere/at/all", max_retries=0, target_file_size="x")


@needs_lance
def test_a_lance_dataset(lake, two_workers):
    dataset = LanceTable(lake)
    for number in range(4):
        dataset.append(numbered_rows(2000, number * 2000))
    dataset.declare()
    before = dataset.rows()
    opened = dataset.dataset
    report = optimize(opened, num_tasks=2, target_rows_per_fragment=1000)
    assert (report["outcome"], report["rows"]) == ("committed", 8000)
    assert opened.version == dataset.dataset.version
    assert multiset(opened.to_table()) == before
    assert {fragment.count_rows() for fragment in opened.get_fragments()} <= set(range(600, 1001))


def kill_the_first_worker_that_writes(table, before: set[str], killed: list[int]) -> None:
    """Kills a worker process once its task has written its first file."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if files_below(table) - before:
            for path in run_files(table):
                with suppress(OSError, ValueError):
                    intent = json.loads(path.read_text())
                    if intent["pid"] != os.getpid() and not intent["kept"]:
                        os.kill(intent["pid"], signal.SIGKILL)
                        killed.append(intent["pid"])
                        return
        time.sleep(0.002)


def test_a_killed_worker(lake, two_workers):
    table = declared(lake, rows=10000)
    rows, files = rows_of(table), files_below(table)
    killed = []
    killer = threading.Thread(target=kill_the_first_worker_that_writes, args=(table, files, killed))
    killer.start()
    report = optimize(table, num_tasks=2, target_file_size=4096)
    killer.join()
    assert len(killed) == 1
    assert (report["outcome"], report["rows"], report["replans"]) == ("committed", 60000, 0)
    assert rows_of(table) == rows
    left = files_below(table) - files - live_files(table)
    # None, if the one that was killed was not the one that had written.
    cleaned = thalweg.clean(table)
    assert cleaned["files_deleted"] == len(left)
    assert files_below(table) == files | live_files(table)
    assert run_files(table) == []
    assert rows_of(table) == rows


def test_a_conflict_is_planned_anew(lake, two_workers, monkeypatch):
    table = declared(lake)
    other = lake.table()
    deleted = rows_of(table)
    commit, conflicts = thalweg.stages.commit, []

    def commit_after_another(*arguments, **options):
        """The first commit comes after one that rewrote a file which was read."""
        if not conflicts:
            other.refresh().delete("country == 'ch' and user_id < 500000")
            conflicts.append(files_below(table))
        return commit(*arguments, **options)

    monkeypatch.setattr(thalweg.stages, "commit", commit_after_another)
    report = optimize(table, num_tasks=2)
    assert (report["outcome"], report["replans"], len(conflicts)) == ("committed", 1, 1)
    rows = rows_of(table)
    assert report["rows"] == rows.total() < deleted.total()
    assert rows == type(rows)(
        {row: n for row, n in deleted.items() if not (row[2] == "ch" and row[0] is not None and row[0] < 500000)}
    )
    # The results of the first plan are gone.
    known = {local_path(row["file_path"]) for row in table.inspect.all_files().to_pylist()}
    assert files_below(table) == known
    assert run_files(table) == []


def test_conflicts_end(lake, two_workers, monkeypatch):
    table = declared(lake, files=3)
    files = files_below(table)

    def commit(*arguments, **options):
        raise thalweg.ConflictError("somebody else")

    monkeypatch.setattr(thalweg.stages, "commit", commit)
    with pytest.raises(thalweg.ConflictError, match="gave up after 2 conflicts: somebody else"):
        optimize(table, max_replans=1)
    assert files_below(table) == files
    assert run_files(table) == []


def test_an_interruption_leaves_nothing(lake, two_workers):
    table = declared(lake, rows=10000)
    files = files_below(table)

    def interrupt():
        until = time.monotonic() + 60
        while not files_below(table) - files and time.monotonic() < until:
            time.sleep(0.002)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        optimize(table, num_tasks=4, target_file_size=4096)
    assert files_below(table) == files
    assert run_files(table) == []
    assert len(table.refresh().snapshots()) == 6
    assert optimize(table)["outcome"] == "committed"


# --- shuffle: the global sort


def fitted_by_parts(plan) -> set[str]:
    """The hashes of the models that come of samples of single units."""
    hashes = set()
    for selection in _shuffle.select(plan):
        units = len(selection.unit_bytes())
        samples = [_shuffle.sample(selection, (unit, unit + 1), {"threads": 1}) for unit in range(units)]
        fitted, tasks = _shuffle.fit(selection, samples[::-1], 3, 0)
        hashes |= {task.json["fitted-hash"] for task in tasks} | {json.loads(fitted.envelope)["fitted-hash"]}
    return hashes


def model_of_one_process(plan) -> set[str]:
    return {task.json["fitted-hash"] for task in plan.tasks(threads=2)}


@pytest.fixture
def small_blocks(monkeypatch):
    """Several blocks for each slice, as a large table has."""
    monkeypatch.setattr(thalweg.ray._ShuffleJob, "piece_bytes", 6 << 10)
    monkeypatch.setattr(thalweg.ray._ShuffleJob, "block_bytes", 24 << 10)


def test_the_model_of_parts_is_that_of_one_process(lake):
    table = declared(lake)
    plan = thalweg.plan(table)
    assert fitted_by_parts(plan) == model_of_one_process(plan)


def test_global_sort(lake, two_workers, small_blocks):
    table, twin = declared(lake), declared(lake, "twin")
    before = rows_of(table)
    sources = sorted(live_files(table))
    told = []
    report = optimize(table, shuffle=True, num_tasks=3, progress=lambda *step: told.append(step))
    assert rows_of(table) == before
    check_like_one_process(table, report, twin)
    assert {stage for stage, *_ in told} >= {"fit", "write", "commit"}
    assert run_files(table) == []
    # Keys by the oracle: every file is sorted, and the slices follow one another.
    keys = OracleKeys(sources, KEYS)
    ranges = []
    for files in slices_of(table).values():
        of_slice = []
        for file in files:
            of_file = keys.of_file(file.file_path)
            assert of_file == sorted(of_file)
            of_slice += of_file
        ranges.append((min(of_slice), max(of_slice)))
    ranges.sort()
    assert len(ranges) == 3
    assert all(high < low for (_, high), (low, _) in zip(ranges, ranges[1:], strict=False))


def test_global_sort_with_deletes_and_one_slice(lake, two_workers):
    table = declared(lake, files=3)
    table.delete("country == 'fr'")
    before = rows_of(table)
    report = optimize(table, shuffle=True, num_tasks=1, full=True)
    assert (report["outcome"], report["rows"]) == ("committed", before.total())
    assert rows_of(table) == before


def test_global_sort_with_a_killed_worker(lake, two_workers, small_blocks):
    table = declared(lake, rows=5000)
    rows, files = rows_of(table), files_below(table)
    killed = []
    killer = threading.Thread(target=kill_the_first_worker_that_writes, args=(table, files, killed))
    killer.start()
    report = optimize(table, shuffle=True, num_tasks=2, target_file_size=4096)
    killer.join()
    assert len(killed) == 1
    assert (report["outcome"], report["rows"]) == ("committed", 30000)
    assert rows_of(table) == rows
    left = files_below(table) - files - live_files(table)
    # It may have been killed before its file had a name of its own.
    assert thalweg.clean(table)["files_deleted"] == len(left)
    assert files_below(table) == files | live_files(table)
    assert run_files(table) == []


@needs_lance
def test_global_sort_of_a_lance_dataset_with_indexes(lake, two_workers, small_blocks):
    dataset = LanceTable(lake)
    for number in range(12):  # positions of fragments go by their numbers: 2 comes before 10
        dataset.append(numbered_rows(700, number * 700))
    opened = dataset.dataset
    opened.create_scalar_index("id", "BTREE")
    opened.delete("id % 7 = 3")
    dataset.declare()
    opened = dataset.dataset
    before = multiset(opened.to_table())
    plan = thalweg.plan(opened)
    assert fitted_by_parts(plan) == model_of_one_process(plan)
    report = optimize(opened, shuffle=True, num_tasks=3, target_rows_per_fragment=1000)
    assert (report["outcome"], report["rows"]) == ("committed", before.total())
    assert multiset(opened.to_table()) == before
    # The index follows the rows.
    found = opened.scanner(filter="id = 4242")
    assert "ScalarIndexQuery" in found.explain_plan(verbose=True)
    assert found.to_table()["id"].to_pylist() == [4242]
    assert opened.count_rows("id >= 100 and id < 200") == sum(number % 7 != 3 for number in range(100, 200))


def test_a_lost_piece_is_no_commit(lake, two_workers, small_blocks, monkeypatch):
    table = declared(lake)
    rows, files, snapshots = rows_of(table), files_below(table), len(table.snapshots())
    shuffled = thalweg.ray._ShuffleJob._shuffle

    def lose_one(self, *arguments):
        blocks = shuffled(self, *arguments)
        del blocks[max(blocks)]
        return blocks

    monkeypatch.setattr(thalweg.ray._ShuffleJob, "_shuffle", lose_one)
    with pytest.raises(thalweg.ThalwegError, match="rows were written"):
        optimize(table, shuffle=True, num_tasks=2)
    assert len(table.refresh().snapshots()) == snapshots
    assert (rows_of(table), files_below(table), run_files(table)) == (rows, files, [])
