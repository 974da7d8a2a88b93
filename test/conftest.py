"""Fixtures for tests that run the real program (see thalweg_test_tools)."""

import signal
import sys

import pytest
from rest_tools import RestLake, RestServer
from spark_tools import sql_catalog, start_session
from thalweg_test_tools import BIN, PROGRAM, Lake

# A shell starts what it puts into the background with SIGINT ignored, and Python leaves it so.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, str(BIN.parent / "python"))  # the package `thalweg` of the build


@pytest.fixture
def lake(tmp_path):
    """A PyIceberg SQL catalog named "lake" in a folder of its own, which the program finds through the environment."""
    if not PROGRAM.exists():
        pytest.skip(f"{PROGRAM} is not built")
    return Lake(tmp_path / "lake")


@pytest.fixture
def events(lake):
    """A declared table of eight small files that all overlap."""
    return lake.make_events()


@pytest.fixture(scope="session")
def rest_server(tmp_path_factory):
    """A real REST catalog server, one for all tests."""
    server = RestServer(tmp_path_factory.mktemp("rest"))
    yield server
    server.stop()


@pytest.fixture
def rest_catalog(tmp_path, rest_server):
    """A REST catalog named "lake" with a namespace of its own, which the program finds through the environment."""
    return RestLake(tmp_path / "rest-lake", rest_server)


@pytest.fixture(scope="session")
def spark_session(tmp_path_factory):
    """One local Spark for all tests."""
    session = start_session(tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture
def spark(spark_session, lake):
    """The lake's catalog in Spark."""
    return sql_catalog(spark_session, lake)


@pytest.fixture(scope="session")
def s3_server():
    """An S3 server on the loopback."""
    from s3_tools import start_s3  # only here: what it imports takes a second

    server = start_s3()
    yield server
    server.stop()
