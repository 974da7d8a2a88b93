"""The policy overlap on real tables of both formats: what it rewrites, what it leaves, and where it ends."""

import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from overlap_tools import APPENDED, KINDS, PROMISE, OverlapTable, grown, make_rows, spread
from thalweg_test_tools import PROGRAM, Lake, OracleKeys

needs_program = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")
pytestmark = needs_program


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """One for all tests: each makes a table of its own."""
    return Lake(tmp_path_factory.mktemp("overlap") / "lake")


@pytest.mark.parametrize("kind", KINDS)
def test_an_append_of_a_fortieth_rewrites_a_small_part(lake, kind):
    table = grown(lake, kind, [40_000])
    table.optimize()
    shares = []
    for number in range(6):
        first = table.expected.num_rows
        table.append(make_rows(1000, 50 + number, first))
        size = table.status()["bytes"]
        plan = table.ok("plan")
        assert plan["policy"] == "overlap"
        report = table.optimize()
        assert report["source_bytes"] == plan["source_bytes"], "the plan says other bytes than the run reads"
        shares.append(64 * report["source_bytes"] / size)
    # A fortieth is 1.6 of 64 parts. What the program appends is sorted already and need not be touched at all.
    print(f"{kind}: rewritten of 64 parts: {[round(share, 1) for share in shares]}")
    assert shares[0] <= 4, f"the first append of 1/40 rewrote {shares[0]:.1f} of 64 parts"
    assert np.mean(shares) <= 10, f"appends of 1/40 rewrote {np.mean(shares):.1f} of 64 parts each: {shares}"


@pytest.mark.parametrize("kind", APPENDED)
def test_a_late_band_is_sorted_where_it_lies(lake, kind):
    # New rows lie within a twentieth of the key "a": what lies elsewhere is left alone.
    table = grown(lake, kind, [30_000])
    table.optimize()
    low, high = 0.5, 0.55
    for number in range(6):
        first = table.expected.num_rows
        table.append(make_rows(700, 70 + number, first, low, high))
    before = table.units()
    lower, upper, _ = table.bounds("a")
    within = int(np.sum((lower <= high * 1e9) & (upper >= low * 1e9)))
    reports = table.optimize_to_the_end(most=4)
    kept = len(before & table.units())
    assert reports and kept >= len(before) - within, f"{kept} of {len(before)} units kept, {within} reach into the band"


# --- budgets


@pytest.mark.parametrize("kind", APPENDED)
def test_bounded_runs_converge_to_the_depth_of_one_sort(lake, kind):
    # Rows so wide that a file is hardly larger than its rows, and so many files that a budget holds some of each run.
    table = OverlapTable(lake, kind, small_units=False)
    size = ["--target-rows-per-file", 200]
    rng = np.random.default_rng(1)
    for number in range(20):
        rows = make_rows(2000, number, 2000 * number)
        for column in range(6):
            rows = rows.append_column(f"x{column}", pa.array(rng.random(2000)))
        table.append(rows)
    runs, outcome = 0, "committed"
    while outcome == "committed":
        budget = table.status()["bytes"] // 10
        report = table.ok("optimize", "--max-source-bytes", budget, *size)
        outcome = report["outcome"]
        assert report["source_bytes"] <= budget, f"a run read {report['source_bytes']} bytes, the budget is {budget}"
        runs += 1
        assert runs <= 60, "no end within 60 runs"
    table.check_rows()
    status = table.status()
    assert status["health"]["unclustered_units"] == 0, report["reason"]
    depth, full = status["depth"], table.optimize("--full", *size)["depth_after"]
    text = f"{kind}: {runs} runs end at depth {depth:.2f}, one full sort has {full:.2f}: {depth / full:.2f} times it"
    print(text)
    # 1.16 to 1.21 in 31 to 35 runs seen.
    assert runs <= 45, text
    assert depth <= 1.3 * full, text


