"""The REST catalog of the tests is one: what PyIceberg does through it, DuckDB reads from the files."""

import pytest
from rest_tools import RestLake, RestServer
from thalweg_test_tools import EVENTS, arrow_rows, make_rows, rows_of

pytestmark = pytest.mark.jvm


def test_pyiceberg_and_duckdb_read_what_was_appended(rest_catalog):
    table = rest_catalog.make_table("events", EVENTS)
    written = [make_rows(100, 1), make_rows(100, 2)]
    for rows in written:
        table.append(rows)
    expected = arrow_rows(written[0]) + arrow_rows(written[1])
    assert arrow_rows(rest_catalog.table().scan().to_arrow()) == expected
    assert rows_of(rest_catalog.table()) == expected


def test_namespaces_are_fresh(rest_catalog, rest_server, tmp_path):
    rest_catalog.make_table("events", EVENTS)
    other = RestLake(tmp_path / "other", rest_server)
    assert other.catalog.list_tables(other.namespace) == []
    assert rest_catalog.address().startswith(f"lake.{rest_catalog.namespace}.")


def test_the_server_ends_with_its_input(tmp_path):
    server = RestServer(tmp_path / "server")
    assert RestLake(tmp_path / "lake", server).catalog.list_namespaces()
    server.process.stdin.close()
    assert server.process.wait(timeout=30) == 0
