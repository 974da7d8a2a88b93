"""Commands on tables in a real REST catalog, also when requests go wrong on the way."""

import json

import pyarrow as pa
import pytest
from pyiceberg.expressions import LessThan
from rest_fault_proxy import FaultProxy
from rest_tools import RestLake
from thalweg_test_tools import EVENTS, KEYS, SMALL_CUBES, arrow_rows, make_rows, planned_files, rows_of, run

pytestmark = pytest.mark.jvm


@pytest.fixture
def rest(rest_catalog):
    return rest_catalog


@pytest.fixture
def proxy(rest_server):
    with FaultProxy(rest_server.uri) as proxy:
        yield proxy


@pytest.fixture
def faulty(rest_server, proxy, tmp_path):
    """A lake whose commands go through the proxy, while its own catalog goes straight to the server."""
    lake = RestLake(tmp_path / "faulty", rest_server)
    lake.environment["PYICEBERG_CATALOG__LAKE__URI"] = proxy.uri
    return lake


def operations(lake) -> list[str]:
    return [snapshot.summary.operation.value for snapshot in lake.table().snapshots()]


def check_rows(lake, expected) -> None:
    assert arrow_rows(lake.table().scan().to_arrow()) == expected
    assert rows_of(lake.table()) == expected


def test_every_command(rest):
    table = rest.make_table("events", EVENTS, SMALL_CUBES)
    for number in range(6):
        table.append(make_rows(1500, number))
    before = rows_of(rest.table())
    address = rest.address()
    assert rest.ok("set", address, "--columns", "user_id,event_time")["outcome"] == "committed"
    assert rest.table().properties[KEYS] == "user_id,event_time"
    assert rest.ok("status", address)["units"] > 6
    done = rest.ok("optimize", address, "--run-id", "first")
    assert (done["outcome"], done["rows"]) == ("committed", 9000)
    assert operations(rest)[-1] == "replace"
    check_rows(rest, before)
    few = planned_files(rest.table(), LessThan("user_id", 50_000))
    assert len(few) < len(planned_files(rest.table(), LessThan("user_id", 2_000_000)))
    assert rest.ok("optimize", address)["outcome"] == "nothing-to-do"
    assert rest.ok("optimize", address, "--run-id", "first")["outcome"] == "already-committed"
    assert rest.ok("cubes", address)["cubes"]

    rows = make_rows(700, 99)
    source = rest.write_parquet("rows.parquet", rows)
    assert rest.ok("write", address, source, "--run-id", "load")["outcome"] == "committed"
    assert rest.ok("write", address, source, "--run-id", "load")["outcome"] == "already-committed"
    check_rows(rest, before + arrow_rows(rows))

    tasks, result = rest.folder / "tasks", rest.folder / "result.json"
    rest.ok("plan", address, "--full", "--tasks-out", tasks)
    rest.ok("execute", tasks / "task-00000.json", "--out", result)
    assert rest.ok("commit", address, result)["outcome"] == "committed"
    check_rows(rest, before + arrow_rows(rows))
    assert rest.ok("cubes", address, "--rebuild")["cubes"]
    assert len(rest.ok("history", address)["runs"]) == 3
    assert rest.ok("clean", address)["outcome"] == "nothing-to-do"
    assert rest.ok("clear", address)["outcome"] == "committed"
    assert KEYS not in rest.table().properties
    check_rows(rest, before + arrow_rows(rows))


def test_a_new_table_and_its_namespace(rest):
    rows = make_rows(500, 1)
    source = rest.write_parquet("rows.parquet", rows)
    address = f"lake.{rest.namespace}.inner.made"
    made = rest.ok("write", address, source, "--mode", "create", "--cluster-by", "user_id,event_time")
    assert made["outcome"] == "committed"
    table = rest.catalog.load_table((rest.namespace, "inner", "made"))
    assert arrow_rows(table.scan().to_arrow()) == arrow_rows(rows)
    assert table.properties[KEYS] == "user_id,event_time"
    assert table.format_version == 2
    again = rest.run("write", address, source, "--mode", "create")
    assert "exists already" in again.error(2)


