"""Declarations of Lance datasets: five keys of the config that stand or fall together, and their version."""

import json

import pyarrow as pa
import pytest
from lance_test_tools import DECLARATION, LanceTable, lance, make_events, needs_lance

pytestmark = needs_lance


@pytest.fixture
def table(lake):
    """A dataset without a declaration."""
    return LanceTable(lake).grow(2, 100)


def change(table: LanceTable, **values: str | None) -> None:
    """Changes keys of the namespace behind the program's back."""
    table.dataset.update_config({f"lance.clustering.{name}": value for name, value in values.items()})


# --- set, spec, clear


def test_set_spec_clear(table):
    assert table.ok("spec")["spec"] is None
    data = table.files("data")
    done = table.ok("set", "--columns", "user_id,event_time")
    assert done["outcome"] == "committed"
    assert json.loads(table.config().pop("lance.clustering.columns")) == ["user_id", "event_time"]
    assert table.config() | {"lance.clustering.columns": DECLARATION["lance.clustering.columns"]} == DECLARATION
    spec = table.ok("spec")["spec"]
    assert spec == done["spec"]
    assert [column["name"] for column in spec["columns"]] == ["user_id", "event_time"]
    assert (spec["curve"], spec["bits_per_dim"]) == ("hilbert", 16)

    assert table.ok("clear")["outcome"] == "committed"
    assert table.config() == {}
    assert table.ok("spec")["spec"] is None
    version = table.dataset.version
    assert table.ok("clear")["outcome"] == "nothing-to-do"
    assert table.dataset.version == version
    assert table.files("data") == data


def test_other_config_stays(table):
    table.dataset.update_config({"mine": "kept", "lance.compaction.target_rows_per_fragment": "1000"})
    table.dataset.update_metadata({"note": "kept"})
    table.declare()
    table.ok("set", "--curve", "zorder")
    table.ok("clear")
    assert table.dataset.config() == {"mine": "kept", "lance.compaction.target_rows_per_fragment": "1000"}
    others = {key: text for key, text in table.dataset.metadata.items() if not key.startswith("thalweg.")}
    assert others == {"note": "kept"}


def test_own_settings_stand_beside_the_namespace(table):
    table.ok("set", "--columns", "user_id,event_time", "--policy", "overlap", "--theta", "0.5")
    config = table.dataset.config()
    assert {key for key in config if key.startswith("lance.clustering.")} == set(DECLARATION)
    assert {key.split(".")[0] for key in config} == {"lance", "thalweg"}
    assert sorted(config.values())[:1] == ["0.5"] and "overlap" in config.values()


def test_a_name_that_needs_quotes(lake):
    table = LanceTable(lake)
    table.append(pa.table({'a,"b': [1, 2], "ü": [3, 4]}))
    table.ok("set", "--columns", '"a,""b",ü')
    assert json.loads(table.config()["lance.clustering.columns"]) == ['a,"b', "ü"]
    assert [column["name"] for column in table.ok("spec")["spec"]["columns"]] == ['a,"b', "ü"]


@pytest.mark.parametrize(
    "columns, algorithm",
    [
        (["flag", "i8", "u64", "f64"], "quantile-rank-v1"),
        (["f32", "text"], "quantile-rank-v1"),
        (["large_text", "u64"], "quantile-rank-v1"),
        (["date", "u64"], "typed-quantile-rank-v1"),
        (["u64", "zoned"], "typed-quantile-rank-v1"),
        (["time", "text"], "typed-quantile-rank-v1"),
        (["price", "text"], "typed-quantile-rank-v1"),
    ],
)
def test_default_algorithm(lake, columns, algorithm):
    types = {
        "flag": pa.bool_(),
        "i8": pa.int8(),
        "u64": pa.uint64(),
        "f32": pa.float32(),
        "f64": pa.float64(),
        "text": pa.string(),
        "large_text": pa.large_string(),
        "date": pa.date32(),
        "time": pa.timestamp("ns"),
        "zoned": pa.timestamp("us", "UTC"),
        "price": pa.decimal128(12, 2),
    }
    table = LanceTable(lake)
    table.append(pa.table({name: pa.nulls(3, kind) for name, kind in types.items()}))
    table.ok("set", "--columns", ",".join(columns))
    assert table.config()["lance.clustering.algorithm"] == algorithm
    asked = table.ok("set", "--columns", ",".join(columns), "--algorithm", "typed-quantile-rank-v1")
    assert asked["outcome"] == ("committed" if algorithm == "quantile-rank-v1" else "nothing-to-do")
    narrow = table.run("set", "--columns", ",".join(columns), "--algorithm", "quantile-rank-v1")
    assert narrow.code == (0 if algorithm == "quantile-rank-v1" else 2), narrow
    assert narrow.code == 0 or "quantile-rank-v1" in narrow.error(2)


def test_the_algorithm_follows_other_columns(table):
    table.ok("set", "--columns", "user_id,country")
    assert table.config()["lance.clustering.algorithm"] == "quantile-rank-v1"
    # Nobody has asked for that algorithm: columns that it does not take are no error.
    table.ok("set", "--columns", "user_id,event_time")
    assert table.config()["lance.clustering.algorithm"] == "typed-quantile-rank-v1"


