"""What optimize makes of a Lance dataset: which fragments it takes, what it writes, and what is skipped then."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cases_layout_test import check_curve
from lance_test_tools import KEYS, LanceTable, connect_duckdb, lance, make_events, needs_lance, numbered_rows

pytestmark = needs_lance


def zone_maps(table: LanceTable) -> dict[str, set[int]]:
    """The fragments that the zone maps on each column cover."""
    return {column: fragments for _, kind, column, fragments in table.indexes() if kind == "ZoneMap"}


def mean_scanned(table: LanceTable, name: str, values) -> float:
    """The mean number of fragments that an equality scans."""
    return float(np.mean([table.scanned(f"{name} = {value}").fragments for value in values]))


def literal(value) -> str:
    if isinstance(value, str):
        return f"'{value}'"
    return f"timestamp '{value}'" if hasattr(value, "isoformat") else str(value)


def some_values(rows: pa.Table, name: str, count: int = 20) -> list[str]:
    """Values that occur, in SQL."""
    values = rows[name].drop_null()
    picked = np.random.default_rng(5).integers(0, len(values), count)
    return [literal(values[int(at)].as_py()) for at in picked]


def groups(table: LanceTable) -> list[tuple[int, int]]:
    """Fragments and rows of each group."""
    return sorted((cube["files"], cube["rows"]) for cube in table.ok("cubes")["cubes"])


# --- the sort and its fragments


def test_all_fragments_become_one_run(lake):
    table = make_events(lake, 6)
    before, sources = table.rows(), table.fragment_rows()
    plan = table.ok("plan", "--target-rows-per-fragment", 1000)
    assert (plan["outcome"], plan["source_units"], plan["rows"]) == ("planned", 6, 3000)
    assert table.fragment_rows() == sources
    report = table.optimize()
    assert (report["outcome"], report["source_units"], report["rows"]) == ("committed", 6, 3000)
    assert report["snapshot_after"] == str(table.dataset.version) or int(report["snapshot_after"]) > int(
        report["snapshot_before"]
    )
    after = table.fragment_rows()
    assert not after.keys() & sources.keys()
    assert len(after) == report["output_units"]
    assert groups(table) == [(len(after), 3000)]
    assert table.unclustered() == 0
    assert table.rows() == before == table.rows_by_duckdb()
    table.dataset.validate()
    table.check_no_leftovers()
    (run,) = table.ok("history")["runs"]
    assert (run["run_id"], run["rows"], run["source_units"]) == (report["run_id"], 3000, 6)


@pytest.mark.parametrize("cap, rows", [(1000, 3000), (700, 3000), (450, 3000), (999, 1000), (5000, 3000)])
def test_rows_of_a_fragment(lake, cap, rows):
    table = make_events(lake, rows // 500)
    table.optimize("--target-rows-per-fragment", cap)
    sizes = table.fragment_rows().values()
    assert sum(sizes) == rows and max(sizes) <= cap
    # The window of a fragment is 0.67 to 1.0 of the cap, where that is possible at all.
    if rows > cap:
        assert min(sizes) >= int(0.67 * cap) or len(sizes) == 2, sizes
        assert len(sizes) <= rows / (0.67 * cap) + 1
    else:
        assert len(sizes) == 1


def test_the_target_of_the_config(lake):
    table = make_events(lake, 4)
    table.dataset.update_config({"lance.compaction.target_rows_per_fragment": "400"})
    table.ok("optimize")
    assert max(table.fragment_rows().values()) <= 400
    # What the command says goes before it.
    table.ok("set", "--version", 2)
    table.optimize("--target-rows-per-fragment", 2000)
    assert list(table.fragment_rows().values()) == [2000]
    table.dataset.update_config({"lance.compaction.target_rows_per_fragment": "some"})
    message = table.run("optimize").error(table.run("optimize").code)
    assert "lance.compaction.target_rows_per_fragment" in message and "some" in message


def test_a_limit_of_bytes(lake):
    table = make_events(lake, 8, 1000)
    limit = 64 * 1024
    report = table.ok("optimize", "--target-file-size", "64KiB")
    sizes = [(table.path / name).stat().st_size for name in current_files(table)]
    assert len(sizes) == report["output_units"] > 2
    assert max(sizes) <= 1.25 * limit, sizes


def current_files(table: LanceTable) -> set[str]:
    """Paths of the data files of the newest version."""
    return {f"data/{file.path}" for fragment in table.dataset.get_fragments() for file in fragment.metadata.files}


def test_fragments_never_overlap_along_the_curve(lake, tmp_path):
    table = make_events(lake, 5, 700)

    def dump(kind: str) -> list[str]:
        paths = []
        for fragment in table.dataset.get_fragments():
            paths.append(str(tmp_path / f"{kind}-{fragment.fragment_id:04}.parquet"))
            pq.write_table(fragment.to_table(), paths[-1])
        return paths

    sources = dump("source")
    table.optimize("--target-rows-per-fragment", 500)
    outputs = dump("output")
    assert len(outputs) > 6
    check_curve(sources, outputs, KEYS)


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2", "legacy"])
def test_storage_version_is_kept(lake, version):
    table = LanceTable(lake, data_storage_version=version).grow(3, 200)
    done = table.run("set", "--columns", "user_id,event_time")
    before, stored = table.rows(), table.dataset.data_storage_version
    if done.code == 0:
        done = table.run("optimize", "--json")
    if version == "legacy" and done.code != 0:
        assert "storage" in done.error() or "version" in done.error()
        return
    assert done.json["outcome"] == "committed", done
    assert table.dataset.data_storage_version == stored
    kinds = {
        (f.file_major_version, f.file_minor_version) for x in table.dataset.get_fragments() for f in x.data_files()
    }
    if version != "legacy":
        assert kinds == {tuple(int(part) for part in version.split("."))}
    assert table.rows() == before == table.rows_by_duckdb()


def test_deletions_are_applied(lake):
    table = make_events(lake, 4)
    table.dataset.delete("id % 3 = 0")
    before = table.rows()
    report = table.optimize()
    assert report["rows"] == len(before) == 2000 - 667
    fragments = table.dataset.get_fragments()
    assert sum(fragment.physical_rows for fragment in fragments) == report["rows"]
    assert all(fragment.num_deletions == 0 for fragment in fragments)
    assert table.rows() == before == table.rows_by_duckdb()


def test_datasets_without_rows(lake):
    table = LanceTable(lake)
    table.append(numbered_rows(10).slice(0, 0))
    table.declare()
    done = table.ok("optimize")
    assert done["outcome"] == "nothing-to-do" and done["reason"]
    table.append(numbered_rows(300))
    table.dataset.delete("true")
    assert table.ok("optimize")["outcome"] == "nothing-to-do"
    table.append(numbered_rows(300))
    assert table.optimize()["rows"] == 300


# --- a second run


def test_repeated_runs(lake):
    table = make_events(lake, 6)
    table.optimize()
    files, version, fragments = table.files("data"), table.dataset.version, table.fragment_rows()
    assert zone_maps(table) == {name: set(fragments) for name in KEYS}
    second = table.optimize()
    assert second["outcome"] == "nothing-to-do" and second["reason"]
    assert (table.files("data"), table.dataset.version) == (files, version)
    assert table.run("optimize").out.startswith("nothing to do: ")
    assert table.run("plan").out.startswith("nothing to do: ")

    # Missing zone maps are made even then, once.
    for name, *_ in table.indexes():
        table.dataset.drop_index(name)
    assert zone_maps(table) == {}
    third = table.optimize()
    assert third["outcome"] == "nothing-to-do" and any("zone map" in note for note in third["notes"])
    assert zone_maps(table) == {name: set(fragments) for name in KEYS}
    version = table.dataset.version
    assert table.optimize()["outcome"] == "nothing-to-do"
    assert (table.files("data"), table.dataset.version) == (files, version)


def test_zone_maps_follow_appends(lake):
    table = make_events(lake, 4)
    table.optimize()
    table.grow(1, 3000)
    # An append of Lance's is sorted, and the zone maps cover everything alike.
    table.optimize()
    assert zone_maps(table) == {name: set(table.fragment_rows()) for name in KEYS}
    table.grow(1, 100)
    condition = "user_id < 100000"
    found = table.dataset.to_table(filter=condition)
    assert found.num_rows == table.dataset.to_table(filter=condition, use_scalar_index=False).num_rows > 0


def test_a_zone_map_of_somebody_else_is_used(lake):
    table = make_events(lake, 4)
    table.dataset.create_scalar_index("user_id", "ZONEMAP", name="theirs", rows_per_zone=128)
    table.optimize()
    assert [name for name, _, column, _ in table.indexes() if column == "user_id"] == ["theirs"]
    assert zone_maps(table) == {name: set(table.fragment_rows()) for name in KEYS}


def test_full(lake):
    table = make_events(lake, 4)
    table.optimize()
    table.grow(1)
    table.optimize()
    assert len(groups(table)) == 2
    before = table.rows()
    full = table.optimize("--full")
    assert (full["outcome"], full["rows"]) == ("committed", 2500)
    assert len(groups(table)) == 1
    again = table.optimize("--full")
    assert again["outcome"] == "nothing-to-do" and "full" in again["reason"]
    assert table.rows() == before


# --- which fragments


def test_partial_groups(lake):
    table = make_events(lake, 4)
    table.optimize()
    full = set(table.fragment_rows())
    table.grow(1, 300)
    assert table.optimize()["rows"] == 300  # the append alone: the group before it is full
    assert full < set(table.fragment_rows())
    # A lone group below the target is left alone.
    version = table.dataset.version
    alone = table.optimize()
    assert alone["outcome"] == "nothing-to-do" and "neighbour" in alone["reason"]
    assert table.dataset.version == version
    # Beside an unclustered fragment it is taken along, the full one is not.
    table.grow(1, 400)
    assert table.optimize()["rows"] == 700
    assert full < set(table.fragment_rows())
    assert groups(table)[0][1] == 700 or (1, 700) in groups(table)
    # Now it reaches the target, and is left alone for good.
    table.grow(1, 300)
    assert table.optimize()["rows"] == 1000
    table.grow(1, 200)
    assert table.optimize()["rows"] == 200
    assert table.unclustered() == 0


def test_fragments_that_are_no_neighbours_are_sorted_as_one(lake):
    table = make_events(lake, 3)
    table.optimize("--max-source-fragments", 2)
    clustered = {fragment for cube in [set(table.fragment_rows()) - {0, 1, 2}] for fragment in cube}
    table.grow(1)
    left = set(table.fragment_rows()) - clustered
    assert len(left) == 2
    report = table.optimize()
    assert (report["source_units"], report["rows"]) == (2, 1000)
    assert clustered < set(table.fragment_rows())
    assert len(groups(table)) == 2


@pytest.mark.parametrize(
    "option, key, budget, fragments",
    [
        ("--max-source-fragments", "max_source_fragments", 2, 2),
        ("--max-source-files", "max_source_fragments", 5, 5),
        ("--max-source-rows", "max_source_rows", 1200, 2),
        ("--max-source-rows", "max_source_rows", 1000, 2),
        ("--max-source-bytes", "max_source_bytes", None, 3),
    ],
)
@pytest.mark.parametrize("where", ["option", "config"])
def test_budgets(lake, option, key, budget, fragments, where):
    table = make_events(lake, 6)
    before = table.rows()
    if budget is None:
        sizes = [(table.path / name).stat().st_size for name in current_files(table)]
        budget = int(3.5 * max(sizes))
    arguments = []
    if where == "config":
        table.dataset.update_config({f"lance.compaction.{key}": str(budget)})
    else:
        arguments = [option, budget]
    plan = table.ok("plan", *arguments)
    assert (plan["outcome"], plan["source_units"]) == ("planned", fragments)
    report = table.optimize(*arguments)
    assert (report["source_units"], report["rows"]) == (fragments, 500 * fragments)
    assert table.rows() == before
    # Repeated runs within the budget come to an end.
    for _ in range(6):
        report = table.optimize(*arguments)
        if report["outcome"] == "nothing-to-do":
            break
        assert report["source_units"] <= fragments
    assert report["outcome"] == "nothing-to-do" and table.unclustered() == 0
    assert table.rows() == before


@pytest.mark.parametrize(
    "option, where",
    [
        ("--max-source-fragments", "option"),
        ("--max-source-rows", "option"),
        ("--max-source-bytes", "option"),
        ("--max-source-rows", "config"),
        ("--max-source-bytes", "config"),
    ],
)
def test_a_budget_below_the_first_fragment(lake, option, where):
    table = make_events(lake, 3)
    budget = 0 if option == "--max-source-fragments" else 100
    name = option
    arguments = [option, budget]
    if where == "config":
        name = "lance.compaction." + option.removeprefix("--").replace("-", "_")
        table.dataset.update_config({name: str(budget)})
        arguments = []
    for report in (table.ok("plan", *arguments), table.optimize(*arguments)):
        assert report["outcome"] == "nothing-to-do"
        # It says by how much, and that the budget, wherever it stands, is to be raised.
        assert name.removesuffix("fragments") in report["reason"] and "rais" in report["reason"]
    assert set(table.fragment_rows()) == {0, 1, 2}


def test_budgets_count_live_rows_and_options_go_before_the_config(lake):
    table = make_events(lake, 3)
    table.dataset.delete("id % 5 <> 0")
    table.dataset.update_config({"lance.compaction.max_source_rows": "150"})
    assert table.ok("plan")["source_units"] == 1
    assert table.ok("plan", "--max-source-rows", 250)["source_units"] == 2
    table.dataset.update_config({"lance.compaction.max_source_rows": "a few"})
    done = table.run("plan")
    assert "lance.compaction.max_source_rows" in done.error(done.code)


# --- stamps: what drops them, what keeps them

KEEPING = {
    "delete": lambda dataset: dataset.delete("id % 7 = 0"),
    "add a column": lambda dataset: dataset.add_columns({"twice": "id * 2"}),
    "drop a column": lambda dataset: dataset.drop_columns(["amount"]),
    "rename a column": lambda dataset: dataset.alter_columns({"path": "amount", "name": "price"}),
    "config": lambda dataset: dataset.update_config({"mine": "x"}),
    "metadata": lambda dataset: dataset.update_metadata({"mine": "x"}),
    "index": lambda dataset: dataset.create_scalar_index("id", "BTREE"),
}


@pytest.mark.parametrize("change", KEEPING.values(), ids=[name.replace(" ", "-") for name in KEEPING])
def test_what_keeps_stamps(lake, change):
    table = make_events(lake, 4)
    table.optimize()
    change(table.dataset)
    assert table.unclustered() == 0
    assert table.optimize()["outcome"] == "nothing-to-do"


def merge(dataset) -> None:
    dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(numbered_rows(30, 1990))


def cast(dataset) -> None:
    for index in dataset.describe_indices():  # Lance casts no column that has an index
        dataset.drop_index(index.name)
    dataset.alter_columns({"path": "user_id", "data_type": pa.int32()})


DROPPING = {
    "update": lambda dataset: dataset.update({"amount": "amount + 1"}, where="id < 20"),
    "merge-insert": merge,
    "append": lambda dataset: lance.write_dataset(numbered_rows(50, 9000), dataset, mode="append"),
    "compaction": lambda dataset: dataset.optimize.compact_files(target_rows_per_fragment=100_000),
    "cast of a key": cast,
    "overwrite": lambda dataset: lance.write_dataset(numbered_rows(700, 9000), dataset, mode="overwrite"),
}


@pytest.mark.parametrize("change", DROPPING.values(), ids=[name.replace(" ", "-") for name in DROPPING])
def test_what_drops_stamps(lake, change):
    table = make_events(lake, 4)
    table.optimize()
    stamped = set(current_files(table))
    change(table.dataset)
    new = [
        fragment.fragment_id
        for fragment in table.dataset.get_fragments()
        if not {f"data/{file.path}" for file in fragment.metadata.files} <= stamped
    ]
    assert new and table.unclustered() == len(new)
    before = table.rows()
    assert table.optimize()["outcome"] == "committed"
    assert table.unclustered() == 0
    assert table.rows() == before == table.rows_by_duckdb()


def test_an_older_version_that_is_restored(lake):
    table = make_events(lake, 4)
    plain = table.dataset.version
    table.optimize()
    clustered = table.dataset.version
    lance.dataset(str(table.path), version=plain).restore()
    assert table.unclustered() == 4
    lance.dataset(str(table.path), version=clustered).restore()
    assert table.unclustered() == 0
    lance.dataset(str(table.path), version=plain).restore()
    before = table.rows()
    assert table.optimize()["rows"] == 2000
    assert (table.unclustered(), table.rows()) == (0, before)


def test_stamps_of_a_newer_version_are_under_clustered(lake):
    table = make_events(lake, 3)
    table.ok("set", "--version", 3)
    table.optimize()
    table.dataset.update_config({"lance.clustering.version": "2"})
    assert table.unclustered() == len(table.fragment_rows())
    assert table.optimize()["outcome"] == "committed"


def test_records_are_small_and_go_with_their_fragments(lake):
    table = make_events(lake, 30, 100)
    table.optimize("--target-rows-per-fragment", 100)
    fragments = len(table.fragment_rows())
    (first,) = table.records()
    size = len(first) + len(table.dataset.metadata[first])
    assert fragments >= 30 and size <= 16 * 1024 + 16 * fragments
    table.grow(1, 300)
    table.optimize("--target-rows-per-fragment", 100)
    assert len(table.records()) == 2
    table.optimize("--full", "--target-rows-per-fragment", 100)
    assert len(table.records()) == 1 and first not in table.records()


def test_a_key_change_converges_under_a_budget(lake):
    table = make_events(lake, 6)
    table.optimize("--target-rows-per-fragment", 500)
    before = table.rows()
    table.ok("set", "--columns", "amount,country")
    size = sum((table.path / name).stat().st_size for name in current_files(table))
    runs = 0
    while table.optimize("--max-source-bytes", size // 2, "--target-rows-per-fragment", 500)["outcome"] == "committed":
        runs += 1
        assert runs <= 6 and table.rows() == before
    assert table.unclustered() == 0 and runs >= 2


# --- what is skipped


def test_filters_scan_less(lake):
    table = make_events(lake, 40)
    rows = table.dataset.to_table()
    fragments = len(table.fragment_rows())
    values = {name: some_values(rows, name) for name in KEYS}
    table.ok("set", "--version", 2)
    # The proposal's own grouping first: its fragments each span the domains of the keys.
    table.optimize("--sort-scope", "group", "--target-rows-per-fragment", 500)
    grouped = {name: mean_scanned(table, name, values[name]) for name in KEYS}
    assert len(groups(table)) > 10

    table.ok("set", "--version", 3)
    table.optimize("--target-rows-per-fragment", 500)
    assert len(groups(table)) == 1
    after = len(table.fragment_rows())
    one_sort = {name: mean_scanned(table, name, values[name]) for name in KEYS}
    print(f"{after} fragments; an equality scans {one_sort}, with --sort-scope group {grouped}")
    assert np.mean(list(one_sort.values())) <= 1.2 * after**0.5
    assert all(one_sort[name] < 0.5 * grouped[name] for name in KEYS)

    # Ranges on each key and on both, IS NULL, and the rows.
    times = sorted(value for value in rows["event_time"].to_pylist())
    for condition in [
        "user_id < 50000",
        f"event_time < timestamp '{times[1000]}'",
        f"user_id BETWEEN 400000 AND 500000 AND event_time > timestamp '{times[-4000]}'",
        "user_id IS NULL",
    ]:
        with_maps, without = table.scanned(condition), table.scanned(condition, use_scalar_index=False)
        assert without.fragments == after and without.rows == 20_000
        assert with_maps.fragments <= 0.5 * after and with_maps.rows <= 0.5 * 20_000, condition
        found = table.dataset.to_table(filter=condition)
        assert found.num_rows == table.dataset.to_table(filter=condition, use_scalar_index=False).num_rows > 0
        expected = connect_duckdb().execute(f"SELECT count(*) FROM '{table.path}' WHERE {condition}").fetchone()[0]
        assert found.num_rows == expected
    assert fragments == 40


def test_strings_behind_a_long_prefix_are_skipped_as_well(lake):
    rng = np.random.default_rng(8)
    table = LanceTable(lake)
    prefix = "https://www.example.com/shop/catalogue/of/the/very/long/path/item/"
    assert len(prefix) > 64
    for number in range(16):
        text = [f"{prefix}{value:09}" for value in rng.integers(0, 10**9, 500)]
        table.append(pa.table({"id": range(number * 500, number * 500 + 500), "text": text, "n": rng.random(500)}))
    before = table.rows()
    table.ok("set", "--columns", "text,n")
    table.optimize("--target-rows-per-fragment", 500)
    after = len(table.fragment_rows())
    values = some_values(table.dataset.to_table(), "text", 10)
    assert mean_scanned(table, "text", values) <= 1.5 * after**0.5
    assert table.rows() == before
