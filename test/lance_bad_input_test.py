"""Damaged, read-only and missing Lance datasets, and a program without its bridge: one clear line each."""

import os
import random
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import thalweg_test_tools
from lance_test_tools import LanceTable, make_events, needs_lance, numbered_rows
from thalweg_test_tools import PROGRAM, clean_environment, run

pytestmark = needs_lance

needs_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
COMMANDS = ["spec", "status", "plan", "optimize", "cubes", "history", "clear", "clean"]


@pytest.fixture
def alone(lake, monkeypatch):
    """A program without its library beside it: only then THALWEG_LANCE_BRIDGE is looked at."""
    program = lake.folder / "alone" / "bin" / "thalweg"
    program.parent.mkdir(parents=True)
    shutil.copy(PROGRAM, program)
    monkeypatch.setattr(thalweg_test_tools, "PROGRAM", program)


def test_no_bridge(lake, events, alone):
    """Without the bridge Lance says what is missing, and Iceberg works."""
    table = LanceTable(lake).grow(1)
    environment = lake.environment | {"THALWEG_LANCE_BRIDGE": "/nonexistent/libthalweg_lance.so"}
    version = table.dataset.version
    source = lake.write_parquet("rows.parquet", numbered_rows(10))
    commands = [[name, table.path] for name in COMMANDS]
    commands += [["set", table.path, "--columns", "user_id,event_time"], ["write", table.path, source]]
    commands += [["write", lake.folder / "new.lance", source, "--mode", "create"]]
    for command in commands:
        done = run(*command, environment=environment)
        assert "/nonexistent/libthalweg_lance.so" in done.error(1), command
        assert run(*command, "--json", environment=environment).json["format"] == "thalweg.error/1"
    assert table.dataset.version == version and not (lake.folder / "new.lance").exists()
    for command in ["spec", "status", "plan", "optimize", "cubes", "history"]:
        done = run(command, events, environment=environment)
        assert done.code == 0, done


@pytest.mark.parametrize("content", [b"", b"\x7fELF nonsense", b"text"])
def test_a_bridge_that_is_none(lake, content, alone):
    table = LanceTable(lake).grow(1)
    bridge = lake.folder / "libthalweg_lance.so"
    bridge.write_bytes(content)
    done = run("status", table.path, environment=lake.environment | {"THALWEG_LANCE_BRIDGE": str(bridge)})
    assert str(bridge) in done.error(1)


@pytest.mark.parametrize("kind", ["nothing", "file", "empty folder", "other folder"])
def test_what_is_no_dataset(lake, kind):
    path = lake.folder / "events.lance"
    if kind == "file":
        path.write_bytes(b"not a folder")
    elif "folder" in kind:
        path.mkdir()
        if kind == "other folder":
            (path / "notes.txt").write_text("hello")
    # (Lance tries for two seconds to look into a file.)
    more = [] if kind == "file" else [["optimize"], ["clean"]]
    for command in [["status"], ["set", "--columns", "a,b"], *more]:
        done = run(command[0], path, *command[1:], environment=lake.environment)
        assert "events.lance" in done.error(1), command
    assert kind == "nothing" or list(path.parent.glob("events.lance"))
    assert kind != "nothing" or not path.exists()


