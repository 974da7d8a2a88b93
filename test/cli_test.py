"""The command line through the real program: what it does to tables, what it says, how it fails."""

import json
import os
import random
import re
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pytest
from pyiceberg.catalog import infer_catalog_type
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField
from pyiceberg.utils.config import Config
from thalweg_test_tools import (
    BIN,
    EVENTS,
    KEYS,
    SMALL_CUBES,
    arrow_rows,
    clean_environment,
    data_files,
    make_rows,
    rows_of,
    run,
)

COMMANDS = [
    "set",
    "spec",
    "clear",
    "write",
    "status",
    "plan",
    "optimize",
    "cubes",
    "history",
    "execute",
    "commit",
    "discard",
    "sample",
    "fit",
    "scatter",
    "clean",
]


# --- help and usage


def test_help_and_version(lake):
    top = lake.run("--help")
    assert top.code == 0 and top.err == ""
    for command in COMMANDS:
        assert re.search(rf"^  {command}\b", top.out, re.M), command
        done = lake.run(command, "--help")
        assert done.code == 0 and done.err == ""
        assert "Examples:\n  thalweg" in done.out
        assert "--json" in done.out
    declared = re.search(r"project\(thalweg VERSION (\S+)", (Path(__file__).parents[1] / "CMakeLists.txt").read_text())
    assert lake.run("--version").out == f"thalweg {declared[1]}\n"


@pytest.mark.parametrize(
    "arguments, expected",
    [
        ([], "subcommand"),
        (["frobnicate"], 'unknown command "frobnicate"'),
        (["status"], "TABLE"),
        (["status", "./t", "--frob"], "--frob"),
        (["write", "./t"], "FILE"),
        (["write", "./t", "x.parquet", "--mode", "upsert"], "upsert"),
        (["set", "./t", "--columns", "a,b", "--curve", "peano"], "peano"),
        (["set", "./t", "--columns", "a,b", "--algorithm", "x"], "typed-quantile-rank-v1"),
        (["set", "./t", "--columns", "a,b", "--bits", "many"], "--bits"),
        (["set", "./t", "--columns", "a,b", "--target-cube-size", "10 apples"], "--target-cube-size"),
        (["optimize", "./t", "--memory", "lots"], "--memory"),
        (["optimize", "./t", "--memory", "-5"], "--memory"),
        (["optimize", "./t", "--threads", "0"], "--threads"),
        (["optimize", "./t", "--verify", "hope"], "--verify"),
        (["optimize", "./t", "--max-source-rows", "-1"], "--max-source-rows"),
        (["optimize", "./t", "--orphan-age", "soon"], "--orphan-age"),
        (["optimize", "./t", "--target-file-size", "0"], "--target-file-size"),
        (["optimize", "./t", "--run-id", "a/b"], "run id"),
        (["optimize", "./t", "--policy", "overlap", "--theta", "1"], "not between 0 and 1"),
        (["plan", "./t", "--theta", "0"], "not between 0 and 1"),
        (["optimize", "./t", "--theta", "half"], "--theta"),
        (["plan", "./t", "--policy", "guess"], "guess"),
        (["status", "./t", "--catalog-property", "nonsense"], "key=value"),
        (["execute", "task.json"], "--out"),
        (["status", ""], "empty"),
        (["status", "events"], "./events"),
        (["status", "a..b"], "a..b"),
        (["status", "nowhere.db.events"], "PYICEBERG_CATALOG__NOWHERE__"),
    ],
)
def test_usage_errors(lake, arguments, expected):
    assert expected in lake.run(*arguments).error(2)
    done = lake.run(*arguments, "--json")
    message = done.error(2)
    assert done.json == {"format": "thalweg.error/1", "kind": "usage", "message": message}


