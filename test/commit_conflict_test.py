"""What others commit between a plan and its commit: a run plans again or gives up, and never brings a row back."""

import signal

import numpy as np
import pytest
from campaign_tools import (
    SqliteLake,
    commit_position_delete,
    data_files_on_disk,
    expected,
    ids_and_sum,
    intents,
    make_rows,
    referenced_files,
    start_paused,
)
from pyiceberg.expressions import LessThan
from pyiceberg.types import StringType
from thalweg_test_tools import run


class Paused:
    """A table of four appends, and a run on it that has written its files and not committed them."""

    def __init__(self, folder):
        self.lake = SqliteLake(folder)
        self.batches = [make_rows(np.random.default_rng(first), first, 1000) for first in range(0, 4000, 1000)]
        for batch in self.batches:
            self.lake.append(batch)
        self.process = start_paused(self.lake.command("optimize"), "after-data-files")

    def finish(self) -> tuple[int, str, str]:
        self.process.send_signal(signal.SIGCONT)
        out, err = self.process.communicate(timeout=120)
        table = self.lake.table()
        assert data_files_on_disk(self.lake.root()) - referenced_files(table) <= self.delete_files()
        assert intents(self.lake.root()) == []
        return self.process.returncode, out, err

    def delete_files(self) -> set[str]:
        return {path for path in data_files_on_disk(self.lake.root()) if path.endswith("-deletes.parquet")}

    def operations(self) -> list[str]:
        return [snapshot.summary.operation.value for snapshot in self.lake.table().snapshots()]


@pytest.fixture
def paused(tmp_path):
    run = Paused(tmp_path)
    yield run
    if run.process.poll() is None:
        run.process.kill()


def test_a_position_delete_is_never_undone(paused):
    victim = commit_position_delete(paused.lake.table())
    code, _, error = paused.finish()
    assert code == 0, error
    ids, _ = ids_and_sum(paused.lake.table())
    assert victim not in ids and len(ids) == 3999
    # Planned again, its file was rewritten without the row: the delete file applied to nothing then.
    summary = paused.lake.table().current_snapshot().summary
    assert (summary["total-delete-files"], summary["removed-position-delete-files"]) == ("0", "1")


def test_a_copy_on_write_delete_makes_it_plan_again(paused):
    paused.lake.table().delete(LessThan("id", 10))
    code, _, error = paused.finish()
    assert code == 0, error
    ids, _ = ids_and_sum(paused.lake.table())
    assert ids == list(range(10, 4000))


def test_an_append_is_no_conflict(paused):
    more = make_rows(np.random.default_rng(9), 4000, 500)
    paused.lake.append(more)
    code, _, error = paused.finish()
    assert code == 0, error
    assert ids_and_sum(paused.lake.table()) == expected([*paused.batches, more])


def test_an_upgrade_to_version_3_is_taken_along(paused):
    paused.lake.upgrade_to_version_3()
    code, _, error = paused.finish()
    assert code == 0, error
    table = paused.lake.table()
    assert ids_and_sum(table) == expected(paused.batches)
    # No row had an id before: all have one now.
    snapshot = table.current_snapshot()
    assert (table.metadata.format_version, snapshot.first_row_id, table.metadata.next_row_id) == (3, 0, 4000)


def test_a_partition_spec_ends_it(paused):
    with paused.lake.table().update_spec() as update:
        update.add_identity("user_id")
    code, _, error = paused.finish()
    assert code in (1, 3) and "partition" in error
    assert "replace" not in [snapshot.summary.operation.value for snapshot in paused.lake.table().snapshots()]


def test_other_columns_declared_meanwhile_make_it_plan_again(paused):
    done = run(*paused.lake.command("set", "--columns", "event_time,user_id"))
    assert done.code == 0, done.err
    code, _, error = paused.finish()
    assert code == 0, error
    assert ids_and_sum(paused.lake.table()) == expected(paused.batches)
    spec = run(*paused.lake.command("cubes"))
    assert "event_time" in spec.out


def test_a_declaration_cleared_meanwhile_ends_it(paused):
    assert run(*paused.lake.command("clear")).code == 0
    code, _, error = paused.finish()
    assert code in (1, 2, 3) and "declar" in error
    assert ids_and_sum(paused.lake.table()) == expected(paused.batches)


def test_a_column_added_meanwhile_makes_it_plan_again(paused):
    with paused.lake.table().update_schema() as update:
        update.add_column("note", StringType())
    code, _, error = paused.finish()
    assert code == 0, error
    table = paused.lake.table()
    assert ids_and_sum(table) == expected(paused.batches)
    assert table.scan().to_arrow()["note"].null_count == 4000
