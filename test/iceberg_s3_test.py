"""Iceberg tables in an object store: moto's S3 server on the loopback, a SQL catalog beside it."""

from collections import Counter

import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import LessThan
from thalweg_test_tools import EVENTS, KEYS, SMALL_CUBES, arrow_rows, catalog_variables, make_rows, planned_files

pytest.importorskip("boto3")
pytest.importorskip("moto.server")
import s3_tools  # noqa: E402


class S3Lake(s3_tools.S3Lake):
    """Its tables lie in the bucket "lake"."""

    def rows(self, name: str = "events") -> Counter:
        return arrow_rows(self.table(name).scan().to_arrow())

    def check_no_leftovers(self, name: str = "events") -> None:
        """Every object of the table is named by its metadata, but for markers of folders."""
        table = self.table(name)
        io = table.io
        named = {table.metadata_location} | {entry.metadata_file for entry in table.metadata.metadata_log}
        named |= {file.statistics_path for file in table.metadata.statistics}
        for snapshot in table.snapshots():
            named.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(io):
                named.add(manifest.manifest_path)
                named |= {
                    entry.data_file.file_path for entry in manifest.fetch_manifest_entry(io, discard_deleted=False)
                }
        found = {f"s3://lake/{key}" for key in self.bucket.names(f"warehouse/db/{name}/") if not key.endswith("/")}
        assert found <= named, found - named


@pytest.fixture
def s3(tmp_path, s3_server):
    return S3Lake(tmp_path / "lake", s3_server)


def without_access(s3) -> dict[str, str]:
    given = catalog_variables(s3.access)
    return {key: value for key, value in s3.environment.items() if key not in given}


def by_aws_environment(s3) -> dict[str, str]:
    """Nothing in the catalog's configuration: what the AWS tools take."""
    return without_access(s3) | {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "hush-hush",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": s3.bucket.endpoint,
    }


def by_client_properties(s3) -> dict[str, str]:
    return without_access(s3) | catalog_variables(
        {
            "s3.endpoint": s3.bucket.endpoint,
            "client.access-key-id": "key",
            "client.secret-access-key": "hush-hush",
            "client.region": "us-east-1",
        }
    )


@pytest.mark.parametrize("way", [None, by_aws_environment, by_client_properties])
def test_every_command(s3, way):
    if way is not None:
        s3.environment = way(s3)
    table = s3.make_table("events", EVENTS, SMALL_CUBES)
    for number in range(4):
        table.append(make_rows(1000, number))
    before = s3.rows()
    address = s3.address()
    assert s3.ok("set", address, "--columns", "user_id,event_time")["outcome"] == "committed"
    assert s3.table().properties[KEYS] == "user_id,event_time"
    assert s3.ok("status", address)["units"] > 4
    assert s3.ok("optimize", address, "--run-id", "first")["rows"] == 4000
    assert s3.rows() == before
    few = planned_files(s3.table(), LessThan("user_id", 50_000))
    assert len(few) < len(planned_files(s3.table(), LessThan("user_id", 2_000_000)))
    s3.check_no_leftovers()
    assert s3.ok("optimize", address)["outcome"] == "nothing-to-do"

    rows = make_rows(500, 77)
    source = s3.write_parquet("rows.parquet", rows)
    assert s3.ok("write", address, source)["outcome"] == "committed"
    tasks, result = s3.folder / "tasks", s3.folder / "result.json"
    s3.ok("plan", address, "--full", "--tasks-out", tasks)
    s3.ok("execute", tasks / "task-00000.json", "--out", result)
    for envelope in (tasks / "task-00000.json", result):  # they may travel: without credentials
        assert "hush-hush" not in envelope.read_text()
    assert s3.ok("commit", address, result)["outcome"] == "committed"
    assert s3.rows() == before + arrow_rows(rows)
    assert s3.ok("cubes", address, "--rebuild")["cubes"]
    assert len(s3.ok("history", address)["runs"]) == 3
    assert s3.ok("clean", address)["outcome"] == "nothing-to-do"
    s3.check_no_leftovers()
    assert s3.ok("clear", address)["outcome"] == "committed"

    made = s3.ok("write", s3.address("made"), source, "--mode", "create", "--cluster-by", "user_id,event_time")
    assert made["outcome"] == "committed"
    assert s3.rows("made") == arrow_rows(rows)
    assert s3.table("made").location() == "s3://lake/warehouse/db/made"