def test_names_that_need_encoding(rest):
    name_space = (rest.namespace, "a b+c", "ü&=")
    for depth in (2, 3):
        rest.catalog.create_namespace(name_space[:depth])
    name = "t & u"
    table = rest.catalog.create_table((*name_space, name), schema=EVENTS, properties=SMALL_CUBES)
    rows = make_rows(300, 3)
    table.append(rows.slice(0, 100))
    table.append(rows.slice(100))
    address = ".".join(("lake", *name_space, name))
    rest.ok("set", address, "--columns", "user_id,event_time")
    assert rest.ok("optimize", address)["rows"] == 300
    assert arrow_rows(rest.catalog.load_table((*name_space, name)).scan().to_arrow()) == arrow_rows(rows)


def test_what_is_not_there(rest):
    message = rest.run("status", rest.address("nothing")).error()
    assert f"there is no table {rest.namespace}.nothing" in message and rest.uri in message
    message = rest.run("status", "lake.nowhere.nothing").error()
    assert "there is no table nowhere.nothing" in message
    rest.environment["PYICEBERG_CATALOG__LAKE__URI"] = "http://127.0.0.1:1"
    message = rest.run("status", rest.address()).error()
    assert "127.0.0.1:1" in message


def test_appends_meanwhile_are_kept(rest):
    """The plan's commit meets an append: the swap is lost, tried again, and both are there."""
    address = rest.make_events(files=4, rows=1000)
    tasks, result = rest.folder / "tasks", rest.folder / "result.json"
    rest.ok("plan", address, "--tasks-out", tasks)
    rest.ok("execute", tasks / "task-00000.json", "--out", result)
    rest.table().append(make_rows(300, 50))
    before = rows_of(rest.table())
    assert rest.ok("commit", address, result)["outcome"] == "committed"
    check_rows(rest, before)


COMMITS = ("POST", "/tables/events")


@pytest.mark.parametrize(
    "fault, outcome",
    [
        ("refuse 409", "committed"),  # tried again
        ("refuse 401", None),  # no other token to try
        ("refuse 400", None),
        ("refuse 403", None),
        ("refuse 429", "committed"),
        ("lose 500", "committed"),  # found in the table
        ("lose 502", "committed"),
        ("lose 503", "committed"),
        ("lose 504", "committed"),
        ("cut", "committed"),
        ("half", "committed"),
        ("garbage", "committed"),
        ("lose 409", "already-committed"),  # told that it lost, although it won
        ("drop", "unknown"),  # never arrived, which nobody can know
        ("refuse 503", "unknown"),
    ],
)
def test_a_commit_that_goes_wrong(faulty, proxy, fault, outcome):
    address = faulty.make_events(files=4, rows=800)
    faulty.table().transaction().set_properties({"commit.status-check.min-wait-ms": "10"}).commit_transaction()
    before = rows_of(faulty.table())
    proxy.fail(*COMMITS, fault)
    done = faulty.run("optimize", address, "--run-id", "one", "--json")
    check_rows(faulty, before)
    assert not proxy.faults
    if outcome in ("committed", "already-committed"):
        assert (done.code, done.json["outcome"]) == (0, outcome), done
        assert operations(faulty).count("replace") == 1
        assert proxy.count(*COMMITS) == (2 if fault in ("refuse 409", "refuse 429") else 1)
    elif outcome == "unknown":
        assert done.code == 4 and "is not known" in done.out + done.err, done
        # The same command either finds it or does it.
        assert faulty.ok("optimize", address, "--run-id", "one")["outcome"] == "committed"
        assert operations(faulty).count("replace") == 1
        check_rows(faulty, before)
    else:
        assert done.code == 1, done
        assert operations(faulty).count("replace") == 0
        # Nothing of it is left, and the next run does the work.
        assert faulty.ok("clean", address)["outcome"] == "nothing-to-do"
        assert faulty.ok("optimize", address)["outcome"] == "committed"
        check_rows(faulty, before)


@pytest.mark.parametrize("faults", [("refuse 503",), ("cut", "lose 502"), ("drop", "drop")])
def test_a_server_with_idempotency_keys_is_asked_again(faulty, proxy, faults):
    """The reference server does not know the keys, so that a commit sent again meets the effect of the first."""
    proxy.config["idempotency-key-lifetime"] = "PT30M"
    address = faulty.make_events(files=4, rows=800)
    before = rows_of(faulty.table())
    proxy.fail(*COMMITS, *faults)
    assert faulty.ok("optimize", address)["outcome"] == "committed"
    check_rows(faulty, before)
    assert operations(faulty).count("replace") == 1
    keys = {headers["idempotency-key"] for headers in proxy.headers(*COMMITS)}
    assert proxy.count(*COMMITS) == len(faults) + 1 and len(keys) == 1


