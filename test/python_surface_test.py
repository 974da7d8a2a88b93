"""How calls behave in a Python process: signals, the GIL, progress, logging, errors, typing."""

import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import lance
import pyiceberg.table
import pytest
import thalweg
import tqdm
from python_tools import KEYS, expected_rows, lance_events, leftovers, pyiceberg_events
from thalweg_test_tools import BIN, make_rows

MAKERS = {"pyiceberg": pyiceberg_events, "lance": lance_events}
# The same table in an object of its own: objects of these libraries are not for two threads.
TABLES = {
    pyiceberg.table.Table: lambda table: table.catalog.load_table(table.name()),
    lance.LanceDataset: lambda ds: lance.dataset(ds.uri),
}
PACKAGE = Path(thalweg.__file__).parent


@pytest.fixture(params=MAKERS)
def known(request, lake):
    known = MAKERS[request.param](lake)
    thalweg.set_clustering(known.table, KEYS)
    return known


def test_ctrl_c_ends_a_call_before_its_commit_and_leaves_nothing(known, lake):
    before = known.rows(), known.version()
    files = {path for path in lake.folder.rglob("*") if path.is_file()}
    stopped = []

    def interrupt(stage, done, total):
        if stage == "write" and not stopped:
            stopped.append(stage)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        thalweg.optimize(known.table, progress=interrupt)
    assert stopped
    assert (known.rows(), known.version()) == before
    assert not leftovers(lake.folder)
    assert {path for path in lake.folder.rglob("*") if path.is_file()} == files
    assert thalweg.optimize(known.table)["outcome"] == "committed"


def test_what_progress_raises_ends_the_call_and_is_raised(known):
    class Enough(Exception):
        pass

    def progress(stage, done, total):
        raise Enough(stage)

    version = known.version()
    with pytest.raises(Enough):
        thalweg.optimize(known.table, progress=progress)
    assert known.version() == version


def test_progress_is_told_in_the_callers_thread(known):
    told = []
    thalweg.optimize(known.table, progress=lambda *what: told.append((threading.get_ident(), *what)))
    assert {thread for thread, *_ in told} == {threading.get_ident()}
    assert {"fit", "write"} <= {stage for _, stage, *_ in told}
    assert all(total is None or 0 <= done <= total for _, _, done, total in told)


def test_bars_of_tqdm_and_rich(known, capsys):
    bars = []

    class Bar(tqdm.tqdm):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, file=open(os.devnull, "w"), **options)
            bars.append(self)

    thalweg.optimize(known.table, progress=Bar)
    assert bars and all(bar.disable or bar.n <= (bar.total or bar.n) for bar in bars)
    assert {"fit", "write"} <= {bar.desc for bar in bars}
    assert thalweg.optimize(known.table, full=True, progress=True)["outcome"] in ("committed", "nothing-to-do")


def test_calls_on_different_tables_run_side_by_side(lake):
    """Each call waits inside until all are inside: were the GIL held, none would get there."""
    tables = [lake.folder / f"t{number}" for number in range(3)]
    for number, table in enumerate(tables):
        thalweg.write_dataset(make_rows(500, number), table, cluster_by=KEYS)
        thalweg.write_dataset(make_rows(500, number + 10), table, mode="append")
    barrier = threading.Barrier(3, timeout=60)
    done = []

    def work(table):
        first = []

        def meet(stage, rows, total):
            if not first:
                first.append(stage)
                barrier.wait()

        done.append(thalweg.optimize(table, progress=meet)["outcome"])

    threads = [threading.Thread(target=work, args=(table,)) for table in tables]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert done == ["committed"] * 3


def test_python_runs_on_while_a_call_works(known):
    ticks = []
    running = threading.Event()
    running.set()

    def tick():
        while running.is_set():
            ticks.append(time.monotonic())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    begin = time.monotonic()
    thalweg.optimize(known.table)
    end = time.monotonic()
    running.clear()
    thread.join()
    assert sum(begin < at < end for at in ticks) > 5


def test_notes_are_logged(known, caplog):
    with caplog.at_level(logging.INFO, logger="thalweg"):
        thalweg.optimize(known.table)
        thalweg.optimize(known.table)
    assert any("nothing to do" in record.message for record in caplog.records)
    assert {record.name for record in caplog.records} == {"thalweg"}


