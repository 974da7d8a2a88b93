"""Fixtures for tests that run the real program (see thalweg_test_tools)."""

import pytest
from thalweg_test_tools import PROGRAM, Lake


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