def test_a_refusal_of_what_was_sent_again_settles_nothing(faulty, proxy):
    """The first sending may be under way still, and be what the second one ran into."""
    proxy.config["idempotency-key-lifetime"] = "PT30M"
    address = faulty.make_events(files=4, rows=800)
    faulty.table().transaction().set_properties({"commit.status-check.min-wait-ms": "10"}).commit_transaction()
    before = rows_of(faulty.table())
    proxy.fail(*COMMITS, "drop", "refuse 409")
    done = faulty.run("optimize", address, "--run-id", "one", "--json")
    assert done.code == 4, done
    assert faulty.ok("optimize", address, "--run-id", "one")["outcome"] == "committed"
    check_rows(faulty, before)


def test_reading_is_tried_again(faulty, proxy):
    address = faulty.make_events(files=2, rows=100)
    proxy.fail("GET", "/v1/config", "refuse 503", "drop")
    proxy.fail("GET", "/tables/events", "half", "refuse 429", "refuse 504")
    assert faulty.ok("status", address)["units"] >= 2
    proxy.fail("GET", "/tables/events", "garbage")
    assert "not valid JSON" in faulty.run("status", address).error()
    proxy.fail("GET", "/tables/events", "refuse 403")
    assert "injected" in faulty.run("status", address).error()


def test_a_token_goes_along_and_is_not_shown(faulty, proxy):
    address = faulty.make_events(files=2, rows=100)
    secret = "hush-hush"
    options = ["--catalog-property", f"token={secret}", "--catalog-property", "header.x-team=ours"]
    faulty.ok("status", address, *options)
    for _, _, headers in proxy.requests:
        assert headers["authorization"] == f"Bearer {secret}"
        assert headers["x-team"] == "ours"
        assert headers["x-iceberg-access-delegation"] == "vended-credentials"
    proxy.fail("GET", "/tables/events", "refuse 401")
    assert secret not in faulty.run("status", address, *options).error()


def test_statistics_of_others_stay(rest):
    """What the server was not told to change is as it was."""
    address = rest.make_events(files=3, rows=500)
    before = json.loads(rest.table().metadata.model_dump_json())
    rest.ok("optimize", address)
    after = json.loads(rest.table().metadata.model_dump_json())
    for key in ("table-uuid", "location", "schemas", "partition-specs", "sort-orders", "properties", "format-version"):
        assert after[key] == before[key], key
    assert after["last-sequence-number"] == before["last-sequence-number"] + 1
    (statistics,) = after["statistics"]
    assert statistics["snapshot-id"] == after["current-snapshot-id"]


def test_unsupported_catalogs_are_named(lake):
    for kind in ("glue", "hive", "dynamodb", "bigquery"):
        message = run(
            "status", "other.db.t", "--catalog-property", f"type={kind}", environment=lake.environment
        ).error()
        assert f'"{kind}"' in message and "PyIceberg" in message
    options = ["--catalog-property", "type=rest", "--catalog-property", "uri=http://127.0.0.1:1"]
    message = run(
        "status", "o.db.t", *options, "--catalog-property", "rest.sigv4-enabled=true", environment=lake.environment
    ).error()
    assert "Signature" in message


def test_rows_of_every_engine(rest):
    """Also types beyond those of the other tests."""
    schema = pa.schema([("k", pa.int32()), ("d", pa.decimal128(12, 3)), ("s", pa.string())])
    table = rest.make_table("typed", schema)
    rows = pa.table({"k": pa.array(range(100), pa.int32()), "d": [None] * 100, "s": ["x"] * 100}, schema=schema)
    table.append(rows.slice(0, 50))
    table.append(rows.slice(50))
    address = rest.address("typed")
    rest.ok("set", address, "--columns", "k,d")
    assert rest.ok("optimize", address)["rows"] == 100
    assert arrow_rows(rest.table("typed").scan().to_arrow()) == arrow_rows(rows)