@pytest.mark.parametrize(
    "address", ["lake.db.missing", "lake.nospace.events", "./missing", "/missing/table", "./missing.lance", "s3://b/t"]
)
def test_tables_that_are_not_there(lake, address):
    # What S3 is asked for goes nowhere, at once.
    lake.environment |= {"AWS_ENDPOINT_URL": "http://127.0.0.1:1", "AWS_MAX_ATTEMPTS": "1"}
    lake.environment |= {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": "us-east-1"}
    commands = ["spec", "status", "plan", "optimize", "cubes", "history", "clear", "clean"]
    for command in commands[:1] if address.startswith("s3:") else commands:  # S3 is asked for twelve seconds
        done = lake.run(command, address, "--json", cwd=lake.folder)
        message = done.error(1)
        assert done.json == {"format": "thalweg.error/1", "kind": "error", "message": message}
        assert re.split(r"[./]", address.removesuffix(".lance"))[-1] in message


def test_global_options_before_or_after_the_command(lake, events):
    before = lake.run("--json", "spec", events)
    assert (before.code, before.json) == (0, lake.ok("spec", events))
    assert lake.run("--quiet", "spec", events) == lake.run("spec", events, "--quiet")
    assert lake.run("spec", events, "--quiet").out == ""
    # The option takes one word, whatever follows it.
    bare = clean_environment(lake.home)
    properties = ["--catalog-property", f"uri={lake.uri}", "--catalog-property", f"warehouse={lake.warehouse}"]
    assert run("spec", *properties, events, "--json", environment=bare).json == lake.ok("spec", events)
    assert run(*properties, "spec", events, "--json", environment=bare).json == lake.ok("spec", events)


# --- catalogs


def random_catalogs(rng: random.Random) -> tuple[dict, dict[str, str]]:
    """A configuration file's content and environment variables for a catalog "c1" in many spellings."""
    uris = ["http://a", "sqlite:////x.db", "thrift://h:9083", "postgresql+psycopg2://h/d"]
    keys = ["warehouse", "Warehouse", "s3.endpoint", "s3.access-key-id", "token", "py-io-impl"]
    values = [*uris, "ftp://h", "/w h/x", "00123", "true", "1.50", "x=y"]
    catalogs = {}
    for name in rng.sample(["c1", "C1", "other"], rng.randint(0, 2)):
        catalogs[name] = {rng.choice(["uri", "URI"]): rng.choice(uris)}
        catalogs[name] |= {key: rng.choice(values) for key in rng.sample(keys, rng.randint(0, 4))}
    variables = {}
    for key in rng.sample(
        ["URI", "warehouse", "S3__ENDPOINT", "S3__ACCESS_KEY_ID", "A___B", "X____Y", "TOKEN_"], rng.randint(0, 5)
    ):
        prefix = rng.choice(["PYICEBERG_CATALOG__C1__", "pyiceberg_catalog__c1__", "PYICEBERG_CATALOG__OTHER__"])
        variables[prefix + key] = rng.choice(values)
    return {rng.choice(["catalog", "Catalog"]): catalogs} if catalogs else {}, variables


def test_catalog_properties_are_what_pyiceberg_reads(tmp_path, monkeypatch):
    probe = BIN / "thalweg_table_test"
    if not probe.exists():
        pytest.skip(f"{probe} is not built")
    rng = random.Random(20261130)
    compared = 0
    for round_number in range(150):
        content, variables = random_catalogs(rng)
        home = tmp_path / str(round_number)
        home.mkdir()
        if content:
            (home / ".pyiceberg.yaml").write_text(yaml_text(content))
        environment = clean_environment(home, **variables)
        with monkeypatch.context() as patch:
            for name in list(os.environ):
                patch.delenv(name)
            for name, value in environment.items():
                patch.setenv(name, value)
            patch.chdir(home)
            expected = Config().get_catalog_config("c1")
        command = [str(probe), "--gtest_also_run_disabled_tests", "--gtest_filter=*CatalogProbe.Print"]
        done = subprocess.run(
            command, env=environment | {"THALWEG_PROBE": "c1"}, cwd=home, capture_output=True, text=True, timeout=60
        )
        printed = re.search(r"^probe: (.*)$", done.stdout, re.M)
        try:
            kind = infer_catalog_type("c1", expected or {}).value
        except ValueError:
            assert printed is None and done.returncode != 0
            continue
        assert printed, done.stdout
        assert json.loads(printed[1]) == expected | {"type": kind}
        compared += 1
    assert compared > 30


def yaml_text(content: dict) -> str:
    lines = []
    for top, catalogs in content.items():
        lines.append(f"{top}:")
        for name, properties in catalogs.items():
            lines.append(f"  {name}:")
            lines += [f"    {key}: {value}" for key, value in properties.items()]
    return "\n".join(lines) + "\n"


def test_catalog_from_a_configuration_file(lake, events):
    bare = clean_environment(lake.home)
    config = lake.home / ".pyiceberg.yaml"
    config.write_text(f"catalog:\n  LAKE:\n    uri: {lake.uri}\n    warehouse: {lake.warehouse}\n")
    assert run("spec", events, "--json", environment=bare).json == lake.ok("spec", events)
    config.write_text("catalog:\n  lake: [broken\n")
    assert str(config) in run("spec", events, environment=bare).error(1)
    config.write_text("catalog:\n  prod:\n    uri: x\n")
    message = run("spec", events, environment=bare).error(2)
    assert "known: prod" in message and str(lake.home) in message


@pytest.mark.parametrize("uri", ["http://127.0.0.1:1", "thrift://h:1", "postgresql://h/d"])
def test_catalogs_that_are_not_available(lake, uri):
    done = run("spec", "lake.db.t", "--catalog-property", f"uri={uri}", environment=clean_environment(lake.home))
    message = done.error(1)
    assert "lake" in message and (
        "not" in message or f"Failed to connect to {uri.removeprefix('http://')[:9]}" in message
    )


# --- declarations


def test_set_spec_clear(lake):
    address = lake.make_events(keys=None)
    assert lake.ok("spec", address)["spec"] is None
    done = lake.ok("set", address, "--columns", "user_id,event_time", "--curve", "zorder", "--bits", "20")
    assert done["outcome"] == "committed"
    assert [column["name"] for column in done["spec"]["columns"]] == ["user_id", "event_time"]
    properties = lake.table().properties
    assert properties[KEYS] == "user_id,event_time"
    assert properties["write.liquid-clustering.curve"] == "zorder"
    assert properties["write.liquid-clustering.bits-per-dim"] == "20"
    assert properties["write.target-file-size-bytes"] == SMALL_CUBES["write.target-file-size-bytes"]
    assert lake.ok("spec", address)["spec"] == done["spec"]

    # An identical declaration commits nothing, whether options are repeated or left out.
    location = lake.table().metadata_location
    for options in [
        ["--columns", "user_id,event_time", "--bits", "20"],
        ["--curve", "zorder"],
        ["--columns", " user_id , event_time"],
    ]:
        same = lake.ok("set", address, *options)
        assert (same["outcome"], same["spec"]) == ("nothing-to-do", done["spec"])
        assert "nothing to do" in lake.run("set", address, *options).out
    assert lake.table().metadata_location == location

    # What is not named stays.
    changed = lake.ok("set", address, "--columns", "country,user_id")["spec"]
    assert [column["name"] for column in changed["columns"]] == ["country", "user_id"]
    assert (changed["curve"], changed["bits_per_dim"]) == ("zorder", 20)
    assert changed["spec_id"] != done["spec"]["spec_id"]

    assert lake.ok("clear", address)["outcome"] == "committed"
    assert not [key for key in lake.table().properties if key.startswith("write.liquid-clustering")]
    assert lake.ok("clear", address)["outcome"] == "nothing-to-do"
    assert lake.ok("spec", address)["spec"] is None


def test_set_refusals(lake):
    schema = pa.schema(
        [(name, pa.int64()) for name in "abcde"]
        + [("payload", pa.binary()), ("inner", pa.struct([("x", pa.int64())])), ("user_id", pa.int64())]
    )
    lake.make_table("t", schema)
    location = lake.table("t").metadata_location
    address = "lake.db.t"
    for columns, expected in [
        ("a", "--allow-single"),
        ("a,b,c,d,e", "four"),
        ("a,a", "twice"),
        ("a,inner.x", "nested"),
        ("a,payload", "payload"),
        ("a,inner", "inner"),
        ("a,usr_id", "user_id"),
        ("a,nothing_like_it", "nothing_like_it"),
        ("a,,b", "empty"),
        ('a,"b', "quote"),
    ]:
        assert expected in lake.run("set", address, "--columns", columns).error(2), columns
    for options, expected in [
        (["--bits", "33"], "33"),
        (["--bits", "0"], "bits"),
        (["--theta", "1.5"], "1.5"),
        (["--target-cube-size", "1MiB", "--min-cube-size", "2MiB"], "minimum"),
        (["--version", "3"], "--version"),
    ]:
        assert expected in lake.run("set", address, "--columns", "a,b", *options).error(2), options
    assert "--columns" in lake.run("set", address, "--curve", "zorder").error(2)
    assert lake.table("t").metadata_location == location
    assert lake.ok("set", address, "--columns", "a", "--allow-single")["outcome"] == "committed"


def test_the_policy_is_the_tables_or_the_commands(lake, events):
    assert "--policy overlap" in lake.run("plan", events, "--theta", "0.5").error(2)
    assert lake.ok("plan", events, "--policy", "overlap", "--theta", "0.5")["policy"] == "overlap"
    done = lake.ok("set", events, "--policy", "overlap", "--theta", "0.5")
    assert (done["spec"]["policy"], done["spec"]["theta"]) == ("overlap", 0.5)
    assert lake.table().properties["write.liquid-clustering.policy"] == "overlap"
    plan = lake.ok("plan", events)
    assert plan["policy"] == "overlap" and plan["outcome"] == "planned"
    assert lake.ok("plan", events, "--policy", "size")["policy"] == "size"
    assert lake.ok("plan", events, "--theta", "0.3")["policy"] == "overlap"


def test_tables_that_cannot_be_clustered(lake):
    rows = pa.table({"a": [1, 2], "b": [3, 4]})
    one = lake.make_table("one", rows.schema, {"format-version": "1", KEYS: "a,b"})
    one.append(rows)
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "a"))
    ids = Schema(NestedField(1, "a", LongType(), required=False), NestedField(2, "b", LongType(), required=False))
    split = lake.catalog.create_table("db.split", schema=ids, partition_spec=spec, properties={KEYS: "a,b"})
    split.append(rows)
    for name, expected in [("one", "version 1"), ("split", "partition")]:
        for command in [["set", f"lake.db.{name}", "--columns", "b,a"], ["optimize", f"lake.db.{name}"]]:
            assert expected in lake.run(*command).err
            assert lake.run(*command).code in (1, 2)
        assert lake.run("spec", f"lake.db.{name}").code == 0
        assert lake.run("status", f"lake.db.{name}").code == 0


