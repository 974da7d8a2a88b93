"""A disk that is full, and a run that is interrupted: one line, nothing lost, nothing left behind."""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from lance_index_test import Indexed, indexed_rows
from lance_test_tools import LanceTable, make_events, multiset, needs_lance
from thalweg_test_tools import PROGRAM

pytestmark = needs_lance

TARGET = ("--target-rows-per-fragment", "1000")


@pytest.fixture
def disk(tmp_path):
    """A file system of 8 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("cannot mount a small file system")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path, room: int) -> Path:
    """Leaves so many bytes."""
    state = os.statvfs(folder)
    filler = folder / "filler"
    filler.write_bytes(bytes(max(0, state.f_bavail * state.f_frsize - room)))
    return filler


def unreferenced_indexes(table: LanceTable) -> set[str]:
    return {path.split("/")[1] for path in table.files("_indices") - table.referenced()}


def check_no_files_of_runs(table: LanceTable, indexes: set[str]) -> None:
    table.check_no_leftovers()
    assert not [path for path in table.files("") if ".tmp" in path]
    # Of the indexes that this run had remapped, or was building, the files stay until Lance's cleanup.
    assert len(unreferenced_indexes(table) - indexes) <= len(table.names)


def moved_to(disk: Path, table: Indexed) -> Indexed:
    shutil.copytree(table.path, disk / "events.lance")
    table.path = disk / "events.lance"
    return table


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable-row-ids"])
def test_optimize_on_a_full_disk(lake, disk, stable):
    table = Indexed(lake, ("by_id", "by_text"), enable_stable_row_ids=stable)
    table.dataset.delete("id % 10 = 3")
    table.add()
    moved_to(disk, table)
    rows, right = table.rows(), table.right_answers()
    failed = 0
    for room in (0, 20_000, 60_000, 110_000, 160_000, 220_000, 300_000, 400_000):
        version, indexes = table.dataset.version, unreferenced_indexes(table)
        filler = fill(disk, room)
        done = table.run("optimize", *TARGET)
        filler.unlink()
        assert table.rows() == rows
        if done.code != 0:
            failed += 1
            assert "No space left" in done.error(1)
            check_no_files_of_runs(table, indexes)
            assert table.unclustered() > 0
        elif table.dataset.version > version:
            break
    assert failed >= 4
    assert table.ok("optimize", *TARGET)["outcome"] in ("committed", "nothing-to-do")
    assert table.unclustered() == 0
    assert table.rows() == rows
    assert [[row[0] for row in found] for found in table.answers()] == right
    table.dataset.validate()


def test_write_on_a_full_disk(lake, disk):
    table = moved_to(disk, Indexed(lake, ("by_id",)))
    new = indexed_rows(3000, 90_000)
    source = lake.write_parquet("rows.parquet", new)
    rows, failed = table.rows(), 0
    for room in (0, 4096, 40_000, 100_000, 200_000, 2_000_000):
        filler = fill(disk, room)
        done = table.run("write", source, "--run-id", "load")
        filler.unlink()
        if done.code == 0:
            break
        failed += 1
        assert "No space left" in done.error(1)
        assert table.rows() == rows
        check_no_files_of_runs(table, set())
    assert failed >= 3 and done.code == 0
    assert table.rows() == rows + multiset(new)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupt_changes_nothing(lake, number):
    table = make_events(lake, 4, 60_000)
    version, files = table.dataset.version, table.files("")
    process = subprocess.Popen(
        [str(PROGRAM), "optimize", str(table.path)],
        env=lake.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not table.files("_thalweg") and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.001)
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (130, "", "thalweg: interrupted; nothing was changed\n")
    assert (table.dataset.version, table.files("")) == (version, files)
    assert table.ok("optimize")["outcome"] == "committed"