def test_failures_are_of_a_small_hierarchy(known, tmp_path):
    table = known.table
    with pytest.raises(thalweg.UsageError, match='no column "nobody"'):
        thalweg.set_clustering(table, ["user_id", "nobody"])
    with pytest.raises(ValueError, match="is not a size"):
        thalweg.optimize(table, memory="plenty")
    with pytest.raises(thalweg.UsageError, match="verify"):
        thalweg.optimize(table, verify="blindly")
    with pytest.raises(thalweg.InvalidTable):
        thalweg.status(tmp_path / "nothing" / "here")
    with pytest.raises(thalweg.UsageError, match='catalog "nowhere" is not known'):
        thalweg.status("nowhere.db.events")
    with pytest.raises(thalweg.UsageError, match="builtins.int is no table"):
        thalweg.status(7)
    with pytest.raises(thalweg.ThalwegError, match="cannot"):
        thalweg.report(table, tmp_path / "no" / "folder" / "page.html")
    for kind in (thalweg.UsageError, thalweg.InvalidTable, thalweg.ConflictError, thalweg.UnknownOutcomeError):
        assert issubclass(kind, thalweg.ThalwegError)
    assert known.rows() == expected_rows()


def test_names_that_look_like_options_or_lists_are_names(tmp_path):
    import pyarrow as pa

    odd = ['a"b', "--full", "c d"]
    rows = pa.table({name: list(range(100)) for name in odd})
    folder = tmp_path / "--json"
    thalweg.write_dataset(rows, folder, cluster_by=odd)
    assert thalweg.clustering_spec(folder)["columns"] == odd
    # Where the property that holds them cannot tell, they are refused.
    for name in ["a,b", " c ", "c\t"]:
        thalweg.write_dataset(pa.table({name: [1], "d": [2]}), tmp_path / f"t{name!r}")
        with pytest.raises(thalweg.UsageError, match="cannot be declared"):
            thalweg.set_clustering(tmp_path / f"t{name!r}", [name, "d"])


def test_the_module_and_hashlib_share_one_openssl():
    """libparquet exports an OpenSSL of its own: whichever is loaded first, Python's must not call into it."""
    for order in ("import thalweg; import hashlib, ssl", "import pyarrow.parquet; import thalweg; import ssl, hashlib"):
        code = f"{order}; hashlib.sha3_256(b'x').digest(); ssl.create_default_context(); print('fine')"
        environment = os.environ | {"PYTHONPATH": str(PACKAGE.parent)}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "fine\n"), done.stderr


def test_the_program_binds_to_the_systems_openssl():
    environment = os.environ | {"LD_DEBUG": "bindings"}
    done = subprocess.run([BIN / "thalweg", "--version"], env=environment, capture_output=True, text=True)
    bound = re.findall(
        r"binding file \S*lib(?:ssl|crypto|curl)\S* \[0\] to (\S+) .*symbol `(?:EVP|CRYPTO)_", done.stderr
    )
    assert bound and not [library for library in bound if "parquet" in library]


def test_the_program_runs_from_the_package(known, lake):
    code = "import sys; from thalweg._program import main; sys.exit(main())"
    environment = lake.environment | {"PYTHONPATH": str(PACKAGE.parent)}

    def program(*words):
        command = [sys.executable, "-c", code, *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    shown = program("--version")
    assert (shown.returncode, shown.stdout) == (0, f"thalweg {thalweg.__version__}\n")
    assert program("frobnicate").returncode == 2
    assert "Liquid clustering" in program("--help").stdout


def test_everything_public_is_typed_and_documented():
    for name in thalweg.__all__:
        value = getattr(thalweg, name)
        if name in ("__version__", "Progress", "TableLike"):
            continue
        assert value.__doc__, name
        if not isinstance(value, type):
            annotations = value.__annotations__
            assert "return" in annotations, name
    assert (PACKAGE / "py.typed").exists() and (PACKAGE / "_core.pyi").exists()


def test_two_calls_on_one_table_at_once_lose_nothing(known, lake):
    """One process, two runs that have planned the same files: one commits, the other plans again."""
    barrier = threading.Barrier(2, timeout=60)
    done, failed = [], []

    def work():
        met = []

        def meet(stage, rows, total):
            if not met:
                met.append(stage)
                barrier.wait()

        try:
            done.append(thalweg.optimize(TABLES[type(known.table)](known.table), progress=meet))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert not failed, failed
    outcomes = sorted(result["outcome"] for result in done)
    assert outcomes == ["committed", "nothing-to-do"], outcomes
    thalweg.status(known.table)  # refreshes the object
    assert known.rows() == expected_rows()
    assert not leftovers(lake.folder)