def damaged(content: bytes, rng: random.Random) -> list[bytes]:
    flipped = bytearray(content)
    for _ in range(20):
        flipped[rng.randrange(len(flipped))] ^= 1 << rng.randrange(8)
    return [b"", content[:1], content[: len(content) // 2], content[:-1], b"\0" * len(content), bytes(flipped)]


@pytest.mark.parametrize("kind", ["manifest", "data", "deletions"])
def test_damaged_files(lake, kind):
    table = make_events(lake, 2, 200)
    table.dataset.delete("id % 9 = 4")
    before, version = table.rows(), table.dataset.version
    folder = {"manifest": "_versions", "data": "data", "deletions": "_deletions"}[kind]
    # (Names of manifests count downwards.)
    path = min((table.path / folder).glob("[0-9]*"))
    content = path.read_bytes()
    for number, bad in enumerate([*damaged(content, random.Random(7)), None]):
        path.unlink()
        if bad is not None:
            path.write_bytes(bad)
        for command in ["status", "plan", "optimize"]:
            data = table.files("data")
            done = run(command, table.path, environment=lake.environment, timeout=60)
            if done.code != 0:
                assert "events" in done.error(done.code) and done.code in (1, 2), (kind, number, command)
                assert table.files("data") == data, "a failed run left files"
            elif command == "optimize":
                # A flipped bit may land where nothing is lost; an older version may be the newest that is left.
                assert number >= 5 or kind == "manifest", (kind, number, done)
        if number >= 5:
            break
        path.write_bytes(content)
        assert table.dataset.version == version and table.rows() == before


def add_feature_flag(table: LanceTable, field: int, flag: int) -> None:
    """In the newest manifest: a length of 4 bytes, a protobuf message, and a footer of 16 bytes that says where."""
    path = min((table.path / "_versions").glob("[0-9]*"))
    content = path.read_bytes()
    position = int.from_bytes(content[-16:-8], "little")
    size = int.from_bytes(content[position : position + 4], "little")
    message, rest = content[position + 4 : position + 4 + size], content[position + 4 + size :]
    varint = bytes([flag >> shift & 0x7F | 0x80 for shift in (0, 7)] + [flag >> 14])
    message += bytes([field << 3]) + varint  # of several values of a field the last one counts
    path.write_bytes(content[:position] + len(message).to_bytes(4, "little") + message + rest)


READER_FLAGS, WRITER_FLAGS = 9, 10  # fields of Lance's Manifest message


def test_flags_that_this_lance_cannot_write(lake):
    table = make_events(lake, 2, 200)
    source = lake.write_parquet("rows.parquet", numbered_rows(10))
    add_feature_flag(table, WRITER_FLAGS, 1 << 17)
    with pytest.raises(OSError):
        table.append(numbered_rows(10))
    before, version, data = table.rows(), table.dataset.version, table.files("data")
    for command in [["optimize"], ["write", source], ["set", "--columns", "id,amount"], ["clear"]]:
        done = table.run(*command)
        assert "events.lance" in done.error(1) and "cannot be written" in done.error(1), command
    assert table.ok("status")["rows"] == 400
    assert table.ok("spec")["spec"] is not None
    assert (table.rows(), table.dataset.version, table.files("data")) == (before, version, data)


def test_flags_that_this_lance_cannot_read(lake):
    table = make_events(lake, 2, 200)
    add_feature_flag(table, READER_FLAGS, 1 << 20)
    with pytest.raises((OSError, ValueError)):
        _ = table.dataset
    for command in COMMANDS:
        done = table.run(command)
        assert "events.lance" in done.error(1) and "cannot be read" in done.error(1), command


def test_a_record_that_hides_among_metadata(lake):
    table = make_events(lake, 2, 200)
    table.dataset.update_metadata({"thalweg.run.": "{}", "thalweg.run.a/../b": "{}", "thalweg.other": "x"})
    assert table.ok("status")["notes"]
    assert table.optimize()["outcome"] == "committed"
    assert table.dataset.metadata["thalweg.other"] == "x"


@pytest.mark.parametrize("name", ["target_rows_per_fragment", "max_source_bytes", "max_bytes_per_file"])
@pytest.mark.parametrize("value", ["-1", "many", "99999999999999999999", "1.5", ""])
def test_settings_that_are_no_numbers(lake, name, value):
    table = make_events(lake, 2, 200)
    table.dataset.update_config({f"lance.compaction.{name}": value})
    version = table.dataset.version
    message = table.run("optimize").error(table.run("optimize").code)
    assert f"lance.compaction.{name}" in message
    assert table.dataset.version == version


@pytest.mark.skipif(os.geteuid() == 0 and shutil.which("setpriv") is None, reason="needs an unprivileged user")
def test_read_only_folder():
    folder = Path(tempfile.mkdtemp(prefix="thalweg-read-only-"))
    try:
        source, table = folder / "rows.parquet", folder / "events.lance"
        pq.write_table(numbered_rows(1000), source)
        environment = clean_environment(folder)
        assert run("write", table, source, "--mode", "create", environment=environment).code == 0
        assert run("set", table, "--columns", "user_id,event_time", environment=environment).code == 0
        listing = sorted(path for path in folder.rglob("*"))
        for path in [folder, *folder.rglob("*")]:
            path.chmod(0o555 if path.is_dir() else 0o444)
        prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        for arguments in [["optimize"], ["set", "--columns", "country,user_id"], ["write", source], ["clear"]]:
            command = [*prefix, str(PROGRAM), arguments[0], str(table), *map(str, arguments[1:])]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
            assert done.returncode == 1, (arguments, done)
            assert done.stderr.count("\n") == 1 and "ermission denied" in done.stderr, done.stderr
        looked = subprocess.run(
            [*prefix, str(PROGRAM), "status", str(table)], env=environment, capture_output=True, text=True, timeout=120
        )
        assert looked.returncode == 0, looked
        assert sorted(path for path in folder.rglob("*")) == listing
    finally:
        for path in [folder, *folder.rglob("*")]:
            if path.is_dir():
                path.chmod(stat.S_IRWXU)
        shutil.rmtree(folder)


def test_a_vanished_spill_folder_is_named(lake):
    table = make_events(lake, 2)
    done = table.run("optimize", "--spill-dir", lake.folder / "nowhere")
    assert "nowhere" in done.error(2)
    assert table.ok("optimize")["outcome"] == "committed"


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["optimize", "--policy", "guess"], "guess"),
        (["optimize", "--target-rows-per-fragment", "0"], "--target-rows-per-fragment"),
        (["optimize", "--target-rows-per-fragment", "x"], "--target-rows-per-fragment"),
        (["optimize", "--sort-scope", "world"], "world"),
        (["optimize", "--max-source-fragments", "-1"], "--max-source-fragments"),
        (["optimize", "--run-id", "a/b"], "run id"),
        (["set", "--version", "1"], "--columns"),
    ],
)
def test_usage(lake, arguments, expected):
    table = LanceTable(lake).grow(1, 50)
    version = table.dataset.version
    assert expected in table.run(*arguments).error(2)
    assert table.dataset.version == version


def test_undeclared(lake):
    table = LanceTable(lake).grow(2, 100)
    for command in ["plan", "optimize"]:
        done = table.run(command)
        assert "thalweg set" in done.error(done.code)
    assert table.ok("status", "--columns", "user_id,event_time")["units"] == 2


@needs_compiler
def test_a_bridge_of_another_version_is_refused(lake, alone, monkeypatch):
    source, library = lake.folder / "other.c", lake.folder / "other.so"
    source.write_text("int thalweg_lance_abi_version(void) { return 999; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    table = LanceTable(lake).grow(1, 50)
    monkeypatch.setitem(lake.environment, "THALWEG_LANCE_BRIDGE", str(library))
    message = table.run("status").error(1)
    assert str(library) in message and "999" in message and "`make`" in message