@pytest.mark.parametrize("kind", APPENDED)
def test_a_budget_below_the_first_useful_rewrite_says_so(lake, kind):
    table = grown(lake, kind, [2000, 2000])
    units = table.units()
    report = table.ok("optimize", "--max-source-bytes", 1000)
    assert table.units() == units
    assert report["outcome"] == "nothing-to-do" and "--max-source-bytes" in report["reason"], report["reason"]


# --- an end, whatever the rows are


def adversarial(kind: str, count: int, seed: int, first_id: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    even = rng.integers(0, 1_000_000, count)
    other = rng.integers(0, 1_000_000, count)
    equal = np.full(count, 5)
    hot = np.where(rng.random(count) < 0.6, 777, even)
    null, flags = pa.nulls(count, pa.int64()), pa.array(even % 2 == 0)
    columns = {
        "equal": (equal, equal),
        "hot": (hot, other),
        "hot pair": (hot, np.where(rng.random(count) < 0.6, 333, other)),
        "null": (null, null),
        "half null": (pa.array(even, mask=rng.random(count) < 0.5), other),
        "boolean": (flags, other),
        "booleans": (flags, pa.array(other % 3 == 0)),
        "constant": (equal, other),
    }[kind]
    return pa.table([pa.array(np.arange(first_id, first_id + count)), *map(pa.array, columns)], ["id", "a", "b"])


ADVERSARIES = ["equal", "hot", "hot pair", "null", "half null", "boolean", "booleans", "constant"]


@pytest.mark.parametrize("adversary", ADVERSARIES)
@pytest.mark.parametrize("kind", APPENDED)
def test_adversarial_tables_end(lake, kind, adversary):
    table = OverlapTable(lake, kind)
    for part in range(5):
        table.append(adversarial(adversary, 2000, part, 2000 * part))
    runs = len(table.optimize_to_the_end(most=3))
    table.append(adversarial(adversary, 1500, 9, 10_000))
    more = len(table.optimize_to_the_end(most=3))
    assert runs == 1 and more >= 1, f"{adversary}: {runs} and {more} runs"


@pytest.mark.parametrize("adversary", ["equal", "hot", "null", "booleans"])
def test_bounded_runs_on_adversarial_tables_end(lake, adversary):
    table = OverlapTable(lake, "lance")
    for part in range(5):
        table.append(adversarial(adversary, 2000, part, 2000 * part))
    budget = table.status()["bytes"] // 3
    reports = table.optimize_to_the_end("--max-source-bytes", budget, most=25)
    assert reports and all(report["source_bytes"] <= budget for report in reports)


# --- keys of which nothing is known


def without_statistics(kind: str, count: int, seed: int, first_id: int) -> pa.Table:
    """A key "a" of which a sort's own files have no statistics in the format, or hardly any."""
    rng = np.random.default_rng(seed)
    if kind == "decimal":
        a = pa.array([Decimal(int(cents)).scaleb(-2) for cents in rng.integers(0, 10**8, count)], pa.decimal128(12, 2))
    else:
        a = rng.random(count)
        a[rng.random(count) < float(kind)] = np.nan
        a = pa.array(a)
    ids = np.arange(first_id, first_id + count)
    return pa.table({"id": ids, "a": a, "b": rng.integers(0, 1_000_000_000, count)})


@pytest.mark.parametrize("kind, values", [("lance", "decimal"), ("lance", "0.6"), ("lance", "1"), ("catalog", "0.6")])
def test_a_key_without_statistics_is_not_sorted_for_at_every_append(lake, kind, values, monkeypatch):
    # (NaN is not equal to itself: other tests compare such rows.)
    monkeypatch.setattr(OverlapTable, "check_rows", lambda self: None)
    table = OverlapTable(lake, kind)
    table.append(without_statistics(values, 16_000, 0, 0))
    table.optimize()
    written, ratios = 0, []
    for number in range(6):
        table.append(without_statistics(values, 800, 60 + number, 16_000 + 800 * number))
        plan = table.ok("plan")
        report = table.optimize()
        written += report["rows"]
        ratios.append(plan["depth_after"] / report["depth_after"])
        assert table.optimize()["outcome"] == "nothing-to-do"
    assert written <= 6 * 6 * 800, f"{written / 4800:.1f} rows written for each appended"
    # Lance has no zone map on it, so that a query on it opens everything, before and after.
    if kind == "lance":
        assert table.status()["keys"][0]["unknown_units"] == len(table.units())
        assert np.abs(np.array(ratios) - 1).max() <= 0.1, f"predicted / measured depth {ratios}"


def test_clustered_appends_of_lance_are_seen_where_they_lie(lake):
    # No zone map covers them when they come. As files that span everything they would be sorted with the whole table.
    written = {}
    for kind in ("hadoop", "lance"):
        table = OverlapTable(lake, kind)
        table.append(make_rows(30_000, 1))
        table.optimize()
        rows = 0
        for number in range(8):
            table.append_clustered(make_rows(3000, 50 + number, 30_000 + 3000 * number))
            rows += table.optimize()["rows"]
        assert table.optimize()["outcome"] == "nothing-to-do"
        written[kind] = rows / 24_000
    print(f"rows written for each appended: {written}")
    assert written["lance"] <= 1.5 * written["hadoop"] + 0.5, written


@pytest.mark.parametrize("kind", APPENDED)
def test_status_is_right_after_old_rows_are_gone(lake, kind):
    # Retention: the oldest rows go, and with them most of what the run's model knew.
    table = OverlapTable(lake, kind)
    count = 30_000
    rng = np.random.default_rng(2)
    times = np.arange(count) * 1000 + rng.integers(0, 1000, count)
    rows = {"id": np.arange(count), "a": times, "b": rng.integers(0, 1_000_000_000, count)}
    table.append(pa.table(rows))
    table.optimize()
    for gone in (0.3, 0.7):
        table.delete(0, int(count * gone))
        for key in table.status()["keys"]:
            lower, upper, _ = table.bounds(key["name"])
            values = table.expected[key["name"]].to_numpy()
            counted = np.mean([np.sum((lower <= v) & (v <= upper)) for v in values[::7]])
            text = f"{gone} gone: {key['name']} opens {counted:.2f}, status says {key['depth_mean']:.2f}"
            assert key["depth_mean"] == pytest.approx(counted, rel=0.1), text


# --- other keys than the declared


@pytest.mark.parametrize("kind", APPENDED)
def test_a_plan_for_other_columns_is_what_they_would_do(lake, kind):
    table = OverlapTable(lake, kind)
    for number in range(4):
        rows = make_rows(2500, number, 2500 * number)
        table.append(rows.append_column("c", pa.array(np.random.default_rng(90 + number).random(2500))))
    table.optimize()
    state = table.state()
    assert table.ok("plan")["outcome"] == "nothing-to-do"
    assert table.ok("plan", "--columns", "a,b") == table.ok("plan")
    plan = table.ok("plan", "--columns", "b,c", "--full")
    assert plan["outcome"] == "planned" and plan["source_units"] == len(table.units())
    assert [key["name"] for key in plan["keys"]] == ["b", "c"]
    before = table.ok("status", "--columns", "b,c")
    assert [key["depth_before"] for key in plan["keys"]] == [key["depth_mean"] for key in before["keys"]]
    single = table.ok("plan", "--columns", "c", "--full")
    assert [key["name"] for key in single["keys"]] == ["c"] and single["depth_after"] <= len(table.units()) + 1
    for columns, message in [
        ("nope", "no column"),
        ("c,c", "twice"),
        ("a,b,c,id,a", "one to four"),
        ("a,,b", "empty name"),
    ]:
        assert message in table.run("plan", "--columns", columns).error(2)
    assert "twice" in table.run("status", "--columns", "c,c").error(2)
    assert "excludes" in table.run("plan", "--columns", "b,c", "--tasks-out", "x").error(2)
    assert table.state() == state
    # What it said comes true.
    table.ok("set", "--columns", "b,c")
    report = table.optimize("--full")
    assert report["source_bytes"] == plan["source_bytes"]
    assert report["depth_after"] == pytest.approx(plan["depth_after"], rel=0.15)


# --- healthy sizes, all of them overlapping


@pytest.mark.parametrize("kind", KINDS)
def test_eight_healthy_files_that_all_overlap(lake, kind):
    table = OverlapTable(lake, kind, small_units=False)
    cubes = [] if kind == "lance" else ["--target-cube-size", "64KiB", "--min-cube-size", "16KiB"]
    unit = ["--target-rows-per-file", 3000]
    for number in range(8):
        rows = make_rows(2400, number, 2400 * number)
        if number == 0:
            table.append(rows)
            table.ok("set", *cubes, "--policy", "overlap")
            table.optimize("--policy", "size", *unit)  # as the others: one clustered unit
        else:
            table.append_clustered(rows)
    assert len(table.units()) == 8
    before = table.status()
    assert before["depth"] == pytest.approx(8, abs=0.05), f"status shows depth {before['depth']}"
    assert before["efficiency"] < 0.5 and before["health"]["unclustered_units"] == 0
    if kind != "lance":
        assert before["health"]["healthy"] == 8
        assert table.optimize("--policy", "size", *unit)["outcome"] == "nothing-to-do"
    opened = table.mean_opened("a"), table.mean_opened("b")
    assert min(opened) > 7.5, f"an equality opens {opened} of 8"
    report = table.optimize(*unit)
    after = table.status()
    units = len(table.units())
    assert report["source_units"] == 8 and 7 <= units <= 10
    assert after["depth"] <= 1.15 * after["ideal"], f"depth {after['depth']:.2f}, ideal {after['ideal']:.2f}"
    opened = table.mean_opened("a"), table.mean_opened("b")
    assert np.mean(opened) == pytest.approx(after["depth"], rel=0.12), f"opened {opened}, status {after['depth']:.2f}"
    assert max(opened) <= 1.35 * after["ideal"], f"an equality opens {opened} of {units}, ideal {after['ideal']:.2f}"


# --- nothing twice


SIZES = {
    "small": [],
    "rows": ["--target-rows-per-file", 300],
    "one file": ["--target-file-size", "1GiB", "--target-rows-per-file", 1_000_000_000],
    "impossible": ["--target-file-size", 1000, "--target-rows-per-file", 50],
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_second_run_rewrites_nothing(lake, kind, size):
    table = grown(lake, kind, [600] * 5)
    first = table.optimize(*SIZES[size])
    assert first["outcome"] == "committed", first
    second = table.optimize(*SIZES[size])
    assert second["outcome"] == "nothing-to-do", f"the second run read {second['source_units']} units"
    table.append(make_rows(150, 9, 3000))
    runs = len(table.optimize_to_the_end(*SIZES[size], most=3))
    assert runs <= 1, f"{runs} runs after one append"


# --- tasks and a hot value


@pytest.mark.parametrize("kind", APPENDED)
def test_no_task_is_above_its_cap_under_a_hot_value(lake, kind, tmp_path):
    table = OverlapTable(lake, kind)
    for part in range(6):
        table.append(adversarial("hot", 2000, part, 2000 * part))
    size = table.status()["bytes"]
    cap = size // 5
    plan = table.ok("plan", "--max-task-bytes", cap, "--tasks-out", tmp_path, "--target-rows-per-file", 400)
    paths = sorted(tmp_path.glob("task-*.json"))
    tasks = [json.loads(path.read_text()) for path in paths]
    assert len(tasks) == sum(selection["tasks"] for selection in plan["selections"]) >= 5
    # The slices of a selection follow each other without gap.
    assert [task["slice"] for task in tasks] == list(range(len(tasks)))
    assert [task["key-begin"] for task in tasks[1:]] == [task["key-end"] for task in tasks[:-1]]
    assert int(tasks[0]["key-begin"] or "0", 16) == 0 and tasks[-1]["key-end"] is None
    sources = table.units()
    per_row = plan["source_bytes"] / plan["rows"]
    if kind == "catalog":
        # Rows of each slice by the slow reference of the keys.
        keys = OracleKeys(sources, ["a", "b"])
        of_rows = np.array([int.from_bytes(key, "big") for path in sources for key in keys.of_file(path)], dtype=object)
        for task in tasks:
            begin = int(task["key-begin"] or "0", 16)
            end = int(task["key-end"], 16) if task["key-end"] else 1 << 128
            share = per_row * np.sum((of_rows >= begin) & (of_rows < end))
            assert share <= 1.02 * cap, f"slice {task['slice']} holds {share:.0f} bytes, the cap is {cap}"
    results, rows = [], []
    for number, path in enumerate(paths):
        results.append(tmp_path / f"result-{number:05}.json")
        rows.append(lake.ok("execute", path, "--out", results[-1])["rows"])
    assert sum(rows) == 12_000
    most = max(rows) * per_row
    assert most <= 1.02 * cap, f"a task wrote {most:.0f} source bytes, the cap is {cap}"
    table.ok("commit", *results)
    table.check_rows()
    assert not sources & table.units()
    if kind == "catalog":
        ranges = []
        for path in table.units():
            of_file = keys.of_file(path)
            ranges.append((min(of_file), max(of_file)))
        ranges.sort()
        overlapping = sum(last > first for (_, last), (first, _) in zip(ranges, ranges[1:], strict=False))
        assert overlapping == 0, f"{overlapping} of {len(ranges)} files overlap the next along the curve"
    # The hot value fills 60 % of the files, and no equality on the other key opens more than its part of them.
    units = len(table.units())
    hot = table.opened("a", 777)
    assert 0.5 * units <= hot <= 0.75 * units, f"the hot value opens {hot} of {units}"
    assert table.optimize("--target-rows-per-file", 400)["outcome"] == "nothing-to-do"


# --- what status says is what a query opens


@pytest.mark.parametrize("kind", KINDS)
def test_files_opened_and_rows_read_are_what_metadata_counts(lake, kind):
    table = grown(lake, kind, [20_000])
    table.optimize()
    table.append(make_rows(2500, 7, 20_000, 0.3, 0.9))
    table.optimize()
    table.append(make_rows(1000, 8, 22_500))
    if kind == "lance":
        table.lance.dataset.optimize.optimize_indices()  # a query opens whatever no zone map covers
    status = table.status()
    assert status["units"] == len(table.units()) >= 15
    total = table.expected.num_rows
    both = {0.01: [], 0.1: []}
    for key in status["keys"]:
        lower, upper, rows = table.bounds(key["name"])
        assert rows.sum() == total
        values = np.sort(table.expected[key["name"]].to_numpy())
        hit = (lower <= values[:, None]) & (values[:, None] <= upper)
        files, read = hit.sum(axis=1), hit @ rows / total
        for at in spread(total, 5):
            opened = table.opened(key["name"], int(values[at]))
            assert opened == files[at], f"{key['name']} = {values[at]}: the engine opens {opened}, counted {files[at]}"
        assert key["depth_mean"] == pytest.approx(files.mean(), rel=0.02), f"files of an equality on {key['name']}"
        assert key["rows_share"] == pytest.approx(read.mean(), rel=0.02), f"rows of an equality on {key['name']}"
        assert key["depth_max"] == pytest.approx(files.max(), abs=1), f"the most files of an equality on {key['name']}"
        assert key["depth_p95"] == pytest.approx(np.quantile(files, 0.95), abs=1), f"95 % on {key['name']}"
        for share, field in ((0.01, "box_1_percent"), (0.1, "box_10_percent")):
            begins = np.linspace(0, (1 - share) * (total - 1), 500).astype(int)
            ends = np.minimum(begins + int(share * total), total - 1)
            hit = (lower <= values[ends][:, None]) & (values[begins][:, None] <= upper)
            both[share].append(hit)
            counted, part = hit.sum(axis=1).mean(), (hit @ rows).mean() / total
            assert key[field]["files"] == pytest.approx(counted, rel=0.02), f"files, {share} of {key['name']}"
            assert key[field]["rows_share"] == pytest.approx(part, rel=0.02), f"rows, {share} of {key['name']}"
            at = len(begins) // 3
            opened = table.opened(key["name"], int(values[begins[at]]), int(values[ends[at]]))
            assert opened == hit[at].sum(), f"{share} of {key['name']}: the engine opens {opened}"
    # Boxes on both keys at once: all pairs of windows.
    for share, field in ((0.01, "box_1_percent"), (0.1, "box_10_percent")):
        a, b = both[share]
        opens = a.mean(axis=0) * b.mean(axis=0)
        files, part = opens.sum(), opens @ rows / total
        assert status[field]["files"] == pytest.approx(files, rel=0.03), f"files of boxes of {share}"
        assert status[field]["rows_share"] == pytest.approx(part, rel=0.03), f"rows of boxes of {share}"


@pytest.mark.parametrize("kind", APPENDED)
def test_efficiency_tells_when_the_next_run_is_due(lake, kind):
    table = grown(lake, kind, [15_000])
    table.optimize()
    sorted_once = table.status()
    assert sorted_once["efficiency"] > 0.85 and sorted_once["health"]["overlapping"] == 0
    seen = [sorted_once["efficiency"]]
    for number in range(4):
        table.append(make_rows(1500, 30 + number, 15_000 + 1500 * number))
        status = table.status()
        lower, upper, _ = table.bounds("a")
        counted = np.mean([np.sum((lower <= v) & (v <= upper)) for v in table.expected["a"].to_numpy()[::97]])
        assert status["keys"][0]["depth_mean"] == pytest.approx(counted, rel=0.05)
        seen.append(status["efficiency"])
    assert seen == sorted(seen, reverse=True) and seen[-1] < 0.7 * seen[0], f"efficiency after appends: {seen}"
    table.optimize()
    after = table.status()
    assert after["efficiency"] > seen[-1], f"efficiency {seen[-1]:.2f} -> {after['efficiency']:.2f}"
    assert after["efficiency"] >= 1 / PROMISE, f"efficiency {after['efficiency']:.2f} after a run"


@pytest.mark.parametrize("kind", KINDS)
def test_overlapping_cubes_show_and_a_run_by_size_says_what_overlap_would_do(lake, kind):
    # Clustered runs over the whole range: of healthy size, so that only their overlap tells.
    table = OverlapTable(lake, kind, "a,b", "--policy", "overlap")
    for number in range(4):
        rows = make_rows(3500, number, 3500 * number)
        if number == 0:
            table.append(rows)
            table.optimize()
        else:
            table.append_clustered(rows)
    cubes = table.ok("cubes")["cubes"]
    assert len(cubes) == 4 and {cube["health"] for cube in cubes} == {"overlapping"}
    assert table.status()["health"]["overlapping"] == 4
    # A plan changes nothing, by whatever policy.
    plan = table.ok("plan")
    assert plan["policy"] == "overlap" and plan["source_units"] == table.status()["units"]
    table.ok("set", "--policy", "size")
    shown = {cube["health"] for cube in table.ok("cubes")["cubes"]}
    assert "overlapping" not in shown, f"under the policy size: {shown}"
    # What lies healthy is not of the run by size; the note says what overlap would have taken.
    table.append(make_rows(300, 77, 14_000))
    if kind != "lance":
        table.ok("set", "--target-cube-size", "64KiB", "--min-cube-size", "32KiB")
    else:
        table.lance.dataset.update_config({"lance.compaction.target_rows_per_fragment": "3000"})
    if kind == "hadoop":
        table.append(make_rows(300, 78, 14_300))  # a small cube alone stays as it is
    report = table.optimize()
    assert report["policy"] == "size" and report["outcome"] == "committed", report
    hints = [note for note in report["notes"] if "policy overlap" in note]
    assert len(hints) == 1 and "--policy overlap" in hints[0], report["notes"]
    report = table.optimize("--policy", "overlap")
    assert report["policy"] == "overlap" and report["outcome"] == "committed"
    assert not [note for note in report["notes"] if "would have" in note]
    assert table.status()["health"]["overlapping"] == 0


# --- policy and threshold


@pytest.mark.parametrize("kind", KINDS)
def test_policy_and_theta_of_table_and_run(lake, kind):
    table = OverlapTable(lake, kind, "a,b", "--policy", "overlap", "--theta", "0.3")
    for number in range(2):
        table.append(make_rows(1500, number, 1500 * number))
    for said in (table.ok("spec")["spec"], table.status()["declared"]):
        assert (said["policy"], said["theta"]) == ("overlap", 0.3)
    stored = table.lance.dataset.config() if kind == "lance" else table.iceberg().properties
    names = {
        "lance": ("thalweg.policy", "thalweg.theta"),
        "iceberg": ("write.liquid-clustering.policy", "write.liquid-clustering.overlap-threshold"),
    }["lance" if kind == "lance" else "iceberg"]
    assert [stored[name] for name in names] == ["overlap", "0.3"]
    state = table.state()
    assert table.ok("set", "--policy", "overlap", "--theta", "0.3")["outcome"] == "nothing-to-do"
    assert table.state() == state
    # A run's own come first, and are not kept.
    assert table.ok("plan")["policy"] == "overlap"
    assert table.ok("plan", "--policy", "size")["policy"] == "size"
    assert "30 %" not in table.run("plan", "--theta", "0.9").out
    report = table.optimize()
    assert report["policy"] == "overlap"
    assert "cut" in (reason := table.optimize()["reason"]) and "30 %" in reason, reason
    assert "90 %" in table.optimize("--theta", "0.9")["reason"]
    assert table.ok("spec")["spec"]["theta"] == 0.3
    assert table.ok("set", "--policy", "size")["outcome"] == "committed"
    assert table.ok("spec")["spec"]["policy"] == "size"
    assert table.optimize()["policy"] == "size"
    assert table.optimize("--policy", "overlap", "--theta", "0.5")["policy"] == "overlap"


@pytest.mark.parametrize("kind", APPENDED)
def test_a_lower_threshold_rewrites_more(lake, kind):
    table = grown(lake, kind, [12_000])
    table.optimize()
    for number in range(3):
        table.append(make_rows(1500, 20 + number, 12_000 + 1500 * number))
    read = {theta: table.ok("plan", "--theta", theta)["source_bytes"] for theta in (0.05, 0.2, 0.42, 0.6, 0.95)}
    amounts = list(read.values())
    new = table.ok("plan", "--theta", 0.99)["source_bytes"]
    assert amounts == sorted(amounts, reverse=True) and amounts[0] > 2 * amounts[-1], f"bytes by threshold: {read}"
    assert amounts[-1] == new


@pytest.mark.parametrize("kind", APPENDED)
def test_wrong_thresholds_are_usage_errors(lake, kind):
    table = grown(lake, kind, [200], "--policy", "overlap")
    state = table.state()
    for verb in ("plan", "optimize", "set"):
        for value in ("0", "1", "-0.1", "1.5", "nan", "x"):
            message = table.run(verb, "--policy", "overlap", "--theta", value).error(2)
            assert "theta" in message or "threshold" in message, message
    for verb in ("plan", "optimize"):
        assert "--policy overlap" in table.run(verb, "--policy", "size", "--theta", "0.3").error(2)
        assert "unknown policy" in table.run(verb, "--policy", "best").error(2)
    assert table.state() == state


@pytest.mark.parametrize("verb", ["plan", "optimize"])
@pytest.mark.parametrize("kind", APPENDED)
def test_a_threshold_without_the_policy_is_refused(lake, kind, verb):
    table = grown(lake, kind, [200], "--policy", "size")
    assert "overlap" in table.run(verb, "--theta", "0.3").error(2)


# --- a plan says what comes
