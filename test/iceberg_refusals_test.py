"""Iceberg tables that this program must not work on: refused in one clear line before any work, nothing written."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from campaign_tools import AppendDeletes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record
from thalweg_test_tools import Done, Lake, clean_environment, data_files, local_path, make_rows, rows_of, run


@pytest.fixture
def lake(tmp_path) -> Lake:
    lake = Lake(tmp_path / "lake")
    lake.make_events(files=3, rows=200)
    return lake


def metadata_file(lake: Lake) -> Path:
    """The newest, also of a table that PyIceberg does not load."""
    with closing(sqlite3.connect(lake.folder / "catalog.db")) as catalog:
        (location,) = catalog.execute("SELECT metadata_location FROM iceberg_tables").fetchone()
    return Path(local_path(location))


def edit(lake: Lake, **members) -> None:
    """Changes the newest metadata file where it lies: what no writer of ours makes."""
    path = metadata_file(lake)
    metadata = json.loads(path.read_text())
    metadata["properties"] |= members.pop("properties", {})
    path.write_text(json.dumps(metadata | members))


def refused(lake: Lake, *commands: tuple) -> str:
    """The message that all commands that write give alike; they leave nothing behind."""
    rows = lake.write_parquet("more.parquet", make_rows(10, 7))
    before = (lake.files(), metadata_file(lake))
    messages = {
        lake.run(command, lake.address(), *arguments).error()
        for command, *arguments in commands
        or (("optimize",), ("optimize", "--full"), ("write", rows), ("write", rows, "--mode", "overwrite"))
    }
    assert (lake.files(), metadata_file(lake)) == before
    (message,) = messages
    return message


def test_an_encrypted_table(lake):
    edit(lake, properties={"encryption.key-id": "warehouse-key"})
    assert "the table is encrypted (table property encryption.key-id)" in refused(lake)
    assert "the table is encrypted" in refused(lake, ("set", "--columns", "country,user_id"))
    assert lake.ok("status", lake.address())["rows"] == 600  # looking does no harm


def test_an_encrypted_manifest_list(lake):
    snapshots = json.loads(metadata_file(lake).read_text())["snapshots"]
    edit(lake, snapshots=[*snapshots[:-1], snapshots[-1] | {"key-id": "k1"}])
    message = refused(lake, ("optimize",), ("status",), ("plan",), ("cubes",))
    assert ".avro is encrypted; encrypted tables are not supported" in message


@pytest.mark.parametrize(
    ("members", "what"),
    [
        ({"location": "warehouse/db/events"}, "the table's location"),
        ({"properties": {"write.data.path": "data"}}, "table property write.data.path:"),
        ({"properties": {"write.metadata.path": "./metadata"}}, "table property write.metadata.path:"),
    ],
)
def test_relative_locations(lake, members, what):
    """They lead elsewhere for each program: what was written to them would be lost to the others."""
    edit(lake, **members)
    assert f'{what} "' in (message := refused(lake)) and "is a relative path" in message


def test_a_new_table_in_a_relative_warehouse(lake):
    rows = lake.write_parquet("rows.parquet", make_rows(10, 7))
    relative = lake.environment | {"PYICEBERG_CATALOG__LAKE__WAREHOUSE": "warehouse"}
    done = run("write", lake.address("new"), rows, "--mode", "create", environment=relative, cwd=lake.folder)
    assert 'the location of the new table "warehouse/db/new" is a relative path' in done.error()
    assert not lake.catalog.table_exists((lake.namespace, "new"))
    assert not list((lake.folder / "warehouse").rglob("new*"))


def test_a_file_that_is_in_the_table_twice(lake):
    table = lake.table()
    path = min(data_files(table))
    table.add_files([path], check_duplicate_files=False)
    assert rows_of(lake.table()).total() == 800  # as other readers see it, the rows are doubled
    assert f"data file {path} is in the table twice" in refused(lake)


def add(lake: Lake, producer: type, **entry) -> None:
    """Commits a manifest entry as it is."""
    with lake.table().transaction() as transaction:
        with producer(operation=Operation.OVERWRITE, transaction=transaction, io=transaction._table.io) as producing:
            producing.append_data_file(DataFile.from_args(**{"partition": Record()} | entry))


def test_key_metadata_of_files(lake):
    """Files that Parquet itself encrypted, in a table that is not."""
    path = lake.write_parquet("secret.parquet", make_rows(10, 3))
    add(
        lake,
        _FastAppendFiles,
        content=DataFileContent.DATA,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        record_count=10,
        file_size_in_bytes=path.stat().st_size,
        key_metadata=b"wrapped key",
    )
    assert "secret.parquet is encrypted (its manifest entry has key metadata)" in refused(lake)


@pytest.mark.parametrize(
    ("content", "kind", "producer", "message"),
    [
        (DataFileContent.DATA, FileFormat.ORC, _FastAppendFiles, "data file file:///elsewhere is ORC; only Parquet"),
        (DataFileContent.DATA, FileFormat.AVRO, _FastAppendFiles, "data file file:///elsewhere is AVRO; only Parquet"),
        (DataFileContent.POSITION_DELETES, FileFormat.AVRO, AppendDeletes, "delete file file:///elsewhere is AVRO"),
        (DataFileContent.EQUALITY_DELETES, FileFormat.ORC, AppendDeletes, "delete file file:///elsewhere is ORC"),
        # A deletion vector, which format version 2 does not have.
        (DataFileContent.POSITION_DELETES, FileFormat.PUFFIN, AppendDeletes, "delete file file:///elsewhere is PUFFIN"),
    ],
)
def test_other_formats_of_files(lake, content, kind, producer, message):
    add(
        lake,
        producer,
        content=content,
        file_path="file:///elsewhere",
        file_format=kind,
        record_count=10,
        file_size_in_bytes=100,
    )
    assert message in refused(lake)


@pytest.mark.parametrize("version", [1, 4])
def test_other_format_versions(lake, version):
    edit(lake, **{"format-version": version})
    assert f"format version {version} is not supported" in refused(lake)
    assert lake.ok("status", lake.address())["rows"] == 600


def test_partitions(lake):
    """Of the default spec, then of files that are left of an old one: data files, then delete files alone."""
    with lake.table().update_spec() as update:
        update.add_identity("country")
    assert "the table is partitioned (default spec 1)" in refused(lake)
    lake.table().append(make_rows(40, 8))
    with lake.table().update_spec() as update:
        update.remove_field("country")
    table = lake.table()
    rows = table.scan().to_arrow()
    assert "live files belong to the old partition spec 1; rewrite them without partitions" in refused(lake)
    table.overwrite(rows)

    class AppendOldDeletes(AppendDeletes):
        def new_manifest_writer(self, spec):
            return super().new_manifest_writer(self._transaction.table_metadata.specs()[1])

    add(
        lake,
        AppendOldDeletes,
        content=DataFileContent.EQUALITY_DELETES,
        file_path="file:///elsewhere",
        file_format=FileFormat.PARQUET,
        partition=Record("ch"),
        record_count=1,
        file_size_in_bytes=100,
        equality_ids=[1],
    )
    assert "live delete files belong to the old partition spec 1" in refused(lake)


MALFORMED = {
    "write.metadata.compression-codec": "zstd",
    "write.metadata.previous-versions-max": "many",
    "write.metadata.delete-after-commit.enabled": "maybe",
    "write.avro.compression-codec": "lzo",
    "write.parquet.compression-codec": "lzo",
    "write.parquet.page-size-bytes": "1MB",
    "write.metadata.metrics.default": "some",
    "write.object-storage.enabled": "perhaps",
    "commit.retry.num-retries": "x",
    "commit.status-check.num-retries": "x",
    "commit.manifest-merge.enabled": "x",
    "commit.manifest.min-count-to-merge": "x",
    "commit.manifest.target-size-bytes": "x",
    "schema.name-mapping.default": "{",
}


@pytest.mark.parametrize("key", MALFORMED)
def test_malformed_properties_are_found_before_any_work(lake, key):
    """Not after the rows were read, sorted and written: the first command of a job says it."""
    for path in data_files(lake.table()):
        Path(local_path(path)).rename(local_path(path) + ".away")
    edit(lake, properties={key: MALFORMED[key]})
    assert f"table property {key}: " in refused(lake)


def test_words_for_true_have_no_case(lake):
    edit(lake, properties={"write.object-storage.enabled": "TRUE"})
    before = rows_of(lake.table())
    lake.ok("optimize", lake.address())
    assert rows_of(lake.table()) == before
    folder = lake.table().location() + "/data/"
    assert all(path.removeprefix(folder).count("/") == 4 for path in data_files(lake.table()))


def test_a_relative_location_is_that_of_the_folder(tmp_path):
    """Hadoop tables of a relative warehouse are named by their folder, from where the location leads to it."""
    pq.write_table(make_rows(400, 1), tmp_path / "rows.parquet")

    def here(*arguments, cwd=tmp_path) -> Done:
        return run(*arguments, environment=clean_environment(tmp_path), cwd=cwd)

    assert here("write", "warehouse/events", "rows.parquet", "--mode", "create").code == 0
    folder = tmp_path / "warehouse" / "events" / "metadata"
    newest = folder / (folder / "version-hint.text").read_text().join(["v", ".metadata.json"])
    metadata = json.loads(newest.read_text())
    assert metadata["location"] == str(folder.parent)  # ours are absolute
    newest.write_text(json.dumps(metadata | {"location": "warehouse/events"}))
    assert here("set", "warehouse/events", "--columns", "user_id,event_time").code == 0
    assert here("optimize", "warehouse/events").code == 0
    assert json.loads(here("status", "warehouse/events", "--json").out)["health"]["cubes"] == 1
    written = [path for path in (tmp_path / "warehouse").rglob("*.parquet")]
    assert written and all(path.is_relative_to(folder.parent) for path in written)
    message = here("optimize", "events", "--full", cwd=tmp_path / "warehouse").error()
    assert "was moved or copied: its metadata says that it is at warehouse/events" in message
