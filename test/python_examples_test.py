"""The examples for Python run as they are."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from thalweg_test_tools import BIN

EXAMPLES = Path(__file__).resolve().parent.parent / "examples" / "python"


@pytest.mark.parametrize("name", sorted(path.stem for path in EXAMPLES.glob("*.py")))
def test_example(name):
    environment = os.environ | {"PYTHONPATH": str(BIN.parent / "python")}
    command = [sys.executable, str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout
