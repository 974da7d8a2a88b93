"""Commits of the native Iceberg code against independent readers and writers.

Tables made by PyIceberg get our appends, overwrites and replaces; PyIceberg and DuckDB must
read the same rows, and fastavro the entries that the format asks for. The program is
`thalweg_iceberg_test` in $THALWEG_BIN (default build/bin), driven by a request file.
"""

import itertools
import json
import os

import duckdb_engine
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable
from thalweg_test_tools import local_path, needs_interop, run_interop

pytestmark = needs_interop

EXISTING, ADDED, DELETED = 0, 1, 2


def run(folder, request):
    folder.mkdir(exist_ok=True)
    (folder / "request.json").write_text(json.dumps(request))
    run_interop("CommitInterop.Request", folder)


def data_file(folder, name, values, first_id=1):
    """A Parquet file with the columns k (long) and s (string), written by pyarrow with Iceberg's field ids."""
    fields = [("k", pa.int64()), ("s", pa.string())]
    schema = pa.schema(
        [
            pa.field(name, kind, metadata={"PARQUET:field_id": str(first_id + i)})
            for i, (name, kind) in enumerate(fields)
        ]
    )
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"k": values, "s": [f"s{v}" for v in values]}, schema=schema), path)
    return {"path": str(path), "records": len(values), "bytes": path.stat().st_size}


def keys(table):
    return sorted(table.scan().to_arrow()["k"].to_pylist())


def live_numbers(table):
    """Data and file sequence number of each live file, as PyIceberg inherits them."""
    return {
        e.data_file.file_path: (e.sequence_number, e.file_sequence_number)
        for manifest in table.current_snapshot().manifests(table.io)
        for e in manifest.fetch_manifest_entry(table.io, discard_deleted=True)
    }


def manifest_list(snapshot):
    with open(local_path(snapshot.manifest_list), "rb") as file:
        reader = fastavro.reader(file)
        return reader.metadata, list(reader)


def entries(manifest):
    with open(local_path(manifest["manifest_path"]), "rb") as file:
        return list(fastavro.reader(file))


@pytest.fixture
def catalog(tmp_path):
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("db")
    yield catalog
    catalog.close()


@pytest.fixture
def table(catalog):
    schema = pa.schema([("k", pa.int64()), ("s", pa.string())])
    table = catalog.create_table("db.t", schema=schema, properties={"format-version": "2"})
    for values in ([1, 2, 3], [4, 5], [6]):
        table.append(pa.table({"k": values, "s": [f"s{v}" for v in values]}, schema=schema))
    return table


def request(catalog, *commits, **more):
    return {
        "catalog": {"name": catalog.name, **catalog.properties},
        "namespace": ["db"],
        "table": "t",
        "commits": list(commits),
        **more,
    }


def test_append_to_a_pyiceberg_table(tmp_path, catalog, table):
    run(
        tmp_path / "r",
        request(
            catalog,
            {"operation": "append", "added": [[data_file(tmp_path, "a.parquet", [7, 8])]]},
            {"operation": "append", "added": [[data_file(tmp_path, "b.parquet", [9])]], "summary": {"run": "x"}},
        ),
    )
    table.refresh()
    assert keys(table) == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    snapshots = table.snapshots()
    assert [s.sequence_number for s in snapshots] == [1, 2, 3, 4, 5]
    assert table.metadata.last_sequence_number == 5
    for parent, child in itertools.pairwise(snapshots):
        assert child.parent_snapshot_id == parent.snapshot_id
    assert [h.snapshot_id for h in table.history()] == [s.snapshot_id for s in snapshots]
    summary = snapshots[-1].summary
    assert summary.operation.value == "append"
    assert summary["run"] == "x"
    assert (summary["total-data-files"], summary["total-records"]) == ("5", "9")
    files = table.inspect.files()
    assert summary["total-files-size"] == str(sum(files["file_size_in_bytes"].to_pylist()))
    # Time travel to what others wrote still works, and PyIceberg can write on.
    assert keys_at(table, snapshots[1]) == [1, 2, 3, 4, 5]
    table.append(pa.table({"k": [10], "s": ["s10"]}))
    assert keys(table) == list(range(1, 11))
    table.delete("k = 7")
    assert 7 not in keys(table)


def keys_at(table, snapshot):
    return sorted(table.scan(snapshot_id=snapshot.snapshot_id).to_arrow()["k"].to_pylist())


def test_replace_in_a_pyiceberg_table(tmp_path, catalog, table):
    before = {f.file.file_path: f.file for f in table.scan().plan_files()}
    snapshots = table.snapshots()
    by_rows = {f.record_count: path for path, f in before.items()}
    removed = [by_rows[3], by_rows[1]]
    added = data_file(tmp_path, "x.parquet", [6, 1, 2, 3]) | {"sequence-number": 3}
    run(tmp_path / "r", request(catalog, {"operation": "replace", "removed": removed, "added": [[added]]}))
    table = catalog.load_table("db.t")
    assert keys(table) == [1, 2, 3, 4, 5, 6]
    snapshot = table.current_snapshot()
    assert snapshot.summary.operation.value == "replace"
    assert snapshot.sequence_number == 4
    assert keys_at(table, snapshots[-1]) == [1, 2, 3, 4, 5, 6]

    header, manifests = manifest_list(snapshot)
    assert header["snapshot-id"] == str(snapshot.snapshot_id)
    assert header["parent-snapshot-id"] == str(snapshots[-1].snapshot_id)
    assert header["sequence-number"] == "4"
    assert header["format-version"] == "2"
    seen = {}
    for manifest in manifests:
        assert manifest["manifest_length"] == os.path.getsize(local_path(manifest["manifest_path"]))
        counts = {EXISTING: 0, ADDED: 0, DELETED: 0}
        least = []
        for entry in entries(manifest):
            counts[entry["status"]] += 1
            seen[entry["data_file"]["file_path"]] = (entry, manifest)
            if entry["status"] != DELETED:
                least.append(entry["sequence_number"] or manifest["sequence_number"])
        names = {EXISTING: "existing_files_count", ADDED: "added_files_count", DELETED: "deleted_files_count"}
        assert counts == {status: manifest[name] for status, name in names.items()}
        assert manifest["min_sequence_number"] == (min(least) if least else manifest["sequence_number"])
    new, manifest = seen[added["path"]]
    assert (new["status"], new["sequence_number"], new["file_sequence_number"]) == (ADDED, 3, None)
    assert (manifest["sequence_number"], manifest["min_sequence_number"]) == (4, 3)
    for path, number in zip(removed, (1, 3), strict=True):
        entry, _ = seen[path]
        assert entry["status"] == DELETED
        assert entry["snapshot_id"] == snapshot.snapshot_id
        assert (entry["sequence_number"], entry["file_sequence_number"]) == (number, number)
    # The untouched manifest is the one that PyIceberg wrote.
    _, parents = manifest_list(snapshots[-1])
    _, kept = seen[by_rows[2]]
    assert kept["manifest_path"] in [m["manifest_path"] for m in parents]
    # PyIceberg sees the same live entries, with inherited numbers.
    assert live_numbers(table) == {added["path"]: (3, 4), by_rows[2]: (2, 2)}
    table.append(pa.table({"k": [7], "s": ["s7"]}))
    assert keys(catalog.load_table("db.t")) == [1, 2, 3, 4, 5, 6, 7]


def test_overwrite_in_a_pyiceberg_table(tmp_path, catalog, table):
    removed = [f.file.file_path for f in table.scan().plan_files()]
    run(
        tmp_path / "r",
        request(
            catalog,
            {"operation": "overwrite", "removed": removed, "added": [[data_file(tmp_path, "x.parquet", [42])]]},
        ),
    )
    table.refresh()
    assert keys(table) == [42]
    summary = table.current_snapshot().summary
    assert (summary["total-data-files"], summary["deleted-data-files"], summary["deleted-records"]) == ("1", "3", "6")


def test_many_appends_merge_manifests_and_lose_nothing(tmp_path, catalog, table):
    with table.transaction() as transaction:
        transaction.set_properties({"commit.manifest.min-count-to-merge": "5"})
    commits = [{"operation": "append", "added": [[data_file(tmp_path, f"{i}.parquet", [i])]]} for i in range(100, 112)]
    run(tmp_path / "r", request(catalog, *commits))
    table.refresh()
    assert keys(table) == [1, 2, 3, 4, 5, 6, *range(100, 112)]
    _, manifests = manifest_list(table.current_snapshot())
    assert len(manifests) <= 5
    numbers = {os.path.basename(path): of for path, of in live_numbers(table).items()}
    for i in range(100, 112):
        assert numbers[f"{i}.parquet"] == (i - 96, i - 96)


@pytest.mark.parametrize("properties", [{}, {"write.metadata.compression-codec": "gzip"}])
def test_a_table_that_we_create_in_a_sql_catalog(tmp_path, properties):
    schema = {
        "type": "struct",
        "schema-id": 0,
        "fields": [
            {"id": 1, "name": "k", "required": False, "type": "long"},
            {"id": 2, "name": "s", "required": False, "type": "string"},
        ],
    }
    uri = f"sqlite:///{tmp_path}/new.db"
    made = {
        "catalog": {"name": "lake", "uri": uri, "warehouse": str(tmp_path / "warehouse")},
        "namespace": ["db", "sub"],
        "table": "t",
        "schema": schema,
        "properties": properties,
        "commits": [{"operation": "append", "added": [[data_file(tmp_path, "a.parquet", [1, 2])]]}],
        "set-properties": {"write.liquid-clustering.columns": "k"},
    }
    run(tmp_path / "r", made)
    catalog = SqlCatalog("lake", uri=uri, warehouse=str(tmp_path / "warehouse"))
    assert catalog.list_namespaces() == [("db",)]
    assert catalog.list_tables(("db", "sub")) == [("db", "sub", "t")]
    table = catalog.load_table("db.sub.t")
    assert keys(table) == [1, 2]
    assert table.properties["write.liquid-clustering.columns"] == "k"
    assert table.location() == str(tmp_path / "warehouse" / "db.sub" / "t")
    table.append(pa.table({"k": [3], "s": ["s3"]}))
    assert keys(table) == [1, 2, 3]
    del made["schema"], made["set-properties"]
    made["commits"] = [{"operation": "append", "added": [[data_file(tmp_path, "b.parquet", [4])]]}]
    run(tmp_path / "r", made)
    table.refresh()
    assert keys(table) == [1, 2, 3, 4]
    log = [os.path.basename(e.metadata_file)[:5] for e in table.metadata.metadata_log]
    assert log == ["00000", "00001", "00002", "00003"]
    catalog.close()


def test_a_hadoop_table(tmp_path):
    location = tmp_path / "table"
    made = {
        "location": str(location),
        "schema": {
            "type": "struct",
            "schema-id": 0,
            "fields": [
                {"id": 1, "name": "k", "required": False, "type": "long"},
                {"id": 2, "name": "s", "required": False, "type": "string"},
            ],
        },
        "commits": [
            {"operation": "append", "added": [[data_file(tmp_path, "a.parquet", [1, 2])]]},
            {
                "operation": "replace",
                "removed": [str(tmp_path / "a.parquet")],
                "added": [[data_file(tmp_path, "b.parquet", [2, 1])]],
            },
        ],
    }
    run(tmp_path / "r", made)
    assert (location / "metadata" / "version-hint.text").read_text() == "3"
    metadata = location / "metadata" / "v3.metadata.json"
    table = StaticTable.from_metadata(str(metadata))
    assert keys(table) == [1, 2]
    assert [s.summary.operation.value for s in table.snapshots()] == ["append", "replace"]

    with duckdb_engine.connect() as connection:
        rows = connection.execute(f"SELECT k FROM iceberg_scan('{metadata}') ORDER BY k").fetchall()
    assert rows == [(1,), (2,)]
