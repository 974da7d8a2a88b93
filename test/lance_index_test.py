"""Secondary indexes and row ids follow the rows through a rewrite: answers stay, and nothing is built anew."""

import numpy as np
import pyarrow as pa
import pytest
from lance_test_tools import KEYS, LanceTable, lance, needs_lance, numbered_rows, seen_times

pytestmark = needs_lance

DIMENSIONS = 16
WORDS = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath"]
# Index name: column and type, with options that keep their training short.
INDEXES = {
    "by_id": ("id", "BTREE", {}),
    "by_country": ("country", "BITMAP", {}),
    "by_tag": ("tags", "LABEL_LIST", {}),
    "by_text": ("text", "INVERTED", {"with_position": True}),
    "by_vector": ("vector", "IVF_PQ", {"num_partitions": 4, "num_sub_vectors": 4}),
}


def indexed_rows(count: int, first: int) -> pa.Table:
    rng = np.random.default_rng(500 + first)
    words = rng.choice(WORDS, (count, 3))
    vectors = pa.array(rng.random(count * DIMENSIONS, dtype=np.float32))
    return (
        numbered_rows(count, first)
        .append_column("tags", pa.array([sorted(set(row.tolist())) for row in words[:, :2]]))
        .append_column("text", pa.array([" ".join([*row, f"number{first + at}"]) for at, row in enumerate(words)]))
        .append_column("vector", pa.FixedSizeListArray.from_arrays(vectors, DIMENSIONS))
    )


# What a search adds to each row. (Scores of texts depend on how many texts there are, so that only those are compared
# that deletions leave alone.)
SCORES = {"nearest": "_distance", "full_text_query": "_score"}