@pytest.mark.parametrize(
    "key, value",
    [
        (KEYS, ""),
        (KEYS, ",,"),
        (KEYS, "user_id,no_such_column"),
        (KEYS, "user_id"),
        (KEYS, "user_id,user_id"),
        (KEYS, "user_id,event_time,country,amount,user_id"),
        (KEYS, "user_id,\n\x1bevent_time"),
        ("write.liquid-clustering.target-cube-size-bytes", "ten gigabytes"),
        ("write.liquid-clustering.target-cube-size-bytes", "-1"),
        ("write.liquid-clustering.target-cube-size-bytes", "99999999999999999999999"),
        ("write.liquid-clustering.min-cube-size-bytes", "0"),
        ("write.liquid-clustering.min-cube-size-bytes", str(1 << 60)),
        ("write.liquid-clustering.curve", "peano"),
        ("write.liquid-clustering.bits-per-dim", "0"),
        ("write.liquid-clustering.bits-per-dim", "1e9"),
        ("write.liquid-clustering.algorithm", "magic"),
        ("write.liquid-clustering.policy", "sometimes"),
        ("write.liquid-clustering.overlap-threshold", "nan"),
        ("write.liquid-clustering.overlap-threshold", "x"),
    ],
)
def test_garbage_in_the_declaration(lake, key, value):
    address = lake.make_events(files=2, rows=50)
    with lake.table().transaction() as transaction:
        transaction.set_properties({key: value})
    location = lake.table().metadata_location
    for command in ["spec", "plan", "optimize"]:
        message = lake.run(command, address).error(1)
        assert address in message
    status = lake.ok("status", address)
    assert status["declared"] is None and status["notes"]
    assert lake.run("cubes", address).code == 0
    assert lake.table().metadata_location == location
    # Declaring again mends it.
    options = ["--target-cube-size", "64KiB", "--min-cube-size", "32KiB", "--curve", "hilbert", "--bits", "16"]
    options += ["--algorithm", "typed-quantile-rank-v1", "--policy", "size", "--theta", "0.42"]
    assert lake.ok("set", address, "--columns", "user_id,event_time", *options)["outcome"] == "committed"
    assert lake.ok("optimize", address)["outcome"] == "committed"


