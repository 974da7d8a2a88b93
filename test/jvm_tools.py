"""Where tools/jvm.sh put what the tests on the JVM need."""

import shutil
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "build" / "jvm"


def java() -> str:
    program = shutil.which("java")
    assert program, "there is no java: run tools/jvm.sh, or make test"
    return program


def class_path(name: str) -> str:
    """The jars and classes of test/jvm/NAME."""
    return prepared(f"{name}.classpath")


def prepared(name: str) -> str:
    path = FOLDER / name
    assert path.exists(), f"there is no {path}: run tools/jvm.sh, or make test"
    return path.read_text().strip()
