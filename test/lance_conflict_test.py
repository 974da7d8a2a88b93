"""What others commit to a Lance dataset between a plan and its commit: nothing is lost, doubled or brought back."""

import json
import shutil
import signal
from collections import Counter

import pytest
from campaign_tools import start_paused
from lance_test_tools import LanceTable, lance, make_events, needs_lance, numbered_rows
from thalweg_test_tools import run

pytestmark = needs_lance

SMALL = ("--target-rows-per-fragment", "1000")


def merge(dataset, first: int) -> None:
    dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(numbered_rows(40, first))


def overwrite(table: LanceTable) -> None:
    lance.write_dataset(numbered_rows(600, 50_000), str(table.path), mode="overwrite")


def restore_first_version(table: LanceTable) -> None:
    lance.dataset(str(table.path), version=1).restore()


# What others do, and what may come of a run that has its files ready: it goes through (ok), it plans again and goes
# through or gives up (again), it must give up because nothing that it planned is left (end).
CHANGES = {
    "append": (lambda table: table.append(numbered_rows(300, 9000)), "ok"),
    "config": (lambda table: table.dataset.update_config({"mine": "x"}), "ok"),
    "metadata": (lambda table: table.dataset.update_metadata({"mine": "x"}), "ok"),
    "delete": (lambda table: table.dataset.delete("id < 10"), "again"),
    "delete everywhere": (lambda table: table.dataset.delete("id % 50 = 0"), "again"),
    "delete a fragment": (lambda table: table.dataset.delete("id < 500"), "again"),
    "update": (lambda table: table.dataset.update({"amount": "amount + 1"}, where="id % 100 = 3"), "again"),
    "merge-insert": (lambda table: merge(table.dataset, 1980), "again"),
    "merge-insert of new rows": (lambda table: merge(table.dataset, 9000), "again"),
    "compaction": (lambda table: table.dataset.optimize.compact_files(target_rows_per_fragment=100_000), "again"),
    "index": (lambda table: table.dataset.create_scalar_index("id", "BTREE"), "again"),
    "add a column": (lambda table: table.dataset.add_columns({"twice": "id * 2"}), "again"),
    "drop a column": (lambda table: table.dataset.drop_columns(["amount"]), "again"),
    "declare others": (lambda table: table.ok("set", "--columns", "amount,user_id"), "again"),
    "overwrite": (overwrite, "again"),
    "restore": (restore_first_version, "end"),
    "clear": (lambda table: table.ok("clear"), "end"),
    "drop a key": (lambda table: table.dataset.drop_columns(["event_time"]), "end"),
    "delete all rows": (lambda table: table.dataset.delete("true"), "again"),
}
change = pytest.mark.parametrize("change, kind", CHANGES.values(), ids=[name.replace(" ", "-") for name in CHANGES])


@pytest.fixture
def table(lake):
    return make_events(lake, 4)


class Paused:
    """A run that stopped itself at a point."""

    def __init__(self, table: LanceTable, point: str, *arguments: str):
        self.process = start_paused(["optimize", str(table.path), *SMALL, *arguments], point)

    def finish(self) -> tuple[int, str, str]:
        self.process.send_signal(signal.SIGCONT)
        out, err = self.process.communicate(timeout=120)
        return self.process.returncode, out, err

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()


@change
def test_before_the_commit_of_a_run(table, change, kind):
    with Paused(table, "after-data-files") as other:
        assert table.files("data") - table.referenced() and table.files("_thalweg")
        change(table)
        expected, others = table.rows(), table.dataset.version
        code, _, error = other.finish()
    check_outcome(table, kind, code, error)
    assert table.rows() == expected == table.rows_by_duckdb()
    if kind == "ok":
        assert "Rewrite" in table.operations(others)
    if code == 0 and kind != "end":
        assert table.optimize()["outcome"] in ("committed", "nothing-to-do")
        assert table.rows() == expected


def check_outcome(table: LanceTable, kind: str, code: int, error: str) -> None:
    assert code in {"ok": (0,), "again": (0, 3), "end": (1, 2, 3)}[kind], (code, error)
    assert code == 0 or len(error.splitlines()) == 1, error
    table.dataset.validate()
    table.check_no_leftovers()


@pytest.mark.parametrize("point", ["after-reserve", "after-remap"])
@pytest.mark.parametrize("name", ["append", "delete", "update", "compaction", "overwrite"])
def test_between_the_commits_of_a_run(table, point, name):
    table.dataset.create_scalar_index("id", "BTREE")
    change, kind = CHANGES[name]
    with Paused(table, point) as other:
        change(table)
        expected = table.rows()
        code, _, error = other.finish()
    check_outcome(table, kind, code, error)
    assert table.rows() == expected
    names = sorted(table.dataset.schema.names)
    ids = sorted(row[names.index("id")] for row in expected)[::97]
    for value in ids:
        assert table.dataset.to_table(columns=["id"], filter=f"id = {value}")["id"].to_pylist() == [value]