@pytest.mark.parametrize(
    "key",
    [
        "write.target-file-size-bytes",
        "write.parquet.row-group-size-bytes",
        "write.parquet.page-size-bytes",
        "write.parquet.compression-codec",
        "write.parquet.compression-level",
        "write.metadata.metrics.default",
        "write.metadata.compression-codec",
        "commit.retry.num-retries",
    ],
)
@pytest.mark.parametrize("value", ["", "bananas", "-7", "0", "99999999999999999999"])
def test_garbage_in_other_properties(lake, key, value):
    address = lake.make_events(files=2, rows=50)
    before = rows_of(lake.table())
    with lake.table().transaction() as transaction:
        transaction.set_properties({key: value})
    done = lake.run("optimize", address, "--full")
    assert done.code in (0, 1), done
    if done.code == 1:
        assert key in done.error(1)
    assert rows_of(lake.table()) == before


def test_renamed_and_dropped_columns(lake):
    address = lake.make_events(files=2, rows=50)
    with lake.table().update_schema() as update:
        update.rename_column("event_time", "happened_at")
    renamed = lake.ok("spec", address)
    assert [column["name"] for column in renamed["spec"]["columns"]] == ["user_id", "happened_at"]
    for command in ["spec", "status", "plan"]:
        assert any("event_time" in note and "happened_at" in note for note in lake.ok(command, address)["notes"]), (
            command
        )
        assert "note: " in lake.run(command, address).out
    assert lake.ok("set", address, "--columns", "user_id,happened_at")["outcome"] == "committed"
    assert lake.table().properties[KEYS] == "user_id,happened_at"
    assert lake.ok("spec", address)["notes"] == []
    with lake.table().update_schema(allow_incompatible_changes=True) as update:
        update.delete_column("happened_at")
    for command in ["spec", "plan", "optimize"]:
        assert "happened_at" in lake.run(command, address).error(1)
    assert any("happened_at" in note for note in lake.ok("status", address)["notes"])


