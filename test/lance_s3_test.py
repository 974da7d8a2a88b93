"""Lance datasets in an object store: moto's S3 server on the loopback."""

import pytest
from lance_test_tools import lance, multiset, needs_lance, numbered_rows, scanned
from thalweg_test_tools import run

pytest.importorskip("boto3")
pytest.importorskip("moto.server")
import s3_tools  # noqa: E402

pytestmark = needs_lance

OPTIONS = {
    "aws_access_key_id": "key",
    "aws_secret_access_key": "hush-hush",
    "aws_region": "us-east-1",
    "allow_http": "true",
}
ADDRESS = "s3://lake/tables/events.lance"


class Bucket(s3_tools.Bucket):
    """The bucket "lake" and the dataset in it as pylance sees it."""

    @property
    def options(self) -> dict[str, str]:
        return OPTIONS | {"aws_endpoint": self.endpoint}

    def append(self, count: int, first: int) -> None:
        mode = "append" if self.names("tables/events.lance/") else "create"
        lance.write_dataset(numbered_rows(count, first), ADDRESS, mode=mode, storage_options=self.options)

    @property
    def dataset(self):
        return lance.dataset(ADDRESS, storage_options=self.options)

    def check_no_leftovers(self) -> None:
        named = {path for batch in self.dataset.tracked_files() for path in batch.column("path").to_pylist()}
        root = "tables/events.lance/"
        assert {name.removeprefix(root) for name in self.names(f"{root}data/")} <= named
        assert self.names(f"{root}_thalweg/") == set()


@pytest.fixture
def bucket(s3_server):
    return Bucket(s3_tools.endpoint_of(s3_server))


def by_properties(bucket) -> tuple[list[str], dict[str, str]]:
    return [word for key, value in bucket.options.items() for word in ("--catalog-property", f"{key}={value}")], {}


def by_environment(bucket) -> tuple[list[str], dict[str, str]]:
    return [], {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "hush-hush",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT": bucket.endpoint,
        "AWS_ALLOW_HTTP": "true",
    }


@pytest.mark.parametrize("way", [by_properties, by_environment])
def test_every_command(lake, bucket, way):
    options, variables = way(bucket)
    environment = lake.environment | variables

    def ok(verb: str, *arguments) -> dict:
        done = run(verb, *arguments, *options, "--json", environment=environment)
        assert (done.code, done.err) == (0, ""), done
        return done.json

    for first in range(0, 2000, 500):
        bucket.append(500, first)
    before = multiset(bucket.dataset.to_table())
    assert ok("set", ADDRESS, "--columns", "user_id,event_time")["outcome"] == "committed"
    assert ok("spec", ADDRESS)["spec"]["curve"] == "hilbert"
    assert ok("status", ADDRESS)["units"] == 4
    done = ok("optimize", ADDRESS, "--target-rows-per-fragment", 500)
    assert (done["outcome"], done["rows"]) == ("committed", 2000)
    assert multiset(bucket.dataset.to_table()) == before
    bucket.dataset.validate()
    condition = "user_id < 100000"
    assert scanned(bucket.dataset, condition).rows < 0.7 * 2000
    bucket.check_no_leftovers()
    assert ok("optimize", ADDRESS, "--target-rows-per-fragment", 500)["outcome"] == "nothing-to-do"

    rows = numbered_rows(600, 9000)
    source = lake.write_parquet("rows.parquet", rows)
    assert ok("write", ADDRESS, source, "--run-id", "load")["outcome"] == "committed"
    assert ok("write", ADDRESS, source, "--run-id", "load")["outcome"] == "already-committed"
    assert multiset(bucket.dataset.to_table()) == before + multiset(rows)

    tasks = lake.folder / "tasks"
    ok("plan", ADDRESS, "--full", "--tasks-out", tasks, "--target-rows-per-fragment", 400)
    result = lake.folder / "result.json"
    ok("execute", tasks / "task-00000.json", "--out", result)
    for envelope in (tasks / "task-00000.json", result):  # they may travel: without credentials
        assert "secret" not in envelope.read_text()
    assert ok("commit", ADDRESS, result)["outcome"] == "committed"
    assert multiset(bucket.dataset.to_table()) == before + multiset(rows)
    assert ok("cubes", ADDRESS)["cubes"]
    assert len(ok("history", ADDRESS)["runs"]) == 3
    assert ok("clean", ADDRESS)["outcome"] == "nothing-to-do"
    bucket.check_no_leftovers()
    assert ok("clear", ADDRESS)["outcome"] == "committed"

    made = "s3://lake/tables/made.lance"
    assert ok("write", made, source, "--mode", "create", "--cluster-by", "user_id,event_time")["outcome"] == "committed"
    assert multiset(lance.dataset(made, storage_options=bucket.options).to_table()) == multiset(rows)


def test_two_runs_at_once_on_s3(lake, bucket):
    """Commits are put only where no version is yet: the second run sees that it lost."""
    options, _ = by_properties(bucket)
    for first in range(0, 1000, 500):
        bucket.append(500, first)
    before = multiset(bucket.dataset.to_table())
    assert run("set", ADDRESS, "--columns", "user_id,event_time", *options, environment=lake.environment).code == 0
    tasks = lake.folder / "tasks"
    plan = ["plan", ADDRESS, *options, "--tasks-out", tasks]
    assert run(*plan, environment=lake.environment).code == 0
    result = lake.folder / "result.json"
    execute = ["execute", tasks / "task-00000.json", "--out", result, *options]
    assert run(*execute, environment=lake.environment).code == 0
    bucket.append(300, 7000)
    bucket.dataset.delete("id = 3")
    expected = multiset(bucket.dataset.to_table())
    assert sum(expected.values()) == sum(before.values()) + 299
    done = run("commit", ADDRESS, result, *options, environment=lake.environment)
    assert done.code in (0, 1, 3), done
    assert multiset(bucket.dataset.to_table()) == expected


@pytest.mark.parametrize(
    "address, changed, expected",
    [
        (ADDRESS, {}, "events.lance"),  # there is none
        ("s3://nowhere/events.lance", {}, "nowhere"),
        (ADDRESS, {"aws_endpoint": "http://127.0.0.1:1"}, "127.0.0.1"),
        (ADDRESS, {"allow_http": "perhaps"}, ""),
    ],
)
def test_what_is_not_there(lake, bucket, address, changed, expected):
    # Few attempts, so that nobody waits.
    settings = bucket.options | {"client_max_retries": "0", "timeout": "2s"} | changed
    options = [word for key, value in settings.items() for word in ("--catalog-property", f"{key}={value}")]
    done = run("status", address, *options, environment=lake.environment, timeout=120)
    message = done.error(done.code)
    assert done.code in (1, 2) and expected in message
    assert "secret" not in message


def test_the_storage_options_of_a_dataset_are_used_from_python(bucket, monkeypatch):
    """The options that pylance was given, and nothing from the environment."""
    import thalweg

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    for number in range(4):
        bucket.append(500, number * 500)
    ds = bucket.dataset
    before = multiset(ds.to_table())
    assert thalweg.set_clustering(ds, ["user_id", "event_time"])
    tasks = thalweg.plan(ds, target_rows_per_fragment=500).tasks()
    done = thalweg.commit(ds, [thalweg.execute(task) for task in tasks])
    assert done["outcome"] == "committed" and multiset(ds.to_table()) == before
    bucket.check_no_leftovers()
