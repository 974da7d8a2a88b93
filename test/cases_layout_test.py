"""Where rows lie after a run: files along the curve, what is rewritten and what stays, and how many files open."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.expressions import And, EqualTo, GreaterThanOrEqual, IsNull, LessThan
from thalweg_test_tools import (
    EVENTS,
    KEYS,
    PROGRAM,
    SMALL_CUBES,
    Lake,
    OracleKeys,
    data_files,
    local_path,
    make_rows,
    planned_files,
    rows_of,
)

MIB = 1 << 20
PREFIX = "https://example.org/a/rather/long/path/that/all/of/them/share/p="
assert len(PREFIX) == 64


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """One lake for the tables that tests of this module only look at."""
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is not built")
    return Lake(tmp_path_factory.mktemp("layout") / "lake")


def make(lake, name: str, rows: pa.Table, batches: int, properties: dict[str, str]) -> str:
    """A table of `batches` appended slices of the rows; its address."""
    table = lake.make_table(name, rows.schema, SMALL_CUBES | properties)
    size = -(-rows.num_rows // batches)
    for begin in range(0, rows.num_rows, size):
        table.append(rows.slice(begin, size))
    return f"lake.db.{name}"


def optimize_to_the_end(lake, address: str, *options, most: int = 40) -> list[dict]:
    """Runs until there is nothing to do; the reports. The last run must not have touched anything."""
    name = address.rsplit(".", 1)[1]
    reports = []
    while len(reports) < most:
        location = lake.table(name).metadata_location
        listing = sorted(Path(lake.folder, "warehouse", "db", name).rglob("*"))
        report = lake.ok("optimize", address, *options)
        if report["outcome"] == "nothing-to-do":
            assert report["reason"]
            assert (report["source_units"], report["output_units"]) == (0, 0)
            assert lake.table(name).metadata_location == location
            assert sorted(Path(lake.folder, "warehouse", "db", name).rglob("*")) == listing
            return reports
        reports.append(report)
    raise AssertionError(f"no end after {most} runs")


def check_curve(sources, outputs, columns: list[str]) -> None:
    """Files of one run do not overlap along the curve, and rows within a file are in its order."""
    keys = OracleKeys(sources, columns)
    ranges = []
    for path in outputs:
        of_file = keys.of_file(path)
        assert of_file == sorted(of_file), path
        ranges.append((of_file[0], of_file[-1]))
    ranges.sort()
    for (_, last), (first, _) in zip(ranges, ranges[1:], strict=False):
        assert last <= first


def files_opened(table, name: str, values) -> float:
    """The mean number of files that an equality opens."""
    return float(np.mean([len(planned_files(table, EqualTo(name, value))) for value in values]))


# --- files along the curve, whatever caps apply


@pytest.mark.parametrize(
    "options",
    [[], ["--target-rows-per-file", "500"], ["--target-file-size", "4KiB"], ["--max-task-bytes", "90KB"]],
    ids=["cubes", "rows", "bytes", "tasks"],
)
def test_files_of_a_run_never_overlap_on_the_curve(lake, options):
    address = lake.make_events(files=5, rows=2000)
    sources = data_files(lake.table())
    report = lake.ok("optimize", address, *options)
    outputs = data_files(lake.table())
    assert report["output_units"] == len(outputs) > 5
    check_curve(sources, outputs, ["user_id", "event_time"])


def test_keys_follow_the_sample_of_row_addresses(lake):
    # Encoded values are so long that only some rows fit into the sample: which ones is decided by the position of a
    # file among the paths, the row in its file, and the column in the schema.
    rng = np.random.default_rng(4)
    count = 12_000
    # The beginning is shared, so that bytes behind the 900th decide.
    text = ["k" * 900 + f"{value:012x}" for value in rng.integers(0, 1 << 48, count)]
    rows = pa.table(
        {
            "pad": pa.array(rng.random(count)),
            "text": pa.array(text, mask=rng.random(count) < 0.05),
            "amount": pa.array(rng.normal(size=count), mask=rng.random(count) < 0.05),
        }
    )
    address = make(lake, "t", rows, 3, {KEYS: "amount,text"})
    sources = data_files(lake.table("t"))
    lake.ok("optimize", address, "--target-rows-per-file", 800)
    oracle = OracleKeys(sources, ["amount", "text"])
    assert len(oracle.models[1]) < 0.8 * count
    check_curve(sources, data_files(lake.table("t")), ["amount", "text"])


def test_an_append_rewrites_partial_cubes_and_leaves_healthy_ones(lake):
    cubes = ["--target-cube-size", "64KiB", "--min-cube-size", "32KiB"]
    address = lake.make_events(files=8, rows=2000)
    lake.ok("set", address, *cubes)
    sources = data_files(lake.table())
    lake.ok("optimize", address)
    first = data_files(lake.table())
    listed = lake.ok("cubes", address)["cubes"]
    assert len(listed) > 3 and {cube["health"] for cube in listed} == {"healthy"}
    assert all(32 * 1024 <= cube["bytes"] <= 1.5 * 64 * 1024 for cube in listed)
    check_curve(sources, first, ["user_id", "event_time"])

    # A small append becomes a run of its own, a partial cube.
    lake.table().append(make_rows(300, 100))
    small = data_files(lake.table()).keys() - first.keys()
    report = lake.ok("optimize", address)
    second = data_files(lake.table())
    assert report["source_units"] == len(small) and report["source_bytes"] < 32 * 1024
    assert first.keys() <= second.keys() and not small & second.keys()
    assert [cube["health"] for cube in lake.ok("cubes", address)["cubes"]].count("partial") == 1
    partial = second.keys() - first.keys()
    assert lake.ok("optimize", address)["outcome"] == "nothing-to-do"

    # The next one takes it along, and nothing else.
    lake.table().append(make_rows(2500, 101))
    sources = data_files(lake.table()).keys() - first.keys()
    assert partial < sources
    report = lake.ok("optimize", address)
    third = data_files(lake.table())
    assert report["source_units"] == len(sources)
    assert first.keys() <= third.keys() and not sources & third.keys()
    check_curve(sources, third.keys() - first.keys(), ["user_id", "event_time"])
    assert {cube["health"] for cube in lake.ok("cubes", address)["cubes"]} == {"healthy"}
    assert lake.ok("optimize", address)["outcome"] == "nothing-to-do"


# --- full rewrites


def test_full_rewrites_several_runs_once(lake):
    address = lake.make_events(files=4, rows=2000)
    lake.ok("optimize", address)
    lake.table().append(make_rows(4000, 50))
    lake.ok("optimize", address)
    before = data_files(lake.table())
    rows = rows_of(lake.table())
    report = lake.ok("optimize", address, "--full")
    after = data_files(lake.table())
    assert report["outcome"] == "committed" and report["source_units"] == len(before)
    assert not before.keys() & after.keys() and rows_of(lake.table()) == rows
    check_curve(before, after, ["user_id", "event_time"])
    # On a perfect table it does nothing, and says why.
    done = lake.run("optimize", address, "--full")
    assert done.code == 0 and done.out.startswith("nothing to do: ") and "one run" in done.out
    assert data_files(lake.table()) == after


@pytest.mark.parametrize(
    "change",
    [["--columns", "event_time,country"], ["--columns", "event_time,user_id"], ["--curve", "zorder"], ["--bits", "8"]],
    ids=["columns", "order", "curve", "bits"],
)
def test_full_after_another_declaration_rewrites_everything_once(lake, change):
    address = lake.make_events(files=4, rows=2000)
    lake.ok("optimize", address)
    before = data_files(lake.table())
    rows = rows_of(lake.table())
    lake.ok("set", address, *change)
    # Only what is written from now on follows the new declaration.
    assert lake.ok("optimize", address)["outcome"] == "nothing-to-do"
    assert lake.ok("plan", address, "--full")["source_units"] == len(before)
    assert lake.ok("optimize", address, "--full")["source_units"] == len(before)
    after = data_files(lake.table())
    assert not before.keys() & after.keys() and rows_of(lake.table()) == rows
    assert "nothing to do: " in lake.run("optimize", address, "--full").out
    assert data_files(lake.table()) == after


# --- nothing twice, and an end


def adversarial(kind: str) -> pa.Table:
    rng = np.random.default_rng(11)
    count = 6000
    even = rng.integers(0, 1_000_000, count)
    hot = np.where(rng.random(count) < 0.6, 777, even)
    a, b = {
        "equal": (np.full(count, 5), np.full(count, 5)),
        "hot": (hot, rng.integers(0, 1_000_000, count)),
        "hot pair": (hot, hot),
        "two values": (even % 2, even // 2 % 2),
        "null": (None, None),
        "half null": (None, even),
        "sorted": (np.arange(count), np.arange(count)),
        "even": (even, rng.integers(0, 1_000_000, count)),
    }[kind]
    columns = [pa.nulls(count, pa.int64()) if values is None else pa.array(values) for values in (a, b)]
    return pa.table([*columns, pa.array(rng.random(count))], names=["a", "b", "x"])


KINDS = ["equal", "hot", "hot pair", "two values", "null", "half null", "sorted", "even"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_run_has_nothing_to_do(shared, kind):
    name = "once_" + kind.replace(" ", "_")
    address = make(shared, name, adversarial(kind), 6, {KEYS: "a,b"})
    rows = rows_of(shared.table(name))
    assert len(optimize_to_the_end(shared, address)) == 1
    assert rows_of(shared.table(name)) == rows


@pytest.mark.parametrize(
    "properties, rows",
    [
        ({}, 3),  # far below every target
        ({"write.target-file-size-bytes": "1"}, 40),  # no file can be that small
        ({"write.target-file-size-bytes": str(64 * MIB)}, 4000),  # nor that large
        (
            {"write.liquid-clustering.target-cube-size-bytes": "2", "write.liquid-clustering.min-cube-size-bytes": "1"},
            900,
        ),
        ({"write.liquid-clustering.target-cube-size-bytes": str(1 << 40)}, 4000),
    ],
    ids=["tiny", "smallest", "largest", "tiny cubes", "huge cubes"],
)
def test_files_that_cannot_reach_their_target_are_left_alone(lake, properties, rows):
    address = make(lake, "t", make_rows(rows, 1), 3, {KEYS: "user_id,event_time"})
    # Only now: PyIceberg follows the file size, too.
    with lake.table("t").transaction() as transaction:
        transaction.set_properties(properties)
    assert len(optimize_to_the_end(lake, address)) <= 2
    with lake.table("t").transaction() as transaction:
        transaction.set_properties({"write.target-file-size-bytes": str(MIB)})
    lake.table("t").append(make_rows(max(1, rows // 10), 2))
    with lake.table("t").transaction() as transaction:
        transaction.set_properties(properties)
    assert len(optimize_to_the_end(lake, address)) <= 2


@pytest.mark.parametrize(
    "kind, budget",
    [(kind, ["--max-source-files", "3"]) for kind in KINDS]
    + [(kind, ["--max-source-bytes", "60KB"]) for kind in ("even", "hot", "null")],
)
def test_bounded_runs_end(shared, kind, budget):
    name = f"bounded_{kind.replace(' ', '_')}_{budget[1]}"
    address = make(shared, name, adversarial(kind), 6, {KEYS: "a,b"})
    rows = rows_of(shared.table(name))
    before = shared.ok("status", address)["depth"]
    limit = {"3": 3, "60KB": 60_000}[budget[1]]
    field = {"3": "source_units", "60KB": "source_bytes"}[budget[1]]
    reports = optimize_to_the_end(shared, address, *budget)
    assert reports and all(report[field] <= limit for report in reports)
    assert rows_of(shared.table(name)) == rows
    # Every run is one sort; a key that was in order before is so within each run.
    assert shared.ok("status", address)["depth"] <= max(before * 1.01, 1.2 * len(reports))


# --- nulls


@pytest.mark.parametrize("kind", ["long", "string", "timestamp"])
def test_nulls_and_values_prune_separately(shared, kind):
    rng = np.random.default_rng(3)
    count = 20_000
    numbers = rng.integers(0, 1000, count)
    values = {
        "long": pa.array(numbers),
        "string": pa.array([f"{value:04}" for value in numbers]),
        "timestamp": pa.array(numbers * 3_600_000_000, pa.timestamp("us")),
    }[kind]
    null = rng.random(count) < 0.2
    values = pa.array(values.to_pylist(), values.type, mask=null)
    rows = pa.table({"key": values, "other": pa.array(rng.random(count))})
    name = f"nulls_{kind}"
    address = make(shared, name, rows, 4, {KEYS: "key,other"})
    shared.ok("optimize", address, "--target-rows-per-file", 200)
    table = shared.table(name)
    files = data_files(table)
    assert len(files) >= 80
    literal = {
        "long": lambda value: value,
        "string": lambda value: f"{value:04}",
        "timestamp": lambda value: str(np.datetime64(value * 3_600_000_000, "us")),
    }[kind]
    nulls = planned_files(table, IsNull("key"))
    assert 0.2 * len(files) <= len(nulls) <= 0.3 * len(files)
    # Nulls lie beyond the largest value: no other value shares a file with them, and the largest at most the files at
    # that border.
    for value in [0, 250, 500, 750]:
        equal = planned_files(table, EqualTo("key", literal(value)))
        assert equal and not equal & nulls, value
        assert len(equal) <= 2.5 * len(files) ** 0.5
    assert len(planned_files(table, EqualTo("key", literal(999))) & nulls) <= 1.5 * len(files) ** 0.5


# --- strings and ranges


def test_long_common_prefixes_prune_as_well_as_short_strings(shared):
    rng = np.random.default_rng(9)
    count = 16_000
    numbers = rng.integers(0, 1 << 40, count)
    other = rng.integers(0, 1_000_000, count)
    opened = {}
    for name, prefix in [("short", ""), ("long", PREFIX), ("wide", "é" * 40)]:
        text = [f"{prefix}{value:010x}" for value in numbers]
        rows = pa.table({"text": pa.array(text), "other": pa.array(other), "n": pa.array(range(count))})
        address = make(shared, f"prefix_{name}", rows, 4, {KEYS: "text,other"})
        shared.ok("optimize", address, "--target-rows-per-file", 250)
        table = shared.table(f"prefix_{name}")
        asked = range(0, count, 331)
        opened[name] = (
            files_opened(table, "text", [text[row] for row in asked]),
            files_opened(table, "other", [int(other[row]) for row in asked]),
        )
        files = len(data_files(table))
        assert opened[name][0] < 0.3 * files
        # And no answer is lost to a bound that was cut.
        for row in (0, 7777, count - 1):
            found = table.scan(row_filter=EqualTo("text", text[row])).to_arrow()
            assert row in found["n"].to_pylist() and set(found["text"].to_pylist()) == {text[row]}
    for name in ("long", "wide"):
        assert opened[name] == pytest.approx(opened["short"], rel=0.1), opened


def test_keys_of_unequal_ranges_prune_alike(shared):
    rng = np.random.default_rng(23)
    count = 16_000
    rows = pa.table(
        {
            "small": pa.array(rng.random(count)),
            "large": pa.array(rng.random(count) * 1e12),
            "skew": pa.array(np.floor(np.exp(rng.random(count) * 25)).astype(np.int64)),
        }
    )
    for columns in (["small", "large"], ["large", "skew"], ["small", "large", "skew"]):
        name = "ranges_" + "_".join(columns)
        address = make(shared, name, rows, 4, {KEYS: ",".join(columns)})
        shared.ok("optimize", address, "--target-rows-per-file", 250)
        table = shared.table(name)
        files = len(data_files(table))
        opened = []
        for column in columns:
            ranked = np.sort(rows[column].to_numpy())
            borders = [(ranked[begin].item(), ranked[begin + 160].item()) for begin in range(0, count - 160, 1000)]
            ranges = [And(GreaterThanOrEqual(column, low), LessThan(column, high)) for low, high in borders]
            opened.append(float(np.mean([len(planned_files(table, condition)) for condition in ranges])))
        # One percent of the rows: about the (N-1)/N-th power of the files, of each key.
        assert max(opened) < 0.45 * files, opened
        assert max(opened) < 1.35 * min(opened), opened


# --- tasks and hot values


def test_tasks_stay_below_their_cap_and_apart(lake):
    address = make(lake, "t", adversarial("hot"), 6, {KEYS: "a,b"})
    size = sum(size for _, size in data_files(lake.table("t")).values())
    cap = size // 4
    folder = lake.folder / "tasks"
    plan = lake.ok("plan", address, "--max-task-bytes", cap, "--tasks-out", folder)
    tasks = [json.loads(path.read_text()) for path in sorted(folder.glob("task-*.json"))]
    assert len(tasks) == sum(selection["tasks"] for selection in plan["selections"]) >= 4
    outputs = []
    for number in range(len(tasks)):
        result = folder / f"result-{number}.json"
        done = lake.ok("execute", folder / f"task-{number:05}.json", "--out", result)
        # Slices are of about equal rows, so a slice may be a little above its share.
        assert done["output_bytes"] <= 1.25 * cap
        outputs.append(result)
    sources = data_files(lake.table("t"))
    lake.ok("commit", address, *outputs)
    check_curve(sources, data_files(lake.table("t")), ["a", "b"])


@pytest.mark.parametrize("kind", ["hot", "hot pair", "equal", "null"])
def test_files_of_a_hot_value_keep_their_window(shared, kind):
    name = "window_" + kind.replace(" ", "_")
    rng = np.random.default_rng(22)
    rows = adversarial(kind).append_column("pad", pa.array(rng.integers(0, 1 << 62, 6000)))
    properties = {KEYS: "a,b", "write.liquid-clustering.target-cube-size-bytes": str(10 * MIB)}
    address = make(shared, name, rows, 3, properties)
    target = 12 * 1024
    shared.ok("optimize", address, "--target-file-size", target)
    sizes = [size for _, size in data_files(shared.table(name)).values()]
    assert len(sizes) >= 5
    assert max(sizes) <= 1.2 * target and min(sizes) >= 0.8 * target, sizes


def test_rows_per_file_are_a_hard_cap(shared):
    address = make(shared, "rows_cap", adversarial("hot pair"), 3, {KEYS: "a,b"})
    shared.ok("optimize", address, "--target-rows-per-file", 300)
    rows = [count for count, _ in data_files(shared.table("rows_cap")).values()]
    assert max(rows) <= 300 and min(rows) >= 0.67 * 300 - 1 and sum(rows) == 6000


# --- what a plan says


def test_an_empty_plan_names_its_reason(lake):
    # The reason is in the sentence and in the object, and another one for every cause.
    reasons = {}
    lake.make_table("empty", EVENTS, {KEYS: "user_id,event_time"})
    reasons["empty"] = lake.ok("optimize", "lake.db.empty")
    address = lake.make_events(files=4, rows=1000)
    reasons["budget"] = lake.ok("optimize", address, "--max-source-bytes", 1)
    lake.ok("optimize", address)
    reasons["healthy"] = lake.ok("optimize", address)
    reasons["perfect"] = lake.ok("optimize", address, "--full")
    lake.table().append(make_rows(50, 9))
    lake.ok("optimize", address)
    reasons["partial"] = lake.ok("optimize", address)
    assert {report["outcome"] for report in reasons.values()} == {"nothing-to-do"}
    assert len({report["reason"] for report in reasons.values()}) == len(reasons), reasons
    for name in ("healthy", "partial"):
        assert reasons[name]["reason"]
    assert lake.run("optimize", address).out == f"nothing to do: {reasons['partial']['reason']}\n"


def test_rows_in_a_file_are_in_key_order_by_row_group(lake):
    # Readers prune row groups and pages by their statistics as they prune files.
    rows = make_rows(20_000, 5)
    properties = {KEYS: "user_id,event_time", "write.target-file-size-bytes": str(10 * MIB)}
    properties |= {"write.liquid-clustering.target-cube-size-bytes": str(20 * MIB)}
    properties |= {"write.parquet.row-group-size-bytes": str(32 * 1024)}
    address = make(lake, "t", rows, 2, properties)
    sources = data_files(lake.table("t"))
    lake.ok("optimize", address)
    (path,) = data_files(lake.table("t"))
    file = pq.ParquetFile(local_path(path))
    groups = file.metadata.num_row_groups
    assert groups >= 8
    check_curve(sources, [path], ["user_id", "event_time"])
    hit = 0
    for value in range(0, 1_000_000, 50_000):
        for group in range(groups):
            ends = file.metadata.row_group(group).column(0).statistics
            hit += ends.min <= value <= ends.max
    assert hit / 20 < 0.6 * groups
