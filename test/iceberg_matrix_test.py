"""Every kind of table x what optimize can do x who reads it: every reader sees the same rows before and after.

A kind that is not supported yet must be refused in one clean line, with nothing written. The results go into
build/reports/iceberg-matrix.json, from which tools/iceberg_matrix.py makes the table in docs/iceberg.md.
"""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from rest_tools import RestLake
from s3_tools import S3Lake, s3_catalog
from spark_tools import rest_catalog_of, sql_catalog
from table_kinds import KINDS, Known
from table_readers import READERS, multiset
from thalweg_test_tools import PROGRAM, Lake

pytestmark = pytest.mark.jvm

SUPPORTED = "supported"
# What the program does with each kind today: SUPPORTED, or the text with which it refuses one.
TODAY = dict.fromkeys(KINDS, SUPPORTED)
# What a reader cannot read of a kind as it was written; after optimize it must.
CANNOT = {
    ("equality deletes", "PyIceberg"): "does not read equality deletes",
    ("equality deletes and nulls", "PyIceberg"): "does not read equality deletes",
    ("equality deletes and nulls", "DuckDB"): "drops rows with a null in a column of equality deletes",
}
REPORT = Path(__file__).parents[1] / "build" / "reports" / "iceberg-matrix.json"
OPERATIONS = {
    "optimize --policy size": ("--policy", "size"),
    "optimize --policy overlap": ("--policy", "overlap"),
    "optimize --full": ("--full",),
}


@pytest.fixture(scope="module")
def report():
    """Rows of the report, written when the module is through; of kinds that did not run now the old ones stay."""
    rows = []
    yield rows
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    old = json.loads(REPORT.read_text()) if REPORT.exists() else []
    rows += [row for row in old if row["kind"] in KINDS and row["kind"] not in {row["kind"] for row in rows}]
    rows.sort(key=lambda row: list(KINDS).index(row["kind"]))
    REPORT.write_text(json.dumps(rows, indent=1) + "\n")


class Case:
    """One kind of table, made once, and looked at as several tables that begin with the same files."""

    def __init__(self, kind: str, lake: Lake, spark, report: list[dict]):
        self.kind, self.lake, self.spark, self.report = kind, lake, spark, report
        self.known: Known = KINDS[kind](lake, spark)
        self.expected = multiset(self.known.expected)
        self.begin = lake.table().metadata_location
        self.snapshot = lake.table().metadata.current_snapshot_id

    def copy(self, name: str) -> str:
        """Another table of the same metadata; its address."""
        self.lake.catalog.register_table((self.lake.namespace, name), self.begin)
        return self.lake.address(name)

    def declare(self, address: str):
        return self.lake.run("set", address, "--columns", self.known.keys)

    def row_ids(self, name: str) -> Counter | None:
        """What Spark says of the identity of each row."""
        if not self.known.lineage:
            return None
        return multiset(self.spark.read("*, _row_id, _last_updated_sequence_number", table=name))

    def read(self, operation: str, name: str) -> None:
        """Reads the table by every reader, compares, and reports."""
        for reader, read in READERS.items():
            reason = CANNOT.get((self.kind, reader)) if self.is_as_written(name) else None
            result, rows = "equal", None
            try:
                got = multiset(read(self.lake.table(name), self.spark, name))
            except Exception:
                if reason is None:
                    raise
                got = None
            if reason is not None:  # as long as it holds; else CANNOT is out of date
                assert got != self.expected, f"{reader} reads {self.kind} by now"
                result = f"cannot read: {reason}"
            else:
                assert got == self.expected, difference(self.kind, operation, reader, got, self.expected)
                rows = got.total()
            self.add(operation, reader, result, rows)

    def is_as_written(self, name: str) -> bool:
        return self.lake.table(name).metadata.current_snapshot_id == self.snapshot

    def add(self, operation: str, reader: str, result: str, rows: int | None) -> None:
        self.report.append(
            {"kind": self.kind, "operation": operation, "reader": reader, "result": result, "rows": rows}
        )

    def check_others(self, name: str) -> None:
        for ref, rows in self.known.others.items():
            found = self.spark.session.sql(f"SELECT * FROM {self.lake.address(name)} VERSION AS OF '{ref}'").toArrow()
            assert multiset(found) == multiset(rows), (self.kind, ref)


def difference(kind: str, operation: str, reader: str, got: Counter, expected: Counter) -> str:
    lost, more = expected - got, got - expected
    return f"{kind}, {operation}, {reader}: {lost.total()} lost {list(lost)[:2]}, {more.total()} new {list(more)[:2]}"


@pytest.fixture
def case(request, tmp_path, report, spark_session):
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is not built")
    kind, folder = request.param, tmp_path / "lake"
    if kind == "REST":
        lake = RestLake(folder, request.getfixturevalue("rest_server"))
        spark = rest_catalog_of(spark_session, lake)
    elif kind == "S3":
        lake = S3Lake(folder, request.getfixturevalue("s3_server"))
        spark = s3_catalog(spark_session, lake)
    else:
        lake = Lake(folder)
        spark = sql_catalog(spark_session, lake)
    return Case(kind, lake, spark, report)


def check_refused(case: Case, refusal: str) -> None:
    case.declare(case.lake.address())  # may be refused as well
    location, files = case.lake.table().metadata_location, case.lake.files()
    for operation, options in OPERATIONS.items():
        message = case.lake.run("optimize", case.lake.address(), *options).error()
        assert refusal in message
        assert case.lake.table().metadata_location == location
        assert case.lake.files() == files
        for reader in READERS:
            case.add(operation, reader, f"refused: {re.sub('file:/[^ ]*', '…', message)}", None)


@pytest.mark.parametrize("case", KINDS, indirect=True)
def test_rows_are_the_same_for_every_reader(case):
    case.read("as written", "events")
    refusal = TODAY[case.kind]
    if refusal != SUPPORTED:
        check_refused(case, refusal)
        case.read("after the refusal", "events")
        return
    for operation, options in OPERATIONS.items():
        name = options[-1].strip("-")
        address = case.copy(name)
        case.lake.ok("set", address, "--columns", case.known.keys)
        ids = case.row_ids(name)
        done = case.lake.ok("optimize", address, *options)
        assert done["outcome"] == "committed", done
        case.read(operation, name)
        check_row_ids(ids, case.row_ids(name))
        if operation.endswith("--full"):  # deletes of files that are no more go in the same commit
            assert case.spark.sql("SELECT count(*) FROM {t}.delete_files", name) == [(0,)]
        case.check_others(name)
        after, files = case.lake.table(name).metadata_location, case.lake.files()
        again = case.lake.ok("optimize", address, *options)
        assert again["outcome"] == "nothing-to-do" and again["reason"], again
        assert (case.lake.table(name).metadata_location, case.lake.files()) == (after, files)
        case.read(f"{operation}, again", name)


def check_row_ids(before: Counter | None, after: Counter | None) -> None:
    """Every row keeps its id and the number of its last update; one that had none yet gets them."""
    if before is None:
        return
    kept = Counter({key: count for key, count in before.items() if None not in key[1][-2:]})
    assert kept - after == Counter(), list((kept - after).items())[:3]
    ids = [row[-2] for _, row in after.elements()]
    assert len(set(ids)) == len(ids)


def test_the_table_of_kinds_is_whole():
    assert set(TODAY) == set(KINDS)
    assert {kind for kind, _ in CANNOT} <= set(KINDS)