# --- versions


def test_versions(table):
    def declared() -> str:
        return table.config()["lance.clustering.version"]

    table.declare()
    assert declared() == "1"
    version = table.dataset.version
    for repeated in [["--columns", "user_id,event_time"], ["--version", "1"], ["--curve", "hilbert"]]:
        assert table.ok("set", *repeated)["outcome"] == "nothing-to-do"
    assert table.dataset.version == version

    assert table.ok("set", "--columns", "user_id,amount")["outcome"] == "committed"
    assert declared() == "2"
    for options in [["--curve", "zorder"], ["--bits", "12"], ["--columns", "amount,user_id"]]:
        for bad in ["0", "-1", "1", "2"]:
            message = table.run("set", *options, "--version", bad).error(2)
            assert "version" in message
            if int(bad) > 0:
                assert bad in message and "above 2" in message
    assert table.run("set", "--version", "1").code == 2
    assert (declared(), table.config()["lance.clustering.curve"]) == ("2", "hilbert")

    # Only raising is allowed too.
    assert table.ok("set", "--version", "7")["outcome"] == "committed"
    assert declared() == "7"
    assert table.ok("set", "--curve", "zorder", "--version", "9")["outcome"] == "committed"
    assert declared() == "9"
    assert table.ok("set", "--bits", "20")["outcome"] == "committed"
    assert declared() == "10"


@pytest.mark.parametrize("value", ["99999999999999999999", "1.5", "one", ""])
def test_versions_that_are_no_numbers(table, value):
    assert "--version" in table.run("set", "--columns", "user_id,event_time", "--version", value).error(2)


def test_a_raised_version_makes_fragments_stale(lake):
    table = make_events(lake, 3)
    table.optimize()
    assert table.unclustered() == 0
    table.ok("set", "--version", "4")
    assert table.unclustered() == len(table.fragment_rows())
    report = table.optimize()
    assert (report["outcome"], report["rows"]) == ("committed", 1500)
    assert table.unclustered() == 0


def test_clearing_keeps_stamps_and_declaring_again_goes_above_them(lake):
    table = make_events(lake, 3)
    table.ok("set", "--version", "5")
    table.optimize()
    before = table.records()
    assert before
    table.ok("clear")
    assert table.records() == before
    for command in ["spec", "status", "cubes"]:
        notes = " ".join(table.ok(command)["notes"])
        assert "clear" in notes or "not declared" in notes, (command, notes)
    for command in ["optimize", "plan"]:
        assert "set" in table.run(command).error(table.run(command).code)
    for bad in ["1", "5"]:
        assert "above 5" in table.run("set", "--columns", "user_id,event_time", "--version", bad).error(2)
    assert table.config() == {}
    table.declare()
    assert table.config()["lance.clustering.version"] == "6"
    # The stamps are older than that.
    assert table.unclustered() == len(table.fragment_rows())


# --- broken declarations

LOOKING = ["status", "cubes"]
OTHERS = ["spec", "plan", "optimize"]


def check_reported(table: LanceTable, *expected: str) -> None:
    """Each command speaks of it: looking goes on, all others refuse."""
    data, version = table.files("data"), table.dataset.version
    for command in LOOKING:
        notes = " ".join(table.ok(command)["notes"])
        assert all(word in notes for word in expected), (command, notes)
    source = table.lake.write_parquet("more.parquet", table.dataset.to_table())
    for command in [*([one] for one in OTHERS), ["write", source]]:
        done = table.run(*command)
        message = done.error(done.code)
        assert done.code in (1, 2) and all(word in message for word in expected), (command, message)
    assert (table.files("data"), table.dataset.version) == (data, version)


@pytest.mark.parametrize("name", ["columns", "curve", "version", "bits_per_dim", "algorithm"])
def test_one_key_is_missing(table, name):
    table.declare()
    change(table, **{name: None})
    check_reported(table, f"lance.clustering.{name}")


@pytest.mark.parametrize(
    "name, value",
    [
        ("columns", "user_id,event_time"),
        ("columns", '["user_id","event_time"'),
        ("columns", "[]"),
        ("columns", '{"a": 1}'),
        ("columns", '["user_id", 7]'),
        ("columns", '"user_id"'),
        ("columns", '["user_id","event_time","country","amount","id"]'),
        ("columns", '["user_id","user_id"]'),
        ("columns", '["user_id","no_such"]'),
        ("columns", '["user_id",""]'),
        ("curve", "peano"),
        ("curve", "Hilbert"),
        ("curve", ""),
        ("version", "0"),
        ("version", "-3"),
        ("version", "1.0"),
        ("version", " 1"),
        ("version", "99999999999999999999"),
        ("bits_per_dim", "0"),
        ("bits_per_dim", "33"),
        ("bits_per_dim", "many"),
        ("algorithm", "quantile-rank-v2"),
        ("algorithm", "quantile-rank-v1"),  # event_time is none of its types
        ("algorithm", ""),
    ],
)
def test_malformed_values(table, name, value):
    table.declare()
    change(table, **{name: value})
    columns_problem = name == "columns" and ("no_such" in value or '"user_id","user_id"' in value or '""' in value)
    by_type = (name, value) == ("algorithm", "quantile-rank-v1")
    check_reported(table, "user_id" if '"user_id","user_id"' in value else "event_time" if by_type else
                   "column" if columns_problem else f"lance.clustering.{name}")  # fmt: skip
    # Declaring anew mends it, and so does clearing.
    table.ok("set", "--columns", "user_id,event_time")
    assert len(table.config()) == 5
    assert table.ok("spec")["spec"]["curve"] == "hilbert"


