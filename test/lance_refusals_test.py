"""Indexes that cannot follow the rows are refused by name before anything is read or written, with what to do next."""

import dataclasses

import pytest
from lance_index_test import INDEXES, Indexed
from lance_test_tools import LanceTable, lance, needs_lance
from thalweg_test_tools import Done

pytestmark = needs_lance

TARGET = ("--target-rows-per-fragment", 1000)


def created_index(table: LanceTable, name: str):
    """An index as the transaction that created it says."""
    for version in range(table.dataset.version, 0, -1):
        operation = table.dataset.read_transaction(version).operation
        if isinstance(operation, lance.LanceOperation.CreateIndex):
            found = [index for index in operation.new_indices if index.name == name]
            if found:
                return found[0]
    raise AssertionError(f"no version made an index {name}")


def change_index(table: LanceTable, name: str, **change) -> None:
    """Puts an index whose metadata says otherwise in its place, as a newer Lance may."""
    index = created_index(table, name)
    operation = lance.LanceOperation.CreateIndex(
        new_indices=[dataclasses.replace(index, **change)], removed_indices=[index]
    )
    lance.LanceDataset.commit(str(table.path), operation, read_version=table.dataset.version)


def field_id(table: LanceTable, name: str) -> int:
    return next(field.id() for field in table.dataset.lance_schema.fields() if field.name() == name)


def composite(table: LanceTable) -> None:
    change_index(table, "by_id", fields=[field_id(table, "id"), field_id(table, "amount")])


def covering(table: LanceTable) -> None:
    fields = [field_id(table, "id"), field_id(table, "amount")]
    change_index(table, "by_id", fields=fields, covering_fields=fields[1:])


def refuse_before_anything(table: LanceTable, expected: str, name: str) -> None:
    """Every way to sort is refused in one line by the index's name; nothing is written, no version made."""
    rows, version, files = table.rows(), table.dataset.version, table.files("")
    tasks = table.lake.folder / "tasks"
    for command in (
        ["plan"],
        ["plan", "--tasks-out", tasks],
        ["optimize", *TARGET],
        ["optimize", *TARGET, "--no-index-update"],
    ):
        refused: Done = table.run(*command)
        message = refused.error(1)
        assert name in message and expected in message and "drop it" in message, (command, message)
        assert not list(tasks.glob("*.json")) if tasks.exists() else True
        assert (table.dataset.version, table.files("")) == (version, files), command
    assert table.rows() == rows


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable-row-ids"])
@pytest.mark.parametrize(
    "forge, expected",
    [(composite, "several columns"), (covering, "values of other columns")],
    ids=["composite", "covering"],
)
def test_an_index_of_several_columns(lake, forge, expected, stable):
    table = Indexed(lake, ("by_id", "by_country"), enable_stable_row_ids=stable)
    forge(table)
    refuse_before_anything(table, expected, "by_id")
    # What the message says to do helps, and rows come in meanwhile.
    table.add()
    table.dataset.drop_index("by_id")
    assert table.optimize()["outcome"] == "committed"
    table.dataset.create_scalar_index("id", "BTREE", name="by_id")
    right = table.right_answers()
    assert [[row[0] for row in found] for found in table.answers()] == right


def damage(table: LanceTable, how: str) -> None:
    (folder,) = (table.path / "_indices").iterdir()
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    for path in files:
        content = path.read_bytes()
        if how == "gone":
            path.unlink()
        elif how == "cut":
            path.write_bytes(content[: len(content) // 2])
        elif how == "zeros":
            path.write_bytes(bytes(len(content)))
        else:
            path.write_bytes(bytes(byte ^ 0xFF if at % 5 == 0 else byte for at, byte in enumerate(content)))


@pytest.mark.parametrize("how", ["gone", "cut", "zeros", "noise"])
@pytest.mark.parametrize("name", INDEXES)
def test_an_index_whose_files_are_damaged(lake, name, how):
    table = Indexed(lake, (name,))
    damage(table, how)
    refuse_before_anything(table, "cannot be opened", name)
    table.dataset.drop_index(name)
    assert table.optimize()["outcome"] == "committed"


@pytest.mark.parametrize("appended", [False, True], ids=["whole", "appended"])
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable-row-ids"])
def test_an_index_whose_pages_are_gone(lake, stable, appended):
    """It opens, and fails where it is read: with its name, and all files of the run taken away again."""
    table = Indexed(lake, ("by_id",), enable_stable_row_ids=stable)
    (pages,) = (table.path / "_indices").rglob("page_data.lance")
    if appended:
        table.add()
    table.dataset.delete("id % 10 = 3")
    pages.unlink()
    rows, data, indexes = table.rows(), table.files("data"), table.files("_indices")
    message = table.run("optimize", *TARGET).error(1)
    assert "by_id" in message and "drop it" in message
    assert (table.files("data"), table.files("_indices"), table.files("_thalweg")) == (data, indexes, set())
    assert table.rows() == rows
    table.dataset.drop_index("by_id")
    assert table.optimize()["outcome"] == "committed"
    assert table.rows() == rows