class Indexed(LanceTable):
    """A declared dataset with indexes of some names on all of its rows."""

    def __init__(self, lake, names=tuple(INDEXES), appends: int = 4, count: int = 500, **options):
        super().__init__(lake, **options)
        self.names = names
        self.count = count
        self.next_id = 0
        for _ in range(appends):
            self.add()
        self.declare()
        for name in names:
            column, kind, training = INDEXES[name]
            create = self.dataset.create_index if kind == "IVF_PQ" else self.dataset.create_scalar_index
            create(column, kind, name=name, **training)

    def add(self) -> None:
        self.append(indexed_rows(self.count, self.next_id))
        self.next_id += self.count

    def queries(self) -> list[tuple[str, dict]]:
        """What each index is asked, as arguments of pylance's scanner."""
        rng = np.random.default_rng(77)
        asked = []
        if "by_id" in self.names:
            ids = sorted(self.dataset.to_table(columns=["id"])["id"].to_pylist())
            asked += [("by_id", {"filter": f"id = {ids[at]}"}) for at in rng.integers(0, len(ids), 40)]
            asked += [("by_id", {"filter": f"id BETWEEN {ids[at]} AND {ids[at] + 40}"}) for at in (3, len(ids) // 2)]
        if "by_country" in self.names:
            asked += [("by_country", {"filter": f"country = '{name}'"}) for name in ("ch", "it")]
        if "by_tag" in self.names:
            asked += [("by_tag", {"filter": f"array_has_any(tags, ['{word}'])"}) for word in WORDS[:3]]
        if "by_text" in self.names:
            asked += [("by_text", {"full_text_query": word, "limit": 5000}) for word in ("amber", "number77", "fjord")]
        if "by_vector" in self.names:
            for query in rng.random((5, DIMENSIONS), dtype=np.float32):
                nearest = {"column": "vector", "q": query, "k": 10, "nprobes": 4}
                asked.append(("by_vector", {"nearest": nearest}))
        return asked

    def answers(self, ids_of_texts: bool = False) -> list[list[tuple]]:
        """The ids that each query finds, with distances, and with scores where not only ids are asked for."""
        found = []
        for _, query in self.queries():
            extra = [SCORES[key] for key in query if key in SCORES]
            rows = self.dataset.to_table(columns=["id", *extra], disable_scoring_autoprojection=True, **query)
            if ids_of_texts:
                extra = [name for name in extra if name != "_score"]
            columns = [rows[name].to_pylist() for name in ("id", *extra)]
            found.append(
                sorted((row[0], *(round(value, 4) for value in row[1:])) for row in zip(*columns, strict=True))
            )
        return found

    def right_answers(self) -> list[list[int] | None]:
        """The ids by a scan of all rows; None for what only an index defines."""
        right = []
        for name, query in self.queries():
            if "filter" in query:
                rows = self.dataset.to_table(columns=["id"], use_scalar_index=False, **query)
                right.append(sorted(rows["id"].to_pylist()))
            elif name == "by_text":
                rows = self.dataset.to_table(columns=["id", "text"]).to_pylist()
                right.append(sorted(row["id"] for row in rows if query["full_text_query"] in row["text"].split()))
            else:
                right.append(None)
        return right

    def check_used(self) -> None:
        """Each query's plan names its index, and no fragment has to be scanned beside it."""
        for name, query in self.queries():
            plan = self.dataset.scanner(columns=["id"], disable_scoring_autoprojection=True, **query).explain_plan()
            if "full_text_query" in query:
                assert "MatchQuery" in plan and "FlatMatchQuery" not in plan, plan
            elif "nearest" in query:
                assert f"name={name}" in plan and "KNNVectorDistance" not in plan, plan
            else:
                assert f"@{name}" in plan, plan
        fragments = set(self.fragment_rows())
        for name in self.names:
            assert self.covered(name) == fragments, name

    def covered(self, name: str) -> set[int]:
        """The live fragments that an index covers."""
        return next(ids for other, _, _, ids in self.indexes() if other == name) & set(self.fragment_rows())

    def check(self, answers: list, *, since: int, ids_of_texts: bool = False, anew: set[str] = frozenset()) -> None:
        """Answers as before and right, by the indexes, which were not built anew, apart from these."""
        assert self.answers(ids_of_texts) == answers
        for found, right in zip(answers, self.right_answers(), strict=True):
            assert right is None or [row[0] for row in found] == right
        self.check_used()
        assert not (self.created_indexes(since) & set(self.names)) - anew
        self.dataset.validate()
        self.check_no_leftovers()


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable-row-ids"])
@pytest.mark.parametrize("name", INDEXES)
def test_each_index(lake, name, stable):
    table = Indexed(lake, (name,), enable_stable_row_ids=stable)
    answers, before, since = table.answers(), table.rows(), table.dataset.version
    assert all(answers)
    centroids = table.dataset.get_ivf_model("by_vector").centroids if name == "by_vector" else None
    assert table.optimize()["outcome"] == "committed"
    table.check(answers, since=since)
    assert table.rows() == before
    if centroids is not None:
        assert table.dataset.get_ivf_model("by_vector").centroids.equals(centroids)


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable-row-ids"])
def test_all_indexes_after_deletions(lake, stable):
    table = Indexed(lake, enable_stable_row_ids=stable)
    table.dataset.delete("id % 10 < 3")
    answers, before, since = table.answers(True), table.rows(), table.dataset.version
    gone = [f"number{number}" for number in range(500) if number % 10 < 3]
    assert table.optimize()["rows"] == len(before)
    # Stable row ids of deleted rows are left out by a merge, or by building anew.
    anew = set(table.names) if stable else set()
    table.check(answers, since=since, ids_of_texts=True, anew=anew)
    assert table.rows() == before
    for word in gone[::40]:
        assert table.dataset.to_table(full_text_query=word).num_rows == 0
    # Twice: the addresses of the first rewrite are those that the second one moves.
    table.ok("set", "--columns", "amount,user_id")
    since = table.dataset.version
    assert table.optimize()["outcome"] == "committed"
    table.check(answers, since=since, ids_of_texts=True)


def test_the_map_of_moved_rows_is_part_of_the_budget(lake):
    table = Indexed(lake, ("by_id",))
    rows, version, before = table.rows(), table.dataset.version, table.files("data")
    message = table.run("optimize", "--memory", "64KiB").error(1)
    assert "--memory" in message and "--max-source-rows" in message
    assert (table.dataset.version, table.files("data")) == (version, before)
    # So too where the rows were sorted by other processes: their files stay, for a commit with more.
    results = table.execute_all(lake.folder / "tasks")
    sorted_files = table.files("data")
    message = table.run("commit", *results, "--memory", "64KiB").error(1)
    assert "--memory" in message and "--max-source-rows" in message
    assert (table.dataset.version, table.files("data")) == (version, sorted_files)
    assert table.ok("commit", *results, "--memory", "1MiB")["outcome"] == "committed"
    assert table.rows() == rows


def text_parameters(table: LanceTable, name: str = "by_text") -> list:
    """What pylance says that the segments of a full-text index were made with, by the manifest and by their files."""
    described = next(index for index in table.dataset.describe_indices() if index.name == name)
    segments = table.dataset.stats.index_stats(name)["segments"]
    return [described.details, *(segment["params"] for segment in segments)]


TEXT_OPTIONS = {
    "positions": {"with_position": True},
    "whole words": {"base_tokenizer": "whitespace", "lower_case": False, "stem": False, "remove_stop_words": False},
    "parts of words": {"base_tokenizer": "ngram", "min_ngram_length": 2, "max_ngram_length": 4, "prefix_only": True},
    "own stop words": {"custom_stop_words": ["birch"], "max_token_length": 9, "ascii_folding": False, "stem": False},
    "code": {"base_tokenizer": "code", "block_size": 256},
}


@pytest.mark.parametrize("options", TEXT_OPTIONS.values(), ids=TEXT_OPTIONS)
def test_a_full_text_index_is_built_anew_as_it_was(lake, options):
    """A full-text index by stable row ids is built anew where rows were deleted; its parameters stay."""
    table = Indexed(lake, (), enable_stable_row_ids=True)
    table.dataset.create_scalar_index("text", "INVERTED", name="by_text", **options)
    table.dataset.delete("id % 10 < 3")
    words = ["amber", "Fjord", "birch", "am", "fjor", "number77", "number100", "number1999"]
    asked = [{"full_text_query": word, "limit": 5000} for word in words]
    if options.get("with_position"):
        asked.append({"full_text_query": lance.query.PhraseQuery("amber birch", "text"), "limit": 5000})

    def found() -> list[list[int]]:
        # (Only ids: scores depend on how many texts the index knows.)
        rows = [table.dataset.to_table(columns=["id"], disable_scoring_autoprojection=True, **query) for query in asked]
        return [sorted(row["id"].to_pylist()) for row in rows]

    before, was, rows = found(), text_parameters(table), table.rows()
    assert any(before) and not before[6]
    plan = table.ok("plan", "--target-rows-per-fragment", 1000)
    assert any("by_text" in note and "anew" in note and "1,400" in note for note in plan["notes"]), plan["notes"]
    since = table.dataset.version
    report = table.optimize()
    assert any("by_text" in note and "anew" in note for note in report["notes"]), report["notes"]
    assert found() == before
    assert text_parameters(table) == was
    assert "by_text" in table.created_indexes(since)
    assert table.rows() == rows
    table.check_no_leftovers()
    table.dataset.validate()

    # Once is enough: no row was deleted since.
    since = table.dataset.version
    table.ok("set", "--version", 2)
    assert table.optimize()["outcome"] == "committed"
    assert "by_text" not in table.created_indexes(since)
    assert found() == before


def test_a_full_text_index_that_is_younger_than_the_deletions_is_kept(lake):
    table = Indexed(lake, (), enable_stable_row_ids=True)
    table.dataset.delete("id % 10 < 3")
    table.dataset.create_scalar_index("text", "INVERTED", name="by_text", with_position=True)
    table.names = ("by_text",)
    answers, since = table.answers(), table.dataset.version
    assert table.optimize()["outcome"] == "committed"
    table.check(answers, since=since)


def test_a_full_text_index_of_updated_rows_is_built_anew(lake):
    """An update gives rows to new fragments under their old ids: what they said before is not found any more."""
    table = Indexed(lake, ("by_text",), enable_stable_row_ids=True)
    table.dataset.update({"text": "'zebra'"}, where="id < 40")
    right = table.right_answers()
    assert table.optimize()["outcome"] == "committed"
    assert [[row[0] for row in found] for found in table.answers()] == right == table.right_answers()
    rows = table.dataset.to_table(columns=["id"], full_text_query="zebra", limit=5000)
    assert sorted(rows["id"].to_pylist()) == list(range(40))


def test_segments_of_a_full_text_index_with_deleted_rows(lake):
    """The segments become one, over rows that none of them knew too; fragments outside of the plan keep theirs."""
    table = Indexed(lake, ("by_text", "by_country"), enable_stable_row_ids=True)
    table.optimize()
    table.add()
    table.dataset.optimize.optimize_indices(num_indices_to_merge=0)
    table.dataset.delete("id % 10 < 3")
    table.add()
    right = table.right_answers()
    table.optimize()
    assert [[row[0] for row in found] for found in table.answers()] == right
    table.check_used()
    assert len(text_parameters(table)) == 2
    table.check_no_leftovers()


def test_a_list_of_texts_is_indexed_anew(lake):
    table = Indexed(lake, (), enable_stable_row_ids=True)
    table.dataset.create_scalar_index("tags", "INVERTED", name="by_words", stem=False)
    table.dataset.delete("id % 10 < 3")

    def found() -> list[int]:
        query = lance.query.MatchQuery("amber", "tags")
        return sorted(table.dataset.to_table(columns=["id"], full_text_query=query, limit=5000)["id"].to_pylist())

    before = found()
    right = [row["id"] for row in table.dataset.to_table(columns=["id", "tags"]).to_pylist() if "amber" in row["tags"]]
    assert before == right
    assert table.optimize()["outcome"] == "committed"
    assert found() == before


def test_a_full_text_index_that_would_give_too_few(lake):
    """Without an index update nothing can be done about deleted rows: refused, with nothing left behind."""
    table = Indexed(lake, ("by_text",), enable_stable_row_ids=True)
    table.dataset.delete("id % 10 < 3")
    version, files = table.dataset.version, table.files("data")
    message = table.run("optimize", "--no-index-update").error(1)
    assert "by_text" in message and "anew" in message
    assert table.files("data") == files
    assert table.optimize()["outcome"] == "committed" and table.dataset.version > version


@pytest.mark.parametrize(
    "name, stable",
    [("by_text", False), ("by_text", True), ("by_vector", False), ("by_vector", True)],
    ids=["text", "text-stable-row-ids", "vector", "vector-stable-row-ids"],
)
def test_deleted_rows_take_no_place_among_the_best(lake, name, stable):
    table = Indexed(lake, (name,), enable_stable_row_ids=stable)
    query = {"full_text_query": "amber", "limit": 10}
    if name == "by_vector":
        query = {"nearest": {"column": "vector", "q": np.full(DIMENSIONS, 0.5, np.float32), "k": 10, "nprobes": 4}}

    def best() -> list[int]:
        rows = table.dataset.to_table(columns=["id"], disable_scoring_autoprojection=True, **query)
        return rows["id"].to_pylist()

    gone = best()[:6]
    table.dataset.delete(f"id IN ({', '.join(map(str, gone))})")
    before = best()
    assert len(before) == 10 and not set(gone) & set(before)
    table.optimize()
    after = best()
    assert len(after) == 10 and not set(gone) & set(after)
    if name == "by_vector":  # among texts there are ties
        assert after == before


def test_index_append_optimize(lake):
    """Some fragments are indexed and some are not: the indexes are brought to cover all of them first."""
    table = Indexed(lake)
    table.add()
    answers, before, since = table.answers(), table.rows(), table.dataset.version
    plan = table.ok("plan", "--target-rows-per-fragment", 1000)
    assert any("index" in note and "500" in note for note in plan["notes"]), plan["notes"]
    assert table.optimize()["rows"] == 2500
    # Ranks of a text depend on the corpus that an index knows; found is the same.
    scored = {at for at, (name, _) in enumerate(table.queries()) if name in ("by_text", "by_vector")}
    for at, (now, then) in enumerate(zip(table.answers(), answers, strict=True)):
        if at not in scored:
            assert now == then
    for found, right in zip(table.answers(), table.right_answers(), strict=True):
        assert right is None or [row[0] for row in found] == right
    table.check_used()
    assert table.rows() == before
    # Only what lacked rows was extended, nothing trained anew.
    assert table.created_indexes(since) <= {*table.names, *zone_map_names(table)}
    answers, since = table.answers(), table.dataset.version
    table.ok("set", "--version", 2)
    assert table.optimize()["outcome"] == "committed"
    table.check(answers, since=since)


def zone_map_names(table: LanceTable) -> set[str]:
    return {name for name, kind, *_ in table.indexes() if kind == "ZoneMap"}


def test_segments_of_an_index(lake):
    """Index, append, optimize_indices, append: segments that cover some of the fragments each."""
    table = Indexed(lake, ("by_id", "by_country", "by_tag", "by_text"))
    table.add()
    table.dataset.optimize.optimize_indices(num_indices_to_merge=0)
    table.add()
    before = table.rows()
    right = table.right_answers()
    assert table.optimize()["rows"] == 3000
    assert [[row[0] for row in found] for found in table.answers()] == right
    table.check_used()
    assert table.rows() == before
    table.check_no_leftovers()


def test_segments_of_a_vector_index(lake):
    table = Indexed(lake, ("by_vector",))
    table.add()
    table.dataset.optimize.optimize_indices(num_indices_to_merge=0)
    table.add()
    before = table.rows()
    assert table.optimize()["rows"] == 3000
    table.check_used()
    # What is nearest by the index is near by the vectors themselves.
    exact = 0
    for (_, query), found in zip(table.queries(), table.answers(), strict=True):
        nearest = query["nearest"] | {"use_index": False, "k": 40}
        near = set(table.dataset.to_table(columns=["id"], nearest=nearest)["id"].to_pylist())
        exact += len(near & {row[0] for row in found})
    assert exact >= 25
    assert table.rows() == before


def test_no_index_update_sorts_them_apart(lake):
    table = Indexed(lake, ("by_id", "by_text"))
    table.add()
    indexed, before, since = table.covered("by_id"), table.rows(), table.dataset.version
    right = table.right_answers()
    report = table.optimize("--no-index-update")
    assert report["outcome"] == "committed"
    assert not table.created_indexes(since) & set(table.names)
    assert table.rows() == before
    assert [[row[0] for row in found] for found in table.answers()] == right
    # What was indexed still is, and the rest still is not.
    covered = table.covered("by_id")
    fragments = table.fragment_rows()
    assert covered and not indexed & set(fragments)
    assert sum(fragments[fragment] for fragment in covered) == 2000
    assert sum(rows for fragment, rows in fragments.items() if fragment not in covered) == 500
    assert len(table.ok("cubes")["cubes"]) == 2
    table.check_no_leftovers()


def test_indexes_on_untouched_fragments_stay(lake):
    table = Indexed(lake, ("by_id",))
    table.optimize()
    full = set(table.fragment_rows())
    table.add()
    table.optimize()
    assert full < set(table.fragment_rows())
    right = table.right_answers()
    assert [[row[0] for row in found] for found in table.answers()] == right
    assert full <= table.covered("by_id")


def test_a_bloom_filter_is_refreshed_or_falls_back(lake):
    table = Indexed(lake, ("by_id",))
    table.dataset.create_scalar_index("user_id", "BLOOMFILTER", name="bloom")
    values = table.dataset.to_table(columns=["user_id"])["user_id"].drop_null().to_pylist()[::100]
    table.optimize()
    for value in values:
        condition = f"user_id = {value}"
        found = [
            table.dataset.to_table(columns=["id"], filter=condition, use_scalar_index=use) for use in (True, False)
        ]
        assert sorted(found[0]["id"].to_pylist()) == sorted(found[1]["id"].to_pylist()) != []


def test_an_ngram_index_follows_or_is_refused(lake):
    table = Indexed(lake, ("by_id",))
    table.dataset.create_scalar_index("text", "NGRAM", name="grams")
    condition = "contains(text, 'number77')"
    before = sorted(table.dataset.to_table(columns=["id"], filter=condition)["id"].to_pylist())
    assert before
    done = table.run("optimize", "--target-rows-per-fragment", 1000)
    if done.code != 0:
        assert "grams" in done.error(done.code)
    else:
        table.check_no_leftovers()
    assert sorted(table.dataset.to_table(columns=["id"], filter=condition)["id"].to_pylist()) == before


def test_a_fragment_reuse_index_is_refused(lake):
    table = Indexed(lake, ("by_id", "by_country", "by_tag", "by_text"))
    table.dataset.optimize.compact_files(target_rows_per_fragment=100_000, defer_index_remap=True)
    assert "__lance_frag_reuse" in {name for name, *_ in table.indexes()}
    table.add()
    before, version, files = table.rows(), table.dataset.version, table.files("")
    message = table.run("optimize", "--target-rows-per-fragment", 1000).error(1)
    assert "fragment-reuse" in message and "optimize_indices" in message and "drop" in message
    assert (table.dataset.version, table.files("")) == (version, files)
    # What it says to do.
    table.dataset.optimize.optimize_indices()
    table.dataset.drop_index("__lance_frag_reuse")
    right = table.right_answers()
    assert table.optimize()["outcome"] == "committed"
    assert table.rows() == before
    assert [[row[0] for row in found] for found in table.answers()] == right
    table.check_used()


# --- row ids


@pytest.mark.parametrize("indexed", [False, True], ids=["plain", "indexed"])
def test_stable_row_ids_and_versions_stay(lake, indexed):
    names = ("by_id", "by_vector") if indexed else ()
    table = Indexed(lake, names, enable_stable_row_ids=True)
    table.dataset.update({"amount": "amount + 1"}, where="id < 40")
    table.dataset.delete("id % 7 = 2")
    table.dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(
        indexed_rows(30, 1985)
    )
    table.next_id = 3000
    before, rows = seen_times(table.dataset), table.rows()
    assert len({seen[:2] for seen in before.values()}) > 3
    assert table.optimize()["rows"] == len(before)
    assert table.dataset.has_stable_row_ids
    assert seen_times(table.dataset) == before
    assert table.rows() == rows
    ids = {row: seen[2] for row, seen in before.items()}
    some = sorted(ids)[::97]
    taken = table.dataset._take_rows([ids[row] for row in some], columns=["id"])
    assert taken["id"].to_pylist() == some
    table.dataset.validate()

    # Rows that come later get ids of their own, and a second sort keeps all of them again.
    table.add()
    again = seen_times(table.dataset)
    assert {row: seen for row, seen in again.items() if row in before} == before
    assert len({seen[2] for seen in again.values()}) == len(again)
    table.optimize("--full")
    assert seen_times(table.dataset) == again


def test_row_ids_do_not_grow_without_bound(lake):
    """The sequence of a reordered fragment is at most some bytes a row, and does not grow from sort to sort."""
    table = LanceTable(lake, enable_stable_row_ids=True).grow(4)
    table.declare()

    def size() -> int:
        newest = max((table.path / "_versions").iterdir(), key=lambda path: path.stat().st_mtime_ns)
        return newest.stat().st_size

    table.optimize()
    first = size()
    assert first <= 64 * 1024 + 12 * 2000
    for version in range(2, 6):
        table.ok("set", "--version", version)
        assert table.optimize()["rows"] == 2000
    assert size() <= 1.5 * first


def test_datasets_without_stable_row_ids_stay_so(lake):
    table = LanceTable(lake).grow(3)
    table.ok("set", "--columns", ",".join(KEYS))
    table.optimize()
    assert not table.dataset.has_stable_row_ids
