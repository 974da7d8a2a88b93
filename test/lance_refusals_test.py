"""What cannot follow the rows is refused by name before anything is written, with what to do next."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from lance_index_test import INDEXES, Indexed, indexed_rows
from lance_test_tools import LanceTable, lance, needs_lance
from thalweg_test_tools import Done, run

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
    source = table.lake.write_parquet("rows.parquet", indexed_rows(300, 2000))
    assert table.ok("write", source)["outcome"] == "committed"
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


# --- blobs


def rows_with(field: pa.Field, values: pa.Array, **metadata) -> pa.Table:
    count = len(values)
    keys = [pa.array(range(count), pa.int64()), pa.array(np.random.default_rng(3).random(count))]
    schema = pa.schema([("id", pa.int64()), ("k", pa.float64()), field], metadata=metadata or None)
    return pa.table([*keys, values], schema=schema)


def external(folder) -> tuple[pa.Table, dict]:
    path = folder / "outside.bin"
    path.write_bytes(b"x" * 100_000)
    values = [lance.Blob.from_uri(path.as_uri()) if at == 33 else b"within" for at in range(40)]
    return rows_with(lance.blob_field("blob"), lance.blob_array(values)), {"allow_external_blob_outside_bases": True}


def nested(folder) -> tuple[pa.Table, dict]:
    fields = [pa.field("name", pa.string()), lance.blob_field("data")]
    parts = [pa.array(["n"] * 40), lance.blob_array([b"within"] * 40)]
    values = pa.StructArray.from_arrays(parts, fields=fields)
    return rows_with(pa.field("info", values.type), values), {}


def managed(folder) -> tuple[pa.Table, dict]:
    values = lance.blob_array([b"within"] * 40)
    return rows_with(lance.blob_field("blob"), values, **{"lance.blob.managed": "true"}), {}


@pytest.mark.parametrize(
    "make, expected",
    [
        (external, ["column blob", "objects outside", 'external_blob_mode="ingest"']),
        (nested, ["column info", "blobs inside", "column of their own"]),
        (managed, ["managed blobs", "copy"]),
    ],
    ids=["external", "nested", "managed"],
)
def test_blobs_that_cannot_be_moved(lake, make, expected):
    table = LanceTable(lake, data_storage_version="2.2")
    rows, options = make(lake.folder)
    for _ in range(2):
        table.append(rows, **options)
    table.dataset.update_config(
        {
            "lance.clustering.columns": '["id","k"]',
            "lance.clustering.curve": "hilbert",
            "lance.clustering.version": "1",
            "lance.clustering.bits_per_dim": "16",
            "lance.clustering.algorithm": "typed-quantile-rank-v1",
        }
    )
    version, files = table.dataset.version, table.files("")
    message = table.run("optimize").error(1)
    assert all(part in message for part in [*expected, "events.lance"]), message
    assert (table.dataset.version, table.files("")) == (version, files)
    tasks = lake.folder / "tasks"
    planned = table.run("plan", "--tasks-out", tasks)
    if planned.code == 0:  # it reads the keys alone
        planned = lake.run("execute", tasks / "task-00000.json", "--out", tasks / "result.json")
    assert all(part in planned.error(1) for part in expected)
    assert (table.dataset.version, table.files("")) == (version, files)
    assert table.run("status").code == 0
    table.dataset.validate()


# --- object stores that were left out when the bridge was built


@pytest.mark.parametrize(
    "address, feature",
    [
        ("gs://bucket/events.lance", "gcp"),
        ("az://container/events.lance", "azure"),
        ("abfss://container@account.dfs.core.windows.net/events.lance", "azure"),
    ],
)
def test_an_object_store_that_was_not_built_in(lake, address, feature):
    """One line that says how to get it; a bridge that has it looks for credentials or the server."""
    source = lake.write_parquet("rows.parquet", rows_with(pa.field("v", pa.int64()), pa.array(range(40))))
    options = ["--catalog-property", "client_max_retries=0", "--catalog-property", "timeout=2s"]
    for command in (["status"], ["optimize"], ["write", source, "--mode", "create"]):
        done = run(command[0], address, *command[1:], *options, environment=lake.environment, timeout=120)
        message = done.error(1)
        if "built without" in message:
            scheme = address.split("://")[0]
            assert f"object store of {scheme}://" in message
            assert f"THALWEG_LANCE_FEATURES=aws,{feature} bridge" in message
        else:
            assert address in message and "scheme" not in message, message