# --- looking at tables


def test_status_counts_and_depth(lake):
    """Files with disjoint ranges of `a` and equal ranges of `b`: an equality opens 1 of them, and all of them."""
    table = lake.make_table("t", pa.schema([("a", pa.int64()), ("b", pa.int64()), ("c", pa.int64())]))
    for number in range(8):
        table.append(pa.table({"a": range(number * 1000, number * 1000 + 1000), "b": range(1000), "c": [7] * 1000}))
    status = lake.ok("status", "lake.db.t", "--columns", "a,b")
    files = data_files(lake.table("t"))
    assert status["units"] == len(files) == 8
    assert status["rows"] == 8000
    assert status["bytes"] == sum(size for _, size in files.values())
    by_name = {key["name"]: key for key in status["keys"]}
    assert list(by_name) == ["a", "b"]
    assert by_name["a"]["depth_mean"] == pytest.approx(1, abs=0.05)
    assert by_name["b"]["depth_mean"] == pytest.approx(8, abs=0.05)
    for key in by_name.values():
        assert {"depth_p95", "depth_max", "ideal", "efficiency"} <= key.keys()
        assert 0 < key["efficiency"] <= 1
    assert by_name["b"]["depth_max"] == pytest.approx(8, abs=0.05)
    assert isinstance(status["health"], dict)
    assert lake.ok("status", "lake.db.t")["keys"] == []
    assert "--columns" in lake.run("status", "lake.db.t").out
    assert "nothing_here" in lake.run("status", "lake.db.t", "--columns", "a,nothing_here").error(2)
    text = lake.run("status", "lake.db.t", "--columns", "a,b").out
    assert "8,000 rows" in text


def test_empty_table(lake):
    lake.make_table("empty", EVENTS, {KEYS: "user_id,event_time"})
    address = "lake.db.empty"
    status = lake.ok("status", address)
    assert (status["units"], status["rows"], status["bytes"]) == (0, 0, 0)
    assert lake.ok("cubes", address)["cubes"] == []
    assert lake.ok("history", address)["runs"] == []
    for command in ["plan", "optimize"]:
        done = lake.ok(command, address)
        assert done["outcome"] == "nothing-to-do" and done["reason"]
        assert lake.run(command, address).out.startswith("nothing to do: ")
    assert lake.table("empty").snapshots() == []


def test_undeclared_table_says_what_to_do(lake):
    address = lake.make_events(files=1, rows=10, keys=None)
    for command in ["plan", "optimize"]:
        message = lake.run(command, address).error(2)
        assert f"thalweg set {address}" in message


