"""Damaged and read-only tables, terminals, pipes and signals, through the real program."""

import json
import os
import pty
import random
import select
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from campaign_tools import SqliteLake, commit_equality_deletes, data_files_on_disk, ids_and_sum
from campaign_tools import make_rows as make_campaign_rows
from thalweg_test_tools import (
    EVENTS,
    KEYS,
    PROGRAM,
    SMALL_CUBES,
    clean_environment,
    data_files,
    hadoop_table,
    make_rows,
    rows_of,
    run,
)

# --- damage


def damaged(content: bytes, rng: random.Random) -> list[bytes]:
    flipped = bytearray(content)
    for _ in range(20):
        flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
    return [b"", content[:1], content[: len(content) // 2], content[:-1], b"\0" * len(content), bytes(flipped)]


def files_of(table) -> dict[str, Path]:
    snapshot = table.current_snapshot()
    manifest = snapshot.manifests(table.io)[0]
    found = {
        "metadata": table.metadata_location,
        "manifest list": snapshot.manifest_list,
        "manifest": manifest.manifest_path,
        "data": next(iter(data_files(table))),
    }
    return {kind: Path(location.removeprefix("file://")) for kind, location in found.items()}


@pytest.mark.parametrize("kind", ["metadata", "manifest list", "manifest", "data"])
def test_damaged_files(lake, kind):
    address = lake.make_events(files=2, rows=200)
    path = files_of(lake.table())[kind]
    location = lake.table().metadata_location
    content = path.read_bytes()
    for number, bad in enumerate(damaged(content, random.Random(7))):
        path.write_bytes(bad)
        for command in ["status", "plan", "optimize"]:
            done = lake.run(command, address)
            # A flipped bit may land where nothing is lost; anything else is one clear line.
            if done.code != 0:
                assert path.name.split(".")[0] in done.error(done.code) and done.code in (1, 2), (kind, number, command)
            elif command == "optimize":
                assert number == 5, (kind, number, done)
        path.write_bytes(content)
        if number < 5:
            assert lake.table().metadata_location == location
    path.unlink()
    if kind != "data":
        assert path.name in lake.run("status", address).error(1)
    assert path.name in lake.run("optimize", address).error(1)


def test_result_of_a_flipped_footer_is_not_committed(lake, events):
    tasks = lake.folder / "tasks"
    lake.ok("plan", events, "--tasks-out", tasks)
    result = lake.folder / "result.json"
    lake.ok("execute", tasks / "task-00000.json", "--out", result)
    location = lake.table().metadata_location
    fresh = {str(path) for path in Path(lake.folder, "warehouse").rglob("*.parquet")}
    fresh -= {path.removeprefix("file://") for path in data_files(lake.table())}
    victim = Path(sorted(fresh)[0])
    content = victim.read_bytes()
    victim.write_bytes(content[:-9])
    assert victim.name in lake.run("commit", events, result).error(1)
    victim.unlink()
    assert victim.name in lake.run("commit", events, result).error(1)
    assert lake.table().metadata_location == location


@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="needs an unprivileged user")
def test_read_only_folder():
    folder = Path(tempfile.mkdtemp(prefix="thalweg-read-only-"))
    try:
        source = folder / "rows.parquet"
        pq.write_table(make_rows(1000, 1), source)
        environment = clean_environment(folder)
        table = folder / "events"
        made = run(
            "write", table, source, "--mode", "create", "--cluster-by", "user_id,event_time", environment=environment
        )
        assert made.code == 0, made.err
        again = run("set", table, "--columns", "country,user_id", environment=environment)
        assert again.code == 0, again.err
        before = rows_of(hadoop_table(table))
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        for arguments in [["optimize", "--full"], ["set", "--columns", "user_id,event_time"], ["write", source]]:
            command = [*prefix, str(PROGRAM), arguments[0], str(table), *map(str, arguments[1:])]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
            assert done.returncode == 1, (arguments, done)
            assert done.stderr.count("\n") == 1 and "ermission denied" in done.stderr, done.stderr
        assert rows_of(hadoop_table(table)) == before
    finally:
        for path in [folder, *folder.rglob("*")]:
            if path.is_dir():
                path.chmod(0o755)
        shutil.rmtree(folder)


# --- terminals, pipes and signals


def test_progress_only_on_a_terminal(lake, events):
    # In a pipe nothing is on standard error (Lake.ok checks that); on a terminal a line that is cleared at the end.
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [str(PROGRAM), "optimize", events, "--json"],
        env=lake.environment | {"TERM": "xterm"},
        stdout=subprocess.PIPE,
        stderr=follower,
    )
    os.close(follower)
    shown = b""
    while select.select([leader], [], [], 120)[0]:
        try:
            chunk = os.read(leader, 4096)
        except OSError:
            break
        if not chunk:
            break
        shown += chunk
    out = process.communicate(timeout=120)[0]
    os.close(leader)
    assert process.returncode == 0
    assert json.loads(out)["outcome"] == "committed"
    assert shown.startswith(b"\r") and shown.endswith(b"\r\x1b[K") and b"\n" not in shown