def test_values_out_of_a_newer_world(table):
    table.declare()
    change(table, direction="up")
    check_reported(table, "lance.clustering.direction")
    table.ok("clear")
    assert table.config() == {}


def test_control_characters_stay_on_one_line(table):
    table.declare()
    change(table, curve="peano\n\x1b[31m", columns='["user_id","\\nevent\\u001b_time"]')
    for command in OTHERS:
        message = table.run(command).error(table.run(command).code)
        assert "\x1b" not in message


# --- columns


@pytest.fixture
def odd(lake):
    """A dataset with columns that can be no keys."""
    inner = pa.struct([("x", pa.int64())])
    schema = pa.schema(
        [("a", pa.int64()), ("b", pa.int64()), ("c", pa.int64()), ("d", pa.int64()), ("e", pa.int64())]
        + [("inner", inner), ("bytes", pa.binary()), ("tags", pa.list_(pa.string())), ("user_id", pa.int64())]
        + [("vector", pa.list_(pa.float32(), 4)), ("wide", pa.decimal256(50, 2)), ("clock", pa.time64("us"))]
    )
    table = LanceTable(lake)
    table.append(pa.table({field.name: pa.nulls(3, field.type) for field in schema}, schema=schema))
    return table


@pytest.mark.parametrize(
    "columns, expected",
    [
        ("a", "--allow-single"),
        ("a,b,c,d,e", "four"),
        ("a,a", "twice"),
        ("a,inner.x", "nested"),
        ("a,inner", "inner"),
        ("a,bytes", "bytes"),
        ("a,tags", "tags"),
        ("a,vector", "vector"),
        ("a,wide", "wide"),
        ("a,clock", "clock"),
        ("a,usr_id", "user_id"),
        ("a,nothing_like_it", "nothing_like_it"),
        ("a,_rowid", "_rowid"),
        ("a,,b", "empty"),
    ],
)
def test_columns_that_are_refused(odd, columns, expected):
    version = odd.dataset.version
    assert expected in odd.run("set", "--columns", columns).error(2)
    assert odd.dataset.version == version


def test_one_column(odd):
    assert odd.ok("set", "--columns", "a", "--allow-single")["outcome"] == "committed"
    assert json.loads(odd.config()["lance.clustering.columns"]) == ["a"]


def test_options_of_iceberg_and_nonsense(odd):
    for options, expected in [
        (["--target-cube-size", "1GiB"], "cube"),
        (["--bits", "33"], "33"),
        (["--bits", "0"], "bits"),
        (["--theta", "1.5"], "1.5"),
    ]:
        assert expected in odd.run("set", "--columns", "a,b", *options).error(2), options
    assert odd.config() == {}


def replace_key(dataset) -> None:
    """Lance casts no key to a type that can be none; but a column of that name may come anew."""
    dataset.drop_columns(["user_id"])
    dataset.add_columns(pa.field("user_id", pa.binary()))


@pytest.mark.parametrize(
    "alter, expected",
    [
        (lambda dataset: dataset.drop_columns(["event_time"]), "event_time"),
        (lambda dataset: dataset.alter_columns({"path": "user_id", "name": "uid"}), "user_id"),
        (replace_key, "user_id"),
    ],
    ids=["dropped", "renamed", "replaced"],
)
def test_a_schema_change_that_breaks_it_is_reported(lake, alter, expected):
    table = make_events(lake, 2, 200)
    table.optimize()
    alter(table.dataset)
    before = table.rows()
    check_reported(table, expected)
    assert table.rows() == before
    # Declared anew by what is there, it can be sorted again.
    table.ok("set", "--columns", "id,amount")
    assert table.config()["lance.clustering.version"] == "2"
    assert table.optimize()["rows"] == 400
    assert table.rows() == before


def test_a_schema_change_that_does_not_break_it(lake):
    table = make_events(lake, 2, 200)
    table.dataset.alter_columns({"path": "amount", "name": "price"})
    table.dataset.add_columns({"twice": "id * 2"})
    table.dataset.drop_columns(["country"])
    before = table.rows()
    assert table.config() and table.ok("spec")["spec"]
    assert table.optimize()["outcome"] == "committed"
    assert table.rows() == before == table.rows_by_duckdb()
    assert lance.dataset(str(table.path)).schema.names == ["id", "user_id", "event_time", "price", "twice"]