# --- plan and optimize


PLAN_FIELDS = {
    "policy", "outcome", "reason", "run_id", "snapshot_before", "snapshot_after", "rows", "source_units",
    "source_bytes", "output_units", "output_bytes", "spill_bytes", "peak_memory_bytes", "depth_before", "depth_after",
}  # fmt: skip


def test_plan_says_the_cost_and_changes_nothing(lake, events):
    location = lake.table().metadata_location
    listing = sorted(Path(lake.folder, "warehouse").rglob("*"))
    plan = lake.ok("plan", events)
    files = data_files(lake.table())
    assert PLAN_FIELDS <= plan.keys()
    assert plan["outcome"] == "planned"
    assert plan["snapshot_before"] == str(lake.table().current_snapshot().snapshot_id)
    assert plan["source_units"] == len(files)
    assert plan["rows"] == sum(rows for rows, _ in files.values())
    assert plan["source_bytes"] == sum(size for _, size in files.values())
    assert plan["depth_after"] < plan["depth_before"]
    assert lake.table().metadata_location == location
    assert sorted(Path(lake.folder, "warehouse").rglob("*")) == listing
    assert f"{len(files)} files" in lake.run("plan", events).out


def test_budgets_bound_a_plan(lake, events):
    files = data_files(lake.table())
    size = max(size for _, size in files.values())
    for options, bound in [
        (["--max-source-files", 3], lambda plan: plan["source_units"] <= 3),
        (["--max-source-fragments", 3], lambda plan: plan["source_units"] <= 3),
        (["--max-source-rows", 7000], lambda plan: plan["rows"] <= 7000),
        (["--max-source-bytes", 4 * size], lambda plan: plan["source_bytes"] <= 4 * size),
    ]:
        plan = lake.ok("plan", events, *options)
        assert plan["outcome"] == "planned" and plan["source_units"] >= 2 and bound(plan), options
    for options in [["--max-source-files", 0], ["--max-source-rows", 10], ["--max-source-bytes", 1]]:
        plan = lake.ok("plan", events, *options)
        assert plan["outcome"] == "nothing-to-do" and plan["source_units"] == 0
        assert options[0] in plan["reason"]
    done = lake.ok("optimize", events, "--max-source-files", 3)
    assert done["source_units"] <= 3


def test_optimize(lake, events):
    before = lake.table()
    rows = rows_of(before)
    sources = data_files(before)
    done = lake.ok("optimize", events, "--spill-dir", str(lake.folder))
    after = lake.table()
    outputs = data_files(after)
    assert PLAN_FIELDS <= done.keys()
    assert done["outcome"] == "committed"
    assert done["snapshot_before"] == str(before.current_snapshot().snapshot_id)
    assert done["snapshot_after"] == str(after.current_snapshot().snapshot_id)
    assert after.current_snapshot().summary.operation.value == "replace"
    assert done["rows"] == sum(count for count, _ in sources.values()) == sum(count for count, _ in outputs.values())
    assert (done["source_units"], done["output_units"]) == (len(sources), len(outputs))
    assert done["source_bytes"] == sum(size for _, size in sources.values())
    assert done["output_bytes"] == sum(size for _, size in outputs.values())
    assert done["spill_dir"] == str(lake.folder)
    assert done["depth_after"] < done["depth_before"]
    assert not sources.keys() & outputs.keys()
    assert rows_of(after) == rows
    assert rows == arrow_rows(pa.concat_tables([make_rows(2000, number) for number in range(8)]))

    # Again, without new data: nothing is written, nothing is committed, and it says why.
    location = after.metadata_location
    listing = sorted(Path(lake.folder, "warehouse").rglob("*"))
    again = lake.ok("optimize", events)
    assert again["outcome"] == "nothing-to-do" and again["reason"]
    assert lake.run("optimize", events).out.startswith("nothing to do: ")
    assert lake.table().metadata_location == location
    assert sorted(Path(lake.folder, "warehouse").rglob("*")) == listing

    status = lake.ok("status", events)
    assert status["depth"] == pytest.approx(done["depth_after"], rel=0.01)
    history = lake.ok("history", events)["runs"]
    assert [(run["run_id"], run["snapshot_id"]) for run in history] == [(done["run_id"], done["snapshot_after"])]
    assert history[0]["output_units"] == done["output_units"]
    cubes = lake.ok("cubes", events)
    assert sum(cube["rows"] for cube in cubes["cubes"]) == done["rows"]
    assert sum(cube["files"] for cube in cubes["cubes"]) == len(outputs)
    assert {cube["run_id"] for cube in cubes["cubes"]} == {done["run_id"]}
    assert lake.ok("cubes", events, "--rebuild")["outcome"] == "nothing-to-do"
    for command in ["cubes", "history"]:
        assert done["run_id"] in lake.run(command, events).out