@pytest.mark.parametrize("point", ["after-rewrite", "after-record"])
@pytest.mark.parametrize("name", ["append", "delete", "update", "config"])
def test_after_the_rewrite_nothing_stops_a_run(table, point, name):
    with Paused(table, point) as other:
        CHANGES[name][0](table)
        expected = table.rows()
        code, _, error = other.finish()
    assert code == 0, error
    assert table.rows() == expected
    # The record knows what was written, the zone maps all of it: nothing but the change is left to do.
    report = table.optimize()
    assert report.get("rows") in {"append": (300,), "delete": (None, 0), "update": (20,), "config": (None, 0)}[name]
    table.check_no_leftovers()


def test_a_dataset_that_is_gone(table):
    with Paused(table, "after-data-files") as other:
        shutil.rmtree(table.path)
        code, _, error = other.finish()
    assert code in (1, 3, 4) and len(error.splitlines()) == 1
    assert "events.lance" in error
    assert not list(table.path.rglob("*.manifest"))


def test_another_dataset_in_its_place(table):
    with Paused(table, "after-data-files") as other:
        shutil.rmtree(table.path)
        table.append(numbered_rows(700, 80_000))
        expected = table.rows()
        code, _, error = other.finish()
    assert code in (1, 2, 3) and len(error.splitlines()) == 1
    assert table.rows() == expected
    table.dataset.validate()


def test_two_runs_at_once(table):
    expected = table.rows()
    with Paused(table, "after-data-files") as other:
        assert table.optimize()["outcome"] == "committed"
        code, _, error = other.finish()
    assert code in (0, 3), error
    assert table.rows() == expected
    assert table.unclustered() == 0
    table.check_no_leftovers()


# --- envelopes


@pytest.fixture
def planned(table):
    """The result envelopes of a run that was executed and not committed."""
    return table.execute_all(table.lake.folder / "tasks")


@change
def test_before_the_commit_of_envelopes(table, planned, change, kind):
    change(table)
    expected = table.rows()
    done = table.run("commit", *planned)
    assert done.code in {"ok": (0,), "again": (0, 1, 3), "end": (1, 2, 3)}[kind], done
    if done.code != 0:
        assert done.error(done.code)
    assert table.rows() == expected
    table.dataset.validate()
    if done.code == 0:
        table.check_no_leftovers()
        assert table.ok("commit", *planned)["outcome"] == "already-committed"


def test_before_the_execution_of_a_task(table):
    tasks = table.lake.folder / "tasks"
    table.ok("plan", "--tasks-out", tasks)
    table.dataset.delete("id < 700")
    table.dataset.update({"amount": "amount + 1"}, where="id = 1900")
    expected = table.rows()
    result = table.lake.folder / "result.json"
    done = table.lake.run("execute", tasks / "task-00000.json", "--out", result)
    if done.code == 0:
        done = table.run("commit", result)
        assert done.code in (0, 1, 3)
    else:
        assert done.error(done.code)
    assert table.rows() == expected


def edited(envelope, path: tuple, value) -> str:
    """A copy of an envelope with one value changed."""
    content = json.loads(envelope.read_text())
    inner = content
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    copy = envelope.with_name(f"edited-{envelope.name}")
    copy.write_text(json.dumps(content))
    return str(copy)