def test_files_themselves_are_whole(s3):
    """Read from the bucket without Iceberg."""
    address = s3.make_events(files=3, rows=800)
    before = s3.rows()
    s3.ok("optimize", address)
    rows: Counter = Counter()
    for task in s3.table().scan().plan_files():
        key = task.file.file_path.removeprefix("s3://lake/")
        path = s3.folder / "object.parquet"
        path.write_bytes(s3.client.get_object(Bucket="lake", Key=key)["Body"].read())
        assert path.stat().st_size == task.file.file_size_in_bytes
        rows += arrow_rows(pq.read_table(path))
    assert rows == before


def test_a_dead_run_is_reclaimed(s3):
    """What a run that was killed before its commit left behind goes, and nothing else."""
    address = s3.make_events(files=3, rows=800)
    before = s3.rows()
    objects = s3.bucket.names()
    environment = s3.environment
    s3.environment = environment | {"THALWEG_CRASH_POINT": "manifests-written"}
    assert s3.run("optimize", address).code == -9
    s3.environment = environment
    assert any("thalweg-" in name for name in s3.bucket.names() - objects)
    assert s3.ok("clean", address)["outcome"] == "cleaned"
    s3.check_no_leftovers()
    assert s3.rows() == before
    assert s3.ok("optimize", address)["outcome"] == "committed"
    assert s3.rows() == before


def test_paths_are_read_and_not_written(s3):
    """A metadata file in the bucket opens by its path; without a catalog nothing is changed there."""
    address = s3.make_events(files=3, rows=300)
    options = [word for key, value in s3.access.items() for word in ("--catalog-property", f"{key}={value}")]
    location = s3.table().metadata_location
    assert s3.ok("status", location, *options)["units"] >= 3
    assert "catalog" in s3.run("optimize", location, *options).error()
    source = s3.write_parquet("rows.parquet", make_rows(10, 1))
    message = s3.run("write", "s3://lake/by-path", source, "--mode", "create", *options).error()
    assert "atomic rename" in message
    # A table in Hadoop layout: read, and not written.
    metadata = s3.client.get_object(Bucket="lake", Key=location.removeprefix("s3://lake/"))["Body"].read()
    key = "warehouse/db/events/metadata/v1.metadata.json"
    s3.client.put_object(Bucket="lake", Key=key, Body=metadata)
    folder = "s3a://lake/warehouse/db/events"
    assert s3.ok("status", folder, *options)["units"] >= 3
    assert "atomic rename" in s3.run("optimize", folder, *options).error()
    s3.client.delete_object(Bucket="lake", Key=key)
    assert s3.ok("optimize", address)["outcome"] == "committed"


@pytest.mark.parametrize(
    "changed, expected",
    [
        ({"s3.access-key-id": "key", "s3.secret-access-key": ""}, ""),
        ({"s3.endpoint": "ftp://there"}, "s3.endpoint"),
        ({"s3.anonymous": "perhaps"}, "s3.anonymous"),
        ({"s3.server-side-encryption": "aws:kms"}, "encryption"),
        ({"s3.connect-timeout": "soon"}, "s3.connect-timeout"),
    ],
)
def test_settings_that_cannot_be_met(s3, changed, expected):
    address = s3.make_events(files=1, rows=10)
    options = [word for key, value in changed.items() for word in ("--catalog-property", f"{key}={value}")]
    done = s3.run("status", address, *options)
    if expected:
        assert expected in done.error()
    assert "hush-hush" not in done.out + done.err


def test_what_is_not_there(s3):
    address = s3.make_events(files=2, rows=50)
    (list_name,) = {snapshot.manifest_list for snapshot in s3.table().snapshots()[-1:]}
    s3.client.delete_object(Bucket="lake", Key=list_name.removeprefix("s3://lake/"))
    message = s3.run("status", address).error()
    assert list_name in message