def test_full_rewrites_everything(lake, events):
    lake.ok("optimize", events)
    first = data_files(lake.table())
    rows = rows_of(lake.table())
    # One run by the declaration is what --full would make: it does nothing, and says so.
    same = lake.ok("optimize", events, "--full")
    assert same["outcome"] == "nothing-to-do" and "one run" in same["reason"]
    # Other columns leave the files as they are until --full.
    lake.ok("set", events, "--columns", "country,event_time")
    status = lake.ok("status", events)
    assert status["health"]["healthy"] == 0
    done = lake.ok("optimize", events, "--full")
    assert done["outcome"] == "committed" and done["source_units"] == len(first)
    assert not first.keys() & data_files(lake.table()).keys()
    assert rows_of(lake.table()) == rows
    assert lake.ok("optimize", events, "--full")["outcome"] == "nothing-to-do"


def test_run_id_makes_a_repeated_command_safe(lake, events):
    done = lake.ok("optimize", events, "--run-id", "nightly.1")
    assert done["run_id"] == "nightly.1"
    location = lake.table().metadata_location
    for options in [[], ["--full"]]:
        again = lake.ok("optimize", events, "--run-id", "nightly.1", *options)
        assert again["outcome"] == "already-committed"
        assert again["snapshot_after"] == done["snapshot_after"]
    assert "already committed" in lake.run("optimize", events, "--run-id", "nightly.1").out
    assert lake.table().metadata_location == location


@pytest.mark.parametrize("verify", ["counts", "digest", "full"])
def test_resources(lake, events, verify):
    rows = rows_of(lake.table())
    done = lake.ok(
        "optimize", events, "--verify", verify, "--memory", "64MiB", "--threads", "1", "--target-file-size", "32KiB"
    )
    assert done["outcome"] == "committed" and done["peak_memory_bytes"] > 0
    assert rows_of(lake.table()) == rows


def test_file_size_and_rows_options(lake, events):
    lake.ok("optimize", events, "--target-rows-per-fragment", 1000)
    counts = [count for count, _ in data_files(lake.table()).values()]
    assert max(counts) <= 1200 and sum(counts) == 16000 and len(counts) >= 14


def test_spill_folder_must_be_there(lake, events):
    missing = lake.folder / "no" / "such"
    for command in ["optimize", "plan"]:
        message = lake.run(command, events, "--spill-dir", missing).error(2)
        assert str(missing) in message and "--spill-dir" in message


def test_clearing_is_never_silent(lake, events):
    done = lake.ok("optimize", events)
    files = done["output_units"]
    cleared = lake.ok("clear", events)
    expected = f"{files} file"
    assert any(expected in note and "remain" in note for note in cleared["notes"])
    for command in ["spec", "status", "cubes"]:
        assert any(expected in note for note in lake.ok(command, events)["notes"]), command
    assert expected in lake.run("optimize", events).error(2)


def test_status_lists_the_boxes_of_files(lake):
    """The ranks that a file spans are what its bounds cover of the distribution: all of it before a sort."""
    lake.make_events()
    plain = lake.ok("status", "lake.db.events")
    assert "boxes" not in plain
    status = lake.ok("status", "lake.db.events", "--boxes")
    files = {task.file.file_path: task.file.record_count for task in lake.table().scan().plan_files()}
    assert {box["unit"]: box["rows"] for box in status["boxes"]} == files
    for position, key in enumerate(status["keys"]):
        widths = [box["ranks"][position][1] - box["ranks"][position][0] for box in status["boxes"]]
        assert sum(widths) == pytest.approx(key["depth_mean"])
    lake.ok("optimize", "lake.db.events")
    boxes = lake.ok("status", "lake.db.events", "--boxes")["boxes"]
    assert all(0 <= low <= high <= 1 for box in boxes for low, high in box["ranks"])