def walk(value, path=()):
    """Every place of a JSON value that holds no other value."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from walk(inner, (*path, key))
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from walk(inner, (*path, at))
    else:
        yield path, value


# What may be changed in a result: reports and predictions, names, and where descriptions of the units decide.
FREE = {"seconds", "spilled-bytes", "peak-memory-bytes", "run", "keys", "policy", "theta", "table", "attempt-id"}
FREE |= {"selection-id", "cube-id", "target-file-bytes", "target-file-rows", "target-row-group-bytes", "fitted-hash"}
FREE |= {"target-cube-size-bytes", "min-cube-size-bytes", "run-id", "snapshot-id", "planned"}
FREE |= {("task", "task"), ("fragment", "id")}


def same_rows(table: LanceTable, expected: Counter) -> bool:
    try:
        return table.rows() == expected
    except OSError:
        return False


def test_edited_envelopes(table, planned):
    """No single value of a result can be changed so that rows are lost: it is refused, or the same is committed."""
    expected, version = table.rows(), table.dataset.version
    (result,) = planned
    pristine = table.lake.folder / "pristine"
    shutil.copytree(table.path, pristine)
    refused, accepted = 0, []
    for path, value in walk(json.loads(result.read_text())):
        # One unit is like another.
        if "quantiles" in path or path[:1] == ("outputs",) and path[1] > 0 or "sources" in path and path[2] > 0:
            continue
        changed = value + 1 if isinstance(value, int) else f"{value}x" if isinstance(value, str) else 7
        done = table.run("commit", edited(result, path, changed))
        if done.code != 0:
            assert done.error(done.code)
            assert "Rewrite" not in table.operations(version), path
            refused += 1
            continue
        # Whatever was changed, the rows are right.
        if not FREE & {*path, path[-2:]} or not same_rows(table, expected):
            accepted.append((path, value))
        shutil.rmtree(table.path)
        shutil.copytree(pristine, table.path)
    print(f"{refused} refused, accepted {accepted}")
    assert not accepted and refused > 30


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"null", b"\xff\xfe", b'{"type": "thalweg.cluster-result/2"}', b'{"type": 7}']
)
def test_envelopes_that_are_none(table, planned, content):
    version = table.dataset.version
    path = table.lake.folder / "odd.json"
    path.write_bytes(content)
    assert "odd.json" in table.run("commit", path).error(1)
    assert "odd.json" in table.run("commit", *planned, path).error(1)
    done = table.lake.run("execute", path, "--out", table.lake.folder / "out.json")
    assert "odd.json" in done.error(1)
    assert table.dataset.version == version


def test_envelopes_of_another_dataset(lake, table, planned):
    other = LanceTable(lake, "other").grow(4)
    other.declare()
    expected, version = other.rows(), other.dataset.version
    assert other.run("commit", *planned).error(1)
    assert (other.rows(), other.dataset.version) == (expected, version)
    # An Iceberg table takes them neither.
    address = lake.make_events(files=2, rows=200)
    done = lake.run("commit", address, *planned)
    assert done.error(done.code) and done.code in (1, 3)


def test_tasks_without_units(table):
    tasks = table.lake.folder / "tasks"
    table.ok("plan", "--tasks-out", tasks)
    task = tasks / "task-00000.json"
    lists = [key for key, value in json.loads(task.read_text()).items() if isinstance(value, list) and value]
    assert lists
    for key in lists:
        done = table.lake.run("execute", edited(task, (key,), []), "--out", table.lake.folder / "out.json")
        assert done.error(1), key
    table.check_no_leftovers()


@pytest.mark.parametrize("damage", ["missing", "truncated", "another"])
def test_written_files_that_are_not_as_they_were(table, planned, damage):
    expected, version = table.rows(), table.dataset.version
    new = sorted(table.files("data") - table.referenced())
    victim = table.path / next(name for name in new if name.endswith(".lance"))
    if damage == "missing":
        victim.unlink()
    elif damage == "truncated":
        victim.write_bytes(victim.read_bytes()[:-20])
    else:
        shutil.copy(table.path / sorted(table.referenced() & table.files("data"))[0], victim)
    message = table.run("commit", *planned).error(1)
    assert victim.name in message
    assert (table.rows(), table.dataset.version) == (expected, version)


def test_a_run_is_committed_once(table, planned):
    """Also when the process that committed it died before it could say so."""
    expected = table.rows()
    environment = table.lake.environment | {"THALWEG_CRASH_POINT": "after-rewrite"}
    command = ["commit", table.path, *planned]

    assert run(*command, environment=environment).code == -signal.SIGKILL
    assert table.rows() == expected
    assert table.ok("commit", *planned)["outcome"] == "already-committed"
    assert table.unclustered() == 0
    assert table.rows() == expected


# --- the layout record


@pytest.mark.parametrize(
    "text", ["", "{}", "[1, 2", "null", '{"version": 1}', "\x00\xff", "x" * 100_000, '{"fragments": "0-99999999999"}']
)
def test_a_corrupt_record_counts_as_absent_and_is_said_so(table, text):
    table.optimize()
    (key,) = table.records()
    table.dataset.update_metadata({key: text})
    expected = table.rows()
    for command in ["status", "cubes"]:
        done = table.ok(command)
        assert any("record" in note for note in done["notes"]), (command, done["notes"])
    assert table.ok("status")["health"]["unclustered_units"] in (0, len(table.fragment_rows()))
    done = table.optimize()
    assert done["outcome"] in ("committed", "nothing-to-do")
    assert table.rows() == expected
    assert table.unclustered() == 0


def test_a_lost_record_is_rebuilt_from_the_transactions(table):
    table.optimize()
    (key,) = table.records()
    groups = table.ok("cubes")["cubes"]
    table.dataset.update_metadata({name: None for name in table.dataset.metadata if name.startswith("thalweg.")})
    again = table.ok("cubes")["cubes"]
    assert [(cube["files"], cube["rows"]) for cube in again] == [(cube["files"], cube["rows"]) for cube in groups]
    assert table.optimize()["outcome"] == "nothing-to-do"
    assert list(table.records()) == [key]


def test_a_record_is_not_believed_against_the_fragments(table):
    """Stamps that were copied from another dataset, or that name fragments which are others by now, do not hold."""
    table.optimize()
    stamped = {key: text for key, text in table.dataset.metadata.items() if key.startswith("thalweg.")}
    other = LanceTable(table.lake, "other")
    other.append(numbered_rows(3000, 0), max_rows_per_file=500)
    other.declare()
    other.dataset.update_metadata(stamped)
    assert other.unclustered() == len(other.fragment_rows())
    before = other.rows()
    assert other.optimize()["rows"] == 3000
    assert other.rows() == before