def test_quiet(lake, events):
    done = lake.run("optimize", events, "--quiet")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert lake.ok("optimize", events)["outcome"] == "nothing-to-do"


def test_reader_that_goes_away(lake, events):
    process = subprocess.Popen([str(PROGRAM), "optimize", events], env=lake.environment, stdout=subprocess.PIPE)
    process.stdout.close()
    assert process.wait(timeout=120) == 0
    assert lake.ok("optimize", events)["outcome"] == "nothing-to-do"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_standard_output_is_an_error(lake, events):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [str(PROGRAM), "status", events], env=lake.environment, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "standard output" in done.stderr


@pytest.mark.parametrize("run_id", ["nightly", "01a22cf2-7259-7718-b090-9a4754131ea0"])
def test_tables_may_share_a_folder_and_run_ids(lake, run_id):
    """What a dead run of one table left is told apart from what a run of that name made of another."""
    shared = {"write.data.path": f"{lake.warehouse}/shared"}
    tables = {name: lake.make_table(name, EVENTS, SMALL_CUBES | {KEYS: "user_id,event_time"} | shared) for name in "ab"}
    for table in tables.values():
        for seed in range(3):
            table.append(make_rows(300, seed))
    expected = rows_of(lake.table("b"))
    assert lake.ok("optimize", "lake.db.b", "--run-id", run_id)["outcome"] == "committed"
    environment = lake.environment | {"THALWEG_CRASH_POINT": "after-data-files"}
    died = run("optimize", "lake.db.a", "--run-id", run_id, environment=environment)
    assert died.code == -signal.SIGKILL
    reclaimed = lake.ok("clean", "lake.db.a")
    assert reclaimed["files_deleted"] > 0
    assert rows_of(lake.table("b")) == expected
    assert lake.ok("optimize", "lake.db.a", "--run-id", run_id)["outcome"] == "committed"
    assert rows_of(lake.table("b")) == expected == rows_of(lake.table("a"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_changes_nothing(lake, number):
    address = lake.make_events(files=4, rows=400_000)
    location = lake.table().metadata_location
    root = Path(lake.table().location().removeprefix("file://"))
    listing = sorted(path for path in root.rglob("*") if path.is_file())
    process = subprocess.Popen(
        [str(PROGRAM), "optimize", address],
        env=lake.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not list(root.glob("metadata/thalweg-run-*.json")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (130, "", "thalweg: interrupted; nothing was changed\n")
    assert lake.table().metadata_location == location
    assert sorted(path for path in root.rglob("*") if path.is_file()) == listing


def processor_seconds(process: subprocess.Popen) -> float:
    """What the process has used so far; also of one that has ended and was not waited for."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_until(process: subprocess.Popen, holds) -> None:
    deadline = time.monotonic() + 120
    while not holds():
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.001)


def test_an_interrupt_ends_the_loading_of_deletes(tmp_path):
    """Which takes many passes over the data in a small budget: far more work than is done after the signal."""
    lake, rows, count = SqliteLake(tmp_path), np.random.default_rng(5), 300_000
    for number in range(4):
        lake.append(make_campaign_rows(rows, number * count, count))
    ids = rows.permutation(4 * count)
    kept, deleted = np.split(ids, [4 * count // 100])
    commit_equality_deletes(lake.table(), *np.split(deleted, 60))
    location = lake.table().metadata_location
    listing = sorted(path for path in lake.root().rglob("*") if path.is_file())
    command = lake.command("optimize", "--memory", "64MiB", "--threads", "1")

    def start() -> subprocess.Popen:
        return subprocess.Popen(
            [str(PROGRAM), *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=lake.environment
        )

    def reads_deletes(process) -> bool:
        open_files = []
        for link in Path(f"/proc/{process.pid}/fd").iterdir():
            try:
                open_files.append(os.readlink(link))
            except OSError:  # closed meanwhile
                continue
        return any(name.endswith("-deletes.parquet") for name in open_files)

    process = start()
    wait_until(process, lambda: reads_deletes(process))
    process.send_signal(signal.SIGINT)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    stopped = processor_seconds(process)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "thalweg: interrupted; nothing was changed\n")
    assert lake.table().metadata_location == location
    assert sorted(path for path in lake.root().rglob("*") if path.is_file()) == listing

    process = start()  # the same, until its first data file is there: all deletes are loaded then
    before = data_files_on_disk(lake.root())
    wait_until(process, lambda: data_files_on_disk(lake.root()) != before)
    loaded = processor_seconds(process)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert stopped < loaded / 4, (stopped, loaded)
    assert ids_and_sum(lake.table())[0] == sorted(kept)
